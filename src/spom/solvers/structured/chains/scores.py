"""Scores of tokens from tables of weights: float32 rows, one a feature, padded to whole vectors of labels.

Tables are in single precision: twice the rows in a cache line, and the noise of one sentence's gradient is far above
its rounding. Sums over the features of a token are too; decoders get float64.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.structured.chains.data import Ids
from spom.solvers.structured.chains.residual import Singles

ROWS = "int64[::1], int32[::1], float64[::1]"


@kernel("void(float32[::1], float64[::1])")
def store(acc: Singles, out: Floats) -> None:
    """The first labels of `acc` as float64."""
    for y in range(out.size):
        out[y] = acc[y]


@kernel("void(int64[::1], int32[::1], int64, float32[:, ::1])")
def ask_for(indptr: Ints, indices: Ids, t: int, table: Singles) -> None:
    """Have the rows of token t brought into the cache."""
    flat, width = table.reshape(-1), table.shape[1]
    for e in range(indptr[t], indptr[t + 1]):
        for q in range(0, width, 16):
            prefetch(flat, indices[e] * width + q)


@kernel(f"void({ROWS}, int64, float32[:, ::1], float64[::1], int32[::1], float32[::1], float64[:, ::1])")
def block_scores(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    first: int,
    table: Singles,
    scale: Floats,
    block: Ids,
    acc: Singles,
    unary: Floats,
) -> None:
    """unary[t] = sum over the features j of token first + t of scale[block[j]] * value * table[j]."""
    for t in range(unary.shape[0]):
        acc[:] = np.float32(0.0)
        ask_for(indptr, indices, first + min(t + 1, unary.shape[0] - 1), table)
        for e in range(indptr[first + t], indptr[first + t + 1]):
            j = indices[e]
            c = np.float32(scale[block[j]] * values[e] if values.size else scale[block[j]])
            if c != 0.0:
                row = table[j]
                for q in range(acc.size):
                    acc[q] += c * row[q]
        store(acc, unary[t])


@kernel(f"void({ROWS}, int64, float32[:, ::1], float32, float32, float32, float32[::1], float64[:, ::1])")
def adaptive_scores(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    first: int,
    table: Singles,
    cut: np.float32,
    shift: np.float32,
    eta: np.float32,
    acc: Singles,
    unary: Floats,
) -> None:
    """The same for weights -eta soft(G_j, cut) / (S_j + shift), with G_j and S_j the halves of a row of the table."""
    zero, lanes = np.float32(0.0), acc.size
    for t in range(unary.shape[0]):
        acc[:] = zero
        ask_for(indptr, indices, first + min(t + 1, unary.shape[0] - 1), table)
        for e in range(indptr[first + t], indptr[first + t + 1]):
            row = table[indices[e]]
            if values.size:
                x = np.float32(values[e])
                for q in range(lanes):
                    g = row[q]
                    acc[q] -= x * (max(g - cut, zero) + min(g + cut, zero)) / (row[lanes + q] + shift)
            else:
                for q in range(lanes):
                    g = row[q]
                    acc[q] -= (max(g - cut, zero) + min(g + cut, zero)) / (row[lanes + q] + shift)
        for q in range(lanes):
            acc[q] *= eta
        store(acc, unary[t])
