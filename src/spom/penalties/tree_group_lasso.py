"""Groups that form a tree."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import with_strength, zero_threshold
from spom.penalties.forms import NormSum
from spom.penalties.grouped import Grouped
from spom.penalties.groups import Groups
from spom.penalties.linf import clip_to_level
from spom.penalties.polyhedra import Polyhedron
from spom.penalties.threshold import norm2


@kernel(PROX)
def prox_in_turn(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """Apply the groups' proxes in turn. reals: s, norm (2 or inf), weights; ints: count, order, ptr, indices."""
    count = ints[0]
    order = ints[1 : 1 + count]
    ptr = ints[1 + count : 2 + 2 * count]
    indices = ints[2 + 2 * count :]
    t = step * reals[0]
    for i in range(w.size):
        out[i] = w[i]
    for m in order:
        members = indices[ptr[m] : ptr[m + 1]]
        cut = t * reals[2 + m]
        part = out[members]
        if reals[1] == 2.0:
            norm = norm2(part)
            factor = (norm - cut) / norm if norm > cut else 0.0
            for e in range(members.size):
                out[members[e]] = factor * part[e]
        else:
            clip_to_level(part, cut, part)
            for e in range(members.size):
                out[members[e]] = part[e]


@register(
    "penalty",
    "tree-group-lasso",
    formula=r"s \sum_m d_m \|w_m\|_{2\text{ or }\infty},\ \text{groups nested or disjoint}",
    cost="O(n depth)",
    examples=lambda: [
        TreeGroupLasso(0.3, [[0, 1, 2, 3, 4], [0, 1], [2, 3], [3]]),
        TreeGroupLasso(0.5, [[0], [0, 1], [0, 1, 2], [4, 5]], weights=[1.0, 0.5, 2.0, 0.0]),
        TreeGroupLasso(0.4, [[0, 1, 2, 3, 4, 5], [0, 1], [2, 3], [3]], norm=np.inf),
    ],
)
class TreeGroupLasso(Grouped):
    """Omega(w) = s sum over groups of d_m norm(w_m), norm l2 or l-inf, any two groups nested or disjoint.

    The prox is that of each group in turn, from the leaves to the root; it is exact in that order only.
    When a group becomes zero, so do all groups below it. A coordinate in no group is not penalised.

    >>> TreeGroupLasso(1.0, groups=[[0, 1, 2], [1, 2]]).prox([3.0, 3.0, 4.0])
    array([2.4 , 1.92, 2.56])
    """

    follows_l1 = True
    homogeneous = True
    _overlap: ClassVar[bool] = True
    _kernel = prox_in_turn

    def __init__(self, strength: float = 1.0, groups: Any = None, weights: Any = None, norm: float = 2) -> None:
        self.norm = norm
        super().__init__(strength, groups, weights)

    def _check(self) -> None:
        super()._check()
        if self.norm not in (2, np.inf):
            raise ValueError(f"norm must be 2 or inf; it is {self.norm!r}")

    @property
    def _order(self) -> float:
        return float(self.norm)

    def _turns(self, groups: Groups) -> Ints:
        """Return the order in which the groups' proxes are applied."""
        return leaves_to_root(groups)

    def _pack(self, groups: Groups) -> Ints:
        indices = np.concatenate([groups.members(m) for m in range(groups.count)] or [groups.indices])
        return np.concatenate([[groups.count], self._turns(groups), groups.ptr, indices]).astype(np.int64)

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        _, weights, packed = self._structure(shape)
        return np.concatenate([[self.strength, float(self.norm)], weights]), packed

    def _norms(self, w: Floats) -> Floats:
        groups = self._structure(w.shape)[0]
        flat = w.reshape(-1)
        return np.array([np.linalg.norm(flat[groups.members(m)], self.norm) for m in range(groups.count)])

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the penalty itself as a sum of norms."""
        return self._sum_of_norms(count)

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return one bound per group, for the l-inf norm."""
        return self._sum_of_maxima(p) if self.norm == np.inf else None

    def _value(self, w: Floats) -> float:
        return self.strength * float(self._structure(w.shape)[1] @ self._norms(w))

    def _conjugate_value(self, y: Floats) -> float:
        # y is in the dual ball if and only if the prox is zero; the tolerance allows for rounding.
        return 0.0 if not self.prox(y, 1.0 + 1e-10).any() else np.inf

    def _max_strength(self, g: Floats) -> float:
        return zero_threshold(with_strength(self, 1.0), g)


def leaves_to_root(groups: Groups) -> Ints:
    """Return an order in which each group comes after all groups inside it; raise an error for partial overlaps."""
    sizes = np.diff(groups.ptr)
    order = np.argsort(sizes, kind="stable")
    owner = np.full(groups.size, -1)
    for m in order:
        members = groups.members(m)
        inside, counts = np.unique(owner[members], return_counts=True)
        for other, shared in zip(inside, counts, strict=True):
            if other >= 0 and shared != sizes[other]:
                raise ValueError(
                    f"groups {other} and {m} overlap and neither contains the other, so they are no tree; "
                    "see OverlappingGroupLasso"
                )
        owner[members] = m
    return order
