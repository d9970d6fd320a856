"""A single label out of k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.registry import Parameters, register
from spom.decoders.checking import as_labels, as_scores, check_scores
from spom.decoders.costs import Cost, as_cost


@kernel("int64(float64[:, ::1], int64[::1])")
def best_rows(scores: Floats, out: Ints) -> int:
    """Write the first largest entry of each row to `out`; return the first row that is all -inf, or -1."""
    for i in range(scores.shape[0]):
        at = 0
        for j in range(1, scores.shape[1]):
            if scores[i, j] > scores[i, at]:
                at = j
        if scores[i, at] == -np.inf:
            return i
        out[i] = at
    return -1


@kernel("int64(float64[:, ::1], float64[:, ::1], float64[::1])")
def softmax_rows(scores: Floats, out: Floats, log_partition: Floats) -> int:
    """exp(s - log sum exp s) of each row; return the first row that is all -inf, or -1."""
    for i in range(scores.shape[0]):
        top = -np.inf
        for j in range(scores.shape[1]):
            top = max(top, scores[i, j])
        if top == -np.inf:
            return i
        total = 0.0
        for j in range(scores.shape[1]):
            out[i, j] = math.exp(scores[i, j] - top)
            total += out[i, j]
        for j in range(scores.shape[1]):
            out[i, j] /= total
        log_partition[i] = top + math.log(total)
    return -1


@register(
    "decoder",
    "multiclass",
    examples=lambda: [Multiclass()],
    formula=r"\max_{y} a_y",
    cost="O(k); marginals O(k)",
)
class Multiclass(Parameters):
    """max over y in 0..k-1 of a_y, for a vector a of k scores, or for each row of a matrix.

    Ties go to the first label. A score of -inf forbids a label.

    >>> from spom.decoders import Hamming, Multiclass
    >>> decoder = Multiclass()
    >>> decoder.best([0.0, 2.0, 1.0])
    1
    >>> decoder.best_augmented([0.0, 2.0, 1.5], gold=1, cost=Hamming())
    2
    >>> probabilities, log_partition = decoder.marginals([[0.0, 0.0], [0.0, 1000.0]])
    >>> probabilities
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    def best(self, scores: ArrayLike) -> Any:
        """Return the label with the highest score; an array of labels for rows."""
        a = self._rows(scores)
        out = np.empty(a.shape[0], dtype=np.int64)
        self._admit(best_rows(a, out))
        return int(out[0]) if np.ndim(scores) == 1 else out

    def best_augmented(self, scores: ArrayLike, gold: ArrayLike, cost: Cost | None = None) -> Any:
        """Return the label with the highest score plus cost (default: Hamming)."""
        a = self._rows(scores)
        y = as_labels(np.atleast_1d(gold), (a.shape[0],), a.shape[1], "gold")
        b = a + as_cost(cost).of_labels(y, a.shape[1])
        return self.best(b[0] if np.ndim(scores) == 1 else b)

    def marginals(self, scores: ArrayLike) -> tuple[Floats, Any]:
        """Return the probabilities of the labels, and the log partition (of each row)."""
        a = self._rows(scores)
        out, log_partition = np.empty_like(a), np.empty(a.shape[0])
        self._admit(softmax_rows(a, out, log_partition))
        return (out[0], float(log_partition[0])) if np.ndim(scores) == 1 else (out, log_partition)

    def parts(self, output: ArrayLike, k: int) -> Floats:
        """Return 1 at the label (of each row), 0 elsewhere; `marginals` is its expectation."""
        y = as_labels(np.atleast_1d(output), (np.size(output),), k, "output")
        table = np.zeros((y.size, k))
        table[np.arange(y.size), y] = 1.0
        return table[0] if np.ndim(output) == 0 else table

    @staticmethod
    def _rows(scores: ArrayLike) -> Floats:
        a = check_scores(as_scores(scores, "scores", (1, 2)), "scores")
        a = a.reshape(1, -1) if a.ndim == 1 else a
        if a.shape[1] == 0:
            raise ValueError("scores must have at least one label")
        return a

    @staticmethod
    def _admit(row: int) -> None:
        if row >= 0:
            raise ValueError(f"no label is admissible in row {row}: all its scores are -inf")
