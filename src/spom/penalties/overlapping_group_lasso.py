"""Groups with arbitrary overlaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_finite, check_positive
from spom.core.registry import register
from spom.core.warning import warn
from spom.errors import Unsupported
from spom.penalties.base import LARGEST
from spom.penalties.groups import Groups
from spom.penalties.overlap_solver import solve_overlap
from spom.penalties.tree_group_lasso import TreeGroupLasso

TOLERANCE = 1e-12


@dataclass(frozen=True)
class CertifiedProx:
    """A prox with its certificate: the exact prox is within `error` of `x`, in the l2 norm."""

    x: Floats
    error: float
    steps: int


@register(
    "penalty",
    "overlapping-group-lasso",
    formula=r"s \sum_m d_m \|w_m\|_2,\ \text{any groups}",
    cost="iterative, each step O(sum of group sizes)",
    examples=lambda: [
        OverlappingGroupLasso(0.5, [[0, 1, 2], [2, 3, 4], [4, 5]]),
        OverlappingGroupLasso(1.0, [[0, 1], [1, 2], [2, 0], [3, 4]], weights=[1.0, 0.5, 2.0, 1.0]),
        OverlappingGroupLasso(0.5, [[0, 1, 2], [2, 3, 4]], exact=False),
    ],
)
class OverlappingGroupLasso(TreeGroupLasso):
    """Omega(w) = s sum over groups of d_m norm2(w_m), for groups that may overlap in any way.

    With `exact=True` the prox is solved for: accelerated steps on the dual find the zero groups, Newton's
    method finds the rest, and a subgradient certifies the distance to the solution (`prox_certified`). With
    `exact=False` the groups' proxes are applied in the given order, as Alg. 1 of Martins et al.
    2011 takes J proximal steps: this is cheap, but not the prox of the sum. `method` says which one runs.
    A coordinate in no group is not penalised.

    >>> OverlappingGroupLasso(1.0, [[0, 1], [1, 2]]).prox([2.0, 0.0, 2.0])
    array([1., 0., 1.])
    """

    exact: bool = True

    def __init__(self, strength: float = 1.0, groups: Any = None, weights: Any = None, exact: bool = True) -> None:
        self.exact = exact
        super().__init__(strength, groups, weights)

    @property
    def method(self) -> str:
        """A description of what `prox` computes."""
        return "exact, with a certificate" if self.exact else "composition of the groups' proxes"

    def _turns(self, groups: Groups) -> Ints:
        return np.arange(groups.count)

    def compiled(self, shape: tuple[int, ...]) -> tuple[Any, Floats, Ints]:
        """Return the composition of proxes, for `exact=False`."""
        if self.exact:
            raise Unsupported("the exact prox of OverlappingGroupLasso is not a compiled kernel; use exact=False")
        return super().compiled(shape)

    def prox_certified(self, w: ArrayLike, step: float = 1.0) -> CertifiedProx:
        """Return the exact prox, with an upper bound of its error and the number of steps on the dual."""
        a = as_finite(w)
        t = min(check_positive(step, "step") * self.strength, LARGEST / 1e10)
        groups, weights, _ = self._structure(a.shape)
        x, error, steps = solve_overlap(a.reshape(-1), groups, t * weights, TOLERANCE)
        return CertifiedProx(x.reshape(a.shape), error, steps)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        if not self.exact:
            super()._prox(w, step, out)
            return
        found = self.prox_certified(w, step)
        allowed = 1e3 * TOLERANCE * max(float(np.abs(w).max(initial=0.0)), 1e-300) * np.sqrt(max(w.size, 1))
        if found.error > allowed:
            warn(f"OverlappingGroupLasso: the prox is certified only to {found.error:.1e} (dual steps: {found.steps})")
        np.copyto(out, found.x)

    def _conjugate_value(self, y: Floats) -> float:
        # The prox is y minus its projection onto the dual ball: y is outside if that is certainly not zero.
        found = self.prox_certified(y)
        slack = found.error + 1e-9 * float(np.abs(y).max(initial=0.0))
        return 0.0 if float(np.sqrt((found.x**2).sum())) <= slack else np.inf

    def _max_strength(self, g: Floats) -> float:
        """Return a lower bound of the dual norm of g: iterate c = <g, x> / Omega(x), with x the prox of c Omega."""
        unit = OverlappingGroupLasso(1.0, self.groups, self.weights)
        x, c = g, 0.0
        for _ in range(100):
            norm = unit._value(x)
            if norm == 0.0:
                return np.inf if x.any() else c
            better = float(np.vdot(g, x)) / norm
            if better <= c * (1 + 1e-12):
                return c
            c = better
            x = unit.prox_certified(g, c).x
        return c
