"""The logistic loss of two classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats
from spom.core.jit import DERIVATIVE, kernel
from spom.core.registry import register
from spom.losses.base import BinaryLoss, _reals_of


@kernel(DERIVATIVE)
def logistic_value(y: float, a: float, reals: Floats) -> float:
    """log(1 + exp(-y a)), with the exponential of a number <= 0 only."""
    m = y * a
    return math.log1p(math.exp(-m)) if m > 0.0 else math.log1p(math.exp(m)) - m


@kernel(DERIVATIVE)
def logistic_derivative(y: float, a: float, reals: Floats) -> float:
    """-y / (1 + exp(y a))."""
    m = y * a
    if m > 0.0:
        e = math.exp(-m)
        return -y * e / (1.0 + e)
    return -y / (1.0 + math.exp(m))


@register(
    "loss",
    "logistic",
    examples=lambda: [Logistic()],
    formula=r"\log(1 + e^{-y a})",
    cost="O(1)",
)
class Logistic(BinaryLoss):
    r"""log(1 + exp(-y a)), with y = -1 or +1.

    Hoelder (1, 1/4), Lipschitz 1. Its conjugate is p log p + (1 - p) log(1 - p) at p = -y u in [0, 1].

    >>> Logistic().value([1, -1], [0.0, -1e300]).round(6)
    array([0.693147, 0.      ])
    >>> Logistic().derivative([1, -1], [0.0, 0.0])
    array([-0.5,  0.5])
    """

    probabilistic = True
    hoelder = (1.0, 0.25)
    lipschitz = 1.0
    _value_kernel = logistic_value
    _derivative_kernel = logistic_derivative

    def probability(self, a: ArrayLike) -> Floats:
        """P(y = +1) = 1 / (1 + exp(-a)), of each score."""
        scores = _reals_of(a, "a")
        return np.asarray(-self._derivative(np.ones(()), -scores), dtype=np.float64)

    def _value(self, y: Floats, a: Floats) -> Any:
        return np.logaddexp(0.0, -y * a)

    def _derivative(self, y: Floats, a: Floats) -> Any:
        margin = y * a
        small = np.exp(-np.abs(margin))
        return -y * np.where(margin > 0, small, 1.0) / (1.0 + small)

    def _conjugate(self, y: Floats, u: Floats) -> Any:
        p = -y * u
        inside = (p >= 0) & (p <= 1)
        p = np.where(inside, p, 0.0)
        return np.where(inside, _entropy(p) + _entropy(1.0 - p), np.inf)


def _entropy(p: Floats) -> Floats:
    return np.asarray(p * np.log(np.where(p > 0, p, 1.0)), dtype=np.float64)
