r"""A certificate for random fields: how far weights can be from the optimum, from one forward-backward pass.

    P(w) = Omega(w) + mean_i (log Z_i(w) - <w, f(x_i, y_i)>)  >=  mean_i H(q_i) - Omega*(-g(q)),

for any distributions q_i over sequences, g(q) = mean_i (E_q f - f(y_i)). Take q_i = (1 - s) [gold] + s p_i(w): then
g(q) = s g(p), and with pi = p_i(gold), m = 1 - s + s pi,

    H(q_i) = -m log m - s (1 - pi) log s + s (H(p_i) + pi log pi),   H(p_i) = log Z_i - expected score.

s is the largest number in 0..1 for which Omega* is finite: one where all weights have a squared penalty. A part without
any penalty would need a gradient of exactly zero, so that the chain needs a penalty too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties.forms import Elastic
from spom.solvers.structured.chains.data import Singles, Tokens
from spom.solvers.structured.chains.scores import plain_scores
from spom.solvers.structured.chains.sentence import Rounds, longest_of, make_work, sentence_gradient
from spom.solvers.structured.losses import LOG, Loss
from spom.solvers.structured.structures import structure


class Certificate(NamedTuple):
    """The optimum is between `dual` and `primal`."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """primal - dual."""
        return self.primal - self.dual


@kernel("void(Rounds, float32[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def field_sums(
    rounds: Rounds, table: Singles, chain: Floats, out: Floats, gradient: Floats, chain_gradient: Floats
) -> None:
    """The loss and the entropy of each sentence in `out`; sums of the gradients of all sentences."""
    tokens, k, offsets = rounds.tokens, chain.shape[1], rounds.tokens.offsets
    work = make_work(longest_of(tokens, rounds.order), k, table.shape[1])
    work.chain[:] = chain
    for r in range(rounds.order.size):
        first, n = offsets[rounds.order[r]], offsets[rounds.order[r] + 1] - offsets[rounds.order[r]]
        out[r, 0] = out[r, 1] = 0.0
        if n == 0:
            continue
        plain_scores(tokens, first, table, work.acc, work.unary[:n])
        value, _ = sentence_gradient(rounds, work, rounds.order[r], first, n)
        entropy = value
        for t in range(n):
            for a in range(k):
                d = work.expected[t, a]
                entropy -= work.unary[t, a] * d
                for e in range(tokens.indptr[first + t], tokens.indptr[first + t + 1]):
                    gradient[tokens.indices[e], a] += d * (tokens.values[e] if tokens.values.size else 1.0)
        for a in range(k + 2):
            for b in range(k):
                d = work.parts[a, b]
                chain_gradient[a, b] += d
                if chain[a, b] > -np.inf:
                    entropy -= chain[a, b] * d
        out[r, 0], out[r, 1] = value, max(entropy, 0.0)


def mixed_entropy(loss: float, entropy: float, s: float) -> float:
    """H((1 - s) [gold] + s p), from -log p(gold) and the entropy of p."""
    pi = math.exp(-loss)
    m, own = 1.0 - s + s * pi, -pi * loss
    return (
        -(m * math.log(m) if m > 0.0 else 0.0)
        - (s * (1.0 - pi) * math.log(s) if s > 0.0 else 0.0)
        + s * (entropy + own)
    )


def conjugate(elastic: Elastic, g: Floats) -> float:
    """The conjugate of l1 norm1 + l2/2 norm2^2; g is feasible where l2 is zero."""
    over = np.maximum(np.abs(g) - elastic.l1, 0.0)
    return float(np.vdot(over, over)) / (2.0 * elastic.l2) if elastic.l2 > 0.0 else 0.0


def duality_gap(
    tokens: Tokens, y: Ints, weights: tuple[Singles, Floats], penalty: Any, chain_penalty: Any, forbidden: Floats
) -> Certificate:
    """Bounds on min of Omega(w) + Omega_0(chain) + the mean loss, for elastic penalties of weights and of the chain."""
    W, chain = weights
    k, n = chain.shape[1], max(1, len(tokens))
    forms = [penalty.elastic(), chain_penalty.elastic()]
    if any(form is None or (form.l1 == 0.0 and form.l2 == 0.0) for form in forms):
        raise Unsupported("the gap takes L1, ElasticNet or SquaredL2 above zero on the weights and on the chain")
    sums, gradients = np.zeros((len(tokens), 2)), [np.zeros((W.shape[0], k)), np.zeros((k + 2, k))]
    order = np.arange(len(tokens))
    rounds = Rounds(tokens, y, order, np.empty(0), structure("chain"), Loss(LOG, 0.0), 2.0, 0)
    field_sums(rounds, W, chain + forbidden, sums, gradients[0], gradients[1])
    parts = [np.asarray(W[:, :k], dtype=np.float64), chain]
    s, primal = 1.0, float(sums[:, 0].sum()) / n
    for form, w, g in zip(forms, parts, gradients, strict=True):
        g /= n
        primal += form.l1 * float(np.abs(w).sum()) + 0.5 * form.l2 * float(np.vdot(w, w))
        most = float(np.abs(g).max(initial=0.0))
        if form.l2 == 0.0 and most > form.l1:
            s = min(s, form.l1 / most)
    dual = sum(mixed_entropy(float(a), float(b), s) for a, b in sums) / n
    dual -= sum(conjugate(form, s * g) for form, g in zip(forms, gradients, strict=True))
    return Certificate(primal, dual)
