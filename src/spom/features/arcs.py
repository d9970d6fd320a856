"""Templates for arcs: which attributes of head, modifier and the words between them make a feature."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, under
from spom.data.columns import Columns
from spom.data.interning import Codes
from spom.data.treebank import Treebank
from spom.errors import DataError
from spom.features import arc_spaces as spaces
from spom.features.arc_sets import COLUMNS, SETS, Family, parse_template, template_name
from spom.features.streams import narrow
from spom.features.vocabulary import Vocabulary

# Families with at most this many values have one row per value; the values of others share rows by hashing.
EXACT_ROWS = 1 << 17
# The number of characters of a prefix or suffix.
AFFIX = 3
_KINDS = {"VERB": 1, "AUX": 1, "PUNCT": 2, "CCONJ": 4}


@dataclass(frozen=True)
class ArcCodes:
    """Sentences as codes: column c of word w (from 1; 0 is the root) of sentence s is codes[c, first[s] + w]."""

    codes: Codes
    kinds: Ints
    first: Ints
    sizes: Ints


@dataclass(frozen=True)
class ArcLayout:
    """The places of weights: `families` is the table for `arc_spaces`; the `rows` rows have `size` weights in all."""

    ends: Ints
    atoms: Ints
    families: Ints
    rows: int
    size: int
    columns: tuple[int, ...]

    @property
    def counts(self) -> list[int]:
        """The number of rows of each family."""
        found: list[int] = np.diff(np.append(self.families[:, spaces.BASE], self.rows)).tolist()
        return found

    def with_slots(self, active: NDArray[np.bool_]) -> ArcLayout:
        """Return the same rows with weights for these slots of each family."""
        families, start = self.families.copy(), 0
        for entry, slots, rows in zip(families, active, self.counts, strict=True):
            start = _place_slots(entry, slots, start, rows)
        return replace(self, families=families, size=start)


class ArcTemplates:
    """A set of named templates for arcs, grouped into families that share rows of weights.

    `templates` is `"compact"`, `"large"`, or names in the language of `spom.features.arc_sets`. They are sorted by
    name. Each family has a table of its own, so blocks never mix: one row per value if at most 131,072 values are
    possible, else 2^`table_bits` rows that values share by hashing. Words seen fewer than `min_count` times count as
    unknown, so that weights for unknown words are learnt.

    >>> templates = ArcTemplates(["h.upos m.upos dist", "h.upos m.upos", "h.lemma m.upos"])
    >>> templates.blocks
    ['h.lemma m.upos', 'h.upos m.upos', 'h.upos m.upos dist']
    >>> len(ArcTemplates("compact").blocks), len(ArcTemplates("large").blocks)
    (60, 447)
    """

    def __init__(self, templates: str | Iterable[str] = "compact", table_bits: int = 16, min_count: int = 2) -> None:
        if isinstance(templates, str):
            if templates not in SETS:
                raise DataError(f"there is no set of templates {templates!r}; the sets are: {', '.join(sorted(SETS))}")
            templates = SETS[templates]()
        if not 4 <= table_bits <= 24:
            raise ValueError(f"table_bits must be from 4 to 24; it is {table_bits!r}")
        self.table_bits, self.min_count = table_bits, min_count
        found: dict[str, tuple[Family, set[int]]] = {}
        for name in templates:
            family, slot = parse_template(name)
            found.setdefault(family.name, (family, set()))[1].add(slot)
        if not found:
            raise DataError("there are no templates: name at least one, such as 'h.upos m.upos dist'")
        self.families = [found[name][0] for name in sorted(found)]
        # True for those of the three slots of each family that are templates of this set.
        self.active = np.array([[slot in found[f.name][1] for slot in range(3)] for f in self.families])
        self.vocabularies: dict[str, Vocabulary] = {}
        read = {column for f in self.families for column, _ in (*f.head, *f.modifier)}
        self._read = read | {f.between for f in self.families}
        # Columns to read besides those of the templates, so that several sets can share codes.
        self.also: tuple[str, ...] = ()

    @property
    def blocks(self) -> list[str]:
        """The names of the templates: the blocks of a model."""
        return [template_name(self.families[f].name, slot) for f, slot in self.places]

    @property
    def places(self) -> list[tuple[int, int]]:
        """(family, slot) of each template."""
        return [(int(f), int(slot)) for f, slot in np.argwhere(self.active)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; upos is always one, for the filter of arcs."""
        used = {"upos", *self.also, *self._read}
        return tuple(name for name in COLUMNS if name in used)

    @property
    def guided(self) -> bool:
        """Whether a template looks at the tree of a first stage."""
        return any(family.guided for family in self.families)

    def keep(self, blocks: Sequence[int] | Ints) -> ArcTemplates:
        """Return the set of the templates with these indices, with the vocabularies learnt so far."""
        names = self.blocks
        kept = ArcTemplates(
            [names[k] for k in sorted(set(np.asarray(blocks).tolist()))], self.table_bits, self.min_count
        )
        kept.also = self.also
        kept.vocabularies = {name: self.vocabularies[name] for name in kept.columns if name in self.vocabularies}
        return kept

    def fit(self, bank: Treebank) -> ArcCodes:
        """Learn the codes of all columns from the words of a treebank, and return its sentences as codes."""
        self.learn(self.count(bank))
        return self.transform(bank)

    def count(self, bank: Treebank) -> dict[str, dict[str, int]]:
        """Count how many times each string of each column occurs, in order of first occurrence."""
        found = {}
        for name in self.columns:
            columns, k = _column(bank.columns, name)
            local, strings = columns.distinct(k)
            counts = np.bincount(local, minlength=len(strings)).tolist()
            found[name] = dict(zip(strings.tolist(), counts, strict=True))
        return found

    def learn(self, counts: dict[str, dict[str, int]]) -> None:
        """Give codes to the strings that occur often enough, most frequent first."""
        for name, found in counts.items():
            rare = self.min_count if name in ("form", "lower", "lemma") else 1
            ordered = sorted(found, key=lambda text: -found[text])
            self.vocabularies[name] = Vocabulary.from_strings([text for text in ordered if found[text] >= rare])

    def transform(self, bank: Treebank) -> ArcCodes:
        """Return sentences as codes: 0 for unknown strings, and one additional code for the root."""
        n, count = bank.n_words, len(bank)
        sizes = np.diff(bank.offsets)
        first = bank.offsets[:-1] + np.arange(count)
        words = np.arange(n) + np.repeat(np.arange(count), sizes) + 1
        codes = np.zeros((len(self.columns), n + count), dtype=np.int32)
        for c, name in enumerate(self.columns):
            vocabulary = self.vocabularies[name]
            codes[c, words] = vocabulary.encode(*_column(bank.columns, name))
            codes[c, first] = len(vocabulary) + 1
        kinds = np.zeros(n + count, dtype=np.int64)
        upos = self.vocabularies["upos"]
        table = np.zeros(len(upos) + 2, dtype=np.int64)
        for name, kind in _KINDS.items():
            table[upos.code(name)] = kind
        table[0] = 0
        kinds[:] = table[codes[self.columns.index("upos")]]
        return ArcCodes(codes, kinds, first, sizes)

    def radix(self, name: str) -> int:
        """Return the number of codes of a column: unknown, the known ones, the root, and no word at all."""
        return len(self.vocabularies[name]) + 3

    def layout(self, apart: bool = False) -> ArcLayout:
        """Place the weights of each family; needs the vocabularies.

        `apart` gives each template a table of its own, in which the slot is one more attribute. It is for callers whose
        rows hold something other than slots.
        """
        places = [(f, slot) for f, slot in self.places] if apart else [(f, 0) for f in range(len(self.families))]
        columns = self.columns
        index: dict[tuple[Any, ...], int] = {}
        table = np.full((len(places), spaces.FIELDS), -1, dtype=np.int64)
        base = start = 0
        for f, (which, slot) in enumerate(places):
            family = self.families[which]
            for side, atoms in enumerate((family.head, family.modifier)):
                if atoms:
                    table[f, side] = index.setdefault(atoms, len(index))
            table[f, spaces.PAIR] = family.pair
            if family.between:
                if apart:
                    raise DataError(f"template {family.name!r}: the words between make no template of this kind")
                table[f, spaces.SET] = columns.index(family.between)
            last = spaces.LENGTHS[slot] if apart else (self.radix(family.between) if family.between else 1)
            radices = [self._values(family.head), self._values(family.modifier), self._pairs(family), last]
            name = template_name(family.name, slot) if apart else family.name
            rows = self._entry(table[f], radices, base, name, 2 << self.table_bits if apart else EXACT_ROWS)
            base += rows
            if apart:
                table[f, spaces.SET] = slot
            else:
                start = _place_slots(table[f], self.active[which], start, rows)
        atoms_of = [(columns.index(c), hop, self.radix(c)) for side in index for c, hop in side]
        ends = np.cumsum([0, *(len(side) for side in index)]).astype(np.int64)
        return ArcLayout(ends, np.array(atoms_of, dtype=np.int64).reshape(-1, 3), table, base, start, self._sets())

    def _entry(self, entry: Ints, radices: list[int], base: int, name: str, most: int) -> int:
        """Fill the part of a family's entry that says where its rows are; return its number of rows."""
        # Python's integers: products of many attributes are large.
        rows = radices[0] * radices[1] * radices[2] * radices[3]
        exact = rows <= most
        if exact:
            strides = (rows // radices[0], rows // radices[0] // radices[1], radices[3], 1)
        else:
            rows, strides = 1 << self.table_bits, (1, 1, 0x61C88647, 0x2C1B3C6D)
        entry[spaces.BY_HEAD : spaces.BY_SET + 1] = strides
        entry[spaces.MASK], entry[spaces.BASE] = (1 << 62) - 1 if exact else rows - 1, base
        # Salted by the name, so that a family has the same rows in every set that contains it.
        entry[spaces.SALT] = 0 if exact else 2 * zlib.crc32(name.encode()) + 1
        return rows

    def _values(self, atoms: tuple[tuple[str, int], ...]) -> int:
        product = 1
        for column, _ in atoms:
            product *= self.radix(column)
        return product

    def _pairs(self, family: Family) -> int:
        sizes = {-1: 1, spaces.GAP: spaces.GAPS, spaces.SAME: spaces.SAMES}
        return sizes.get(family.pair, self.radix("upos") + 1)

    def _sets(self) -> tuple[int, ...]:
        return tuple(sorted({self.columns.index(f.between) for f in self.families if f.between}))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return names and vocabularies as arrays."""
        found: dict[str, NDArray[Any]] = {"names": np.frombuffer("\n".join(self.blocks).encode(), dtype=np.uint8)}
        found["also"] = np.array([name in self.columns for name in COLUMNS])
        found["numbers"] = np.array([self.table_bits, self.min_count], dtype=np.int64)
        for name, vocabulary in self.vocabularies.items():
            found.update({f"{name}.{key}": value for key, value in vocabulary.arrays().items()})
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> ArcTemplates:
        """Rebuild the templates from `arrays()`."""
        bits, least = (int(x) for x in arrays["numbers"])
        templates = cls(arrays["names"].tobytes().decode().split("\n"), bits, least)
        templates.also = tuple(name for name, used in zip(COLUMNS, arrays["also"], strict=True) if used)
        for name in templates.columns:
            templates.vocabularies[name] = Vocabulary.from_arrays(under(arrays, f"{name}."))
        return templates

    def __repr__(self) -> str:
        return f"ArcTemplates({len(self.blocks)} templates in {len(self.families)} families)"


def _place_slots(entry: Ints, active: NDArray[np.bool_], start: int, rows: int) -> int:
    """Place the slots of a family in its rows; return where the next family's weights may begin."""
    wide = 0
    for slot, length in enumerate(spaces.LENGTHS):
        entry[spaces.AT + slot] = wide if active[slot] else -1
        wide += length if active[slot] else 0
    # A power of two, so that no row spans two cache lines.
    wide = 1 << (wide - 1).bit_length()
    entry[spaces.START], entry[spaces.WIDE] = start, wide
    return start + -(-rows * wide // spaces.LINE) * spaces.LINE


def _column(columns: Columns, name: str) -> tuple[Columns, int]:
    """Return (columns, index) of a column as it is, or of one that is derived from the forms."""
    if name not in ("lower", "prefix", "suffix"):
        return columns, columns.column(name)
    k = columns.column("form")
    if name == "lower":
        local, strings = columns.distinct(k)
        lower = Columns.from_lists([[(text.lower(),) for text in strings.tolist()]], ["lower"])
        start, length, buffer = lower.start[local], lower.length[local], lower.buffer
    else:
        start, length, buffer = columns.start[:, [k]], columns.length[:, [k]], columns.buffer
        narrow(buffer, start[:, 0], length[:, 0], AFFIX, name == "suffix")
    return Columns(buffer, start, length, columns.offsets, (name,), columns.lines, columns.source), 0


def with_roots(heads: Ints, codes: ArcCodes) -> Ints:
    """Lay numbers of words out as the codes are: with a zero for the root of each sentence."""
    out = np.zeros(codes.codes.shape[1], dtype=np.int64)
    out[words_of(codes)] = heads
    return out


def words_of(codes: ArcCodes) -> Ints:
    """Return the place of each word in the layout of the codes."""
    total, count = int(codes.sizes.sum()), codes.first.size
    return np.arange(total) + np.repeat(np.arange(count), codes.sizes) + 1
