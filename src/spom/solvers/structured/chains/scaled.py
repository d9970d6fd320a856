"""The engine of block penalties: tables, the numbers of blocks, and the means of all iterates where they are wanted."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.solvers.pointers import pointer
from spom.solvers.structured.chains.blocks import PEAK, SCALE, SQUARED, SUM, block_rounds, fold, fold_chain
from spom.solvers.structured.chains.data import Blocks, Summary, Tokens, padded
from spom.solvers.structured.chains.residual import Singles

Arrays = dict[str, NDArray[Any]]


def on_norms(penalty: Any, count: int) -> tuple[Any, Floats, Ints]:
    """The compiled prox of a penalty of block norms, as a function of the norms: the same with groups of one."""
    one = copy.copy(penalty)
    if hasattr(one, "groups"):
        one.groups, one._cached = 1, None
    kernel, reals, ints = one.compiled((count,))
    return pointer(kernel), reals, ints


class BlockEngine:
    """Blocks as a number times a table; see `spom.solvers.structured.chains.blocks`."""

    def __init__(
        self,
        blocks: Blocks,
        forbidden: Floats,
        penalty: Any,
        *,
        dual: bool,
        average: bool,
        learn_chain: bool,
        penalise_chain: bool,
        l2_chain: float,
    ) -> None:
        k = forbidden.shape[1]
        self.blocks, self.k, self.forbidden, self.penalty = blocks, k, forbidden, penalty
        self.dual, self.averaged, self.learn_chain, self.l2_chain = dual, average, learn_chain, l2_chain
        self.penalised = len(blocks) + penalise_chain
        self.prox = on_norms(penalty, self.penalised)
        self.block = blocks.of_features()
        self.table = np.zeros((blocks.features, padded(k)), dtype=np.float32)
        self.average = np.zeros((blocks.features if average else 0, padded(k)), dtype=np.float32)
        self.chain_table, self.chain_average = np.zeros((k + 2, k)), np.zeros((k + 2, k))
        self.numbers = np.zeros((4, len(blocks) + 1))
        self.numbers[SCALE] = 1.0
        self.rounds = 0

    def run(
        self, tokens: Tokens, y: Ints, order: Ints, steps: Floats, loss: int, cost: float, skip: float
    ) -> tuple[float, float]:
        """Rounds over the sentences in `order`: the sum of losses met, and the tokens with an update."""
        indptr, indices, values, offsets = tokens.arguments()
        result = block_rounds(
            *(indptr, indices, values, offsets, y, order, steps, self.table, self.average, self.block),
            *(self.blocks.starts, self.chain_table, self.chain_average, self.forbidden, self.numbers, *self.prox),
            *(self.penalised, np.array([self.l2_chain, cost, skip]), self.rounds, loss, self.dual, self.learn_chain),
        )
        self.rounds += order.size
        self._settle()
        return float(result[0]), float(result[1])

    def _settle(self) -> None:
        """Norms summed up afresh and, in forward-backward, scales of one: a saved run goes on from the same bits."""
        if self.dual:
            squares = np.einsum("jq,jq->j", self.table, self.table, dtype=np.float64)
            sums = np.add.reduceat(np.append(squares, 0.0), self.blocks.starts[:-1]) if len(self.blocks) else squares
            self.numbers[SQUARED, :-1] = np.where(np.diff(self.blocks.starts) > 0, sums, 0.0)
            self.numbers[SQUARED, -1] = np.vdot(self.chain_table, self.chain_table)
            self.numbers[PEAK] = self.numbers[SQUARED]
            return
        for m in range(len(self.blocks)):
            low, high = self.blocks.starts[m : m + 2]
            fold(self.table, self.average, low, high, m, self.numbers, False)
        fold_chain(self.chain_table, self.chain_average, self.numbers, False)

    def weights(self) -> tuple[Singles, Floats]:
        """(features, padded labels) and (k + 2, k) weights now: the mean of all iterates where that was asked for."""
        which = SUM if self.averaged else SCALE
        rows, last = self.numbers[which, :-1].astype(np.float32)[self.block], self.numbers[which, -1]
        W, chain = self.table * rows[:, None], self.chain_table * last
        if self.averaged and self.rounds:
            W, chain = (W - self.average) / np.float32(self.rounds), (chain - self.chain_average) / self.rounds
        return W, chain

    def summary(self) -> Summary:
        """What the weights are now; the sum of their sizes, which no penalty of blocks asks for, is left out."""
        W, chain = self.weights() if self.averaged else (self.table, self.chain_table * self.numbers[SCALE, -1])
        on = np.ones(len(self.blocks), dtype=bool) if self.averaged else self.numbers[SCALE, :-1] != 0.0
        spans = list(pairwise(self.blocks.starts.tolist()))
        count = sum(int(np.count_nonzero(W[a:b])) for m, (a, b) in enumerate(spans) if on[m])
        norms = np.abs(self.numbers[SCALE, :-1]) * np.sqrt(np.maximum(self.numbers[SQUARED, :-1], 0.0))
        if self.averaged:
            norms = np.sqrt([float(np.vdot(W[a:b], W[a:b])) for a, b in spans])
        return Summary(np.asarray(norms), count, np.nan, chain)

    def start_at(self, W: Singles, chain: Floats, eta: float) -> None:
        """Go on from weights alone."""
        scale = -eta if self.dual else 1.0
        self.table, self.chain_table = W / np.float32(scale), chain / scale
        self.numbers[SCALE] = scale
        self._settle()

    def take(self, other: BlockEngine, place: Ints) -> None:
        """Go on where another engine is that has fewer labels: its label a is place[a] here."""
        k, rows = other.k, np.append(place, [self.k, self.k + 1])
        self.table[:, place] = other.table[:, :k]
        self.average[:, place] = other.average[:, :k]
        self.chain_table[rows[:, None], place] = other.chain_table
        self.chain_average[rows[:, None], place] = other.chain_average
        self.numbers, self.rounds = other.numbers.copy(), other.rounds

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        names = ("table", "average", "chain_table", "chain_average", "numbers")
        return {**{name: getattr(self, name).copy() for name in names}, "rounds": np.array(self.rounds)}

    def unpack(self, arrays: Arrays) -> None:
        """Go on from a saved run."""
        for name in ("table", "average", "chain_table", "chain_average", "numbers"):
            setattr(self, name, arrays[name].copy())
        self.rounds = int(arrays["rounds"])
