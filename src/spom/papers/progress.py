"""A progress bar on standard error, silent if that is not a terminal."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """A bar for `total(n)` steps, with `step(what)` at the beginning of each; without a terminal nothing is shown.

    >>> with Bar("nothing is shown here", show=False) as bar:
    ...     bar.total(2)
    ...     bar.step("first")
    """

    def __init__(self, title: str, show: bool | None = None) -> None:
        self.title, self._show = title, sys.stderr.isatty() if show is None else show
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        if self._show:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self.title, total=None)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def total(self, steps: int) -> None:
        """Set how many times `step` will be called."""
        if self._progress is not None:
            # The first call begins the first step, so nothing is done yet.
            self._progress.update(self._task, total=steps, completed=-1)

    def step(self, what: str = "") -> None:
        """Begin the next step."""
        if self._progress is not None:
            text = f"{self.title}: {what}" if what else self.title
            self._progress.update(self._task, advance=1, description=text)
