"""One trainer: development data, patience, callbacks, progress, checkpoints and resume for all learners in passes."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats
from spom.core.atomic import check_writable, remove_stale
from spom.core.callbacks import LOG, Callbacks, Tasks, as_callbacks
from spom.core.compiled.pool import cores
from spom.core.state import State
from spom.errors import DataError, ModelFileError, SpomError
from spom.estimators.training.checkpoint import Checkpoint, check_like
from spom.estimators.training.fingerprint import Fingerprint, check_same_run, fingerprint_of
from spom.solvers.iterate import Rule, period, progress

# With more blocks than this their weights are not kept for every epoch: the history would be larger than the model.
MANY_BLOCKS = 2000
# The largest number of entries of a run of unknown length.
MANY_ENTRIES = 1024
NONE: np.ndarray[Any, Any] = np.zeros(0)
# Errors that a learner may raise for a checkpoint whose finite numbers make no sense.
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


class Learner:
    """The interface between trainer and solver: the solver's epochs, each with its entry, weights and score.

    `epochs` is the number of states, including those before a resume, or None if it is unknown. `rule` stops the run
    after a state, as the rules of `spom.solvers.iterate` do. After a resume it is called with the earlier states again,
    with only `k`, `objective` and, if the entry has one, the gap. `columns` are the names that every entry has.
    """

    epochs: int | None = None
    rule: Rule | None = None
    scores: bool = False
    columns: tuple[str, ...] = ()

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the solver, from the start or from `start`, after `done` epochs: one state per epoch."""
        raise NotImplementedError

    def entry(self, state: State) -> dict[str, Any]:
        """Return the entry of an epoch for the history; the trainer adds `epoch`, `seconds` and the score."""
        raise NotImplementedError

    def model(self, state: State) -> Arrays:
        """Return the weights after this epoch, as arrays that later epochs do not change."""
        raise NotImplementedError

    def score(self, model: Arrays) -> float:
        """Return the score of a model on development data, larger is better; called if `scores` is True."""
        raise NotImplementedError

    def snapshot(self, state: State, copy: bool = True) -> State:
        """Return the state for a checkpoint; a copy, unless no later epoch will change its arrays."""
        if not copy:
            return state
        internal = {name: a.copy() for name, a in state.internal.items()}
        norms = None if state.block_norms is None else state.block_norms.copy()
        return replace(state, theta=state.theta.copy(), internal=internal, block_norms=norms)

    def scored(self, score: float) -> dict[str, Any]:
        """Return the fields of an entry for a score."""
        return {"dev": score}

    def like(self, state: State | None) -> Arrays:
        """Return arrays with the shapes and dtypes of `model`, to check the contents of a checkpoint."""
        return self.model(State(k=0, theta=NONE) if state is None else state)


@dataclass(frozen=True)
class Outcome:
    """The weights of the best epoch on development data, or of the last epoch, and why the stage ended."""

    model: Arrays
    stopped: str


@dataclass
class _Stage:
    """The progress of a stage: the last state, the best model and its score, epochs since then."""

    name: str
    state: State | None = None
    best: Arrays | None = None
    best_score: float = -math.inf
    bad: int = 0
    epochs: int = 0
    # Whether the state is in the checkpoint, and whether no pass is in progress.
    saved: bool = True
    between: bool = True


