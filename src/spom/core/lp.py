"""Linear programs with warm starts: one HiGHS model whose costs and bounds change between solves.

    minimise  cost . v   subject to   row_lower <= A v <= row_upper,   lower <= v <= upper

HiGHS keeps the basis of the last solve, so after a small change the program is solved in a few pivots.

>>> import numpy as np
>>> lp = LinearProgram([-1.0, -1.0], np.array([[1.0, 2.0]]), row_upper=4.0, upper=3.0)
>>> lp.solve().objective
-3.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use
from numpy.typing import ArrayLike

from spom.core.arrays import Floats
from spom.errors import SpomError

# The smallest tolerance that HiGHS accepts, far below the tolerances of our tests.
_TOLERANCE = 1e-10


class LinearProgramError(SpomError, ValueError):
    """The error for a linear program without a solution; `reason` is "infeasible", "unbounded" or HiGHS's message."""

    def __init__(self, reason: str, what: str) -> None:
        self.reason = reason
        super().__init__(f"{what} is {reason}")


@dataclass(frozen=True)
class Solution:
    """An optimal point with the multipliers of the rows; cost - A^T `duals` are those of the bounds."""

    objective: float
    v: Floats
    duals: Floats


class LinearProgram:
    """A linear program in a HiGHS instance of its own; not to be shared between threads."""

    def __init__(
        self,
        cost: ArrayLike,
        A: Any,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        row_lower: ArrayLike = -np.inf,
        row_upper: ArrayLike = np.inf,
        what: str = "the linear program",
    ) -> None:
        import highspy

        matrix = scipy.sparse.csc_matrix(A, dtype=np.float64)
        rows, columns = matrix.shape
        self.rows, self.columns, self.what = rows, columns, what
        self._all = np.arange(columns, dtype=np.int32)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, rows
        model.col_cost_ = np.asarray(cost, dtype=np.float64)
        model.col_lower_ = np.broadcast_to(np.asarray(lower, dtype=np.float64), columns).copy()
        model.col_upper_ = np.broadcast_to(np.asarray(upper, dtype=np.float64), columns).copy()
        model.row_lower_ = np.broadcast_to(np.asarray(row_lower, dtype=np.float64), rows).copy()
        model.row_upper_ = np.broadcast_to(np.asarray(row_upper, dtype=np.float64), rows).copy()
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = matrix.indptr
        model.a_matrix_.index_ = matrix.indices
        model.a_matrix_.value_ = matrix.data
        self._status = highspy.HighsModelStatus
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no annotations
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("presolve", "off"),
            ("simplex_strategy", 1),
            ("primal_feasibility_tolerance", _TOLERANCE),
            ("dual_feasibility_tolerance", _TOLERANCE),
        ):
            self._highs.setOptionValue(name, value)
        self._highs.passModel(model)

    def set_cost(self, cost: Floats) -> None:
        """Set new costs for all columns."""
        self._highs.changeColsCost(self.columns, self._all, np.ascontiguousarray(cost, dtype=np.float64))

    def set_bounds(self, columns: slice, lower: ArrayLike, upper: ArrayLike) -> None:
        """Set new bounds for a range of columns."""
        which = self._all[columns]
        lo = np.broadcast_to(np.asarray(lower, dtype=np.float64), which.size).copy()
        hi = np.broadcast_to(np.asarray(upper, dtype=np.float64), which.size).copy()
        self._highs.changeColsBounds(which.size, which, lo, hi)

    def set_rows(self, rows: slice, lower: ArrayLike, upper: ArrayLike) -> None:
        """Set new bounds for a range of rows."""
        which = np.arange(self.rows)[rows]
        lo = np.broadcast_to(np.asarray(lower, dtype=np.float64), which.size)
        hi = np.broadcast_to(np.asarray(upper, dtype=np.float64), which.size)
        for row, a, b in zip(which.tolist(), lo.tolist(), hi.tolist(), strict=True):
            self._highs.changeRowBounds(row, a, b)

    def solve(self) -> Solution:
        """Solve the program from the last basis; raise a `LinearProgramError` if there is no optimum."""
        highs, status = self._highs, self._status
        highs.run()
        found = highs.getModelStatus()
        if found not in (status.kOptimal, status.kInfeasible, status.kUnbounded):
            # Rounding can make a basis unusable: discard it once before giving up.
            highs.clearSolver()
            highs.run()
            found = highs.getModelStatus()
        if found == status.kOptimal:
            solution = highs.getSolution()
            return Solution(
                float(highs.getInfo().objective_function_value),
                np.array(solution.col_value, dtype=np.float64),
                np.array(solution.row_dual, dtype=np.float64),
            )
        reasons = {status.kInfeasible: "infeasible", status.kUnbounded: "unbounded"}
        reasons[status.kUnboundedOrInfeasible] = "infeasible or unbounded"
        raise LinearProgramError(reasons.get(found, str(highs.modelStatusToString(found))), self.what)
