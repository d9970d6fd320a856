"""Callbacks of spom on scikit-learn's estimators (1.9); for the reverse see `spom.core.callbacks`."""

from __future__ import annotations

import time
from typing import Any

from spom.core.callbacks import Callbacks


class ForScikitLearn:
    """A callback of spom for `set_callbacks` of scikit-learn's estimators.

    `on_epoch` is called at the end of each task without subtasks (an iteration of a solver, a step of a
    pipeline, a fit of a grid), with `epoch` (its number), `task` (its name) and `seconds`; True ends the loop of
    the task. `on_end` is called once the outermost fit is over.

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
        """Start the clock and the callbacks."""
        self._calls, self._begin = Callbacks(self.callback, log=False), time.perf_counter()

    def teardown(self, estimator: Any, context: Any) -> None:
        """Call `on_end`: the fit is over."""
        self._calls.end()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: callbacks of spom are not called at the beginning."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Report the end of a task without subtasks."""
        if context.max_subtasks != 0 or context.parent is None:
            return False
        seconds = time.perf_counter() - self._begin
        number = context.task_id + 1 if isinstance(context.task_id, int) else 0
        return self._calls.epoch({"epoch": number, "task": context.task_name, "seconds": seconds})
