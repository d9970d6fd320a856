"""Values as bytes on their way to workers and back: tables that are mostly zero travel without their zeros."""

from __future__ import annotations

import io
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Arrays of fewer entries are sent as they are; an entry that is sent with its place takes twice the room.
LEAST = 1 << 12
_WORDS = {4: np.uint32, 8: np.uint64}


@dataclass
class Moved:
    """What an executor has sent and received: bytes, and the seconds that packing and unpacking took on both sides."""

    bytes: int = 0
    seconds: float = 0.0


def packed(value: Any, moved: Moved | None = None) -> bytes:
    """Pickle a value. Blocks that were switched off, and whatever else is zero in large tables, are left out.

    >>> table = np.zeros(100_000)
    >>> table[7] = -0.0
    >>> len(packed(table)) < 1000, bool(np.signbit(pickle.loads(packed(table))[7]))
    (True, True)
    """
    begin, file = time.perf_counter(), io.BytesIO()
    _pickler()(file, protocol=5).dump(value)
    content = file.getvalue()
    if moved is not None:
        moved.bytes, moved.seconds = moved.bytes + len(content), moved.seconds + time.perf_counter() - begin
    return content


def _pickler() -> Any:
    """A pickler for functions of scripts too, which knows sparse tables."""
    if not _PICKLERS:
        try:
            from cloudpickle import Pickler
        except ImportError:
            # Not there with older versions of joblib; only functions of a script itself need it.
            Pickler = pickle.Pickler
        other = getattr(Pickler, "reducer_override", lambda self, value: NotImplemented)

        class Sparse(Pickler):  # type: ignore[misc]  # cloudpickle has no types
            def reducer_override(self, value: Any) -> Any:
                found = _without_zeros(value) if type(value) is np.ndarray else None
                return other(self, value) if found is None else found

        _PICKLERS.append(Sparse)
    return _PICKLERS[0]


_PICKLERS: list[Any] = []


def _without_zeros(a: Any) -> Any:
    """How to make an array of floats from its entries, or None where that does not pay."""
    if a.size < LEAST or a.dtype.kind != "f" or a.dtype.itemsize not in _WORDS or not a.flags.c_contiguous:
        return None
    # The bits are compared: minus zero stays minus zero.
    places = np.flatnonzero(a.reshape(-1).view(_WORDS[a.dtype.itemsize]))
    small = places.astype(np.uint32 if a.size < 1 << 32 else np.uint64)
    if (small.itemsize + a.dtype.itemsize) * small.size > a.nbytes // 2:
        return None
    return _with_zeros, (a.shape, a.dtype.str, small, a.reshape(-1)[places])


def _with_zeros(shape: tuple[int, ...], dtype: str, places: Any, values: Any) -> Any:
    made = np.zeros(shape, dtype=dtype)
    made.reshape(-1)[places] = values
    return made


# What this process has unpacked of what tasks share, by name: a fit has two such values at a time.
_UNPACKED: OrderedDict[str, Any] = OrderedDict()
_MOST = 6
_LOCK = threading.Lock()


def once(key: str, content: Callable[[], bytes]) -> Any:
    """The value of these bytes; a process unpacks it once."""
    with _LOCK:
        if key not in _UNPACKED:
            _UNPACKED[key] = pickle.loads(content())
            while len(_UNPACKED) > _MOST:
                _UNPACKED.popitem(last=False)
        _UNPACKED.move_to_end(key)
        return _UNPACKED[key]


class Apart:
    """A shard in memory on its way: its data are sent once, apart from the calls, and opened where they are needed."""

    outside = False

    def __init__(self, where: str) -> None:
        self.where = where
        self.content: Callable[[], bytes] | None = None

    def __str__(self) -> str:
        return self.where

    def _shard(self) -> Any:
        assert self.content is not None
        return pickle.loads(self.content())

    def load(self) -> Any:
        """What the shard loads."""
        return self._shard().load()

    def stamp(self, loaded: Any) -> str:
        """The hash of the shard."""
        return str(self._shard().stamp(loaded))


def answered(
    call: bytes, held: Callable[[], list[Any]], apart: Callable[[], bytes] | None = None
) -> tuple[bytes, float]:
    """Run a packed (function, arguments) after the values that it shares; the result and the seconds of packing.

    `apart` gives the bytes of what is `Apart`.
    """
    begin = time.perf_counter()
    (function, arguments), shared = pickle.loads(call), held()
    for value in arguments:
        if isinstance(value, Apart):
            value.content = apart
    unpacked = time.perf_counter() - begin
    result = function(*shared, *arguments)
    begin = time.perf_counter()
    content = packed(result)
    return content, unpacked + time.perf_counter() - begin


def opened(answer: tuple[bytes, float], moved: Moved) -> Any:
    """The result that `answered` gave."""
    begin = time.perf_counter()
    result = pickle.loads(answer[0])
    moved.bytes += len(answer[0])
    moved.seconds += answer[1] + time.perf_counter() - begin
    return result
