"""Many sentences from feature ids to labels in one compiled call, which holds no lock and changes nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.forward_backward import forward_backward
from spom.decoders.viterbi_lanes import lay_out, viterbi_lanes
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.residual import Singles
from spom.solvers.structured.chains.scores import ROWS, ask_for, block_scores, store

MODEL = "float32[:, ::1], float64[:, ::1]"


@kernel(f"void({ROWS}, int64, float32[:, ::1], float32[::1], float64[:, ::1])")
def plain_scores(
    indptr: Ints, indices: Ids, values: Floats, first: int, table: Singles, acc: Singles, unary: Floats
) -> None:
    """unary[t] = sum over the features j of token first + t of value * table[j]: `block_scores` with all scales one."""
    for t in range(unary.shape[0]):
        acc[:] = np.float32(0.0)
        ask_for(indptr, indices, first + min(t + 1, unary.shape[0] - 1), table)
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


@kernel(f"int64({ROWS}, int64[::1], {MODEL}, int64[::1])")
def tag_rows(
    indptr: Ints, indices: Ids, values: Floats, offsets: Ints, table: Singles, chain: Floats, out: Ints
) -> int:
    """The best labels of all sentences; returns a sentence for which nothing is admissible, or -1."""
    k, lanes, longest = chain.shape[1], table.shape[1], 0
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    steps, back, ends = np.empty((lanes // 4, 4 * lanes)), np.empty((lanes, lanes)), np.empty((2, lanes))
    lay_out(chain, steps, back, ends)
    unary, acc = np.empty((longest, lanes)), np.empty(lanes, dtype=np.float32)
    value, best = np.empty((longest, lanes)), np.empty((longest, lanes))
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n > 0:
            plain_scores(indptr, indices, values, first, table, acc, unary[:n])
            labels = out[first : first + n]
            if viterbi_lanes(unary[:n], steps, back, ends, k, value, best, labels) == -np.inf:
                return i
    return -1


@kernel(f"int64({ROWS}, int64[::1], {MODEL}, float64[:, ::1])")
def marginal_rows(
    indptr: Ints, indices: Ids, values: Floats, offsets: Ints, table: Singles, chain: Floats, out: Floats
) -> int:
    """P(y_t) of all tokens; returns a sentence for which nothing is admissible, or -1."""
    k, longest = chain.shape[1], 0
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    unary, acc = np.empty((longest, k)), np.empty(table.shape[1], dtype=np.float32)
    scale, block, steps = np.ones(1), np.zeros(table.shape[0], dtype=np.int32), np.zeros((k, k))
    edges = np.empty((0, k, k))
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n > 0:
            block_scores(indptr, indices, values, first, table, scale, block, acc, unary[:n])
            nodes = out[first : first + n]
            if forward_backward(unary[:n], chain[:k], chain[k], chain[k + 1], nodes, steps, edges) == -np.inf:
                return i
    return -1


@kernel(f"void({ROWS}, float32[:, ::1], float64[:, ::1])")
def score_rows(indptr: Ints, indices: Ids, values: Floats, table: Singles, out: Floats) -> None:
    """The scores of the labels at each token."""
    acc, scale = np.empty(table.shape[1], dtype=np.float32), np.ones(1)
    block_scores(indptr, indices, values, 0, table, scale, np.zeros(table.shape[0], dtype=np.int32), acc, out)


def _checked(bad: int) -> None:
    if bad >= 0:
        raise ValueError(f"sentence {bad}: the constraints forbid every sequence of its length")


def tag(tokens: Tokens, table: Singles, chain: Floats) -> Ints:
    """The number of the best label of each token."""
    out = np.empty(tokens.count, dtype=np.int64)
    indptr, indices, values, offsets = tokens.arguments()
    _checked(int(tag_rows(indptr, indices, values, offsets, table, chain, out)))
    return out


def marginals(tokens: Tokens, table: Singles, chain: Floats) -> Floats:
    """(tokens, labels): the probability of each label at each token."""
    out = np.empty((tokens.count, chain.shape[1]))
    indptr, indices, values, offsets = tokens.arguments()
    _checked(int(marginal_rows(indptr, indices, values, offsets, table, chain, out)))
    return out


def scores(tokens: Tokens, table: Singles, labels: int) -> Floats:
    """(tokens, labels): the score of each label at each token, without the chain's."""
    out = np.empty((tokens.count, labels))
    score_rows(tokens.indptr, tokens.indices, tokens.values, table, out)
    return out


def compacted(W: Singles) -> tuple[Ints, Singles]:
    """(the features with a weight that is not zero, their rows)."""
    used: NDArray[np.int64] = np.flatnonzero(W.any(axis=1))
    return used, np.ascontiguousarray(W[used])


def largest(W: Singles, count: int) -> Singles:
    """One for the `count` largest weights by size (fewer, where the last of them has equals), zero for the others."""
    size = np.abs(W).reshape(-1)
    if count >= np.count_nonzero(size):
        return np.asarray(W != 0.0, dtype=np.float32)
    edge = np.partition(size, size.size - count - 1)[size.size - count - 1]
    return np.asarray(np.abs(W) > edge, dtype=np.float32)
