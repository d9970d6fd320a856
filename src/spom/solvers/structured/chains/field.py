"""A random field over chains as a function of its weights: losses, entropies and the gradient of all sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.sentence import Rounds, Work, longest_of, make_work, sentence_gradient
from spom.solvers.structured.structures import LOG, Loss, structure


@kernel("void(Tokens, int64, float64[:, ::1], float64[:, ::1])")
def exact_scores(tokens: Tokens, first: int, table: Floats, unary: Floats) -> None:
    """unary[t] = sum over the features j of token first + t of value * table[j], in double precision.

    With single precision, rounding would stop a minimiser that compares values too early.
    """
    n, k = unary.shape
    flat = table.reshape(-1)
    for t in range(n):
        row = unary[t]
        row[:] = 0.0
        after = first + min(t + 1, n - 1)
        for e in range(tokens.indptr[after], tokens.indptr[after + 1]):
            for q in range(0, k, 8):
                prefetch(flat, tokens.indices[e] * k + q)
        for e in range(tokens.indptr[first + t], tokens.indptr[first + t + 1]):
            x, weights = tokens.values[e] if tokens.values.size else 1.0, table[tokens.indices[e]]
            for a in range(k):
                row[a] += x * weights[a]


@kernel("void(Tokens, int64, int64, Work, float64[:, ::1])")
def add_gradient(tokens: Tokens, first: int, n: int, work: Work, gradient: Floats) -> None:
    """Add x d to the rows of a sentence's features."""
    k = work.unary.shape[1]
    for t in range(n):
        d = work.expected[t]
        for e in range(tokens.indptr[first + t], tokens.indptr[first + t + 1]):
            x = tokens.values[e] if tokens.values.size else 1.0
            row = gradient[tokens.indices[e]]
            for a in range(k):
                row[a] += x * d[a]


@kernel("void(Rounds, float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def field_sums(
    rounds: Rounds,
    table: Floats,
    chain: Floats,
    out: Floats,
    gradient: Floats,
    chain_gradient: Floats,
) -> None:
    """Write the loss and the entropy of each sentence to `out`, and add up the gradients of all sentences."""
    tokens, k, offsets = rounds.tokens, chain.shape[1], rounds.tokens.offsets
    work = make_work(longest_of(tokens, rounds.order), k, table.shape[1])
    work.chain[:] = chain
    for r in range(rounds.order.size):
        first, n = offsets[rounds.order[r]], offsets[rounds.order[r] + 1] - offsets[rounds.order[r]]
        out[r, 0] = out[r, 1] = 0.0
        if n == 0:
            continue
        exact_scores(tokens, first, table, work.unary[:n])
        value, _ = sentence_gradient(rounds, work, rounds.order[r], first, n)
        entropy = value
        for t in range(n):
            for a in range(k):
                # A label that is forbidden everywhere has probability 0.
                if work.expected[t, a] != 0.0:
                    entropy -= work.unary[t, a] * work.expected[t, a]
        add_gradient(tokens, first, n, work, gradient)
        for a in range(k + 2):
            for b in range(k):
                d = work.parts[a, b]
                chain_gradient[a, b] += d
                if chain[a, b] > -np.inf:
                    entropy -= chain[a, b] * d
        out[r, 0], out[r, 1] = value, max(entropy, 0.0)


class Expectations(NamedTuple):
    """Losses and entropies of sentences, and the sum of their gradients."""

    losses: Floats
    entropies: Floats
    gradient: Floats
    chain_gradient: Floats


@dataclass(frozen=True)
class Field:
    """Sentences, their labels, and -inf for steps that are forbidden; `exact` decodes to all digits, else six."""

    tokens: Tokens
    y: Ints
    forbidden: Floats
    exact: bool = True

    def at(self, weights: Any, chain: Floats) -> Expectations:
        """Compute everything at these weights of features (labels first, then padding) and the chain, with one pass."""
        n, k = len(self.tokens), chain.shape[1]
        W = np.ascontiguousarray(weights[:, :k], dtype=np.float64)
        out, chain_gradient = np.zeros((n, 2)), np.zeros((k + 2, k))
        gradient = np.zeros((W.shape[0], k))
        loss = Loss(LOG, 0.0)
        kind = structure("chain" if self.exact else "quick-chain", loss)
        rounds = Rounds(self.tokens, self.y, np.arange(n), np.empty(0), kind, loss, 2.0, 0)
        field_sums(rounds, W, chain + self.forbidden, out, gradient, chain_gradient)
        return Expectations(out[:, 0].copy(), out[:, 1].copy(), gradient, chain_gradient)
