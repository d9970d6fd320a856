"""The l2 ball."""

from __future__ import annotations

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import Ball
from spom.penalties.base import Penalty
from spom.penalties.threshold import norm2


@kernel(PROX)
def _project(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    norm = norm2(w)
    if norm <= reals[0]:
        out[:] = w
        return
    for i in range(w.size):
        out[i] = (w[i] / norm) * reals[0]


@register(
    "penalty",
    "l2-ball",
    formula=r"\iota\{\|w\|_2 \le r\}",
    cost="O(n)",
    examples=lambda: [L2Ball(1.0), L2Ball(0.0), L2Ball(5.0)],
)
class L2Ball(Ball):
    """Omega(w) = 0 where norm2(w) <= radius, else +inf; the prox is the projection w min(1, radius / norm2(w)).

    >>> L2Ball(2.5).prox([3.0, 4.0])
    array([1.5, 2. ])
    """

    radial = True
    _kernel = _project

    def _norm(self, w: Floats) -> float:
        return float(norm2(w.reshape(-1)))

    def on_norms(self, count: int) -> Penalty:
        """Return the same set: norm2(w) is the l2 norm of the block norms."""
        return L2Ball(self.radius)

    def conjugate(self) -> Penalty:
        """Return radius times the l2 norm."""
        from spom.penalties.l2 import L2

        return L2(self.radius)
