"""The hinge loss to a power between one and two."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import DERIVATIVE, kernel
from spom.core.registry import register
from spom.losses.base import BinaryLoss, PowerLoss


@kernel(DERIVATIVE)
def power_hinge_value(y: float, a: float, reals: Floats) -> float:
    """max(0, 1 - y a)^q with q = reals[0]."""
    z = 1.0 - y * a
    return float(z ** reals[0]) if z > 0.0 else 0.0


@kernel(DERIVATIVE)
def power_hinge_derivative(y: float, a: float, reals: Floats) -> float:
    """-q y max(0, 1 - y a)^(q-1); for q = 1 the left derivative of the hinge."""
    q, z = reals[0], 1.0 - y * a
    if z > 0.0:
        return float(-q * y * z ** (q - 1.0))
    return -y if q == 1.0 and z == 0.0 and y > 0.0 else 0.0


@register(
    "loss",
    "power-hinge",
    examples=lambda: [PowerHinge(), PowerHinge(1.0), PowerHinge(1.5), PowerHinge(1.1)],
    formula=r"\max(0,\, 1 - y a)^q",
    cost="O(1)",
)
class PowerHinge(PowerLoss, BinaryLoss):
    r"""max(0, 1 - y a)^q, with y = -1 or +1 and 1 <= q <= 2.

    Hoelder (q - 1, q); Lipschitz only for q = 1, where it is the hinge loss. q = 2 is the squared hinge.

    >>> PowerHinge(q=2.0).value([1, -1], [0.5, 1.0])
    array([0.25, 4.  ])
    >>> PowerHinge(q=1.5).derivative([1], [-3.0])
    array([-3.])
    """

    _value_kernel = power_hinge_value
    _derivative_kernel = power_hinge_derivative

    def __init__(self, q: float = 2.0) -> None:
        self.q = q
        self._check()

    @property
    def hoelder(self) -> tuple[float, float]:
        """(q - 1, q)."""
        return float(self.q) - 1.0, float(self.q)

    def _value(self, y: Floats, a: Floats) -> Any:
        return np.maximum(0.0, 1.0 - y * a) ** self.q

    def _derivative(self, y: Floats, a: Floats) -> Any:
        z = 1.0 - y * a
        active = (z > 0) | ((z == 0) & (y > 0) & (self.q == 1))
        return np.where(active, -self.q * y * np.maximum(z, 0.0) ** (self.q - 1.0), 0.0)

    def _conjugate(self, y: Floats, u: Floats) -> Any:
        s = -y * u
        if self.q == 1:
            return np.where((s >= 0) & (s <= 1), -s, np.inf)
        power = (np.maximum(s, 0.0) / self.q) ** (self.q / (self.q - 1.0))
        return np.where(s >= 0, (self.q - 1.0) * power - s, np.inf)
