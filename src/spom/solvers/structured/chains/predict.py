"""From feature ids to labels, many sentences in one compiled call that holds no lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles, is_sparse
from spom.core.jit import kernel
from spom.decoders.forward_backward import forward_backward
from spom.decoders.viterbi_lanes import Lanes, lay_out, viterbi_lanes
from spom.errors import DataError
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.scores import plain_scores
from spom.solvers.structured.chains.sentence import longest_of
from spom.solvers.structured.chains.sparse.decoding import SparseWeights


@kernel("int64(Tokens, float32[:, ::1], float64[:, ::1], int64[::1])")
def tag_rows(tokens: Tokens, table: Singles, chain: Floats, out: Ints) -> int:
    """Find the best labels of all sentences; return a sentence for which nothing is admissible, or -1."""
    offsets, k, lanes = tokens.offsets, chain.shape[1], table.shape[1]
    longest = longest_of(tokens, np.arange(offsets.size - 1))
    lay = Lanes(np.empty((lanes // 4, 4 * lanes)), np.empty((lanes, lanes)), np.empty((2, lanes)))
    lay_out(chain, lay)
    unary, acc = np.empty((longest, lanes)), np.empty(lanes, dtype=np.float32)
    value, best = np.empty((longest, lanes)), np.empty((longest, lanes))
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n > 0:
            plain_scores(tokens, first, table, acc, unary[:n])
            if viterbi_lanes(unary[:n], lay, k, value, best, out[first : first + n]) == -np.inf:
                return i
    return -1


@kernel("int64(Tokens, float32[:, ::1], float64[:, ::1], float64[:, ::1])")
def marginal_rows(tokens: Tokens, table: Singles, chain: Floats, out: Floats) -> int:
    """Compute P(y_t) of all tokens; return a sentence for which nothing is admissible, or -1."""
    offsets, k = tokens.offsets, chain.shape[1]
    longest = longest_of(tokens, np.arange(offsets.size - 1))
    unary, acc = np.empty((longest, k)), np.empty(table.shape[1], dtype=np.float32)
    steps, edges = np.zeros((k, k)), np.empty((0, k, k))
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n > 0:
            plain_scores(tokens, first, table, acc, unary[:n])
            nodes = out[first : first + n]
            if forward_backward(unary[:n], chain[:k], chain[k], chain[k + 1], nodes, steps, edges) == -np.inf:
                return i
    return -1


@kernel("int64(float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def marginals_of(unary: Floats, offsets: Ints, chain: Floats, out: Floats) -> int:
    """Do as `marginal_rows`, from the scores of labels."""
    k = chain.shape[1]
    steps, edges = np.zeros((k, k)), np.empty((0, k, k))
    for i in range(offsets.size - 1):
        first, last = offsets[i], offsets[i + 1]
        if last > first:
            nodes, scores = out[first:last], unary[first:last]
            if forward_backward(scores, chain[:k], chain[k], chain[k + 1], nodes, steps, edges) == -np.inf:
                return i
    return -1


@kernel("void(Tokens, float32[:, ::1], float64[:, ::1])")
def score_rows(tokens: Tokens, table: Singles, out: Floats) -> None:
    """Compute the scores of the labels at each token."""
    plain_scores(tokens, 0, table, np.empty(table.shape[1], dtype=np.float32), out)


def _checked(bad: int) -> None:
    if bad >= 0:
        raise DataError(f"sentence {bad}: the constraints and its scores forbid every sequence of its length")


def tag(tokens: Tokens, table: Any, chain: Floats) -> Ints:
    """Return the number of the best label of each token."""
    if is_sparse(table):
        return SparseWeights.of(table, chain).tag(tokens)
    out = np.empty(tokens.total, dtype=np.int64)
    _checked(int(tag_rows(tokens, table, chain, out)))
    return out


def marginals(tokens: Tokens, table: Any, chain: Floats) -> Floats:
    """Return the probability of each label at each token, (tokens, labels)."""
    out = np.empty((tokens.total, chain.shape[1]))
    if is_sparse(table):
        _checked(int(marginals_of(scores(tokens, table, chain.shape[1]), tokens.offsets, chain, out)))
        return out
    _checked(int(marginal_rows(tokens, table, chain, out)))
    return out


def scores(tokens: Tokens, table: Any, labels: int) -> Floats:
    """Return the score of each label at each token, without the chain's, (tokens, labels)."""
    if is_sparse(table):
        return SparseWeights.of(table, np.zeros((labels + 2, labels))).scores(tokens)
    out = np.empty((tokens.total, labels))
    score_rows(tokens, table, out)
    return out


def compacted(W: Any) -> tuple[Ints, Any]:
    """Return the features with a non-zero weight, and their rows."""
    if is_sparse(W):
        W = W.copy()
        W.eliminate_zeros()
        some = np.flatnonzero(np.diff(W.indptr))
        return some, W[some]
    used: NDArray[np.int64] = np.flatnonzero(W.any(axis=1))
    return used, np.ascontiguousarray(W[used])


def largest(W: Singles, count: int) -> Singles:
    """Return 1 for the `count` largest weights in absolute value (fewer if the last one has ties), 0 for the others.

    If all are equal, the first ones are kept.

    >>> largest(np.array([[2.0, -2.0, 0.0, 2.0]], dtype=np.float32), 2).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    size = np.abs(W).reshape(-1)
    if count >= np.count_nonzero(size):
        return np.asarray(W != 0.0, dtype=np.float32)
    edge = np.partition(size, size.size - count - 1)[size.size - count - 1]
    found = size > edge
    if not found.any():
        found[np.flatnonzero(size == edge)[:count]] = True
    return np.asarray(found.reshape(W.shape), dtype=np.float32)
