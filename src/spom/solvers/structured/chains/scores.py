"""Scores of tokens from tables of weights: float32 rows, one per feature, padded to whole vectors of labels.

Tables are in single precision: a cache line holds twice as many entries, and the noise of one sentence's gradient is
far above the rounding. So are sums over the features of a token; decoders get float64.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Singles
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.structured.chains.data import Ids, Tokens


class Shrink(NamedTuple):
    """The rule by which sums of gradients G and rates S become weights: -eta soft(G, cut) / (S + shift)."""

    cut: Annotated[np.float32, "float32"]
    shift: Annotated[np.float32, "float32"]
    eta: Annotated[np.float32, "float32"]


@kernel("void(float32[::1], float64[::1])")
def store(acc: Singles, out: Floats) -> None:
    """Copy the first labels of `acc` to `out` as float64."""
    for y in range(out.size):
        out[y] = acc[y]


@kernel("void(Tokens, int64, float32[:, ::1])")
def prefetch_rows(tokens: Tokens, t: int, table: Singles) -> None:
    """Prefetch the rows of token t."""
    flat, width, indices = table.reshape(-1), table.shape[1], tokens.indices
    for e in range(tokens.indptr[t], tokens.indptr[t + 1]):
        for q in range(0, width, 16):
            prefetch(flat, indices[e] * width + q)


@kernel("void(Tokens, int64, float32[:, ::1], float32[::1], float64[:, ::1])")
def plain_scores(tokens: Tokens, first: int, table: Singles, acc: Singles, unary: Floats) -> None:
    """unary[t] = sum over the features j of token first + t of value * table[j]."""
    indptr, indices, values, _ = tokens
    for t in range(unary.shape[0]):
        acc[:] = np.float32(0.0)
        prefetch_rows(tokens, first + min(t + 1, unary.shape[0] - 1), table)
        for e in range(indptr[first + t], indptr[first + t + 1]):
            row = table[indices[e]]
            if values.size:
                x = np.float32(values[e])
                for q in range(acc.size):
                    acc[q] += x * row[q]
            else:
                for q in range(acc.size):
                    acc[q] += row[q]
        store(acc, unary[t])


@kernel("void(Tokens, int64, float32[:, ::1], float64[::1], int32[::1], float32[::1], float64[:, ::1])")
def block_scores(
    tokens: Tokens, first: int, table: Singles, scale: Floats, block: Ids, acc: Singles, unary: Floats
) -> None:
    """Do as `plain_scores` for weights scale[block[j]] * table[j]."""
    indptr, indices, values, _ = tokens
    for t in range(unary.shape[0]):
        acc[:] = np.float32(0.0)
        prefetch_rows(tokens, first + min(t + 1, unary.shape[0] - 1), table)
        for e in range(indptr[first + t], indptr[first + t + 1]):
            j = indices[e]
            c = np.float32(scale[block[j]] * values[e] if values.size else scale[block[j]])
            if c != 0.0:
                row = table[j]
                for q in range(acc.size):
                    acc[q] += c * row[q]
        store(acc, unary[t])


@kernel("void(Tokens, int64, float32[:, ::1], Shrink, float32[::1], float64[:, ::1])")
def shrunk_scores(tokens: Tokens, first: int, table: Singles, shrink: Shrink, acc: Singles, unary: Floats) -> None:
    """Do as `plain_scores` for the weights that `shrink` makes of G_j and S_j, the halves of row j of the table."""
    indptr, indices, values, _ = tokens
    zero, lanes, cut, shift = np.float32(0.0), acc.size, shrink.cut, shrink.shift
    for t in range(unary.shape[0]):
        acc[:] = zero
        prefetch_rows(tokens, first + min(t + 1, unary.shape[0] - 1), table)
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
            acc[q] *= shrink.eta
        store(acc, unary[t])
