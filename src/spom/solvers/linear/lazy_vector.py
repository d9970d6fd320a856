r"""Forward-backward steps at the cost of a sparse row's non-zeros: l1 and squared l2, with plain or adaptive steps.

A round takes w <- w - eta g and then the prox of eta (l1 norm1 + l2/2 norm2^2). Between two rows with an entry in a
coordinate, this coordinate only passes through proxes, which have a closed form. With P_t the product of (1 + l2 eta_s)
and A_t the sum of l1 eta_s P_{s-1}, both up to round t, a coordinate last touched in round r has in round t the value

    soft(w, (A_t - A_r) / P_r) P_r / P_t,

so it is only updated when a row needs it, and at the end. With adaptive steps eta_t h_j, where h_j
changes only in rounds that touch coordinate j, the same holds for l1 with the threshold h_j (A_t - A_r).

Sums of iterates, for the average, have closed forms too: with C_t the sum of 1 / P_s and B_t that of A_s / P_s,
the rounds r < s <= t add (P_r abs(w) + A_r) (C_t - C_r) - (B_t - B_r) until the coordinate reaches zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties.forms import Elastic
from spom.solvers.linear.data import Examples, Rows, look_ahead_in
from spom.solvers.linear.problem import Loss, Problem, Rounds, compiled_loss, undo
from spom.solvers.steps import DIAGONAL, FREE, PLAIN

# Columns of the table of coordinates: value, A and P when it was last touched, h, sum of squared gradients,
# largest value so far; then the round of the last touch and the sum of iterates, if averages are kept.
W, A0, P0, H, V, R, T0, SUM = range(8)
# Rows of the clock: the sums of the module docstring, before the first and after each round.
A, P, B, C = range(4)
# Columns of the scratch of a mini-batch: gradients, the list of touched coordinates, the first entry met.
GRADIENT, TOUCHED, ENTRY = range(3)
# P is restarted before it exceeds exp of this.
LOG_RANGE = 200.0


@kernel("float64(float64[:, ::1], int64, float64, float64)")
def value_at(table: Floats, j: int, a: float, p: float) -> float:
    """Return the value of one coordinate at the time with A = a and P = p."""
    w = float(table[j, W])
    if w == 0.0:
        return w
    size = abs(w) - table[j, H] * (a - table[j, A0]) / table[j, P0]
    return 0.0 if size <= 0.0 else float(math.copysign(size, w) * (table[j, P0] / p))


@kernel("void(float64[:, ::1], int64, float64, float64)")
def catch_up(table: Floats, j: int, a: float, p: float) -> None:
    """Bring one coordinate to the time with A = a and P = p."""
    table[j, W] = value_at(table, j, a, p)
    table[j, A0] = a
    table[j, P0] = p


@kernel("void(float64[:, ::1], int64, int64, float64[:, ::1])")
def add_iterates(table: Floats, j: int, t: int, clock: Floats) -> None:
    """Add the values of the rounds after the last touch, up to t, to the sum of iterates; `clock` has A, P, B, C."""
    r = int(table[j, T0])
    table[j, T0] = t
    w = table[j, W]
    if w == 0.0 or t <= r:
        return
    # The last round at which the coordinate is not zero, by bisection, as A increases.
    reach = clock[A, r] + abs(w) * clock[P, r] / table[j, H] if table[j, H] > 0.0 else math.inf
    low, high = r, t
    while low < high:
        middle = (low + high + 1) // 2
        if clock[A, middle] < reach:
            low = middle
        else:
            high = middle - 1
    size = (clock[P, r] * abs(w) + table[j, H] * clock[A, r]) * (clock[C, low] - clock[C, r])
    table[j, SUM] += math.copysign(size - table[j, H] * (clock[B, low] - clock[B, r]), w)


@kernel("void(float64[:, ::1], int64, float64, float64, float64, int64, float64)")
def move(table: Floats, j: int, g: float, x: float, eta: float, mode: int, delta: float) -> None:
    """Take the gradient step of one coordinate, and update its h for the next proxes; x is the entry of g."""
    if g == 0.0:
        return
    if mode == PLAIN:
        table[j, W] -= eta * g
        return
    table[j, V] += g * g
    root = math.sqrt(table[j, V])
    if mode == DIAGONAL:
        table[j, H] = 1.0 / (delta + root)
    else:
        if table[j, R] == 0.0:
            table[j, R] = delta / abs(x)
        table[j, R] = max(table[j, R], abs(table[j, W]))
        table[j, H] = table[j, R] / root
    table[j, W] -= eta * table[j, H] * g


@kernel("void(Examples, int64, int64, float64[:, ::1], float64[:, ::1], float64[::1], Rounds, float64)")
def batch_move(
    rows: Examples, first: int, past: int, table: Floats, grad: Floats, slopes: Floats, rounds: Rounds, eta: float
) -> None:
    """Take the steps of a mini-batch: each of its coordinates moves once; `grad` is zeros, before and after."""
    count = 0
    for place in range(first, past):
        i = rows.order[place]
        shift = rows.indptr[i] if rows.dense else 0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[k - shift]
            x = rows.data[k]
            if x == 0.0:
                continue
            if grad[j, ENTRY] == 0.0:
                grad[j, ENTRY] = x
                grad[count, TOUCHED] = j
                count += 1
            grad[j, GRADIENT] += slopes[place - first] * x
    for e in range(count):
        j = int(grad[e, TOUCHED])
        move(table, j, grad[j, GRADIENT], grad[j, ENTRY], eta, rounds.mode, rounds.delta)
        grad[j, GRADIENT] = 0.0
        grad[j, ENTRY] = 0.0


@kernel("float64(Examples, Rounds, Loss, float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1])")
def lazy_rounds(
    rows: Examples, rounds: Rounds, loss: Loss, clock: Floats, table: Floats, grad: Floats, slopes: Floats
) -> float:
    """Run rounds of `batch` rows each, and return the sum of the losses before each step."""
    total = 0.0
    bias = table.shape[0] - 1
    indptr, indices, data, dense = rows.indptr, rows.indices, rows.data, rows.dense
    batch, mode, delta, intercept, averages = rounds.batch, rounds.mode, rounds.delta, rounds.intercept, rounds.averages
    for t in range(rounds.steps.size):
        first, past = t * batch, min((t + 1) * batch, rows.order.size)
        s = 0.0
        for place in range(first, past):
            i = rows.order[place]
            shift = indptr[i] if dense else 0
            look_ahead_in(rows, place, table)
            score = table[bias, W] if intercept else 0.0
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k - shift]
                if averages:
                    add_iterates(table, j, t, clock)
                catch_up(table, j, clock[A, t], clock[P, t])
                score += data[k] * table[j, W]
            total += rows.weight[i] * loss.value(rows.y[i], score, loss.reals)
            slopes[place - first] = rows.weight[i] * loss.derivative(rows.y[i], score, loss.reals) / (past - first)
            s += slopes[place - first]
        eta = rounds.steps[t]
        if intercept:
            if averages:
                table[bias, SUM] += table[bias, W]
            move(table, bias, s, 1.0, eta, mode, delta)
        if past - first == 1:
            i = rows.order[first]
            shift = indptr[i] if dense else 0
            for k in range(indptr[i], indptr[i + 1]):
                move(table, indices[k - shift], s * data[k], data[k], eta, mode, delta)
        else:
            batch_move(rows, first, past, table, grad, slopes, rounds, eta)
    return total


@kernel("void(float64[:, ::1], int64, float64[:, ::1], boolean)")
def settle(table: Floats, features: int, clock: Floats, averages: bool) -> None:
    """Bring all coordinates to the end of the clock and start a new clock."""
    last = clock.shape[1] - 1
    for j in range(features):
        if averages:
            add_iterates(table, j, last, clock)
            # The iterates of an average are those before each round: the last one belongs to the next part.
            table[j, T0] = 0.0
        catch_up(table, j, clock[A, last], clock[P, last])
        table[j, A0] = 0.0
        table[j, P0] = 1.0
        if averages:
            table[j, SUM] -= table[j, W]


@kernel("void(float64[:, ::1], int64, float64, float64, float64[::1])")
def values_at(table: Floats, features: int, a: float, p: float, out: Floats) -> None:
    """Write the values of the penalised coordinates at the time with A = a and P = p to `out`."""
    for j in range(features):
        out[j] = value_at(table, j, a, p)


def make_clock(l1: float, l2: float, steps: Floats, averages: bool) -> Floats:
    """Return A, P and, for averages, B and C, before the first and after each round."""
    clock = np.zeros((4 if averages else 2, steps.size + 1))
    clock[P] = 1.0
    if l2 > 0:
        np.exp(np.log1p(l2 * steps).cumsum(), out=clock[P, 1:])
    np.cumsum(l1 * steps * clock[P, :-1], out=clock[A, 1:])
    if averages:
        np.cumsum(clock[A, 1:] / clock[P, 1:], out=clock[B, 1:])
        np.cumsum(1.0 / clock[P, 1:], out=clock[C, 1:])
    return clock


def clock_parts(l2: float, steps: Floats) -> Iterator[slice]:
    """Yield rounds in parts short enough for one clock: P must not overflow."""
    if l2 == 0.0:
        yield slice(0, steps.size)
        return
    logs, begin = np.log1p(l2 * steps).cumsum(), 0
    while begin < steps.size:
        base = logs[begin - 1] if begin else 0.0
        end = max(begin + 1, int(np.searchsorted(logs, base + LOG_RANGE, side="right")))
        yield slice(begin, end)
        begin = end


class Lazy:
    """The base of lazy engines: a table with one row per coordinate (or row of a matrix), and the clock of the penalty.

    `clock` covers the rounds since all coordinates were up to date, and `late` is their number.
    """

    def __init__(self, problem: Problem, l1: float, l2: float, columns: int) -> None:
        self.problem, self.strengths, self.rounds = problem, (l1, l2), 0
        self.table = np.zeros((problem.features + 1, columns))
        self._restart()

    def _restart(self) -> None:
        self.clock, self.late = np.array([[0.0], [1.0]]), 0

    def _loop(self, rows: Examples, rounds: Rounds) -> float:
        """Run rounds with the clock; return the sum of the losses."""
        raise NotImplementedError  # implemented by each engine

    def _settle(self) -> None:
        """Bring everything to the end of the clock."""
        raise NotImplementedError  # implemented by each engine

    def _tables(self) -> Arrays:
        """Return the arrays that rounds write."""
        return {"table": self.table}

    def settle(self) -> None:
        """Bring everything up to date."""
        if self.late:
            self._settle()
            self._restart()

    def _rounds(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds and extend the clock; coordinates that no row touches are late."""
        clock, (a, p) = make_clock(*self.strengths, steps, self.problem.averages), self.clock[:2, -1]
        clock[A] = a + p * clock[A]
        clock[P] *= p
        self.clock = clock
        total = self._loop(rows.examples(np.ascontiguousarray(order)), self.problem.rounds(steps))
        self.late += steps.size
        self.rounds += steps.size
        return float(total)

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Run rounds with postponed updates; see `Staying`."""
        if self.problem.averages or float(np.log1p(self.strengths[1] * steps).sum()) > 0.5 * LOG_RANGE:
            return None
        return self._rounds(rows, order, steps)

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """Remember the touched coordinates; see `Staying`."""
        # One pass over all coordinates every few rounds costs little, and keeps A and P small.
        if self.late > self.problem.features or math.log(self.clock[P, -1]) > 0.5 * LOG_RANGE:
            self.settle()
        return undo(self, self._tables(), touched, ("clock", "late", "rounds"))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`, in parts short enough for the clock."""
        self.settle()
        total, size = 0.0, self.problem.batch
        for part in clock_parts(self.strengths[1], steps):
            chosen = order[part.start * size : part.stop * size]
            total += self._rounds(rows, chosen, np.ascontiguousarray(steps[part]))
            self.settle()
        return total

    def _packed_late(self, late: Floats) -> Arrays:
        """Return the late coordinates, and the clock of the rounds that they have missed."""
        return {
            "late": np.ascontiguousarray(late),
            "late.clock": np.array([*self.clock[:2, -1], self.late, *self.strengths]),
        }

    def _late(self, internal: Arrays) -> Floats | None:
        """Return the late coordinates of a saved run; None for another penalty, for which only theta is valid."""
        if "late" not in internal or tuple(internal["late.clock"][3:]) != self.strengths:
            return None
        a, p, late = (float(x) for x in internal["late.clock"][:3])
        self.clock, self.late = np.array([[a], [p]]), int(late)
        return internal["late"]


