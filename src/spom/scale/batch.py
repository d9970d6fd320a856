"""Batch linear models from shards: exact gradients, summed in shard order, for the full-gradient method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from spom.core.arrays import Arrays, Floats
from spom.core.state import State
from spom.errors import SpomError, Unsupported
from spom.estimators.checking import loss_for, regression_loss
from spom.estimators.linear.choosing import is_auto
from spom.estimators.linear.proximal import warn_if_not
from spom.estimators.training import Learner, Trainer, all_or_nothing, described
from spom.losses import Squared
from spom.scale.linear import choose_from_shards, prepared, scaled
from spom.scale.linear_data import Preparation
from spom.scale.team import Team
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import feasible, intercept_curvature, newton_step
from spom.solvers.batch.problem import Solution
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.iterate import History, record, take

# The smallest residual, relative to the gradient at zero, that rounding allows.
FLOOR = 1e-11


@dataclass(frozen=True)
class BatchLesson:
    """The mean loss of a shard and its gradient."""

    rows: Preparation
    loss: Any
    intercept: bool
    outputs: int | None

    def prepare(self, loaded: Any) -> tuple[LinearSmooth, float]:
        """Return (the smooth part of the shard, its weight)."""
        X, y, weight = self.rows.prepare(loaded)
        options: dict[str, Any] = {"fit_intercept": self.intercept, "outputs": self.outputs, "sample_weight": weight}
        return LinearSmooth(X, y, self.loss, **options), float(y.shape[0] if weight is None else weight.sum())

    def learn(self, prepared: tuple[LinearSmooth, float], state: Any, seed: Any) -> Any:
        """Return (weight, answers) for a question of `QUESTIONS`."""
        smooth, mass = prepared
        question, *given = state
        answer = QUESTIONS[question](smooth, *given)
        return mass, answer if isinstance(answer, tuple) else (answer,)


def _intercept(smooth: LinearSmooth, theta: Floats) -> Any:
    """Return the sums of derivatives, and the curvature in the intercept."""
    alpha = smooth.dual_at(smooth.scores(theta))
    squared = isinstance(smooth.loss, Squared)
    H = np.eye(max(alpha.shape[1:], default=1)) if squared else intercept_curvature(smooth, alpha)
    return alpha.sum(axis=0), H


# The questions that a round asks each shard; the driver averages the answers, weighted by the shards' weights.
QUESTIONS: dict[str, Callable[..., Any]] = {
    "curvature": lambda smooth: smooth.lipschitz("l2"),
    "gradient": lambda smooth, theta: smooth.value_and_gradient(theta),
    "intercept": _intercept,
    "conjugate": lambda smooth, theta, scale: smooth.conjugate_at(scale * smooth.dual_at(smooth.scores(theta))),
}


class ShardedSmooth:
    """f(theta) = sum over shards of (weight times mean loss) / sum of weights."""

    def __init__(self, team: Team, loss: Any, shape: tuple[int, ...], features: int) -> None:
        self.team, self.loss, self.shape, self.features = team, loss, shape, features
        self._memo: list[tuple[Floats, float, Floats]] = []

    @property
    def penalised(self) -> slice:
        """The rows of theta that the penalty acts on: all but the intercept."""
        return slice(0, self.features)

    def split(self, theta: Floats) -> tuple[Floats, Any]:
        """Return theta as (w, b)."""
        return theta[: self.features], (theta[-1] if self.shape[0] > self.features else 0.0)

    def value(self, theta: Floats) -> float:
        """Return f(theta)."""
        return self.value_and_gradient(theta)[0]

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient of f at theta."""
        return self.value_and_gradient(theta)[1].copy()

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return both, from one round; the last points are cached, because a step asks for both separately."""
        for point, value, gradient in self._memo:
            if np.array_equal(point, theta):
                return value, gradient
        value, total = self._mean("gradient", theta)
        found = float(value), np.asarray(total)
        self._memo = [*self._memo[-1:], (theta.copy(), *found)]
        return found

    def lipschitz(self, norm: str = "l2") -> float:
        """Return an upper bound: the mean of the shards' constants."""
        return float(self._mean("curvature")[0])

    def gap(self, penalty: Any, theta: Floats) -> float:
        """Return the duality gap at theta, as `linear_gap` on one machine, or NaN if no dual point is known.

        Derivatives at the best intercept for these weights are dual-feasible; Newton's method finds it in a few rounds.
        """
        if not penalty.convex or not hasattr(self.loss, "conjugate"):
            return np.nan
        objective = self.value(theta) + float(penalty.value(theta[self.penalised]))
        try:
            point = self._balanced(theta.copy()) if self.shape[0] > self.features else theta
            scale, conjugate = feasible(penalty, np.ascontiguousarray(self.gradient(point)[self.penalised]))
            gap = objective + float(self._mean("conjugate", point, scale)[0]) + conjugate
        except (SpomError, NotImplementedError):
            return np.nan
        return max(gap, 0.0) if np.isfinite(gap) else np.nan

    def _balanced(self, theta: Floats) -> Floats:
        """Return theta with the intercept at which the derivatives sum to zero."""
        for _ in range(30):
            total, H = self._mean("intercept", theta)
            if np.abs(total).max() <= 1e-13:
                return theta
            if H is None:
                break
            theta[-1] += newton_step(total, H)
        raise Unsupported("no dual point is known")

    def _mean(self, question: str, *given: Any) -> list[Any]:
        """Return the means of the shards' answers, each a number or an array, added in shard order."""
        mass = 0.0
        total: list[Any] = []
        for weight, answer in self.team.learn((question, *given), [], question):
            scaled = [None if value is None else weight * value for value in answer]
            total = [a if b is None else b + a for a, b in zip(scaled, total or [None] * len(scaled), strict=True)]
            mass += weight
        return [None if value is None else value / mass for value in total]


