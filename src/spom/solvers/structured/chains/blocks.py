r"""SPOM with explicit features, and its dual-averaged form: each block is a number times a table.

A penalty that looks at block norms alone scales each block (Prop. 1 of SPOM), so theta_m = a_m v_m:

    forward-backward   v_m <- v_m - (eta / a_m) g_m,   a_m <- a_m prox_eta(b)_m / b_m,   b_m = a_m norm(v_m)
    dual averaging     v_m <- v_m + g_m,               a_m = -prox_(eta t)(b)_m / norm(v_m),   b_m = eta norm(v_m)

A round costs the non-zeros of its gradient and the M numbers a_m. Steps between labels, beginnings and ends are the
last block. The mean of all iterates comes from sums taken where something changes: with S_m the sum of a_m so far it is
(S_m v_m - sum over changes of S_m dv_m) / rounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.solvers.structured.chains.data import Ids
from spom.solvers.structured.chains.residual import Singles, residual
from spom.solvers.structured.chains.scores import ROWS, block_scores

# Rows of the table of blocks: a_m, norm(v_m)^2, its largest value since it was summed up, S_m.
SCALE, SQUARED, PEAK, SUM = range(4)


@kernel(
    f"void({ROWS}, int64, float32[:, ::1], boolean[::1], float64[::1], int32[::1], float32[:, ::1], float32[:, ::1],"
    " float64[:, ::1])"
)
def change_rows(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    first: int,
    grad: Singles,
    active: NDArray[np.bool_],
    factor: Floats,
    block: Ids,
    table: Singles,
    average: Singles,
    numbers: Floats,
) -> None:
    """v_j += factor of its block * value * gradient, for the features of active tokens; norms and sums follow."""
    two = np.float32(2.0)
    for t in range(active.size):
        if not active[t]:
            continue
        g = grad[t]
        for e in range(indptr[first + t], indptr[first + t + 1]):
            j = indices[e]
            m = block[j]
            c = np.float32(factor[m] * values[e] if values.size else factor[m])
            row, more = table[j], np.float32(0.0)
            for q in range(g.size):
                old, d = row[q], c * g[q]
                row[q] = old + d
                more += d * (two * old + d)
            numbers[1, m] += more
            if average.shape[0]:
                into, s = average[j], np.float32(numbers[3, m])
                for q in range(g.size):
                    into[q] += s * (c * g[q])


@kernel("void(float64[:, ::1], float64, float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def change_chain(grad: Floats, c: float, table: Floats, average: Floats, numbers: Floats) -> None:
    """The same for the block of the chain, the last."""
    m = numbers.shape[1] - 1
    for a in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            if grad[a, b] != 0.0:
                old, d = table[a, b], c * grad[a, b]
                table[a, b] = old + d
                numbers[1, m] += d * (2.0 * old + d)
                average[a, b] += numbers[3, m] * d


@kernel("void(float32[:, ::1], float32[:, ::1], int64, int64, int64, float64[:, ::1], boolean)")
def fold(table: Singles, average: Singles, low: int, high: int, m: int, numbers: Floats, clear: bool) -> None:
    """Put a_m into the rows of a block (or clear them), sum its norm up again, and begin a new sum S_m."""
    a = np.float32(0.0 if clear else numbers[0, m])
    s, total = np.float32(numbers[3, m]), 0.0
    for j in range(low, high):
        row = table[j]
        if average.shape[0]:
            into = average[j]
            for q in range(row.size):
                into[q] -= s * row[q]
        part = np.float32(0.0)
        for q in range(row.size):
            row[q] *= a
            part += row[q] * row[q]
        total += float(part)
    numbers[0, m], numbers[1, m], numbers[2, m], numbers[3, m] = 1.0, total, total, 0.0


@kernel("void(float64[:, ::1], float64[:, ::1], float64[:, ::1], boolean)")
def fold_chain(table: Floats, average: Floats, numbers: Floats, clear: bool) -> None:
    """The same for the block of the chain."""
    m, total = numbers.shape[1] - 1, 0.0
    for a in range(table.shape[0]):
        for b in range(table.shape[1]):
            average[a, b] -= numbers[3, m] * table[a, b]
            table[a, b] = 0.0 if clear else numbers[0, m] * table[a, b]
            total += table[a, b] ** 2
    numbers[0, m], numbers[1, m], numbers[2, m], numbers[3, m] = 1.0, total, total, 0.0


@kernel(f"void({ROWS}, int64, int64, int32[::1], int64, float32[:, ::1], float32[:, ::1], float64[:, ::1])")
def clear_rows(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    first: int,
    n: int,
    block: Ids,
    m: int,
    table: Singles,
    average: Singles,
    numbers: Floats,
) -> None:
    """A block that was zero before this sentence is zero again: only the sentence's own rows have to be cleared."""
    s = np.float32(numbers[3, m])
    for e in range(indptr[first], indptr[first + n]):
        j = indices[e]
        if block[j] == m:
            row = table[j]
            if average.shape[0]:
                into = average[j]
                for q in range(row.size):
                    into[q] -= s * row[q]
            row[:] = np.float32(0.0)
    numbers[0, m], numbers[1, m], numbers[2, m] = 1.0, 0.0, 0.0


