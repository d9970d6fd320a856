"""Viterbi for many sentences with the same chain: labels padded to whole vectors, four predecessors at a time.

It takes the same sums and maxima as `viterbi`, so it returns the same labels, including ties, in half the time. Tables
that depend only on the chain are built once.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

LANES = 8


class Lanes(NamedTuple):
    """A chain in lanes: steps[g] has the transitions from the labels 4 g to 4 g + 3, back[y] those into label y."""

    steps: Annotated[Floats, "float64[:, ::1]"]
    back: Annotated[Floats, "float64[:, ::1]"]
    ends: Annotated[Floats, "float64[:, ::1]"]


@kernel("void(float64[:, ::1], Lanes)")
def lay_out(chain: Floats, out: Lanes) -> None:
    """Store a chain (transitions, first label, last label in k + 2 rows) in lanes; padding labels are never reached."""
    k, lanes = chain.shape[1], out.back.shape[0]
    for y in range(lanes):
        out.ends[0, y] = chain[k, y] if y < k else -np.inf
        out.ends[1, y] = chain[k + 1, y] if y < k else -np.inf
        for p in range(lanes):
            step = chain[p, y] if p < k and y < k else -np.inf
            out.steps[p // 4, (p % 4) * lanes + y] = out.back[y, p] = step


@kernel("void(float64[::1], int64, float64[::1], float64[::1])")
def best_of_four(before: Floats, p: int, steps: Floats, now: Floats) -> None:
    """now[y] = max(now[y], before[q] + transition[q, y] for the four q from p on)."""
    a, b, c, d, lanes = before[p], before[p + 1], before[p + 2], before[p + 3], now.size
    for y in range(lanes):
        v, w = a + steps[y], b + steps[lanes + y]
        x, z = c + steps[2 * lanes + y], d + steps[3 * lanes + y]
        v = v if v > w else w
        x = x if x > z else z
        v = v if v > x else x
        now[y] = v if v > now[y] else now[y]


@kernel("float64(float64[:, ::1], Lanes, int64, float64[:, ::1], float64[:, ::1], int64[::1])")
def viterbi_lanes(unary: Floats, chain: Lanes, k: int, value: Floats, best: Floats, out: Ints) -> float:
    """Return the highest score, with its labels in `out`; -inf where nothing is admissible. Ties go to the lower label.

    `value` and `best` are work space, one row per token: the best score that ends in each label, with and
    without the label's own score.
    """
    steps, back, ends = chain
    n, lanes = unary.shape
    for y in range(lanes):
        value[0, y] = ends[0, y] + unary[0, y]
    for t in range(1, n):
        before, now = value[t - 1], best[t]
        now[:] = -np.inf
        for g in range(lanes // 4):
            best_of_four(before, 4 * g, steps[g], now)
        for y in range(lanes):
            value[t, y] = now[y] + unary[t, y]
    last = 0
    for y in range(k):
        value[n - 1, y] += ends[1, y]
        if value[n - 1, y] > value[n - 1, last]:
            last = y
    out[n - 1] = last
    for t in range(n - 1, 0, -1):
        # Take the first predecessor that gives the stored maximum: it is the same sum, so the numbers are equal.
        y, p = out[t], 0
        while p < k - 1 and value[t - 1, p] + back[y, p] != best[t, y]:
            p += 1
        out[t - 1] = p
    return float(value[n - 1, last])
