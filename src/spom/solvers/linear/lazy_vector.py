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
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.solvers.linear.data import ROWS, Rows
from spom.solvers.linear.scores import LOSS, loss_arguments
from spom.solvers.steps import DIAGONAL, FREE, PLAIN, AdaGrad, Step

# Columns of the table of coordinates: value, A and P when it was last touched, h, sum of squared gradients,
# largest value so far; then the round of the last touch and the sum of iterates, where averages are kept.
W, A0, P0, H, V, R, T0, SUM = range(8)
# P is started afresh before it gets larger than exp of this.
LOG_RANGE = 200.0
# The first step of a parameter-free run moves a feature's part of the score by this much.
FIRST = 1e-2


@kernel("void(float64[:, ::1], int64, float64, float64)")
def catch_up(table: Floats, j: int, a: float, p: float) -> None:
    """Bring one coordinate to the time with A = a and P = p."""
    w = table[j, 0]
    if w != 0.0:
        cut = table[j, 3] * (a - table[j, 1]) / table[j, 2]
        size = abs(w) - cut
        table[j, 0] = 0.0 if size <= 0.0 else math.copysign(size, w) * (table[j, 2] / p)
    table[j, 1] = a
    table[j, 2] = p


@kernel("void(float64[:, ::1], int64, int64, float64[:, ::1])")
def add_iterates(table: Floats, j: int, t: int, clock: Floats) -> None:
    """Add the values of rounds after the last touch, up to t, to the sum of iterates; `clock` has A, P, B, C."""
    r = int(table[j, 6])
    table[j, 6] = t
    w = table[j, 0]
    if w == 0.0 or t <= r:
        return
    # The last round at which the coordinate is not zero, by bisection: A rises.
    reach = clock[0, r] + abs(w) * clock[1, r] / table[j, 3] if table[j, 3] > 0.0 else math.inf
    low, high = r, t
    while low < high:
        middle = (low + high + 1) // 2
        if clock[0, middle] < reach:
            low = middle
        else:
            high = middle - 1
    size = (clock[1, r] * abs(w) + table[j, 3] * clock[0, r]) * (clock[3, low] - clock[3, r])
    table[j, 7] += math.copysign(size - table[j, 3] * (clock[2, low] - clock[2, r]), w)


@kernel("void(float64[:, ::1], int64, float64, float64, float64, int64, float64)")
def move(table: Floats, j: int, g: float, x: float, eta: float, mode: int, delta: float) -> None:
    """The gradient step of one coordinate, and its h for the proxes to come; x is the entry that g belongs to."""
    if g == 0.0:
        return
    if mode == 0:
        table[j, 0] -= eta * g
        return
    table[j, 4] += g * g
    root = math.sqrt(table[j, 4])
    if mode == 1:
        table[j, 3] = 1.0 / (delta + root)
    else:
        if table[j, 5] == 0.0:
            table[j, 5] = delta / abs(x)
        table[j, 5] = max(table[j, 5], abs(table[j, 0]))
        table[j, 3] = table[j, 5] / root
    table[j, 0] -= eta * table[j, 3] * g


@kernel(
    f"float64({ROWS}, int64, float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, float64, "
    f"boolean, boolean, float64[::1], {LOSS})"
)
def lazy_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    batch: int,
    steps: Floats,
    clock: Floats,
    table: Floats,
    grad: Floats,
    mode: int,
    delta: float,
    intercept: bool,
    averages: bool,
    slopes: Floats,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """Rounds of `batch` rows each, in `order`; returns the sum of the losses before each step.

    `grad` is scratch for mini-batches: column 0 the gradient, column 1 the list of touched coordinates.
    """
    total = 0.0
    bias = table.shape[0] - 1
    for t in range(steps.size):
        first, past = t * batch, min((t + 1) * batch, order.size)
        a_t, p_t = clock[0, t], clock[1, t]
        for place in range(first, past):
            i = order[place]
            shift = indptr[i] if dense else 0
            score = table[bias, 0] if intercept else 0.0
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k - shift]
                if averages:
                    add_iterates(table, j, t, clock)
                catch_up(table, j, a_t, p_t)
                score += data[k] * table[j, 0]
            total += weight[i] * value(y[i], score, reals)
            slopes[place - first] = weight[i] * derivative(y[i], score, reals) / (past - first)
        eta = steps[t]
        if intercept:
            if averages:
                table[bias, 7] += table[bias, 0]
            s = 0.0
            for b in range(past - first):
                s += slopes[b]
            move(table, bias, s, 1.0, eta, mode, delta)
        if past - first == 1:
            i = order[first]
            shift = indptr[i] if dense else 0
            s = slopes[0]
            for k in range(indptr[i], indptr[i + 1]):
                move(table, indices[k - shift], s * data[k], data[k], eta, mode, delta)
            continue
        count = 0
        for place in range(first, past):
            i = order[place]
            shift = indptr[i] if dense else 0
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k - shift]
                if data[k] == 0.0:
                    continue
                if grad[j, 2] == 0.0:
                    grad[j, 2] = data[k]
                    grad[count, 1] = j
                    count += 1
                grad[j, 0] += slopes[place - first] * data[k]
        for e in range(count):
            j = int(grad[e, 1])
            move(table, j, grad[j, 0], grad[j, 2], eta, mode, delta)
            grad[j, 0] = 0.0
            grad[j, 2] = 0.0
    return total


