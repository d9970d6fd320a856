"""Templates for second-order parts: features from attributes of three words.

A part is an arc h -> m with the head g of h, or with the sibling s next to m on its inner side. After the last modifier
of h on a side there is one more part, with no word for m. A template names attributes of its words,
`g.upos h.upos m.lemma` or `s.upos m-1.upos m.upos`, as `spom.features.arc_sets` does for arcs. A row has a weight
for each of eight kinds of parts, which are directions and distances.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Ints, read_only
from spom.errors import DataError
from spom.features.arc_sets import COLUMNS
from spom.features.arc_spaces import TABLE, VECTOR
from spom.features.arcs import ArcTemplates

# The number of weights per row.
KINDS = 8
# The columns of the table of templates; those of the three words are consecutive.
SIBLING, SIDE, STRIDE, NONE, MASK, SALT, START = 0, 1, 4, 7, 10, 11, 12
FIELDS = 13
# Templates with at most this many values have a row per value; others share rows of a table by hashing.
EXACT_ROWS = 1 << 15
_ATOM = re.compile(r"([gshm])([-+][12])?\.(\w+)")

PARTS = (
    *("g.upos h.upos m.upos", "g.xpos h.xpos m.xpos", "g.lemma h.upos m.upos", "g.upos h.lemma m.upos"),
    *("g.upos h.upos m.lemma", "g.upos m.upos", "g.lemma m.upos", "g.upos m.lemma", "g.lemma m.lemma"),
    *("g.upos h.lemma m.lemma", "g.upos h.upos m.upos m+1.upos", "g.upos h.upos m-1.upos m.upos"),
    *("s.upos h.upos m.upos", "s.xpos h.xpos m.xpos", "s.lemma h.upos m.upos", "s.upos h.lemma m.upos"),
    *("s.upos h.upos m.lemma", "s.upos m.upos", "s.lemma m.upos", "s.upos m.lemma", "s.lemma m.lemma"),
    *("s.upos h.lemma m.lemma", "s.upos h.upos m.upos m+1.upos", "s.upos s+1.upos h.upos m.upos"),
)
# The columns that these templates read.
PART_COLUMNS = ("lemma", "upos", "xpos")


class PartTable(NamedTuple):
    """Templates as kernels take them: the sides' atoms as `arc_spaces.side_codes` reads them, and the table."""

    ends: Annotated[Ints, VECTOR]
    atoms: Annotated[Ints, TABLE]
    table: Annotated[Ints, TABLE]


@dataclass(frozen=True)
class PartTemplates:
    """Named templates for parts, over the columns and vocabularies of templates for arcs, and their weights' layout."""

    arcs: ArcTemplates
    names: tuple[str, ...] = PARTS

    @cached_property
    def compiled(self) -> PartTable:
        """The table for kernels."""
        return self._laid_out[0]

    @cached_property
    def size(self) -> int:
        """The number of weights."""
        return self._laid_out[1]

    @cached_property
    def _laid_out(self) -> tuple[PartTable, int]:
        index: dict[tuple[tuple[str, int], ...], int] = {}
        table, start = np.full((len(self.names), FIELDS), -1, dtype=np.int64), 0
        for entry, name in zip(table, self.names, strict=True):
            sides = parse_part(name, self.arcs.columns)
            values = [self._values(side) for side in sides]
            rows = values[0] * values[1] * values[2]
            exact = rows <= EXACT_ROWS
            rows = rows if exact else 1 << self.arcs.table_bits
            entry[SIBLING], entry[START] = "s" in name.split(".")[0], start
            entry[NONE : NONE + 3] = [value - 1 for value in values]
            entry[SIDE : SIDE + 3] = [index.setdefault(side, len(index)) if side else -1 for side in sides]
            entry[STRIDE : STRIDE + 3] = (values[1] * values[2], values[2], 1)
            entry[MASK] = (1 << 62) - 1 if exact else rows - 1
            # Hashed from the name, so that a template has the same rows in every set of templates.
            entry[SALT] = 0 if exact else 3 * zlib.crc32(name.encode()) + 1
            start += rows * KINDS
        columns = self.arcs.columns
        atoms = [(columns.index(c), hop, self.arcs.radix(c)) for side in index for c, hop in side]
        ends = np.cumsum([0, *(len(side) for side in index)]).astype(np.int64)
        packed = np.array(atoms, dtype=np.int64).reshape(-1, 3)
        return PartTable(read_only(ends), read_only(packed), read_only(table)), start

    def _values(self, side: tuple[tuple[str, int], ...]) -> int:
        product = 1
        for column, _ in side:
            product *= self.arcs.radix(column)
        return product


def parse_part(name: str, columns: Sequence[str] = COLUMNS) -> list[tuple[tuple[str, int], ...]]:
    """Return the atoms (column, offset) of the third word, of the head and of the modifier.

    >>> parse_part("g.upos h.upos m+1.lemma")
    [(('upos', 0),), (('upos', 0),), (('lemma', 1),)]
    """
    sides: dict[str, list[tuple[str, int]]] = {"third": [], "h": [], "m": []}
    thirds = set()
    for part in name.split():
        found = _ATOM.fullmatch(part)
        if found is None or found[3] not in columns:
            raise DataError(
                f"template {name!r}: {part!r} is no attribute of a part, such as g.upos, s.lemma or m+1.upos"
            )
        thirds |= {found[1]} & {"g", "s"}
        sides["third" if found[1] in "gs" else found[1]].append((found[3], int(found[2] or 0)))
    if len(thirds) != 1:
        raise DataError(f"template {name!r}: a part has a grandparent g or a sibling s, and one of them")
    return [tuple(side) for side in sides.values()]
