"""The logistic loss of several classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, kernel
from spom.core.registry import register
from spom.losses.base import MulticlassLoss, _reals_of, simplex_or_none


@kernel(DERIVATIVE_ROW)
def multiclass_logistic_row(y: int, scores: Floats, reals: Floats, out: Floats) -> float:
    """Return the value, and set `out` to the probabilities minus one at y."""
    k, top, gold = scores.size, scores[0], scores[y]
    for j in range(1, k):
        top = max(top, scores[j])
    total = 0.0
    for j in range(k):
        out[j] = math.exp(scores[j] - top)
        total += out[j]
    for j in range(k):
        out[j] /= total
    # Minus the sum of the others is exact when the probability of the gold class is nearly one.
    rest = 0.0
    for j in range(k):
        if j != y:
            rest += out[j]
    out[y] = -rest
    return float((top - gold) + math.log(total))


@kernel("void(float64[:, ::1], float64[::1], float64[:, ::1])")
def below_top(a: Floats, top: Floats, out: Floats) -> None:
    """top_i = max_j a_ij and out = a - top, row by row: numpy is slow on short rows."""
    for i in range(a.shape[0]):
        most = a[i, 0]
        for j in range(1, a.shape[1]):
            most = max(most, a[i, j])
        top[i] = most
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] - most


@kernel("void(float64[:, ::1], float64[::1])")
def row_totals(a: Floats, out: Floats) -> None:
    """Write the sum of each row to `out`."""
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total


@kernel("void(float64[:, ::1])")
def to_shares(a: Floats) -> None:
    """Divide each row by its sum."""
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j]
        for j in range(a.shape[1]):
            a[i, j] /= total


@kernel("void(int64[::1], float64[:, ::1])")
def less_gold(y: Ints, p: Floats) -> None:
    """Subtract 1 from entry y of each row of shares, as minus the sum of the others: exact if it is nearly 1."""
    for i in range(p.shape[0]):
        rest = 0.0
        for j in range(p.shape[1]):
            if j != y[i]:
                rest += p[i, j]
        p[i, y[i]] = -rest


@register(
    "loss",
    "multiclass-logistic",
    examples=lambda: [MulticlassLogistic()],
    formula=r"\log \sum_j e^{a_j} - a_y",
    cost="O(k)",
)
class MulticlassLogistic(MulticlassLoss):
    r"""log(sum over j of exp(a_j)) - a_y, with y a class index and a the k scores.

    Hoelder (1, 1/2), Lipschitz sqrt 2. Its conjugate is sum v log v at v = u + e_y in the simplex.

    >>> MulticlassLogistic().value([0], [[0.0, 0.0]]).round(6)
    array([0.693147])
    >>> MulticlassLogistic().derivative([0], [[0.0, 0.0]])
    array([[-0.5,  0.5]])
    """

    probabilistic = True
    # The largest eigenvalue of diag(p) - p p^T is at most 1/2.
    hoelder = (1.0, 0.5)
    lipschitz = math.sqrt(2.0)
    _row_kernel = multiclass_logistic_row

    def probability(self, a: ArrayLike) -> Floats:
        """exp(a_j) / sum over i of exp(a_i), of each row."""
        scores = _reals_of(a, "a")
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError("a must have one column for each class")
        with np.errstate(over="ignore", under="ignore"):
            return self._probability(scores)

    def _odds(self, a: Floats) -> tuple[Floats, Floats]:
        """Return (top, exp(a - top)), with the scores of each example as a row and top its largest score."""
        rows = np.ascontiguousarray(a).reshape(-1, a.shape[-1])
        top, e = np.empty(rows.shape[0]), np.empty(rows.shape)
        below_top(rows, top, e)
        return top, np.exp(e, out=e)

    def _probability(self, a: Floats) -> Floats:
        _, e = self._odds(a)
        to_shares(e)
        return e.reshape(a.shape)

    def _value(self, y: Ints, a: Floats) -> Any:
        top, e = self._odds(a)
        total = np.empty(top.size)
        row_totals(e, total)
        gold = np.take_along_axis(a, y[..., None], -1)[..., 0]
        return (top.reshape(y.shape) - gold) + np.log(total).reshape(y.shape)

    def _derivative(self, y: Ints, a: Floats) -> Any:
        g = self._probability(a)
        less_gold(np.ascontiguousarray(y).reshape(-1), g.reshape(-1, g.shape[-1]))
        return g

    def _conjugate(self, y: Ints, u: Floats) -> Any:
        v, inside = simplex_or_none(y, u)
        return np.where(inside, (v * np.log(np.where(v > 0, v, 1.0))).sum(axis=-1), np.inf)
