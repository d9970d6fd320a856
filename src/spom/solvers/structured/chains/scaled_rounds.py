r"""SPOM with explicit features, and its dual-averaged form: each block is a number times a table.

A penalty of block norms alone scales each block (Prop. 1 of SPOM), so theta_m = a_m v_m:

    forward-backward   v_m <- v_m - (eta / a_m) g_m,   a_m <- a_m prox_eta(b)_m / b_m,   b_m = a_m norm(v_m)
    dual averaging     v_m <- v_m + g_m,               a_m = -prox_(eta t)(b)_m / norm(v_m),   b_m = eta norm(v_m)

A round takes time for the non-zeros of its gradient and the M numbers a_m. Steps between labels, beginnings and ends
are the last block. The mean of all iterates comes from sums taken at changes: with S_m the sum of a_m so far, it is
(S_m v_m - sum over changes of S_m dv_m) / rounds.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles
from spom.core.jit import kernel
from spom.penalties.forms import Prox
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.scores import block_scores
from spom.solvers.structured.chains.sentence import Rounds, Work, longest_of, make_work, sentence_gradient

# Rows of the table of blocks: a_m, norm(v_m)^2, its largest value since it was last computed, S_m.
SCALE, SQUARED, PEAK, SUM = range(4)
# A block with a scale below LEAST moves it into its rows, as single precision would overflow. A mean is a difference of
# sums that grow as 1 / scale, so it needs larger scales. Not tuned: limits of the arithmetic.
LEAST, LEAST_MEAN = 1e-6, 0.1


class Scaled(NamedTuple):
    """The blocks: rows `table` of features with their part of the mean and their block, and the chain's block.

    `average` has no rows if no mean is wanted.
    """

    table: Annotated[Singles, "float32[:, ::1]"]
    average: Annotated[Singles, "float32[:, ::1]"]
    block: Annotated[Ids, "int32[::1]"]
    starts: Annotated[Ints, "int64[::1]"]
    chain: Annotated[Floats, "float64[:, ::1]"]
    chain_average: Annotated[Floats, "float64[:, ::1]"]
    forbidden: Annotated[Floats, "float64[:, ::1]"]
    numbers: Annotated[Floats, "float64[:, ::1]"]


class BlockRule(NamedTuple):
    """The prox acts on the first `penalised` blocks; a chain that is not among them pays l2_chain/2 norm2^2.

    Dual averaging measures block m by metric[m] norm(theta_m), both in the penalty and in the distance to zero: a_m =
    -prox_(eta t)(b)_m / (metric[m] norm(v_m)) with b_m = eta norm(v_m) / metric[m]. Each round ends with the projection
    of all blocks onto the ball of `radius` (Algorithm 3 of SPOM).
    """

    prox: Prox
    penalised: Annotated[int, "int64"]
    metric: Annotated[Floats, "float64[::1]"]
    l2_chain: Annotated[float, "float64"]
    dual: Annotated[bool, "boolean"]
    learn_chain: Annotated[bool, "boolean"]
    radius: Annotated[float, "float64"] = np.inf


@kernel("void(Tokens, int64, int64, Work, float64[::1], Scaled)")
def change_rows(tokens: Tokens, first: int, n: int, work: Work, factor: Floats, to: Scaled) -> None:
    """v_j += factor of its block * value * gradient, for the features of active tokens; norms and sums are updated."""
    indptr, indices, values, _ = tokens
    table, average, block, numbers = to.table, to.average, to.block, to.numbers
    grad, active, two = work.grad, work.active, np.float32(2.0)
    for t in range(n):
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
            numbers[SQUARED, m] += more
            if average.shape[0]:
                into, s = average[j], np.float32(numbers[SUM, m])
                for q in range(g.size):
                    into[q] += s * (c * g[q])


@kernel("void(float64[:, ::1], float64, Scaled)")
def change_chain(grad: Floats, c: float, to: Scaled) -> None:
    """Do as `change_rows` for the last block, the chain."""
    m, numbers = to.numbers.shape[1] - 1, to.numbers
    for a in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            if grad[a, b] != 0.0:
                old, d = to.chain[a, b], c * grad[a, b]
                to.chain[a, b] = old + d
                numbers[SQUARED, m] += d * (2.0 * old + d)
                to.chain_average[a, b] += numbers[SUM, m] * d


@kernel("void(Scaled, int64, float64)")
def begin_again(to: Scaled, m: int, total: float) -> None:
    """Set the scale of block m to 1 and its squared norm to `total`, and start a new sum."""
    to.numbers[SCALE, m], to.numbers[SQUARED, m], to.numbers[PEAK, m], to.numbers[SUM, m] = 1.0, total, total, 0.0


@kernel("void(Scaled, int64, boolean)")
def fold(to: Scaled, m: int, clear: bool) -> None:
    """Move a_m into the rows of a block (or clear them), recompute its norm, and start a new sum S_m."""
    a = np.float32(0.0 if clear else to.numbers[SCALE, m])
    s, total = np.float32(to.numbers[SUM, m]), 0.0
    for j in range(to.starts[m], to.starts[m + 1]):
        row = to.table[j]
        if to.average.shape[0]:
            into = to.average[j]
            for q in range(row.size):
                into[q] -= s * row[q]
        part = np.float32(0.0)
        for q in range(row.size):
            row[q] *= a
            part += row[q] * row[q]
        total += float(part)
    begin_again(to, m, total)


@kernel("void(Scaled, boolean)")
def fold_chain(to: Scaled, clear: bool) -> None:
    """Do as `fold` for the block of the chain."""
    m, total = to.numbers.shape[1] - 1, 0.0
    for a in range(to.chain.shape[0]):
        for b in range(to.chain.shape[1]):
            to.chain_average[a, b] -= to.numbers[SUM, m] * to.chain[a, b]
            to.chain[a, b] = 0.0 if clear else to.numbers[SCALE, m] * to.chain[a, b]
            total += to.chain[a, b] ** 2
    begin_again(to, m, total)


@kernel("void(Tokens, int64, int64, int64, Scaled)")
def clear_rows(tokens: Tokens, first: int, n: int, m: int, to: Scaled) -> None:
    """Clear a block that was zero before this sentence: only the sentence's own rows need to be cleared."""
    s = np.float32(to.numbers[SUM, m])
    for e in range(tokens.indptr[first], tokens.indptr[first + n]):
        j = tokens.indices[e]
        if to.block[j] == m:
            row = to.table[j]
            if to.average.shape[0]:
                into = to.average[j]
                for q in range(row.size):
                    into[q] -= s * row[q]
            row[:] = np.float32(0.0)
    to.numbers[SCALE, m], to.numbers[SQUARED, m], to.numbers[PEAK, m] = 1.0, 0.0, 0.0


