"""The squared l2 norm: ridge, weight decay."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_floats, check_finite, check_positive
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import Penalty, Strength
from spom.penalties.forms import Elastic


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    factor = 1.0 / (1.0 + step * reals[0])
    for i in range(w.size):
        out[i] = factor * w[i]


@kernel("boolean(float64[::1], float64, float64[::1])", fastmath={"reassoc"})
def _scale_and_check(w: Floats, factor: float, out: Floats) -> bool:
    """out = factor * w; return whether all of w is finite, found in the same pass."""
    s = 0.0
    for i in range(w.size):
        s += w[i] * 0.0
        out[i] = factor * w[i]
    return s == 0.0


@register(
    "penalty",
    "squared-l2",
    formula=r"\tfrac{s}{2} \|w\|_2^2",
    cost="O(n)",
    examples=lambda: [SquaredL2(0.5), SquaredL2(0.0), SquaredL2(4.0)],
)
class SquaredL2(Strength):
    """Omega(w) = s/2 norm2(w)^2; the prox is w / (1 + step s).

    >>> SquaredL2(1.0).prox([2.0, -4.0])
    array([ 1., -2.])
    """

    separable = True
    _kernel = _prox

    def prox(self, w: ArrayLike, step: float = 1.0, out: Floats | None = None) -> Floats:
        """w / (1 + step s); a new array needs no check before it is written, so a single pass does both."""
        if out is not None:
            return super().prox(w, step, out)
        a = as_floats(w)
        factor = 1.0 / (1.0 + check_positive(step, "step") * self.strength)
        result = np.empty_like(a)
        flat, target = (a, result) if a.ndim == 1 else (a.reshape(-1), result.reshape(-1))
        if not _scale_and_check(flat, factor, target):
            check_finite(a)
        return result

    def _value(self, w: Floats) -> float:
        return 0.5 * self.strength * float(np.vdot(w, w))

    def elastic(self) -> Elastic:
        """Return the form with l2 alone."""
        return Elastic(0.0, float(self.strength))

    def conjugate(self) -> Penalty:
        """Return 1/(2 s) norm2^2, or the indicator of the origin for s = 0."""
        from spom.penalties.box import Box

        return SquaredL2(1.0 / self.strength) if self.strength > 0 else Box(0.0, 0.0)