@kernel("void(float64[:, ::1], float64[::1], float64, float64, boolean)")
def block_sizes(numbers: Floats, norms: Floats, eta: float, t: float, dual: bool) -> None:
    """b_m, what the prox takes."""
    for m in range(norms.size):
        norms[m] = (eta if dual else numbers[0, m]) * math.sqrt(max(numbers[1, m], 0.0))


@kernel(
    f"UniTuple(float64, 2)({ROWS}, int64[::1], int64[::1], int64[::1], float64[::1], float32[:, ::1],"
    " float32[:, ::1], int32[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1],"
    f" FunctionType({PROX}), float64[::1], int64[::1], int64, float64[::1], int64, int64, boolean, boolean)"
)
def block_rounds(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    offsets: Ints,
    y: Ints,
    order: Ints,
    steps: Floats,
    table: Singles,
    average: Singles,
    block: Ids,
    starts: Ints,
    chain_table: Floats,
    chain_average: Floats,
    forbidden: Floats,
    numbers: Floats,
    prox: Any,
    prox_reals: Floats,
    prox_ints: Ints,
    penalised: int,
    reals: Floats,
    done: int,
    loss: int,
    dual: bool,
    learn_chain: bool,
) -> tuple[float, float]:
    """One round for each sentence in `order`; the sum of losses and the number of tokens with an update.

    `penalised` blocks, from the first, are in the prox; a chain that is not gets the squared l2 norm of strength
    reals[0]; reals[1:] are cost and skip.
    """
    l2_chain, cost, skip = reals
    k, lanes, last = forbidden.shape[1], table.shape[1], numbers.shape[1] - 1
    longest = 0
    for i in order:
        longest = max(longest, offsets[i + 1] - offsets[i])
    unary, work, path = np.empty((longest, k)), np.empty((3, longest, k)), np.empty(longest, dtype=np.int64)
    grad, active = np.zeros((longest, lanes), dtype=np.float32), np.zeros(longest, dtype=np.bool_)
    acc, chain = np.empty(lanes, dtype=np.float32), np.empty((k + 2, k))
    weight, parts = np.empty((k + 2, k)), np.empty((k + 2, k))
    factor, before, norms = np.ones(last + 1), np.empty(penalised), np.empty(penalised)
    empty = np.empty(last + 1, dtype=np.bool_)
    for m in range(last + 1):
        empty[m] = numbers[1, m] == 0.0
    # A mean is a difference of sums that grow as 1 / scale.
    least = 1e-6 if average.shape[0] == 0 else 0.1
    total, touched = 0.0, 0.0
    for r in range(order.size):
        first, n, eta, t = offsets[order[r]], offsets[order[r] + 1] - offsets[order[r]], steps[r], float(done + r + 1)
        count = 0.0
        if n > 0:
            block_scores(indptr, indices, values, first, table, numbers[0], block, acc, unary[:n])
            for a in range(k + 2):
                for b in range(k):
                    chain[a, b] = numbers[0, last] * chain_table[a, b] + forbidden[a, b]
            gold = y[first : first + n]
            value, count = residual(
                loss, unary[:n], chain, gold, cost, skip, work, weight, path[:n], grad[:n], active[:n], parts
            )
            total += value
            touched += count
        if count > 0.0:
            if not dual:
                for m in range(last + 1):
                    factor[m] = -eta / numbers[0, m]
            change_rows(indptr, indices, values, first, grad[:n], active[:n], factor, block, table, average, numbers)
            if learn_chain:
                change_chain(parts, factor[last], chain_table, chain_average, numbers)
        block_sizes(numbers, before, eta, t, dual)
        prox(before, eta * t if dual else eta, prox_reals, prox_ints, norms)
        for m in range(penalised):
            numbers[2, m] = max(numbers[2, m], numbers[1, m])
            if dual:
                numbers[0, m] = -eta * norms[m] / before[m] if before[m] > 0.0 else 0.0
            elif norms[m] > 0.0:
                numbers[0, m] *= norms[m] / before[m]
                # Small scales would overflow single precision; where most of a norm is lost its errors are not.
                if numbers[0, m] < least or numbers[1, m] < 1e-6 * numbers[2, m]:
                    if m < last:
                        fold(table, average, starts[m], starts[m + 1], m, numbers, False)
                    else:
                        fold_chain(chain_table, chain_average, numbers, False)
                empty[m] = False
            elif before[m] > 0.0:
                if m == last:
                    fold_chain(chain_table, chain_average, numbers, True)
                elif empty[m]:
                    clear_rows(indptr, indices, values, first, n, block, m, table, average, numbers)
                else:
                    fold(table, average, starts[m], starts[m + 1], m, numbers, True)
                empty[m] = True
        if penalised == last:
            if dual:
                numbers[0, last] = -eta / (1.0 + eta * t * l2_chain)
            else:
                numbers[0, last] /= 1.0 + eta * l2_chain
                if numbers[0, last] < least:
                    fold_chain(chain_table, chain_average, numbers, False)
        for m in range(last + 1):
            numbers[3, m] += numbers[0, m]
    return total, touched
