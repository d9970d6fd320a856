"""Learning chains with many labels, pass after pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import check_positive
from spom.errors import Unsupported
from spom.solvers.structured.chains.data import Ids, Tokens, check_gold
from spom.solvers.structured.chains.solver import Epoch
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs, longest, part_count, seen_pairs
from spom.solvers.structured.chains.sparse.rounds import Rule, Table, final_weights, sparse_rounds

LOSSES = ("log", "softmax-margin")


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
        if loss not in LOSSES:
            raise Unsupported(f"there is no loss {loss!r} for many labels; the losses are: {', '.join(LOSSES)}")
        self.tokens, self.labels, self.epochs = tokens, int(labels), int(epochs)
        self.y = check_gold(y, tokens, self.labels)
        margin = check_positive(cost, "cost") if loss == "softmax-margin" else 0.0
        shared, shape = _parts(parts, self.labels), (self.labels + 2, self.labels)
        self.rule = Rule(
            l1=np.float32(l1),
            l2=np.float32(l2),
            eta=np.float32(eta),
            delta=np.float32(check_positive(delta, "delta", zero=False)),
            cost=margin,
            skip=skip,
            reach=np.float32(reach),
            width=int(width),
            learn_chain=bool(transitions),
            total=part_count(shared),
        )
        pairs = seen_pairs(tokens, self.y, features, shared)
        count = pairs.labels.size
        rate = np.float32(delta)
        self.table = Table(
            pairs,
            np.zeros(count, dtype=np.float32),
            np.full(count, rate, dtype=np.float32),
            np.zeros(shape, dtype=np.float32),
            np.full(shape, rate, dtype=np.float32),
        )
        seed = random_state
        self.random = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        self.done, self.rounds, self.seconds = 0, 0, 0.0

    def passes(self) -> Iterator[Epoch]:
        """Pass after pass up to `epochs`."""
        while self.done < self.epochs:
            yield self.one_pass()

    def one_pass(self) -> Epoch:
        """One pass over the sentences."""
        begin, n = time.perf_counter(), len(self.tokens)
        order = self.random.permutation(n)
        width = longest(self.tokens)
        total, touched = sparse_rounds(self.tokens, self.y, order, self.table, self.rule, self.rounds, width)
        self.rounds += n
        self.done += 1
        self.seconds += time.perf_counter() - begin
        share = float(touched) / max(1, self.tokens.total)
        return Epoch(self.done, float(total) / max(1, n), share, float(self.rule.eta), self.seconds)

    def weights(self) -> SparseWeights:
        """The weights now; pairs whose weight is zero are left out."""
        t, rule, table = float(self.rounds), self.rule, self.table
        numbers = (np.float32(rule.l1 * t), np.float32(rule.eta * rule.l2 * t), np.float32(rule.eta))
        values, chain = np.empty_like(table.sums), np.empty_like(table.chain_sums)
        final_weights(table.sums, table.rates, *numbers, values)
        final_weights(table.chain_sums.reshape(-1), table.chain_rates.reshape(-1), *numbers, chain.reshape(-1))
        kept = values != 0.0
        before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        starts = np.ascontiguousarray(before[table.pairs.starts])
        return SparseWeights(Pairs(starts, table.pairs.labels[kept], table.pairs.parts), values[kept], chain)


def _parts(parts: Any, labels: int) -> Ids:
    """The parts of each label, one row for each label; none by default."""
    found = np.zeros((labels, 0)) if parts is None else np.asarray(parts)
    if found.shape[0] != labels or (found.size and found.min() < labels):
        raise ValueError(f"parts must have a row for each of {labels} labels, with numbers from {labels} on")
    return np.ascontiguousarray(found, dtype=np.int32)
