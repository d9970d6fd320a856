"""Callbacks: objects that follow an estimator while it learns, and may stop it.

A callback is any object with one or more of these methods; there is nothing to derive from:

    on_epoch(info)        after each epoch; returning True ends the run cleanly, with the best model so far
    on_checkpoint(path)   after a checkpoint was written to `path`
    on_problem(text)      after something failed that does not end the run, such as a checkpoint on a full disk
    on_end(info)          once, when the run is over, however it ended

`info` is a dict of the callback's own. The keys of an epoch, those that apply:

    epoch            how many epochs are done
    objective, loss  the value of the problem, the mean loss (nan where it was not computed)
    dev              the score on development data, larger is better
    blocks_kept      how many templates, kernels or groups are not switched off
    nonzeros         how many weights are not zero
    per_second       tokens or rows learnt from in a second
    seconds          since the start of learning
    block_weights    each block's share of the norm, an array that sums to one

`on_end` gets the keys of the last epoch and `stopped`: "end" (all epochs were made), "converged" (a stopping rule),
"callback" (an `on_epoch` said so), "interrupted" (Ctrl-C) or "error". A callback with `objective = True` asks linear
models for the objective of each epoch, which costs them a pass over the data. A stop by hand or by rule is no error:
the estimator is fitted. In a stream each block counts as an epoch. What a callback raises is not swallowed.

>>> class Count:
...     epochs = 0
...     def on_epoch(self, info):
...         self.epochs += 1
...         return info["loss"] < 0.2
>>> count = Count()
>>> watching = Callbacks([count])
>>> watching.epoch({"epoch": 1, "loss": 0.5}), watching.epoch({"epoch": 2, "loss": 0.1}), count.epochs
(False, True, 2)

Every epoch is also a line of level INFO in the log named "spom", and so is a checkpoint and the end:
`logging.basicConfig(level="INFO")` shows them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from spom.errors import Unsupported

# The log of the whole library; silent by default.
LOG = logging.getLogger("spom")
LOG.addHandler(logging.NullHandler())

METHODS = ("on_epoch", "on_checkpoint", "on_problem", "on_end")
# What a line of the log shows of an epoch, in this order.
_LOGGED = ("epoch", "objective", "loss", "dev", "blocks_kept", "nonzeros", "per_second", "seconds")


class Callback(Protocol):
    """All three methods, for type checkers; an object may have any of them alone."""

    def on_epoch(self, info: dict[str, Any]) -> bool | None:
        """One more epoch is done; True ends the run."""

    def on_checkpoint(self, path: Path) -> None:
        """A checkpoint is written."""

    def on_end(self, info: dict[str, Any]) -> None:
        """The run is over."""


class Callbacks:
    """Calls whichever methods the callbacks have, in their order, and logs (or not).

    `given` is None, one object or several; `label` begins each line of the log.
    """

    def __init__(self, given: Any = None, label: str = "", log: bool = True) -> None:
        self.label, self.log = label, log
        self.stopped = False
        self._last: dict[str, Any] = {}
        self._ended = False
        # What a callback raised: it is passed on as it is.
        self.raised: Exception | None = None
        self._watching = as_callbacks(given)

    @property
    def wanted(self) -> bool:
        """Whether there is a callback or a log to write: without one, the entry of an epoch need not be computed."""
        return bool(self._watching) or (self.log and LOG.isEnabledFor(logging.INFO))

    @property
    def objective(self) -> bool:
        """Whether a callback has `objective = True`: it asks for the objective, a pass over the data."""
        return any(getattr(one, "objective", False) is True for one in self._watching)

    def epoch(self, info: Mapping[str, Any]) -> bool:
        """Whether a callback asks to stop; all of them are called first."""
        self._last = dict(info)
        self._write("", info)
        # A list, not any(): the second callback is called even when the first asked to stop.
        answers = self._tell("on_epoch", lambda: dict(info))
        self.stopped = self.stopped or any(answers)
        return self.stopped

    def checkpoint(self, path: str | Path) -> None:
        """Report a checkpoint."""
        self._write(f"checkpoint {path}", {})
        self._tell("on_checkpoint", lambda: Path(path))

    def problem(self, text: str) -> None:
        """Tell of what failed and does not end the run."""
        self._tell("on_problem", lambda: text)

    def end(self, stopped: str = "end", **more: Any) -> None:
        """Tell that the run is over, once: a second call does nothing."""
        if self._ended:
            return
        self._ended = True
        reason = "callback" if self.stopped and stopped == "end" else stopped
        info = {**self._last, **more, "stopped": reason}
        self._write(f"over ({reason})", info)
        self._tell("on_end", lambda: dict(info))

    def _write(self, what: str, info: Mapping[str, Any]) -> None:
        if self.log and LOG.isEnabledFor(logging.INFO):
            LOG.info("%s", _line(self.label, what, info))

    def _tell(self, name: str, what: Callable[[], Any]) -> list[Any]:
        """The answers of all callbacks that have this method."""
        try:
            return [getattr(one, name)(what()) for one in self._watching if hasattr(one, name)]
        except Exception as error:
            self.raised = error
            raise


def as_callbacks(given: Any) -> list[Any]:
    """The callbacks as a list, or an error that says which one has none of the methods.

    >>> as_callbacks(object())
    Traceback (most recent call last):
    TypeError: a callback needs a method on_epoch, on_checkpoint, on_problem or on_end; object has none
    """
    if given is None:
        return []
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in listed:
        if not any(callable(getattr(one, name, None)) for name in METHODS):
            kind = one.__name__ if isinstance(one, type) else type(one).__name__
            raise TypeError(f"a callback needs a method {', '.join(METHODS[:-1])} or {METHODS[-1]}; {kind} has none")
        if isinstance(one, type):
            raise TypeError(f"a callback is an object: write {one.__name__}(), not {one.__name__}")
    return listed


def _line(label: str, what: str, info: Mapping[str, Any]) -> str:
    """A line of the log."""
    parts = [what] if what else []
    for name in _LOGGED:
        value = info.get(name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        parts.append(f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}")
    return (f"{label}: " if label else "") + ", ".join(parts)


# --- scikit-learn's callbacks (1.9) on our estimators ---------------------------------------------------
#
# A fit of ours is a task `fit` with one task for each stage (a tagger has one, a parser several) and, below it, one
# task for each epoch. Hooks at the beginning and at the end of an epoch are called together once it is over, when it is
# known that there was one; `metadata` is what our own callbacks get as `info`. Fitted copies of the estimator in the
# middle of a run (`fitted_estimator`) are not made: callbacks that ask for one get None.


def _theirs() -> Any:
    """scikit-learn's own mixin; imported where it is needed, since it imports a library for progress bars."""
    try:
        from sklearn.callback import CallbackSupportMixin
    except ImportError:
        raise Unsupported("set_callbacks needs scikit-learn 1.9; callbacks= works with any version") from None
    return CallbackSupportMixin


