"""Docstrings are plain text: `code` in backticks and examples apart, no character has a special meaning.

So that mathematics may be written as it is read at a prompt (norm2(w)^2, |x|, coef_, Omega*), what
reStructuredText would take for markup is escaped. A section is a title with a line of dashes below it; under
`Parameters` and `Attributes` an entry is `names : what they are`, with further lines indented; or names and a type
(or names alone), with all of what they are below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Code in backticks, with or without a role before it, stays as it is.
_CODE = re.compile(r"(:[a-z:]+:)?``.*?``|(:[a-z:]+:)?`[^`]*`")
_MARKUP = re.compile(r"(?<!\\)([*|]|(?<=\w)_(?!\w))")
_ENTRY = re.compile(r"(\w[\w, ]*?)(?: : (.*))?")
_LISTS = {"Parameters", "Attributes", "Returns"}


def plain(line: str) -> str:
    r"""The line with the special characters outside of `code` escaped.

    >>> plain("Omega* of `coef_` and coef_")
    'Omega\\* of `coef_` and coef\\_'
    """
    pieces, end = [], 0
    for code in _CODE.finditer(line):
        pieces += [_MARKUP.sub(r"\\\1", line[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*pieces, _MARKUP.sub(r"\\\1", line[end:])])


def convert(lines: list[str]) -> Iterator[str]:
    """The docstring as reStructuredText."""
    section, example = "", False
    for i, line in enumerate(lines):
        after = lines[i + 1].strip() if i + 1 < len(lines) else ""
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        entry = _ENTRY.fullmatch(line) if section in _LISTS else None
        below = i + 1 < len(lines) and lines[i + 1].startswith("    ")
        if line.strip() and after and set(after) == {"-"} and len(after) >= len(line.strip()):
            section = line.strip()
            yield from ("", f".. rubric:: {section}", "")
        elif section and line.strip() and set(line.strip()) == {"-"}:
            continue
        elif example:
            yield line
        elif entry and below and (entry[2] is None or _is_type(entry[2], after)):
            yield from ("", f"``{entry[1]}`` : {plain(entry[2])}" if entry[2] else f"``{entry[1]}``")
        elif entry and entry[2] is not None:
            yield from ("", f"``{entry[1]}``", f"    {plain(entry[2])}")
        else:
            yield plain(line)


def _is_type(text: str, after: str) -> bool:
    """Whether `names : text` ends here, because what follows is a sentence of its own."""
    return text[-1:] not in ",;:." and (after[:1].isupper() or after[:1] == '"')


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = list(convert(lines))


def _signature(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, result: str) -> Any:
    """Names of types as they stand in the code."""
    shown = [re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text or "") for text in (signature, result)]
    return tuple(text or None for text in shown)


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """scikit-learn gives estimators methods of its own for the routing of metadata; they are described there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> dict[str, bool]:
    """Register them."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
