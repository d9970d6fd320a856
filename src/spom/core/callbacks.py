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
    blocks_kept      the number of templates, kernels or groups that are not switched off
    nonzeros         the number of nonzero weights
    per_second       tokens or rows learnt from per second
    seconds          since the start of learning
    block_weights    each block's share of the norm, an array that sums to one

`on_end` gets the keys of the last epoch and `stopped`: "end" (all epochs were made), "converged" (a stopping rule),
"callback" (an `on_epoch` returned True), "interrupted" (Ctrl-C) or "error". A callback with `objective = True` asks
linear models for the objective of each epoch, which costs a pass over the data. A stop by the user or by a rule is no
error: the estimator is fitted. In a stream each block counts as an epoch. Exceptions of a callback are passed on.

>>> class Count:
...     epochs = 0
...     def on_epoch(self, info):
...         self.epochs += 1
...         return info["loss"] < 0.2
>>> count = Count()
>>> watching = Callbacks([count])
>>> watching.epoch({"epoch": 1, "loss": 0.5}), watching.epoch({"epoch": 2, "loss": 0.1}), count.epochs
(False, True, 2)

Every epoch, every checkpoint and the end of the run are also logged at level INFO by the logger "spom":
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

# The logger of the whole library; silent by default.
LOG = logging.getLogger("spom")
LOG.addHandler(logging.NullHandler())

METHODS = ("on_epoch", "on_checkpoint", "on_problem", "on_end")
# The keys of an epoch that a line of the log shows, in this order.
_LOGGED = ("epoch", "objective", "loss", "dev", "blocks_kept", "nonzeros", "per_second", "seconds")


class Callback(Protocol):
    """The methods of a callback, for type checkers; an object needs only one. `on_problem(text)` is a fourth."""

    def on_epoch(self, info: dict[str, Any]) -> bool | None:
        """Handle the end of an epoch; return True to end the run."""

    def on_checkpoint(self, path: Path) -> None:
        """Handle a checkpoint that was written to `path`."""

    def on_end(self, info: dict[str, Any]) -> None:
        """Handle the end of the run."""


class Callbacks:
    """Several callbacks as one: calls the methods that each of them has, in order, and logs if `log` is true.

    `given` is None, one object or several; `label` is the prefix of each line of the log.
    """

    def __init__(self, given: Any = None, label: str = "", log: bool = True) -> None:
        self.label, self.log = label, log
        self.stopped = False
        self._last: dict[str, Any] = {}
        self._ended = False
        # The exception that a callback raised; it is passed on unchanged.
        self.raised: Exception | None = None
        self._watching = as_callbacks(given)

    @property
    def wanted(self) -> bool:
        """Whether there is a callback or a log to write. If not, `info` of an epoch need not be computed."""
        return bool(self._watching) or (self.log and LOG.isEnabledFor(logging.INFO))

    @property
    def objective(self) -> bool:
        """Whether a callback has `objective = True`, which asks for the objective and costs a pass over the data."""
        return any(getattr(one, "objective", False) is True for one in self._watching)

    def epoch(self, info: Mapping[str, Any]) -> bool:
        """Call all callbacks, and return whether one of them has asked to stop."""
        self._last = dict(info)
        self._write("", info)
        # A list, not a lazy any(): the second callback is called even if the first asks to stop.
        answers = self._tell("on_epoch", lambda: dict(info))
        self.stopped = self.stopped or any(answers)
        return self.stopped

    def checkpoint(self, path: str | Path) -> None:
        """Report a checkpoint."""
        self._write(f"checkpoint {path}", {})
        self._tell("on_checkpoint", lambda: Path(path))

    def problem(self, text: str) -> None:
        """Report a failure that does not end the run."""
        self._tell("on_problem", lambda: text)

    def end(self, stopped: str = "end", **more: Any) -> None:
        """Report the end of the run, once: a second call does nothing."""
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
        """Call this method of all callbacks that have it, and return their answers."""
        try:
            return [getattr(one, name)(what()) for one in self._watching if hasattr(one, name)]
        except Exception as error:
            self.raised = error
            raise


def as_callbacks(given: Any) -> list[Any]:
    """Return the callbacks as a list, or raise a `TypeError` that names one without any of the methods.

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
    """Format a line of the log."""
    parts = [what] if what else []
    for name in _LOGGED:
        value = info.get(name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        parts.append(f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}")
    return (f"{label}: " if label else "") + ", ".join(parts)


# --- scikit-learn's callbacks (1.9) on our estimators ---------------------------------------------------
#
# One of our fits is a task `fit` with one task per stage (a tagger has one, a parser several) and, below it, one task
# per epoch. The hooks for the beginning and the end of an epoch are called together when it is over, because only then
# is it known that there was one. `metadata` is the `info` of our own callbacks. No fitted copies of the estimator
# (`fitted_estimator`) are made during a run: callbacks that ask for one get None.


def _theirs() -> Any:
    """Return scikit-learn's own mixin, imported only when needed: it imports a library for progress bars."""
    try:
        from sklearn.callback import CallbackSupportMixin
    except ImportError:
        raise Unsupported("set_callbacks needs scikit-learn 1.9; callbacks= works with any version") from None
    return CallbackSupportMixin


class TakesCallbacks:
    """A mixin: `set_callbacks`, as scikit-learn's estimators have it."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks that follow scikit-learn's protocol, such as `sklearn.callback.ProgressBar()`; none clears."""
        return _theirs().set_callbacks(self, *callbacks)

    def _init_callback_context(self, **settings: Any) -> Any:
        return _theirs()._init_callback_context(self, **settings)


class Tasks:
    """A callback that calls the scikit-learn callbacks of an estimator, if it has any."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self._root: Any = None
        self._stage: Any = None

    @property
    def wanted(self) -> bool:
        """Whether the estimator has scikit-learn callbacks, or is fitted by an estimator that may have some."""
        held = vars(self.estimator)
        ready = hasattr(self.estimator, "_init_callback_context")
        return ready and bool(held.get("_skl_callbacks") or "_parent_callback_ctx" in held)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Set up the callbacks around a fit, and tear them down however it ends."""
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
        """Begin a stage of at most `epochs` epochs, and end the one before."""
        if self._root is not None:
            self.close()
            self._stage = self._root.subcontext(task_name=name or "epochs", max_subtasks=epochs)
            self._stage.call_on_fit_task_begin(estimator=self.estimator)

    def close(self) -> None:
        """End the current stage, if there is one."""
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self.estimator)
            self._stage = None

    def on_epoch(self, info: dict[str, Any]) -> bool:
        """Report an epoch, and return whether a callback asks to stop."""
        if self._stage is None:
            return False
        task = self._stage.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=info)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=info))
