"""Exact conjunctions of templates: the strings of streams as codes, and one id per combination seen in training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import Codes, distinct
from spom.errors import DataError, ModelFileError
from spom.features import tables
from spom.features.clusters import Clusters
from spom.features.rows import NO_VALUES, Blocks, Rows
from spom.features.streams import Spans, Stream, Template, derived, resolved
from spom.features.vocabulary import Vocabulary

LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Stage:
    """The next `count` atoms of a template, and the distinct keys that they form with the id of the previous stage."""

    count: int
    keys: Ints


@dataclass(frozen=True)
class Block:
    """Templates that share their features, as stages: one, unless the product of all codes exceeds 64 bits."""

    name: str
    templates: tuple[Template, ...]
    stages: tuple[Stage, ...]

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.stages[-1].keys.size)


class Conjunctions:
    """Blocks over the streams of a coder; the id of a feature is the start of its block plus its place in the block."""

    def __init__(self, coder: Coder, blocks: Sequence[Block]) -> None:
        self.coder, self.parts = coder, tuple(blocks)
        starts = offsets_of([block.size for block in self.parts])
        if starts[-1] > LARGEST:
            raise DataError(f"{starts[-1]} features are more than {LARGEST}; give min_count= or table=")
        self.blocks = Blocks(tuple(block.name for block in self.parts), starts)
        self.program = _program(self)

    @classmethod
    def fit(
        cls, coder: Coder, groups: dict[str, list[Template]], columns: Columns, limit: int = tables.LIMIT
    ) -> tuple[Conjunctions, Rows]:
        """Learn all conjunctions that occur in `columns`; return them and the rows of `columns`."""
        padded, n = coder.fit(columns), columns.n_tokens
        index = {stream: k for k, stream in enumerate(coder.streams)}
        sizes, blocks, start = coder.sizes, [], 0
        ids = np.empty((sum(map(len, groups.values())), n), dtype=np.int32)
        v = 0
        for name, templates in groups.items():
            keys = np.zeros((len(templates), n), dtype=np.int64)
            stages = _learnt(templates, index, sizes, padded, columns.offsets, coder.reach, keys, limit)
            blocks.append(Block(name, tuple(templates), stages))
            keys[keys >= 0] += start
            ids[v : v + len(templates)] = keys
            v += len(templates)
            start += blocks[-1].size
            if start > LARGEST:
                break
        found = np.empty(ids.shape[::-1], dtype=np.int32)
        tables.turn(ids, found)
        return cls(coder, blocks), packed(found, columns.offsets)

    def transform(self, columns: Columns) -> Rows:
        """Return the known features of each token."""
        padded = self.coder.transform(columns)
        indptr = np.empty(columns.n_tokens + 1, dtype=np.int64)
        # One extra place: an id that is not kept is written, and then overwritten.
        indices = np.empty(columns.n_tokens * (self.program.stages.size - 1) + 1, dtype=np.int32)
        offsets = np.ascontiguousarray(columns.offsets)
        nnz = tables.run_program(padded, offsets, self.coder.reach, self.program, indptr, indices)
        return Rows(indptr, indices[:nnz], NO_VALUES, offsets)

    def name(self, block: int, local: int) -> str:
        """Return the values of a feature as text."""
        part = self.parts[block]
        codes = self.codes(part, np.array([local]))[0].tolist()
        streams = part.templates[0].streams
        return "|".join(self.coder.string(stream, code) for stream, code in zip(streams, codes, strict=True))

    def codes(self, part: Block, ids: Ints) -> Ints:
        """Return an array (features, atoms): the code of each atom of features of a block, given by their places."""
        radix, found = self.coder.radix(part.templates[0].streams), np.empty((ids.size, 0), dtype=np.int64)
        columns = []
        for stage in reversed(part.stages):
            ids = stage.keys[ids]
            for _ in range(stage.count):
                ids, code = np.divmod(ids, radix.pop())
                columns.append(code)
        return np.stack(columns[::-1], axis=1) if columns else found

    def compact(self, used: Ints, blocks: Iterable[int]) -> Conjunctions:
        """Return only the features `used` (sorted ids) of some blocks, numbered in that order; drop unused strings."""
        decoded, kept = [], []
        for m in blocks:
            a, b = np.searchsorted(used, self.blocks.starts[m : m + 2])
            kept.append(self.parts[m])
            decoded.append(self._decoded(self.parts[m], used[a:b] - self.blocks.starts[m]))
        shift = 2 * self.coder.reach
        streams = [
            k for k, s in enumerate(self.coder.streams) if any(s in block.templates[0].streams for block in kept)
        ]
        wanted = [self._strings(k, kept, decoded) for k in streams]
        coder = self.coder.only(streams, [codes - shift for codes in wanted])
        renumber = {}
        for k, strings in zip(streams, wanted, strict=True):
            new = np.arange(self.coder.sizes[k], dtype=np.int64)
            new[strings] = shift + 1 + np.arange(strings.size)
            renumber[self.coder.streams[k]] = new
        sizes = dict(zip(coder.streams, coder.sizes, strict=True))
        parts = []
        for block, levels in zip(kept, decoded, strict=True):
            names, stages, a = block.templates[0].streams, [], 0
            for stage, (before, codes) in zip(block.stages, levels, strict=True):
                keys = before
                for code, stream in zip(codes, names[a : a + stage.count], strict=True):
                    keys = keys * sizes[stream] + renumber[stream][code]
                stages.append(Stage(stage.count, keys))
                a += stage.count
            parts.append(Block(block.name, block.templates, tuple(stages)))
        return Conjunctions(coder, parts)

    def _decoded(self, block: Block, ids: Ints) -> list[tuple[Ints, list[Ints]]]:
        """Return for each stage (the new ids of the previous stage, the code of each atom) of its keys in use."""
        radix = self.coder.radix(block.templates[0].streams)
        levels: list[tuple[Ints, list[Ints]]] = []
        for stage in reversed(block.stages):
            keys, codes = stage.keys[ids], []
            for _ in range(stage.count):
                keys, code = np.divmod(keys, radix.pop())
                codes.append(code)
            ids, before = np.unique(keys, return_inverse=True)
            levels.append((before.astype(np.int64), codes[::-1]))
        return levels[::-1]

    def _strings(self, k: int, kept: list[Block], decoded: list[list[tuple[Ints, list[Ints]]]]) -> Ints:
        """Return the codes of stream k that stand for strings and are in use, sorted."""
        stream, found = self.coder.streams[k], [np.empty(0, dtype=np.int64)]
        for block, levels in zip(kept, decoded, strict=True):
            codes = [code for _, stage in levels for code in stage]
            found += [code for code, s in zip(codes, block.templates[0].streams, strict=True) if s == stream]
        every = np.unique(np.concatenate(found))
        return every[every > 2 * self.coder.reach]

    def arrays(self) -> dict[str, Any]:
        """Return the keys of all stages, one after another, and the arrays of the coder."""
        keys = [stage.keys for block in self.parts for stage in block.stages]
        return {
            **self.coder.arrays(),
            "keys": np.concatenate([np.empty(0, dtype=np.int64), *keys]),
            "stages": np.array([len(block.stages) for block in self.parts], dtype=np.int64),
            "counts": np.array([s.count for block in self.parts for s in block.stages], dtype=np.int64),
            "sizes": np.array([part.size for part in keys], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, coder: Coder, groups: dict[str, list[Template]], arrays: dict[str, Any]) -> Conjunctions:
        """Rebuild from `arrays()`, for the same templates; every key is checked, because tables are built on them."""
        coder.restore(arrays)
        names = ("keys", "stages", "counts", "sizes")
        keys, per_block, counts, sizes = (np.array(take(arrays, name, "i"), dtype=np.int64) for name in names)
        ends = offsets_of(sizes)
        check_offsets(ends, keys.size, "sizes")
        check_shape(per_block, (len(groups),), "stages")
        check_shape(counts, (int(per_block.sum()),), "counts")
        check_shape(sizes, counts.shape, "sizes")
        blocks, s = [], 0
        for (name, templates), count in zip(groups.items(), per_block.tolist(), strict=True):
            streams, stages, before = list(templates[0].streams), [], 1
            for k in range(s, s + count):
                mine = coder.radix(streams[: counts[k]])
                span = before * math.prod(mine)
                if len(mine) != counts[k] or span > tables.LIMIT:
                    raise ModelFileError("the stages of a template do not fit it: the file is damaged")
                stages.append(Stage(len(mine), check_indices(keys[ends[k] : ends[k + 1]], span, "keys")))
                streams, before = streams[len(mine) :], max(1, int(sizes[k]))
            if streams or not stages:
                raise ModelFileError("the stages of a template do not fit it: the file is damaged")
            blocks.append(Block(name, tuple(templates), tuple(stages)))
            s += count
        return cls(coder, blocks)


def packed(found: NDArray[np.int32], offsets: Ints) -> Rows:
    """Return the rows of a matrix of ids, one row per token, with -1 for no feature."""
    n, width = found.shape
    flat = found.reshape(-1)
    offsets = np.ascontiguousarray(offsets)
    if flat.size == 0 or flat.min() >= 0:
        return Rows(np.arange(n + 1, dtype=np.int64) * width, flat, NO_VALUES, offsets)
    there = found >= 0
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(there.sum(axis=1, dtype=np.int64))])
    return Rows(indptr, flat[there.reshape(-1)], NO_VALUES, offsets)


def _learnt(
    templates: list[Template],
    index: dict[Stream, int],
    sizes: list[int],
    padded: NDArray[np.int32],
    offsets: Ints,
    reach: int,
    keys: Ints,
    limit: int,
) -> tuple[Stage, ...]:
    """Return the stages of a block; `keys` becomes the id of each template and token, -1 for none."""
    stream = np.array([index[s] for s in templates[0].streams], dtype=np.int64)
    radix = np.array([sizes[k] for k in stream], dtype=np.int64)
    stages: list[Stage] = []
    first, size = 0, 1

    def close(last: int) -> int:
        for template, row in zip(templates, keys, strict=True):
            offset = np.array([offset for _, offset in template.atoms[first:last]], dtype=np.int64)
            tables.stage_keys(
                padded, np.ascontiguousarray(offsets), reach, stream[first:last], offset, radix[first:last], row
            )
        flat, known = keys.reshape(-1), np.empty(keys.size, dtype=np.int64)
        if size <= tables.DIRECT:
            count = tables.intern_direct(flat, known, np.full(size, -1, dtype=np.int32))
        else:
            count = tables.intern_keys(flat, known)
        stages.append(Stage(last - first, known[:count].copy()))
        return int(stages[-1].keys.size)

    for a in range(radix.size):
        if a > first and size * int(radix[a]) > limit:
            size = max(1, close(a))
            first = a
        size *= int(radix[a])
    close(int(radix.size))
    return tuple(stages)


class _Tables:
    """Lookup tables, collected in two arrays: one of direct tables and one of slots."""

    def __init__(self) -> None:
        self.direct: list[NDArray[np.int32]] = [np.empty(0, dtype=np.int32)]
        self.slots: list[Ints] = [np.empty(0, dtype=np.int64)]
        self.direct_size = self.slots_size = 0

    def add(self, keys: Ints, span: int, base: int) -> tuple[int, int, int]:
        """Add a table of keys below `span` with ids base, base + 1, ... and return its (bits, narrow, place)."""
        if span <= tables.DIRECT:
            table = np.full(span, -1, dtype=np.int32)
            table[keys] = base + np.arange(keys.size)
            self.direct.append(table)
            self.direct_size += span
            return tables.DIRECT_TABLE, 0, self.direct_size - span
        narrow = span <= 1 << 31
        bits = max(4, int(2 * keys.size - 1).bit_length())
        slots = np.zeros((1 if narrow else 2) << bits, dtype=np.int64)
        tables.fill_slots(keys, keys.size, bits, narrow, base, slots)
        self.slots.append(slots)
        self.slots_size += slots.size
        return bits, int(narrow), self.slots_size - slots.size


def _program(these: Conjunctions) -> tables.Program:
    """Return all templates of all blocks as arrays, with the tables of their keys."""
    index, made = {s: k for k, s in enumerate(these.coder.streams)}, _Tables()
    stages, atoms, stream, offset, radix, where = [0], [0], [], [], [], []
    for block, start in zip(these.parts, these.blocks.starts, strict=False):
        radices = these.coder.radix(block.templates[0].streams)
        placed, a, before = [], 0, 1
        for stage in block.stages:
            span = before * math.prod(radices[a : a + stage.count])
            placed.append(made.add(stage.keys, span, int(start) if stage is block.stages[-1] else 0))
            a, before = a + stage.count, max(1, int(stage.keys.size))
        for template in block.templates:
            a = 0
            for stage in block.stages:
                for s, o in template.atoms[a : a + stage.count]:
                    stream.append(index[s])
                    offset.append(o)
                radix += radices[a : a + stage.count]
                a += stage.count
                atoms.append(len(stream))
            where += placed
            stages.append(len(where))
    numbers = [stages, atoms, stream, offset, radix, *np.array(where, dtype=np.int64).reshape(-1, 3).T]
    arrays = [np.array(part, dtype=np.int64) for part in numbers]
    return tables.Program._make([*arrays, np.concatenate(made.direct), np.concatenate(made.slots)])


# --- strings as codes ------------------------------------------------------------------------------------------

Padded = NDArray[np.int32]


class Coder:
    """The values of streams as codes: 0 for unknown, 1 to 2 reach for the markers beyond a sentence, then the strings.

    Strings are derived once per word. For known words the codes are kept by word (`maps`). For the distinct unknown
    words of a call they are computed in that call, so the suffix of a new word is known if that suffix is.
    """

    def __init__(self, streams: tuple[Stream, ...], reach: int, boundaries: bool, clusters: Clusters | None) -> None:
        self.streams, self.reach, self.boundaries, self.clusters = streams, reach, boundaries, clusters
        self.words: dict[int | str, Vocabulary] = {}
        self.values: dict[Stream, Vocabulary] = {}
        self.maps: dict[Stream, Codes] = {}

    @property
    def sizes(self) -> list[int]:
        """The number of codes of each stream, including the code for unknown."""
        return [2 * self.reach + 1 + len(self.values[stream]) for stream in self.streams]

    def radix(self, streams: Sequence[Stream]) -> list[int]:
        """Return the number of codes of each of some streams."""
        sizes = dict(zip(self.streams, self.sizes, strict=True))
        return [sizes[stream] for stream in streams]

    def fit(self, columns: Columns) -> Padded:
        """Learn the strings of `columns`, and return their codes as `transform` does."""
        self.words, self.values, self.maps = {stream.column: Vocabulary() for stream in self.streams}, {}, {}
        return self._padded(columns, grow=True)

    def transform(self, columns: Columns) -> Padded:
        """Return one row of codes per stream, sentence after sentence, with `reach` markers before and after each."""
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
        """Learn the strings that a stream derives from the words of its column."""
        words = self.words[stream.column]
        if not stream.steps:
            self.values[stream] = words
            return
        found, values = derived(Spans(*words.spans()), stream.steps, self.clusters), Vocabulary()
        codes, there = np.zeros(len(words) + 1, dtype=np.int32), np.flatnonzero(found.length >= 0)
        codes[there + 1] = values.add(found.buffer, found.start[there], found.length[there])
        self.values[stream], self.maps[stream] = values, codes

    def _codes(self, stream: Stream, spans: Spans, words: Codes, unknown: Ints) -> Codes:
        """Return the vocabulary's code of each string; `words` are their codes in the column, 0 for `unknown` ones."""
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
        """Return a coder of some streams, with only the strings `used` (sorted codes of its vocabulary) of each.

        Words that no kept template reads directly are dropped; what is derived from them is then computed in each call.
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

    def string(self, stream: Stream, code: int) -> str:
        """Return the string or marker that a code of a stream stands for."""
        if code > 2 * self.reach:
            return self.values[stream][code - 2 * self.reach]
        return f"_B-{code}" if code <= self.reach else f"_B+{code - self.reach}"

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays."""
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
        """Restore the state from `arrays()`."""
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


@kernel("void(int32[::1], int32[::1], int64[::1], int64, boolean, int32[::1])")
def pad(local: Codes, codes: Codes, offsets: Ints, reach: int, boundaries: bool, out: Codes) -> None:
    """out = markers, shifted codes[local], markers of each sentence; at distance j, j before and reach + j after it."""
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
