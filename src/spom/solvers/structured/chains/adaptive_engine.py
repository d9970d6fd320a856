r"""Dual averaging of chains per coordinate, plain or with AdaGrad's rates: exact zeros of single weights.

    theta_j = -eta soft(G_j, l1 t) / (S_j + eta l2 t),
    S_j = delta + sqrt(sum of g_sj^2), or 1 for plain dual averaging,

with G_j the sum of all gradients of t rounds. A weight is a function of G, S and t, so there are no postponed updates
to catch up with. Squares are summed per token: the gradients of two tokens of one sentence count as two.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles, aligned_singles
from spom.core.jit import kernel
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Summary, Tokens, padded
from spom.solvers.structured.chains.scores import Shrink, shrunk_scores
from spom.solvers.structured.chains.sentence import Rounds, Work, longest_of, make_work, sentence_gradient

# The two tables of the chain.
GRADIENTS, RATES = range(2)
# The rate of a weight to start from: as if it had had 400 gradients of 1. Ten more sentences then cost at most .014 of
# F1 or accuracy on eleven taggings, learnt from 200 to 500 sentences (.04 on one learnt from 8). At the rate of one
# gradient they cost up to .42.
LEARNT = 20.0


class Rates(NamedTuple):
    """l1 and l2 of features and of the chain; with `adaptive` the rates are AdaGrad's, which start at `delta`.

    Weights are multiplied by `inside`, the factor that brought those at the end of the last pass into the ball of
    `radius`. Every round changes all weights, so a projection per round would cost time for all of them.
    """

    l1: Annotated[float, "float64"]
    l2: Annotated[float, "float64"]
    chain_l1: Annotated[float, "float64"]
    chain_l2: Annotated[float, "float64"]
    delta: Annotated[float, "float64"]
    adaptive: Annotated[bool, "boolean"]
    learn_chain: Annotated[bool, "boolean"]
    radius: Annotated[float, "float64"] = np.inf
    inside: Annotated[float, "float64"] = 1.0


class Sums(NamedTuple):
    """Sums of gradients and rates: the halves of each row of `table`, and the two tables of the chain.

    `support`, if it has rows, is 1 for each weight that may change, else 0.
    """

    table: Annotated[Singles, "float32[:, ::1]"]
    support: Annotated[Singles, "float32[:, ::1]"]
    chain: Annotated[Floats, "float64[:, :, ::1]"]
    forbidden: Annotated[Floats, "float64[:, ::1]"]


@kernel("void(Tokens, int64, int64, Work, Sums, Rates)")
def collect_rows(tokens: Tokens, first: int, n: int, work: Work, sums: Sums, rates: Rates) -> None:
    """Add the gradients of the active tokens to the sums of their features, and their squares to the rates."""
    indptr, indices, values, _ = tokens
    table, support, adaptive = sums.table, sums.support, rates.adaptive
    grad, active, delta = work.grad, work.active, np.float32(rates.delta)
    lanes = grad.shape[1]
    for t in range(n):
        if not active[t]:
            continue
        g = grad[t]
        for e in range(indptr[first + t], indptr[first + t + 1]):
            row = table[indices[e]]
            x = np.float32(values[e]) if values.size else np.float32(1.0)
            if support.shape[0]:
                free = support[indices[e]]
                for q in range(lanes):
                    row[q] += x * g[q] * free[q]
            else:
                for q in range(lanes):
                    row[q] += x * g[q]
            if adaptive:
                for q in range(lanes):
                    s = row[lanes + q] - delta
                    h = x * g[q]
                    row[lanes + q] = delta + np.float32(math.sqrt(s * s + h * h))


@kernel("void(float64[:, ::1], Sums, Rates)")
def collect_chain(grad: Floats, sums: Sums, rates: Rates) -> None:
    """Add the gradients of steps, beginnings and ends to their sums, and their squares to the rates."""
    total, rate = sums.chain[GRADIENTS], sums.chain[RATES]
    for a in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g = grad[a, b]
            if g != 0.0:
                total[a, b] += g
                if rates.adaptive:
                    rate[a, b] = rates.delta + math.sqrt((rate[a, b] - rates.delta) ** 2 + g * g)


@kernel("void(Sums, Rates, float64, float64, float64[:, ::1])")
def chain_weights(sums: Sums, rates: Rates, t: float, eta: float, out: Floats) -> None:
    """-eta soft(G, l1 t) / (S + eta l2 t) of the chain, and -inf where it is forbidden."""
    cut, shift, forbidden = rates.chain_l1 * t, eta * rates.chain_l2 * t, sums.forbidden
    total, rate = sums.chain[GRADIENTS], sums.chain[RATES]
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            g = total[a, b]
            size = max(abs(g) - cut, 0.0)
            out[a, b] = forbidden[a, b] - math.copysign(rates.inside * eta * size / (rate[a, b] + shift), g)


@kernel("Shrink(Rates, float64, float64)")
def shrink_at(rates: Rates, t: float, eta: float) -> Any:
    """Return the rule by which sums of t rounds become weights."""
    return Shrink(np.float32(rates.l1 * t), np.float32(eta * rates.l2 * t), np.float32(rates.inside * eta))


@kernel("UniTuple(float64, 2)(Rounds, Sums, Rates)")
def adaptive_rounds(rounds: Rounds, sums: Sums, rates: Rates) -> tuple[float, float]:
    """Run one round per sentence in order; return the sum of losses and the number of tokens with an update."""
    tokens, offsets, order = rounds.tokens, rounds.tokens.offsets, rounds.order
    work = make_work(longest_of(tokens, order), sums.forbidden.shape[1], sums.table.shape[1] // 2)
    total, touched = 0.0, 0.0
    for r in range(order.size):
        first, n = offsets[order[r]], offsets[order[r] + 1] - offsets[order[r]]
        if n == 0:
            continue
        t, eta = float(rounds.done + r), rounds.steps[r]
        shrunk_scores(tokens, first, sums.table, shrink_at(rates, t, eta), work.acc, work.unary[:n])
        chain_weights(sums, rates, t, eta, work.chain)
        value, count = sentence_gradient(rounds, work, order[r], first, n)
        total += value
        touched += count
        if count > 0.0:
            collect_rows(tokens, first, n, work, sums, rates)
            if rates.learn_chain:
                collect_chain(work.parts, sums, rates)
    return total, touched


@kernel("void(float32[:, ::1], Shrink, float32[:, ::1])")
def adaptive_weights(table: Singles, shrink: Shrink, out: Singles) -> None:
    """-eta soft(G, cut) / (S + shift) of all rows, including the padding."""
    lanes, zero, cut = out.shape[1], np.float32(0.0), shrink.cut
    for j in range(out.shape[0]):
        row, into = table[j], out[j]
        for q in range(lanes):
            g = row[q]
            into[q] = -shrink.eta * (max(g - cut, zero) + min(g + cut, zero)) / (row[lanes + q] + shrink.shift)


@kernel("int64(float32[:, ::1], Shrink, int64, int64, float64[::1])")
def block_summary(table: Singles, shrink: Shrink, low: int, high: int, out: Floats) -> int:
    """Return the number of non-zero weights of some rows; write the sums of squares and of absolute values to `out`."""
    lanes, zero, count, total, size, cut = table.shape[1] // 2, np.float32(0.0), 0, 0.0, 0.0, shrink.cut
    for j in range(low, high):
        row, part, sizes = table[j], zero, zero
        for q in range(lanes):
            w = shrink.eta * (max(row[q] - cut, zero) + min(row[q] + cut, zero)) / (row[lanes + q] + shrink.shift)
            part += w * w
            sizes += abs(w)
            count += w != zero
        total += float(part)
        size += float(sizes)
    out[0], out[1] = total, size
    return count


def factor_inside(found: Summary, radius: float) -> float:
    """Return the factor that brings all weights into the ball of this radius."""
    size = float(np.sqrt(np.vdot(found.norms, found.norms) + np.vdot(found.chain, found.chain)))
    return min(1.0, radius / size) if size > 0.0 else 1.0


class AdaptiveEngine:
    """The engine: sums of gradients and rates of all weights."""

    def __init__(self, blocks: Blocks, forbidden: Floats, rates: Rates) -> None:
        k = forbidden.shape[1]
        self.blocks, self.k, self.rates = blocks, k, rates
        table = aligned_singles(blocks.total * 2 * padded(k)).reshape(blocks.total, -1)
        chain = np.zeros((2, k + 2, k))
        table[:, padded(k) :] = chain[RATES] = rates.delta if rates.adaptive else 1.0
        self.sums = Sums(table, np.zeros((0, padded(k)), dtype=np.float32), chain, forbidden)
        self.rounds, self.eta = 0, 0.0

    def learn_only(self, support: Singles) -> None:
        """Change only the weights for which `support` is 1."""
        self.sums = self.sums._replace(support=np.ascontiguousarray(support))

    def run(self, rounds: Rounds) -> tuple[float, float]:
        """Run rounds over sentences; return the sum of losses met, and the number of tokens with an update."""
        result = adaptive_rounds(rounds, self.sums, self.rates)
        self.rounds += rounds.order.size
        self.eta = float(rounds.steps[-1]) if rounds.steps.size else self.eta
        self._project()
        return float(result[0]), float(result[1])

    def _project(self) -> None:
        """Project onto the ball, if there is one."""
        if self.rates.radius < np.inf:
            self.rates = self.rates._replace(inside=1.0)
            self.rates = self.rates._replace(inside=factor_inside(self.summary(), self.rates.radius))

    def _shrink(self) -> Shrink:
        t, eta, rates = float(self.rounds), self.eta, self.rates
        return Shrink(np.float32(rates.l1 * t), np.float32(eta * rates.l2 * t), np.float32(rates.inside * eta))

    def weights(self) -> tuple[Singles, Floats]:
        """Return (features, padded labels) and (k + 2, k) current weights."""
        out = np.empty((self.sums.table.shape[0], padded(self.k)), dtype=np.float32)
        adaptive_weights(self.sums.table, self._shrink(), out)
        return out, self._chain()

    def summary(self) -> Summary:
        """Summarise the current weights without copying them."""
        sums, count = np.zeros((len(self.blocks), 2)), 0
        for m, (low, high) in enumerate(pairwise(self.blocks.starts.tolist())):
            count += int(block_summary(self.sums.table, self._shrink(), low, high, sums[m]))
        return Summary(np.sqrt(sums[:, 0]), count, float(sums[:, 1].sum()), self._chain())

    def _chain(self) -> Floats:
        chain, allowed = np.empty((self.k + 2, self.k)), np.zeros_like(self.sums.forbidden)
        chain_weights(self.sums._replace(forbidden=allowed), self.rates, float(self.rounds), self.eta, chain)
        return chain

    def start_at(self, W: Singles, chain: Floats, eta: float) -> None:
        """Resume from weights alone, with sums that give them at round 0; features without a weight count as new."""
        rate, lanes = (self.rates.delta + LEARNT if self.rates.adaptive else 1.0), padded(self.k)
        self.eta = eta
        known = W.any(axis=1)
        self.sums.table[known, lanes:], self.sums.chain[RATES] = rate, rate
        self.sums.table[:, :lanes] = -W * np.float32(rate / eta)
        self.sums.chain[GRADIENTS] = -chain * (rate / eta)
        self._project()

    def take(self, other: AdaptiveEngine, place: Ints) -> None:
        """Resume from another engine that has fewer labels: its label a is place[a] here."""
        lanes, old, k = padded(self.k), padded(other.k), other.k
        self.sums.table[:, place] = other.sums.table[:, :k]
        self.sums.table[:, lanes + place] = other.sums.table[:, old : old + k]
        rows = np.append(place, [self.k, self.k + 1])
        self.sums.chain[:, rows[:, None], place] = other.sums.chain
        self.rounds, self.eta = other.rounds, other.eta
        self._project()

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume, without copies: the next pass changes the arrays."""
        scalars = np.array([float(self.rounds), self.eta])
        return {"table": self.sums.table, "chain": self.sums.chain, "scalars": scalars}

    def unpack(self, arrays: Arrays) -> None:
        """Resume from a saved run."""
        self.sums.table[:], self.sums.chain[:] = arrays["table"], arrays["chain"]
        self.rounds, self.eta = int(arrays["scalars"][0]), float(arrays["scalars"][1])
        self._project()
