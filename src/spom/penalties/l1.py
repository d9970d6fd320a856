"""The l1 norm."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import Penalty, Strength
from spom.penalties.forms import Elastic
from spom.penalties.polyhedra import Polyhedron, combinations


@kernel(PROX)
def soft_threshold(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """sign(w) max(abs(w) - step * strength, 0): the entry minus its clipped value, which makes zeros exact."""
    t = step * reals[0]
    for i in range(w.size):
        x = w[i]
        out[i] = x - min(max(x, -t), t)


@register(
    "penalty",
    "l1",
    formula=r"s \sum_i |w_i|",
    cost="O(n)",
    examples=lambda: [L1(0.5), L1(0.0), L1(2.0)],
)
class L1(Strength):
    """Omega(w) = s norm1(w); the prox is the soft threshold sign(w) max(abs(w) - step s, 0).

    It sets single coordinates to exactly zero (Duchi and Singer 2009, Eq. 6).

    >>> L1(1.0).prox([3.0, -0.5, -2.0])
    array([ 2.,  0., -1.])
    """

    separable = True
    homogeneous = True
    semigroup = True
    _kernel = soft_threshold

    def _value(self, w: Floats) -> float:
        return self.strength * float(np.abs(w).sum())

    def elastic(self) -> Elastic:
        """Return the form with l1 alone."""
        return Elastic(float(self.strength), 0.0)

    def polyhedron(self, p: int) -> Polyhedron:
        """Return x = w+ - w-, at the cost s per unit."""
        return combinations(p, price=self.strength)

    def conjugate(self) -> Penalty:
        """Return the indicator of the l-inf ball of radius s."""
        from spom.penalties.linf_ball import LInfBall

        return LInfBall(self.strength)

    def _max_strength(self, g: Floats) -> float:
        return float(np.abs(g).max(initial=0.0))
