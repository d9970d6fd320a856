"""Groups in the l-inf norm: l1/l-inf."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import SLACK
from spom.penalties.forms import NormSum
from spom.penalties.group_lasso import largest_ratio
from spom.penalties.grouped import Grouped
from spom.penalties.linf import clip_to_level
from spom.penalties.polyhedra import Polyhedron


@kernel(PROX)
def clip_groups(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """Apply the l-inf prox to each group; reals: s, then the weights unless all are one."""
    count, block = ints[0], ints[1]
    t = step * reals[0]
    if block > 0:
        for m in range(count):
            cut = t * reals[1 + m] if reals.size > 1 else t
            part = slice(m * block, (m + 1) * block)
            clip_to_level(w[part], cut, out[part])
        return
    indices = ints[3 + count :]
    for i in range(w.size):
        out[i] = w[i]
    for m in range(count):
        cut = t * reals[1 + m] if reals.size > 1 else t
        members = indices[ints[2 + m] : ints[3 + m]]
        part_of = out[members]
        clip_to_level(part_of, cut, part_of)
        for e in range(members.size):
            out[members[e]] = part_of[e]


@register(
    "penalty",
    "group-linf",
    formula=r"s \sum_m d_m \max_{i \in m} |w_i|",
    cost="expected O(n)",
    examples=lambda: [
        GroupLInf(0.5, 2),
        GroupLInf(1.5, [[0, 2], [1, 3, 4]]),
        GroupLInf(1.0, [0, 1, 1, 0, -1, 2], weights=[1.0, 2.0, 0.0]),
    ],
)
class GroupLInf(Grouped):
    """Omega(w) = s sum over groups of d_m norm-inf(w_m); the prox clips each group at a level of its own.

    With `groups="rows"`: the l1/l-inf norm of a matrix. A coordinate in no group is not penalised.

    >>> GroupLInf(1.0, groups=2).prox([3.0, -1.0, 0.5, 0.25])
    array([ 2., -1.,  0.,  0.])
    """

    follows_l1 = True
    homogeneous = True
    semigroup = True
    _kernel = clip_groups

    @property
    def _order(self) -> float:
        return np.inf

    def _over_groups(self, w: Floats, reduce: Any) -> Floats:
        groups = self._structure(w.shape)[0]
        u = np.abs(w.reshape(-1))
        if groups.block:
            return np.asarray(reduce(u.reshape(groups.count, -1), axis=1, initial=0.0))
        return np.array([reduce(u[groups.members(m)], initial=0.0) for m in range(groups.count)])

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the penalty itself as a sum of norms."""
        return self._sum_of_norms(count)

    def polyhedron(self, p: int) -> Polyhedron:
        """Return one bound per group."""
        return self._sum_of_maxima(p)

    def _value(self, w: Floats) -> float:
        return self.strength * float(self._structure(w.shape)[1] @ self._over_groups(w, np.max))

    def _conjugate_value(self, y: Floats) -> float:
        weights = self._structure(y.shape)[1]
        outside = np.any(self._over_groups(y, np.sum) > self.strength * weights * (1 + SLACK))
        return np.inf if outside or self._uncovered(y).any() else 0.0

    def _max_strength(self, g: Floats) -> float:
        if self._uncovered(g).any():
            return np.inf
        return largest_ratio(self._over_groups(g, np.sum), self._structure(g.shape)[1])
