"""The group lasso: l1/l2."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, all_finite
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import SLACK
from spom.penalties.forms import NormSum
from spom.penalties.grouped import Grouped, group_norms, scale_groups, shrink_factors


@kernel("void(float64[::1], float64, float64[::1], int64[::1], float64[::1], float64[::1])")
def _shrink_from_norms(w: Floats, t: float, weights: Floats, ints: Ints, norms: Floats, out: Floats) -> None:
    shrink_factors(norms, t, weights, norms)
    scale_groups(w, ints, norms, out)


@kernel(PROX)
def shrink_groups(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """max(0, 1 - step s d_m / norm2(w_m)) w_m; reals: s, then the weights unless all are one."""
    norms = np.empty(ints[0])
    group_norms(w, ints, norms)
    _shrink_from_norms(w, step * reals[0], reals[1:], ints, norms, out)


@register(
    "penalty",
    "group-lasso",
    formula=r"s \sum_m d_m \|w_m\|_2",
    cost="O(n)",
    examples=lambda: [
        GroupLasso(0.5, 2),
        GroupLasso(1.5, [[0, 2], [1, 3, 4]]),
        GroupLasso(1.0, [0, 1, 1, 0, -1, 2], weights=[1.0, 2.0, 0.0]),
        GroupLasso(0.7, "rows"),
    ],
)
class GroupLasso(Grouped):
    """Omega(w) = s sum over groups of d_m norm2(w_m); the prox is max(0, 1 - step s d_m / norm2(w_m)) w_m.

    It sets whole groups to zero. With `groups="rows"` the groups are the rows of a matrix: the l1/l2 norm.
    A coordinate in no group is not penalised.

    >>> GroupLasso(2.5, groups=2).prox([3.0, 4.0, 1.0, 1.0])
    array([1.5, 2. , 0. , 0. ])
    """

    follows_l1 = True
    homogeneous = True
    semigroup = True
    _kernel = shrink_groups

    def _check_input(self, w: Floats) -> None:
        # The norms show non-finite input, and `_prox` computes them before it writes: this saves a pass.
        if not self._structure(w.shape)[0].block:
            super()._check_input(w)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        groups, weights, ints = self._structure(w.shape)
        flat, result = (w, out) if w.ndim == 1 else (w.reshape(-1), out.reshape(-1))
        norms = np.empty(groups.count)
        group_norms(flat, ints, norms)
        if not all_finite(norms):
            super()._check_input(w)
        _shrink_from_norms(flat, step * self.strength, weights, ints, norms, result)

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the penalty itself as a sum of norms."""
        return self._sum_of_norms(count)

    def _value(self, w: Floats) -> float:
        weights = self._structure(w.shape)[1]
        return self.strength * float(weights @ self.group_norms(w))

    def _conjugate_value(self, y: Floats) -> float:
        weights = self._structure(y.shape)[1]
        free = self._uncovered(y).any()
        outside = np.any(self.group_norms(y) > self.strength * weights * (1 + SLACK))
        return np.inf if free or outside else 0.0

    def _max_strength(self, g: Floats) -> float:
        if self._uncovered(g).any():
            return np.inf
        return largest_ratio(self.group_norms(g), self._structure(g.shape)[1])


def largest_ratio(norms: Floats, weights: Floats) -> float:
    """max of norms / weights, where 0 / 0 = 0."""
    some = norms > 0
    if np.any(weights[some] == 0):
        return np.inf
    return float(np.max(norms[some] / weights[some], initial=0.0))
