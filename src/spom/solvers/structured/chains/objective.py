"""What a learner of chains minimises, at any weights: the loss of sentences, and the penalty of blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids, Summary, Tokens
from spom.solvers.structured.chains.dispatch import COORDINATES, coordinate_strengths, fixed_strength
from spom.solvers.structured.chains.residual import Singles, residual
from spom.solvers.structured.chains.scores import ROWS, block_scores


@kernel(f"float64({ROWS}, int64[::1], int64[::1], float32[:, ::1], float64[:, ::1], int64, float64)")
def sum_of_losses(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    offsets: Ints,
    y: Ints,
    table: Singles,
    chain: Floats,
    loss: int,
    cost: float,
) -> float:
    """The loss of all sentences."""
    k, lanes, longest = chain.shape[1], table.shape[1], 0
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    unary, work, path = np.empty((longest, k)), np.empty((3, longest, k)), np.empty(longest, dtype=np.int64)
    grad, active = np.zeros((longest, lanes), dtype=np.float32), np.zeros(longest, dtype=np.bool_)
    acc, weight, parts = np.empty(lanes, dtype=np.float32), np.empty((k + 2, k)), np.empty((k + 2, k))
    scale, block, total = np.ones(1), np.zeros(table.shape[0], dtype=np.int32), 0.0
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n > 0:
            block_scores(indptr, indices, values, first, table, scale, block, acc, unary[:n])
            gold = y[first : first + n]
            total += residual(
                loss, unary[:n], chain, gold, cost, 1.0, work, weight, path[:n], grad[:n], active[:n], parts
            )[0]
    return total


def total_loss(tokens: Tokens, y: Ints, W: Singles, chain: Floats, loss: int, cost: float) -> float:
    """The sum of the losses of sentences at weights W (features x padded labels) and `chain` (k + 2, k)."""
    indptr, indices, values, offsets = tokens.arguments()
    return float(sum_of_losses(indptr, indices, values, offsets, y, W, chain, loss, cost))


def summarised(W: Singles, chain: Floats, starts: Ints) -> Summary:
    """Norms of blocks, non-zeros and sizes of weights."""
    spans = list(pairwise(starts.tolist()))
    norms = np.asarray(np.sqrt([float(np.vdot(W[a:b], W[a:b])) for a, b in spans]))
    return Summary(norms, int(np.count_nonzero(W)), float(np.abs(W).sum(dtype=np.float64)), chain)


def penalty_value(penalty: Any, found: Summary, transitions: str | None) -> float:
    """Omega(theta): of single weights, or of the norms of blocks; the chain pays as `transitions` says."""
    norms, chain = found.norms, found.chain
    own = float(np.vdot(chain, chain))
    if isinstance(penalty, COORDINATES):
        l1, l2 = coordinate_strengths(penalty)
        chain_l1 = l1 * float(np.abs(chain).sum()) if transitions == "learnt" else 0.0
        sizes = l1 * found.sizes if l1 > 0.0 else 0.0
        return sizes + chain_l1 + 0.5 * l2 * (float(norms @ norms) + own)
    if transitions == "learnt":
        norms = np.append(norms, np.sqrt(own))
    one = type(penalty)(**{**penalty.get_params(deep=False), "groups": 1}) if hasattr(penalty, "groups") else penalty
    extra = 0.0 if transitions == "learnt" else 0.5 * fixed_strength(penalty) * own
    return float(one.value(norms)) + extra