@kernel("void(Scaled, BlockRule, float64, float64, float64[:, ::1])")
def new_norms(to: Scaled, rule: BlockRule, eta: float, t: float, norms: Floats) -> None:
    """Write b_m, the input of the prox, to norms[0], and its output to norms[1]."""
    for m in range(rule.penalised):
        size = math.sqrt(max(to.numbers[SQUARED, m], 0.0))
        norms[0, m] = eta * size / rule.metric[m] if rule.dual else to.numbers[SCALE, m] * size
    prox = rule.prox
    prox.function(norms[0], eta * t if rule.dual else eta, prox.reals, prox.ints, norms[1])


@kernel("void(Scaled, BlockRule, float64, float64, float64[:, ::1])")
def dual_scales(to: Scaled, rule: BlockRule, eta: float, t: float, norms: Floats) -> None:
    """a_m = -prox(b)_m / norm(v_m)."""
    last = to.numbers.shape[1] - 1
    for m in range(rule.penalised):
        to.numbers[PEAK, m] = max(to.numbers[PEAK, m], to.numbers[SQUARED, m])
        d = rule.metric[m]
        to.numbers[SCALE, m] = -eta * norms[1, m] / norms[0, m] / (d * d) if norms[0, m] > 0.0 else 0.0
    if rule.penalised == last:
        to.numbers[SCALE, last] = -eta / (1.0 + eta * t * rule.l2_chain)


