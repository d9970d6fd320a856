"""How much the gradients of single sentences differ: the scale of what a selection has to tell apart."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids
from spom.solvers.structured.chains.residual import Singles, residual
from spom.solvers.structured.chains.scores import ROWS, block_scores


@kernel(f"void({ROWS}, int64[::1], int64[::1], int64[::1], float32[:, ::1], float64[:, ::1], float64[::1])")
def gradient_squares(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    offsets: Ints,
    y: Ints,
    chosen: Ints,
    table: Singles,
    chain: Floats,
    out: Floats,
) -> None:
    """Sum over the tokens of each chosen sentence of norm(P(y_t) - gold_t)^2: that of a block without repetitions."""
    k, lanes, longest = chain.shape[1], table.shape[1], 0
    for i in chosen:
        longest = max(longest, offsets[i + 1] - offsets[i])
    unary, work, path = np.empty((longest, k)), np.empty((3, longest, k)), np.empty(longest, dtype=np.int64)
    grad, active = np.zeros((longest, lanes), dtype=np.float32), np.zeros(longest, dtype=np.bool_)
    acc, weight, parts = np.empty(lanes, dtype=np.float32), np.empty((k + 2, k)), np.empty((k + 2, k))
    scale, block = np.ones(1), np.zeros(table.shape[0], dtype=np.int32)
    for r in range(chosen.size):
        first, n = offsets[chosen[r]], offsets[chosen[r] + 1] - offsets[chosen[r]]
        out[r] = 0.0
        if n > 0:
            block_scores(indptr, indices, values, first, table, scale, block, acc, unary[:n])
            gold = y[first : first + n]
            residual(2, unary[:n], chain, gold, 0.0, 1.0, work, weight, path[:n], grad[:n], active[:n], parts)
            for t in range(n):
                for a in range(k):
                    out[r] += grad[t, a] * grad[t, a]
