"""Sums over all sequences of a chain, in log space, at the cost of matrix products.

Log weights of the sequences that end in each label are kept relative to the largest of them, so length costs no
precision. log sum exp(alpha_p + T_py) is max_p T_py + log sum exp(alpha_p) exp(T_py - max). That takes k exponentials
and a matrix product per token, and no logarithm while every label keeps a weight above 1e-200. Where a sum is smaller,
terms that underflowed may matter, and the sum is computed again with the maximum of its own terms. The result is that
of plain log space, up to rounding.

Expectations go backwards through the same sums. The probability of the previous label is a ratio of terms of one sum,
so probabilities add up to one whatever the size of the scores.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel


@kernel("void(float64[:, ::1], float64[::1], float64[:, ::1])")
def exponentials(transition: Floats, top: Floats, out: Floats) -> None:
    """top_y = max_p T_py and out = exp(T - top), with 0 for a label that no transition leads to."""
    k = top.size
    for y in range(k):
        top[y] = -np.inf
    for p in range(k):
        for y in range(k):
            top[y] = max(top[y], transition[p, y])
    for p in range(k):
        for y in range(k):
            out[p, y] = math.exp(transition[p, y] - top[y]) if top[y] > -np.inf else 0.0


@kernel("float64(float64[::1], float64[::1], float64[::1])")
def relative(alpha: Floats, out: Floats, add: Floats) -> float:
    """alpha + add, minus its maximum, in `alpha`, and its exponential in `out`; return the maximum."""
    top = -np.inf
    for y in range(alpha.size):
        alpha[y] += add[y]
        top = max(top, alpha[y])
    if top > -np.inf:
        for y in range(alpha.size):
            alpha[y] -= top
            out[y] = math.exp(alpha[y])
    return top


@kernel("float64(float64[::1], float64[:, ::1], int64, float64[::1])")
def exact_terms(alpha: Floats, transition: Floats, y: int, out: Floats) -> float:
    """exp(alpha_p + T_py - max) for each p, adding up to one, in `out`; return log sum exp(alpha_p + T_py)."""
    k, top = alpha.size, -np.inf
    for p in range(k):
        top = max(top, alpha[p] + transition[p, y])
    if top == -np.inf:
        for p in range(k):
            out[p] = 0.0
        return -np.inf
    total = 0.0
    for p in range(k):
        out[p] = math.exp(alpha[p] + transition[p, y] - top)
        total += out[p]
    for p in range(k):
        out[p] /= total
    return top + math.log(total)


@kernel("float64(float64[::1], float64[::1], float64[::1], float64[::1])")
def products(sums: Floats, top: Floats, add: Floats, out: Floats) -> float:
    """Write sums * exp(top + add), relative to its maximum, to `out`; return its log, or -inf if one is too small."""
    largest = -np.inf
    for y in range(top.size):
        largest = max(largest, top[y] + add[y])
    if largest == -np.inf:
        return -np.inf
    low, high = np.inf, 0.0
    for y in range(top.size):
        out[y] = sums[y] * math.exp(top[y] + add[y] - largest)
        low, high = min(low, out[y]), max(high, out[y])
    if low < 1e-200:
        return -np.inf
    for y in range(top.size):
        out[y] /= high
    return largest + math.log(high)


@kernel("void(float64[::1], float64[::1])")
def logarithms(share: Floats, alpha: Floats) -> None:
    """alpha = log(share)."""
    for y in range(share.size):
        alpha[y] = math.log(share[y])


class Memory(NamedTuple):
    """exp of transitions relative to the largest into each label, and the data for the backward pass."""

    weight: Annotated[Floats, "float64[:, ::1]"]
    top: Annotated[Floats, "float64[::1]"]
    alpha: Annotated[Floats, "float64[:, ::1]"]
    share: Annotated[Floats, "float64[:, ::1]"]
    total: Annotated[Floats, "float64[:, ::1]"]


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], Memory)")
def forward(unary: Floats, transition: Floats, begin: Floats, end: Floats, memory: Memory) -> float:
    """Return the log partition, -inf where nothing is admissible.

    Fills share (relative weights), total_ty = sum_p share_(t-1)p weight_py, and alpha = log(share) where needed:
    for the last token, and before each token with a total below 1e-200.
    """
    n, k = unary.shape
    weight, top, alpha, share, total = memory
    for y in range(k):
        alpha[0, y] = begin[y]
    offset = relative(alpha[0], share[0], unary[0])
    spare, lost, known = np.empty(k), 0.0, True
    for t in range(1, n):
        if offset == -np.inf:
            return offset
        sums, now = total[t], alpha[t]
        for y in range(k):
            sums[y] = 0.0
        for p in range(k):
            s, row = share[t - 1, p], weight[p]
            for y in range(k):
                sums[y] += s * row[y]
        add = products(sums, top, unary[t], share[t])
        if add == -np.inf:
            if not known:
                logarithms(share[t - 1], alpha[t - 1])
            for y in range(k):
                if sums[y] >= 1e-200:
                    now[y] = top[y] + math.log(sums[y])
                else:
                    now[y] = exact_terms(alpha[t - 1], transition, y, spare)
            add, known = relative(now, share[t], unary[t]), True
        else:
            known = False
        # Compensated summation: a sum of a million terms keeps its digits.
        add -= lost
        after = offset + add
        lost = (after - offset) - add if after > -np.inf else 0.0
        offset = after
    if not known:
        logarithms(share[n - 1], alpha[n - 1])
    ends, sum_of_ends = np.empty(k), 0.0
    for y in range(k):
        spare[y] = alpha[n - 1, y]
    last = relative(spare, ends, end)
    if offset == -np.inf or last == -np.inf:
        return -np.inf
    for y in range(k):
        sum_of_ends += ends[y]
    return offset + last + math.log(sum_of_ends)


@kernel(
    "float64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64[:, ::1], float64[:, ::1],"
    " float64[:, :, ::1])",
    fastmath={"reassoc"},
)
def forward_backward(
    unary: Floats, transition: Floats, begin: Floats, end: Floats, nodes: Floats, steps: Floats, edges: Floats
) -> float:
    """Return the log partition, with P(y_t) in `nodes` and expected counts of transitions added to `steps`.

    `edges` gets P(y_t, y_(t+1)) in its row t; it may have no rows.
    """
    n, k = unary.shape
    top, weight = np.empty(k), np.empty((k, k))
    exponentials(transition, top, weight)
    alpha, share, total = np.empty((n, k)), np.empty((n, k)), np.empty((n, k))
    log_partition = forward(unary, transition, begin, end, Memory(weight, top, alpha, share, total))
    if log_partition == -np.inf:
        return log_partition
    ratio, spare, counts = np.empty(k), np.empty(k), np.zeros((k, k))
    relative(alpha[n - 1], ratio, end)
    sum_of_ends = 0.0
    for y in range(k):
        sum_of_ends += ratio[y]
    for y in range(k):
        nodes[n - 1, y] = ratio[y] / sum_of_ends
    for t in range(n - 1, 0, -1):
        after, before = nodes[t], nodes[t - 1]
        for y in range(k):
            before[y] = ratio[y] = 0.0
        for y in range(k):
            if total[t, y] >= 1e-200:
                ratio[y] = after[y] / total[t, y]
            elif after[y] > 0.0:
                exact_terms(alpha[t - 1], transition, y, spare)
                for p in range(k):
                    before[p] += after[y] * spare[p]
                    steps[p, y] += after[y] * spare[p]
                    if edges.shape[0]:
                        edges[t - 1, p, y] = after[y] * spare[p]
        for p in range(k):
            s, row, into = share[t - 1, p], weight[p], counts[p]
            sum_p = 0.0
            for y in range(k):
                sum_p += row[y] * ratio[y]
                into[y] += s * ratio[y]
            before[p] += s * sum_p
            if edges.shape[0]:
                for y in range(k):
                    edges[t - 1, p, y] += s * row[y] * ratio[y]
    for p in range(k):
        for y in range(k):
            steps[p, y] += counts[p, y] * weight[p, y]
    return log_partition
