"""One thread for BLAS while shards are at work: workers share the cores, and sums in parts give other bits."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any


@functools.cache
def _libraries(known: tuple[bool, ...]) -> Any:
    """The libraries of linear algebra that this process has loaded; looked for again once there may be others."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # threadpoolctl has no types

    return ThreadpoolController()


class OneThread:
    """A context in which BLAS has one thread; it may be entered by several threads, and nested.

    >>> with OneThread():
    ...     pass
    """

    _lock, _inside = threading.Lock(), 0
    _limit: Any = None

    def __enter__(self) -> None:
        with OneThread._lock:
            if OneThread._inside == 0:
                loaded = tuple(name in sys.modules for name in ("numpy", "scipy.linalg"))
                OneThread._limit = _libraries(loaded).limit(limits=1, user_api="blas")
            OneThread._inside += 1

    def __exit__(self, *error: object) -> None:
        with OneThread._lock:
            OneThread._inside -= 1
            if OneThread._inside == 0:
                OneThread._limit.restore_original_limits()
