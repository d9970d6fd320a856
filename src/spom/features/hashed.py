"""Conjunctions hashed from strings into a table of fixed size: nothing is learnt, and memory is flat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Ints
from spom.core.container import check_indices, check_shape, take
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import BYTES, Bytes, Codes, distinct, hash_bytes
from spom.errors import ModelFileError
from spom.features.clusters import Clusters
from spom.features.rows import NO_VALUES, Blocks, Rows
from spom.features.streams import LENGTHS, OFFSETS, Spans, Stream, Template, derived, resolved


class Hashed:
    """Each block has `table` // blocks slots; a conjunction has the slot of its hash, which others may share.

    Unseen words have features too. `kept` lists the slots in use, once they are known; other slots give no feature.
    """

    def __init__(
        self,
        groups: dict[str, list[Template]],
        table: int,
        boundaries: bool,
        clusters: Clusters | None,
        slots: int = 0,
        kept: Ints | None = None,
    ) -> None:
        self.groups, self.table, self.boundaries, self.clusters, self.kept = groups, table, boundaries, clusters, kept
        self.slots = slots or max(1, table // max(1, len(groups)))
        names, ends = tuple(groups), np.arange(len(groups) + 1, dtype=np.int64) * self.slots
        self.blocks = Blocks(names, ends if kept is None else np.searchsorted(kept, ends))
        every = [template for templates in groups.values() for template in templates]
        self.streams = tuple(dict.fromkeys(stream for template in every for stream in template.streams))
        self.reach = max((abs(offset) for template in every for _, offset in template.atoms), default=0)
        self.atoms = np.cumsum([0, *(len(template.atoms) for template in every)])
        index = {stream: k for k, stream in enumerate(self.streams)}
        self.stream = np.array([index[s] for t in every for s in t.streams], dtype=np.int64)
        self.offset = np.array([offset for t in every for _, offset in t.atoms], dtype=np.int64)
        self.base = np.repeat(np.arange(len(groups)), [len(part) for part in groups.values()]).astype(np.int64)

    def transform(self, columns: Columns) -> Rows:
        """Return the features of each token."""
        padded = np.zeros((len(self.streams), columns.n_tokens + 2 * self.reach * len(columns)), dtype=np.uint64)
        offsets = np.ascontiguousarray(columns.offsets)
        spans: dict[int | str, tuple[Codes, Spans]] = {}
        for k, stream in enumerate(self.streams):
            if stream.column not in spans:
                spans[stream.column] = _distinct(columns, stream)
            local, strings = spans[stream.column]
            found = derived(strings, stream.steps, self.clusters)
            hash_stream(*found, local, offsets, self.reach, self.boundaries, padded[k])
        indptr = np.empty(columns.n_tokens + 1, dtype=np.int64)
        indices = np.empty(columns.n_tokens * self.base.size, dtype=np.int32)
        renumber = np.empty(0, dtype=np.int32)
        if self.kept is not None:
            renumber = np.full(self.slots * len(self.groups), -1, dtype=np.int32)
            renumber[self.kept] = np.arange(self.kept.size)
        templates = HashedAtoms(self.atoms, self.stream, self.offset, self.base, self.slots, renumber)
        nnz = hash_templates(padded, offsets, self.reach, templates, indptr, indices)
        return Rows(indptr, indices[:nnz], NO_VALUES, offsets)

    def compact(self, used: Ints, blocks: Sequence[int]) -> Hashed:
        """Return only the slots `used` (sorted ids) of some blocks, numbered in that order."""
        names, alive = list(self.groups), list(blocks)
        groups = {names[m]: self.groups[names[m]] for m in alive}
        slots = used if self.kept is None else self.kept[used]
        whole = self.kept is None and used.size == len(alive) * self.slots
        kept = slots % self.slots + np.searchsorted(alive, slots // self.slots) * self.slots
        return Hashed(groups, self.table, self.boundaries, self.clusters, self.slots, None if whole else kept)

    @classmethod
    def from_arrays(
        cls,
        groups: dict[str, list[Template]],
        table: int,
        boundaries: bool,
        clusters: Clusters | None,
        arrays: dict[str, Any],
    ) -> Hashed:
        """Rebuild from `arrays()`, for the same templates."""
        slots = check_shape(take(arrays, "slots", "i"), (1,), "slots")
        check_indices(slots, table + 1, "slots", 1)
        total, kept = int(slots[0]) * len(groups), None
        if "kept" in arrays:
            kept = np.array(check_indices(take(arrays, "kept", "i"), total, "kept"), dtype=np.int64)
            if total >= 2**31 or bool((np.diff(kept) <= 0).any()):
                raise ModelFileError("the slots that are in use do not rise: the file is damaged")
        return cls(groups, table, boundaries, clusters, int(slots[0]), kept)

    def arrays(self) -> dict[str, Any]:
        """Return the slots in use, and the clusters."""
        found: dict[str, Any] = {"slots": np.array([self.slots], dtype=np.int64)}
        if self.kept is not None:
            found["kept"] = self.kept
        if self.clusters is not None:
            found.update({f"clusters.{key}": value for key, value in self.clusters.arrays().items()})
        return found


def _distinct(columns: Columns, stream: Stream) -> tuple[Codes, Spans]:
    at = resolved(columns, stream)
    local, first = distinct(columns.buffer, columns.start, columns.length, at)
    return local, Spans(columns.buffer, columns.start[first, at], columns.length[first, at])


@kernel(f"void({BYTES}, {OFFSETS}, {LENGTHS}, int32[::1], int64[::1], int64, boolean, uint64[::1])")
def hash_stream(
    buffer: Bytes,
    start: Ints,
    length: Codes,
    local: Codes,
    offsets: Ints,
    reach: int,
    boundaries: bool,
    out: Any,
) -> None:
    """Write the hash of each token's string (never 0, which means none) to `out`, with markers around each sentence."""
    codes = np.zeros(start.size, dtype=np.uint64)
    for c in range(start.size):
        if length[c] >= 0:
            codes[c] = hash_bytes(buffer, start[c], length[c]) | np.uint64(1)
    p = 0
    for i in range(offsets.size - 1):
        for j in range(reach, 0, -1):
            out[p] = np.uint64(2 * j if boundaries else 0)
            p += 1
        for t in range(offsets[i], offsets[i + 1]):
            out[p] = codes[local[t]]
            p += 1
        for j in range(1, reach + 1):
            out[p] = np.uint64(1000000 + 2 * j if boundaries else 0)
            p += 1


