r"""Select the blocks that are needed, then learn only these: a single run, with exact zeros in its weights.

Rounds up to `last` are group dual averaging in the metric of the blocks (`scaled_rounds`), with the part of the penalty
of block norms: sums of gradients average the noise of single sentences away, and blocks that explain nothing stay
exactly zero. Then the remaining blocks are learnt from zero, per coordinate (`adaptive_engine`), under the part of the
penalty on single weights and without the bias of the other part. The rows of the other blocks stay zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles, under
from spom.features.rows import Blocks
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine, Rates
from spom.solvers.structured.chains.data import Summary, Tokens, padded, restricted
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import SCALE, BlockRule
from spom.solvers.structured.chains.sentence import Rounds

# The step, and the probability above which a gold label gives no update: as in `select`; not tuned again here.
ETA, SKIP = 0.1, 0.95


class SelectingEngine:
    """Two engines, one after the other; `kept` has the non-zero blocks."""

    def __init__(self, blocks: Blocks, forbidden: Floats, rule: BlockRule, rates: Rates, last: int) -> None:
        self.blocks, self.k, self.last, self.forbidden, self.rates = blocks, forbidden.shape[1], last, forbidden, rates
        self.first = BlockEngine(blocks, forbidden, rule, average=False)
        self.second: AdaptiveEngine | None = None
        self.ids: Ints = np.empty(0, dtype=np.int64)
        self._tokens: tuple[Tokens, Tokens] | None = None

    @property
    def rounds(self) -> int:
        """The rounds of the current phase."""
        return self.first.rounds if self.second is None else self.second.rounds

    @property
    def kept(self) -> Ints:
        """The blocks that are not zero."""
        return np.flatnonzero(self.first.numbers[SCALE, :-1] != 0.0)

    def run(self, rounds: Rounds) -> tuple[float, float]:
        """Run rounds over sentences; return the sum of losses met, and the number of tokens with an update."""
        if self.second is None and self.first.rounds < self.last:
            # Group dual averaging has a step of its own: the size of a sentence's gradient is that of one token's.
            steps = np.full(rounds.order.size, ETA)
            return self.first.run(rounds._replace(steps=steps, skip=min(rounds.skip, SKIP)))
        if self.second is None:
            self._second()
        assert self.second is not None
        if self._tokens is None or self._tokens[0] is not rounds.tokens:
            self._tokens = rounds.tokens, restricted(rounds.tokens, self.blocks, self.ids)[0]
        return self.second.run(rounds._replace(tokens=self._tokens[1], done=self.second.rounds))

    def _second(self) -> None:
        """Start the second phase."""
        self.ids = self.blocks.ids(self.kept)
        fewer = Blocks(self.blocks.names, np.searchsorted(self.ids, self.blocks.starts).astype(np.int64))
        self.second = AdaptiveEngine(fewer, self.forbidden, self.rates)

    def weights(self) -> tuple[Singles, Floats]:
        """Return (features, padded labels) and (k + 2, k) current weights."""
        if self.second is None:
            return self.first.weights()
        rows, chain = self.second.weights()
        W = np.zeros((self.blocks.total, padded(self.k)), dtype=np.float32)
        W[self.ids] = rows
        return W, chain

    def summary(self) -> Summary:
        """Summarise the current weights."""
        if self.second is not None:
            return self.second.summary()
        sizes = float(np.abs(self.first.weights()[0]).sum(dtype=np.float64))
        return replace(self.first.summary(), sizes=sizes)

    def start_at(self, W: Singles, chain: Floats, eta: float) -> None:
        """Resume from weights alone; zero blocks stay zero."""
        on = [m for m in range(len(self.blocks)) if W[self.blocks.starts[m] : self.blocks.starts[m + 1]].any()]
        self.first.numbers[SCALE, :-1] = 0.0
        self.first.numbers[SCALE, on] = -1.0
        self.first.rounds = self.last
        self._second()
        assert self.second is not None
        self.second.start_at(np.ascontiguousarray(W[self.ids]), chain, eta)

    def take(self, other: SelectingEngine, place: Ints) -> None:
        """Resume from another engine that has fewer labels: its label a is place[a] here."""
        self.first.take(other.first, place)
        if other.second is not None:
            self._second()
            assert self.second is not None
            self.second.take(other.second, place)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume; all arrays have the same shapes in both phases."""
        lanes = padded(self.k)
        second = np.zeros((self.blocks.total, 2 * lanes), dtype=np.float32)
        found = {f"first.{name}": a for name, a in self.first.pack().items()}
        chain, scalars = np.zeros((2, self.k + 2, self.k)), np.zeros(3)
        if self.second is not None:
            inner = self.second.pack()
            second[self.ids], chain, scalars[1:] = inner["table"], inner["chain"], inner["scalars"]
            scalars[0] = 1.0
        return {**found, "table": second, "chain": chain, "scalars": scalars}

    def unpack(self, arrays: Arrays) -> None:
        """Resume from a saved run."""
        self.first.unpack(under(arrays, "first."))
        if arrays["scalars"][0]:
            self._second()
            assert self.second is not None
            table, scalars = np.ascontiguousarray(arrays["table"][self.ids]), arrays["scalars"][1:]
            self.second.unpack({"table": table, "chain": arrays["chain"], "scalars": scalars})
