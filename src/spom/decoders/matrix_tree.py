"""Sums over all trees (the matrix-tree theorem) in O(n^3), without a subtraction.

With weights A[h, m] = exp(score), the sum over trees is the determinant of a Laplacian. Its Gaussian elimination has
an interpretation: word k is removed, and each pair of arcs i -> k -> j becomes an arc of weight A[i, k] A[k, j] / D_k,
where D_k is the sum of the arcs into k; the determinant is the product of the D_k. Done this way, nothing is ever
subtracted (as in the algorithm of Grassmann, Taksar and Heyman), so every result has all of its digits, however peaked
the scores. An inverse of the Laplacian loses them all when two words prefer each other.

Marginals: climb from h to a random head, in proportion to A, and continue from there; e_m(h) is the probability to
reach the root before m. Then P(h -> m) is A[h, m] e_m(h), normalised over h. To get e_m for every m, words are
eliminated by halves: first one half, which leaves a graph of the words of the other half, and so on down to each
single word m; e_m then follows by substitution.

A single root is the limit of root arcs scaled by eps -> 0. Only the leading order in eps counts, so a root arc is
left out of D_k if other arcs lead to k. Here all words reach each other; `matrix_tree_log` handles the other cases.
"""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel("float64(float64[:, ::1], int64, int64, int64, boolean, float64[::1])")
def eliminate(A: Floats, k: int, lo: int, hi: int, single_root: bool, climb: Floats) -> float:
    """Eliminate word k from the words lo..hi-1 (which exclude it); return D_k, with A[i, k] / D_k in `climb`."""
    total = 0.0 if single_root else A[0, k]
    for i in range(lo, hi):
        total += A[i, k]
    for i in range(lo - 1, hi):
        h = i if i >= lo else 0
        share = A[h, k] / total
        climb[h] = share
        row, add = A[h, lo:hi], A[k, lo:hi]
        for j in range(hi - lo):
            row[j] += share * add[j]
    return total


@kernel("void(int64[::1], int64, int64[:, ::1], float64[:, ::1], float64[::1])", fastmath={"reassoc"})
def chances(gone: Ints, m: int, span: Ints, climb: Floats, out: Floats) -> None:
    """Compute e_m of all words, last eliminated first; `span` holds the words present when each one was eliminated."""
    out[0], out[m] = 1.0, 0.0
    for t in range(gone.size - 1, -1, -1):
        h = gone[t]
        row, chance = climb[h, span[h, 0] : span[h, 1]], out[span[h, 0] : span[h, 1]]
        total = climb[h, 0]
        for i in range(row.size):
            total += row[i] * chance[i]
        out[h] = total


@kernel("float64(float64[:, ::1], boolean, float64[:, ::1])")
def tree_sums(scores: Floats, single_root: bool, out: Floats) -> float:
    """Return the log partition minus the best score into each word, with P(head -> modifier) in `out`.

    `scores` are relative to the best into each word. They must be finite off the diagonal, and in a range that
    `exp` can take.
    """
    N = scores.shape[0]
    n = N - 1
    depths = 2
    while 1 << (depths - 2) < n:
        depths += 1
    graph = np.zeros((depths, N, N))
    for h in range(N):
        for m in range(1, N):
            graph[0, h, m] = math.exp(scores[h, m])
    climb, span = np.zeros((N, N)), np.zeros((N, 2), dtype=np.int64)
    gone, e = np.empty(n, dtype=np.int64), np.empty(N)
    # Pending steps: keep words [0]..[1], eliminate [2]..[3] next to them, from the graph of depth [4] - 1.
    todo = np.empty((2 * depths + 2, 5), dtype=np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3], todo[0, 4] = 1, N, N, N, 1
    size, first, log_partition = 1, True, 0.0
    while size:
        size -= 1
        lo, hi, begin, end, depth = todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3], todo[size, 4]
        A, before = graph[depth], graph[depth - 1]
        a, b = min(lo, begin), max(hi, end)
        for i in range(a - 1, b):
            h = i if i >= a else 0
            for j in range(a, b):
                A[h, j] = before[h, j]
        done = n - (b - a)
        # From the outside inwards, so the remaining words are contiguous.
        for t in range(end - begin):
            k = end - 1 - t if begin >= hi else begin + t
            a, b = (lo, k) if begin >= hi else (k + 1, hi)
            span[k, 0], span[k, 1], gone[done + t] = a, b, k
            total = eliminate(A, k, a, b, single_root, climb[k])
            if first:
                log_partition += math.log(total)
        if hi - lo > 1:
            middle = (lo + hi) // 2
            todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3] = middle, hi, lo, middle
            todo[size + 1, 0], todo[size + 1, 1], todo[size + 1, 2], todo[size + 1, 3] = lo, middle, middle, hi
            todo[size, 4] = todo[size + 1, 4] = depth + 1
            size += 2
            continue
        if first:
            log_partition += math.log(A[0, lo])
            first = False
        chances(gone[: n - 1], lo, span, climb, e)
        total = 0.0
        for h in range(N):
            out[h, lo] = graph[0, h, lo] * e[h] if h != lo else 0.0
            total += out[h, lo]
        for h in range(N):
            out[h, lo] /= total
    return log_partition
