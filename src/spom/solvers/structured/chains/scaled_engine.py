"""The engine of block penalties: tables, the numbers of blocks, and, if wanted, the means of all iterates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Summary, of_features, padded
from spom.solvers.structured.chains.scaled_rounds import (
    PEAK,
    SCALE,
    SQUARED,
    SUM,
    BlockRule,
    at_zero,
    block_rounds,
    fold,
    fold_chain,
)
from spom.solvers.structured.chains.sentence import Rounds

SAVED = {"table": "table", "average": "average", "chain_table": "chain", "chain_average": "chain_average"}
SAVED |= {"numbers": "numbers"}


class BlockEngine:
    """Blocks, each a number times a table; see `spom.solvers.structured.chains.scaled_rounds`."""

    def __init__(self, blocks: Blocks, forbidden: Floats, rule: BlockRule, average: bool) -> None:
        self.blocks, self.k, self.rule, self.averaged = blocks, forbidden.shape[1], rule, average
        self.scaled = at_zero(blocks, of_features(blocks), forbidden, padded(self.k), average)
        self.rounds = 0

    @property
    def numbers(self) -> Floats:
        """The numbers of blocks: rows SCALE, SQUARED, PEAK, SUM; the last column is the chain's."""
        return self.scaled.numbers

    def run(self, rounds: Rounds) -> tuple[float, float]:
        """Run rounds over sentences; return the sum of losses met, and the number of tokens with an update."""
        result = block_rounds(rounds, self.scaled, self.rule)
        self.rounds += rounds.order.size
        self._settle()
        return float(result[0]), float(result[1])

    def _settle(self) -> None:
        """Recompute norms and, in forward-backward, set scales to 1, so that a saved run resumes with the same bits."""
        now = self.scaled
        if not self.rule.dual:
            for m in range(len(self.blocks)):
                fold(now, m, False)
            fold_chain(now, False)
            return
        squares = np.einsum("jq,jq->j", now.table, now.table, dtype=np.float64)
        sums = np.add.reduceat(np.append(squares, 0.0), now.starts[:-1]) if len(self.blocks) else squares
        now.numbers[SQUARED, :-1] = np.where(np.diff(now.starts) > 0, sums, 0.0)
        now.numbers[SQUARED, -1] = np.vdot(now.chain, now.chain)
        now.numbers[PEAK] = now.numbers[SQUARED]

    def weights(self) -> tuple[Singles, Floats]:
        """Return the current weights, or the mean with `average`, as (features, padded labels) and (k + 2, k)."""
        now, which = self.scaled, SUM if self.averaged else SCALE
        rows, last = now.numbers[which, :-1].astype(np.float32)[now.block], now.numbers[which, -1]
        W, chain = now.table * rows[:, None], now.chain * last
        if self.averaged and self.rounds:
            W, chain = (W - now.average) / np.float32(self.rounds), (chain - now.chain_average) / self.rounds
        return W, chain

    def summary(self) -> Summary:
        """Summarise the current weights, without the sum of absolute values, which no penalty of blocks needs."""
        now, scale = self.scaled, self.numbers[SCALE]
        W, chain = self.weights() if self.averaged else (now.table, now.chain * scale[-1])
        on = np.ones(len(self.blocks), dtype=bool) if self.averaged else scale[:-1] != 0.0
        spans = list(pairwise(now.starts.tolist()))
        count = sum(int(np.count_nonzero(W[a:b])) for m, (a, b) in enumerate(spans) if on[m])
        norms = np.abs(scale[:-1]) * np.sqrt(np.maximum(now.numbers[SQUARED, :-1], 0.0))
        if self.averaged:
            norms = np.sqrt([float(np.vdot(W[a:b], W[a:b])) for a, b in spans])
        return Summary(np.asarray(norms), count, np.nan, chain)

    def start_at(self, W: Singles, chain: Floats, eta: float) -> None:
        """Resume from weights alone."""
        scale = -eta if self.rule.dual else 1.0
        self.scaled.table[:], self.scaled.chain[:] = W / np.float32(scale), chain / scale
        self.numbers[SCALE] = scale
        self._settle()

    def take(self, other: BlockEngine, place: Ints) -> None:
        """Resume from another engine that has fewer labels: its label a is place[a] here."""
        k, rows = other.k, np.append(place, [self.k, self.k + 1])
        self.scaled.table[:, place] = other.scaled.table[:, :k]
        self.scaled.average[:, place] = other.scaled.average[:, :k]
        self.scaled.chain[rows[:, None], place] = other.scaled.chain
        self.scaled.chain_average[rows[:, None], place] = other.scaled.chain_average
        self.numbers[:], self.rounds = other.numbers, other.rounds

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume, without copies: the next pass changes the arrays."""
        kept = {name: getattr(self.scaled, field) for name, field in SAVED.items()}
        return {**kept, "rounds": np.array(self.rounds)}

    def unpack(self, arrays: Arrays) -> None:
        """Resume from a saved run."""
        for name, field in SAVED.items():
            getattr(self.scaled, field)[:] = arrays[name]
        self.rounds = int(arrays["rounds"])
