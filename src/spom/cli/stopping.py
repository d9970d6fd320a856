"""SIGINT and SIGTERM: what they end, and with which exit status."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """A signal ends the command; the exit status is 128 and its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _ends(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def end_on_sigterm() -> None:
    """Let SIGTERM end the command by an exception, so that no temporary file is left."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _ends)


class Stopping:
    """Around a training run: a first signal waits for the epoch under way, a second one ends the command at once.

    Before `hold()` is called, while files are read, the first signal ends the command at once too.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._held = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Handlers of signals can be set in the main thread alone; elsewhere signals are somebody else's.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._called) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """From now on there is something to lose: the first signal waits."""
        self._held = True

    def _called(self, number: int, frame: FrameType | None) -> None:
        if not self._held or self.number is not None:
            raise Stopped(number)
        self.number = number
        if sys.stderr.isatty():
            print("\nstopping after this epoch; a second signal stops at once", file=sys.stderr)

    @property
    def name(self) -> str:
        """The signal that came."""
        return "" if self.number is None else signal.Signals(self.number).name

    @property
    def status(self) -> int:
        """The exit status."""
        return 0 if self.number is None else 128 + self.number