class HashedAtoms(NamedTuple):
    """Template v has the atoms a from atoms[v] to atoms[v + 1] - 1: stream[a] at the token that is offset[a] away.

    Its features begin at slot base[v] * slots; `renumber`, if not empty, has the new number of each slot that is kept.
    """

    atoms: Annotated[Ints, "int64[::1]"]
    stream: Annotated[Ints, "int64[::1]"]
    offset: Annotated[Ints, "int64[::1]"]
    base: Annotated[Ints, "int64[::1]"]
    slots: Annotated[int, "int64"]
    renumber: Annotated[Codes, "int32[::1]"]


@kernel("int64(uint64[:, ::1], int64[::1], int64, HashedAtoms, int64[::1], int32[::1])")
def hash_templates(padded: Any, offsets: Ints, reach: int, templates: HashedAtoms, indptr: Ints, indices: Codes) -> int:
    """Write the slots of all conjunctions of all tokens into (indptr, indices); return their number."""
    atoms, stream, offset, base, slots, renumber = templates
    nnz = 0
    indptr[0] = 0
    for i in range(offsets.size - 1):
        for t in range(offsets[i], offsets[i + 1]):
            p = t + (2 * i + 1) * reach
            for v in range(base.size):
                h, known = np.uint64(14695981039346656037), True
                for a in range(atoms[v], atoms[v + 1]):
                    code = padded[stream[a], p + offset[a]]
                    known &= code != 0
                    h = (h ^ code) * np.uint64(11400714819323198485)
                    h ^= h >> np.uint64(29)
                if known:
                    found = base[v] * slots + np.int64((h >> np.uint64(2)) % np.uint64(slots))
                    if renumber.size > 0:
                        found = np.int64(renumber[found])
                    if found >= 0:
                        indices[nnz] = found
                        nnz += 1
            indptr[t + 1] = nnz
    return nnz
