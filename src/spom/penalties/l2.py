"""The l2 norm, not squared."""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST, Penalty, Strength
from spom.penalties.threshold import norm2


@kernel("float64(float64, float64)")
def _remaining(norm: float, t: float) -> float:
    """max(0, 1 - t / norm), in the form that is exact near the threshold."""
    return (norm - t) / norm if norm > t else 0.0


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    scale = _remaining(norm2(w), step * reals[0])
    for i in range(w.size):
        out[i] = scale * w[i]


@register("penalty", "l2", formula=r"s \|w\|_2", cost="O(n)", examples=lambda: [L2(0.5), L2(0.0), L2(3.0)])
class L2(Strength):
    """Omega(w) = s norm2(w); the prox is max(0, 1 - step s / norm2(w)) w.

    It sets either the whole vector to zero or nothing (Duchi and Singer 2009, section 4).

    >>> L2(2.5).prox([3.0, 4.0])
    array([1.5, 2. ])
    """

    radial = True
    homogeneous = True
    semigroup = True
    _kernel = _prox

    def _check_input(self, w: Floats) -> None:
        """Do nothing: the norm shows non-finite input, and `_prox` computes it before it writes. This saves a pass."""

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        flat = w.reshape(-1)
        square = float(np.dot(flat, flat))
        norm = math.sqrt(square) if 1e-280 < square < 1e300 else float(norm2(flat))
        if not math.isfinite(norm):
            super()._check_input(w)
        np.multiply(w, _remaining(norm, min(step * self.strength, LARGEST)), out=out)

    def _value(self, w: Floats) -> float:
        return self.strength * float(norm2(w.reshape(-1)))

    def on_norms(self, count: int) -> Penalty:
        """Return the same penalty: norm2(w) is the l2 norm of the block norms."""
        return L2(self.strength)

    def conjugate(self) -> Penalty:
        """Return the indicator of the l2 ball of radius s."""
        from spom.penalties.l2_ball import L2Ball

        return L2Ball(self.strength)

    def _max_strength(self, g: Floats) -> float:
        return float(norm2(g.reshape(-1)))
