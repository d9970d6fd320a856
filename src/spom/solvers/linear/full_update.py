r"""Rounds that update all of theta: any penalty, any projection, any mirror map, one score or many.

A round computes the gradient g of a batch, takes theta <- theta - eta g and J proximal steps, and projects. With a
compiled penalty and projection and the Euclidean map, the whole loop is compiled. Otherwise each round is a few
calls. Adaptive steps divide by sqrt(sum of squared gradients). If the penalty is l1 and squared l2, there is one sum
per coordinate, so the prox in that metric is exact. If the penalty couples coordinates, there is a single sum.
The parameter-free step multiplies by the largest distance from the start so far: distance over gradients
(Ivgi, Hinder and Carmon 2023).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import kernel
from spom.errors import SpomError, Unsupported
from spom.losses import Logistic, MulticlassLogistic
from spom.penalties import Zero
from spom.penalties.forms import Elastic, Prox, compiled_prox
from spom.solvers.linear.data import Examples, Rows
from spom.solvers.linear.problem import (
    Loss,
    Problem,
    Rounds,
    RowLoss,
    compiled_loss,
    compiled_row_loss,
)
from spom.solvers.steps import DIAGONAL, FREE, PLAIN

# The state of an adaptive step for all of theta: the sum of squared gradients and the largest distance so far.
GRADIENTS, DISTANCE = range(2)


class Losses(NamedTuple):
    """A loss of one score and a loss of several; only one is in use."""

    one: Loss
    many: RowLoss


class Whole(NamedTuple):
    """theta with the intercept as its last row, its start, the sum of iterates, and the state of adaptive steps.

    `squares` and `largest` have one number per entry if the metric is diagonal, else they are empty.
    """

    theta: Annotated[Floats, "float64[:, ::1]"]
    start: Annotated[Floats, "float64[:, ::1]"]
    mean: Annotated[Floats, "float64[:, ::1]"]
    grad: Annotated[Floats, "float64[:, ::1]"]
    squares: Annotated[Floats, "float64[:, ::1]"]
    largest: Annotated[Floats, "float64[:, ::1]"]
    sums: Annotated[Floats, "float64[::1]"]


def both_losses(loss: Any) -> Losses:
    """Return the loss in use, and a stand-in of the other kind."""
    if loss.target == "class":
        return Losses(compiled_loss(Logistic()), compiled_row_loss(loss))
    return Losses(compiled_loss(loss), compiled_row_loss(MulticlassLogistic()))


@kernel("float64(Examples, int64, int64, float64[:, ::1], float64[:, ::1], boolean, Losses)")
def batch_gradient(
    rows: Examples, first: int, past: int, theta: Floats, grad: Floats, intercept: bool, losses: Losses
) -> float:
    """Set `grad` to the mean gradient of rows order[first:past] at theta; return the sum of their losses."""
    total = 0.0
    indptr, indices, data, one, many = rows.indptr, rows.indices, rows.data, losses.one, losses.many
    columns = theta.shape[1]
    bias = theta.shape[0] - 1
    scores = np.empty(columns)
    slopes = np.empty(columns)
    grad[:, :] = 0.0
    for place in range(first, past):
        i = rows.order[place]
        y, weight = rows.y[i], rows.weight[i]
        shift = indptr[i] if rows.dense else 0
        for c in range(columns):
            scores[c] = theta[bias, c] if intercept else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            x = data[k]
            for c in range(columns):
                scores[c] += x * theta[j, c]
        if columns == 1:
            total += weight * one.value(y, scores[0], one.reals)
            slopes[0] = one.derivative(y, scores[0], one.reals)
        else:
            total += weight * many.row(int(y), scores, many.reals, slopes)
        share = weight / (past - first)
        for c in range(columns):
            slopes[c] *= share
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            x = data[k]
            for c in range(columns):
                grad[j, c] += x * slopes[c]
        if intercept:
            for c in range(columns):
                grad[bias, c] += slopes[c]
    return total


@kernel("float64(float64[::1], float64, float64, float64)")
def count_gradient(sums: Floats, squared: float, distance: float, first: float) -> float:
    """Add a squared gradient and a distance from the start to `sums`; return the root of the sum of squared gradients.

    The distance counts as at least `first`.
    """
    sums[GRADIENTS] += squared
    if sums[DISTANCE] == 0.0:
        sums[DISTANCE] = first
    sums[DISTANCE] = max(sums[DISTANCE], distance)
    return math.sqrt(sums[GRADIENTS])


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64, int64, float64, float64)")
def single_step(
    theta: Floats, grad: Floats, start: Floats, sums: Floats, eta: float, mode: int, delta: float, norm: float
) -> float:
    """theta <- theta - s grad with a common step s, which is returned; `norm` is that of the batch's first row."""
    step = eta
    if mode != PLAIN:
        squares = 0.0
        distance = 0.0
        for j in range(theta.shape[0]):
            for c in range(theta.shape[1]):
                squares += grad[j, c] * grad[j, c]
                distance += (theta[j, c] - start[j, c]) ** 2
        root = count_gradient(sums, squares, math.sqrt(distance), delta / norm)
        if root == 0.0:
            return 0.0
        step = eta / (delta + root) if mode == DIAGONAL else eta * sums[DISTANCE] / root
    for j in range(theta.shape[0]):
        for c in range(theta.shape[1]):
            theta[j, c] -= step * grad[j, c]
    return step


