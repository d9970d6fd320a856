r"""Dual averaging (Xiao 2010) and its AdaGrad form: theta from the sum of all gradients, with the penalty whole.

    theta_{t+1} = argmin  <G_t, w> + S_t Omega(w) + beta_t/2 norm2(w - theta_1)^2,

with G_t the sum of eta_s g_s, S_t that of eta_s. The gradients' noise averages out before the threshold sees it,
so coordinates and blocks whose mean gradient is below the strength stay at exactly zero, where the last iterate
of forward-backward steps flickers. Nothing has to be caught up with: theta_j is a function of G_j and the time.

Rules: a plain rule eta_t is read as the weight eta_t = 1 and beta_t = 1 / eta_t, so that `InverseSqrt(eta0)` is
Xiao's beta_t = sqrt(t) / eta0; AdaGrad has beta_tj = (delta + sqrt(sum of g_sj^2)) / eta0. `"auto"` weights round t
by the largest distance r_t so far and has beta_t = sqrt(sum of squared gradients), so that a late and large r_t
does not make old gradients larger; where the penalty is l1 and squared l2, each coordinate has its own r and sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.solvers.linear.data import ROWS, Rows, not_lazy, too_wide
from spom.solvers.linear.eager import batch_gradient
from spom.solvers.linear.full_update import Arrays, _Full
from spom.solvers.linear.lazy_vector import FIRST
from spom.solvers.linear.scores import LOSS, loss_arguments
from spom.solvers.steps import FREE, PLAIN, AdaGrad, Step

# Columns of the table of coordinates: sum of weighted gradients, sum of their squares, largest value so far, and
# the sum of weights up to the round in the last column; with fixed weights of one that sum is the time itself.
G, V, R, S, T0 = range(5)


@kernel("float64(float64[:, ::1], int64, float64, float64, float64, float64, int64, float64)")
def point(table: Floats, j: int, count: float, beta: float, l1: float, l2: float, mode: int, delta: float) -> float:
    """theta_j after `count` rounds: -soft(G_j, l1 S) / (beta_j + l2 S)."""
    g = table[j, 0]
    weight = table[j, 3] + table[j, 2] * (count - table[j, 4]) if mode == 2 else count
    size = abs(g) - weight * l1
    if size <= 0.0:
        return 0.0
    if mode == 1:
        beta *= delta + math.sqrt(table[j, 1])
    elif mode == 2:
        beta *= math.sqrt(table[j, 1])
    return -math.copysign(size / (beta + weight * l2), g)


@kernel("void(float64[:, ::1], int64, float64, float64, float64, float64, int64, float64)")
def collect(table: Floats, j: int, g: float, x: float, w: float, count: float, mode: int, delta: float) -> None:
    """Add one gradient to the sums of a coordinate whose value is w; x is the entry that it comes from."""
    if mode == 2:
        table[j, 3] += table[j, 2] * (count - table[j, 4])
        table[j, 4] = count
        if table[j, 2] == 0.0:
            table[j, 2] = delta / abs(x)
        table[j, 2] = max(table[j, 2], abs(w))
        table[j, 0] += table[j, 2] * g
    else:
        table[j, 0] += g
    table[j, 1] += g * g


@kernel(
    f"float64({ROWS}, int64, float64[::1], int64, float64[:, ::1], float64, float64, int64, float64, boolean, "
    f"float64[::1], float64[::1], {LOSS})"
)
def averaging_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    batch: int,
    betas: Floats,
    done: int,
    table: Floats,
    l1: float,
    l2: float,
    mode: int,
    delta: float,
    intercept: bool,
    slopes: Floats,
    grad: Floats,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """Rounds of `batch` rows each after `done` earlier ones; betas[t] is the one with which round t reads theta."""
    total = 0.0
    bias = table.shape[0] - 1
    for t in range(betas.size):
        first, past = t * batch, min((t + 1) * batch, order.size)
        count = float(done + t)
        beta = betas[t]
        for place in range(first, past):
            i = order[place]
            shift = indptr[i] if dense else 0
            a = point(table, bias, count, beta, 0.0, 0.0, mode, delta) if intercept else 0.0
            for k in range(indptr[i], indptr[i + 1]):
                a += data[k] * point(table, indices[k - shift], count, beta, l1, l2, mode, delta)
            total += weight[i] * value(y[i], a, reals)
            slopes[place - first] = weight[i] * derivative(y[i], a, reals) / (past - first)
        for place in range(first, past):
            i = order[place]
            shift = indptr[i] if dense else 0
            s = slopes[place - first]
            if s == 0.0:
                continue
            for k in range(indptr[i], indptr[i + 1]):
                grad[indices[k - shift]] += s * data[k]
            if intercept:
                grad[bias] += s
        # A coordinate that several rows of the batch have is taken once: its gradient is zero afterwards.
        for place in range(first, past):
            i = order[place]
            shift = indptr[i] if dense else 0
            for k in range(indptr[i], indptr[i + 1] + 1):
                last = k == indptr[i + 1]
                j = bias if last else indices[k - shift]
                if grad[j] == 0.0:
                    continue
                w = point(table, j, count, beta, 0.0 if last else l1, 0.0 if last else l2, mode, delta)
                collect(table, j, grad[j], 1.0 if last else data[k], w, count, mode, delta)
                grad[j] = 0.0
    return total


class AveragingVector:
    """Dual averaging for one score an example with l1 and squared l2: sparse rows cost what they have."""

    name = "dual averaging, lazy"

    def __init__(self, loss: Any, l1: float, l2: float, features: int, intercept: bool, step: Step, batch: int) -> None:
        self.loss, self.l1, self.l2, self.features, self.intercept = loss_arguments(loss), l1, l2, features, intercept
        self.step, self.batch, self.rounds, self.beta = step, batch, 0, 1.0
        self.delta = step.delta if isinstance(step, AdaGrad) else FIRST
        self.table = np.zeros((features + 1, 5))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        # Round t reads the theta that rounds before it made, so its beta is that of the round before.
        betas = np.concatenate([[self.beta], 1.0 / steps])
        arguments = (
            *(*rows.arguments(order), self.batch, np.ascontiguousarray(betas[:-1]), self.rounds, self.table),
            *(self.l1, self.l2, self.step.mode, self.delta, self.intercept),
            *(np.empty(self.batch), np.zeros(self.features + 1), *self.loss),
        )
        total = float(averaging_rounds(*arguments))
        self.rounds += steps.size
        self.beta = float(betas[-1])
        return total

    def theta(self) -> Floats:
        """-soft(G, t l1) / (beta + t l2)."""
        g, squares, largest, weights, last = self.table.T
        total = np.full(g.size, float(self.rounds))
        beta = np.full(g.size, self.beta)
        if self.step.mode == FREE:
            total = weights + largest * (self.rounds - last)
            beta = self.beta * np.sqrt(squares)
        elif self.step.mode != PLAIN:
            beta = self.beta * (self.delta + np.sqrt(squares))
        total[-1] = 0.0
        size = np.maximum(np.abs(g) - total * self.l1, 0.0)
        beta = beta + total * self.l2
        theta = -np.copysign(np.divide(size, beta, out=np.zeros_like(size), where=size > 0), g)
        return np.ascontiguousarray(theta[: self.features + self.intercept]) + 0.0

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        return {"table": self.table.copy(), "clock": np.array([float(self.rounds), self.beta])}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Go on from a saved run; dual averaging cannot start from a point alone."""
        if "table" not in internal:
            raise Unsupported("dual averaging goes on from its own states, not from those of another update")
        self.table = internal["table"].copy()
        self.rounds, self.beta = int(internal["clock"][0]), float(internal["clock"][1])


