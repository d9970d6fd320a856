"""Half the squared error."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import DERIVATIVE, kernel
from spom.core.registry import register
from spom.losses.base import BinaryLoss


@kernel(DERIVATIVE)
def squared_value(y: float, a: float, reals: Floats) -> float:
    """1/2 (y - a)^2; one factor is halved before the product, which then overflows later."""
    r = a - y
    return (0.5 * r) * r


@kernel(DERIVATIVE)
def squared_derivative(y: float, a: float, reals: Floats) -> float:
    """a - y."""
    return a - y


@register(
    "loss",
    "squared",
    examples=lambda: [Squared()],
    formula=r"\tfrac12 (y - a)^2",
    cost="O(1)",
)
class Squared(BinaryLoss):
    r"""1/2 (y - a)^2, with y a real number.

    Hoelder (1, 1), 1-strongly convex, not Lipschitz. Its conjugate is 1/2 u^2 + u y.

    >>> Squared().value([1.0, 2.0], [0.0, 4.0])
    array([0.5, 2. ])
    >>> Squared().derivative([1.0, 2.0], [0.0, 4.0])
    array([-1.,  2.])
    """

    target = "real"
    strong_convexity = 1.0
    hoelder = (1.0, 1.0)
    lipschitz = np.inf
    _value_kernel = squared_value
    _derivative_kernel = squared_derivative

    def _value(self, y: Floats, a: Floats) -> Any:
        r = a - y
        return (0.5 * r) * r

    def _derivative(self, y: Floats, a: Floats) -> Any:
        return a - y

    def _conjugate(self, y: Floats, u: Floats) -> Any:
        return (0.5 * u + y) * u
