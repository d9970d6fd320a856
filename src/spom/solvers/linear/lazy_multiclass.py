r"""Forward-backward steps for several scores: theta is a matrix, and a sparse example touches a few of its rows.

The penalties are those whose skipped steps have a closed form on a row: l1 and squared l2 on its entries (as in
`lazy_vector`), and the sum over rows of their l2 or l-inf norms, for which one prox with the sum of the steps is the
same as one prox after another (Prop. 4 of FOBOS). Adaptive steps have one sum of squared gradients for each row, so
that the prox in that metric stays the one of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.penalties import Penalty
from spom.solvers.linear.data import Examples, Rows, look_ahead_in
from spom.solvers.linear.lazy_vector import LOG_RANGE, A, P, clock_parts, make_clock
from spom.solvers.linear.problem import Arrays, Problem, Rounds, RowLoss, compiled_row_loss, undo
from spom.solvers.steps import DIAGONAL, PLAIN

# What the penalty of a row is made of: its entries, its l2 norm, its l-inf norm.
ENTRIES, L2_ROWS, LINF_ROWS = 0, 1, 2
# Columns of the table beside theta: A and P at the last touch, h, sum of squared gradients, largest norm so far.
A0, P0, H, V, R = range(5)


class RowPenalty(NamedTuple):
    """A penalty that rows can be late for: strength sum_j weights_j of entries or norms, and l2/2 of squares.

    `weights` is empty where all are one.
    """

    kind: Annotated[int, "int64"]
    strength: Annotated[float, "float64"]
    l2: Annotated[float, "float64"]
    weights: Annotated[Floats, "float64[::1]"]


def row_penalty(penalty: Penalty, rows: int) -> RowPenalty | None:
    """The penalty of a matrix of so many rows in this form."""
    elastic, norms = penalty.elastic(), penalty.norm_sum(rows)
    if elastic is not None:
        return RowPenalty(ENTRIES, elastic.l1, elastic.l2, np.zeros(0))
    if norms is None or norms.l2 > 0.0:
        return None
    return RowPenalty(L2_ROWS if norms.order == 2.0 else LINF_ROWS, norms.strength, 0.0, norms.weights)


@kernel("void(float64[:, ::1], int64, float64)")
def shrink_largest(theta: Floats, j: int, cut: float) -> None:
    """The prox of cut norm_inf on row j: entries are capped at t with sum of max(abs(w) - t, 0) = cut."""
    total = 0.0
    for c in range(theta.shape[1]):
        total += abs(theta[j, c])
    if total <= cut:
        theta[j, :] = 0.0
        return
    cap, count = -1.0, 0
    while True:
        # The cap from the entries above the last one; it rises until no entry drops out.
        above, size = 0, 0.0
        for c in range(theta.shape[1]):
            if abs(theta[j, c]) > cap:
                above += 1
                size += abs(theta[j, c])
        if above == count:
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
    """theta_j <- theta_j - eta h_j x g, and h_j for the proxes to come."""
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
    """One round for each row of data; returns the sum of the losses before each step."""
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


class LazyRows:
    """The engine for several scores: theta, a table with one line per row, and the clock of the penalty."""

    name = "forward-backward, lazy rows"
    batch = 1

    def __init__(self, problem: Problem, penalty: RowPenalty) -> None:
        self.problem, self.penalty, self.loss = problem, penalty, compiled_row_loss(problem.loss)
        self.matrix = np.zeros((problem.features + 1, problem.shape[1]))
        self.table = np.zeros((problem.features + 1, 5))
        self.table[:, P0] = 1.0
        self.table[:, H] = 1.0 if problem.step.mode == PLAIN else 0.0
        self.rounds = 0
        # A and P now, and the rounds since all rows were brought up to date.
        self.a, self.p, self.late = 0.0, 1.0, 0

    def settle(self) -> None:
        """Bring all rows of theta up to date."""
        settle_rows(self.matrix, self.table, self.penalty, self.a, self.p)
        self.a, self.p, self.late = 0.0, 1.0, 0

    def _part(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds of one clock, which goes on; what no row of data touches is late."""
        clock = make_clock(self.penalty.strength, self.penalty.l2, steps, False)
        clock[A] = self.a + self.p * clock[A]
        clock[P] *= self.p
        rounds = self.problem.rounds(steps)
        total = row_rounds(rows.examples(order), rounds, self.loss, self.penalty, clock, self.matrix, self.table)
        self.a, self.p = float(clock[A, -1]), float(clock[P, -1])
        self.late += steps.size
        return float(total)

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Rounds that leave the rows of theta that no row of data has for later; see `Staying`."""
        if float(np.log1p(self.penalty.l2 * steps).sum()) > 0.5 * LOG_RANGE:
            return None
        self.rounds += steps.size
        return self._part(rows, order, steps)

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """See `Staying`."""
        if self.late > self.problem.features or math.log(self.p) > 0.5 * LOG_RANGE:
            self.settle()
        tables = {"matrix": self.matrix, "table": self.table}
        return undo(self, tables, touched, ("a", "p", "late", "rounds"))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`, in parts short enough for the clock."""
        total = 0.0
        if self.late:
            self.settle()
        for part in clock_parts(self.penalty.l2, steps):
            total += self._part(rows, np.ascontiguousarray(order[part]), np.ascontiguousarray(steps[part]))
            self.settle()
        self.rounds += steps.size
        return total

    def theta(self) -> Floats:
        """The iterate."""
        found = self.matrix.copy()
        if self.late:
            settle_rows(found, self.table.copy(), self.penalty, self.a, self.p)
        return found[: self.problem.shape[0]]

    def pack(self) -> Arrays:
        """What a saved run needs to resume."""
        packed = {"table": self.table.copy(), "rounds": np.array(self.rounds)}
        if self.late:
            strengths = (self.penalty.strength, self.penalty.l2)
            packed |= {"late": self.matrix.copy(), "late.clock": np.array([self.a, self.p, self.late, *strengths])}
        return packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.matrix[: self.problem.shape[0]] = theta
        if "table" in internal:
            self.table, self.rounds = internal["table"].copy(), int(internal["rounds"])
        if "late" not in internal:
            return
        if tuple(internal["late.clock"][3:]) == (self.penalty.strength, self.penalty.l2):
            self.matrix[:] = internal["late"]
            self.a, self.p, late = (float(x) for x in internal["late.clock"][:3])
            self.late = int(late)
        else:
            # What was late for another penalty is not late for this one: theta is up to date.
            self.table[:, A0], self.table[:, P0] = 0.0, 1.0
