"""How the online estimators run a solver: which one, for how long, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types
from sklearn.utils import check_random_state

from spom.core.arrays import Floats
from spom.core.callbacks import Callbacks
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.checking import merged, operator
from spom.estimators.linear.base import LinearModel
from spom.penalties import L1
from spom.solvers.iterate import History, Rule, halt, last, progress, record, stalled
from spom.solvers.linear.online import OnlineProximal

# What `penalty=None` means.
DEFAULT_PENALTY = L1(1e-4)
# Of at most this many rows equal ones are merged, and their order in the data does not matter.
FEW_ROWS = 1000


class Online(LinearModel):
    """The parameters that the online estimators share, and their runs."""

    penalty: Any
    mirror: Any
    step: Any
    update: str
    projection: Any
    output: str
    epochs: int
    batch_size: int | None
    fit_intercept: bool
    shuffle: bool
    warm_start: bool
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    callbacks: Any
    _resume: State | None

    def _check_parameters(self) -> None:
        """The operators, checked; errors come before any work."""
        self.penalty_ = operator("penalty", self.penalty, DEFAULT_PENALTY)
        self.mirror_ = operator("mirror", self.mirror)
        whole = isinstance(self.epochs, (int, np.integer)) and not isinstance(self.epochs, bool)
        if not whole or self.epochs < 1:
            raise ValueError(f"epochs must be a whole number >= 1; it is {self.epochs!r}")
        if self.early_stopping and not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(f"validation_fraction must be between 0 and 1; it is {self.validation_fraction!r}")

    # --- solvers -----------------------------------------------------------------------------------------

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _solver(self, X: Any, y: Any, loss: Any, outputs: int | None, **more: Any) -> OnlineProximal:
        return OnlineProximal(
            X,
            y,
            loss=loss,
            penalty=self.penalty_,
            mirror=self.mirror_,
            step=self.step,
            update=self.update,
            projection=self.projection,
            output=self.output,
            epochs=self.epochs,
            shuffle=self.shuffle,
            batch_size=self.batch_size,
            fit_intercept=self.fit_intercept,
            outputs=outputs,
            n_jobs=_threads(self.n_jobs),
            random_state=self._seed(),
            **more,
        )

    def _fit_memory(self, X: Any, y: Any, weight: Floats | None, loss: Any, outputs: int | None) -> None:
        """`epochs` passes over data in memory."""
        start = self._point() if self.warm_start and hasattr(self, "coef_") else None
        if start is not None and start.shape != _shape(X, self.fit_intercept, outputs):
            raise ValueError(f"warm_start needs the same features and classes as before: theta is {start.shape}")
        if self.shuffle and X.shape[0] <= FEW_ROWS:
            X, y, weight = merged(X, y, weight)
        held = None
        if self.early_stopping:
            X, y, weight, held = self._held_out(X, y, weight, loss)
        begin = None if start is None else State(k=0, theta=start)
        watched = self.tol is not None and held is None
        solver = self._solver(X, y, loss, outputs, sample_weight=weight, start=begin, objective=watched)
        rule = held or (stalled(self.tol, self.n_iter_no_change) if self.tol is not None else None)
        final, stopped = self._run(solver, self.epochs, rule)
        self._keep(final if held is None or held.best is None else held.best, stopped)

    def _fit_blocks(
        self,
        blocks: Iterable[Any],
        loss: Any,
        outputs: int | None,
        start: State | None,
        total: int | None = None,
    ) -> None:
        """One pass over blocks that come one after another; `start` is the state to go on from."""
        if self.early_stopping:
            raise Unsupported("early_stopping needs data in memory, to hold some out; a stream is read once")
        solver = self._solver(blocks, None, loss, outputs, start=start)
        final, _ = self._run(solver, total, None)
        self._keep(final, False)
        self._resume = final

    # --- a run -------------------------------------------------------------------------------------------

    def _run(self, solver: Iterable[State], total: int | None, rule: Rule | None) -> tuple[State, bool]:
        """The last state, and whether a rule stopped the run before its end."""
        self.history_ = History()
        told = self._looking_on()
        states: Iterable[State] = record(solver, self.history_)
        fired = False

        def watched(state: State) -> bool:
            nonlocal fired
            fired = rule is not None and rule(state)
            stop = told.wanted and told.epoch(self._epoch(state, rule, begin))
            return fired or stop

        begin = time.perf_counter()
        try:
            final = last(self._shown(halt(states, watched), total))
        except BaseException as error:
            told.end("interrupted" if isinstance(error, KeyboardInterrupt) else "error")
            raise
        told.end("converged" if fired else "end")
        return final, fired

    def _looking_on(self) -> Callbacks:
        return Callbacks(self.callbacks, type(self).__name__)

    def _epoch(self, state: State, rule: Rule | None, begin: float) -> dict[str, Any]:
        """What callbacks are told of an epoch, or of a block of a stream: see `spom.core.callbacks`."""
        weights = state.theta[: self.n_features_in_]
        norms = state.block_norms
        if norms is None:
            norms = np.abs(weights) if weights.ndim == 1 else np.sqrt((weights**2).sum(axis=1))
        whole = norms.sum()
        return {
            "epoch": len(self.history_),
            "objective": state.objective,
            "loss": state.loss,
            "blocks_kept": int(np.count_nonzero(norms)),
            "nonzeros": int(np.count_nonzero(weights)),
            "per_second": state.counters.examples / max(state.seconds, 1e-9),
            "seconds": time.perf_counter() - begin,
            "block_weights": norms / whole if whole > 0 else norms,
            **({"validation_loss": rule.losses[-1]} if isinstance(rule, HeldOut) else {}),
        }

    def _shown(self, states: Iterator[State], total: int | None) -> Iterator[State]:
        return progress(states, total=total, label=type(self).__name__) if self.verbose else states

    def _held_out(self, X: Any, y: Any, weight: Floats | None, loss: Any) -> tuple[Any, Any, Floats | None, HeldOut]:
        from sklearn.model_selection import train_test_split

        ones = np.ones(X.shape[0]) if weight is None else weight
        groups = None if loss.target == "real" else y
        X, X_held, y, y_held, w, w_held = train_test_split(
            X, y, ones, test_size=self.validation_fraction, stratify=groups, random_state=self._seed()
        )
        tol = 0.0 if self.tol is None else self.tol
        rule = HeldOut(X_held, y_held, w_held, loss, self.fit_intercept, tol, self.n_iter_no_change)
        return X, y, None if weight is None else w, rule

    def _keep(self, state: State, converged: bool) -> None:
        """Store what was learnt in scikit-learn's shape."""
        weights = state.theta[: self.n_features_in_]
        self.coef_ = np.array(weights.T if weights.ndim == 2 else self._row(weights))
        bias = state.theta[-1] if self.fit_intercept else np.zeros(state.theta.shape[1:])
        self.intercept_ = self._bias(np.asarray(bias))
        self.converged_, self.n_rounds_ = converged, state.k
        # What the next partial_fit can go on from to the bit; without it, it starts from the weights alone.
        self._resume = state if self.update in ("forward-backward", "dual-averaging") else None

    def _row(self, weights: Floats) -> Floats:
        return weights[None, :]

    def _bias(self, bias: Floats) -> Any:
        return np.atleast_1d(bias).copy()

    def _point(self) -> Floats:
        """theta, from coef_ and intercept_."""
        weights = self._weights()
        if not self.fit_intercept:
            return weights
        bias = np.atleast_1d(self.intercept_)
        return np.concatenate([weights, bias if weights.ndim == 1 else bias[None, :]])

    def _state_to_go_on_from(self) -> State | None:
        if not hasattr(self, "coef_"):
            return None
        if self._resume is not None:
            return self._resume
        return State(k=self.n_rounds_, theta=self._point())


