"""The best projective tree with each arc, in O(n^3): Eisner's chart and a backward pass through it."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.eisner import fill, trace


@kernel("void(float64[::1], float64[::1], int64, int64, int64, float64, float64[::1], float64[::1])")
def hand_back(x: Floats, y: Floats, a: int, b: int, count: int, rest: float, of_x: Floats, of_y: Floats) -> None:
    """Update the best outside score of each side of the terms of `eisner.max_sum`; `rest` is that of their sum."""
    if rest == -np.inf:
        return
    x, y, of_x, of_y = x[a : a + count], y[b : b + count], of_x[a : a + count], of_y[b : b + count]
    for q in range(count):
        of_x[q] = max(of_x[q], rest + y[q])
        of_y[q] = max(of_y[q], rest + x[q])


@kernel("float64(float64[:, ::1], boolean, float64[:, ::1], int64[::1])")
def max_marginals(scores: Floats, single_root: bool, out: Floats, heads: Ints) -> float:
    """Return the best score (-inf: no tree), with its tree in `heads` and the best score with each arc h -> m in `out`.

    The trees are those of `eisner`; `out` is -inf where no tree has the arc.
    """
    N = scores.shape[0]
    chart, root = np.empty((6, N, N)), np.empty((2, N))
    out[:] = -np.inf
    best = fill(scores, single_root, False, chart, root)
    if best == -np.inf:
        return best
    trace(chart, root, single_root, heads)
    right, right_end, left, left_end = chart[0], chart[1], chart[2], chart[3]
    to_right, to_left_end = chart[4], chart[5]
    around, of_root = np.full((6, N, N), -np.inf), np.full((2, N), -np.inf)
    in_right, in_right_end, in_left, in_left_end = around[0], around[1], around[2], around[3]
    in_to_right, in_to_left_end = around[4], around[5]
    of_root[0, N - 1] = 0.0
    for r in range(N - 1, 0, -1):
        hand_back(root[1], right_end[r], 1, 1, r, of_root[0, r], of_root[1], in_right_end[r])
        out[0, r] = of_root[1, r] + root[1, r]
        count = 1 if single_root else r
        hand_back(root[0], left_end[r], 0, 1, count, of_root[1, r] + scores[0, r], of_root[0], in_left_end[r])
    for width in range(N - 2, 0, -1):
        for i in range(1, N - width):
            j = i + width
            rest = max(in_right[i, j], in_right_end[j, i])
            hand_back(to_right[i], right_end[j], i + 1, i + 1, width, rest, in_to_right[i], in_right_end[j])
            rest = max(in_left[i, j], in_left_end[j, i])
            hand_back(left[i], to_left_end[j], i, i, width, rest, in_left[i], in_to_left_end[j])
            out[i, j], out[j, i] = in_to_right[i, j] + to_right[i, j], in_to_left_end[j, i] + to_left_end[j, i]
            rest = max(in_to_right[i, j] + scores[i, j], in_to_left_end[j, i] + scores[j, i])
            hand_back(right[i], left_end[j], i, i + 1, width, rest, in_right[i], in_left_end[j])
    return best
