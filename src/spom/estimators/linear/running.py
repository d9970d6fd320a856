"""Runs of the online estimators: the choice of the solver, stopping, and the results that are kept."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms

from spom.core.arrays import Floats, check_dev
from spom.core.callbacks import TakesCallbacks, Tasks
from spom.core.state import State, listed, unlisted
from spom.errors import DataError, Unsupported
from spom.estimators.checking import merged, operator
from spom.estimators.linear.choosing import AUTO, FEW_ROWS, Choosing, is_auto
from spom.estimators.linear.strength import Examples
from spom.estimators.training import Arrays, Learner, Trainer, described, digest, digest_of_file
from spom.penalties import L1
from spom.solvers.iterate import History, stalled
from spom.solvers.linear.data import as_rows
from spom.solvers.linear.online import OnlineProximal, Run
from spom.solvers.linear.scores import table_scores

# The defaults of the arguments of `fit` besides the data, for `partial_fit`, which has none of them.
NO_WATCH: dict[str, Any] = {"dev": None, "checkpoint": None, "checkpoint_every": "60s", "resume": False}


# The passes of `epochs="auto"`: more for more than `FEW_ROWS` dense rows of more than two classes. On ten such tables
# (no test rows of the suite) 20 passes gained .0015 (texture .0067, mfeat -.0022). They gained .0001 with two classes,
# and with fewer rows no more than the noise (docs: defaults).
PASSES, MORE_PASSES = 10, 20
# Attributes read on first use from a run that is kept between calls of `partial_fit`.
LATE = ("coef_", "intercept_", "history_", "converged_", "n_rounds_", "_resume", "_entries")
Block = tuple[Any, Any, Floats | None]
_reading = threading.RLock()


class Live(NamedTuple):
    """A run kept between calls of `partial_fit`, and its parameters."""

    run: Run
    parameters: dict[str, Any]

    def fits(self, parameters: dict[str, Any]) -> bool:
        """Tell whether the parameters are unchanged: numbers and names by value, objects by identity."""
        mine = self.parameters
        return mine.keys() == parameters.keys() and all(
            a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b)
            for a, b in ((mine[name], parameters[name]) for name in mine)
        )


class Online(TakesCallbacks, Choosing):
    """The parameters that the online estimators share, and their runs."""

    penalty: Any
    mirror: Any
    step: Any
    update: str
    projection: Any
    output: str
    epochs: Any
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
    _live: Live

    def _check_parameters(self) -> None:
        """Set the operators and check the parameters; errors are raised before any work."""
        self.penalty_ = self._given_penalty()[0]
        self.mirror_ = operator("mirror", self.mirror)
        whole = isinstance(self.epochs, (int, np.integer)) and not isinstance(self.epochs, bool)
        if not is_auto(self.epochs) and (not whole or self.epochs < 1):
            raise ValueError(f'epochs must be a whole number >= 1, or "auto"; it is {self.epochs!r}')
        if self.early_stopping and not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(f"validation_fraction must be between 0 and 1; it is {self.validation_fraction!r}")

    # --- solvers -----------------------------------------------------------------------------------------

    def _kind(self) -> Any:
        """Return the kind of penalty that "auto" stands for; mirror maps have composite steps with l1."""
        return AUTO if self.mirror_ is None else L1(1.0)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _passes(self, X: Any = None, outputs: int | None = None) -> int:
        """Return the number of passes over data in memory, or over a stream."""
        if not is_auto(self.epochs):
            return int(self.epochs)
        many = outputs is not None and outputs > 2 and not sparse.issparse(X) and X.shape[0] > FEW_ROWS
        return MORE_PASSES if many else PASSES

    def _solver(self, X: Any, y: Any, loss: Any, outputs: int | None, seed: int, **more: Any) -> OnlineProximal:
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
            epochs=self._passes(),
            shuffle=self.shuffle,
            batch_size=self.batch_size,
            fit_intercept=self.fit_intercept,
            outputs=outputs,
            n_jobs=_threads(self.n_jobs),
            random_state=seed,
            **more,
        )

    def _fit_memory(
        self, data: tuple[Any, Any, Floats | None], loss: Any, outputs: int | None, watch: dict[str, Any]
    ) -> None:
        """Make passes over data in memory; `watch` has dev, checkpoint, checkpoint_every and resume."""
        X, y, weight = data
        start = self._point() if self.warm_start and hasattr(self, "coef_") else None
        if start is not None and start.shape != _shape(X, self.fit_intercept, outputs):
            raise ValueError(
                f"warm_start needs the same features and classes as before: the weights have shape {start.shape}"
            )
        trainer = self._trainer(watch, lambda: self._contents(data, watch["dev"]))
        seed, passes = trainer.seed(self._seed), self._passes(X, outputs)
        distinct = self.shuffle and X.shape[0] <= FEW_ROWS
        if distinct:
            X, y, weight = merged(X, y, weight)
        y = self._centred(y, weight, loss)
        X, best = self._prepared(Examples(X, y, weight, outputs, self.fit_intercept, distinct), self._kind(), seed)
        loss, start = self.loss_, None if start is None else self._folded(start)
        held: Score | None = None if watch["dev"] is None else Dev(self, watch["dev"])
        if self.early_stopping and held is None:
            X, y, weight, held = self._held_out(X, y, weight, loss, seed)
        stalls = self.tol is not None and held is None
        begin = None if start is None else State(k=0, theta=start)

        def solver(state: State | None, done: int) -> OnlineProximal:
            objective = stalls or trainer.callbacks.objective
            more = {"sample_weight": weight, "start": begin if state is None else state, "objective": objective}
            found = self._solver(X, y, loss, outputs, seed, **more)
            found.epochs = passes
            return found

        learner = LinearLearner(self, trainer, solver, passes, held)
        learner.rule = stalled(self.tol or 0.0, self.n_iter_no_change) if stalls else None
        final = self._learn(trainer, learner)
        if best is not None and held is None:
            # The choice of the strength found the optimum, which online passes reach slowly with collinear columns.
            self._keep(replace(final, theta=best), self.converged_)

    def _centred(self, y: Any, weight: Floats | None, loss: Any) -> Any:
        """Subtract the mean of real targets if columns are scaled too: online steps would not reach a large offset."""
        centre = loss.target == "real" and self.fit_intercept and self._scales(self._kind())
        self._shift = float(np.average(y, weights=weight)) if centre else 0.0
        return y - self._shift if centre else y

    def _fit_blocks(
        self,
        blocks: Iterable[Any],
        loss: Any,
        outputs: int | None,
        start: State | None,
        total: int | None = None,
        watch: dict[str, Any] | None = None,
    ) -> None:
        """Run one pass over successive blocks; `start` is the state to resume from."""
        if self.early_stopping:
            raise Unsupported("early_stopping needs data in memory, to hold some out; a stream is read once")
        self._on_stream()
        watch = NO_WATCH if watch is None else watch
        trainer = self._trainer(watch, lambda: self._stream_contents(watch))
        seed = trainer.seed(self._seed)

        def solver(state: State | None, done: int) -> OnlineProximal:
            # Blocks learnt before the checkpoint are read again and dropped.
            rest = islice(blocks, done, None) if done else blocks
            return self._solver(rest, None, loss, outputs, seed, start=start if state is None else state)

        held = None if watch["dev"] is None else Dev(self, watch["dev"])
        final = self._learn(trainer, LinearLearner(self, trainer, solver, total, held))
        self._resume = final

    # --- partial_fit -------------------------------------------------------------------------------------

    def _begun(self) -> bool:
        """Tell whether anything was learnt before."""
        return "_live" in vars(self) or hasattr(self, "coef_")

    def _learn_block(self, block: Block, loss: Any, outputs: int | None) -> None:
        """Learn from one more block, at the cost of its rows if they have fewer entries than X has columns."""
        if not self._stays(block, loss, outputs):
            self._fit_blocks([block], loss, outputs, self._state_to_go_on_from())

    def _stays(self, block: Block, loss: Any, outputs: int | None) -> bool:
        X = block[0]
        small = sparse.issparse(X) and 0 < X.nnz < X.shape[1]
        watched = self.callbacks or Tasks(self).wanted or self.early_stopping
        if not small or watched or not self._begun() or _threads(self.n_jobs) > 1:
            return False
        self._on_stream()
        live, parameters = vars(self).get("_live"), self.get_params(deep=True)
        if live is None or not live.fits(parameters):
            start = self._state_to_go_on_from()
            solver = self._solver([], None, loss, outputs, self._seed(), start=start)
            live = Live(Run(solver), parameters)
        if not live.run.stay(as_rows(*block, loss.target, columns=self.n_features_in_, mean=False)):
            return False
        self._forget(*LATE)
        self._live = live
        return True

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _materialise(self) -> None:
        """Read all results from the run that is kept; the run itself does not change."""
        live = self._live
        state = live.run.state()
        trainer = self._trainer(NO_WATCH, dict)
        self._learn(trainer, LinearLearner(self, trainer, lambda start, done: [state], None, None))
        self._resume, self._live = state, live

    def __getattr__(self, name: str) -> Any:
        if name in LATE:
            # Threads that predict at the same time wait for the first one.
            with _reading:
                if name not in vars(self) and "_live" in vars(self):
                    self._materialise()
                if name in vars(self):
                    return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        if "_live" in vars(self):
            _ = self.coef_
        return {name: value for name, value in super().__getstate__().items() if name != "_live"}

    # --- a run -------------------------------------------------------------------------------------------

    def _trainer(self, watch: dict[str, Any], contents: Callable[[], dict[str, Any]]) -> Trainer:
        patience = self.n_iter_no_change if self.early_stopping else None
        tol = 0.0 if self.tol is None else self.tol
        return Trainer(
            self,
            contents,
            patience=patience,
            tol=tol,
            checkpoint=watch["checkpoint"],
            every=watch["checkpoint_every"],
            resume=watch["resume"],
            interrupts=False,
        )

    def _learn(self, trainer: Trainer, learner: LinearLearner) -> State:
        """Run, store the results and return the last state."""
        with trainer.running():
            outcome = trainer.run(learner)
        self.history_, self._entries = history_of(trainer.history), trainer.history
        final = learner.last
        best = final if int(outcome.model["rounds"]) == final.k else None
        rounds = int(outcome.model["rounds"])
        state = State(k=rounds, theta=unlisted(outcome.model)) if best is None else best
        self._keep(state, outcome.stopped == "converged")
        if best is None:
            self._resume = None
        self._forget("_live")
        return final

    def _contents(self, data: tuple[Any, Any, Floats | None], dev: Any) -> dict[str, Any]:
        """Return the entries of a checkpoint's fingerprint for data in memory."""
        X, y, weight = data
        return {
            "data": {"rows": X.shape[0], "features": X.shape[1], "digest": digest(X)},
            "targets": digest(y),
            "weights": None if weight is None else digest(weight),
            "labels": described(getattr(self, "classes_", None)),
            "dev": None if dev is None else digest(*(np.asarray(p) if not hasattr(p, "tocsr") else p for p in dev)),
        }

    def _stream_contents(self, watch: dict[str, Any]) -> dict[str, Any]:
        """Return its entries for a stream: a file is identified by its bytes; other blocks cannot be read for that."""
        source, dev = watch.get("source"), watch["dev"]
        kept = {"labels": described(getattr(self, "classes_", None)), "dev": None if dev is None else digest(*dev)}
        return {"data": digest_of_file(source) if source is not None else "blocks", **kept}

    def _held_out(
        self, X: Any, y: Any, weight: Floats | None, loss: Any, seed: int
    ) -> tuple[Any, Any, Floats | None, HeldOut]:
        from sklearn.model_selection import train_test_split

        ones = np.ones(X.shape[0]) if weight is None else weight
        groups = None if loss.target == "real" else y
        X, X_held, y, y_held, w, w_held = train_test_split(
            X, y, ones, test_size=self.validation_fraction, stratify=groups, random_state=seed
        )
        return X, y, None if weight is None else w, HeldOut(X_held, y_held, w_held, loss, self.fit_intercept)

    def _keep(self, state: State, converged: bool) -> None:
        """Store the results in scikit-learn's shape."""
        theta = self._unfolded(state.theta)
        weights = theta[: self.n_features_in_]
        if sparse.issparse(theta):
            self.coef_ = sparse.csr_matrix(weights.T)
        else:
            self.coef_ = np.array(weights.T if weights.ndim == 2 else self._row(weights))
        bias: Any = theta[-1] if self.fit_intercept else np.zeros(theta.shape[1:])
        bias = bias.toarray()[0] if sparse.issparse(bias) else bias
        self.intercept_ = self._bias(np.asarray(bias))
        self.converged_, self.n_rounds_ = converged, state.k
        # The next partial_fit can resume from this to the bit; without it, it starts from the weights alone.
        plain = self._scaling is None and self._shift == 0.0
        exact = self.update in ("forward-backward", "dual-averaging") and plain
        self._resume = state if exact else None
        self._warn_if_zero(self.coef_)

    def _row(self, weights: Floats) -> Floats:
        return weights[None, :]

    def _bias(self, bias: Floats) -> Any:
        return np.atleast_1d(bias).copy()

    def _point(self) -> Any:
        """Return theta, from coef_ and intercept_."""
        if sparse.issparse(self.coef_) and self.coef_.shape[0] > 1:
            last = [self.intercept_[None, :]] if self.fit_intercept else []
            return sparse.vstack([self.coef_.T, *last], format="csr")
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
    """Minus the mean loss on held-out data."""

    def __init__(self, X: Any, y: Any, weight: Floats, loss: Any, intercept: bool) -> None:
        self.X, self.y, self.weight, self.loss, self.intercept = X, y, weight, loss, intercept

    def __call__(self, theta: Floats) -> float:
        """Return the score of these weights."""
        scores = table_scores(self.X, theta, self.intercept)
        return -float(self.weight @ self.loss.value(self.y, scores)) / max(float(self.weight.sum()), 1e-300)


