"""scikit-learn's callbacks (1.9), both ways: theirs on our estimators, ours on theirs.

A fit of ours is a task `fit` with one task for each stage (a tagger has one, a parser several) and, below it, one task
for each epoch. Hooks at the beginning and at the end of an epoch are called together once it is over, when it is known
that there was one; `metadata` is what our own callbacks get as `info`. Fitted copies of the estimator in the middle of
a run (`fitted_estimator`) are not made: callbacks that ask for one get None.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spom.core.callbacks import Callbacks
from spom.errors import Unsupported


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
        """Tell of an epoch; whether some callback wants the run to end."""
        if self._stage is None:
            return False
        task = self._stage.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=info)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=info))


class ForScikitLearn:
    """A callback of ours for `set_callbacks` of scikit-learn's estimators.

    `on_epoch` is called at the end of each task that has no tasks below it (an iteration of a solver, a step of a
    pipeline, a fit of a grid), with `epoch` (its number), `task` (its name) and `seconds`; True ends the loop that it
    belongs to. `on_end` is called once the outermost fit is over.

    >>> class Print:
    ...     def on_epoch(self, info):
    ...         print(info["task"], info["epoch"])
    >>> watching = ForScikitLearn(Print())
    """

    max_propagation_depth: int | None = None

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self._calls = Callbacks(callback, log=False)
        self._begin = time.perf_counter()

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin."""
        self._calls, self._begin = Callbacks(self.callback, log=False), time.perf_counter()

    def teardown(self, estimator: Any, context: Any) -> None:
        """The fit is over."""
        self._calls.end()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: our callbacks are not called at the beginning."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Tell of the end of a task without tasks below it."""
        if context.max_subtasks != 0 or context.parent is None:
            return False
        seconds = time.perf_counter() - self._begin
        number = context.task_id + 1 if isinstance(context.task_id, int) else 0
        return self._calls.epoch({"epoch": number, "task": context.task_name, "seconds": seconds})
