"""The l-inf norm."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import Penalty, Strength
from spom.penalties.polyhedra import Polyhedron, covered
from spom.penalties.threshold import solve, total_and_peak


@kernel("float64(float64[::1], float64)")
def _small_level(w: Floats, t: float) -> float:
    """Return the level for a short vector, by plain passes, which are cheaper than any set-up."""
    n = w.size
    total = 0.0
    for i in range(n):
        total += abs(w[i])
    if total <= t:
        return 0.0
    level = (total - t) / n
    count = n
    while True:
        s = 0.0
        near = 0
        for i in range(n):
            over = max(abs(w[i]) - level, 0.0)
            s += over
            near += int(over > 0.0)
        if near == 0:
            return level
        level += (s - t) / near
        if near >= count:
            return max(level, 0.0)
        count = near


@kernel("void(float64[::1], float64, float64[::1])")
def clip_to_level(w: Floats, t: float, out: Floats) -> None:
    """Apply the prox of t norm-inf: clip at the level that reduces the sum of magnitudes by t."""
    if w.size <= 32:
        level = _small_level(w, t)
    else:
        total, peak = total_and_peak(w, True)
        level = peak - solve(w, True, total, peak, t, 1.0, 0.0) if total > t else 0.0
    for i in range(w.size):
        out[i] = min(max(w[i], -level), level)


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    clip_to_level(w, step * reals[0], out)


@register(
    "penalty",
    "linf",
    formula=r"s \max_i |w_i|",
    cost="expected O(n)",
    examples=lambda: [LInf(0.5), LInf(0.0), LInf(3.0)],
)
class LInf(Strength):
    """Omega(w) = s norm-inf(w); the prox clips the entries at a level found by selection.

    The level and the result are 0 if norm1(w) <= step s (Duchi and Singer 2009, section 4).

    >>> LInf(1.0).prox([3.0, -1.0, 2.5])
    array([ 2.25, -1.  ,  2.25])
    """

    follows_l1 = True
    homogeneous = True
    semigroup = True
    _kernel = _prox

    def _value(self, w: Floats) -> float:
        return self.strength * float(np.abs(w).max(initial=0.0))

    def polyhedron(self, p: int) -> Polyhedron:
        """Return one bound for all entries."""
        return covered(np.ones((p, 1)), np.array([self.strength], dtype=np.float64))

    def conjugate(self) -> Penalty:
        """Return the indicator of the l1 ball of radius s."""
        from spom.penalties.l1_ball import L1Ball

        return L1Ball(self.strength)

    def _max_strength(self, g: Floats) -> float:
        return float(np.abs(g).sum())
