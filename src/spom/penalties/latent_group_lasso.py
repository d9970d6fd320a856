"""Latent groups: supports that are unions of groups."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy  # its subpackages are loaded on first use
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_finite, check_positive
from spom.core.registry import register
from spom.core.warning import warn
from spom.errors import Unsupported
from spom.penalties.balls import SLACK
from spom.penalties.grouped import Grouped
from spom.penalties.groups import Groups
from spom.penalties.latent_newton import LatentProx, newton_prox
from spom.penalties.latent_projections import Balls, cyclic_projections, dykstra
from spom.penalties.latent_value import l2_value, linf_value
from spom.penalties.polyhedra import Polyhedron, covered

METHODS = ("auto", "newton", "cyclic", "dykstra")
# Dykstra's projections are the default if they get this close (in units of norm2(w)) within this many cycles. On the
# problems of the paper (64 to 8,192 coordinates) they need 50 to 130 and are 5 to 1.1 times as fast as Newton's method.
# With random groups that overlap heavily they stall, which is detected after a tenth of the cycles.
NEAR, CYCLES = 1e-14, 300


@register(
    "penalty",
    "latent-group-lasso",
    formula=r"s \min \{\sum_m \|v_m\|_q : \sum_m v_m = w,\ \mathrm{supp}(v_m) \subseteq m\}",
    cost="iterative, some 30 to 100 passes over the groups",
    examples=lambda: [
        LatentGroupLasso(0.5, [[0, 1, 2], [2, 3, 4], [4, 5]]),
        LatentGroupLasso(0.5, [[0, 1, 2], [2, 3, 4], [4, 5]], q=2),
        LatentGroupLasso(1.0, [[0, 1], [1, 2], [2, 0], [3, 4, 5], [0, 5]]),
        LatentGroupLasso(2.0, 2, q=2),
    ],
)
class LatentGroupLasso(Grouped):
    """Omega(w) = s min of sum_m norm_q(v_m), over v_m supported in group m with sum v_m = w; q = inf or 2.

    Supports are unions of groups; those of the overlapping group lasso are complements of unions. Every
    coordinate must be in a group. The dual norm is the largest dual norm of a group's part: norm1 for q = inf,
    norm2 for q = 2. `prox` runs Dykstra's method, or Newton's on one weight per group where that converges slowly; both
    are exact to rounding. `prox_certified` returns the duality gap as well, and also offers the anchored cyclic
    projections of the literature. For the prox in the l-inf norm see `spom.norms.general_prox`.

    >>> round(LatentGroupLasso(1.0, [[0, 1], [1, 2]], q=2).value([3.0, 4.0, 0.0]), 9)
    5.0
    >>> LatentGroupLasso(1.0, [[0, 1], [1, 2]]).prox([3.0, 2.0, 0.0]).round(9)
    array([2., 2., 0.])
    """

    homogeneous = True
    _overlap: ClassVar[bool] = True

    def __init__(self, strength: float = 1.0, groups: Any = None, q: float = np.inf) -> None:
        self.q = q
        super().__init__(strength, groups)

    def _check(self) -> None:
        super()._check()
        if self.q not in (2, np.inf):
            raise ValueError(f"q must be 2 or inf; it is {self.q!r}")

    @property
    def _order(self) -> float:
        return float(self.q)

    def _pack(self, groups: Groups) -> Ints:
        members = [groups.members(m) for m in range(groups.count)]
        indices = np.concatenate(members) if members else np.zeros(0, dtype=np.int64)
        missing = np.flatnonzero(np.bincount(indices, minlength=groups.size) == 0)
        if missing.size:
            raise ValueError(
                f"coordinate {missing[0]} is in no group ({missing.size} in total): the latent group norm is +inf "
                f"there; add a group that has it, such as [{missing[0]}]"
            )
        return indices

    def membership(self, shape: tuple[int, ...]) -> Any:
        """Return B as a CSR matrix, entries of the flattened array by groups: B[i, m] = 1 if i is in group m."""
        groups, _, indices = self._structure(shape)
        by_group = scipy.sparse.csc_matrix(
            (np.ones(indices.size), indices, groups.ptr), shape=(groups.size, groups.count)
        )
        return by_group.tocsr()

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return abs(x_i) <= the sum of the weights of its groups, for q = inf."""
        B = self.membership((p,))
        return covered(B, np.full(B.shape[1], float(self.strength))) if self.q == np.inf else None

    def compiled(self, shape: tuple[int, ...]) -> tuple[Any, Floats, Ints]:
        """Raise an error: there is no compiled prox."""
        raise Unsupported("the prox of LatentGroupLasso solves linear systems and is not a compiled kernel; use prox")

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        return self.compiled(shape)[1:]

    # --- the norm and its dual -----------------------------------------------------------------------

    def _value(self, w: Floats) -> float:
        B = self.membership(w.shape)
        solve = linf_value if self.q == np.inf else l2_value
        return self.strength * solve(w.reshape(-1), B)[0]

    def dual_norm(self, y: ArrayLike) -> float:
        """Return the dual of the norm with strength one: the largest norm1 (q = inf) or norm2 (q = 2) of a group."""
        a = np.abs(as_finite(y, "y"))
        across = self.membership(a.shape).T
        top = float(a.max(initial=0.0))
        if top == 0.0:
            return 0.0
        flat = a.reshape(-1) / top
        sizes = across @ flat if self.q == np.inf else np.sqrt(across @ flat**2)
        return float(sizes.max()) * top

    def _max_strength(self, g: Floats) -> float:
        return self.dual_norm(g)

    def _conjugate_value(self, y: Floats) -> float:
        return 0.0 if self.dual_norm(y) <= self.strength * (1 + SLACK) else np.inf

    # --- the prox ------------------------------------------------------------------------------------

    def prox_certified(
        self,
        w: ArrayLike,
        step: float = 1.0,
        method: str = "auto",
        tol: float = 1e-10,
        limit: int = 100_000,
        target: ArrayLike | None = None,
    ) -> LatentProx:
        """Return the prox with its duality gap; the squared distance to the exact prox is at most twice the gap.

        `method` is "auto" (Dykstra's projections to rounding, or Newton's method where they converge slowly), "newton"
        (exact; ignores the tolerance), "cyclic" (anchored cyclic projections) or "dykstra".
        The projections stop after `limit` cycles, or when a cycle moves less than `tol` in the l2 norm. With
        `target`, a known prox, they stop when they are within `tol` of it.
        """
        a = as_finite(w)
        t = check_positive(step, "step") * self.strength
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
        u = np.ascontiguousarray(a.reshape(-1))
        if method == "auto":
            x, weights, rounds = self._solve(u, a.shape, t)
            found = LatentProx(x, self._gap(u, u - x, a.shape, t, float(weights.sum())), weights, rounds)
        elif method == "newton":
            found = newton_prox(u, self.membership(a.shape), t, float(self.q))
        else:
            goal = np.zeros(0) if target is None else u - np.asarray(target, dtype=np.float64).reshape(-1)
            found = self._project(u, a.shape, t, method == "dykstra", tol, limit, goal)
        return LatentProx(found.x.reshape(a.shape), found.gap, found.weights, found.rounds)

    def _project(
        self, u: Floats, shape: tuple[int, ...], t: float, dykstra: bool, tol: float, limit: int, goal: Floats
    ) -> LatentProx:
        groups, _, indices = self._structure(shape)
        B = self.membership(shape)
        y = np.empty_like(u)
        l1 = self.q == np.inf
        rounds, _ = cyclic_projections(u, Balls(groups.ptr, indices, float(t), l1), dykstra, limit, tol, goal, y)
        x = u - y
        norm, _ = linf_value(x, B) if l1 else l2_value(x, B)
        return LatentProx(x, self._gap(u, y, shape, t, norm), np.zeros(groups.count), rounds)

    def _gap(self, u: Floats, y: Floats, shape: tuple[int, ...], t: float, norm: float) -> float:
        """Return the duality gap of the prox u - y of t times the norm, where `norm` is the norm of u - y."""
        size = self.dual_norm(y.reshape(shape))
        inside = y * (t / size) if size > t else y
        return max(0.5 * float(y @ y) + t * norm - float(inside @ (u - 0.5 * inside)), 0.0)

    def _solve(self, u: Floats, shape: tuple[int, ...], t: float) -> tuple[Floats, Floats, int]:
        """Return (prox, norm of each group's part, rounds), by Dykstra's method or, if that is slow, Newton's."""
        groups, _, indices = self._structure(shape)
        x, weights = np.zeros_like(u), np.zeros(groups.count)
        scale = float(np.abs(u).max(initial=0.0))
        if t == 0.0 or scale == 0.0:
            return u.copy(), weights, 0
        # Scaled to a largest entry of one, so no square leaves the range of floats.
        balls = Balls(groups.ptr, indices, t / scale, self.q == np.inf)
        tol = NEAR * float(np.linalg.norm(u / scale))
        rounds, error = dykstra(u / scale, balls, CYCLES, tol, x, weights)
        if error <= tol:
            return x * scale, weights * scale, rounds
        found = newton_prox(u, self.membership(shape), t, float(self.q))
        self._check_gap(found, u, scale)
        return found.x, found.weights, rounds + found.rounds

    @staticmethod
    def _check_gap(found: LatentProx, u: Floats, scale: float) -> None:
        if found.gap > 1e-9 * scale * scale * max(u.size, 1):
            warn(f"LatentGroupLasso: the prox has a duality gap of {found.gap:.1e} after {found.rounds} rounds")

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        u = np.ascontiguousarray(w.reshape(-1))
        np.copyto(out, self._solve(u, w.shape, step * self.strength)[0].reshape(w.shape))
