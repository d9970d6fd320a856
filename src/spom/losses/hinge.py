"""The hinge loss of support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import DERIVATIVE, kernel
from spom.core.registry import register
from spom.losses.base import BinaryLoss


@kernel(DERIVATIVE)
def hinge_value(y: float, a: float, reals: Floats) -> float:
    """max(0, 1 - y a)."""
    return max(0.0, 1.0 - y * a)


@kernel(DERIVATIVE)
def hinge_derivative(y: float, a: float, reals: Floats) -> float:
    """Return the left derivative: at the kink it is -1 for y = 1 and 0 for y = -1."""
    m = y * a
    return -y if m < 1.0 or (m == 1.0 and y > 0.0) else 0.0


@register(
    "loss",
    "hinge",
    examples=lambda: [Hinge()],
    formula=r"\max(0,\, 1 - y a)",
    cost="O(1)",
)
class Hinge(BinaryLoss):
    r"""max(0, 1 - y a), with y = -1 or +1.

    Hoelder (0, 1), Lipschitz 1, not smooth. Its conjugate is y u for -1 <= y u <= 0.

    >>> Hinge().value([1, 1, -1], [0.25, 2.0, 0.0])
    array([0.75, 0.  , 1.  ])
    >>> Hinge().derivative([1, -1], [1.0, -1.0])
    array([-1.,  0.])
    """

    hoelder = (0.0, 1.0)
    lipschitz = 1.0
    _value_kernel = hinge_value
    _derivative_kernel = hinge_derivative

    def _value(self, y: Floats, a: Floats) -> Any:
        return np.maximum(0.0, 1.0 - y * a)

    def _derivative(self, y: Floats, a: Floats) -> Any:
        margin = y * a
        active = (margin < 1.0) | ((margin == 1.0) & (y > 0))
        return np.where(active, -y, 0.0)

    def _conjugate(self, y: Floats, u: Floats) -> Any:
        s = y * u
        return np.where((s >= -1.0) & (s <= 0.0), s, np.inf)
