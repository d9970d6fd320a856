"""The absolute error to a power between one and two."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import DERIVATIVE, kernel
from spom.core.registry import register
from spom.losses.base import BinaryLoss, PowerLoss


@kernel(DERIVATIVE)
def power_absolute_value(y: float, a: float, reals: Floats) -> float:
    """abs(y - a)^q with q = reals[0]."""
    return float(abs(a - y) ** reals[0])


@kernel(DERIVATIVE)
def power_absolute_derivative(y: float, a: float, reals: Floats) -> float:
    """q abs(a - y)^(q-1) sign(a - y); for q = 1 it is -1 at a = y, the left derivative."""
    q, r = reals[0], a - y
    if r == 0.0:
        return -1.0 if q == 1.0 else 0.0
    size = abs(r)
    # a - y may overflow although its power does not.
    power = size ** (q - 1.0) if size < np.inf else 2.0 ** (q - 1.0) * abs(0.5 * a - 0.5 * y) ** (q - 1.0)
    return float(q * power if r > 0.0 else -q * power)


@register(
    "loss",
    "power-absolute",
    examples=lambda: [PowerAbsolute(), PowerAbsolute(1.0), PowerAbsolute(2.0), PowerAbsolute(1.1)],
    formula=r"|y - a|^q",
    cost="O(1)",
)
class PowerAbsolute(PowerLoss, BinaryLoss):
    r"""abs(y - a)^q, with y a real number and 1 <= q <= 2.

    Hoelder (q - 1, q 2^(2-q)); Lipschitz only for q = 1, the absolute error; 2-strongly convex for q = 2.

    >>> PowerAbsolute(q=1.5).value([1.0], [5.0])
    array([8.])
    >>> PowerAbsolute(q=1.0).derivative([1.0, 1.0], [5.0, 1.0])
    array([ 1., -1.])
    """

    target = "real"
    _value_kernel = power_absolute_value
    _derivative_kernel = power_absolute_derivative

    def __init__(self, q: float = 1.5) -> None:
        self.q = q
        self._check()

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]  # a constant of the class elsewhere
        """2 for q = 2, else 0."""
        return 2.0 if self.q == 2 else 0.0

    @property
    def hoelder(self) -> tuple[float, float]:
        """(q - 1, q 2^(2-q))."""
        return float(self.q) - 1.0, float(self.q * 2.0 ** (2.0 - self.q))

    def _value(self, y: Floats, a: Floats) -> Any:
        return np.abs(a - y) ** self.q

    def _derivative(self, y: Floats, a: Floats) -> Any:
        r, e = a - y, self.q - 1.0
        power = np.where(np.isinf(r), 2.0**e * np.abs(0.5 * a - 0.5 * y) ** e, np.abs(r) ** e)
        return self.q * np.where(r > 0, power, -power)

    def _conjugate(self, y: Floats, u: Floats) -> Any:
        if self.q == 1:
            return np.where(np.abs(u) <= 1.0, u * y, np.inf)
        return u * y + (self.q - 1.0) * (np.abs(u) / self.q) ** (self.q / (self.q - 1.0))