class Dev:
    """`score` of the estimator, accuracy or R^2, on development data."""

    def __init__(self, estimator: Online, data: Any) -> None:
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise DataError("dev must be a pair (X, y)")
        if hasattr(estimator, "classes_"):
            check_dev(np.unique(np.asarray(data[1])), estimator.classes_)
        self.estimator, self.data = estimator, data

    def __call__(self, theta: Floats) -> float:
        """Return the score of these weights."""
        model = copy.copy(self.estimator)
        model._keep(State(k=0, theta=theta), False)
        return float(model.score(*self.data))


Score = HeldOut | Dev


# The columns of a history, and the keys of the trainer's entries.
COLUMNS = {name: name for name in ("objective", "loss", "step", "nnz", "examples", "gradients", "proxes")}
COLUMNS |= {"k": "rounds", "seconds": "spent", "block_norms": "block_norms"}


class LinearLearner(Learner):
    """A linear model for the trainer: theta is the only result of an epoch."""

    columns = tuple(COLUMNS.values())

    def __init__(
        self,
        estimator: Online,
        trainer: Trainer,
        solver: Callable[[State | None, int], Iterable[State]],
        epochs: int | None,
        held: Score | None,
    ) -> None:
        self.estimator, self.callbacks, self.solver = estimator, trainer.callbacks, solver
        self.epochs, self.held, self.scores = epochs, held, held is not None
        self.last = State(k=0, theta=np.zeros(0))

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the states of the solver."""
        self.last = self.last if start is None else start
        return self.solver(start, done)

    def model(self, state: State) -> Arrays:
        """Return theta and the number of rounds that led to it."""
        self.last = state
        return {**listed(state.theta), "rounds": np.array(state.k)}

    def like(self, state: State | None) -> Arrays:
        """Return arrays like theta of the state's shape: the solver compares that with the data."""
        assert state is not None
        like = {**listed(state.theta), "rounds": np.array(state.k)}
        # Another epoch may have more or fewer non-zero weights.
        return {name: a[:0] if name in ("theta.data", "theta.indices") else a for name, a in like.items()}

    def score(self, model: Arrays) -> float:
        """Return the score on the development data, or on the held-out rows."""
        assert self.held is not None
        return self.held(unlisted(model))

    def scored(self, score: float) -> dict[str, Any]:
        """Return the score as a loss if rows were held out for it, else as `dev`."""
        return {"validation_loss": -score} if isinstance(self.held, HeldOut) else {"dev": score}

    def entry(self, state: State) -> dict[str, Any]:
        """Return the entry of an epoch, or of a block of a stream, for callbacks and the columns of `history_`."""
        self.last = state
        counters = state.counters
        found: dict[str, Any] = {
            "objective": state.objective,
            "loss": state.loss,
            "nonzeros": 0,
            "per_second": counters.examples / max(state.seconds, 1e-9),
            "rounds": state.k,
            "step": state.step,
            "nnz": state.nnz,
            "spent": state.seconds,
            **{"examples": counters.examples, "gradients": counters.gradients, "proxes": counters.proxes},
            "block_norms": state.block_norms,
        }
        if self.callbacks.wanted:
            scaling = getattr(self.estimator, "_scaling", None)
            theta = state.theta if scaling is None else scaling.unfold(state.theta, self.estimator.fit_intercept)
            weights = theta[: self.estimator.n_features_in_]
            norms = state.block_norms
            # Single features are shown in the user's scale; groups keep the scale in which they were learnt.
            if norms is None or (scaling is not None and norms.size == weights.shape[0]):
                norms = np.abs(weights) if weights.ndim == 1 else row_norms(weights)
            whole = norms.sum()
            count = weights.nnz if sparse.issparse(weights) else np.count_nonzero(weights)
            found["nonzeros"], found["blocks_kept"] = int(count), int(np.count_nonzero(norms))
            found["block_weights"] = norms / whole if whole > 0 else norms
        return found


def history_of(entries: list[dict[str, Any]]) -> History:
    """Return the entries of a run as columns."""
    history = History()
    for column, name in COLUMNS.items():
        getattr(history, column).extend(entry[name] for entry in entries)
    return history


def _shape(X: Any, intercept: bool, outputs: int | None) -> tuple[int, ...]:
    size = X.shape[1] + bool(intercept)
    return (size,) if outputs is None else (size, outputs)


def _threads(n_jobs: int | None) -> int:
    return int(effective_n_jobs(n_jobs))
