"""The squared group norm of sparse multiple kernel learning."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST
from spom.penalties.group_lasso import largest_ratio
from spom.penalties.grouped import Grouped, group_norms, scale_groups
from spom.penalties.squared_l1 import shrink_plain, shrink_weighted


@kernel("void(float64[::1], float64[::1], float64[::1])")
def ratios(after: Floats, before: Floats, out: Floats) -> None:
    """after / before, and 0 for 0 / 0: a zero block stays zero."""
    for m in range(after.size):
        out[m] = after[m] / before[m] if before[m] > 0.0 else 0.0


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    t = min(step * reals[0], LARGEST)
    norms = np.empty(ints[0])
    shrunk = np.empty(ints[0])
    group_norms(w, ints, norms)
    if reals.size == 1:
        shrink_plain(norms, t, shrunk)
    else:
        shrink_weighted(norms, reals[1:], t, shrunk)
    ratios(shrunk, norms, shrunk)
    scale_groups(w, ints, shrunk, out)


@register(
    "penalty",
    "sparse-mkl",
    formula=r"\tfrac{s}{2} \Big(\sum_m d_m \|w_m\|_2\Big)^2",
    cost="O(n) + expected O(groups)",
    examples=lambda: [
        SparseMKL(0.5, 2),
        SparseMKL(1.5, [[0, 2], [1, 3, 4]]),
        SparseMKL(1.0, [0, 1, 1, 0, -1, 2], weights=[1.0, 2.0, 0.0]),
    ],
)
class SparseMKL(Grouped):
    """Omega(w) = s/2 (sum over groups of d_m norm2(w_m))^2: the penalty of SPOM (Martins et al. 2011).

    The prox applies the squared-l1 prox to the vector of group norms and scales each group to its new norm:
    groups with small norms become zero, but never the largest.

    >>> SparseMKL(1.0, groups=2).prox([3.0, 4.0, 1.0, 1.0])
    array([1.5, 2. , 0. , 0. ])
    """

    follows_l1 = True
    _kernel = _prox

    def _value(self, w: Floats) -> float:
        norm = float(self._structure(w.shape)[1] @ self.group_norms(w))
        return 0.5 * self.strength * norm * norm

    def _conjugate_value(self, y: Floats) -> float:
        if self._uncovered(y).any():
            return np.inf
        peak = largest_ratio(self.group_norms(y), self._structure(y.shape)[1])
        if peak == 0.0:
            return 0.0
        return 0.5 * peak * peak / self.strength if self.strength > 0 else np.inf
