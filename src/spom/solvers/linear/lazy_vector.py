r"""Forward-backward steps that cost what a sparse row costs: l1 and squared l2, with plain or adaptive steps.

A round takes w <- w - eta g and then the prox of eta (l1 norm1 + l2/2 norm2^2). A coordinate in which no row
has an entry for a while sees proxes alone, and they have a closed form. With P_t the product of (1 + l2 eta_s)
and A_t the sum of l1 eta_s P_{s-1}, both up to round t, a coordinate left at round r has at round t the value

    soft(w, (A_t - A_r) / P_r) P_r / P_t,

so it is only brought up to date when a row needs it, and at the end. With adaptive steps eta_t h_j, where h_j
moves only in rounds that touch coordinate j, the same holds for l1 with the threshold h_j (A_t - A_r).

Sums of iterates, for the average, have closed forms too: with C_t the sum of 1 / P_s and B_t that of A_s / P_s,
the rounds r < s <= t add (P_r abs(w) + A_r) (C_t - C_r) - (B_t - B_r) up to where the coordinate reaches zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties.forms import Elastic
from spom.solvers.linear.data import Examples, Rows, look_ahead_in
from spom.solvers.linear.problem import Arrays, Loss, Problem, Rounds, compiled_loss, undo
from spom.solvers.steps import DIAGONAL, FREE, PLAIN

# Columns of the table of coordinates: value, A and P when it was last touched, h, sum of squared gradients,
# largest value so far; then the round of the last touch and the sum of iterates, where averages are kept.
W, A0, P0, H, V, R, T0, SUM = range(8)
# Rows of the clock: the sums of the module's text, before the first and after each round.
A, P, B, C = range(4)
# Columns of the scratch of a mini-batch: gradients, the list of touched coordinates, the entry first met.
GRADIENT, TOUCHED, ENTRY = range(3)
# P is started afresh before it gets larger than exp of this.
LOG_RANGE = 200.0


@kernel("float64(float64[:, ::1], int64, float64, float64)")
def value_at(table: Floats, j: int, a: float, p: float) -> float:
    """The value of one coordinate at the time with A = a and P = p."""
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
    """Add the values of rounds after the last touch, up to t, to the sum of iterates; `clock` has A, P, B, C."""
    r = int(table[j, T0])
    table[j, T0] = t
    w = table[j, W]
    if w == 0.0 or t <= r:
        return
    # The last round at which the coordinate is not zero, by bisection: A rises.
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
    """The gradient step of one coordinate, and its h for the proxes to come; x is the entry that g belongs to."""
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
    """The steps of a mini-batch: each coordinate that it has moves once; `grad` is zeros, and stays so."""
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
    """Rounds of `batch` rows each; returns the sum of the losses before each step."""
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
    """Bring all coordinates to the end of the clock and start a new one."""
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
    """The values of the penalised coordinates at the time with A = a and P = p."""
    for j in range(features):
        out[j] = value_at(table, j, a, p)


def make_clock(l1: float, l2: float, steps: Floats, averages: bool) -> Floats:
    """A, P and, for averages, B and C, before the first and after each round."""
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
    """Rounds in parts short enough for one clock: P must not overflow."""
    if l2 == 0.0:
        yield slice(0, steps.size)
        return
    logs, begin = np.log1p(l2 * steps).cumsum(), 0
    while begin < steps.size:
        base = logs[begin - 1] if begin else 0.0
        end = max(begin + 1, int(np.searchsorted(logs, base + LOG_RANGE, side="right")))
        yield slice(begin, end)
        begin = end


class LazyVector:
    """The engine: one row of numbers for each coordinate, and the clock of the penalty."""

    name = "forward-backward, lazy"

    def __init__(self, problem: Problem, form: Elastic) -> None:
        if problem.step.mode != PLAIN and form.l2 > 0:
            raise Unsupported(
                "adaptive steps have no lazy update with a squared l2 term; take update='dual-averaging', a plain "
                "step, or lazy=False"
            )
        self.problem, self.form, self.loss = problem, form, compiled_loss(problem.loss)
        self.batch, self.rounds = problem.batch, 0
        self.table = np.zeros((problem.features + 1, 8))
        self.table[:, P0] = 1.0
        # Plain steps have h = 1; an adaptive one has none until the coordinate is met, and its value is zero.
        self.table[:, H] = 1.0 if problem.step.mode == PLAIN else 0.0
        adaptive = [H, V, R] if problem.step.mode in (DIAGONAL, FREE) else []
        self._saved = adaptive + ([SUM] if problem.averages else [])
        # A and P now, and the rounds since all coordinates were brought up to date.
        self.a, self.p, self.late = 0.0, 1.0, 0
        # Scratch of mini-batches: zeros between two rounds.
        self._grad = np.zeros((problem.features if problem.batch > 1 else 0, 3))

    def settle(self) -> None:
        """Bring all coordinates up to date."""
        if self.late:
            settle(self.table, self.problem.features, np.array([[self.a], [self.p]]), False)
            self.a, self.p, self.late = 0.0, 1.0, 0

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Rounds that leave the coordinates that no row has for later; see `Staying`."""
        if self.problem.averages or float(np.log1p(self.form.l2 * steps).sum()) > 0.5 * LOG_RANGE:
            return None
        clock = make_clock(self.form.l1, self.form.l2, steps, False)
        clock[A] = self.a + self.p * clock[A]
        clock[P] *= self.p
        rounds, slopes = self.problem.rounds(steps), np.empty(self.batch)
        total = lazy_rounds(rows.examples(order), rounds, self.loss, clock, self.table, self._grad, slopes)
        self.a, self.p = float(clock[A, -1]), float(clock[P, -1])
        self.late += steps.size
        self.rounds += steps.size
        return float(total)

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """See `Staying`."""
        # One pass over all coordinates every few rounds costs little, and keeps A and P small.
        if self.late > self.problem.features or math.log(self.p) > 0.5 * LOG_RANGE:
            self.settle()
        return undo(self, {"table": self.table}, touched, ("a", "p", "late", "rounds"))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`, in parts short enough for the clock."""
        self.settle()
        total, size, problem = 0.0, self.batch, self.problem
        features, averages = problem.features, problem.averages
        slopes = np.empty(size)
        for part in clock_parts(self.form.l2, steps):
            chosen = np.ascontiguousarray(order[part.start * size : part.stop * size])
            sizes = np.ascontiguousarray(steps[part])
            clock = make_clock(self.form.l1, self.form.l2, sizes, averages)
            if averages:
                self.table[:features, SUM] += self.table[:features, W]
            rounds = problem.rounds(sizes)
            total += lazy_rounds(rows.examples(chosen), rounds, self.loss, clock, self.table, self._grad, slopes)
            settle(self.table, features, clock, averages)
        self.rounds += steps.size
        return float(total)

    def theta(self) -> Floats:
        """The iterate."""
        found = self.table[: self.problem.shape[0], W].copy()
        if self.late:
            values_at(self.table, self.problem.features, self.a, self.p, found)
        return found

    def average(self) -> Floats:
        """The mean of the iterates before each round."""
        return np.asarray(self.table[: self.problem.shape[0], SUM] / max(1, self.rounds))

    def pack(self) -> Arrays:
        """What a saved run needs to resume."""
        packed = {"rounds": np.array(self.rounds)}
        if self._saved:
            packed["columns"] = np.ascontiguousarray(self.table[:, self._saved])
        if self.late:
            packed["late"] = np.ascontiguousarray(self.table[:, [W, A0, P0]])
            packed["late.clock"] = np.array([self.a, self.p, self.late, *self.form])
        return packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.table[: self.problem.shape[0], W] = theta
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
        if "columns" in internal:
            self.table[:, self._saved] = internal["columns"]
        # What was late for another penalty is not late for this one: theta is up to date.
        if "late" in internal and tuple(internal["late.clock"][3:]) == tuple(self.form):
            self.table[:, [W, A0, P0]] = internal["late"]
            self.a, self.p, late = (float(x) for x in internal["late.clock"][:3])
            self.late = int(late)
