"""Which labels a feature was seen with: the only weights there are."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids, Tokens

Singles = NDArray[np.float32]


class Pairs(NamedTuple):
    """Feature j was seen with the labels and parts labels[starts[j]] to labels[starts[j + 1] - 1], which rise.

    Parts are what labels share, such as a part of speech: label y has the parts parts[y], numbers that follow those of
    the labels. The score of a label is its own and those of its parts.
    """

    starts: Annotated[Ints, "int64[::1]"]
    labels: Annotated[Ids, "int32[::1]"]
    parts: Annotated[Ids, "int32[:, ::1]"]


def longest(tokens: Tokens) -> int:
    """Tokens of the longest sentence, at least one."""
    return max(1, int(np.diff(tokens.offsets).max(initial=1)))


@kernel("void(int32[:, ::1], float32[::1])")
def add_parts(parts: Ids, scores: Singles) -> None:
    """Add the scores of its parts to that of each label."""
    for y in range(parts.shape[0] if parts.shape[1] else 0):
        s = scores[y]
        for j in range(parts.shape[1]):
            s += scores[parts[y, j]]
        scores[y] = s


@kernel("int64(Tokens, int64[::1], int32[:, ::1], int64, int64[::1], int32[::1])")
def find_pairs(rows: Tokens, y: Ints, parts: Ids, total: int, starts: Ints, out: Ids) -> int:
    """The pairs of features and labels that occur, by feature; how many there are. `starts` begins as zeros.

    With an empty `out` only the number of occurrences of each feature is counted, in starts[feature + 1].
    """
    features, width = starts.size - 1, parts.shape[1]
    if out.size == 0:
        for e in range(rows.indptr[0], rows.indptr[-1]):
            starts[rows.indices[e] + 1] += 1 + width
        return 0
    at = np.zeros(features + 1, dtype=np.int64)
    at[1:] = np.cumsum(starts[1:])
    place = at.copy()
    for t in range(rows.indptr.size - 1):
        for e in range(rows.indptr[t], rows.indptr[t + 1]):
            j = rows.indices[e]
            out[place[j]] = y[t]
            for i in range(width):
                out[place[j] + 1 + i] = parts[y[t], i]
            place[j] += 1 + width
    seen, count = np.full(total, -1, dtype=np.int64), 0
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


def seen_pairs(tokens: Tokens, y: Ints, features: int, parts: Ids) -> Pairs:
    """The pairs of features and labels (or parts of labels) that occur together in some sentences."""
    starts, rows = np.zeros(features + 1, dtype=np.int64), tokens
    total = part_count(parts)
    find_pairs(rows, y, parts, total, starts, np.empty(0, dtype=np.int32))
    out = np.empty(max(1, int(starts.sum())), dtype=np.int32)
    count = int(find_pairs(rows, y, parts, total, starts, out))
    return Pairs(starts, out[:count].copy(), parts)


def part_count(parts: Ids) -> int:
    """The number of labels and parts together."""
    return max(int(parts.shape[0]), int(parts.max(initial=-1)) + 1)
