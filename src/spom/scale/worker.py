"""What runs on a worker: a shard is loaded (or taken from the cache), a function is called, its time is taken."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spom.errors import DataError, SpomError

# Prepared shards that a process keeps, and how many of them at most take up memory: a worker that is given others
# than in the round before reads them again.
KEPT = 64


@dataclass(frozen=True)
class Common:
    """What all tasks of a fit share: its name, the driver's version, and what is to be done."""

    fit: str
    version: tuple[str, str]
    lesson: Any


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
    """What must be equal for equal bits: the version of spom, and the instructions that kernels are compiled for."""
    from spom import __version__
    from spom.estimators.training.fingerprint import target

    return __version__, target()


class Cache:
    """Prepared shards, the least recently used of which go first."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Any] = OrderedDict()

    def get(self, key: tuple[str, int], make: Callable[[], Any]) -> Any:
        """The value of a key, made where it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return value

    def forget(self, fit: str) -> None:
        """Drop what belongs to a fit that is over."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == fit]:
                del self._kept[key]


CACHE = Cache()


def run(common: Common, state: Any, function: Callable[..., Any], shard: Any, *arguments: Any) -> Done:
    """Call function(common, state, shard, *arguments) on a worker of the same version as the driver."""
    mine = version()
    if mine != common.version:
        raise SpomError(
            f"a worker has spom {mine[0]} for {mine[1]}, the driver has {common.version[0]} for {common.version[1]}: "
            "install the same version on all machines, and set the same level (SPOM_CPU_LEVEL) where they differ"
        )
    begin = time.perf_counter()
    result = function(common, state, shard, *arguments)
    return Done(result, time.perf_counter() - begin)


def read(shard: Any) -> Any:
    """Load a shard; whatever goes wrong is a `DataError` that names it."""
    try:
        return shard.load()
    except SpomError:
        raise
    except Exception as error:
        raise DataError(f"the shard cannot be read ({type(error).__name__}: {error})", str(shard)) from None


def look(common: Common, state: Any, shard: Any, index: int) -> Any:
    """(stamp, what the lesson says of the shard, None where it is empty); one that cannot be read is told of."""
    try:
        loaded, stamp = read(shard), shard.stamp()
    except (DataError, OSError) as error:
        return Unread(str(shard), str(error))
    return stamp, None if loaded[0] is None else common.lesson.look(loaded)


def learn(common: Common, state: Any, shard: Any, index: int, seed: list[int]) -> Any:
    """What the lesson makes of the state with the examples of a shard."""
    prepared = CACHE.get((common.fit, index), lambda: common.lesson.prepare(read(shard)))
    return common.lesson.learn(prepared, state, seed)
