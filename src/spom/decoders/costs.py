"""Costs of a wrong output: sums over tokens, which are added to the scores before decoding."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_finite, check_positive
from spom.core.registry import Parameters
from spom.errors import Unsupported


@runtime_checkable
class Cost(Protocol):
    """What `best_augmented` adds to the scores. A cost that does not support an output raises `Unsupported`."""

    def of_labels(self, gold: Ints, k: int) -> Floats:
        """Return (n, k): the cost of each label at each token."""
        ...

    def of_arcs(self, heads: Ints, labels: Ints | None, k: int) -> Floats:
        """Return (n + 1, n + 1), or (n + 1, n + 1, k) with labels: the cost of each arc head -> modifier."""
        ...


def as_cost(cost: Cost | None) -> Cost:
    """Return `cost`, Hamming for None; raise an error for anything else."""
    if cost is None:
        return Hamming()
    if isinstance(cost, type) or not isinstance(cost, Cost):
        raise ValueError(f"cost must be Hamming(), LabelCost(...), ArcCost() or alike, not {cost!r}")
    return cost


def _arcs(heads: Ints, wrong: Floats) -> Floats:
    """Return the cost of each head of token m: `wrong[m]`, and 0 for its gold head."""
    n = heads.size
    table = np.zeros((n + 1, n + 1))
    table[:, 1:] = wrong
    table[heads, np.arange(1, n + 1)] = 0.0
    return table


def _labelled_arcs(heads: Ints, labels: Ints, k: int, head: Floats, label: Floats) -> Floats:
    """Return `head[m]` for each arc with a wrong head, `label[m]` for the right head with a wrong label."""
    n = heads.size
    table = np.zeros((n + 1, n + 1, k))
    table[:, 1:] = head[:, None]
    words = np.arange(1, n + 1)
    table[heads, words] = label[:, None]
    table[heads, words, labels] = 0.0
    return table


class Hamming(Parameters):
    """weight * (number of tokens whose label, or head or label, is not the gold one).

    >>> import numpy as np
    >>> Hamming().of_labels(np.array([0, 2]), 3)
    array([[0., 1., 1.],
           [1., 1., 0.]])
    """

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self._check()

    def _check(self) -> None:
        check_positive(self.weight, "weight")

    def of_labels(self, gold: Ints, k: int) -> Floats:
        """Return `weight` for each label but the gold one."""
        table = np.full((gold.size, k), float(self.weight))
        table[np.arange(gold.size), gold] = 0.0
        return table

    def of_arcs(self, heads: Ints, labels: Ints | None, k: int) -> Floats:
        """Return `weight` for each arc (and label) but the gold one."""
        wrong = np.full(heads.size, float(self.weight))
        return _arcs(heads, wrong) if labels is None else _labelled_arcs(heads, labels, k, wrong, wrong)


class LabelCost(Parameters):
    """Sum over tokens of weights[gold, found] (a matrix), or of weights[gold] where found is not gold (a vector).

    In labelled trees a token whose head or label is wrong pays weights[gold label]; that takes a vector.

    >>> import numpy as np
    >>> LabelCost([1.0, 5.0]).of_labels(np.array([0, 1]), 2)
    array([[0., 1.],
           [5., 0.]])
    """

    def __init__(self, weights: ArrayLike) -> None:
        self.weights = weights
        self._check()

    def _check(self) -> None:
        w = as_finite(self.weights, "weights")
        if w.ndim == 2 and w.shape[0] != w.shape[1]:
            raise ValueError(f"weights must be a vector or a square matrix; they have shape {w.shape}")
        if w.size and w.min() < 0.0:
            raise ValueError(f"weights must be >= 0; the least is {w.min()}")
        if w.ndim == 2 and np.diagonal(w).any():
            raise ValueError("weights must be 0 on the diagonal: the gold label costs nothing")

    def _weights(self, k: int) -> Floats:
        w = as_finite(self.weights, "weights")
        if w.shape[0] != k:
            raise ValueError(f"weights are for {w.shape[0]} labels, the scores have {k}")
        return w

    def of_labels(self, gold: Ints, k: int) -> Floats:
        """Return the gold label's row of the matrix, at each token."""
        w = self._weights(k)
        table: Floats = w[gold] if w.ndim == 2 else np.repeat(w[gold][:, None], k, axis=1)
        table[np.arange(gold.size), gold] = 0.0
        return table

    def of_arcs(self, heads: Ints, labels: Ints | None, k: int) -> Floats:
        """Return weights[gold label] for each arc and label but the gold ones."""
        if labels is None:
            raise Unsupported("LabelCost needs labels, and these trees have none; Hamming and ArcCost need none")
        w = self._weights(k)
        if w.ndim == 2:
            raise Unsupported("LabelCost with a matrix is for labels of tokens; in trees give one weight per label")
        return _labelled_arcs(heads, labels, k, w[labels], w[labels])


class ArcCost(Parameters):
    """head * (tokens with a wrong head) + label * (tokens with the right head and a wrong label).

    >>> import numpy as np
    >>> ArcCost().of_arcs(np.array([0, 1]), None, 1)
    array([[0., 0., 1.],
           [0., 1., 0.],
           [0., 1., 1.]])
    """

    def __init__(self, head: float = 1.0, label: float = 0.5) -> None:
        self.head, self.label = head, label
        self._check()

    def _check(self) -> None:
        check_positive(self.head, "head")
        check_positive(self.label, "label")

    def of_labels(self, gold: Ints, k: int) -> Floats:
        """Raise `Unsupported`: labels have no arcs."""
        raise Unsupported("ArcCost is for trees; labels of tokens take Hamming or LabelCost")

    def of_arcs(self, heads: Ints, labels: Ints | None, k: int) -> Floats:
        """Return `head` for a wrong head, `label` for a wrong label at the right head."""
        head, label = np.full(heads.size, float(self.head)), np.full(heads.size, float(self.label))
        return _arcs(heads, head) if labels is None else _labelled_arcs(heads, labels, k, head, label)
