"""Our callbacks on scikit-learn's estimators (1.9); theirs on ours are in `spom.core.callbacks`."""

from __future__ import annotations

import time
from typing import Any

from spom.core.callbacks import Callbacks


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
