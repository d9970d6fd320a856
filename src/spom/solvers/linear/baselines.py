"""Named baselines: Pegasos, and the subgradient method that takes the penalty's subgradient instead of its prox."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import kernel
from spom.core.registry import make, register
from spom.core.state import Counters, State
from spom.errors import DataError, Unsupported
from spom.penalties import L1, SquaredL2
from spom.solvers import examples
from spom.solvers.linear.data import Examples, Rows, as_rows
from spom.solvers.linear.problem import Loss, compiled_loss
from spom.solvers.linear.scores import mean_loss
from spom.solvers.steps import as_step


@kernel("float64(Examples, float64[::1], float64[::1], float64, int64, boolean)")
def pegasos_rounds(rows: Examples, v: Floats, numbers: Floats, strength: float, done: int, project: bool) -> float:
    """Pegasos on w = a v, with a and the squared norm of w in `numbers`: a row costs what it has. Sum of losses."""
    total = 0.0
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    a, squared = numbers[0], numbers[1]
    for place in range(rows.order.size):
        i = rows.order[place]
        t = done + place + 1
        shift = indptr[i] if rows.dense else 0
        score = 0.0
        row = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            score += data[k] * v[indices[k - shift]]
            row += data[k] * data[k]
        score *= a
        margin = rows.y[i] * score
        total += rows.weight[i] * max(0.0, 1.0 - margin)
        shrink = 1.0 - 1.0 / t
        if t == 1 or a < 1e-100:
            # a would become zero, or is about to underflow: put it into v.
            for j in range(v.size):
                v[j] *= a * shrink
            a = 1.0
        else:
            a *= shrink
        squared *= shrink * shrink
        if margin < 1.0:
            step = rows.weight[i] * rows.y[i] / (strength * t)
            for k in range(indptr[i], indptr[i + 1]):
                v[indices[k - shift]] += step * data[k] / a
            squared += 2.0 * step * shrink * score + step * step * row
        if project and squared * strength > 1.0:
            factor = 1.0 / math.sqrt(squared * strength)
            a *= factor
            squared *= factor * factor
    numbers[0], numbers[1] = a, squared
    return total


@kernel("float64(Examples, float64[::1], Loss, float64[::1], float64, float64)")
def subgradient_rounds(rows: Examples, steps: Floats, loss: Loss, w: Floats, l1: float, l2: float) -> float:
    """w <- w - eta (g + l1 sign(w) + l2 w), all of w in each round. Sum of losses."""
    total = 0.0
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    for place in range(rows.order.size):
        i = rows.order[place]
        shift = indptr[i] if rows.dense else 0
        score = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            score += data[k] * w[indices[k - shift]]
        total += rows.weight[i] * loss.value(rows.y[i], score, loss.reals)
        s = rows.weight[i] * loss.derivative(rows.y[i], score, loss.reals)
        eta = steps[place]
        for j in range(w.size):
            w[j] -= eta * (l1 * np.sign(w[j]) + l2 * w[j])
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k - shift]] -= eta * s * data[k]
    return total


class _Baseline:
    """Passes over data in memory; what a pass does is the subclass's own."""

    penalty: Any

    def __init__(
        self, X: Any, y: ArrayLike, loss: Any, epochs: int, shuffle: bool, sample_weight: Any, random_state: Any
    ) -> None:
        self.loss = make("loss", loss) if isinstance(loss, str) else loss
        if self.loss.target == "class":
            raise Unsupported("this baseline has one score per example; OnlineProximal takes several")
        self.X, self.y, self.epochs, self.shuffle = X, y, epochs, shuffle
        self.sample_weight, self.random_state = sample_weight, random_state

    def _pass(self, rows: Rows, order: Ints, done: int) -> float:
        raise NotImplementedError  # every baseline has its own

    def _theta(self) -> Floats:
        raise NotImplementedError  # every baseline has its own

    def _start(self, rows: Rows) -> None:
        raise NotImplementedError  # every baseline has its own

    def __iter__(self) -> Iterator[State]:
        rows = as_rows(self.X, self.y, self.sample_weight, self.loss.target)
        if len(rows) == 0:
            raise DataError("X has no rows: there is nothing to learn from")
        random = np.random.default_rng(self.random_state)
        begin, done = time.perf_counter(), 0
        everything = np.arange(len(rows))
        self._start(rows)
        for _ in range(self.epochs):
            order = random.permutation(len(rows)) if self.shuffle else everything
            total = self._pass(rows, order, done)
            done += order.size
            theta = self._theta()
            loss = mean_loss(rows, everything, theta, False, self.loss)
            yield State(
                k=done,
                theta=theta,
                loss=total / len(rows),
                objective=loss + float(self.penalty.value(theta)),
                counters=Counters(gradients=done, examples=done),
                seconds=time.perf_counter() - begin,
            )


