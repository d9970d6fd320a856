"""The best sequences of a chain: one (Viterbi) or several."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel("void(float64[:, ::1], int64, float64[:, ::1])")
def best_steps(value: Floats, t: int, transition: Floats) -> None:
    """value[t, y] = max over p of value[t - 1, p] + transition[p, y].

    This is a selection without branches and back pointers: several y at once, and four p per access to value[t, y].
    """
    k = value.shape[1]
    for y in range(k):
        value[t, y] = -np.inf
    p = 0
    while p + 3 < k:
        a, b, c, d = value[t - 1, p], value[t - 1, p + 1], value[t - 1, p + 2], value[t - 1, p + 3]
        for y in range(k):
            v, w = a + transition[p, y], b + transition[p + 1, y]
            r, s = c + transition[p + 2, y], d + transition[p + 3, y]
            v = v if v > w else w
            r = r if r > s else s
            v = v if v > r else r
            value[t, y] = v if v > value[t, y] else value[t, y]
        p += 4
    while p < k:
        a = value[t - 1, p]
        for y in range(k):
            v = a + transition[p, y]
            value[t, y] = v if v > value[t, y] else value[t, y]
        p += 1


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1])")
def viterbi(unary: Floats, transition: Floats, begin: Floats, end: Floats, out: Ints) -> float:
    """Return the highest score, its labels in `out`; -inf where nothing is admissible. Ties go to the lower label."""
    n, k = unary.shape
    value = np.empty((n, k))
    for y in range(k):
        value[0, y] = begin[y] + unary[0, y]
    for t in range(1, n):
        best_steps(value, t, transition)
        for y in range(k):
            value[t, y] += unary[t, y]
    last = 0
    for y in range(k):
        value[n - 1, y] += end[y]
        if value[n - 1, y] > value[n - 1, last]:
            last = y
    out[n - 1] = last
    for t in range(n - 1, 0, -1):
        # Backtracking takes one label per token.
        y, at = out[t], 0
        best = value[t - 1, 0] + transition[0, y]
        for p in range(1, k):
            v = value[t - 1, p] + transition[p, y]
            if v > best:
                at, best = p, v
        out[t - 1] = at
    return float(value[n - 1, last])


@kernel(
    "int64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[:, ::1], float64[::1])",
)
def viterbi_several(unary: Floats, transition: Floats, begin: Floats, end: Floats, out: Ints, scores: Floats) -> int:
    """Write the best sequences to the rows of `out`, best first; return how many there are.

    For each label at each token, the `count` best paths to it are kept in order; those of the next token are a
    merge of k sorted lists.
    """
    n, k = unary.shape
    count = scores.size
    value = np.full((n, k, count), -np.inf)
    label = np.zeros((n, k, count), dtype=np.int64)
    rank = np.zeros((n, k, count), dtype=np.int64)
    for y in range(k):
        value[0, y, 0] = begin[y] + unary[0, y]
    at = np.empty(k, dtype=np.int64)
    for t in range(1, n):
        for y in range(k):
            at[:] = 0
            for r in range(count):
                best, top = -1, -np.inf
                for p in range(k):
                    if at[p] < count and value[t - 1, p, at[p]] + transition[p, y] > top:
                        best, top = p, value[t - 1, p, at[p]] + transition[p, y]
                if best < 0:
                    break
                value[t, y, r] = top + unary[t, y]
                label[t, y, r], rank[t, y, r] = best, at[best]
                at[best] += 1
    at[:] = 0
    for r in range(count):
        best, top = -1, -np.inf
        for p in range(k):
            if at[p] < count and value[n - 1, p, at[p]] + end[p] > top:
                best, top = p, value[n - 1, p, at[p]] + end[p]
        if best < 0:
            return r
        scores[r] = top
        y, place = best, at[best]
        at[best] += 1
        for t in range(n - 1, -1, -1):
            out[r, t] = y
            y, place = label[t, y, place], rank[t, y, place]
    return count