class AveragingFull(_Full):
    """Dual averaging with any penalty that has a prox: one full prox a round, one step for all coordinates."""

    name = "dual averaging, eager"

    def __init__(
        self, loss: Any, penalty: Any, shape: tuple[int, ...], intercept: bool, step: Step, batch: int, averages: bool
    ) -> None:
        super().__init__(loss, shape, intercept, step, batch, averages)
        self.penalty = penalty
        self.penalised = (self.features, *shape[1:])
        self.grad = np.zeros_like(self.table)
        self.total = np.zeros_like(self.table)
        self.weights = 0.0

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        loss = 0.0
        arguments = rows.arguments(order)
        for t, eta in enumerate(steps):
            first, past = t * self.batch, min((t + 1) * self.batch, order.size)
            if self.averages:
                self.mean += self.table
            rest = (first, past, self.table, self.grad, self.intercept, *self.losses)
            loss += batch_gradient(*(*arguments, *rest))
            self._point(*self._weigh(float(eta), rows, int(order[first])))
            self.rounds += 1
        return loss

    def _weigh(self, eta: float, rows: Rows, i: int) -> tuple[float, float]:
        """The weight of this round and 1 / beta_t."""
        if self.step.mode == PLAIN:
            return 1.0, eta
        self.sums[0] += float(np.vdot(self.grad, self.grad))
        if self.sums[1] == 0.0:
            entries = rows.data[rows.indptr[i] : rows.indptr[i + 1]]
            self.sums[1] = self.delta / math.sqrt(1.0 + float(entries @ entries))
        self.sums[1] = max(self.sums[1], float(np.linalg.norm(self.table - self.start)))
        root = math.sqrt(self.sums[0])
        if self.step.mode == FREE:
            return float(self.sums[1]), eta / root if root > 0.0 else 0.0
        return 1.0, eta / (self.delta + root)

    def _point(self, weight: float, rate: float) -> None:
        self.total += weight * self.grad
        self.weights += weight
        moved = self.start - rate * self.total
        w = np.ascontiguousarray(moved[: self.features]).reshape(self.penalised)
        self.table[:] = moved
        self.table[: self.features] = self.penalty.prox(w, rate * self.weights).reshape(self.features, -1)

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        return {**super().pack(), "total": self.total.copy(), "weights": np.array(self.weights)}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Go on from a saved run, or start at a point."""
        super().unpack(theta, internal)
        if "total" in internal:
            self.total, self.weights = internal["total"].copy(), float(internal["weights"])


def dual_averaging(problem: Any, rows: Rows, parts: tuple[float, float] | None) -> Any:
    """The engine for a problem with `update="dual-averaging"`."""
    p = problem
    if p.mirror is not None or p.projection is not None:
        raise Unsupported("dual averaging is Euclidean and does not project; take update='forward-backward'")
    if getattr(p.penalty, "exact", True) is False:
        raise Unsupported(f"dual averaging needs the exact prox of the whole penalty, and {p.penalty!r} has none")
    if parts is not None and len(p.shape) == 1 and not p.averages and p.lazy is not False:
        return AveragingVector(p.loss, *parts, p.shape[0] - p.intercept, p.intercept, p.step, p.batch)
    if p.lazy is True or (p.lazy is None and too_wide(rows) and p.batch < len(rows)):
        raise not_lazy(p.penalty, rows)
    return AveragingFull(p.loss, p.penalty, p.shape, p.intercept, p.step, p.batch, p.averages)
