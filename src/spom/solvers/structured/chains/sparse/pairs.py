"""The pairs of features and labels that were seen together; only these have weights."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of
from spom.core.arrays import Singles as Singles
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.sparse.parts import Parts

Marks = NDArray[np.uint64]
# A feature with more than total / SHARE labels and parts has a row of all of them, if total is at least FEWEST.
SHARE, FEWEST = 16, 64


class Pairs(NamedTuple):
    """Feature j was seen with the labels and parts labels[starts[j]] to labels[starts[j + 1] - 1], which increase."""

    starts: Annotated[Ints, "int64[::1]"]
    labels: Annotated[Ids, "int32[::1]"]
    parts: Parts


@kernel("void(Tokens, int64, Pairs, float32[::1])")
def fetch(rows: Tokens, t: int, pairs: Pairs, values: Singles) -> None:
    """Prefetch the rows of the token after t, and the places of rows of the one after that."""
    last = rows.indptr.size - 2
    for e in range(rows.indptr[min(t + 2, last)], rows.indptr[min(t + 3, last + 1)]):
        prefetch(pairs.starts, rows.indices[e])
    for e in range(rows.indptr[min(t + 1, last)], rows.indptr[min(t + 2, last + 1)]):
        first = pairs.starts[rows.indices[e]]
        prefetch(pairs.labels, first)
        prefetch(values, first)


@kernel("int64(Tokens, int64[::1], Parts, int64[::1], int32[::1])")
def find_pairs(rows: Tokens, y: Ints, parts: Parts, starts: Ints, out: Ids) -> int:
    """Find the pairs of features and labels that occur, by feature; return their number. `starts` must be zeros.

    With an empty `out` only the number of occurrences of each feature is counted, in starts[feature + 1].
    """
    features = starts.size - 1
    sizes = np.ones(parts.rows.shape[0], dtype=np.int64)
    for b in range(sizes.size):
        for i in range(parts.rows.shape[1]):
            sizes[b] += parts.rows[b, i] >= 0
    if out.size == 0:
        for t in range(rows.indptr.size - 1):
            for e in range(rows.indptr[t], rows.indptr[t + 1]):
                starts[rows.indices[e] + 1] += sizes[y[t]]
        return 0
    at = np.zeros(features + 1, dtype=np.int64)
    at[1:] = np.cumsum(starts[1:])
    place = at.copy()
    for t in range(rows.indptr.size - 1):
        for e in range(rows.indptr[t], rows.indptr[t + 1]):
            j = rows.indices[e]
            out[place[j]] = y[t]
            for i in range(1, sizes[y[t]]):
                out[place[j] + i] = parts.rows[y[t], i - 1]
            place[j] += sizes[y[t]]
    seen, count = np.full(parts.total, -1, dtype=np.int64), 0
    for j in range(features):
        begin = count
        for i in range(at[j], at[j + 1]):
            if seen[out[i]] != j:
                seen[out[i]] = j
                out[count] = out[i]
                count += 1
        out[begin:count].sort()
        starts[j] = begin
    starts[features] = count
    found: int = count
    return found


@kernel("void(Tokens, int64[::1], Parts, uint64[::1])")
def mark_pairs(rows: Tokens, y: Ints, parts: Parts, marks: Marks) -> None:
    """Set the bits of the labels and parts that each feature occurs with."""
    one = np.uint64(1)
    for t in range(rows.indptr.size - 1):
        own = one << np.uint64(y[t])
        for i in range(parts.rows.shape[1]):
            if parts.rows[y[t], i] >= 0:
                own |= one << np.uint64(parts.rows[y[t], i])
        for e in range(rows.indptr[t], rows.indptr[t + 1]):
            marks[rows.indices[e]] |= own


@kernel("void(uint64[::1], int64, int32[::1])")
def read_marks(marks: Marks, total: int, out: Ids) -> None:
    """Write the numbers of the bits that are set, one feature after another."""
    count = 0
    for j in range(marks.size):
        for b in range(total):
            if (marks[j] >> np.uint64(b)) & np.uint64(1):
                out[count] = b
                count += 1


def seen_pairs(tokens: Tokens, y: Ints, features: int, parts: Parts) -> Pairs:
    """Return the pairs of features and labels (or parts of labels) that occur together in some sentences."""
    starts, rows = np.zeros(features + 1, dtype=np.int64), tokens
    total = parts.total
    if total <= FEWEST:
        # A word of bits per feature takes far less memory than a list of its occurrences.
        marks = np.zeros(features, dtype=np.uint64)
        mark_pairs(rows, y, parts, marks)
        np.cumsum(np.bitwise_count(marks), out=starts[1:])
        out = np.empty(int(starts[-1]), dtype=np.int32)
        read_marks(marks, total, out)
        return dense_rows(Pairs(starts, out, parts))[0]
    find_pairs(rows, y, parts, starts, np.empty(0, dtype=np.int32))
    out = np.empty(max(1, int(starts.sum())), dtype=np.int32)
    count = int(find_pairs(rows, y, parts, starts, out))
    return dense_rows(Pairs(starts, out[:count], parts))[0]


@kernel("void(Pairs, int64[::1], int32[::1], int64[::1])")
def widen(pairs: Pairs, starts: Ints, labels: Ids, place: Ints) -> None:
    """Fill in the labels of rows that begin at `starts`, and the place of each pair; a longer row has all labels."""
    for j in range(starts.size - 1):
        begin, end, first = pairs.starts[j], pairs.starts[j + 1], starts[j]
        longer = starts[j + 1] - first > end - begin
        for b in range(starts[j + 1] - first):
            labels[first + b] = b if longer else pairs.labels[begin + b]
        for i in range(begin, end):
            place[i] = first + (pairs.labels[i] if longer else i - begin)


def dense_rows(pairs: Pairs) -> tuple[Pairs, Ints]:
    """Return the pairs, with all labels for features that have many, and the place of each pair among them.

    A row of all labels and parts is added up without reading its labels, many at a time.
    """
    total, place = pairs.parts.total, np.arange(pairs.labels.size)
    if total < FEWEST:
        return pairs, place
    sizes = np.diff(pairs.starts)
    starts = offsets_of(np.where(sizes * SHARE > total, total, sizes))
    wide = Pairs(starts, np.empty(starts[-1], dtype=np.int32), pairs.parts)
    widen(pairs, starts, wide.labels, place)
    return wide, place
