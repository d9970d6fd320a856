r"""Dual averaging (Xiao 2010) and its AdaGrad form: theta from the sum of all gradients, with the whole penalty.

    theta_{t+1} = argmin  <G_t, w> + S_t Omega(w) + beta_t/2 norm2(w - theta_1)^2,

with G_t the sum of eta_s g_s and S_t that of eta_s. The noise of the gradients averages out before the threshold is
applied. So coordinates and blocks whose mean gradient is below the strength stay exactly zero, while the last iterate
of forward-backward steps fluctuates. Nothing needs to be caught up: theta_j is a function of G_j and the time.

Rules: a plain rule eta_t is read as the weight eta_t = 1 and beta_t = 1 / eta_t, so that `InverseSqrt(eta0)` is
Xiao's beta_t = sqrt(t) / eta0; AdaGrad has beta_tj = (delta + sqrt(sum of g_sj^2)) / eta0. `"auto"` weights round t
by the largest distance r_t so far, and has beta_t = sqrt(sum of squared gradients), so a late and large r_t
does not make old gradients larger. If the penalty is l1 and squared l2, each coordinate has its own r and sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties.forms import Elastic
from spom.solvers.linear.data import Examples, Rows, look_ahead_in, not_lazy, too_wide
from spom.solvers.linear.full_update import DISTANCE, FullUpdate
from spom.solvers.linear.problem import Engine, Loss, Problem, Rounds, compiled_loss, undo
from spom.solvers.steps import DIAGONAL, FREE, PLAIN

# Columns of the table of coordinates: sum of weighted gradients, sum of their squares, largest value so far, and
# the sum of weights up to the round in the last column; with fixed weights of 1, that sum is the time itself.
G, V, R, S, T0 = range(5)


class Averages(NamedTuple):
    """The sums of coordinates, the penalty, and the number of earlier rounds."""

    table: Annotated[Floats, "float64[:, ::1]"]
    l1: Annotated[float, "float64"]
    l2: Annotated[float, "float64"]
    done: Annotated[int, "int64"]


@kernel("float64(float64[:, ::1], int64, float64, float64, float64, float64, int64, float64)")
def point(table: Floats, j: int, count: float, beta: float, l1: float, l2: float, mode: int, delta: float) -> float:
    """theta_j after `count` rounds: -soft(G_j, l1 S) / (beta_j + l2 S)."""
    g = table[j, G]
    weight = table[j, S] + table[j, R] * (count - table[j, T0]) if mode == FREE else count
    size = abs(g) - weight * l1
    if size <= 0.0:
        return 0.0
    if mode == DIAGONAL:
        beta *= delta + math.sqrt(table[j, V])
    elif mode == FREE:
        beta *= math.sqrt(table[j, V])
    return -math.copysign(size / (beta + weight * l2), g)


@kernel("void(float64[:, ::1], int64, float64, float64, float64, float64, int64, float64)")
def collect(table: Floats, j: int, g: float, x: float, w: float, count: float, mode: int, delta: float) -> None:
    """Add one gradient to the sums of a coordinate with the value w; x is the data entry it comes from."""
    if mode == FREE:
        table[j, S] += table[j, R] * (count - table[j, T0])
        table[j, T0] = count
        if table[j, R] == 0.0:
            table[j, R] = delta / abs(x)
        table[j, R] = max(table[j, R], abs(w))
        table[j, G] += table[j, R] * g
    else:
        table[j, G] += g
    table[j, V] += g * g


@kernel("float64(Examples, Rounds, Loss, Averages, float64[::1], float64[::1])")
def averaging_rounds(
    rows: Examples, rounds: Rounds, loss: Loss, state: Averages, slopes: Floats, grad: Floats
) -> float:
    """Run rounds of `batch` rows each; steps[t] is the beta with which round t reads theta. `grad` is zeros."""
    total = 0.0
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    table, l1, l2, done = state
    mode, delta = rounds.mode, rounds.delta
    bias = table.shape[0] - 1
    for t in range(rounds.steps.size):
        first, past = t * rounds.batch, min((t + 1) * rounds.batch, rows.order.size)
        count = float(done + t)
        beta = rounds.steps[t]
        for place in range(first, past):
            i = rows.order[place]
            shift = indptr[i] if rows.dense else 0
            look_ahead_in(rows, place, table)
            a = point(table, bias, count, beta, 0.0, 0.0, mode, delta) if rounds.intercept else 0.0
            for k in range(indptr[i], indptr[i + 1]):
                a += data[k] * point(table, indices[k - shift], count, beta, l1, l2, mode, delta)
            total += rows.weight[i] * loss.value(rows.y[i], a, loss.reals)
            slopes[place - first] = rows.weight[i] * loss.derivative(rows.y[i], a, loss.reals) / (past - first)
        for place in range(first, past):
            i = rows.order[place]
            shift = indptr[i] if rows.dense else 0
            s = slopes[place - first]
            if s == 0.0:
                continue
            for k in range(indptr[i], indptr[i + 1]):
                grad[indices[k - shift]] += s * data[k]
            if rounds.intercept:
                grad[bias] += s
        # A coordinate that several rows of the batch share is handled once, at the first entry that is not zero. Its
        # gradient is zero afterwards.
        for place in range(first, past):
            i = rows.order[place]
            shift = indptr[i] if rows.dense else 0
            for k in range(indptr[i], indptr[i + 1] + 1):
                last = k == indptr[i + 1]
                j = bias if last else indices[k - shift]
                x = 1.0 if last else data[k]
                if grad[j] == 0.0 or x == 0.0:
                    continue
                w = point(table, j, count, beta, 0.0 if last else l1, 0.0 if last else l2, mode, delta)
                collect(table, j, grad[j], x, w, count, mode, delta)
                grad[j] = 0.0
    return total


def point_of(table: Floats, clock: tuple[float, float], form: Elastic, mode: int, delta: float) -> Floats:
    """Return theta from a table of sums; `clock` is (rounds, beta), and the last row is the intercept's."""
    (g, squares, largest, weights, last), (rounds, scale) = table.T, clock
    total, beta = np.full(g.size, rounds), np.full(g.size, scale)
    if mode == FREE:
        total = weights + largest * (rounds - last)
        beta = scale * np.sqrt(squares)
    elif mode != PLAIN:
        beta = scale * (delta + np.sqrt(squares))
    total[-1] = 0.0
    size = np.maximum(np.abs(g) - total * form.l1, 0.0)
    beta = beta + total * form.l2
    return np.asarray(-np.copysign(np.divide(size, beta, out=np.zeros_like(size), where=size > 0), g) + 0.0)


