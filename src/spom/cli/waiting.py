"""A word to whoever waits while code is compiled for the first time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TEXT = "(loading compiled code; the first time it is made, which takes up to a minute)"


@contextmanager
def compiling(after: float = 2.0) -> Iterator[None]:
    """Say so on standard error when what is inside takes longer than `after` seconds."""
    timer = threading.Timer(after, lambda: print(TEXT, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
