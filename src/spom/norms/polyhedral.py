"""A penalty given by its matrices: g(x) = min over w >= 0 of cost . w with lower <= A x + B w <= upper."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.core.lp import LinearProgram, LinearProgramError
from spom.errors import Unsupported
from spom.penalties.base import Penalty
from spom.penalties.polyhedra import Polyhedron


class Polyhedral(Penalty):
    """g(x) = min over w >= 0 of cost . w subject to lower <= A x + B w <= upper; +inf if no w is feasible.

    Any convex piecewise linear function has this form. Omit `B` and `cost` for a plain polyhedron.

    >>> hinge = Polyhedral(A=[[1.0]], B=[[-1.0]], cost=[2.0], upper=[1.0])
    >>> hinge.value([3.0])
    4.0
    """

    def __init__(self, A: Any, B: Any = None, cost: Any = None, lower: Any = -np.inf, upper: Any = np.inf) -> None:
        self.A, self.B, self.cost, self.lower, self.upper = A, B, cost, lower, upper
        self._check()

    def _check(self) -> None:
        A = sparse.csr_matrix(np.atleast_2d(self.A) if not sparse.issparse(self.A) else self.A, dtype=np.float64)
        rows = A.shape[0]
        if self.B is None:
            B = sparse.csr_matrix((rows, 0))
        else:
            B = sparse.csr_matrix(np.atleast_2d(self.B) if not sparse.issparse(self.B) else self.B, dtype=np.float64)
        if B.shape[0] != rows:
            raise ValueError(f"A has {rows} rows and B has {B.shape[0]}; they must be the same rows")
        cost = np.zeros(B.shape[1]) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        if cost.shape != (B.shape[1],):
            raise ValueError(f"cost has shape {cost.shape}; B has {B.shape[1]} columns")
        try:
            lower = np.broadcast_to(np.asarray(self.lower, dtype=np.float64), rows)
            upper = np.broadcast_to(np.asarray(self.upper, dtype=np.float64), rows)
        except ValueError:
            raise ValueError(f"lower and upper must be numbers, or vectors of {rows}") from None
        finite = np.isfinite(A.data).all() and np.isfinite(B.data).all() and np.isfinite(cost).all()
        if not finite or np.isnan(lower).any() or np.isnan(upper).any():
            raise ValueError("A, B and cost must be finite, and lower and upper must not be NaN")
        self._rows = Polyhedron(A, B, cost, lower, upper)

    def _value(self, w: Floats) -> float:
        rows = self._rows
        if w.shape != (rows.A.shape[1],):
            raise ValueError(f"A has {rows.A.shape[1]} columns, but x has shape {w.shape}")
        shift = rows.A @ w
        what = "the value of the polyhedral penalty"
        # A point found by a linear program satisfies its rows only up to the program's tolerance.
        slack = 1e-8 * max(1.0, float(np.abs(shift).max(initial=0.0)))
        if not rows.cost.size:
            inside = np.all(shift >= rows.lower - slack) and np.all(shift <= rows.upper + slack)
            return 0.0 if inside else np.inf
        for extra in (0.0, slack):
            low, high = rows.lower - shift - extra, rows.upper - shift + extra
            program = LinearProgram(rows.cost, rows.B, row_lower=low, row_upper=high, what=what)
            try:
                return program.solve().objective
            except LinearProgramError as error:
                if error.reason != "infeasible":
                    raise
        return np.inf

    def polyhedron(self, p: int) -> Polyhedron:
        """Return the matrices themselves."""
        if self._rows.A.shape[1] != p:
            raise ValueError(f"A has {self._rows.A.shape[1]} columns; the point has {p} coordinates")
        return self._rows

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        raise Unsupported("a polyhedral penalty has no Euclidean prox here; use general_prox in an atomic norm")
