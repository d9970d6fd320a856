"""The sums of `matrix_tree` for scores of any size and for forbidden arcs, with logarithms and orders of eps.

A weight is eps^order * exp(value). Nothing is subtracted, so a sum of two weights has the lower of their orders, and
the sum of the values if the orders are equal. For a single root, root arcs have order 1, and the limit eps -> 0 is
exact.
"""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

NEVER = 1 << 40  # the order of a weight of zero


@kernel("Tuple((float64, int64))(float64, int64, float64, int64)", inline="always")
def plus(x: float, p: int, y: float, q: int) -> tuple[float, int]:
    """exp(x) eps^p + exp(y) eps^q, to leading order; -inf is zero."""
    if y == -np.inf or (p < q and x > -np.inf):
        return x, p
    if x == -np.inf or q < p:
        return y, q
    top = max(x, y)
    return top + math.log1p(math.exp(min(x, y) - top)), p


@kernel("boolean(float64[:, ::1], int64[:, ::1], int64, int64, int64, float64[::1], int64[::1])")
def eliminate_log(A: Floats, P: Ints, k: int, lo: int, hi: int, climb: Floats, order: Ints) -> bool:
    """Eliminate word k from the words lo..hi-1; D_k goes to climb[k], order[k]. Return False if no arc leads to k."""
    total, least = A[0, k], P[0, k]
    for i in range(lo, hi):
        total, least = plus(total, least, A[i, k], P[i, k])
    if total == -np.inf:
        return False
    climb[k], order[k] = total, least
    for i in range(lo - 1, hi):
        h = i if i >= lo else 0
        climb[h], order[h] = A[h, k] - total, P[h, k] - least
        if climb[h] == -np.inf:
            continue
        for j in range(lo, hi):
            if A[k, j] > -np.inf and j != h:
                A[h, j], P[h, j] = plus(A[h, j], P[h, j], climb[h] + A[k, j], order[h] + P[k, j])
    return True


@kernel("void(int64[::1], int64, int64[:, ::1], float64[:, ::1], int64[:, ::1], float64[::1], int64[::1])")
def chances_log(gone: Ints, m: int, span: Ints, climb: Floats, order: Ints, e: Floats, p: Ints) -> None:
    """Compute log e_m of all words, with its order."""
    e[0], p[0], e[m], p[m] = 0.0, 0, -np.inf, 0
    for t in range(gone.size - 1, -1, -1):
        h = gone[t]
        total, least = climb[h, 0], order[h, 0]
        for i in range(span[h, 0], span[h, 1]):
            if climb[h, i] > -np.inf and e[i] > -np.inf:
                total, least = plus(total, least, climb[h, i] + e[i], order[h, i] + p[i])
        e[h], p[h] = total, least


@kernel("boolean(float64[:, ::1], int64, float64[::1], int64[::1], float64[:, ::1])")
def heads_of(scores: Floats, m: int, e: Floats, p: Ints, out: Floats) -> bool:
    """Compute P(h -> m) for all h: scores[h, m] e_m(h), normalised; arcs of the root have the order p[0]."""
    N = scores.shape[0]
    least, top = NEVER, -np.inf
    for h in range(N):
        if h != m and scores[h, m] + e[h] > -np.inf:
            if p[h] < least:
                least, top = p[h], -np.inf
            if p[h] == least:
                top = max(top, scores[h, m] + e[h])
    if top == -np.inf:
        return False
    total = 0.0
    for h in range(N):
        there = h != m and p[h] == least
        out[h, m] = math.exp(scores[h, m] + e[h] - top) if there else 0.0
        total += out[h, m]
    for h in range(N):
        out[h, m] /= total
    return True


@kernel("float64(float64[:, ::1], boolean, float64[:, ::1])")
def tree_sums_log(scores: Floats, single_root: bool, out: Floats) -> float:
    """Return what `matrix_tree.tree_sums` returns, for any scores; -inf where there is no tree."""
    N = scores.shape[0]
    n = N - 1
    depths = 2
    while 1 << (depths - 2) < n:
        depths += 1
    graph, orders = np.empty((depths, N, N)), np.zeros((depths, N, N), dtype=np.int64)
    for h in range(N):
        for m in range(N):
            graph[0, h, m] = scores[h, m]
            orders[0, h, m] = single_root and h == 0
    climb, order = np.empty((N, N)), np.zeros((N, N), dtype=np.int64)
    span, gone = np.zeros((N, 2), dtype=np.int64), np.empty(n, dtype=np.int64)
    e, p = np.empty(N), np.empty(N, dtype=np.int64)
    todo = np.empty((2 * depths + 2, 5), dtype=np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3], todo[0, 4] = 1, N, N, N, 1
    size, first, log_partition, least = 1, True, 0.0, 0
    while size:
        size -= 1
        lo, hi, begin, end, depth = todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3], todo[size, 4]
        a, b = min(lo, begin), max(hi, end)
        for i in range(a - 1, b):
            h = i if i >= a else 0
            for j in range(a, b):
                graph[depth, h, j], orders[depth, h, j] = graph[depth - 1, h, j], orders[depth - 1, h, j]
        done = n - (b - a)
        for t in range(end - begin):
            k = end - 1 - t if begin >= hi else begin + t
            a, b = (lo, k) if begin >= hi else (k + 1, hi)
            span[k, 0], span[k, 1], gone[done + t] = a, b, k
            if not eliminate_log(graph[depth], orders[depth], k, a, b, climb[k], order[k]):
                return -np.inf
            if first:
                log_partition += climb[k, k]
                least += order[k, k]
        if hi - lo > 1:
            middle = (lo + hi) // 2
            todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3] = middle, hi, lo, middle
            todo[size + 1, 0], todo[size + 1, 1], todo[size + 1, 2], todo[size + 1, 3] = lo, middle, middle, hi
            todo[size, 4] = todo[size + 1, 4] = depth + 1
            size += 2
            continue
        if first:
            log_partition += graph[depth, 0, lo]
            least += orders[depth, 0, lo]
            # A sum of order 2 means that every tree has at least two roots.
            if log_partition == -np.inf or least > 1:
                return -np.inf
            first = False
        chances_log(gone[: n - 1], lo, span, climb, order, e, p)
        if single_root:
            p[0] = 1  # the root arcs of the scores
        if not heads_of(scores, lo, e, p, out):
            return -np.inf
    return log_partition
