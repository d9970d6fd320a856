"""One BLAS thread while shards run: workers share the cores, and sums split between threads would differ in bits."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any


@functools.cache
def _libraries(known: tuple[bool, ...]) -> Any:
    """Return the linear algebra libraries that this process has loaded; look again when `known` changes."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # threadpoolctl has no types

    return ThreadpoolController()


class OneThread:
    """A context in which BLAS has one thread; several threads may enter it, and it may be nested.

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