class Trainer:
    """Runs the learners of one `fit`, one stage after another.

    Parameters
    ----------
    estimator : has `callbacks`, `verbose` and the parameters; its name is in the checkpoint.
    contents : returns the fields of the fingerprint for data, labels and templates; called only if a
        checkpoint is written or read.
    patience : stop a stage after this many epochs in a row without an improvement of the score by more
        than `tol`; None runs all epochs.
    checkpoint, every, resume : a file for the state of the run; how often it is written (epochs, or "60s", and in
        either case at the end; "stop": only if the run is stopped before its end; "60s or stop": not at the end);
        whether to resume from it.
    interrupts : whether Ctrl-C ends the run after the current epoch and keeps the result; otherwise it is raised.
    """

    def __init__(
        self,
        estimator: Any,
        contents: Callable[[], dict[str, Any]] = dict,
        *,
        patience: int | None = None,
        tol: float = 0.0,
        checkpoint: str | Path | None = None,
        every: int | float | str = "60s",
        resume: bool = False,
        interrupts: bool = True,
    ) -> None:
        self.label, self.verbose = type(estimator).__name__, bool(estimator.verbose)
        self.patience, self.tol, self.interrupts = patience, tol, interrupts
        self._tasks = Tasks(estimator)
        theirs = [self._tasks] if self._tasks.wanted else []
        self.callbacks = Callbacks([*as_callbacks(getattr(estimator, "callbacks", None)), *theirs], self.label)
        self.history: list[dict[str, Any]] = []
        self.stopped = "end"
        self._estimator, self._contents = estimator, contents
        self._fingerprint: Fingerprint | None = None
        self._seed: int | None = None
        self._done: dict[str, Arrays] = {}
        self._converged = False
        self._asked: dict[str, int | None] = {}
        self._stage, self._closed = _Stage(""), False
        self._learner: Learner | None = None
        self._resumed: Checkpoint | None = None
        self._from = Path(checkpoint) if resume and checkpoint is not None else None
        self._begin = time.perf_counter()
        if resume and checkpoint is None:
            raise DataError("resume=True needs checkpoint=, the file to resume from")
        path = None if checkpoint is None else Path(checkpoint)
        self._writer = None if path is None else Writer(path, every, self.callbacks.checkpoint)
        if resume and path is not None:
            kept = self._resumed = Checkpoint.read(path)
            self.history, self._seed, self._converged = kept.history, kept.seed, kept.converged
            self.stopped = "converged" if kept.converged else "end"
            self._begin -= float(self.history[-1].get("seconds", 0.0)) if self.history else 0.0

    # --- what a fit uses -----------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether a callback or Ctrl-C asked the run to end."""
        return self.callbacks.stopped or self.stopped == "interrupted"

    def seed(self, draw: Callable[[], int]) -> int:
        """Return the seed of the run: that of the checkpoint, or a new one."""
        if self._seed is None:
            self._seed = int(draw())
        return self._seed

    def run(self, learner: Learner, stage: str = "") -> Outcome:
        """Run the epochs of a stage, or fewer if a rule, patience, a callback or Ctrl-C ends it."""
        begun = self._begun(learner, stage)
        if isinstance(begun, Outcome):
            return begun
        self._stage, self._learner = begun, learner
        self._tasks.open(stage, None if learner.epochs is None else max(0, learner.epochs - begun.epochs))
        states = learner.states(begun.state, begun.epochs)
        reason = "converged" if self._was_over(learner) else self._passes(learner, states)
        if begun.state is None:
            raise ValueError("the solver yielded no state: it had nothing to do")
        self._converged = self._converged or reason == "converged"
        if reason != "end" and not self.over:
            self.stopped = reason
        if self.over and not begun.saved and not self._closed and self._writer is not None:
            self._save()
        # After a stop the checkpoint is not changed: later stages only complete the model.
        self._closed = self._closed or self.over
        model = learner.model(begun.state) if begun.best is None else begun.best
        self._done[stage], self._asked[stage] = model, learner.epochs
        if self._writer is None:
            # The state is not needed again: free its memory for the next stage.
            self._stage, self._learner = _Stage(stage), None
        return Outcome(model, reason)

    @contextmanager
    def running(self) -> Iterator[Trainer]:
        """Run all stages inside; at any end of the block, wait for the checkpoint and call the callbacks."""
        with self._tasks.running():
            try:
                yield self
            except BaseException as error:
                if self._writer is not None:
                    self._writer.join()
                self.callbacks.end("interrupted" if isinstance(error, KeyboardInterrupt) else "error")
                self._blame_checkpoint(error)
                raise
            if self._writer is not None:
                if not self._stage.saved and not self._writer.on_stop and not self._closed:
                    self._save(copy=False)
                self._writer.join()
                self._tell_of_failure(self.over)
            self.callbacks.end(self.stopped)

    def _blame_checkpoint(self, error: BaseException) -> None:
        """Raise a `ModelFileError` instead of an error of a resumed run, unless a callback raised it."""
        ours = isinstance(error, DAMAGE) and not isinstance(error, SpomError) and error is not self.callbacks.raised
        if self._from is not None and ours:
            what = f"the run cannot resume from this checkpoint ({error}); it is damaged: start without resume"
            raise ModelFileError(f"{self._from}: {what}") from error

    # --- a stage -------------------------------------------------------------------------------------------

    def _begun(self, learner: Learner, stage: str) -> _Stage | Outcome:
        """Return a stage at its start or as in the checkpoint, or its outcome if it is over."""
        kept = self._resumed
        if kept is None:
            return _Stage(stage)
        assert self._writer is not None
        path = self._writer.path
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(self._estimator, self._contents)
            check_same_run(path, kept.fingerprint, self._fingerprint)
            if any(name not in entry for entry in kept.history for name in learner.columns):
                raise ModelFileError(f"{path}: the history is not whole: the checkpoint is damaged")
        if kept.stage == stage and kept.state is not None:
            self._resumed = None
            best = None if kept.best is None else check_like(kept.best, learner.like(kept.state), path)
            return _Stage(stage, kept.state, best, kept.best_score, kept.bad, kept.epochs)
        if stage not in kept.done:
            raise DataError(f"the checkpoint has nothing of the stage {stage!r}; start without resume", str(path))
        if kept.asked.get(stage) != learner.epochs:
            what = f"the stage {stage!r} is over, with {kept.asked.get(stage)} epochs"
            raise DataError(f"{what}; it cannot continue to {learner.epochs}: start without resume", str(path))
        self._asked[stage] = learner.epochs
        self._done[stage] = check_like(kept.done[stage], learner.like(None), path)
        return Outcome(self._done[stage], "end")

    def _was_over(self, learner: Learner) -> bool:
        """Return whether patience or a rule had ended the stage when the checkpoint was written."""
        stop = False
        if self._stage.state is not None and learner.rule is not None:
            # Earlier entries belong to other stages.
            for entry in self.history[max(0, len(self.history) - self._stage.epochs) :]:
                internal = {"gap": np.array(float(entry["gap"]))} if "gap" in entry else {}
                objective = float(entry.get("objective", math.nan))
                stop = learner.rule(State(k=int(entry["epoch"]), theta=NONE, objective=objective, internal=internal))
        return stop or self._too_long()

    def _too_long(self) -> bool:
        return self.patience is not None and self._stage.best is not None and self._stage.bad >= self.patience

    def _passes(self, learner: Learner, states: Iterable[State]) -> str:
        """Run the epochs, and return why they ended."""
        stage, reason = self._stage, "end"
        if self.verbose:
            left = None if learner.epochs is None else max(0, learner.epochs - stage.epochs)
            states = progress(states, left, self.label)
        with _Interrupts() as interrupts:
            try:
                for state in states:
                    self._note(learner, state)
                    reason = self._verdict(learner, state, interrupts.count > 0)
                    self._tick(reason)
                    stage.between = False
                    if reason != "end":
                        break
            except KeyboardInterrupt:
                if not self.interrupts or stage.state is None or interrupts.count > 1:
                    raise
                reason = "interrupted"
                # A state from the middle of a pass cannot be resumed to the same bits.
                stage.saved = stage.saved or not stage.between
        if reason == "interrupted" and not self.interrupts:
            raise KeyboardInterrupt
        return reason

    def _verdict(self, learner: Learner, state: State, interrupted: bool) -> str:
        """Return why the stage ends after this epoch; "end" if it does not."""
        converged = learner.rule is not None and learner.rule(state)
        stop = self.callbacks.epoch(self.history[-1])
        self.history[-1] = _short(self.history[-1])
        if stop:
            return "callback"
        if interrupted:
            return "interrupted"
        return "converged" if converged or self._too_long() else "end"

    def _note(self, learner: Learner, state: State) -> None:
        """Record an epoch: its entry, its score, and whether it is the best."""
        stage = self._stage
        stage.state, stage.epochs, stage.saved, stage.between = state, stage.epochs + 1, False, True
        entry = {"epoch": stage.epochs, **learner.entry(state)}
        if learner.scores:
            model = learner.model(state)
            score = learner.score(model)
            entry |= learner.scored(score)
            stage.bad = 0 if score > stage.best_score + self.tol else stage.bad + 1
            if score > stage.best_score:
                stage.best, stage.best_score = model, score
        entry["seconds"] = time.perf_counter() - self._begin
        if learner.epochs is None and len(self.history) >= MANY_ENTRIES:
            # A stream may be endless: drop every other entry to bound the memory.
            del self.history[::2]
        self.history.append(entry)

    # --- checkpoints ---------------------------------------------------------------------------------------

    def _tick(self, reason: str) -> None:
        """Write a checkpoint if one is due."""
        if self._writer is None or self._closed:
            return
        due = self._writer.due()
        self._tell_of_failure(False)
        if due and reason not in ("callback", "interrupted"):
            self._save()

    def _save(self, copy: bool = True) -> None:
        """Write a checkpoint in the background; the state is copied here."""
        stage, begin = self._stage, time.thread_time()
        assert self._writer is not None
        assert self._learner is not None
        assert stage.state is not None
        state = self._learner.snapshot(stage.state, copy)
        others = {name: model for name, model in self._done.items() if name != stage.name}
        history, converged = list(self.history), self._converged
        best, score, bad, epochs = stage.best, stage.best_score, stage.bad, stage.epochs

        def make() -> Checkpoint:
            if self._fingerprint is None:
                self._fingerprint = fingerprint_of(self._estimator, self._contents)
            kept = (self._fingerprint, self._seed, stage.name, state, best, score, bad, epochs)
            return Checkpoint(*kept, history, others, converged, dict(self._asked))

        self._writer.write(make, time.thread_time() - begin)
        stage.saved = True

    def _tell_of_failure(self, raises: bool) -> None:
        """Report a checkpoint that was not written; raise the error only if the run is to be resumed from it."""
        assert self._writer is not None
        error, self._writer.failed = self._writer.failed, None
        if error is None:
            return
        if raises:
            raise error
        text = f"the checkpoint {self._writer.path} was not written ({error}); training continues"
        LOG.warning("%s: %s", self.label, text)
        self.callbacks.problem(text)


