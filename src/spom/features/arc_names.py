"""The language of templates for arcs: `h.form m-1.upos m.upos dist`.

A template is a list of attributes, separated by spaces:

- `h.COLUMN`, `m.COLUMN`: of the head, of the modifier. `h-1.`, `m+2.`: of a neighbour, up to two words away. `h^.`,
  `h^^.`, `h<.`, `h>.`: of its head, of its head's head, of its first child on the left, of its last on the right, in
  the tree that a first stage found.
- `between.COLUMN`: of the words between, each distinct value once.
- `gap`: how many verbs, punctuation marks and conjunctions are between (up to 3, 2, 1). `same`: whether the first
  stage has this arc, or its reverse. `sibling.upos`, `beyond.upos`: the head's nearest child in that tree, inside and
  outside of the modifier.
- at the end `dir` (direction) or `dist` (direction and distance, in bins 1, 2, 3, 4-6, 7-11, 12 or more), or neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spom.errors import DataError
from spom.features import arc_spaces as spaces

COLUMNS = ("form", "lower", "lemma", "upos", "xpos", "feats", "prefix", "suffix")
_HOPS = {
    "-2": -2,
    "-1": -1,
    "": 0,
    "+1": 1,
    "+2": 2,
    "^": spaces.GUIDE_HEAD,
    "^^": spaces.GUIDE_GRANDPARENT,
    "<": spaces.GUIDE_LEFT,
    ">": spaces.GUIDE_RIGHT,
}
_PAIRS = {"gap": spaces.GAP, "same": spaces.SAME, "sibling.upos": spaces.SIBLING, "beyond.upos": spaces.BEYOND}
_ATOM = re.compile(r"(h|m)([-+]\d|\^{1,2}|<|>)?\.(\w+)")
SLOTS = ("", "dir", "dist")

Atom = tuple[str, int]


@dataclass(frozen=True)
class Family:
    """The attributes of head, modifier and pair that up to three templates share; `name` is the one without slot."""

    name: str
    head: tuple[Atom, ...]
    modifier: tuple[Atom, ...]
    pair: int = -1
    between: str = ""

    @property
    def guided(self) -> bool:
        """Whether a tree of a first stage is needed."""
        return self.pair > spaces.GAP or any(hop >= spaces.GUIDE_HEAD for _, hop in (*self.head, *self.modifier))


def parse_template(name: str) -> tuple[Family, int]:
    """The family and the slot (0 none, 1 direction, 2 distance) of a template.

    >>> family, slot = parse_template("h.form m-1.upos m.upos dist")
    >>> family.modifier, slot
    ((('upos', -1), ('upos', 0)), 2)
    """
    parts = name.split()
    slot = SLOTS.index(parts[-1]) if parts and parts[-1] in SLOTS else 0
    words = parts[:-1] if slot else parts
    sides: dict[str, list[Atom]] = {"h": [], "m": []}
    pair, between = -1, ""
    for part in words:
        found = _ATOM.fullmatch(part)
        column = found[3] if found else part.removeprefix("between.")
        if part in _PAIRS and pair < 0:
            pair = _PAIRS[part]
        elif part.startswith("between.") and not between and column in COLUMNS:
            between = column
        elif found and (found[2] or "") in _HOPS and column in COLUMNS:
            sides[found[1]].append((column, _HOPS[found[2] or ""]))
        else:
            raise DataError(
                f"template {name!r}: {part!r} is no attribute of an arc; attributes are such as h.form, m-1.upos, "
                f"between.upos, gap, with the columns {', '.join(COLUMNS)}"
            )
    if not words:
        raise DataError(f"template {name!r} names no attribute of an arc, such as h.upos")
    return Family(" ".join(words), tuple(sides["h"]), tuple(sides["m"]), pair, between), slot


def template_name(family: str, slot: int) -> str:
    """The name of a template: that of its family, and its slot."""
    return f"{family} {SLOTS[slot]}".strip()
