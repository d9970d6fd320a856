"""The best sequences of a chain: one (Viterbi) or several."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1])")
def viterbi(unary: Floats, transition: Floats, begin: Floats, end: Floats, out: Ints) -> float:
    """The highest score, its labels in `out`; -inf where nothing is admissible. Of equals the lower label wins."""
    n, k = unary.shape
    value = np.empty((n, k))
    for y in range(k):
        value[0, y] = begin[y] + unary[0, y]
    for t in range(1, n):
        now = value[t]
        for y in range(k):
            now[y] = -np.inf
        for p in range(k):
            before, steps = value[t - 1, p], transition[p]
            # A selection, no branch and no back pointer: several labels at once. The way back is one label a token.
            for y in range(k):
                v = before + steps[y]
                now[y] = v if v > now[y] else now[y]
        for y in range(k):
            now[y] += unary[t, y]
    last = 0
    for y in range(k):
        value[n - 1, y] += end[y]
        if value[n - 1, y] > value[n - 1, last]:
            last = y
    out[n - 1] = last
    for t in range(n - 1, 0, -1):
        y, at = out[t], 0
        for p in range(1, k):
            if value[t - 1, p] + transition[p, y] > value[t - 1, at] + transition[at, y]:
                at = p
        out[t - 1] = at
    return float(value[n - 1, last])


@kernel(
    "int64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[:, ::1], float64[::1])",
)
def viterbi_several(unary: Floats, transition: Floats, begin: Floats, end: Floats, out: Ints, scores: Floats) -> int:
    """The best sequences, best first, in the rows of `out`; returns how many there are.

    For each label at each token the `count` best ways to get there are kept, in order; those of the next
    token are a merge of k sorted lists.
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