@kernel("void(Whole, Rounds, float64, float64, float64)")
def diagonal_step(state: Whole, rounds: Rounds, eta: float, l1: float, l2: float) -> None:
    """Take the step and the exact prox of l1 and squared l2 in the metric of each coordinate's squared gradients."""
    theta, squares, largest = state.theta, state.squares, state.largest
    for j in range(theta.shape[0]):
        for c in range(theta.shape[1]):
            g = state.grad[j, c]
            w = theta[j, c]
            if g != 0.0:
                squares[j, c] += g * g
                largest[j, c] = max(largest[j, c], abs(w))
            root = math.sqrt(squares[j, c])
            if root == 0.0:
                continue
            step = eta / (rounds.delta + root) if rounds.mode == DIAGONAL else eta * largest[j, c] / root
            w -= step * g
            if j < theta.shape[0] - 1:
                size = abs(w) - step * l1
                w = 0.0 if size <= 0.0 else math.copysign(size, w) / (1.0 + step * l2)
            theta[j, c] = w


@kernel("void(Examples, int64, int64, Whole, Rounds)")
def first_reach(rows: Examples, first: int, past: int, state: Whole, rounds: Rounds) -> None:
    """Set the distance of new coordinates, so that their part of the score may move by delta."""
    grad, largest, delta = state.grad, state.largest, rounds.delta
    columns = grad.shape[1]
    bias = grad.shape[0] - 1
    for place in range(first, past):
        i = rows.order[place]
        shift = rows.indptr[i] if rows.dense else 0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[k - shift]
            x = rows.data[k]
            for c in range(columns):
                if largest[j, c] == 0.0 and grad[j, c] != 0.0 and x != 0.0:
                    largest[j, c] = delta / abs(x)
    if rounds.intercept:
        for c in range(columns):
            if largest[bias, c] == 0.0 and grad[bias, c] != 0.0:
                largest[bias, c] = delta


@kernel("float64(Examples, Rounds, Losses, Whole, float64[::1], Prox, Prox)")
def eager_rounds(
    rows: Examples, rounds: Rounds, losses: Losses, state: Whole, norms: Floats, prox: Prox, project: Prox
) -> float:
    """Run rounds of `batch` rows each; `norms` is empty, or has the l1 and squared l2 strengths for `diagonal_step`."""
    total = 0.0
    theta = state.theta
    flat = theta[: theta.shape[0] - 1].reshape(-1)
    for t in range(rounds.steps.size):
        first, past = t * rounds.batch, min((t + 1) * rounds.batch, rows.order.size)
        if rounds.averages:
            mean = state.mean
            mean += theta
        total += batch_gradient(rows, first, past, theta, state.grad, rounds.intercept, losses)
        if norms.size == 2:
            if rounds.mode == FREE:
                first_reach(rows, first, past, state, rounds)
            diagonal_step(state, rounds, rounds.steps[t], norms[0], norms[1])
        else:
            i = rows.order[first]
            size = 1.0
            for k in range(rows.indptr[i], rows.indptr[i + 1]):
                size += rows.data[k] * rows.data[k]
            start, sums, mode, delta = state.start, state.sums, rounds.mode, rounds.delta
            step = single_step(theta, state.grad, start, sums, rounds.steps[t], mode, delta, math.sqrt(size))
            prox.function(flat, step, prox.reals, prox.ints, flat)
        project.function(flat, 1.0, project.reals, project.ints, flat)
    return total


