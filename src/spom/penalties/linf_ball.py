"""The l-inf ball."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import Ball
from spom.penalties.base import Penalty
from spom.penalties.polyhedra import Polyhedron, between


@kernel(PROX)
def _project(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    r = reals[0]
    for i in range(w.size):
        out[i] = min(max(w[i], -r), r)


@register(
    "penalty",
    "linf-ball",
    formula=r"\iota\{\max_i |w_i| \le r\}",
    cost="O(n)",
    examples=lambda: [LInfBall(1.0), LInfBall(0.0), LInfBall(5.0)],
)
class LInfBall(Ball):
    """Omega(w) = 0 where norm-inf(w) <= radius, else +inf; the prox clips each entry.

    >>> LInfBall(1.0).prox([3.0, -0.5])
    array([ 1. , -0.5])
    """

    separable = True
    _kernel = _project

    def _norm(self, w: Floats) -> float:
        return float(np.abs(w).max(initial=0.0))

    def polyhedron(self, p: int) -> Polyhedron:
        """Return the box itself."""
        return between(None, np.full(p, -self.radius), self.radius)

    def conjugate(self) -> Penalty:
        """Return radius times the l1 norm."""
        from spom.penalties.l1 import L1

        return L1(self.radius)
