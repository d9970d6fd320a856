"""The sparse group lasso."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import SLACK
from spom.penalties.base import Penalty, zero_threshold
from spom.penalties.elastic_net import Mixed
from spom.penalties.forms import Elastic, NormSum, Split
from spom.penalties.group_lasso import GroupLasso
from spom.penalties.grouped import Grouped, group_norms, scale_groups, shrink_factors
from spom.penalties.l1 import soft_threshold


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    # l1 first, then the groups: the other order is not the prox of the sum.
    soft_threshold(w, step, reals, ints, out)
    norms = np.empty(ints[0])
    group_norms(out, ints, norms)
    shrink_factors(norms, step * reals[1], reals[2:], norms)
    scale_groups(out, ints, norms, out)


@register(
    "penalty",
    "sparse-group-lasso",
    formula=r"s \Big(r \|w\|_1 + (1-r) \sum_m d_m \|w_m\|_2\Big)",
    cost="O(n)",
    examples=lambda: [
        SparseGroupLasso(0.5, 2),
        SparseGroupLasso(1.5, [[0, 2], [1, 3, 4]], l1_ratio=0.2),
        SparseGroupLasso(1.0, [0, 1, 1, 0, -1, 2], l1_ratio=0.9, weights=[1.0, 2.0, 0.0]),
        SparseGroupLasso(1.0, 3, l1_ratio=0.0),
    ],
)
class SparseGroupLasso(Mixed, Grouped):
    """Omega(w) = s (r norm1(w) + (1-r) sum over groups of d_m norm2(w_m)).

    It sets groups to zero, and coordinates within the other groups. The prox is a soft threshold, followed by
    that of the group lasso. A coordinate in no group is penalised by the l1 part alone.

    >>> SparseGroupLasso(2.0, groups=2).prox([4.0, 5.0, 1.5, 0.5])
    array([2.4, 3.2, 0. , 0. ])
    """

    follows_l1 = True
    homogeneous = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, groups: Any = None, l1_ratio: float = 0.5, weights: Any = None) -> None:
        self.l1_ratio = l1_ratio
        super().__init__(strength, groups, weights)

    def elastic(self) -> Elastic | None:
        """Return l1 for r = 1, else None."""
        return Elastic(float(self.strength), 0.0) if self.l1_ratio == 1.0 else None

    def _of_vector(self, groups: Any) -> Penalty:
        return GroupLasso(self.strength * (1.0 - self.l1_ratio), groups, self.weights)

    def on_norms(self, count: int) -> Penalty | None:
        """Return the form of the group lasso, for r = 0."""
        return super().on_norms(count) if self.l1_ratio == 0.0 else None

    def on_rows(self, count: int) -> Penalty | None:
        """Return the form of the group lasso, for r = 0."""
        return super().on_rows(count) if self.l1_ratio == 0.0 else None

    def split(self, count: int) -> Split | None:
        """Return l1 on coordinates, then the group lasso."""
        norms = super().on_norms(count)
        return None if norms is None else Split(Elastic(self.strength * self.l1_ratio, 0.0), norms)

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the form of the group lasso, for r = 0."""
        return self._sum_of_norms(count) if self.l1_ratio == 0.0 else super().norm_sum(count)

    def _value(self, w: Floats) -> float:
        a, b = self._numbers()
        return float(a * np.abs(w).sum() + b * (self._structure(w.shape)[1] @ self.group_norms(w)))

    def _conjugate_value(self, y: Floats) -> float:
        a, b = self._numbers()
        slack = SLACK * (a + b)
        excess = np.sign(y) * np.maximum(np.abs(y) - a, 0.0)
        free = np.abs(self._uncovered(excess)).max(initial=0.0) > slack
        outside = np.any(self.group_norms(excess) > b * self._structure(y.shape)[1] + slack)
        return np.inf if free or outside else 0.0

    def _max_strength(self, g: Floats) -> float:
        return zero_threshold(SparseGroupLasso(1.0, self.groups, self.l1_ratio, self.weights), g)