class FullUpdate:
    """The base of engines that update all of theta: theta with the intercept as its last row, and sums."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.losses = problem, both_losses(problem.loss)
        columns = 1 if len(problem.shape) == 1 else problem.shape[1]
        self.table = np.zeros((problem.features + 1, columns))
        self.start, self.mean, self.grad = (np.zeros_like(self.table) for _ in range(3))
        self.sums = np.zeros(2)
        self.rounds = 0

    def _shaped(self, a: Floats) -> Floats:
        shape = self.problem.shape
        return np.ascontiguousarray(a[: shape[0]]).reshape(shape).copy()

    def theta(self) -> Floats:
        """Return the iterate."""
        return self._shaped(self.table)

    def average(self) -> Floats:
        """Return the mean of the iterates before each round."""
        return self._shaped(self.mean) / max(1, self.rounds)

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        total, examples, batch = 0.0, rows.examples(order), self.problem.batch
        for t, eta in enumerate(steps):
            first, past = t * batch, min((t + 1) * batch, order.size)
            if self.problem.averages:
                self.mean += self.table
            at = (self.table, self.grad, self.problem.intercept)
            total += batch_gradient(examples, first, past, *at, self.losses)
            self._step(float(eta), rows, int(order[first]))
            self.rounds += 1
        return total

    def _step(self, eta: float, rows: Rows, i: int) -> None:
        """Take one step along `grad` and the prox of the penalty; i is the first row of the batch."""
        raise NotImplementedError  # implemented by each engine

    def _reach(self, squared: float, distance: float, rows: Rows, i: int) -> float:
        """Return the root of the sum of squared gradients, including this one of row i; see `count_gradient`."""
        entries = rows.data[rows.indptr[i] : rows.indptr[i + 1]]
        first = self.problem.delta / math.sqrt(1.0 + float(entries @ entries))
        return float(count_gradient(self.sums, squared, distance, first))

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        packed: Arrays = {"rounds": np.array(self.rounds), "sums": self.sums.copy(), "start": self.start.copy()}
        return {**packed, "mean": self.mean.copy()} if self.problem.averages else packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.table[: theta.shape[0]] = theta.reshape(theta.shape[0], -1)
        self.start = self.table.copy()
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
            self.sums, self.start = internal["sums"].copy(), internal["start"].copy()
        if "mean" in internal:
            self.mean = internal["mean"].copy()


class Eager(FullUpdate):
    """Any compiled penalty and projection, in the Euclidean geometry or AdaGrad's."""

    name = "forward-backward, eager"

    def __init__(self, problem: Problem, norms: Elastic | None) -> None:
        super().__init__(problem)
        self.prox = compiled_prox(problem.penalty, *problem.penalised)
        projection = problem.projection if problem.projection is not None else Zero()
        self.projection = compiled_prox(projection, *problem.penalised)
        diagonal = norms is not None and problem.step.mode != PLAIN
        self.norms = np.array(norms if diagonal else (), dtype=np.float64)
        self.memory = np.zeros((2, *self.table.shape) if diagonal else (2, 0, 1))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        state = Whole(self.table, self.start, self.mean, self.grad, self.memory[0], self.memory[1], self.sums)
        rest = (self.losses, state, self.norms, self.prox, self.projection)
        total = eager_rounds(rows.examples(order), self.problem.rounds(steps), *rest)
        self.rounds += steps.size
        return float(total)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {**super().pack(), "memory": self.memory.copy()}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        super().unpack(theta, internal)
        if internal.get("memory", self.memory[:0]).size:
            self.memory = internal["memory"].copy()


def has_pointer(penalty: Any, shape: tuple[int, ...]) -> bool:
    """Return whether the prox is one compiled function, which `Eager` needs."""
    try:
        kernel, _, _ = penalty.compiled(shape)
    except (SpomError, AttributeError):
        return False
    return kernel is not None


class MirrorLoop(FullUpdate):
    """Any mirror map, and sums of penalties: one call of each operator per round."""

    name = "composite mirror descent, eager"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if problem.mirror is not None:
            # A pair without a closed form is rejected here, before any work.
            problem.mirror.prox(problem.penalty, np.zeros(problem.penalised), 1.0)
            if problem.projection is not None:
                raise Unsupported(
                    f"a projection with {problem.mirror!r}: it would need the map's own geometry; use the "
                    "Euclidean map, or the set as the penalty"
                )

    def _step(self, eta: float, rows: Rows, i: int) -> None:
        p, features = self.problem, self.problem.features
        w = self.table[:features].reshape(p.penalised)
        g = self.grad[:features].reshape(p.penalised)
        size = self._size(eta, w, g, rows, i) if p.step.mode != PLAIN else eta
        moved = p.penalty.prox(w - size * g, size) if p.mirror is None else p.mirror.step(w, g, size, p.penalty)
        if p.projection is not None:
            moved = p.projection.prox(moved, 1.0)
        self.table[:features] = np.asarray(moved).reshape(features, -1)
        if p.intercept:
            self.table[-1] -= size * self.grad[-1]

    def _size(self, eta: float, w: Floats, g: Floats, rows: Rows, i: int) -> float:
        """Return the common step: eta over the root of the sum of squared dual norms, times the distance."""
        p = self.problem
        begin = self.start[: p.features].reshape(p.penalised)
        if p.mirror is None:
            squared, modulus, distance = float(np.vdot(g, g)), 1.0, float(np.linalg.norm(w - begin))
        else:
            squared, modulus = float(p.mirror.dual_norm(g)) ** 2, float(p.mirror.modulus(w.size))
            distance = math.sqrt(2.0 * float(p.mirror.divergence(w, begin)))
        self._reach(squared + float(self.grad[-1] @ self.grad[-1]), distance, rows, i)
        root = math.sqrt(self.sums[GRADIENTS] / modulus)
        if root == 0.0:
            return 0.0
        return float(eta * self.sums[DISTANCE] / root if p.step.mode == FREE else eta / (p.delta + root))
