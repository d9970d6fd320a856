"""The power hinge of several classes: each class against the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, kernel
from spom.core.registry import register
from spom.losses.base import MulticlassLoss, PowerLoss
from spom.losses.power_hinge import PowerHinge


@kernel(DERIVATIVE_ROW)
def multiclass_power_hinge_row(y: int, scores: Floats, reals: Floats, out: Floats) -> float:
    """Return the value, and set `out` to the derivative in each score. q = reals[0]."""
    q, total = reals[0], 0.0
    if q == 2.0:
        # Without powers and branches: several times faster, with the same results.
        for j in range(scores.size):
            sign = 1.0 if j == y else -1.0
            z = max(0.0, 1.0 - sign * scores[j])
            total += z * z
            out[j] = -2.0 * sign * z
        return total
    for j in range(scores.size):
        sign = 1.0 if j == y else -1.0
        z = 1.0 - sign * scores[j]
        if z > 0.0:
            total += z**q
            out[j] = -q * sign * z ** (q - 1.0)
        else:
            out[j] = -1.0 if q == 1.0 and z == 0.0 and j == y else 0.0
    return total


@register(
    "loss",
    "multiclass-power-hinge",
    examples=lambda: [MulticlassPowerHinge(classes=4), MulticlassPowerHinge(1.5, 4), MulticlassPowerHinge(1.0, 4)],
    formula=r"\sum_j \max(0,\, 1 - s_j a_j)^q, \quad s_j = \pm 1",
    cost="O(k)",
)
class MulticlassPowerHinge(PowerLoss, MulticlassLoss):
    r"""sum over classes j of max(0, 1 - s_j a_j)^q, s_j = +1 for j = y and -1 for the others; 1 <= q <= 2.

    Each class against the rest, for all classes in one objective, so that a penalty can couple their weights.
    Hoelder (q - 1, q k^(1 - q/2)) for k classes; Lipschitz only for q = 1, with sqrt(k). `classes` is k, which
    these constants need; without it they are infinite, except for the Hoelder constant 2 of q = 2.

    >>> MulticlassPowerHinge(q=2.0).value([0], [[0.5, -1.0, 0.0]])
    array([1.25])
    >>> MulticlassPowerHinge(q=2.0).derivative([0], [[0.5, -1.0, 0.0]])
    array([[-1.,  0.,  2.]])
    """

    _row_kernel = multiclass_power_hinge_row

    def __init__(self, q: float = 2.0, classes: int | None = None) -> None:
        self.q = q
        self.classes = classes
        self._check()

    def _check(self) -> None:
        super()._check()
        if self.classes is not None and not (isinstance(self.classes, int) and self.classes >= 1):
            raise ValueError(f"classes must be None or a number of classes >= 1; it is {self.classes!r}")

    @property
    def hoelder(self) -> tuple[float, float]:
        """(q - 1, q k^(1 - q/2))."""
        k = 1.0 if self.q == 2 else self.classes or math.inf
        return float(self.q) - 1.0, float(self.q * k ** (1.0 - self.q / 2.0))

    @property
    def lipschitz(self) -> float:
        """sqrt(k) for q = 1, else infinite."""
        return math.sqrt(self.classes) if self.q == 1 and self.classes else math.inf

    def _signs(self, y: Ints, a: Floats) -> Floats:
        signs = np.full_like(a, -1.0)
        np.put_along_axis(signs, y[..., None], 1.0, -1)
        return signs

    def _value(self, y: Ints, a: Floats) -> Any:
        return PowerHinge(self.q)._value(self._signs(y, a), a).sum(axis=-1)

    def _derivative(self, y: Ints, a: Floats) -> Any:
        return PowerHinge(self.q)._derivative(self._signs(y, a), a)

    def _conjugate(self, y: Ints, u: Floats) -> Any:
        return PowerHinge(self.q)._conjugate(self._signs(y, u), u).sum(axis=-1)
