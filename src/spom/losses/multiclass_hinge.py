"""The hinge loss of several classes (Crammer and Singer)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, kernel
from spom.core.registry import register
from spom.losses.base import MulticlassLoss, simplex_or_none


@kernel(DERIVATIVE_ROW)
def multiclass_hinge_row(y: int, scores: Floats, reals: Floats, out: Floats) -> float:
    """Return the value, and set `out` to e_j - e_y for the class j that violates the margin most, or to 0."""
    worst, at, gold = 0.0, y, scores[y]
    for j in range(scores.size):
        violation = (scores[j] - gold) + 1.0
        if j != y and violation > worst:
            worst, at = violation, j
    out[:] = 0.0
    if at != y:
        out[at], out[y] = 1.0, -1.0
    return worst


@register(
    "loss",
    "multiclass-hinge",
    examples=lambda: [MulticlassHinge()],
    formula=r"\max\bigl(0,\, \max_{j \ne y} (1 + a_j - a_y)\bigr)",
    cost="O(k)",
)
class MulticlassHinge(MulticlassLoss):
    r"""max(0, max over j != y of 1 + a_j - a_y), with y a class index and a the k scores.

    Hoelder (0, sqrt 2), Lipschitz sqrt 2. The derivative is e_j - e_y for the class j that violates the
    margin most; ties go to the first class, and it is 0 if no class violates the margin. The conjugate is
    (v_y - 1) at v = u + e_y in the simplex.

    >>> MulticlassHinge().value([0, 2], [[3.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    array([0. , 1.5])
    >>> MulticlassHinge().derivative([0, 2], [[3.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    array([[ 0.,  0.,  0.],
           [ 1.,  0., -1.]])
    """

    hoelder = (0.0, math.sqrt(2.0))
    lipschitz = math.sqrt(2.0)
    _row_kernel = multiclass_hinge_row

    def _violations(self, y: Ints, a: Floats) -> Floats:
        margins = (a - np.take_along_axis(a, y[..., None], -1)) + 1.0
        np.put_along_axis(margins, y[..., None], 0.0, -1)
        return np.asarray(margins)

    def _value(self, y: Ints, a: Floats) -> Any:
        return self._violations(y, a).max(axis=-1)

    def _derivative(self, y: Ints, a: Floats) -> Any:
        violations = self._violations(y, a)
        worst = violations.argmax(axis=-1)[..., None]
        active = np.take_along_axis(violations, worst, -1) > 0.0
        g = np.zeros_like(a)
        np.put_along_axis(g, worst, np.where(active, 1.0, 0.0), -1)
        np.put_along_axis(g, y[..., None], np.where(active, -1.0, 0.0), -1)
        return g

    def _conjugate(self, y: Ints, u: Floats) -> Any:
        v, inside = simplex_or_none(y, u)
        return np.where(inside, np.take_along_axis(v, y[..., None], -1)[..., 0] - 1.0, np.inf)
