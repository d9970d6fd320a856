"""Named baselines: Pegasos, and the subgradient method that uses the penalty's subgradient instead of its prox."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Arrays, Floats, Ints, check_positive
from spom.core.jit import kernel
from spom.core.registry import register
from spom.core.state import State
from spom.errors import Unsupported
from spom.penalties import L1, SquaredL2
from spom.penalties.forms import Elastic
from spom.solvers import examples
from spom.solvers.linear.data import Examples, Rows
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.problem import Engine, Loss, Problem, compiled_loss


@kernel("float64(Examples, float64[::1], float64[::1], float64, int64, boolean)")
def pegasos_rounds(rows: Examples, v: Floats, numbers: Floats, strength: float, done: int, project: bool) -> float:
    """Run Pegasos on w = a v, with a and the squared norm of w in `numbers`; return the sum of losses."""
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
            # a would become zero, or is about to underflow: move it into v.
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
    """w <- w - eta (g + l1 sign(w) + l2 w), for all of w in each round; return the sum of losses."""
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


class PegasosRounds:
    """The engine of `Pegasos`: w = a v, with a and the squared norm of w as `numbers`."""

    name = "pegasos"

    def __init__(self, features: int, strength: float, project: bool) -> None:
        self.strength, self.project, self.rounds = strength, project, 0
        self.v, self.numbers = np.zeros(features), np.array([1.0, 0.0])

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        state = (self.v, self.numbers, self.strength, self.rounds, self.project)
        self.rounds += order.size
        return float(pegasos_rounds(rows.examples(order), *state))

    def theta(self) -> Floats:
        """Return the iterate."""
        return np.asarray(self.numbers[0] * self.v)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {"vector": self.v.copy(), "numbers": self.numbers.copy(), "rounds": np.array(self.rounds)}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.v[:], self.numbers[:] = theta, (1.0, float(theta @ theta))
        if "vector" in internal:
            self.v[:], self.numbers[:] = internal["vector"], internal["numbers"]
            self.rounds = int(internal["rounds"])


@register(
    "solver",
    "pegasos",
    examples=lambda: [Pegasos(*examples.signs(), strength=0.1, epochs=3, random_state=0)],
    cost="O(non-zeros) per round",
)
class Pegasos(OnlineProximal):
    """strength/2 norm2(w)^2 + mean hinge loss: w <- (1 - 1/t) w + y x / (strength t) if the margin is below 1.

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
        start: State | None = None,
    ) -> None:
        self.strength, self.project = check_positive(strength, "strength", zero=False), project
        run: dict[str, Any] = {"epochs": epochs, "shuffle": shuffle, "random_state": random_state, "start": start}
        run |= {"sample_weight": sample_weight, "objective": True}
        super().__init__(X, y, loss="hinge", penalty=SquaredL2(strength), step=1.0, **run)

    def _engine(self, problem: Problem, rows: Rows) -> Engine:
        return PegasosRounds(rows.columns, self.strength, self.project)


class SubgradientRounds:
    """The engine of `Subgradient`: all of w in each round."""

    name = "subgradient"

    def __init__(self, features: int, loss: Any, form: Elastic) -> None:
        self.w, self.loss, self.form = np.zeros(features), compiled_loss(loss), form

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        return float(subgradient_rounds(rows.examples(order), steps, self.loss, self.w, *self.form))

    def theta(self) -> Floats:
        """Return the iterate."""
        return self.w.copy()

    def pack(self) -> Arrays:
        """Return nothing: theta is enough to resume."""
        return {}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Start from a point."""
        self.w[:] = theta


@register(
    "solver",
    "subgradient",
    examples=lambda: [Subgradient(*examples.signs(), epochs=3, random_state=0)],
    cost="O(features) per round",
)
class Subgradient(OnlineProximal):
    """w <- w - eta (g + a subgradient of the penalty at w), for l1 and squared l2: a baseline for the prox.

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
        start: State | None = None,
    ) -> None:
        penalty = L1(1e-4) if penalty is None else penalty
        run: dict[str, Any] = {"epochs": epochs, "shuffle": shuffle, "random_state": random_state, "start": start}
        run |= {"sample_weight": sample_weight, "objective": True}
        super().__init__(X, y, loss=loss, penalty=penalty, step=step, **run)
        if self.loss.target == "class":
            raise Unsupported("this baseline has one score per example; OnlineProximal takes several")
        if self.penalty.elastic() is None:
            raise Unsupported(f"Subgradient works with l1 and squared l2 penalties, not with {self.penalty!r}")
        if self.step.mode:
            raise Unsupported("Subgradient takes a plain step: a number, 'sqrt', 'epoch' or a function")

    def _engine(self, problem: Problem, rows: Rows) -> Engine:
        return SubgradientRounds(rows.columns, self.loss, self.penalty.elastic())
