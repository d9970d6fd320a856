"""Learning chains with many labels, pass after pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import check_positive
from spom.solvers.structured.chains.adaptive_engine import Rates
from spom.solvers.structured.chains.data import Tokens, as_blocks, check_gold
from spom.solvers.structured.chains.sentence import Rounds
from spom.solvers.structured.chains.solver import Epoch, forbidden_scores
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.engine import NO_STRUCTURE, Candidates, PairEngine
from spom.solvers.structured.chains.sparse.pairs import Pairs
from spom.solvers.structured.structures import LOG, Loss


class SparseChain:
    """min over theta of l1 norm1(theta) + (1/N) sum_i L(theta; x_i, y_i), theta on pairs (feature, label) seen.

    A round costs what the labels cost that were seen with the features of its tokens, not all labels; so does a table.
    Expectations in learning go over at most `width` candidates of each token (see `rounds`); decoding is exact.

    >>> from types import SimpleNamespace
    >>> from spom.solvers.structured.chains.data import as_tokens
    >>> rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4], indices=[0, 1, 0, 1], values=[], offsets=[0, 2, 4])
    >>> solver = SparseChain(as_tokens(rows), [0, 1, 0, 1], 2, features=2, epochs=5, random_state=0)
    >>> for epoch in solver.passes():
    ...     pass
    >>> solver.weights().tag(as_tokens(rows))
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
        l2: float = 0.0,
        loss: str = "log",
        cost: float = 1.0,
        eta: float = 0.5,
        delta: float = 0.1,
        skip: float = 0.999,
        reach: float = 10.0,
        width: int = 16,
        transitions: bool = True,
        epochs: int = 6,
        random_state: Any = None,
    ) -> None:
        self.tokens, self.labels, self.epochs = tokens, int(labels), int(epochs)
        self.y = check_gold(y, tokens, self.labels)
        check_positive(delta, "delta", zero=False)
        rates = Rates(l1, l2, l1, l2, float(delta), True, bool(transitions))
        nothing, blocks = forbidden_scores(None, self.labels), as_blocks(None, features)
        self.engine = PairEngine((tokens, self.y), blocks, nothing, rates, Candidates(reach, width, parts), loss)
        self.cost, self.skip, self.eta = check_positive(cost, "cost"), skip, float(eta)
        seed = random_state
        self.random = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        self.done, self.seconds = 0, 0.0

    def passes(self) -> Iterator[Epoch]:
        """Pass after pass up to `epochs`."""
        while self.done < self.epochs:
            yield self.one_pass()

    def one_pass(self) -> Epoch:
        """One pass over the sentences."""
        begin, n = time.perf_counter(), len(self.tokens)
        order, loss = self.random.permutation(n), Loss(LOG, self.cost)
        rounds = Rounds(self.tokens, self.y, order, np.full(n, self.eta), NO_STRUCTURE, loss, self.skip, 0)
        total, touched = self.engine.run(rounds)
        self.done += 1
        self.seconds += time.perf_counter() - begin
        return Epoch(self.done, total / max(1, n), touched / max(1, self.tokens.total), self.eta, self.seconds)

    def weights(self) -> SparseWeights:
        """The weights now; pairs whose weight is zero are left out."""
        values, chain = self.engine.values()
        pairs, kept = self.engine.table.pairs, values != 0.0
        before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        starts = np.ascontiguousarray(before[pairs.starts])
        return SparseWeights(Pairs(starts, pairs.labels[kept], pairs.parts), values[kept], chain)
