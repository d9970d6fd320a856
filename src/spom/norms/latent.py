"""The l-inf latent group lasso in the l-inf norm, by linear programs with one row per group.

Within distance t of u, coordinate i moves as far against z_i as its groups' weights w allow: with a = abs(z) and
v_i = -sign(z_i) u_i, y_i = min(v_i + t, (B w)_i), where (B w)_i >= abs(u_i) - t. Eliminating y gives a covering
program in w, and its dual

    maximise  sum_i abs(v_i + t) r_i - e_i max(r_i - a_i, 0)   with   B^T r <= strength, r >= 0

(e_i = 2t where v_i + t >= 0, else 0) has one row per group and is feasible at r = 0 for all t: only costs change
during the search for t. r is abs(p - z), and the multipliers of the rows are the weights w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.core.lp import LinearProgram
from spom.norms.base import NORMS, ProxResult, Question, conjugate_of, finish
from spom.norms.search import Cut, tangent_search


class LatentLInf:
    """strength * norm_G, q = inf, in the l-inf norm; the program keeps its basis between calls for warm starts."""

    def __init__(self, penalty: Any, p: int) -> None:
        self.penalty, self.p = penalty, p
        self.B = penalty.membership((p,))
        across = self.B.T.tocsc()
        # r is split into two parts: up to a_i, and above a_i.
        self.program = LinearProgram(
            np.zeros(2 * p),
            sparse.hstack([across, across], format="csc"),
            row_upper=penalty.strength,
            what="the program of LatentGroupLasso in the linf norm",
        )

    def _evaluate(self, v: Floats, a: Floats, t: float) -> Cut:
        """Return the cut of h at t, in coordinates where z = -a <= 0."""
        up = v + t >= 0
        size = np.abs(v + t)
        self.program.set_cost(np.concatenate([-size, np.where(up, 2.0 * t, 0.0) - size]))
        found = self.program.solve()
        r = found.v[: self.p] + found.v[self.p :]
        p = np.where(up, r, -r) - a
        h = -float(a @ (v + t)) - found.objective
        return Cut(t, h, -float(np.abs(p).sum()), p, np.maximum(-found.duals, 0.0))

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        sign = np.where(z > 0, -1.0, 1.0)
        a, v = np.abs(z), sign * u
        self.program.set_bounds(slice(0, self.p), 0.0, a)
        if L > 0:
            upper = _upper_bound(np.abs(u), float(a.sum()), self.penalty.strength, L)
            cut, p, programs = tangent_search(lambda s: self._evaluate(v, a, s), L, 0.0, upper)
            if cut.t == 0.0:
                p = np.zeros(self.p)
        else:
            cut, programs = self._evaluate(v, a, t), 1
            p = cut.p
        x, value = self._point(sign * v, z, cut)
        reached = cut.t if L > 0 else float(np.abs(x - u).max(initial=0.0))
        conjugate = conjugate_of(self.penalty)
        return finish(Question(NORMS["linf"], conjugate, u, z, L, t), x, sign * p, value, reached, programs)

    def _point(self, u: Floats, z: Floats, cut: Cut) -> tuple[Floats, float]:
        """Return (x, penalty at x): x is as far against z as t and the groups' weights allow."""
        reach = self.B @ cut.point
        missing = np.maximum(np.abs(u) - cut.t - reach, 0.0)
        if missing.any():
            # The program covers x up to its tolerance; raise one group per coordinate to cover it fully.
            raised = np.zeros(cut.point.size)
            np.maximum.at(raised, self.B.indices[self.B.indptr[:-1]], missing)
            cut.point[:] += raised
            reach = self.B @ cut.point
        low, high = np.maximum(u - cut.t, -reach), np.minimum(u + cut.t, reach)
        x = np.where(z > 0, low, np.where(z < 0, high, np.clip(u, low, high)))
        return x, self.penalty.strength * float(cut.point.sum())


def _upper_bound(sizes: Floats, total: float, strength: float, L: float) -> float:
    """Return an upper bound on the best t, from L t = sum a + strength * (the number of abs(u_i) above t).

    abs(p_i) is at most a_i, or r_i <= strength where abs(u_i) is larger than t.
    """
    falling = np.sort(sizes)[::-1]
    # With k entries above t the slope is at most total + k strength, so t is at most the larger of these.
    bounds = np.maximum((total + strength * np.arange(falling.size)) / L, falling)
    whole = (total + strength * falling.size) / L
    return float(min(bounds.min(initial=np.inf), whole))
