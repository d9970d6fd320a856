r"""Forward-backward steps for several scores: theta is a matrix, and a sparse example touches a few of its rows.

The penalties are those whose skipped steps have a closed form on a row: l1 and squared l2 on its entries (as in
`lazy_vector`), and the sum over rows of their l2 or l-inf norms, for which one prox with the sum of the steps is the
same as one prox after another (Prop. 4 of FOBOS). Adaptive steps have one sum of squared gradients for each row, so
that the prox in that metric stays the one of the row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, kernel
from spom.penalties import Penalty
from spom.solvers.linear.data import ROWS, Rows
from spom.solvers.linear.lazy_vector import FIRST, LOG_RANGE
from spom.solvers.pointers import pointer
from spom.solvers.steps import PLAIN, AdaGrad, Step

ENTRIES, L2_ROWS, LINF_ROWS = 0, 1, 2
# Columns of the table beside theta: A and P at the last touch, h, sum of squared gradients, largest norm so far.
A0, P0, H, V, R = range(5)


def row_penalty(penalty: Penalty, rows: int) -> tuple[int, float, float, Floats] | None:
    """(kind, l1 or row strength, l2, weights of rows) where the penalty is one that rows can be late for."""
    elastic, norms = penalty.elastic(), penalty.norm_sum(rows)
    if elastic is not None:
        return ENTRIES, elastic.l1, elastic.l2, np.zeros(0)
    if norms is None or norms.l2 > 0.0:
        return None
    return (L2_ROWS if norms.order == 2.0 else LINF_ROWS), norms.strength, 0.0, norms.weights


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
    cut = weight * table[j, 2] * (a - table[j, 0]) / table[j, 1]
    ratio = table[j, 1] / p
    table[j, 0] = a
    table[j, 1] = p
    if cut == 0.0 and ratio == 1.0:
        return
    if kind == 0:
        for c in range(theta.shape[1]):
            size = abs(theta[j, c]) - cut
            theta[j, c] = 0.0 if size <= 0.0 else math.copysign(size, theta[j, c]) * ratio
        return
    if kind == 2:
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
    if mode != 0:
        squared = 0.0
        norm = 0.0
        for c in range(g.size):
            squared += g[c] * g[c]
            norm += theta[j, c] * theta[j, c]
        if squared == 0.0 or x == 0.0:
            return
        table[j, 3] += x * x * squared
        root = math.sqrt(table[j, 3])
        if mode == 1:
            table[j, 2] = 1.0 / (delta + root)
        else:
            if table[j, 4] == 0.0:
                table[j, 4] = delta / abs(x)
            table[j, 4] = max(table[j, 4], math.sqrt(norm))
            table[j, 2] = table[j, 4] / root
        step = eta * table[j, 2]
    for c in range(g.size):
        theta[j, c] -= step * x * g[c]


@kernel(
    f"float64({ROWS}, float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, float64[::1], int64, "
    f"float64, boolean, FunctionType({DERIVATIVE_ROW}), float64[::1])"
)
def row_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    steps: Floats,
    clock: Floats,
    theta: Floats,
    table: Floats,
    kind: int,
    weights: Floats,
    mode: int,
    delta: float,
    intercept: bool,
    loss: Any,
    reals: Floats,
) -> float:
    """One round for each row of data in `order`; returns the sum of the losses before each step."""
    total = 0.0
    bias = theta.shape[0] - 1
    scores = np.empty(theta.shape[1])
    slopes = np.empty(theta.shape[1])
    for t in range(order.size):
        i = order[t]
        shift = indptr[i] if dense else 0
        for c in range(scores.size):
            scores[c] = theta[bias, c] if intercept else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            catch_up_row(theta, table, j, kind, weights[j] if weights.size else 1.0, clock[0, t], clock[1, t])
            for c in range(scores.size):
                scores[c] += data[k] * theta[j, c]
        total += weight[i] * loss(int(y[i]), scores, reals, slopes)
        for c in range(slopes.size):
            slopes[c] *= weight[i]
        for k in range(indptr[i], indptr[i + 1]):
            move_row(theta, table, indices[k - shift], slopes, data[k], steps[t], mode, delta)
        if intercept:
            move_row(theta, table, bias, slopes, 1.0, steps[t], mode, delta)
    last = clock.shape[1] - 1
    for j in range(bias):
        catch_up_row(theta, table, j, kind, weights[j] if weights.size else 1.0, clock[0, last], clock[1, last])
        table[j, 0] = 0.0
        table[j, 1] = 1.0
    return total


class LazyRows:
    """The engine for several scores: theta, a table with one line a row, and the clock of the penalty."""

    name = "forward-backward, lazy rows"
    batch = 1

    def __init__(
        self, loss: Any, kind: tuple[int, float, float, Floats], shape: tuple[int, ...], intercept: bool, step: Step
    ) -> None:
        row, self.reals = loss.compiled()
        self.loss = pointer(row)
        self.kind, self.strength, self.l2, self.weights = kind
        self.shape, self.intercept, self.step = shape, intercept, step
        features = shape[0] - intercept
        self.matrix = np.zeros((features + 1, shape[1]))
        self.table = np.zeros((features + 1, 5))
        self.table[:, P0] = 1.0
        self.table[:, H] = 1.0 if step.mode == PLAIN else 0.0
        self.delta = step.delta if isinstance(step, AdaGrad) else FIRST
        self.rounds = 0

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`, in parts short enough for the clock."""
        total, begin = 0.0, 0
        logs = np.log1p(self.l2 * steps).cumsum()
        while begin < steps.size:
            base = logs[begin - 1] if begin else 0.0
            end = max(begin + 1, int(np.searchsorted(logs, base + LOG_RANGE, side="right"))) if self.l2 else steps.size
            sizes = np.ascontiguousarray(steps[begin:end])
            clock = np.zeros((2, sizes.size + 1))
            clock[1] = np.exp(np.append(0.0, np.log1p(self.l2 * sizes).cumsum()))
            np.cumsum(self.strength * sizes * clock[1, :-1], out=clock[0, 1:])
            arguments = (
                *(*rows.arguments(np.ascontiguousarray(order[begin:end])), sizes, clock, self.matrix, self.table),
                *(self.kind, self.weights, self.step.mode, self.delta, self.intercept, self.loss, self.reals),
            )
            total += row_rounds(*arguments)
            begin = end
        self.rounds += steps.size
        return float(total)

    def theta(self) -> Floats:
        """The iterate."""
        return self.matrix[: self.shape[0]].copy()

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to go on."""
        return {"table": self.table.copy(), "rounds": np.array(self.rounds)}

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a saved run, or from a point alone."""
        self.matrix[: self.shape[0]] = theta
        if "table" in internal:
            self.table, self.rounds = internal["table"].copy(), int(internal["rounds"])
