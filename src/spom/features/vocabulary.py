"""Strings and their codes, held only in arrays, so that opening a model builds no dictionary."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Ints
from spom.core.container import check_indices, check_offsets, take
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import BYTES, Bytes, Codes, distinct, hash_bytes, same_bytes
from spom.errors import ModelFileError

OFFSETS = "Array(int64, 1, 'C', readonly=True)"
LENGTHS = "Array(int32, 1, 'C', readonly=True)"
TABLE = "Array(int32, 1, 'C', readonly=True)"


class Vocabulary:
    """Codes 1, 2, ... of distinct strings in order of first occurrence; 0 stands for any other string.

    The string of code c is blob[offsets[c - 1] : offsets[c]] as UTF-8; `table` is an open-addressing table of codes.

    >>> words = Vocabulary.from_strings(["the", "cat"])
    >>> words.encode(Columns.from_lists([["the", "old", "cat"]]), 0)
    array([1, 0, 2], dtype=int32)
    >>> words[2], words.code("cat"), "old" in words, len(words)
    ('cat', 2, False, 2)
    """

    def __init__(self) -> None:
        self.blob: Bytes = np.empty(0, dtype=np.uint8)
        self.offsets: Ints = np.zeros(1, dtype=np.int64)
        self.table: Codes = np.zeros(16, dtype=np.int32)

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> Vocabulary:
        """Build the vocabulary of some strings; repeated strings have the code of the first."""
        vocabulary, flat = cls(), [[text] for text in strings]
        columns = Columns.from_lists([flat], ["text"])
        vocabulary.add(columns.buffer, columns.start[:, 0].copy(), columns.length[:, 0].copy())
        return vocabulary

    def encode(self, columns: Columns, k: int | str, grow: bool = False) -> Codes:
        """Return the code of each token in column k; new strings are added with `grow`, else their code is 0."""
        at = columns.column(k)
        local, first = distinct(columns.buffer, columns.start, columns.length, at)
        start, length = columns.start[first, at], columns.length[first, at]
        codes = self.add(columns.buffer, start, length) if grow else self.lookup(columns.buffer, start, length)
        return codes[local]

    def lookup(self, buffer: Bytes, start: Ints, length: Codes) -> Codes:
        """Return the codes of spans of a buffer of UTF-8, 0 for unknown strings."""
        codes = np.empty(start.size, dtype=np.int32)
        find_strings(buffer, start, length, self.blob, self.offsets, self.table, codes)
        return codes

    def add(self, buffer: Bytes, start: Ints, length: Codes) -> Codes:
        """Return the codes of spans of a buffer; unknown strings are added."""
        codes = self.lookup(buffer, start, length)
        unknown = np.flatnonzero(codes == 0)
        if unknown.size == 0:
            return codes
        same, first = distinct(buffer, start[unknown, None], length[unknown, None], 0)
        new = unknown[first]
        count = len(self)
        offsets = np.concatenate([self.offsets, np.empty(new.size, dtype=np.int64)])
        blob = np.concatenate([self.blob, np.empty(int(length[new].sum()), dtype=np.uint8)])
        size = self.table.size
        while size < 2 * (count + new.size):
            size *= 2
        table = np.zeros(size, dtype=np.int32)
        add_strings(buffer, start, length, new, Strings(blob, offsets, table), count, codes)
        self.blob, self.offsets, self.table = blob, offsets, table
        codes[unknown] = codes[new][same]
        return codes

    def code(self, text: str) -> int:
        """Return the code of a string, 0 if it is unknown."""
        raw = np.frombuffer(text.encode(), dtype=np.uint8)
        return int(self.lookup(raw, np.zeros(1, dtype=np.int64), np.array([raw.size], dtype=np.int32))[0])

    def __getitem__(self, code: int) -> str:
        if not 1 <= code <= len(self):
            raise IndexError(f"there are the codes 1 to {len(self)}, no {code}")
        return self.blob[self.offsets[code - 1] : self.offsets[code]].tobytes().decode("utf-8", "replace")

    def __contains__(self, text: str) -> bool:
        return self.code(text) != 0

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    def strings(self) -> list[str]:
        """Return all strings: that of code c is at c - 1."""
        raw, bounds = self.blob.tobytes(), self.offsets.tolist()
        return [raw[a:b].decode("utf-8", "replace") for a, b in itertools.pairwise(bounds)]

    def spans(self) -> tuple[Bytes, Ints, Codes]:
        """Return (blob, start, length) of all strings: that of code c is at c - 1."""
        return self.blob, self.offsets[:-1].copy(), np.diff(self.offsets).astype(np.int32)

    def subset(self, codes: Any) -> Vocabulary:
        """Return the vocabulary of some codes: the k-th of them, counted from 0, becomes k + 1."""
        chosen, kept = np.asarray(codes, dtype=np.int64) - 1, Vocabulary()
        blob, start, length = self.spans()
        kept.add(blob, start[chosen], length[chosen])
        return kept

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays: `blob`, `offsets`, `table`."""
        return {"blob": self.blob, "offsets": self.offsets, "table": self.table}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Vocabulary:
        """Rebuild from `arrays()`, which may be read-only and are not copied; damaged ones raise a `ModelFileError`."""
        vocabulary = cls()
        vocabulary.blob = np.ascontiguousarray(take(arrays, "blob", "u"), dtype=np.uint8)
        offsets = check_offsets(take(arrays, "offsets", "i"), vocabulary.blob.size, "offsets")
        vocabulary.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        table = check_indices(take(arrays, "table", "i"), len(vocabulary) + 1, "table")
        vocabulary.table = np.ascontiguousarray(table, dtype=np.int32)
        # A search ends at a free slot, and begins within a power of two.
        size = table.size
        if size == 0 or size & (size - 1) or not len(vocabulary) == np.count_nonzero(table) < size:
            raise ModelFileError("a table of strings is not whole: the file is damaged")
        return vocabulary

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} strings)"