class HeldOut:
    """Stop when the mean loss on held-out data has not fallen by tol for some epochs; `best` is the best state."""

    def __init__(self, X: Any, y: Any, weight: Floats, loss: Any, intercept: bool, tol: float, patience: int) -> None:
        self.X, self.y, self.weight, self.loss, self.intercept = X, y, weight, loss, intercept
        self.tol, self.patience = tol, patience
        self.best: State | None = None
        self.losses: list[float] = []
        self._least, self._bad = np.inf, 0

    def __call__(self, state: State) -> bool:
        """Whether to stop after this state."""
        theta = state.theta
        scores = self.X @ theta[: self.X.shape[1]] + (theta[-1] if self.intercept else 0.0)
        value = float(self.weight @ self.loss.value(self.y, scores)) / max(float(self.weight.sum()), 1e-300)
        self.losses.append(value)
        self._bad = 0 if value < self._least - self.tol else self._bad + 1
        if value < self._least:
            self.best, self._least = state, value
        return self._bad >= self.patience


def _shape(X: Any, intercept: bool, outputs: int | None) -> tuple[int, ...]:
    size = X.shape[1] + bool(intercept)
    return (size,) if outputs is None else (size, outputs)


def _threads(n_jobs: int | None) -> int:
    return int(effective_n_jobs(n_jobs))