class LazyVector(Lazy):
    """The engine: one row of numbers for each coordinate."""

    name = "forward-backward, lazy"

    def __init__(self, problem: Problem, form: Elastic) -> None:
        if problem.step.mode != PLAIN and form.l2 > 0:
            raise Unsupported(
                "adaptive steps have no lazy update with a squared l2 term; take update='dual-averaging', a plain "
                "step, or lazy=False"
            )
        super().__init__(problem, *form, columns=8)
        self.table[:, P0] = 1.0
        # Plain steps have h = 1; adaptive steps have h = 0 until the coordinate is met.
        self.table[:, H] = 1.0 if problem.step.mode == PLAIN else 0.0
        self.loss = compiled_loss(problem.loss)
        adaptive = [H, V, R] if problem.step.mode in (DIAGONAL, FREE) else []
        self._saved = adaptive + ([SUM] if problem.averages else [])
        # Scratch of mini-batches: zeros between rounds.
        self._grad = np.zeros((problem.features if problem.batch > 1 else 0, 3))
        self._slopes = np.empty(problem.batch)

    def _loop(self, rows: Examples, rounds: Rounds) -> float:
        if self.problem.averages:
            self.table[: self.problem.features, SUM] += self.table[: self.problem.features, W]
        return float(lazy_rounds(rows, rounds, self.loss, self.clock, self.table, self._grad, self._slopes))

    def _settle(self) -> None:
        settle(self.table, self.problem.features, self.clock, self.problem.averages)

    def theta(self) -> Floats:
        """Return the iterate."""
        found = self.table[: self.problem.shape[0], W].copy()
        if self.late:
            values_at(self.table, self.problem.features, self.clock[A, -1], self.clock[P, -1], found)
        return found

    def average(self) -> Floats:
        """Return the mean of the iterates before each round."""
        return np.asarray(self.table[: self.problem.shape[0], SUM] / max(1, self.rounds))

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        packed = {"rounds": np.array(self.rounds)}
        if self._saved:
            packed["columns"] = np.ascontiguousarray(self.table[:, self._saved])
        return packed | self._packed_late(self.table[:, [W, A0, P0]]) if self.late else packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.table[: self.problem.shape[0], W] = theta
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
        if "columns" in internal:
            self.table[:, self._saved] = internal["columns"]
        late = self._late(internal)
        if late is not None:
            self.table[:, [W, A0, P0]] = late
