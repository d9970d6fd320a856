"""Streams of codes: each column that templates read, and what is derived from it, as integers with boundary markers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import Codes, distinct
from spom.errors import DataError
from spom.features.atoms import Stream
from spom.features.clusters import Clusters
from spom.features.derive import Spans, derived
from spom.features.vocabulary import Vocabulary
from spom.models.checks import check_indices, check_shape, take

Padded = NDArray[np.int32]


class Coder:
    """The values of streams as codes: 0 unknown, 1 to 2 reach the markers beyond a sentence, then the strings.

    A string is derived from a word once: for known words the codes are kept by word (`maps`), for the distinct unknown
    words of a call they are computed there, so that the suffix of a new word is known where the suffix is.
    """

    def __init__(self, streams: tuple[Stream, ...], reach: int, boundaries: bool, clusters: Clusters | None) -> None:
        self.streams, self.reach, self.boundaries, self.clusters = streams, reach, boundaries, clusters
        self.words: dict[int | str, Vocabulary] = {}
        self.values: dict[Stream, Vocabulary] = {}
        self.maps: dict[Stream, Codes] = {}

    @property
    def sizes(self) -> list[int]:
        """How many codes each stream may have, that of the unknown included."""
        return [2 * self.reach + 1 + len(self.values[stream]) for stream in self.streams]

    def fit(self, columns: Columns) -> Padded:
        """Learn the strings of `columns`, and give their codes as `transform` does."""
        self.words, self.values, self.maps = {stream.column: Vocabulary() for stream in self.streams}, {}, {}
        return self._padded(columns, grow=True)

    def transform(self, columns: Columns) -> Padded:
        """One row of codes a stream, sentence after sentence, each with `reach` markers before and after it."""
        return self._padded(columns, grow=False)

    def _padded(self, columns: Columns, grow: bool) -> Padded:
        out = np.empty((len(self.streams), columns.n_tokens + 2 * self.reach * len(columns)), dtype=np.int32)
        offsets = np.ascontiguousarray(columns.offsets)
        for column in self.words:
            mine = [(k, stream) for k, stream in enumerate(self.streams) if stream.column == column]
            at = resolved(columns, mine[0][1])
            local, first = distinct(columns.buffer, columns.start, columns.length, at)
            spans = Spans(columns.buffer, columns.start[first, at], columns.length[first, at])
            words = self.words[column].add(*spans) if grow else self.words[column].lookup(*spans)
            unknown = np.flatnonzero(words == 0)
            for k, stream in mine:
                if grow:
                    self._learn(stream)
                codes = self._codes(stream, spans, words, unknown)
                pad(local, codes, offsets, self.reach, self.boundaries, out[k])
        return out

    def _learn(self, stream: Stream) -> None:
        """The strings that a stream derives from the words of its column."""
        words = self.words[stream.column]
        if not stream.steps:
            self.values[stream] = words
            return
        found, values = derived(Spans(*words.spans()), stream.steps, self.clusters), Vocabulary()
        codes, there = np.zeros(len(words) + 1, dtype=np.int32), np.flatnonzero(found.length >= 0)
        codes[there + 1] = values.add(found.buffer, found.start[there], found.length[there])
        self.values[stream], self.maps[stream] = values, codes

    def _codes(self, stream: Stream, spans: Spans, words: Codes, unknown: Ints) -> Codes:
        """The vocabulary's code of each of some strings; `words` are those of the column, 0 for the `unknown` ones."""
        codes = words
        if stream.steps:
            codes = self.maps[stream][words]
            if unknown.size:
                new = Spans(spans.buffer, spans.start[unknown], spans.length[unknown])
                found = derived(new, stream.steps, self.clusters)
                code = self.values[stream].lookup(found.buffer, found.start, np.maximum(found.length, 0))
                code[found.length < 0] = 0
                codes[unknown] = code
        return codes

    def only(self, kept: list[int], used: list[Ints]) -> Coder:
        """A coder of some streams, and of the strings `used` (sorted codes of its vocabulary) of each.

        Words that no kept template asks for by themselves are forgotten; what is derived from them is computed again.
        """
        streams = tuple(self.streams[k] for k in kept)
        coder = Coder(streams, self.reach, self.boundaries, self.clusters)
        words: dict[int | str, Ints] = {}
        for column in dict.fromkeys(stream.column for stream in streams):
            itself = Stream(column)
            words[column] = used[streams.index(itself)] if itself in streams else np.empty(0, dtype=np.int64)
            coder.words[column] = self.words[column].subset(words[column])
        for k, stream in enumerate(streams):
            if not stream.steps:
                coder.values[stream] = coder.words[stream.column]
                continue
            codes = used[k]
            coder.values[stream] = self.values[stream].subset(codes)
            renumber = np.zeros(len(self.values[stream]) + 1, dtype=np.int32)
            renumber[codes] = np.arange(1, codes.size + 1)
            kept_words = np.concatenate([[0], words[stream.column]])
            coder.maps[stream] = renumber[self.maps[stream][kept_words]]
        return coder

    def string(self, k: int, code: int) -> str:
        """What a code of stream k stands for."""
        if code > 2 * self.reach:
            return self.values[self.streams[k]][code - 2 * self.reach]
        return f"_B-{code}" if code <= self.reach else f"_B+{code - self.reach}"

    def arrays(self) -> dict[str, Any]:
        """Everything as arrays."""
        out: dict[str, Any] = {}
        for column, words in self.words.items():
            out.update({f"words.{column}.{key}": value for key, value in words.arrays().items()})
        for stream in self.streams:
            if stream.steps:
                out.update({f"values.{stream}.{key}": value for key, value in self.values[stream].arrays().items()})
                out[f"maps.{stream}"] = self.maps[stream]
        if self.clusters is not None:
            out.update({f"clusters.{key}": value for key, value in self.clusters.arrays().items()})
        return out

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take what `arrays()` gave."""

        def part(prefix: str) -> dict[str, Any]:
            return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}

        for stream in self.streams:
            if stream.column not in self.words:
                self.words[stream.column] = Vocabulary.from_arrays(part(f"words.{stream.column}."))
            if stream.steps:
                self.values[stream] = Vocabulary.from_arrays(part(f"values.{stream}."))
                name = f"maps.{stream}"
                codes = check_indices(take(arrays, name, "i"), len(self.values[stream]) + 1, name)
                check_shape(codes, (len(self.words[stream.column]) + 1,), name)
                self.maps[stream] = np.ascontiguousarray(codes, dtype=np.int32)
            else:
                self.values[stream] = self.words[stream.column]


def resolved(columns: Columns, stream: Stream) -> int:
    """The column that a stream reads, or an error that names what asks for it; without tokens any column will do."""
    if columns.n_tokens == 0:
        return 0
    try:
        return columns.column(stream.column)
    except DataError as error:
        raise DataError(f"a template reads {stream}, but {error.what}", error.source) from None


@kernel("void(int32[::1], int32[::1], int64[::1], int64, boolean, int32[::1])")
def pad(local: Codes, codes: Codes, offsets: Ints, reach: int, boundaries: bool, out: Codes) -> None:
    """out = markers, shifted codes[local], markers of each sentence; at distance j it is j before, reach + j after."""
    p = 0
    for i in range(offsets.size - 1):
        for j in range(reach, 0, -1):
            out[p] = j if boundaries else 0
            p += 1
        for t in range(offsets[i], offsets[i + 1]):
            code = codes[local[t]]
            out[p] = code + 2 * reach if code > 0 else 0
            p += 1
        for j in range(1, reach + 1):
            out[p] = reach + j if boundaries else 0
            p += 1