@kernel("void(float64[:, ::1], int64, float64[:, ::1], boolean)")
def settle(table: Floats, features: int, clock: Floats, averages: bool) -> None:
    """Bring all coordinates to the end of the clock and start a new one."""
    last = clock.shape[1] - 1
    for j in range(features):
        if averages:
            add_iterates(table, j, last, clock)
            # The iterates of an average are those before each round: the last one belongs to the next part.
            table[j, 6] = 0.0
        catch_up(table, j, clock[0, last], clock[1, last])
        table[j, 1] = 0.0
        table[j, 2] = 1.0
        if averages:
            table[j, 7] -= table[j, 0]


class LazyVector:
    """The engine: one row of numbers for each coordinate, and the clock of the penalty."""

    name = "forward-backward, lazy"

    def __init__(
        self, loss: Any, l1: float, l2: float, features: int, intercept: bool, step: Step, batch: int, averages: bool
    ) -> None:
        if step.mode != PLAIN and l2 > 0:
            raise Unsupported(
                "adaptive steps have no lazy update with a squared l2 term; take update='dual-averaging', a plain "
                "step, or lazy=False"
            )
        self.l1, self.l2, self.features, self.intercept = l1, l2, features, intercept
        self.loss, self.step, self.batch, self.averages = loss_arguments(loss), step, batch, averages
        self.delta = step.delta if isinstance(step, AdaGrad) else FIRST
        self.table = np.zeros((features + 1, 8))
        self.table[:, P0] = 1.0
        # Plain steps have h = 1; an adaptive one has none until the coordinate is met, and its value is zero.
        self.table[:, H] = 1.0 if step.mode == PLAIN else 0.0
        self.rounds = 0

    def _clock(self, steps: Floats) -> Floats:
        """A, P and, for averages, B and C, before the first and after each round."""
        clock = np.zeros((4 if self.averages else 2, steps.size + 1))
        clock[1] = 1.0
        if self.l2 > 0:
            np.exp(np.log1p(self.l2 * steps).cumsum(), out=clock[1, 1:])
        np.cumsum(self.l1 * steps * clock[1, :-1], out=clock[0, 1:])
        if self.averages:
            np.cumsum(clock[0, 1:] / clock[1, 1:], out=clock[2, 1:])
            np.cumsum(1.0 / clock[1, 1:], out=clock[3, 1:])
        return clock

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`, in parts short enough for the clock."""
        total, size = 0.0, self.batch
        wide = size > 1
        grad = np.zeros((self.features if wide else 0, 3))
        slopes = np.empty(size)
        logs = np.log1p(self.l2 * steps).cumsum() if self.l2 > 0 else np.zeros(steps.size)
        begin = 0
        while begin < steps.size:
            base = logs[begin - 1] if begin else 0.0
            end = max(begin + 1, int(np.searchsorted(logs, base + LOG_RANGE, side="right"))) if self.l2 else steps.size
            part = np.ascontiguousarray(order[begin * size : end * size])
            clock, sizes = self._clock(steps[begin:end]), np.ascontiguousarray(steps[begin:end])
            if self.averages:
                self.table[: self.features, SUM] += self.table[: self.features, W]
            arguments = (
                *(*rows.arguments(part), size, sizes, clock, self.table, grad, self.step.mode, self.delta),
                *(self.intercept, self.averages, slopes, *self.loss),
            )
            total += lazy_rounds(*arguments)
            settle(self.table, self.features, clock, self.averages)
            begin = end
        self.rounds += steps.size
        return float(total)

    # --- what a state holds --------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        return self.features + self.intercept

    def theta(self) -> Floats:
        """The iterate."""
        return self.table[: self._size, W].copy()

    def average(self) -> Floats:
        """The mean of the iterates before each round."""
        return np.asarray(self.table[: self._size, SUM] / max(1, self.rounds))

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to go on."""
        columns = ([H, V, R] if self.step.mode in (DIAGONAL, FREE) else []) + ([SUM] if self.averages else [])
        packed = {"rounds": np.array(self.rounds)}
        if columns:
            packed["columns"] = np.ascontiguousarray(self.table[:, columns])
        return packed

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a saved run, or from a point alone."""
        self.table[: self._size, W] = theta
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
        if "columns" in internal:
            columns = ([H, V, R] if self.step.mode in (DIAGONAL, FREE) else []) + ([SUM] if self.averages else [])
            self.table[:, columns] = internal["columns"]
