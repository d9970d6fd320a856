"""The engines whose rounds update all of theta: `Eager` in one compiled loop, `MirrorLoop` round by round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import SpomError, Unsupported
from spom.penalties import Zero
from spom.solvers.linear.data import Rows
from spom.solvers.linear.eager import batch_gradient, both_losses, eager_rounds
from spom.solvers.linear.lazy_vector import FIRST
from spom.solvers.pointers import pointer
from spom.solvers.steps import FREE, PLAIN, AdaGrad, Step

Arrays = dict[str, np.ndarray[Any, Any]]


class _Full:
    """What both engines keep: theta as a matrix with the intercept as its last row, and sums."""

    def __init__(
        self, loss: Any, shape: tuple[int, ...], intercept: bool, step: Step, batch: int, averages: bool
    ) -> None:
        self.shape, self.intercept, self.step, self.batch, self.averages = shape, intercept, step, batch, averages
        self.losses = both_losses(loss)
        features = shape[0] - intercept
        columns = 1 if len(shape) == 1 else shape[1]
        self.table = np.zeros((features + 1, columns))
        self.start = np.zeros_like(self.table)
        self.mean = np.zeros_like(self.table)
        self.sums = np.zeros(2)
        self.delta = step.delta if isinstance(step, AdaGrad) else FIRST
        self.rounds = 0

    @property
    def features(self) -> int:
        """The number of rows of theta that are penalised."""
        return self.table.shape[0] - 1

    def _shaped(self, a: Floats) -> Floats:
        return np.ascontiguousarray(a[: self.shape[0]]).reshape(self.shape).copy()

    def theta(self) -> Floats:
        """The iterate."""
        return self._shaped(self.table)

    def average(self) -> Floats:
        """The mean of the iterates before each round."""
        return self._shaped(self.mean) / max(1, self.rounds)

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        packed: Arrays = {"rounds": np.array(self.rounds), "sums": self.sums.copy(), "start": self.start.copy()}
        if self.averages:
            packed["mean"] = self.mean.copy()
        return packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Go on from a saved run, or from a point alone."""
        self.table[: self.shape[0]] = theta.reshape(self.shape[0], -1)
        self.start = self.table.copy()
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
            self.sums, self.start = internal["sums"].copy(), internal["start"].copy()
        if "mean" in internal:
            self.mean = internal["mean"].copy()


class Eager(_Full):
    """Any one compiled penalty and projection, in the Euclidean geometry or AdaGrad's."""

    name = "forward-backward, eager"

    def __init__(
        self,
        loss: Any,
        penalty: Any,
        projection: Any,
        shape: tuple[int, ...],
        intercept: bool,
        step: Step,
        batch: int,
        averages: bool,
        norms: tuple[float, float] | None,
    ) -> None:
        super().__init__(loss, shape, intercept, step, batch, averages)
        penalised = (self.features, *shape[1:])
        self.prox = _pointer(penalty, penalised)
        self.projection = _pointer(projection if projection is not None else Zero(), penalised)
        diagonal = norms is not None and step.mode != PLAIN
        self.norms = np.array(norms if diagonal else (), dtype=np.float64)
        self.memory = np.zeros((2 if diagonal else 0, *self.table.shape))

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        arguments = (
            *(*rows.arguments(order), self.batch, steps, self.table, self.start, self.mean, self.memory, self.sums),
            *(self.step.mode, self.delta, self.intercept, self.averages, self.norms),
            *(*self.prox, *self.projection, *self.losses),
        )
        total = eager_rounds(*arguments)
        self.rounds += steps.size
        return float(total)

    def pack(self) -> Arrays:
        """What a saved run needs to go on."""
        return {**super().pack(), "memory": self.memory.copy()}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Go on from a saved run, or from a point alone."""
        super().unpack(theta, internal)
        if "memory" in internal:
            self.memory = internal["memory"].copy()


def _pointer(penalty: Any, shape: tuple[int, ...]) -> tuple[Any, Floats, Ints]:
    kernel, reals, ints = penalty.compiled(shape)
    return pointer(kernel), reals, ints


def has_pointer(penalty: Any, shape: tuple[int, ...]) -> bool:
    """Whether the prox is one compiled function, which `Eager` needs."""
    try:
        kernel, _, _ = penalty.compiled(shape)
    except (SpomError, AttributeError):
        return False
    return kernel is not None


class MirrorLoop(_Full):
    """Any mirror map, and sums of penalties: one call of each operator a round."""

    name = "composite mirror descent, eager"

    def __init__(
        self,
        loss: Any,
        penalty: Any,
        projection: Any,
        mirror: Any,
        shape: tuple[int, ...],
        intercept: bool,
        step: Step,
        batch: int,
        averages: bool,
    ) -> None:
        super().__init__(loss, shape, intercept, step, batch, averages)
        self.penalty, self.projection, self.mirror = penalty, projection, mirror
        self.penalised = (self.features, *shape[1:])
        self.grad = np.zeros_like(self.table)
        zero = np.zeros(self.penalised)
        if mirror is not None:
            # A pair that has no closed form is refused here, before any work.
            mirror.prox(penalty, zero, 1.0)
            if projection is not None:
                raise Unsupported(
                    f"a projection with {mirror!r}: it would have to be in the map's own geometry; use the "
                    "Euclidean map, or the set as the penalty"
                )

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        total = 0.0
        arguments = rows.arguments(order)
        for t, eta in enumerate(steps):
            first, past = t * self.batch, min((t + 1) * self.batch, order.size)
            if self.averages:
                self.mean += self.table
            rest = (first, past, self.table, self.grad, self.intercept, *self.losses)
            total += batch_gradient(*(*arguments, *rest))
            self._step(float(eta), rows, int(order[first]))
        self.rounds += steps.size
        return total

    def _step(self, eta: float, rows: Rows, i: int) -> None:
        w = self.table[: self.features].reshape(self.penalised)
        g = self.grad[: self.features].reshape(self.penalised)
        size = self._size(eta, w, g, rows, i) if self.step.mode != PLAIN else eta
        if self.mirror is None:
            moved = self.penalty.prox(w - size * g, size)
        else:
            moved = self.mirror.step(w, g, size, self.penalty)
        if self.projection is not None:
            moved = self.projection.prox(moved, 1.0)
        self.table[: self.features] = np.asarray(moved).reshape(self.features, -1)
        if self.intercept:
            self.table[-1] -= size * self.grad[-1]

    def _size(self, eta: float, w: Floats, g: Floats, rows: Rows, i: int) -> float:
        """One adaptive step for all: eta over the root of the sum of squared dual norms, times the distance."""
        if self.mirror is None:
            squared, modulus = float(np.vdot(g, g)), 1.0
            distance = float(np.linalg.norm(w - self.start[: self.features].reshape(self.penalised)))
        else:
            squared, modulus = float(self.mirror.dual_norm(g)) ** 2, float(self.mirror.modulus(w.size))
            begin = self.start[: self.features].reshape(self.penalised)
            distance = math.sqrt(2.0 * float(self.mirror.divergence(w, begin)))
        self.sums[0] += squared + float(self.grad[-1] @ self.grad[-1])
        if self.sums[1] == 0.0:
            entries = rows.data[rows.indptr[i] : rows.indptr[i + 1]]
            self.sums[1] = self.delta / math.sqrt(1.0 + float(entries @ entries))
        self.sums[1] = max(self.sums[1], distance)
        root = math.sqrt(self.sums[0] / modulus)
        if root == 0.0:
            return 0.0
        return eta * self.sums[1] / root if self.step.mode == FREE else eta / (self.delta + root)
