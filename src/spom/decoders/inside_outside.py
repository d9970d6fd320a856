"""Sums over all projective trees in O(n^3), in log space.

The inside pass is Eisner's chart with log sum exp in place of max. The outside pass hands the probability of each
span down to its splits, in shares that sum to one whatever the size of the scores.
"""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.decoders.eisner import fill, max_sum


@kernel("void(float64[::1], float64[::1], int64, int64, float64, float64[::1], float64[::1], float64[::1])")
def hand_down(x: Floats, y: Floats, a: int, b: int, mass: float, of_x: Floats, of_y: Floats, spare: Floats) -> None:
    """Split `mass` over the `spare.size` terms of `eisner.log_sum`, and add its parts to both sides of each."""
    if mass == 0.0:
        return
    count = spare.size
    top, total = max_sum(x, y, a, b, count), 0.0
    for q in range(count):
        spare[q] = math.exp(x[a + q] + y[b + q] - top)
        total += spare[q]
    for q in range(count):
        part = mass * (spare[q] / total)
        of_x[a + q] += part
        of_y[b + q] += part


@kernel("float64(float64[:, ::1], boolean, float64[:, ::1])")
def inside_outside(scores: Floats, single_root: bool, out: Floats) -> float:
    """Return the log partition (-inf: no tree), with P(head -> modifier) in `out`, which must hold zeros."""
    N = scores.shape[0]
    chart, root = np.empty((6, N, N)), np.empty((2, N))
    log_partition = fill(scores, single_root, True, chart, root)
    if log_partition == -np.inf:
        return log_partition
    right, right_end, left, left_end = chart[0], chart[1], chart[2], chart[3]
    to_right, to_left_end = chart[4], chart[5]
    mass, of_root = np.zeros((6, N, N)), np.zeros((2, N))
    in_right, in_right_end, in_left, in_left_end = mass[0], mass[1], mass[2], mass[3]
    in_to_right, in_to_left_end = mass[4], mass[5]
    spare = np.empty(N)
    of_root[0, N - 1] = 1.0
    for r in range(N - 1, 0, -1):
        hand_down(root[1], right_end[r], 1, 1, of_root[0, r], of_root[1], in_right_end[r], spare[:r])
        out[0, r] = of_root[1, r]
        count = 1 if single_root else r
        hand_down(root[0], left_end[r], 0, 1, of_root[1, r], of_root[0], in_left_end[r], spare[:count])
    for width in range(N - 2, 0, -1):
        room = spare[:width]
        for i in range(1, N - width):
            j = i + width
            m = in_right[i, j] + in_right_end[j, i]
            hand_down(to_right[i], right_end[j], i + 1, i + 1, m, in_to_right[i], in_right_end[j], room)
            m = in_left[i, j] + in_left_end[j, i]
            hand_down(left[i], to_left_end[j], i, i, m, in_left[i], in_to_left_end[j], room)
            out[i, j], out[j, i] = in_to_right[i, j], in_to_left_end[j, i]
            m = out[i, j] + out[j, i]
            hand_down(right[i], left_end[j], i, i + 1, m, in_right[i], in_left_end[j], room)
    return log_partition
