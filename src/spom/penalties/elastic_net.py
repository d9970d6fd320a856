"""The elastic net."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import Strength
from spom.penalties.forms import Elastic
from spom.penalties.l1 import soft_threshold


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    soft_threshold(w, step, reals, ints, out)
    divisor = 1.0 + step * reals[1]
    for i in range(w.size):
        out[i] /= divisor


class Mixed(Strength):
    """A penalty of two terms with the strengths s r and s (1-r), where r = `l1_ratio` is from 0 to 1."""

    l1_ratio: float

    def _check(self) -> None:
        super()._check()
        if check_positive(self.l1_ratio, "l1_ratio") > 1.0:
            raise ValueError(f"l1_ratio must be from 0 to 1; it is {self.l1_ratio!r}")

    def _numbers(self) -> tuple[float, float]:
        return self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)


@register(
    "penalty",
    "elastic-net",
    formula=r"s \Big(r \|w\|_1 + \tfrac{1-r}{2} \|w\|_2^2\Big)",
    cost="O(n)",
    examples=lambda: [ElasticNet(0.5), ElasticNet(1.0, 0.9), ElasticNet(2.0, 0.0), ElasticNet(1.0, 1.0)],
)
class ElasticNet(Mixed):
    """Omega(w) = s (r norm1(w) + (1-r)/2 norm2(w)^2); the prox is a soft threshold, then a scaling.

    >>> ElasticNet(1.0, l1_ratio=0.5).prox([3.5, -0.25])
    array([2., 0.])
    """

    separable = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, l1_ratio: float = 0.5) -> None:
        self.l1_ratio = l1_ratio
        super().__init__(strength)

    def elastic(self) -> Elastic:
        """Return (s r, s (1-r))."""
        return Elastic(*self._numbers())

    def _value(self, w: Floats) -> float:
        a, b = self.elastic()
        return a * float(np.abs(w).sum()) + 0.5 * b * float(np.vdot(w, w))

    def _conjugate_value(self, y: Floats) -> float:
        a, b = self.elastic()
        excess = np.maximum(np.abs(y) - a, 0.0)
        if b == 0.0:
            return np.inf if excess.max(initial=0.0) > 1e-10 * a else 0.0
        return float(np.vdot(excess, excess)) / (2.0 * b)

    def _max_strength(self, g: Floats) -> float:
        peak = float(np.abs(g).max(initial=0.0))
        return peak / self.l1_ratio if self.l1_ratio > 0 else super()._max_strength(g)
