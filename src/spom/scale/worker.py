"""The code that runs on a worker: load a shard (or take it from the cache), call a function, and time it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from spom.errors import DataError, SpomError
from spom.scale.blas import OneThread


@dataclass(frozen=True)
class Common:
    """What all tasks of a phase share: the fit, the driver's version, the lesson, and hashes of the shards.

    `fit` is the name of the fit and the number of the lesson. `stamps` is empty before the first pass, and None for
    shards that were not hashed. `siblings` is the number of processes of this executor on one machine.
    """

    fit: tuple[str, int]
    version: tuple[str, str]
    lesson: Any
    stamps: dict[int, str | None]
    stamped: bool = False
    siblings: int = 1


@dataclass(frozen=True)
class Done:
    """The result of a task and the seconds that it took on its worker."""

    result: Any
    seconds: float


@dataclass(frozen=True)
class Unread:
    """A shard that could not be read, and why."""

    where: str
    why: str


def version() -> tuple[str, str]:
    """Return what equal bits depend on: the version of spom, and the instructions that kernels are compiled for."""
    from spom import __version__
    from spom.estimators.training.fingerprint import target

    return __version__, target()


def room(siblings: int) -> int:
    """Return the bytes for the cache of this process: half the limit of a Dask worker, or half its share of memory."""
    try:
        if "distributed" in sys.modules:
            from distributed import get_worker

            limit = getattr(get_worker().memory_manager, "memory_limit", None)
            if limit:
                return int(limit) // 2
    except ValueError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (2 * siblings)
    except (AttributeError, ValueError, OSError):
        return (1 << 30) // siblings


def weighed(value: Any, seen: set[int] | None = None, depth: int = 8) -> int:
    """Estimate the bytes of a value: its arrays and texts; long lists are extrapolated from their first 100 items.

    >>> import numpy as np
    >>> weighed({"a": np.zeros(10), "b": [b"abc"] * 5})
    95
    """
    seen = set() if seen is None else seen
    if (id(value) in seen and hasattr(value, "__dict__")) or depth == 0:
        return 0
    if hasattr(value, "nbytes") and hasattr(value, "dtype"):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    seen.add(id(value))
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    if parts is None:
        parts = list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, type) else []
    some = sum(weighed(part, seen, depth - 1) for part in parts[:100])
    return some if len(parts) <= 100 else some * len(parts) // 100


class Cache:
    """Shards that were read or prepared, by (fit, ...); above `limit` bytes the least recently used go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Hashable, ...], tuple[Any, int]] = OrderedDict()

    def get(self, key: tuple[Hashable, ...], make: Callable[[], Any], limit: int) -> Any:
        """Return the value of a key, made on first use."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = make()
        size = weighed(value)
        with self._lock:
            self._kept[key] = (value, size)
            total = sum(size for _, size in self._kept.values())
            while total > limit and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1][1]
        return value

    def forget(self, fit: Hashable) -> None:
        """Drop the entries of a fit, or of a lesson, that is over."""
        with self._lock:
            for key in [key for key in self._kept if fit in (key[0], key[0][0])]:  # type: ignore[index]
                del self._kept[key]


CACHE = Cache()


def forget(fit: Hashable) -> None:
    """Drop the entries of a fit, or of a lesson, from the cache of this process."""
    CACHE.forget(fit)


def run(common: Common, state: Any, function: Callable[..., Any], shard: Any, *arguments: Any) -> Done:
    """Call function(common, state, shard, *arguments) on a worker of the same version as the driver."""
    mine = version()
    if mine != common.version:
        raise SpomError(
            f"a worker has spom {mine[0]} for {mine[1]}, the driver has {common.version[0]} for {common.version[1]}: "
            "install the same version on all machines, and set the same level (SPOM_CPU_LEVEL) where they differ"
        )
    begin = time.perf_counter()
    with OneThread():
        result = function(common, state, shard, *arguments)
    return Done(result, time.perf_counter() - begin)


def load(common: Common, shard: Any, index: int) -> Any:
    """Load a shard; any failure is a `DataError` that names it."""
    try:
        loaded = shard.load()
        known = common.stamps.get(index)
        changed = known is not None and shard.outside and shard.stamp(loaded) != known
    except SpomError:
        raise
    except Exception as error:
        raise DataError(f"the shard cannot be read ({type(error).__name__}: {error})", str(shard)) from None
    if changed:
        what = "these are not the data of the first pass: the file has changed, or this worker has another one"
        raise DataError(what, str(shard))
    return loaded


def read(common: Common, shard: Any, index: int) -> Any:
    """Load a shard through the cache; data in memory are in the shard itself."""
    if not shard.outside:
        return load(common, shard, index)
    return CACHE.get(((common.fit[0], 0), index), lambda: load(common, shard, index), room(common.siblings))


def look(common: Common, state: Any, shard: Any, index: int) -> Any:
    """Return (stamp, the lesson's `look` at the shard, None if it is empty); return `Unread` if it cannot be read."""
    try:
        loaded = read(common, shard, index)
        stamp = shard.stamp(loaded) if shard.outside or common.stamped else None
    except (DataError, OSError) as error:
        return Unread(str(shard), str(error))
    return stamp, None if loaded[0] is None else common.lesson.look(loaded)


def ask(common: Common, state: Any, shard: Any, index: int, place: int) -> Any:
    """Return the lesson's answer for the examples of a shard, which has this index among all; None if it is empty."""
    loaded = read(common, shard, index)
    return None if loaded[0] is None else common.lesson.ask(loaded, place)


def learn(common: Common, state: Any, shard: Any, index: int, seed: list[int]) -> Any:
    """Return the result of learning from the state on the prepared examples of a shard; None if it is empty."""

    def prepared() -> Any:
        loaded = read(common, shard, index)
        return None if loaded[0] is None else common.lesson.prepare(loaded)

    ready = CACHE.get((common.fit, index), prepared, room(common.siblings))
    return None if ready is None else common.lesson.learn(ready, state, seed)