@kernel(f"int64({BYTES}, int64, int64, {BYTES}, {OFFSETS}, {TABLE})")
def slot_of(buffer: Bytes, at: int, long: int, blob: Bytes, offsets: Ints, table: Codes) -> int:
    """Return the slot of a string, or the free slot where it would be inserted."""
    mask = table.size - 1
    slot: Any = np.int64((hash_bytes(buffer, at, long) >> np.uint64(20)) & np.uint64(mask))
    while True:
        code = table[slot]
        if code == 0:
            return int(slot)
        first = offsets[code - 1]
        if offsets[code] - first == long and same_bytes(blob, first, buffer, at, long):
            return int(slot)
        slot = (slot + 1) & mask


@kernel(f"void({BYTES}, {OFFSETS}, {LENGTHS}, {BYTES}, {OFFSETS}, {TABLE}, int32[::1])")
def find_strings(
    buffer: Bytes, start: Ints, length: Codes, blob: Bytes, offsets: Ints, table: Codes, codes: Codes
) -> None:
    """Write the code of each span to `codes`, 0 if it is unknown."""
    for i in range(start.size):
        codes[i] = table[slot_of(buffer, start[i], length[i], blob, offsets, table)]


class Strings(NamedTuple):
    """String c is blob[offsets[c - 1] : offsets[c]]; `table` is a hash table of codes."""

    blob: Annotated[Bytes, "uint8[::1]"]
    offsets: Annotated[Ints, "int64[::1]"]
    table: Annotated[Codes, "int32[::1]"]


@kernel(f"void({BYTES}, {OFFSETS}, {LENGTHS}, int64[::1], Strings, int64, int32[::1])")
def add_strings(
    buffer: Bytes, start: Ints, length: Codes, new: Ints, strings: Strings, count: int, codes: Codes
) -> None:
    """Fill an empty table with the first `count` strings, then with the spans `new`, which are distinct."""
    blob, offsets, table = strings
    for c in range(1, count + 1):
        at = offsets[c - 1]
        table[slot_of(blob, at, offsets[c] - at, blob, offsets, table)] = c
    for i in new:
        at, long = start[i], length[i]
        end = offsets[count]
        for k in range(long):
            blob[end + k] = buffer[at + k]
        slot = slot_of(buffer, at, long, blob, offsets, table)
        count += 1
        offsets[count] = end + long
        table[slot] = codes[i] = count
