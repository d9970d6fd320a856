"""A label for each token of a sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.registry import Parameters, register
from spom.decoders.checking import as_labels, as_scores, check_scores
from spom.decoders.costs import Cost, as_cost
from spom.decoders.forward_backward import forward_backward
from spom.decoders.schemes import Constraints, tag_constraints
from spom.decoders.viterbi import viterbi, viterbi_several


class ChainParts(NamedTuple):
    """Scores, counts or expectations of the parts of a chain; missing parts score 0."""

    unary: Any
    """(n, k): label y at token t."""
    transition: Any = None
    """(k, k): label b right after label a, anywhere."""
    begin: Any = None
    """(k): the first label."""
    end: Any = None
    """(k): the last label."""


@register(
    "decoder",
    "chain",
    examples=lambda: [Chain(), Chain(tag_constraints(["O", "B-X", "I-X"]))],
    formula=r"\max_{y} b_{y_1} + \sum_t u_{t y_t} + \sum_t T_{y_t y_{t+1}} + e_{y_n}",
    cost="O(n k^2); the best m O(n k^2 m)",
)
class Chain(Parameters):
    """max over y of begin[y_1] + sum_t unary[t, y_t] + sum_t transition[y_t, y_(t+1)] + end[y_n].

    Scores are a `ChainParts`, or a tuple of its parts in that order, or the unary scores alone. `constraints`
    (see `tag_constraints`) and scores of -inf forbid transitions, beginnings, ends and labels. Among sequences
    with equal scores, the one with the lower label at the last token where they differ wins. The empty sequence
    has the score 0.

    >>> import numpy as np
    >>> from spom.decoders import Chain, Hamming, tag_constraints
    >>> unary = np.array([[1.0, 0.0, 2.0], [0.0, 0.5, 1.0]])
    >>> Chain().best(unary)
    array([2, 2])
    >>> bio = Chain(tag_constraints(["O", "B-NP", "I-NP"]))
    >>> bio.best(unary)
    array([0, 1])
    >>> bio.best_augmented(unary, gold=[0, 1], cost=Hamming(0.3))
    array([1, 2])
    >>> expected, log_partition = bio.marginals(unary)
    >>> expected.unary.sum(axis=1)
    array([1., 1.])
    """

    def __init__(self, constraints: Constraints | None = None) -> None:
        self.constraints = constraints
        self._check()

    def _check(self) -> None:
        if self.constraints is None:
            return
        transition, begin, end = (np.asarray(part) for part in self.constraints)
        k = begin.size
        if transition.shape != (k, k) or begin.shape != (k,) or end.shape != (k,):
            shapes = f"{transition.shape}, {begin.shape} and {end.shape}"
            raise ValueError(f"constraints must have shapes (k, k), (k) and (k); they have {shapes}")
        if any(part.dtype != bool for part in (transition, begin, end)):
            raise ValueError("constraints must be boolean: True for what is allowed")

    def best(self, scores: Any) -> Ints:
        """Return the labels of the sequence with the highest score (Viterbi)."""
        return self._best(self._parts(scores))

    def best_augmented(self, scores: Any, gold: ArrayLike, cost: Cost | None = None) -> Ints:
        """Return the labels of the sequence with the highest score plus cost (default: Hamming)."""
        parts = self._parts(scores)
        n, k = parts.unary.shape
        y = as_labels(gold, (n,), k, "gold")
        return self._best(parts._replace(unary=parts.unary + as_cost(cost).of_labels(y, k)))

    def marginals(self, scores: Any) -> tuple[ChainParts, float]:
        """Return expected parts, and the log partition (forward-backward in log space)."""
        expected, log_partition, _ = self._sums(self._parts(scores), edges=False)
        return expected, log_partition

    def edge_marginals(self, scores: Any) -> Floats:
        """Return P(y_t = a, y_(t+1) = b) as (n - 1, k, k)."""
        return self._sums(self._parts(scores), edges=True)[2]

    def posterior(self, scores: Any) -> Ints:
        """Return the admissible labels with the highest sum of marginals, which maximises the expected number of hits.

        Without constraints this is the most probable label of each token.
        """
        parts = self._parts(scores)
        nodes = self._sums(parts, edges=False)[0].unary
        forbidden = [np.where(part > -np.inf, 0.0, -np.inf) for part in parts]
        if not any(part.any() for part in forbidden[1:]):
            return np.asarray(nodes.argmax(axis=1), dtype=np.int64)
        return self._best(ChainParts(nodes + forbidden[0], *forbidden[1:]))

    def kbest(self, scores: Any, count: int) -> tuple[Ints, Floats]:
        """Return at most `count` sequences with the highest scores, best first, one per row, and their scores."""
        parts = self._parts(scores)
        if not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"count must be a positive integer; it is {count!r}")
        n, k = parts.unary.shape
        if n == 0:
            return np.empty((1, 0), dtype=np.int64), np.zeros(1)
        count = int(min(count, float(k) ** n)) if n * np.log2(k) < 60 else int(count)
        out, found = np.empty((count, n), dtype=np.int64), np.empty(count)
        there = viterbi_several(*parts, out, found)
        if there == 0:
            raise self._nothing()
        return out[:there].copy(), found[:there].copy()

    def parts(self, output: ArrayLike, k: int) -> ChainParts:
        """Return the counts of the parts of a sequence; `marginals` is their expectation."""
        y = as_labels(output, (np.size(output),), k, "output")
        counts = ChainParts(np.zeros((y.size, k)), np.zeros((k, k)), np.zeros(k), np.zeros(k))
        counts.unary[np.arange(y.size), y] = 1.0
        np.add.at(counts.transition, (y[:-1], y[1:]), 1.0)
        if y.size:
            counts.begin[y[0]] = counts.end[y[-1]] = 1.0
        return counts

    def score(self, scores: Any, output: ArrayLike) -> float:
        """Return the score of a sequence; -inf where it is not admissible."""
        unary, transition, begin, end = self._parts(scores)
        y = as_labels(output, (unary.shape[0],), unary.shape[1], "output")
        if y.size == 0:
            return 0.0
        inner = unary[np.arange(y.size), y].sum() + transition[y[:-1], y[1:]].sum()
        return float(begin[y[0]] + inner + end[y[-1]])

    def _best(self, parts: ChainParts) -> Ints:
        out = np.empty(parts.unary.shape[0], dtype=np.int64)
        if out.size and viterbi(*parts, out) == -np.inf:
            raise self._nothing()
        return out

    def _sums(self, parts: ChainParts, edges: bool) -> tuple[ChainParts, float, Floats]:
        n, k = parts.unary.shape
        pairs = np.zeros((max(n - 1, 0) if edges else 0, k, k))
        if n == 0:
            return ChainParts(np.zeros((0, k)), np.zeros((k, k)), np.zeros(k), np.zeros(k)), 0.0, pairs
        nodes, steps = np.empty((n, k)), np.zeros((k, k))
        log_partition = forward_backward(*parts, nodes, steps, pairs)
        if log_partition == -np.inf:
            raise self._nothing()
        return ChainParts(nodes, steps, nodes[0].copy(), nodes[-1].copy()), log_partition, pairs

    def _parts(self, scores: Any) -> ChainParts:
        """Return checked scores: -inf for what the constraints forbid, zeros for missing parts."""
        given = ChainParts(*scores) if isinstance(scores, tuple) else ChainParts(scores)
        unary = check_scores(as_scores(given.unary, "unary scores", (2,)), "unary scores")
        k = unary.shape[1]
        if k == 0:
            raise ValueError("unary scores must have at least one label")
        found = [unary]
        for name, shape in (("transition", (k, k)), ("begin", (k,)), ("end", (k,))):
            part = getattr(given, name)
            if part is None:
                found.append(np.zeros(shape))
                continue
            a = as_scores(part, f"{name} scores", (len(shape),))
            if a.shape != shape:
                raise ValueError(f"{name} scores must have shape {shape}, for {k} labels; they have {a.shape}")
            found.append(check_scores(a, f"{name} scores"))
        if self.constraints is not None:
            allowed = Constraints(*(np.asarray(part) for part in self.constraints))
            if allowed.begin.shape != (k,):
                raise ValueError(f"constraints are for {allowed.begin.size} labels, the scores have {k}")
            found[1:] = [np.where(ok, a, -np.inf) for ok, a in zip(allowed, found[1:], strict=True)]
        return ChainParts(*found)

    @staticmethod
    def _nothing() -> ValueError:
        what = "the constraints and scores of -inf forbid every sequence of this length"
        return ValueError(f"no sequence is admissible: {what}; allow more transitions or labels")
