"""Ready sets of templates by name, and template files: plain lists, and those of CRF++."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spom.data.opening import read_all
from spom.errors import DataError, Unsupported
from spom.features.streams import Stream, Template


def _window(column: str, reach: int) -> list[str]:
    return [f"{column}[{offset}]" for offset in range(-reach, reach + 1)]


def _grams(column: str, length: int, reach: int) -> list[str]:
    """Return all runs of `length` neighbours within `reach` of the token."""
    starts = range(-reach, reach - length + 2)
    return ["|".join(f"{column}[{first + k}]" for k in range(length)) for first in starts]


def _affixes(column: str, longest: int) -> list[str]:
    return [f"{column}.{side}{k}[0]" for side in ("prefix", "suffix") for k in range(1, longest + 1)]


# Words and tags in a window of two with their bigrams and trigrams: the 19 templates of CRFsuite's chunking tutorial.
_CHUNKING = [
    *_window("w", 2),
    *_grams("w", 2, 1),
    *_window("pos", 2),
    *_grams("pos", 2, 2),
    *_grams("pos", 3, 2),
]
# These were chosen on the development parts of 19 taggings of 12 languages (see the guide's page on tagging):
# lower-case affixes of up to six characters beat up to four by .003 on tags and .002 on entities; five are as good.
_POS = [
    *_window("w", 2),
    "w.lower[0]",
    *_affixes("w.lower", 6),
    "w.shape[0]",
    *_grams("w", 2, 1),
]
_ENTITIES = [
    *_window("w", 2),
    *(f"w.lower[{k}]" for k in (-1, 0, 1)),
    *_affixes("w.lower", 6),
    *(f"w.lower.suffix{length}[{k}]" for k in (-1, 1) for length in (2, 3)),
    *(f"w.shape[{k}]" for k in (-2, -1, 0, 1, 2)),
    "w.shape[-1]|w.shape[0]",
    "w.shape[0]|w.shape[1]",
    "w.shape[-1]|w.shape[0]|w.shape[1]",
    "w.case[-1]|w.case[0]|w.case[1]",
    "w.digit[0]",
    "w.length[0]",
    *_grams("w", 2, 1),
    "w[-1]|w.shape[0]",
    "w.shape[0]|w[1]",
]
_TAGS = [*_window("pos", 2), *_grams("pos", 2, 2), *_grams("pos", 3, 2)]

SETS: dict[str, list[str]] = {"chunking": _CHUNKING, "pos": _POS, "entities": _ENTITIES, "tags": _TAGS}


def ready(name: str) -> list[Template]:
    """Return a set of templates: `"chunking"` (words and tags), `"pos"` or `"entities"` (words), `"tags"` (only tags).

    >>> [template.name for template in ready("chunking")][5:8]
    ['w[-1]|w[0]', 'w[0]|w[1]', 'pos[-2]']
    """
    if name not in SETS:
        raise Unsupported(f"no set of templates and no file is named {name!r}; available sets: {', '.join(SETS)}")
    return [Template.parse(text) for text in SETS[name]]


_MACRO = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")


def read_templates(source: str | Path | Any) -> tuple[list[Template], bool | None]:
    """Return (the templates of a file, whether it asks for label bigrams: None if the format cannot say).

    A file whose lines begin with U or B and have macros such as %x[-1,0] is one of CRF++: `%x[row,column]` is the field
    of the token at that distance, and `B` alone asks for transitions. Any other file has one template per line, such
    as `w[-1]|w[0]`. Lines that begin with # are comments.
    """
    name, content = read_all(source)
    lines = [(n, line.strip()) for n, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
    if not lines:
        raise DataError("expected templates, found none", name)
    crfpp = any(_MACRO.search(line) for _, line in lines) or any(line == "B" for _, line in lines)
    templates, bigrams = [], False
    for number, line in lines:
        try:
            if crfpp and line.startswith("B"):
                if line.partition(":")[2].strip():
                    raise Unsupported(
                        "label bigrams that depend on tokens are not supported; B alone is, and U templates"
                    )
                bigrams = True
            else:
                templates.append(_crfpp(line) if crfpp else Template.parse(line))
        except (DataError, Unsupported) as error:
            raise DataError(str(error), name, number) from None
    return templates, bigrams if crfpp else None


def _crfpp(line: str) -> Template:
    if not line.startswith("U"):
        raise DataError(f"expected a template that begins with U or B, found {line!r}")
    name, _, body = line.partition(":")
    literals = _MACRO.split(body)[::3]
    if "%x" in "".join(literals):
        raise DataError(f"expected macros %x[row,column], found {line!r}")
    atoms = tuple((Stream(int(column)), int(row)) for row, column in _MACRO.findall(body))
    # Text between macros is part of CRF++'s features: it distinguishes templates of the same name.
    words = re.sub(r"[^\w]+", "_", "_".join(literals)).strip("_")
    return Template(f"{name}.{words}" if words else name, atoms)