def shares(norms: Floats | None) -> dict[str, Any]:
    """Return the history's entries for blocks: the number of non-zero ones, and their shares of the sum of the norms.

    >>> shares(np.array([3.0, 0.0, 1.0]))
    {'blocks_kept': 2, 'block_weights': array([0.75, 0.  , 0.25])}
    """
    found = np.zeros(0) if norms is None else norms
    return {"blocks_kept": int(np.count_nonzero(found)), "block_weights": found / found.sum() if found.any() else found}


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry for the history: without the weights of very many blocks."""
    weights = entry.get("block_weights")
    if weights is None or np.size(weights) <= MANY_BLOCKS:
        return entry
    return {name: value for name, value in entry.items() if name != "block_weights"}


def kept_epoch(history: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of the epoch whose weights were kept: the first with the best score, or the last.

    >>> kept_epoch([{"epoch": 1, "dev": 0.5}, {"epoch": 2, "dev": 0.75}, {"epoch": 3, "dev": 0.625}])
    {'epoch': 2, 'dev': 0.75}
    """
    scored = [entry for entry in history if "dev" in entry]
    if scored:
        return max(scored, key=lambda entry: float(entry["dev"]))
    return history[-1] if history else {}


def last_entry(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last entry of a history without its long and timed fields: the same seed must give the same bytes."""
    dropped = ("block_weights", "per_second", "seconds")
    return [{k: v for k, v in entry.items() if k not in dropped} for entry in history[-1:]]


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Restore the estimator's previous state after any error inside."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class _Interrupts:
    """Inside, Ctrl-C is counted and waits for the end of the epoch; the second one raises `KeyboardInterrupt` at once.

    This works only if Python's own handler is set, and in the main thread, where handlers can be set.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._called)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _called(self, number: int, frame: Any) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt


# --- when checkpoints are written ------------------------------------------------------------------------------

# The share of a run's time that checkpoints may take, and seconds that are always allowed. With the first checkpoint,
# whose cost is unknown, a run of a few seconds stays below 3 %. `benchmarks/checkpoints.py` measures it.
SHARE, ALLOWED = 0.015, 0.05


class Writer:
    """A writer of checkpoints in a thread; one that is due while another is being written waits for the next epoch.

    So does one that would slow the run down by more than `SHARE`: each costs the time of copying the state, and the
    writing thread's share of the machine. A write that fails does not end the run: `failed` keeps the error
    until the trainer has reported it.
    """

    def __init__(self, path: Path, every: int | float | str, written: Callable[[Path], None]) -> None:
        check_writable(path)
        remove_stale(path)
        self.path, self.written = path, written
        text = every if isinstance(every, str) else ""
        self.on_stop = text.endswith("stop")
        often = text.removesuffix(" or stop") if self.on_stop else every
        self.period, self.by_time = (math.inf, True) if often == "stop" else period(often)
        self.begin = self.mark = time.perf_counter()
        self.count, self.spent, self.cost = 0, 0.0, 0.0
        self.failed: Exception | None = None
        self._thread: threading.Thread | None = None
        self._finished = False

    def due(self) -> bool:
        """Return whether a checkpoint is due at the end of this epoch."""
        self._collect()
        self.count += 1
        now = time.perf_counter()
        if self._thread is not None or self.spent + self.cost > ALLOWED + SHARE * (now - self.begin):
            return False
        return now - self.mark >= self.period if self.by_time else self.count >= self.period

    def write(self, make: Callable[[], Checkpoint], copied: float = 0.0) -> None:
        """Write the checkpoint that `make` returns in the thread; copying it took `copied` seconds."""
        self.join()
        self.mark, self.count = time.perf_counter(), 0

        def work() -> None:
            try:
                make().write(self.path)
                self.failed, self._finished = None, True
            except Exception as error:
                self.failed = error
            self.cost = copied + time.thread_time() / cores()
            self.spent += self.cost

        self._thread = threading.Thread(target=work, name="spom-checkpoint", daemon=False)
        self._thread.start()

    def join(self) -> None:
        """Wait until the current write is on disk."""
        if self._thread is not None:
            self._thread.join()
        self._collect()

    def _collect(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            if self._finished:
                self._finished = False
                self.written(self.path)
