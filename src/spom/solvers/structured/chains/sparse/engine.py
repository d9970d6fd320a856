"""The engine of chains with many labels: sums of gradients and rates of the pairs that were seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles
from spom.data.columns import gather
from spom.errors import Unsupported
from spom.features.rows import Blocks
from spom.solvers.structured.chains.adaptive_engine import LEARNT, Rates, factor_inside
from spom.solvers.structured.chains.data import Summary, Tokens
from spom.solvers.structured.chains.sparse.pairs import Pairs, seen_pairs
from spom.solvers.structured.chains.sparse.parts import Parts
from spom.solvers.structured.chains.sparse.rounds import Rule, Table, final_weights, find_confused, sparse_rounds

LOSSES = ("log", "softmax-margin")
# Its rounds have their own loops, so no structure of the dense ones needs to be compiled.
NO_STRUCTURE: Any = None


class Candidates(NamedTuple):
    """Expectations are over labels within `reach` of a token's best, at most `width`; `parts` are shared by labels.

    confused : in addition to the pairs that were seen, add those of a feature and a label that is wrong at two or more
        of its tokens, with at least this probability after a first pass. None: only pairs that were seen.
    """

    reach: float = 10.0
    width: int = 16
    parts: Any = None
    confused: float | None = None


class PairEngine:
    """Dual averaging with AdaGrad's rates, with weights only for features and labels that were seen together.

    Weights of features are a CSR matrix with an entry for each pair, including zeros, in a fixed order.
    """

    def __init__(
        self, seen: tuple[Tokens, Ints], blocks: Blocks, forbidden: Floats, rates: Rates, asked: Candidates, loss: str
    ) -> None:
        if loss not in LOSSES:
            raise Unsupported(f"unknown loss {loss!r} for many labels; available: {', '.join(LOSSES)}")
        self.blocks, self.k, self.rates, self.asked = blocks, forbidden.shape[1], rates, asked
        parts, shape = Parts.of(asked.parts, self.k), (self.k + 2, self.k)
        self.margin, self.total = loss == "softmax-margin", parts.total
        pairs = seen_pairs(*seen, blocks.total, parts)
        limits = forbidden.astype(np.float32) if forbidden.any() else np.zeros((0, self.k), dtype=np.float32)
        chain = np.zeros(shape, dtype=np.float32), np.full(shape, rates.delta, dtype=np.float32)
        self.table = Table(pairs, *self._fresh(pairs.labels.size), *chain, limits, *self._unknown(pairs))
        self.rounds, self.eta = 0, 0.0

    def _fresh(self, count: int) -> tuple[Singles, Singles]:
        """Return sums and rates of `count` pairs before the first round."""
        return np.zeros(count, dtype=np.float32), np.full(count, self.rates.delta, dtype=np.float32)

    def _unknown(self, pairs: Pairs) -> tuple[Singles, Ints]:
        """Return memory for the weights of pairs, valid in no period."""
        return np.empty(pairs.labels.size, dtype=np.float32), np.full(self.blocks.total, -1)

    def _rule(self, cost: float, skip: float) -> Rule:
        # -inside eta soft(G) / (S + eta l2 t) equals a weight with a smaller step and a larger l2.
        inside = self.rates.inside
        l1, chain_l1 = np.float32(self.rates.l1), np.float32(self.rates.chain_l1)
        l2, chain_l2 = np.float32(self.rates.l2 / inside), np.float32(self.rates.chain_l2 / inside)
        self.table.periods[:] = -1
        step, delta, reach = np.float32(self.eta * inside), np.float32(self.rates.delta), np.float32(self.asked.reach)
        margin, width, learnt = cost if self.margin else 0.0, int(self.asked.width), self.rates.learn_chain
        return Rule(l1, l2, chain_l1, chain_l2, step, delta, margin, skip, reach, width, learnt)

    def add_confused(self, tokens: Tokens, y: Ints, eta: float, cost: float) -> None:
        """Add pairs of features and wrong labels that a first pass finds likely; then discard the pass.

        Without them, no weight could count against a label that a feature was never seen with.
        """
        assert self.asked.confused is not None
        self.eta, found = eta, np.empty((4 * tokens.total, 2), dtype=np.int32)
        rule, every = self._rule(cost, 0.999), np.arange(len(tokens))
        sparse_rounds(tokens, y, every, np.zeros(0), self.table, rule, 0)
        count = find_confused(tokens, y, self.table, rule, every.size, self.asked.confused, found)
        where, labels = found[:count].astype(np.int64).T
        sizes = np.diff(tokens.indptr)[where]
        features = tokens.indices[gather(tokens.indptr, where)[0]].astype(np.int64)
        keys, times = np.unique(features * self.total + np.repeat(labels, sizes), return_counts=True)
        keys = keys[times > 1]
        self._merge(self._pairs(keys), *self._fresh(keys.size), np.arange(self.total))
        self.table.sums[:], self.table.chain_sums[:] = 0.0, 0.0
        self.table.rates[:], self.table.chain_rates[:] = self.rates.delta, self.rates.delta

    def add_labels(self, labels: Sequence[int]) -> None:
        """Give every feature a weight with each of these labels, seen together or not."""
        keys = (np.arange(self.blocks.total)[:, None] * self.total + np.unique(labels)).reshape(-1)
        self._merge(self._pairs(keys), *self._fresh(keys.size), np.arange(self.total))

    def run(self, rounds: Any) -> tuple[float, float]:
        """Run rounds over sentences; return the sum of losses met, and the number of tokens with an update."""
        self.eta = float(rounds.steps[-1]) if rounds.steps.size else self.eta
        rule = self._rule(rounds.loss.cost, rounds.skip)
        found = sparse_rounds(rounds.tokens, rounds.y, rounds.order, rounds.weight, self.table, rule, self.rounds)
        self.rounds += rounds.order.size
        self._project()
        return float(found[0]), float(found[1])

    def _project(self) -> None:
        """Project onto the ball, if there is one."""
        if self.rates.radius < np.inf:
            self.rates = self.rates._replace(inside=1.0)
            self.rates = self.rates._replace(inside=factor_inside(self.summary(), self.rates.radius))

    # --- weights -------------------------------------------------------------------------------------------

    def values(self) -> tuple[Singles, Singles]:
        """Return the current weights of the pairs and of the chain."""
        t, table, rates = float(self.rounds), self.table, self.rates
        values, chain = np.empty_like(table.sums), np.empty_like(table.chain_sums)
        places = ((table.sums, table.rates, values), (table.chain_sums, table.chain_rates, chain))
        for (l1, l2), (sums, own, out) in zip((rates[:2], rates[2:4]), places, strict=True):
            cut, shift = np.float32(l1 * t), np.float32(self.eta * l2 * t)
            step = np.float32(self.eta * rates.inside)
            final_weights(sums.reshape(-1), own.reshape(-1), cut, shift, step, out.reshape(-1))
        return values, chain

    def weights(self) -> tuple[Any, Floats]:
        """Return the current weights, (features, labels) as a CSR matrix and (labels + 2, labels)."""
        values, chain = self.values()
        return self.matrix(values), chain.astype(np.float64)

    def matrix(self, values: Singles) -> Any:
        """Return weights of the pairs as a CSR matrix."""
        from scipy.sparse import csr_matrix

        pairs = self.table.pairs
        return csr_matrix((values, pairs.labels, pairs.starts), shape=(self.blocks.total, self.k))

    def summary(self) -> Summary:
        """Summarise the current weights: norms of blocks, number of non-zeros, sum of absolute values."""
        values, chain = self.values()
        spans = pairwise(self.table.pairs.starts[self.blocks.starts].tolist())
        norms = np.array([float(np.dot(values[a:b], values[a:b])) for a, b in spans])
        return Summary(
            np.sqrt(norms), int(np.count_nonzero(values)), float(np.abs(values).sum(dtype=np.float64)),
            chain.astype(np.float64),
        )  # fmt: skip

    # --- resuming ------------------------------------------------------------------------------------------

    def start_at(self, W: Any, chain: Floats, eta: float) -> None:
        """Resume from weights alone, with sums that give them at round 0."""
        rate = self.rates.delta + LEARNT
        kept = W.tocsr()
        kept.sort_indices()
        own = Pairs(kept.indptr.astype(np.int64), kept.indices.astype(np.int32), self.table.pairs.parts)
        sums = (kept.data * np.float32(-rate / eta)).astype(np.float32)
        self._merge(own, sums, np.full(sums.size, rate, dtype=np.float32), np.arange(chain.shape[1]))
        self.eta = eta
        self.table.chain_sums[:], self.table.chain_rates[:] = -chain * (rate / eta), rate
        self._project()

    def take(self, other: PairEngine, place: Ints) -> None:
        """Resume from another engine that has fewer labels: its label a is place[a] here."""
        self._merge(other.table.pairs, other.table.sums, other.table.rates, place)
        rows = np.append(place, [self.k, self.k + 1])[:, None]
        self.table.chain_sums[rows, place] = other.table.chain_sums
        self.table.chain_rates[rows, place] = other.table.chain_rates
        self.rounds, self.eta = other.rounds, other.eta
        self._project()

    def _merge(self, other: Pairs, sums: Singles, rates: Singles, place: Ints) -> None:
        """Take the pairs of both, with the sums and rates of `other`."""
        own = self.table.pairs
        features = np.arange(self.blocks.total, dtype=np.int64)
        before = np.repeat(features, np.diff(other.starts)) * self.total + place[other.labels]
        keys = np.union1d(before, np.repeat(features, np.diff(own.starts)) * self.total + own.labels)
        table, where = self._fresh(keys.size), np.searchsorted(keys, before)
        table[0][where], table[1][where] = sums, rates
        pairs = self._pairs(keys)
        self.table = Table(pairs, *table, *self.table[3:6], *self._unknown(pairs))

    def _pairs(self, keys: Ints) -> Pairs:
        """Return pairs from increasing numbers feature * total + label."""
        starts = np.searchsorted(keys, np.arange(self.blocks.total + 1) * self.total).astype(np.int64)
        return Pairs(starts, (keys % self.total).astype(np.int32), self.table.pairs.parts)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume, without copies: the next pass changes the arrays."""
        table, scalars = self.table, np.array([float(self.rounds), self.eta])
        own = {"sums": table.sums, "rates": table.rates, "scalars": scalars}
        return {**own, "chain_sums": table.chain_sums, "chain_rates": table.chain_rates}

    def unpack(self, arrays: Arrays) -> None:
        """Resume from a saved run."""
        self.table.sums[:], self.table.rates[:] = arrays["sums"], arrays["rates"]
        self.table.chain_sums[:], self.table.chain_rates[:] = arrays["chain_sums"], arrays["chain_rates"]
        self.rounds, self.eta = int(arrays["scalars"][0]), float(arrays["scalars"][1])
        self._project()
