"""Any polyhedral penalty in any atomic norm, by linear programs with warm starts.

    h(t) = min of z.x + cost.w   with   lower <= A x + B w <= upper,  w >= 0,  norm(x - u) <= t

is one linear program, and its multipliers are the slope of h and the dual element p. The norm constraint is a
bound on each coordinate for l-inf, and x = u + atoms (c+ - c-), sum c <= t for every other norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.core.lp import LinearProgram
from spom.norms.atomic import AtomicPenalty
from spom.norms.base import Norm, ProxResult, Question, finish, too_near
from spom.norms.polyhedral import Polyhedral
from spom.norms.search import Cut, tangent_search
from spom.penalties.polyhedra import Polyhedron


class PolyhedralProx:
    """A penalty given by rows, in the l-inf norm (`atoms` None) or in the norm of a matrix of atoms."""

    def __init__(self, penalty: Any, rows: Polyhedron, norm: Norm, atoms: Any) -> None:
        self.penalty, self.rows, self.norm, self.p = penalty, rows, norm, rows.A.shape[1]
        self.box = atoms is None
        self.bounds = _bounds(self.rows)
        self.what = f"the program of {type(penalty).__name__} in the {norm.name} norm"
        self._build(sparse.csr_matrix((self.p, 0)) if atoms is None else sparse.csr_matrix(atoms))

    def _build(self, atoms: Any) -> None:
        """Build the program: columns x, w, c+, c-, T; rows: the penalty, x - atoms c = u, sum c - T <= 0."""
        rows, p = self.rows, self.p
        self.k, self.m = rows.cost.size, atoms.shape[1]
        r, m = rows.A.shape[0], self.m
        blocks = [[rows.A, rows.B, None, None, sparse.csr_matrix((r, 1))]]
        if not self.box:
            blocks.append([sparse.identity(p), None, -atoms, atoms, None])
            blocks.append([None, None, np.ones((1, m)), np.ones((1, m)), -np.ones((1, 1))])
        else:
            blocks[0] = [rows.A, rows.B, sparse.csr_matrix((r, 0)), sparse.csr_matrix((r, 0)), blocks[0][4]]
            # abs(x - u) <= T: bounds on x once T is known, rows to find the least T.
            eye, ones = sparse.identity(p), np.ones((p, 1))
            blocks.append([eye, None, None, None, -ones])
            blocks.append([eye, None, None, None, ones])
        matrix = sparse.bmat(blocks, format="csc")
        self.columns = matrix.shape[1]
        lower = np.zeros(self.columns)
        lower[:p] = -np.inf
        low, high = np.full(matrix.shape[0], -np.inf), np.full(matrix.shape[0], np.inf)
        low[:r], high[:r] = rows.lower, rows.upper
        self.first = r
        self.program = LinearProgram(
            np.zeros(self.columns), matrix, lower=lower, row_lower=low, row_upper=high, what=self.what
        )

    def _centre(self, u: Floats) -> None:
        r, p = self.first, self.p
        if self.box:
            self.program.set_rows(slice(r, r + p), -np.inf, u)
            self.program.set_rows(slice(r + p, r + 2 * p), u, np.inf)
        else:
            self.program.set_rows(slice(r, r + p), u, u)
            self.program.set_rows(slice(r + p, r + p + 1), -np.inf, 0.0)

    def _p_of(self, duals: Floats) -> Floats:
        """Return p, the multipliers of x - u = (a point of the ball)."""
        r, p = self.first, self.p
        if self.box:
            return duals[r : r + p] + duals[r + p : r + 2 * p]
        return duals[r : r + p]

    def _nearest(self, u: Floats) -> tuple[float, Floats]:
        """Return (least distance from u at which the penalty is finite, a ray of p's of dual norm one there)."""
        cost = np.zeros(self.columns)
        cost[-1] = 1.0
        self.program.set_cost(cost)
        self.program.set_bounds(slice(self.columns - 1, self.columns), 0.0, np.inf)
        found = self.program.solve()
        nearest = float(found.v[-1])
        return (nearest, self._p_of(found.duals)) if nearest > 1e-9 else (0.0, np.zeros(self.p))

    def _evaluate(self, z: Floats, t: float) -> Cut:
        last = slice(self.columns - 1, self.columns)
        self.program.set_bounds(last, t, t)
        found = self.program.solve()
        p = self._p_of(found.duals)
        return Cut(t, found.objective, -self.norm.dual(p), p, found.v[: self.p])

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        self._centre(u)
        everywhere = self.penalty.homogeneous and not isinstance(self.penalty, (AtomicPenalty, Polyhedral))
        nearest, ray = (0.0, np.zeros(self.p)) if everywhere else self._nearest(u)
        cost = np.concatenate([z, self.rows.cost, np.zeros(2 * self.m + 1)])
        self.program.set_cost(cost)
        if L == 0:
            if t < nearest * (1 - 1e-9):
                raise too_near(t, nearest)
            cut, programs = self._evaluate(z, t), 2
            p = cut.p
        else:
            # A small slack keeps the program feasible at the boundary of the domain.
            start = nearest * (1 + 1e-12)
            cut, p, programs = tangent_search(lambda s: self._evaluate(z, s), L, start)
            programs += 1
            if cut.t == start:
                # At the least distance the constraint alone may hold x: add the missing part of p along the ray.
                p = p + max(L * start - self.norm.dual(p), 0.0) * ray if start > 0 else 0.0 * p
        # A program satisfies its rows up to a tolerance; plain bounds can be satisfied exactly.
        x = np.clip(cut.point, *self.bounds)
        value = cut.h - float(z @ cut.point)
        reached = self.norm.value(x - u) if L == 0 else cut.t
        return finish(Question(self.norm, self._conjugate_near(x), u, z, L, t), x, p, value, reached, programs)

    def _conjugate_near(self, x: Floats) -> Any:
        """Return the conjugate over a large box around x, which suffices: an optimum inside the box is a global one."""
        radius = 10.0 * max(1.0, float(np.abs(x).max(initial=0.0)))

        def conjugate(q: Floats) -> tuple[Floats, float]:
            rows = self.rows
            bound = np.concatenate([np.full(self.p, radius), np.full(self.k, np.inf)])
            program = LinearProgram(
                np.concatenate([-q, rows.cost]),
                sparse.hstack([rows.A, rows.B], format="csc"),
                lower=np.concatenate([np.full(self.p, -radius), np.zeros(self.k)]),
                upper=bound,
                row_lower=rows.lower,
                row_upper=rows.upper,
                what=f"the conjugate of {type(self.penalty).__name__}",
            )
            return q, -program.solve().objective

        return conjugate


def _bounds(rows: Polyhedron) -> tuple[Floats, Floats]:
    """Return the bounds on coordinates from rows with a single entry."""
    p = rows.A.shape[1]
    lower, upper = np.full(p, -np.inf), np.full(p, np.inf)
    single = (np.diff(rows.A.indptr) == 1) & (np.diff(rows.B.indptr) == 0)
    for row in np.flatnonzero(single):
        entry, column = rows.A.data[rows.A.indptr[row]], rows.A.indices[rows.A.indptr[row]]
        low, high = sorted((rows.lower[row] / entry, rows.upper[row] / entry))
        lower[column], upper[column] = max(lower[column], low), min(upper[column], high)
    return lower, upper
