"""Online linear models from shards: sums of gradients for dual averaging, means of parameters for other updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.linear.choosing import is_auto
from spom.estimators.linear.running import Dev, LinearLearner
from spom.estimators.linear.scaling import without_empty
from spom.estimators.linear.strength import Choice, Examples, choose
from spom.estimators.training import all_or_nothing, described, digest
from spom.penalties import SquaredL2
from spom.penalties.base import with_strength
from spom.scale.linear_data import (
    LinearLook,
    Preparation,
    Seen,
    classes_of,
    fresh,
    one_width,
    scaling_of,
    weights_of_classes,
)
from spom.scale.linear_merge import Part, merge
from spom.scale.team import Team
from spom.solvers.iterate import last


@dataclass(frozen=True)
class OnlineLesson:
    """A pass of an online linear model over a shard, from a state that all shards share."""

    estimator: Any
    rows: Preparation
    outputs: int | None

    def prepare(self, loaded: Any) -> Any:
        """Return the rows as the solver takes them."""
        return self.rows.prepare(loaded)

    def learn(self, data: Any, state: State | None, seed: list[int]) -> Part:
        """Run one pass."""
        e, (X, y, weight) = self.estimator, data
        done = 0 if state is None else int(state.internal.get("epoch", np.array(0)))
        options: dict[str, Any] = {"start": state, "sample_weight": weight}
        if e.update in ("auto", "proximal-point"):
            # As on a stream: solvers that keep a number per example cannot be merged.
            X, y, options = [(X, y) if weight is None else (X, y, weight)], None, {"start": state}
        solver = e._solver(X, y, e.loss_, self.outputs, np.random.default_rng(seed), **options)
        solver.epochs = done + 1
        after = last(solver)
        assert solver.engine is not None
        if "engine.slopes" in after.internal:
            raise Unsupported(f"{solver.engine.name} keeps a number for each example: use update='dual-averaging'")
        count = data[0].shape[0]
        return Part(after, solver.engine.name, count, float(count) if weight is None else float(weight.sum()))


def fit_online(estimator: Any, team: Team, dev: Any, watch: dict[str, Any], classes: Any = None) -> None:
    """Fit an `OnlineClassifier` or an `OnlineRegressor`."""
    _check(estimator, dev)
    with all_or_nothing(estimator):
        seen, rows = prepared(estimator, team, classes)
        outputs = estimator._outputs() if rows.classes is not None else None
        size = rows.features + bool(estimator.fit_intercept)
        shape = (size,) if outputs is None else (size, outputs)
        trainer = estimator._trainer(
            {**watch, "checkpoint_every": watch["every"]}, lambda: _contents(estimator, team, dev)
        )
        seed = trainer.seed(estimator._seed)
        choose_from_shards(estimator, team, seen, rows, outputs, seed)
        worker = fresh(estimator)
        for name in ("loss_", "penalty_", "mirror_"):
            setattr(worker, name, getattr(estimator, name))
        team.teach(OnlineLesson(worker, scaled(rows, estimator), outputs))

        def passes(start: State | None, done: int) -> Iterator[State]:
            state = start
            for epoch in range(done, estimator._passes()):
                state = merge(worker, state, team.learn(state, [seed, epoch]), shape)
                state.internal["epoch"] = np.array(epoch + 1)
                yield state

        held = None if dev is None else Dev(estimator, dev)
        estimator._learn(trainer, LinearLearner(estimator, trainer, passes, estimator._passes(), held))


def _check(estimator: Any, dev: Any) -> None:
    if estimator.early_stopping and dev is None:
        raise Unsupported("early_stopping with shards needs development data: give dev=(X, y)")
    if estimator.tol is not None and dev is None:
        raise Unsupported("tol= needs the objective of each pass, which shards do not compute: give dev=(X, y)")
    if estimator.warm_start:
        raise Unsupported("shards do not support warm_start: use checkpoint= and resume=True")


def prepared(
    estimator: Any, team: Team, classes: Any, start: Callable[..., None] | None = None
) -> tuple[list[Seen], Preparation]:
    """Return what the first pass saw, and how to prepare rows; `start(estimator, classes)` sets loss and penalty."""
    classifies = is_classifier(estimator)
    moments = isinstance(estimator.penalty, str) if is_auto(estimator.scale) else bool(estimator.scale)
    team.teach(LinearLook(classifies, moments))
    seen: list[Seen] = [part for part in team.look() if part is not None]
    features = one_width(estimator, seen)
    begin = type(estimator)._start if start is None else start
    if not classifies:
        begin(estimator)
        return seen, Preparation(features, None, None, None, "real")
    found = classes_of(seen, classes)
    begin(estimator, found)
    by_class = weights_of_classes(estimator.class_weight, found, seen)
    return seen, Preparation(features, found, by_class, None, estimator.loss_.target)


def choose_from_shards(
    estimator: Any, team: Team, seen: list[Seen], rows: Preparation, outputs: int | None, seed: int
) -> None:
    """Choose the scale from all shards, the strength from the first that has rows; set `penalty_`, `loss_`, `scale_`.

    The strength of a squared penalty is proportional to one over the number of rows, and is converted to all rows.
    """
    penalty, left = estimator._given_penalty(estimator._kind() if hasattr(estimator, "_kind") else SquaredL2(1.0))
    wanted = left if is_auto(estimator.scale) else bool(estimator.scale)
    moments, real = [part.moments for part in seen if part.moments is not None], estimator.loss_.target == "real"
    estimator._scaling = scaling_of(moments, rows.features, estimator.fit_intercept, real) if wanted else None
    estimator.scale_ = None if estimator._scaling is None else estimator._scaling.scale
    estimator.penalty_ = penalty
    if hasattr(estimator, "calibration_"):
        del estimator.calibration_
    if not left:
        return
    worker = fresh(estimator)
    worker.loss_ = estimator.loss_
    team.teach(ChoosingLesson(worker, scaled(rows, estimator), outputs, penalty, seed))
    for choice, count in (found for k in range(len(team.shards)) for found in team.ask("choose", [k])):
        if not np.isfinite(float(with_strength(penalty, 1.0).max_strength(np.ones(rows.features)))):
            strength = choice.penalty.strength * count / sum(part.rows for part in seen)
            choice = replace(choice, penalty=with_strength(choice.penalty, strength))
        estimator._take(choice)
        return


@dataclass(frozen=True)
class ChoosingLesson:
    """The choice of a strength and a loss on the rows of one shard."""

    estimator: Any
    rows: Preparation
    outputs: int | None
    penalty: Any
    seed: int

    def ask(self, loaded: Any, place: int) -> tuple[Choice, int]:
        """Return (the choice, the number of rows it was made on)."""
        X, y, weight = self.rows.prepare(loaded)
        few = without_empty(X, None) if self.penalty.separable else None
        X = X if few is None else few.apply(X)
        examples = Examples(X, y, weight, self.outputs, self.estimator.fit_intercept)
        found = choose(examples, self.estimator._losses(examples), self.penalty, self.seed)
        return Choice(found.penalty, found.loss, found.calibration, found.held), X.shape[0]


def scaled(rows: Preparation, estimator: Any) -> Preparation:
    """Return the preparation with the scaling and the loss that were chosen."""
    return replace(rows, scaling=estimator._scaling, target=estimator.loss_.target)


def _contents(estimator: Any, team: Team, dev: Any) -> dict[str, Any]:
    """Return what the fingerprint of a checkpoint says about the shards."""
    return {
        "shards": list(team.stamps),
        "labels": described(getattr(estimator, "classes_", None)),
        "dev": None if dev is None else digest(*(p if hasattr(p, "tocsr") else np.asarray(p) for p in dev)),
    }
