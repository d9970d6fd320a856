"""Reading template files: those of CRF++ as they are, and plain lists of templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spom.data.opening import read_all
from spom.errors import DataError, Unsupported
from spom.features.atoms import Stream, Template

_MACRO = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")


def read_templates(source: str | Path | Any) -> tuple[list[Template], bool | None]:
    """(the templates of a file, whether it asks for label bigrams: None where it cannot say).

    A file whose lines begin with U or B and have macros such as %x[-1,0] is one of CRF++: `%x[row,column]` is the field
    of the token at that distance, `B` alone asks for transitions. Any other file has one template a line, such as
    `w[-1]|w[0]`. Lines that begin with # are comments.
    """
    name, content = read_all(source)
    lines = [(n, line.strip()) for n, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1)]
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
    # Text between macros is part of CRF++'s features: it keeps templates of one name apart.
    words = re.sub(r"[^\w]+", "_", "_".join(literals)).strip("_")
    return Template(f"{name}.{words}" if words else name, atoms)
