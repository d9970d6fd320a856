"""Linear models that are watched while they learn: a row a pass, the best pass on held-out data, checkpoints.

`OnlineClassifier` and `OnlineRegressor` run a solver and wrap its states in a progress line; here the wrapping is the
live table, and the solver may start from a checkpoint.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.cli.live import Live
from spom.core.callbacks import Callbacks
from spom.core.state import State
from spom.errors import DataError
from spom.estimators.linear.online import OnlineClassifier, OnlineRegressor
from spom.solvers.iterate import checkpoint, saved

# Above this many blocks their weights are not kept for every epoch: the record would be larger than the model.
MANY_BLOCKS = 2000


@dataclass
class Watch:
    """What looks on: the table, the held-out data, where to keep a checkpoint, whether to go on from it."""

    live: Live
    dev: tuple[Any, Any] | None = None
    checkpoint: Path | None = None
    every: int | float | str = "60s"
    resume: bool = False
    fallback: Path | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    best: tuple[float, State] | None = None
    last: State | None = None

    def start(self) -> State | None:
        """The state to go on from."""
        path = self.checkpoint or self.fallback
        return saved(path) if self.resume and path is not None else None


class Watched:
    """Mixed in before an online estimator."""

    watch: Watch

    def _solver(self: Any, *args: Any, **more: Any) -> Any:
        start = self.watch.start()
        if start is not None:
            if int(start.internal.get("epoch", 0)) >= self.epochs and "order" not in start.internal:
                raise DataError(f"the checkpoint has made its {self.epochs} epochs already; raise --epochs to go on")
            more["start"] = start
        more["objective"] = not _is_stream(args)
        return super()._solver(*args, **more)  # type: ignore[misc]  # the estimator that this is mixed into

    def _looking_on(self: Any) -> Callbacks:
        # `_shown` tells more than the estimator could: the dev score, and the history of the record.
        return Callbacks(log=False)

    def _shown(self: Any, states: Iterator[State], total: int | None) -> Iterator[State]:
        watch = self.watch
        if watch.checkpoint is not None:
            states = checkpoint(states, watch.checkpoint, watch.every)
        callbacks = Callbacks(watch.live, type(self).__name__.removeprefix("Watched"))
        begin, rows, epoch = time.perf_counter(), 0, 0
        for state in states:
            epoch = int(state.internal["epoch"])
            info = self._info(state, epoch, rows, time.perf_counter() - begin)
            rows, watch.last = state.counters.examples, state
            watch.history.append(info)
            score = info.get("dev")
            if score is not None and (watch.best is None or score > watch.best[0]):
                watch.best = (score, state)
            yield state
            if callbacks.epoch(info):
                break
        callbacks.end("interrupted" if watch.live.interrupted else "end")
        if watch.live.interrupted and watch.checkpoint is None and watch.fallback is not None and watch.last:
            watch.last.save(watch.fallback)
        if watch.best is not None and watch.best[1] is not watch.last:
            yield watch.best[1]

    def _info(self: Any, state: State, epoch: int, rows: int, seconds: float) -> dict[str, Any]:
        weights = state.theta[: self.n_features_in_]
        norms = np.abs(weights) if weights.ndim == 1 else np.sqrt((weights**2).sum(axis=1))
        if state.block_norms is not None:
            norms = state.block_norms
        spent = seconds - (self.watch.history[-1]["seconds"] if self.watch.history else 0.0)
        info: dict[str, Any] = {
            "epoch": epoch,
            "objective": None if math.isnan(state.objective) else state.objective,
            "loss": state.loss,
            "dev": None if self.watch.dev is None else self._dev(state),
            "blocks_kept": int(np.count_nonzero(norms)),
            "nonzeros": int(np.count_nonzero(weights)),
            "per_second": (state.counters.examples - rows) / max(spent, 1e-9),
            "seconds": seconds,
        }
        if norms.size <= MANY_BLOCKS:
            info["block_weights"] = (norms / norms.sum() if norms.sum() > 0 else norms).tolist()
        return info

    def _dev(self: Any, state: State) -> float:
        """Accuracy, or R^2, on the held-out data."""
        model = copy.copy(self)
        model._keep(state, False)
        X, y = self.watch.dev
        return float(model.score(X, y))


def _is_stream(args: tuple[Any, ...]) -> bool:
    return args[1] is None


class WatchedClassifier(Watched, OnlineClassifier):
    """An `OnlineClassifier` that is watched."""


class WatchedRegressor(Watched, OnlineRegressor):
    """An `OnlineRegressor` that is watched."""


def plain_model(fitted: Any) -> Any:
    """What was learnt as the public estimator that users load."""
    cls = OnlineClassifier if isinstance(fitted, OnlineClassifier) else OnlineRegressor
    model: Any = cls(**{name: getattr(fitted, name) for name in cls._get_param_names()})
    vars(model).update({name: value for name, value in vars(fitted).items() if name != "watch"})
    return model