@register(
    "solver",
    "pegasos",
    examples=lambda: [Pegasos(*examples.signs(), strength=0.1, epochs=3, random_state=0)],
    cost="O(non-zeros) per round",
)
class Pegasos(_Baseline):
    """strength/2 norm2(w)^2 + mean hinge loss: w <- (1 - 1/t) w + y x / (strength t) where the margin is below 1.

    Then the projection onto the ball of radius 1 / sqrt(strength) (Shalev-Shwartz, Singer and Srebro 2007).

    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> [state.theta for state in Pegasos(X, [1, -1], strength=1.0, epochs=1, shuffle=False)]
    [array([ 0.5, -0.5])]
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        strength: float = 1e-4,
        *,
        project: bool = True,
        epochs: int = 10,
        shuffle: bool = True,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(X, y, "hinge", epochs, shuffle, sample_weight, random_state)
        self.strength = check_positive(strength, "strength", zero=False)
        self.penalty, self.project = SquaredL2(strength), project

    def _start(self, rows: Rows) -> None:
        self._v, self._numbers = np.zeros(rows.columns), np.array([1.0, 0.0])

    def _pass(self, rows: Rows, order: Ints, done: int) -> float:
        state = (self._v, self._numbers, self.strength, done, self.project)
        return float(pegasos_rounds(rows.examples(order), *state))

    def _theta(self) -> Floats:
        return np.asarray(self._numbers[0] * self._v)


@register(
    "solver",
    "subgradient",
    examples=lambda: [Subgradient(*examples.signs(), epochs=3, random_state=0)],
    cost="O(features) per round",
)
class Subgradient(_Baseline):
    """w <- w - eta (g + a subgradient of the penalty at w), for l1 and squared l2: what a prox is compared with.

    It never puts a weight to exactly zero, and updates all of w in each round.

    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> last = list(Subgradient(X, [1, -1], loss="squared", penalty=L1(0.1), step=0.5, epochs=3, shuffle=False))[-1]
    >>> last.theta.round(3)
    array([ 0.712, -0.762])
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        loss: Any = "logistic",
        penalty: Any = None,
        *,
        step: Any = "sqrt",
        epochs: int = 10,
        shuffle: bool = True,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(X, y, loss, epochs, shuffle, sample_weight, random_state)
        self.penalty = L1(1e-4) if penalty is None else penalty
        form = self.penalty.elastic()
        if form is None:
            raise Unsupported(f"Subgradient works with l1 and squared l2 penalties, not with {self.penalty!r}")
        self._form = form
        self.step = as_step(step)
        if self.step.mode:
            raise Unsupported("Subgradient takes a plain step: a number, 'sqrt', 'epoch' or a function")

    def _start(self, rows: Rows) -> None:
        self._w = np.zeros(rows.columns)

    def _pass(self, rows: Rows, order: Ints, done: int) -> float:
        sizes = self.step.sizes(done + 1, order.size, len(rows))
        return float(subgradient_rounds(rows.examples(order), sizes, compiled_loss(self.loss), self._w, *self._form))

    def _theta(self) -> Floats:
        return self._w.copy()
