"""The l1 ball."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import Ball
from spom.penalties.base import Penalty
from spom.penalties.polyhedra import Polyhedron, combinations
from spom.penalties.threshold import shrink, solve, total_and_peak


@kernel(PROX)
def project_l1(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """Project onto the l1 ball of radius reals[0]: a soft threshold found by selection."""
    total, peak = total_and_peak(w, True)
    if total <= reals[0]:
        out[:] = w
        return
    shrink(w, peak, solve(w, True, total, peak, reals[0], 1.0, 0.0), out)


@register(
    "penalty",
    "l1-ball",
    formula=r"\iota\{\|w\|_1 \le r\}",
    cost="expected O(n)",
    examples=lambda: [L1Ball(1.0), L1Ball(0.0), L1Ball(5.0)],
)
class L1Ball(Ball):
    """Omega(w) = 0 where norm1(w) <= radius, else +inf; the prox is the projection, by selection.

    >>> L1Ball(2.0).prox([3.0, -1.0, 0.5])
    array([2., 0., 0.])
    """

    follows_l1 = True
    _kernel = project_l1

    def _norm(self, w: Floats) -> float:
        return float(np.abs(w).sum())

    def polyhedron(self, p: int) -> Polyhedron:
        """Return x = w+ - w-, where the sum of both is at most the radius."""
        return combinations(p, budget=self.radius)

    def conjugate(self) -> Penalty:
        """Return radius times the l-inf norm."""
        from spom.penalties.linf import LInf

        return LInf(self.radius)
