"""The simplex."""

from __future__ import annotations

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import SLACK, Sized
from spom.penalties.polyhedra import Polyhedron, between
from spom.penalties.threshold import solve, total_and_peak


@kernel(PROX)
def _project(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    total, peak = total_and_peak(w, False)
    sigma = solve(w, False, total, peak, reals[0], 1.0, 0.0)
    for i in range(w.size):
        x = sigma - (peak - w[i])
        out[i] = x if x > 0.0 else 0.0


@register(
    "penalty",
    "simplex",
    formula=r"\iota\{w \ge 0,\ \sum_i w_i = r\}",
    cost="expected O(n)",
    examples=lambda: [Simplex(1.0), Simplex(5.0)],
)
class Simplex(Sized):
    """Omega(w) = 0 where w >= 0 and sum w = radius, else +inf; the prox is the projection, by selection.

    >>> Simplex().prox([0.75, 0.75, -1.0])
    array([0.5, 0.5, 0. ])
    """

    _kernel = _project

    def _check(self) -> None:
        check_positive(self.radius, "radius", zero=False)

    def _value(self, w: Floats) -> float:
        inside = w.min(initial=0.0) >= 0.0 and abs(float(w.sum()) - self.radius) <= SLACK * self.radius
        return 0.0 if inside else np.inf

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        if 0 in shape:
            raise ValueError("the simplex in no dimensions is empty: there is no point to project to")
        return super()._packed(shape)

    def polyhedron(self, p: int) -> Polyhedron:
        """Return the set x >= 0 with a given sum."""
        A = scipy.sparse.vstack([scipy.sparse.identity(p), np.ones((1, p))])
        return between(A, np.append(np.zeros(p), self.radius), np.append(np.full(p, np.inf), self.radius))

    def _conjugate_value(self, y: Floats) -> float:
        return self.radius * float(y.max())
