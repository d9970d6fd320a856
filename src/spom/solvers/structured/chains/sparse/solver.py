"""Learning chains with many labels: `OnlineChain` with candidates, and the weights of the pairs it has found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Singles, offsets_of
from spom.features.rows import Blocks
from spom.penalties import L1
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.solver import Epoch, OnlineChain
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.engine import Candidates, PairEngine
from spom.solvers.structured.chains.sparse.pairs import Pairs


class SparseChain:
    """min over theta of l1 norm1(theta) + (1/N) sum_i L(theta; x_i, y_i), theta on pairs (feature, label) seen.

    The time of a round depends on the labels seen with the features of its tokens, not on all labels; so does a table's
    size. In learning, expectations are over at most `width` candidates per token (see `rounds`); decoding is exact.
    `parts` has a row of parts for each label (see `Parts`). `weighed` are a few labels that have a weight with every
    feature, seen together or not. Each pass ends with the projection onto the ball of `radius`.

    >>> from types import SimpleNamespace
    >>> from spom.solvers.structured.chains.data import as_tokens
    >>> rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4], indices=[0, 1, 0, 1], values=[], offsets=[0, 2, 4])
    >>> solver = SparseChain(as_tokens(rows), [0, 1, 0, 1], 2, features=2, epochs=5, random_state=0)
    >>> solver.learnt().tag(as_tokens(rows))
    array([0, 1, 0, 1])
    """

    def __init__(
        self,
        tokens: Tokens,
        y: ArrayLike,
        labels: int,
        *,
        features: int,
        parts: Any = None,
        l1: float = 0.0,
        loss: str = "log",
        cost: float = 1.0,
        skip: float = 0.999,
        reach: float = 10.0,
        width: int = 16,
        transitions: bool = True,
        weighed: Sequence[int] = (),
        epochs: int = 6,
        radius: float = np.inf,
        step: Any = "auto",
        random_state: Any = None,
    ) -> None:
        self.chain = OnlineChain(
            tokens,
            y,
            labels,
            blocks=Blocks(("features",), np.array([0, features], dtype=np.int64)),
            loss=loss,
            penalty=L1(l1),
            transitions="learnt" if transitions else None,
            cost=cost,
            skip=skip,
            epochs=epochs,
            radius=radius,
            step=step,
            random_state=random_state,
            candidates=Candidates(reach, width, parts),
        )
        if weighed:
            self.engine.add_labels(weighed)

    @property
    def engine(self) -> PairEngine:
        """The pairs, with their sums and rates."""
        engine = self.chain.engine
        assert isinstance(engine, PairEngine)  # it is what candidates ask for
        return engine

    def passes(self) -> Iterator[Epoch]:
        """Make passes up to `epochs`."""
        return self.chain.passes()

    def one_pass(self) -> Epoch:
        """Make one pass over the sentences."""
        return self.chain.one_pass()

    def weights(self) -> SparseWeights:
        """Return the current weights, without pairs whose weight is zero."""
        return self._without_zeros(*self.engine.values())

    def learnt(self, last: int = 1) -> SparseWeights:
        """Make all passes; return the means of the weights after each of the `last` ones, without zeros."""
        table, before = self.engine.table, self.chain.epochs - last
        values, chain = np.zeros_like(table.sums), np.zeros_like(table.chain_sums)
        for epoch in self.passes():
            if epoch.epoch > before:
                own = self.engine.values()
                values += own[0]
                chain += own[1]
        return self._without_zeros(values / np.float32(last), chain / np.float32(last))

    def _without_zeros(self, values: Singles, chain: Singles) -> SparseWeights:
        pairs, kept = self.engine.table.pairs, values != 0.0
        before = offsets_of(kept)
        starts = np.ascontiguousarray(before[pairs.starts])
        return SparseWeights(Pairs(starts, pairs.labels[kept], pairs.parts), values[kept], chain)
