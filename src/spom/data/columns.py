"""Tokens in columns, kept as positions in one buffer of bytes: no Python string is made until one is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of
from spom.data.interning import Bytes, Codes, distinct
from spom.errors import DataError

# Names that are commonly given to the columns of words and of tags, in the order in which they are looked for.
SYNONYMS = {
    "w": (("w", "word", "form", "token", "text"), 0),
    "pos": (("pos", "upos", "tag", "xpos"), 1),
}


def default_names(count: int) -> tuple[str, ...]:
    """w, pos, c2, c3, ...: what columns are called where nothing else is said."""
    return ("w", "pos", *(f"c{k}" for k in range(2, count)))[:count]


@dataclass(frozen=True)
class Columns:
    """Sentences of tokens with c fields each: field k of token t is buffer[start[t, k] : start[t, k] + length[t, k]].

    Sentence i has the tokens offsets[i] to offsets[i + 1] - 1. `lines` has the line of each token in `source`, from 1.
    An integer index gives a sentence as a list of tuples of strings; a slice or an array of indices gives `Columns`.

    >>> columns = Columns.from_lists([[("The", "DT"), ("cat", "NN")], [("Yes", "UH")]])
    >>> columns
    Columns(2 sentences, 3 tokens, columns w, pos)
    >>> columns[0]
    [('The', 'DT'), ('cat', 'NN')]
    >>> columns[1:].strings("pos")
    [['UH']]
    """

    buffer: Bytes
    start: Ints
    length: Codes
    offsets: Ints
    names: tuple[str, ...]
    lines: Ints
    source: str = ""

    @classmethod
    def from_lists(
        cls, sentences: Iterable[Iterable[str | Sequence[str]]], names: Sequence[str] | None = None, source: str = ""
    ) -> Columns:
        """Columns of sentences, which are lists of tokens; a token is a string, or one string per column."""
        flat: list[str] = []
        sizes: list[int] = []
        width = None if names is None else len(names)
        for i, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise DataError(f"sentence {i} is a string; expected a list of tokens", source or None)
            size = 0
            for token in sentence:
                fields = (token,) if isinstance(token, str) else token
                if width is None:
                    width = len(fields)
                if len(fields) != width:
                    raise DataError(f"sentence {i}, token {size}: expected {width} columns, found {len(fields)}")
                flat.extend(fields)
                size += 1
            sizes.append(size)
        width = 1 if width is None else width
        n = sum(sizes)
        buffer, start, length = packed_strings(flat)
        return cls(
            buffer,
            start.reshape(n, width),
            length.reshape(n, width),
            offsets_of(sizes),
            default_names(width) if names is None else tuple(names),
            np.arange(1, n + 1),
            source,
        )

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.start.shape[0])

    @property
    def n_columns(self) -> int:
        """The number of fields of each token."""
        return int(self.start.shape[1])

    def column(self, which: int | str) -> int:
        """The index of a column given by its index (negative ones from the end), or by its name.

        `"w"` and `"pos"` also find the usual names of words and tags (form, upos, ...), else the first two columns.
        """
        if isinstance(which, str):
            if which in self.names:
                return self.names.index(which)
            known, position = SYNONYMS.get(which, ((), -1))
            lower = [name.lower() for name in self.names]
            for name in known:
                if name in lower:
                    return lower.index(name)
            if 0 <= position < self.n_columns:
                return position
        elif -self.n_columns <= which < self.n_columns:
            return int(which) % self.n_columns
        raise DataError(
            f"there is no column {which!r}; there are {self.n_columns}: {', '.join(self.names)}", self.source or None
        )

    def select(self, columns: Sequence[int | str]) -> Columns:
        """The same sentences with some of the columns."""
        index = [self.column(which) for which in columns]
        names = tuple(self.names[k] for k in index)
        start, length = self.start[:, index], self.length[:, index]
        return Columns(self.buffer, start, length, self.offsets, names, self.lines, self.source)

    def distinct(self, which: int | str) -> tuple[Codes, NDArray[np.object_]]:
        """(a code from 0 on for each token; the string of each code) of a column, in order of first occurrence."""
        k = self.column(which)
        codes, first = distinct(self.buffer, self.start, self.length, k)
        raw = self.buffer.data
        strings = np.empty(first.size, dtype=object)
        for c, t in enumerate(first.tolist()):
            at = self.start[t, k]
            strings[c] = str(raw[at : at + self.length[t, k]], "utf-8")
        return codes, strings

    def strings(self, which: int | str) -> list[list[str]]:
        """A column as a list of lists of strings, one list per sentence."""
        codes, strings = self.distinct(which)
        flat: list[str] = strings[codes].tolist()
        bounds = self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(bounds)]

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, ...]]: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> Columns: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"there are {len(self)} sentences, no {index}")
            return self._sentence(int(index) % len(self))
        if isinstance(index, slice):
            if index.step in (None, 1):
                first, last, _ = index.indices(len(self))
                return self._range(first, max(first, last))
            index = np.arange(len(self))[index]
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = np.where(index < 0, index + len(self), index).astype(np.int64)
        if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
            return self._range(int(index[0]), int(index[0]) + index.size)
        tokens, offsets = gather(self.offsets, index)
        return Columns(
            self.buffer, self.start[tokens], self.length[tokens], offsets, self.names, self.lines[tokens], self.source
        )

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return (self._sentence(i) for i in range(len(self)))

    def __repr__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        return f"Columns({len(self)} sentences, {self.n_tokens} tokens, columns {', '.join(self.names)}{where})"

    def _sentence(self, i: int) -> list[tuple[str, ...]]:
        raw, rows = self.buffer.data, range(int(self.offsets[i]), int(self.offsets[i + 1]))
        spans = [zip(self.start[t].tolist(), self.length[t].tolist(), strict=True) for t in rows]
        return [tuple(str(raw[at : at + long], "utf-8") for at, long in token) for token in spans]

    def _range(self, first: int, last: int) -> Columns:
        if last > len(self):
            raise IndexError(f"there are {len(self)} sentences, no {last - 1}")
        a, b = int(self.offsets[first]), int(self.offsets[last])
        offsets = self.offsets[first : last + 1] - a
        return Columns(
            self.buffer, self.start[a:b], self.length[a:b], offsets, self.names, self.lines[a:b], self.source
        )


def gather(offsets: Ints, index: Ints) -> tuple[Ints, Ints]:
    """(the tokens of the sentences in `index`, in that order; their new offsets)."""
    sizes = np.diff(offsets)[index]
    found = offsets_of(sizes)
    tokens = np.arange(found[-1]) + np.repeat(offsets[index] - found[:-1], sizes)
    return tokens, found


def joined(parts: Sequence[Columns], source: str = "") -> Columns:
    """The sentences of several `Columns` with the same columns; parts of one text share it."""
    if len({part.names for part in parts}) != 1:
        raise DataError(f"expected parts with the same columns, found {[part.names for part in parts]}")
    one = all(part.buffer is parts[0].buffer for part in parts)
    bytes_before = np.cumsum([0, *(0 if one else part.buffer.size for part in parts)])
    tokens_before = np.cumsum([0, *(part.n_tokens for part in parts)])
    shifted = [part.offsets[1:] + before for part, before in zip(parts, tokens_before[:-1], strict=True)]
    return Columns(
        parts[0].buffer if one else np.concatenate([part.buffer for part in parts]),
        np.concatenate([part.start + before for part, before in zip(parts, bytes_before[:-1], strict=True)]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([np.zeros(1, dtype=np.int64), *shifted]),
        parts[0].names,
        np.concatenate([part.lines for part in parts]),
        source,
    )


def packed_strings(flat: list[str]) -> tuple[Bytes, Ints, Codes]:
    """(the strings one after another as UTF-8, where each starts, how many bytes it has)."""
    try:
        blob = "".join(flat).encode()
        length = np.fromiter(map(len, flat), dtype=np.int32, count=len(flat))
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"expected tokens as strings ({error})") from None
    buffer, ends = np.frombuffer(blob, dtype=np.uint8), np.cumsum(length, dtype=np.int64)
    if ends.size and ends[-1] != buffer.size:
        # Characters of several bytes: where each character begins says where strings end.
        begins = np.append(np.flatnonzero((buffer & 0xC0) != 0x80), buffer.size)
        ends = begins[ends]
        length = np.diff(ends, prepend=0).astype(np.int32)
    return buffer, ends - length, length