@kernel("void(Scaled, BlockRule, float64, float64[:, ::1], boolean[::1], Tokens, int64, int64)")
def primal_scales(
    to: Scaled,
    rule: BlockRule,
    eta: float,
    norms: Floats,
    empty: NDArray[np.bool_],
    tokens: Tokens,
    first: int,
    n: int,
) -> None:
    """a_m <- a_m prox(b)_m / b_m, for the sentence at `first`; blocks that became zero are cleared."""
    numbers, last = to.numbers, to.numbers.shape[1] - 1
    least = LEAST if to.average.shape[0] == 0 else LEAST_MEAN
    for m in range(rule.penalised):
        numbers[PEAK, m] = max(numbers[PEAK, m], numbers[SQUARED, m])
        if norms[1, m] > 0.0:
            numbers[SCALE, m] *= norms[1, m] / norms[0, m]
            # If most of a norm cancels, its rounding errors remain.
            if numbers[SCALE, m] < least or numbers[SQUARED, m] < 1e-6 * numbers[PEAK, m]:
                if m < last:
                    fold(to, m, False)
                else:
                    fold_chain(to, False)
            empty[m] = False
        elif norms[0, m] > 0.0:
            if m == last:
                fold_chain(to, True)
            elif empty[m]:
                clear_rows(tokens, first, n, m, to)
            else:
                fold(to, m, True)
            empty[m] = True
    if rule.penalised == last:
        numbers[SCALE, last] /= 1.0 + eta * rule.l2_chain
        if numbers[SCALE, last] < least:
            fold_chain(to, False)


@kernel("void(Scaled, float64)")
def into_ball(to: Scaled, radius: float) -> None:
    """theta <- min(1, radius / norm(theta)) theta: the norms of the blocks are known, so only scales change."""
    numbers, square = to.numbers, 0.0
    for m in range(numbers.shape[1]):
        square += numbers[SCALE, m] ** 2 * max(numbers[SQUARED, m], 0.0)
    if square > radius * radius:
        for m in range(numbers.shape[1]):
            # A block at zero keeps its scale, by which forward-backward divides its next step.
            if numbers[SQUARED, m] > 0.0:
                numbers[SCALE, m] *= radius / math.sqrt(square)


@kernel("void(Scaled, BlockRule, float64, float64[::1])")
def step_factors(to: Scaled, rule: BlockRule, eta: float, factor: Floats) -> None:
    """Write the factor of a gradient in each block: 1, or -eta / a_m."""
    for m in range(factor.size):
        factor[m] = 1.0 if rule.dual else -eta / to.numbers[SCALE, m]


@kernel("UniTuple(float64, 2)(Rounds, Scaled, BlockRule)")
def block_rounds(rounds: Rounds, to: Scaled, rule: BlockRule) -> tuple[float, float]:
    """Run one round per sentence in order; return the sum of losses and the number of tokens with an update."""
    tokens, offsets, order, numbers = rounds.tokens, rounds.tokens.offsets, rounds.order, to.numbers
    k, last = to.forbidden.shape[1], numbers.shape[1] - 1
    work = make_work(longest_of(tokens, order), k, to.table.shape[1])
    factor, norms = np.ones(last + 1), np.empty((2, rule.penalised))
    empty = numbers[SQUARED] == 0.0
    total, touched = 0.0, 0.0
    for r in range(order.size):
        first, n = offsets[order[r]], offsets[order[r] + 1] - offsets[order[r]]
        eta, t, count = rounds.steps[r], float(rounds.done + r + 1), 0.0
        if n > 0:
            block_scores(tokens, first, to.table, numbers[SCALE], to.block, work.acc, work.unary[:n])
            for a in range(k + 2):
                for b in range(k):
                    work.chain[a, b] = numbers[SCALE, last] * to.chain[a, b] + to.forbidden[a, b]
            value, count = sentence_gradient(rounds, work, order[r], first, n)
            total += value
            touched += count
        if count > 0.0:
            step_factors(to, rule, eta, factor)
            change_rows(tokens, first, n, work, factor, to)
            if rule.learn_chain:
                change_chain(work.parts, factor[last], to)
        new_norms(to, rule, eta, t, norms)
        if rule.dual:
            dual_scales(to, rule, eta, t, norms)
        else:
            primal_scales(to, rule, eta, norms, empty, tokens, first, n)
        if rule.radius < np.inf:
            into_ball(to, rule.radius)
        for m in range(last + 1):
            numbers[SUM, m] += numbers[SCALE, m]
    return total, touched


def at_zero(blocks: Any, block: Ids, forbidden: Floats, lanes: int, average: bool) -> Scaled:
    """Return all blocks at zero with scale 1."""
    k = forbidden.shape[1]
    numbers = np.zeros((4, len(blocks) + 1))
    numbers[SCALE] = 1.0
    return Scaled(
        np.zeros((blocks.total, lanes), dtype=np.float32),
        np.zeros((blocks.total if average else 0, lanes), dtype=np.float32),
        block,
        np.ascontiguousarray(blocks.starts),
        np.zeros((k + 2, k)),
        np.zeros((k + 2, k)),
        forbidden,
        numbers,
    )
