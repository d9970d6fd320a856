r"""Dual averaging of chains coordinate by coordinate, plain or with AdaGrad's rates: exact zeros of single weights.

    theta_j = -eta soft(G_j, l1 t) / (S_j + eta l2 t),
    S_j = delta + sqrt(sum of g_sj^2), or 1 for plain dual averaging,

with G_j the sum of all gradients of t rounds. A weight is a function of G, S and t, so that nothing has to be caught
up with. Squares are summed token by token: the gradients of two tokens of one sentence count as two.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, aligned_singles
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Blocks, Ids, Summary, Tokens, padded
from spom.solvers.structured.chains.residual import Singles, residual
from spom.solvers.structured.chains.scores import ROWS, adaptive_scores

Arrays = dict[str, NDArray[Any]]


@kernel(f"void({ROWS}, int64, float32[:, ::1], boolean[::1], float32[:, ::1], float32[:, ::1], float32, boolean)")
def collect_rows(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    first: int,
    grad: Singles,
    active: NDArray[np.bool_],
    table: Singles,
    support: Singles,
    delta: np.float32,
    adaptive: bool,
) -> None:
    """Add the gradients of the active tokens to the sums of their features, and their squares to the rates.

    `support`, where it is not empty, has a one for each weight that may change, else a zero.
    """
    lanes = grad.shape[1]
    for t in range(active.size):
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


@kernel("void(float64[:, ::1], float64[:, :, ::1], float64, boolean)")
def collect_chain(grad: Floats, table: Floats, delta: float, adaptive: bool) -> None:
    """The same for steps, beginnings and ends."""
    for a in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g = grad[a, b]
            if g != 0.0:
                table[0, a, b] += g
                if adaptive:
                    table[1, a, b] = delta + math.sqrt((table[1, a, b] - delta) ** 2 + g * g)


@kernel("void(float64[:, :, ::1], float64, float64, float64, float64[:, ::1], float64[:, ::1])")
def chain_weights(table: Floats, cut: float, shift: float, eta: float, forbidden: Floats, out: Floats) -> None:
    """-eta soft(G, cut) / (S + shift), and -inf for what is forbidden."""
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            g = table[0, a, b]
            size = max(abs(g) - cut, 0.0)
            out[a, b] = forbidden[a, b] - math.copysign(eta * size / (table[1, a, b] + shift), g)


@kernel(
    f"UniTuple(float64, 2)({ROWS}, int64[::1], int64[::1], int64[::1], float64[::1], float32[:, ::1],"
    " float32[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[::1], int64, int64, boolean, boolean)"
)
def adaptive_rounds(
    indptr: Ints,
    indices: Ids,
    values: Floats,
    offsets: Ints,
    y: Ints,
    order: Ints,
    steps: Floats,
    table: Singles,
    support: Singles,
    chain_table: Floats,
    forbidden: Floats,
    reals: Floats,
    done: int,
    loss: int,
    adaptive: bool,
    learn_chain: bool,
) -> tuple[float, float]:
    """One round for each sentence in `order`; the sum of losses and the number of tokens with an update.

    reals: l1, l2, the same two for the chain's block, delta, cost, skip.
    """
    l1, l2, l1_chain, l2_chain, delta, cost, skip = reals
    k, lanes = forbidden.shape[1], table.shape[1] // 2
    longest = 0
    for i in order:
        longest = max(longest, offsets[i + 1] - offsets[i])
    unary, work, path = np.empty((longest, k)), np.empty((3, longest, k)), np.empty(longest, dtype=np.int64)
    grad, active = np.zeros((longest, lanes), dtype=np.float32), np.zeros(longest, dtype=np.bool_)
    acc, chain = np.empty(lanes, dtype=np.float32), np.empty((k + 2, k))
    weight, parts = np.empty((k + 2, k)), np.empty((k + 2, k))
    total, touched = 0.0, 0.0
    for r in range(order.size):
        first, n = offsets[order[r]], offsets[order[r] + 1] - offsets[order[r]]
        if n > 0:
            t, eta = float(done + r), steps[r]
            cut, shift, rate = np.float32(l1 * t), np.float32(eta * l2 * t), np.float32(eta)
            adaptive_scores(indptr, indices, values, first, table, cut, shift, rate, acc, unary[:n])
            chain_weights(chain_table, l1_chain * t, eta * l2_chain * t, eta, forbidden, chain)
            gold = y[first : first + n]
            value, count = residual(
                loss, unary[:n], chain, gold, cost, skip, work, weight, path[:n], grad[:n], active[:n], parts
            )
            total += value
            touched += count
            if count > 0.0:
                rule = (np.float32(delta), adaptive)
                collect_rows(indptr, indices, values, first, grad[:n], active[:n], table, support, *rule)
                if learn_chain:
                    collect_chain(parts, chain_table, delta, adaptive)
    return total, touched


@kernel("void(float32[:, ::1], float32, float32, float32, float32[:, ::1])")
def adaptive_weights(table: Singles, cut: np.float32, shift: np.float32, eta: np.float32, out: Singles) -> None:
    """-eta soft(G, cut) / (S + shift) of all rows, with the padding."""
    lanes, zero = out.shape[1], np.float32(0.0)
    for j in range(out.shape[0]):
        row, into = table[j], out[j]
        for q in range(lanes):
            g = row[q]
            into[q] = -eta * (max(g - cut, zero) + min(g + cut, zero)) / (row[lanes + q] + shift)


@kernel("int64(float32[:, ::1], float32, float32, float32, int64, int64, float64[::1])")
def block_summary(
    table: Singles, cut: np.float32, shift: np.float32, eta: np.float32, low: int, high: int, out: Floats
) -> int:
    """The number of weights of some rows that are not zero; sums of their squares and of their sizes in `out`."""
    lanes, zero, count, total, size = table.shape[1] // 2, np.float32(0.0), 0, 0.0, 0.0
    for j in range(low, high):
        row, part, sizes = table[j], zero, zero
        for q in range(lanes):
            w = eta * (max(row[q] - cut, zero) + min(row[q] + cut, zero)) / (row[lanes + q] + shift)
            part += w * w
            sizes += abs(w)
            count += w != zero
        total += float(part)
        size += float(sizes)
    out[0], out[1] = total, size
    return count


class AdaptiveEngine:
    """The engine: sums of gradients and rates of all weights."""

    name = "dual averaging, coordinates"

    def __init__(
        self,
        blocks: Blocks,
        forbidden: Floats,
        strengths: tuple[float, float, float, float],
        delta: float,
        adaptive: bool,
        learn_chain: bool,
    ) -> None:
        k = forbidden.shape[1]
        self.blocks, self.k, self.forbidden = blocks, k, forbidden
        self.strengths, self.delta, self.adaptive, self.learn_chain = strengths, delta, adaptive, learn_chain
        self.table = aligned_singles(blocks.features * 2 * padded(k)).reshape(blocks.features, -1)
        self.chain_table = np.zeros((2, k + 2, k))
        self.table[:, padded(k) :] = self.chain_table[1] = delta if adaptive else 1.0
        # Empty: all weights are learnt.
        self.support: Singles = np.zeros((0, padded(k)), dtype=np.float32)
        self.rounds, self.eta = 0, 0.0

    def run(
        self, tokens: Tokens, y: Ints, order: Ints, steps: Floats, loss: int, cost: float, skip: float
    ) -> tuple[float, float]:
        """Rounds over the sentences in `order`: the sum of losses met, and the tokens with an update."""
        reals = np.array([*self.strengths, self.delta, cost, skip])
        indptr, indices, values, offsets = tokens.arguments()
        result = adaptive_rounds(
            *(indptr, indices, values, offsets, y, order, steps, self.table, self.support, self.chain_table),
            *(self.forbidden, reals, self.rounds, loss, self.adaptive, self.learn_chain),
        )
        self.rounds += order.size
        self.eta = float(steps[-1]) if steps.size else self.eta
        return float(result[0]), float(result[1])

    def weights(self) -> tuple[Singles, Floats]:
        """(features, padded labels) and (k + 2, k) weights now."""
        l1, l2, t, eta = self.strengths[0], self.strengths[1], float(self.rounds), self.eta
        out = np.empty((self.table.shape[0], padded(self.k)), dtype=np.float32)
        adaptive_weights(self.table, np.float32(l1 * t), np.float32(eta * l2 * t), np.float32(eta), out)
        return out, self._chain()

    def summary(self) -> Summary:
        """What the weights are now, without a copy of them."""
        l1, l2, t = self.strengths[0], self.strengths[1], float(self.rounds)
        rule = (np.float32(l1 * t), np.float32(self.eta * l2 * t), np.float32(self.eta))
        sums, count = np.zeros((len(self.blocks), 2)), 0
        for m, (low, high) in enumerate(pairwise(self.blocks.starts.tolist())):
            count += int(block_summary(self.table, *rule, low, high, sums[m]))
        return Summary(np.sqrt(sums[:, 0]), count, float(sums[:, 1].sum()), self._chain())

    def _chain(self) -> Floats:
        t, chain = float(self.rounds), np.empty((self.k + 2, self.k))
        shift = self.eta * self.strengths[3] * t
        chain_weights(self.chain_table, self.strengths[2] * t, shift, self.eta, np.zeros_like(self.forbidden), chain)
        return chain

    def start_at(self, W: Singles, chain: Floats, eta: float) -> None:
        """Go on from weights alone: the sums that give them at round 0, at rates as if each had a gradient of one."""
        rate, lanes = (self.delta + 1.0 if self.adaptive else 1.0), padded(self.k)
        self.eta = eta
        self.table[:, lanes:], self.chain_table[1] = rate, rate
        self.table[:, :lanes] = -W * np.float32(rate / eta)
        self.chain_table[0] = -chain * (rate / eta)

    def take(self, other: AdaptiveEngine, place: Ints) -> None:
        """Go on where another engine is that has fewer labels: its label a is place[a] here."""
        lanes, old, k = padded(self.k), padded(other.k), other.k
        self.table[:, place] = other.table[:, :k]
        self.table[:, lanes + place] = other.table[:, old : old + k]
        rows = np.append(place, [self.k, self.k + 1])
        self.chain_table[:, rows[:, None], place] = other.chain_table
        self.rounds, self.eta = other.rounds, other.eta

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        scalars = np.array([float(self.rounds), self.eta])
        return {"table": self.table.copy(), "chain": self.chain_table.copy(), "scalars": scalars}

    def unpack(self, arrays: Arrays) -> None:
        """Go on from a saved run."""
        self.table, self.chain_table = arrays["table"].copy(), arrays["chain"].copy()
        self.rounds, self.eta = int(arrays["scalars"][0]), float(arrays["scalars"][1])
