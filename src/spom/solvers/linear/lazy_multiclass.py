r"""Forward-backward steps for several scores: theta is a matrix, and a sparse example touches a few of its rows.

Skipped steps of the penalties here have a closed form on a row. These are l1 and squared l2 on its entries (as in
`lazy_vector`), and the sum over rows of their l2 or l-inf norms, for which one prox with the sum of the steps equals
consecutive proxes (Prop. 4 of FOBOS). Adaptive steps have one sum of squared gradients per row, so the prox in that
metric is still the prox of the row.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats
from spom.core.jit import kernel
from spom.penalties import Penalty
from spom.solvers.linear.data import Examples, look_ahead_in
from spom.solvers.linear.lazy_vector import A, Lazy, P
from spom.solvers.linear.problem import Problem, Rounds, RowLoss, compiled_row_loss
from spom.solvers.steps import DIAGONAL, PLAIN

# The kinds of row penalties: of its entries, its l2 norm, its l-inf norm.
ENTRIES, L2_ROWS, LINF_ROWS = 0, 1, 2
# Columns of the table that accompanies theta: A and P at the last touch, h, sum of squared gradients, largest norm so
# far.
A0, P0, H, V, R = range(5)


class RowPenalty(NamedTuple):
    """A penalty that can be postponed on rows: strength sum_j weights_j of entries or norms, and l2/2 of squares.

    `weights` is empty if all are 1.
    """

    kind: Annotated[int, "int64"]
    strength: Annotated[float, "float64"]
    l2: Annotated[float, "float64"]
    weights: Annotated[Floats, "float64[::1]"]


def row_penalty(penalty: Penalty, rows: int) -> RowPenalty | None:
    """Return the penalty of a matrix with `rows` rows in this form; None if it has no such form."""
    elastic, norms = penalty.elastic(), penalty.norm_sum(rows)
    if elastic is not None:
        return RowPenalty(ENTRIES, elastic.l1, elastic.l2, np.zeros(0))
    if norms is None or norms.l2 > 0.0:
        return None
    return RowPenalty(L2_ROWS if norms.order == 2.0 else LINF_ROWS, norms.strength, 0.0, norms.weights)


@kernel("void(float64[:, ::1], int64, float64)")
def shrink_largest(theta: Floats, j: int, cut: float) -> None:
    """Apply the prox of cut norm_inf to row j: cap its entries at t, where the sum of max(abs(w) - t, 0) is cut."""
    total = 0.0
    for c in range(theta.shape[1]):
        total += abs(theta[j, c])
    if total <= cut:
        theta[j, :] = 0.0
        return
    cap, count = -1.0, theta.shape[1] + 1
    while True:
        # The cap follows from the entries above the last cap. It rises until no entry drops out; rounding may readmit
        # some.
        above, size = 0, 0.0
        for c in range(theta.shape[1]):
            if abs(theta[j, c]) > cap:
                above += 1
                size += abs(theta[j, c])
        if above >= count or above == 0:
            break
        count = above
        cap = (size - cut) / above
    for c in range(theta.shape[1]):
        if abs(theta[j, c]) > cap:
            theta[j, c] = math.copysign(cap, theta[j, c])


@kernel("void(float64[:, ::1], float64[:, ::1], int64, int64, float64, float64, float64)")
def catch_up_row(theta: Floats, table: Floats, j: int, kind: int, weight: float, a: float, p: float) -> None:
    """Bring one row to the time with A = a and P = p."""
    cut = weight * table[j, H] * (a - table[j, A0]) / table[j, P0]
    ratio = table[j, P0] / p
    table[j, A0] = a
    table[j, P0] = p
    if cut == 0.0 and ratio == 1.0:
        return
    if kind == ENTRIES:
        for c in range(theta.shape[1]):
            size = abs(theta[j, c]) - cut
            theta[j, c] = 0.0 if size <= 0.0 else math.copysign(size, theta[j, c]) * ratio
        return
    if kind == LINF_ROWS:
        shrink_largest(theta, j, cut)
        return
    norm = 0.0
    for c in range(theta.shape[1]):
        norm += theta[j, c] * theta[j, c]
    norm = math.sqrt(norm)
    factor = (norm - cut) / norm if norm > cut else 0.0
    for c in range(theta.shape[1]):
        theta[j, c] *= factor


@kernel("void(float64[:, ::1], float64[:, ::1], int64, float64[::1], float64, float64, int64, float64)")
def move_row(theta: Floats, table: Floats, j: int, g: Floats, x: float, eta: float, mode: int, delta: float) -> None:
    """theta_j <- theta_j - eta h_j x g, and update h_j for the next proxes."""
    step = eta
    if mode != PLAIN:
        squared = 0.0
        norm = 0.0
        for c in range(g.size):
            squared += g[c] * g[c]
            norm += theta[j, c] * theta[j, c]
        if squared == 0.0 or x == 0.0:
            return
        table[j, V] += x * x * squared
        root = math.sqrt(table[j, V])
        if mode == DIAGONAL:
            table[j, H] = 1.0 / (delta + root)
        else:
            if table[j, R] == 0.0:
                table[j, R] = delta / abs(x)
            table[j, R] = max(table[j, R], math.sqrt(norm))
            table[j, H] = table[j, R] / root
        step = eta * table[j, H]
    for c in range(g.size):
        theta[j, c] -= step * x * g[c]


@kernel("float64(Examples, Rounds, RowLoss, RowPenalty, float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def row_rounds(
    rows: Examples, rounds: Rounds, loss: RowLoss, penalty: RowPenalty, clock: Floats, theta: Floats, table: Floats
) -> float:
    """Run one round per row of data, and return the sum of the losses before each step."""
    total = 0.0
    bias = theta.shape[0] - 1
    kind, weights, mode, delta = penalty.kind, penalty.weights, rounds.mode, rounds.delta
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    scores = np.empty(theta.shape[1])
    slopes = np.empty(theta.shape[1])
    for t in range(rows.order.size):
        i = rows.order[t]
        shift = indptr[i] if rows.dense else 0
        look_ahead_in(rows, t, theta)
        for c in range(scores.size):
            scores[c] = theta[bias, c] if rounds.intercept else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            catch_up_row(theta, table, j, kind, weights[j] if weights.size else 1.0, clock[A, t], clock[P, t])
            for c in range(scores.size):
                scores[c] += data[k] * theta[j, c]
        total += rows.weight[i] * loss.row(int(rows.y[i]), scores, loss.reals, slopes)
        for c in range(slopes.size):
            slopes[c] *= rows.weight[i]
        for k in range(indptr[i], indptr[i + 1]):
            move_row(theta, table, indices[k - shift], slopes, data[k], rounds.steps[t], mode, delta)
        if rounds.intercept:
            move_row(theta, table, bias, slopes, 1.0, rounds.steps[t], mode, delta)
    return total


@kernel("void(float64[:, ::1], float64[:, ::1], RowPenalty, float64, float64)")
def settle_rows(theta: Floats, table: Floats, penalty: RowPenalty, a: float, p: float) -> None:
    """Bring all rows to the time with A = a and P = p and start a new clock."""
    kind, weights = penalty.kind, penalty.weights
    for j in range(theta.shape[0] - 1):
        catch_up_row(theta, table, j, kind, weights[j] if weights.size else 1.0, a, p)
        table[j, A0] = 0.0
        table[j, P0] = 1.0


class LazyRows(Lazy):
    """The engine for several scores: theta, and a table with A, P, h, V and R of each of its rows."""

    name = "forward-backward, lazy rows"

    def __init__(self, problem: Problem, penalty: RowPenalty) -> None:
        super().__init__(problem, penalty.strength, penalty.l2, columns=5)
        self.table[:, P0] = 1.0
        self.table[:, H] = 1.0 if problem.step.mode == PLAIN else 0.0
        self.penalty, self.loss = penalty, compiled_row_loss(problem.loss)
        self.matrix = np.zeros((problem.features + 1, problem.shape[1]))
        # The number of examples that the weights to start from were learnt from.
        self.earlier = 0.0

    def _tables(self) -> Arrays:
        return {"matrix": self.matrix, "table": self.table}

    def _loop(self, rows: Examples, rounds: Rounds) -> float:
        if self.earlier and rounds.mode != PLAIN:
            self._count_earlier(rows)
        return float(row_rounds(rows, rounds, self.loss, self.penalty, self.clock, self.matrix, self.table))

    def _count_earlier(self, rows: Examples) -> None:
        """Take gradients as at zero weights for the examples that led to the weights to start from.

        Without them the first step of a feature is as large as its weights.
        """
        where, at = (
            (np.arange(self.problem.features), None) if rows.dense else np.unique(rows.indices, return_inverse=True)
        )
        if at is None:
            squares = np.square(rows.data.reshape(-1, where.size)).mean(axis=0)
        else:
            squares = np.bincount(at, np.square(rows.data)) / np.bincount(at)
        if self.problem.intercept:
            where, squares = np.append(where, self.problem.features), np.append(squares, 1.0)
        slopes = self.problem.loss.derivative([0], np.zeros((1, self.matrix.shape[1])))
        new = (self.table[where, V] == 0.0) & self.matrix[where].any(axis=1)
        self.table[where[new], V] = self.earlier * float(np.square(slopes).sum()) * squares[new]

    def _settle(self) -> None:
        settle_rows(self.matrix, self.table, self.penalty, self.clock[A, -1], self.clock[P, -1])

    def theta(self) -> Floats:
        """Return the iterate."""
        found = self.matrix.copy()
        if self.late:
            settle_rows(found, self.table.copy(), self.penalty, self.clock[A, -1], self.clock[P, -1])
        return found[: self.problem.shape[0]]

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        packed = {
            "table": self.table.copy(),
            "rounds": np.array(self.rounds),
            "earlier": np.array(self.earlier),
        }
        return packed | self._packed_late(self.matrix.copy()) if self.late else packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.matrix[: self.problem.shape[0]] = theta
        if "table" in internal:
            self.table, self.rounds = internal["table"].copy(), int(internal["rounds"])
            self.earlier = float(internal["earlier"])
        late = self._late(internal)
        if late is not None:
            self.matrix[:] = late
        else:
            self.table[:, A0], self.table[:, P0] = 0.0, 1.0
