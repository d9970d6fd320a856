"""Eisner's chart of projective trees in O(n^3): the best tree, or sums over all."""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel("float64(float64[::1], float64[::1], int64, int64, int64)")
def max_sum(x: Floats, y: Floats, a: int, b: int, count: int) -> float:
    """max over q < count of x[a + q] + y[b + q]; four at a time, because each maximum depends on the one before."""
    x, y = x[a : a + count], y[b : b + count]
    m0 = m1 = m2 = m3 = -np.inf
    for r in range(count // 4):
        q = 4 * r
        v0, v1, v2, v3 = x[q] + y[q], x[q + 1] + y[q + 1], x[q + 2] + y[q + 2], x[q + 3] + y[q + 3]
        m0 = v0 if v0 > m0 else m0
        m1 = v1 if v1 > m1 else m1
        m2 = v2 if v2 > m2 else m2
        m3 = v3 if v3 > m3 else m3
    for q in range(4 * (count // 4), count):
        m0 = max(m0, x[q] + y[q])
    return max(max(m0, m1), max(m2, m3))


@kernel("float64(float64[::1], float64[::1], int64, int64, int64)")
def log_sum(x: Floats, y: Floats, a: int, b: int, count: int) -> float:
    """log sum over q < count of exp(x[a + q] + y[b + q])."""
    top = max_sum(x, y, a, b, count)
    if top == -np.inf or count == 1:
        return top
    total = 0.0
    x, y = x[a : a + count], y[b : b + count]
    for q in range(count):
        s = x[q] + y[q] - top
        # Terms below exp(-50) of the largest do not change a sum of fewer than exp(14) terms.
        if s > -50.0:
            total += math.exp(s)
    return top + math.log(total)


@kernel("float64(boolean, float64[::1], float64[::1], int64, int64, int64)")
def joined(sums: bool, x: Floats, y: Floats, a: int, b: int, count: int) -> float:
    """Return the maximum, or with `sums` the log sum exp, of x[a + q] + y[b + q]."""
    return log_sum(x, y, a, b, count) if sums else max_sum(x, y, a, b, count)


@kernel("int64(float64[::1], float64[::1], int64, int64, int64)")
def first_max(x: Floats, y: Floats, a: int, b: int, count: int) -> int:
    """Return the first q at which x[a + q] + y[b + q] is largest."""
    at = 0
    for q in range(1, count):
        if x[a + q] + y[b + q] > x[a + at] + y[b + at]:
            at = q
    return at


@kernel("float64(float64[:, ::1], boolean, boolean, float64[:, :, ::1], float64[:, ::1])")
def fill(scores: Floats, single_root: bool, sums: bool, chart: Floats, root: Floats) -> float:
    """Fill the chart of best spans, or with `sums` of their log sums; return the best score, or the log partition.

    chart[0][i, j]: all of i..j is below i (complete, to the right); chart[1][j, i]: the same, indexed by its end;
    chart[2][i, j]: all of i..j is below j; chart[3][j, i]: the same, indexed by its end; chart[4][i, j]: the arc
    i -> j is made; chart[5][j, i]: the arc j -> i. root[0, j]: the best of words 1..j below the root; root[1, r]: the
    same with r as the last child of the root. Each is stored in the order in which sums run through it.
    """
    N = scores.shape[0]
    right, right_end, left, left_end = chart[0], chart[1], chart[2], chart[3]
    to_right, to_left_end = chart[4], chart[5]
    for i in range(1, N):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 0.0
    for width in range(1, N - 1):
        for i in range(1, N - width):
            j = i + width
            inner = joined(sums, right[i], left_end[j], i, i + 1, width)
            to_right[i, j] = inner + scores[i, j]
            to_left_end[j, i] = inner + scores[j, i]
            right[i, j] = right_end[j, i] = joined(sums, to_right[i], right_end[j], i + 1, i + 1, width)
            left[i, j] = left_end[j, i] = joined(sums, left[i], to_left_end[j], i, i, width)
    root[0, 0] = 0.0
    for r in range(1, N):
        root[1, r] = scores[0, r] + joined(sums, root[0], left_end[r], 0, 1, 1 if single_root else r)
        root[0, r] = joined(sums, root[1], right_end[r], 1, 1, r)
    return float(root[0, N - 1])


@kernel("void(float64[:, :, ::1], float64[:, ::1], boolean, int64[::1])")
def trace(chart: Floats, root: Floats, single_root: bool, heads: Ints) -> None:
    """Write the best tree of a chart of best spans to `heads`."""
    N = root.shape[1]
    right, right_end, left, left_end = chart[0], chart[1], chart[2], chart[3]
    to_right, to_left_end = chart[4], chart[5]
    stack = np.empty((4 * N + 4, 3), dtype=np.int64)  # kind (0 right, 1 left, 2 between two words), i, j
    size, j = 0, N - 1
    while j > 0:
        r = 1 + first_max(root[1], right_end[j], 1, 1, j)
        q = first_max(root[0], left_end[r], 0, 1, 1 if single_root else r)
        heads[r - 1] = 0
        stack[size, 0], stack[size, 1], stack[size, 2] = 0, r, j
        stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 1, q + 1, r
        size += 2
        j = q
    while size:
        size -= 1
        kind, i, j = stack[size, 0], stack[size, 1], stack[size, 2]
        if i == j:
            continue
        if kind == 2:
            q = i + first_max(right[i], left_end[j], i, i + 1, j - i)
            stack[size, 0], stack[size, 1], stack[size, 2] = 0, i, q
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 1, q + 1, j
        elif kind == 0:
            q = i + 1 + first_max(to_right[i], right_end[j], i + 1, i + 1, j - i)
            heads[q - 1] = i
            stack[size, 0], stack[size, 1], stack[size, 2] = 2, i, q
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 0, q, j
        else:
            q = i + first_max(left[i], to_left_end[j], i, i, j - i)
            heads[q - 1] = j
            stack[size, 0], stack[size, 1], stack[size, 2] = 2, q, j
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 1, i, q
        size += 2


@kernel("int64(float64[:, ::1], boolean, int64[::1])")
def eisner(scores: Floats, single_root: bool, heads: Ints) -> int:
    """Return 1 with the best projective tree in `heads`, 0 if there is none. Ties go to the first split."""
    N = scores.shape[0]
    chart, root = np.empty((6, N, N)), np.empty((2, N))
    if fill(scores, single_root, False, chart, root) == -np.inf:
        return 0
    trace(chart, root, single_root, heads)
    return 1
