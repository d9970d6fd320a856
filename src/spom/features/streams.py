"""Templates as text, and the streams of codes that they read: columns and what is derived from them, as integers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, under
from spom.core.container import check_indices, check_shape, take
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import Codes, distinct
from spom.errors import DataError
from spom.features.clusters import Clusters
from spom.features.derive import Spans, derived
from spom.features.vocabulary import Vocabulary

_ATOM = re.compile(r"(?P<column>[^\[\]|.:\s]+)(?P<steps>(\.[a-z]+\d*)*)\[(?P<offset>[+-]?\d+)\]")


@dataclass(frozen=True)
class Stream:
    """A column of tokens, or what is derived from it by one step after another: `w`, `w.lower`, `w.lower.suffix3`."""

    column: int | str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((str(self.column), *self.steps))


@dataclass(frozen=True)
class Template:
    """A conjunction of (stream, offset): one feature for each combination of values that occurs.

    Templates of the same name over the same streams at other offsets share their features, as a bag of words does.

    >>> Template.parse("w[-1]|pos.lower[0]")
    Template(w[-1]|pos.lower[0])
    >>> Template.parse("near: w[-2]").name
    'near'
    """

    name: str
    atoms: tuple[tuple[Stream, int], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template of `[name:] column[.step...][offset] | ...`; without a name its text is its name."""
        name, colon, rest = text.partition(":")
        body = (rest if colon else text).strip()
        # A name alone is a template without atoms: one feature that every token has.
        atoms = tuple(_atom(part.strip(), text) for part in body.split("|")) if body or not colon else ()
        return cls(name.strip() if colon else written(atoms), atoms)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams in the order of the atoms."""
        return tuple(stream for stream, _ in self.atoms)

    @property
    def text(self) -> str:
        """What `parse` reads."""
        body = written(self.atoms)
        return body if body == self.name else f"{self.name}: {body}"

    def __repr__(self) -> str:
        return f"Template({self.text})"


def written(atoms: Iterable[tuple[Stream, int]]) -> str:
    """The atoms as text."""
    return "|".join(f"{stream}[{offset}]" for stream, offset in atoms)


def _atom(part: str, text: str) -> tuple[Stream, int]:
    found = _ATOM.fullmatch(part)
    if found is None:
        raise DataError(f"template {text!r}: expected column[offset] such as w[-1] or w.lower[0], found {part!r}")
    column = found["column"]
    steps = tuple(found["steps"].split(".")[1:])
    return Stream(int(column) if column.isdigit() else column, steps), int(found["offset"])


def grouped(templates: Iterable[Template]) -> dict[str, list[Template]]:
    """Templates by block: those of the same name over the same streams share one, others of that name get their own."""
    blocks: dict[str, list[Template]] = {}
    for template in templates:
        name, number = template.name, 1
        while name in blocks and blocks[name][0].streams != template.streams:
            number += 1
            name = f"{template.name}~{number}"
        if any(known.atoms == template.atoms for known in blocks.get(name, ())):
            raise DataError(f"template {template.text!r} is given twice")
        blocks.setdefault(name, []).append(Template(name, template.atoms))
    return blocks


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
        """One row of codes per stream, sentence after sentence, each with `reach` markers before and after it."""
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
        for stream in self.streams:
            if stream.column not in self.words:
                self.words[stream.column] = Vocabulary.from_arrays(under(arrays, f"words.{stream.column}."))
            if stream.steps:
                self.values[stream] = Vocabulary.from_arrays(under(arrays, f"values.{stream}."))
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