class TakesCallbacks:
    """A mixin: `set_callbacks`, as scikit-learn's estimators have it."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks that follow scikit-learn's protocol, such as `sklearn.callback.ProgressBar()`; none removes."""
        return _theirs().set_callbacks(self, *callbacks)

    def _init_callback_context(self, **settings: Any) -> Any:
        return _theirs()._init_callback_context(self, **settings)


class Tasks:
    """A callback of ours that tells scikit-learn's callbacks of an estimator; nothing where it has none."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self._root: Any = None
        self._stage: Any = None

    @property
    def wanted(self) -> bool:
        """Whether the estimator has callbacks of scikit-learn, or is fitted by an estimator that may."""
        held = vars(self.estimator)
        ready = hasattr(self.estimator, "_init_callback_context")
        return ready and bool(held.get("_skl_callbacks") or "_parent_callback_ctx" in held)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around a fit: set the callbacks up, and tear them down however it ends."""
        if not self.wanted:
            yield
            return
        from sklearn.callback._callback_support import callback_management_context

        with callback_management_context(self.estimator):
            self._root = self.estimator._init_callback_context(max_subtasks=None)
            self._root.call_on_fit_task_begin(estimator=self.estimator)
            yield
            self.close()
            self._root.call_on_fit_task_end(estimator=self.estimator)

    def open(self, name: str, epochs: int | None) -> None:
        """Begin a stage of at most `epochs` epochs."""
        if self._root is not None:
            self.close()
            self._stage = self._root.subcontext(task_name=name or "epochs", max_subtasks=epochs)
            self._stage.call_on_fit_task_begin(estimator=self.estimator)

    def close(self) -> None:
        """End the stage that is under way."""
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self.estimator)
            self._stage = None

    def on_epoch(self, info: dict[str, Any]) -> bool:
        """Report an epoch; whether a callback asks to stop."""
        if self._stage is None:
            return False
        task = self._stage.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=info)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=info))