class AveragingVector:
    """Dual averaging for one score per example with l1 and squared l2: a row costs time for its non-zeros only."""

    name = "dual averaging, lazy"

    def __init__(self, problem: Problem, form: Elastic) -> None:
        self.problem, self.form, self.loss = problem, form, compiled_loss(problem.loss)
        self.rounds, self.beta = 0, 1.0
        self.table = np.zeros((problem.features + 1, 5))
        self._grad = np.zeros(problem.features + 1)

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Do the same as `run`, which touches only the coordinates of its rows; see `Staying`."""
        return self.run(rows, order, steps)

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """Remember the touched coordinates; see `Staying`."""
        return undo(self, {"table": self.table}, touched, ("rounds", "beta"))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        p = self.problem
        # Round t reads the theta of the rounds before it, so its beta is that of the previous round.
        betas = np.concatenate([[self.beta], 1.0 / steps])
        state = Averages(self.table, self.form.l1, self.form.l2, self.rounds)
        rounds, scratch = p.rounds(np.ascontiguousarray(betas[:-1])), (np.empty(p.batch), self._grad)
        total = float(averaging_rounds(rows.examples(order), rounds, self.loss, state, *scratch))
        self.rounds += steps.size
        self.beta = float(betas[-1])
        return total

    def theta(self) -> Floats:
        """-soft(G, t l1) / (beta + t l2)."""
        p = self.problem
        theta = point_of(self.table, (float(self.rounds), self.beta), self.form, p.step.mode, p.delta)
        return np.ascontiguousarray(theta[: p.shape[0]])

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {"table": self.table.copy(), "clock": np.array([float(self.rounds), self.beta])}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run; dual averaging cannot start from a point alone."""
        if "table" not in internal:
            raise Unsupported("dual averaging resumes from its own states, not from those of another update")
        self.table = internal["table"].copy()
        self.rounds, self.beta = int(internal["clock"][0]), float(internal["clock"][1])


class AveragingFull(FullUpdate):
    """Dual averaging with any penalty that has a prox: one full prox per round, and one step for all coordinates."""

    name = "dual averaging, eager"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.total = np.zeros_like(self.table)
        self.weights = 0.0

    def _weigh(self, eta: float, rows: Rows, i: int) -> tuple[float, float]:
        """Return the weight of this round and 1 / beta_t."""
        p = self.problem
        if p.step.mode == PLAIN:
            return 1.0, eta
        distance = float(np.linalg.norm(self.table - self.start))
        root = self._reach(float(np.vdot(self.grad, self.grad)), distance, rows, i)
        if p.step.mode == FREE:
            return float(self.sums[DISTANCE]), eta / root if root > 0.0 else 0.0
        return 1.0, eta / (p.delta + root)

    def _step(self, eta: float, rows: Rows, i: int) -> None:
        weight, rate = self._weigh(eta, rows, i)
        features, penalised = self.problem.features, self.problem.penalised
        self.total += weight * self.grad
        self.weights += weight
        moved = self.start - rate * self.total
        w = np.ascontiguousarray(moved[:features]).reshape(penalised)
        self.table[:] = moved
        self.table[:features] = self.problem.penalty.prox(w, rate * self.weights).reshape(features, -1)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {**super().pack(), "total": self.total.copy(), "weights": np.array(self.weights)}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point."""
        super().unpack(theta, internal)
        if "total" in internal:
            self.total, self.weights = internal["total"].copy(), float(internal["weights"])


def dual_averaging(problem: Problem, rows: Rows) -> Engine:
    """Return the engine for a problem with `update="dual-averaging"`."""
    p, form = problem, problem.penalty.elastic()
    if p.mirror is not None or p.projection is not None:
        raise Unsupported("dual averaging is Euclidean and does not project; take update='forward-backward'")
    if not p.penalty.exact:
        raise Unsupported(f"dual averaging needs the exact prox of the whole penalty, and {p.penalty!r} has none")
    if form is not None and len(p.shape) == 1 and not p.averages and p.lazy is not False:
        return AveragingVector(p, form)
    if p.lazy is True or (p.lazy is None and too_wide(rows) and p.batch < len(rows)):
        raise not_lazy(p.penalty, rows)
    return AveragingFull(p)