class BatchLearner(Learner):
    """Rounds of the full-gradient method for the trainer."""

    epochs: int

    def __init__(self, smooth: ShardedSmooth, penalty: Any, estimator: Any, history: History) -> None:
        self.smooth, self.penalty, self.history = smooth, penalty, history
        self.epochs, self.rule = estimator.max_iter, self._done
        self.accelerated, self.tol = estimator.solver != "ista", estimator.tol
        self.last: State | None = None
        self._slope: float | None = None

    def _done(self, state: State) -> bool:
        if self._slope is None:
            g = self.smooth.gradient(np.zeros(self.smooth.shape))
            self._slope = float(np.linalg.norm(g))
        return bool(float(state.internal.get("residual", np.nan)) <= max(self.tol, FLOOR) * self._slope)

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Yield the states of FISTA, or of ISTA with `solver="ista"`."""
        self.last = start
        rounds = BatchProximal(self.smooth, self.penalty, accelerated=self.accelerated, start=start)
        return record(take(rounds, max(0, self.epochs - done)), self.history)

    def entry(self, state: State) -> dict[str, Any]:
        """Return the objective, the loss and the residual."""
        self.last = state
        return {"objective": state.objective, "loss": state.loss, "residual": float(state.internal["residual"])}

    def model(self, state: State) -> Arrays:
        """Return theta."""
        return {"theta": state.theta}

    def like(self, state: State | None) -> Arrays:
        """Return an array of the shape of theta."""
        return {"theta": np.zeros(self.smooth.shape)}


def fit_batch(estimator: Any, team: Team, dev: Any, watch: dict[str, Any], classes: Any = None) -> None:
    """Fit a `ProximalClassifier` or a `ProximalRegressor` to the optimum of all shards."""
    if dev is not None:
        raise Unsupported("a batch objective has no use for development data: leave dev= out")
    with all_or_nothing(estimator):
        seen, rows = prepared(estimator, team, classes, _start)
        K = None if rows.classes is None or estimator.loss_.target != "class" else int(rows.classes.size)
        labels = described(getattr(estimator, "classes_", None))
        trainer = Trainer(estimator, lambda: {"shards": list(team.stamps), "labels": labels}, **watch)
        choose_from_shards(estimator, team, seen, (rows, K, trainer.seed(lambda: 0)))
        intercept = bool(estimator.fit_intercept)
        team.teach(BatchLesson(scaled(rows, estimator), estimator.loss_, intercept, K))
        size = rows.features + intercept
        smooth = ShardedSmooth(team, estimator.loss_, (size,) if K is None else (size, K), rows.features)
        learner = BatchLearner(smooth, estimator.penalty_, estimator, history := History())
        with trainer.running():
            outcome = trainer.run(learner)
        final = learner.last
        assert final is not None
        solution = Solution(
            theta=final.theta,
            objective=final.objective,
            loss=final.loss,
            gap=smooth.gap(estimator.penalty_, final.theta),
            residual=float(final.internal["residual"]),
            rounds=final.k,
            converged=outcome.stopped == "converged",
            history=history,
        )
        estimator._keep(solution, smooth)
        warn_if_not(solution, estimator.max_iter)
        estimator._warn_if_zero(estimator.coef_)


def _start(estimator: Any, classes: Any = None) -> None:
    """Set what the estimator's own `fit` sets before it looks at rows."""
    estimator.penalty_ = estimator._given_penalty()[0]
    if not is_classifier(estimator):
        estimator.loss_ = regression_loss(estimator.loss, "squared")
        return
    estimator.classes_ = classes
    estimator.loss_ = loss_for(None if is_auto(estimator.loss) else estimator.loss, int(classes.size), "logistic")
