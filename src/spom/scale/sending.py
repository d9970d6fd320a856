"""Values sent to workers and back: large arrays as they are in memory, mostly zero ones without their zeros."""

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

# Arrays with fewer entries are sent as they are; an entry that is sent with its place takes twice the space.
LEAST = 1 << 12
_WORDS = {4: np.uint32, 8: np.uint64}
# Arrays of at least APART bytes are not copied into the pickle; kernels take arrays aligned to ALIGNED bytes.
APART, ALIGNED = 1 << 16, 16
# A pickle, and the bytes of the large arrays that belong to it.
Frames = list[Any]


@dataclass
class Moved:
    """Data sent and received by an executor: bytes, and the seconds of packing and unpacking on both sides."""

    bytes: int = 0
    seconds: float = 0.0


def packed(value: Any, moved: Moved | None = None) -> Frames:
    """Pickle a value without the zeros of large tables, such as those of blocks that are switched off.

    Frames of arrays share the arrays' memory.

    >>> table = np.zeros(100_000)
    >>> table[7] = -0.0
    >>> weight(packed(table)) < 1000, bool(np.signbit(unpacked(packed(table))[7]))
    (True, True)
    """
    begin, apart = time.perf_counter(), list[Any]()

    def taken(buffer: Any) -> bool:
        large = bool(buffer.raw().nbytes >= APART)
        if large:
            apart.append(np.frombuffer(buffer.raw(), dtype=np.uint8))
        return not large

    file = io.BytesIO()
    _pickler()(file, protocol=5, buffer_callback=taken).dump(value)
    frames = [file.getvalue(), *apart]
    if moved is not None:
        moved.bytes, moved.seconds = moved.bytes + weight(frames), moved.seconds + time.perf_counter() - begin
    return frames


def unpacked(frames: Frames) -> Any:
    """Return the value of these frames; its arrays are in the frames, or in copies of frames at unaligned addresses."""
    return pickle.loads(frames[0], buffers=[a if a.ctypes.data % ALIGNED == 0 else a.copy() for a in frames[1:]])


def weight(frames: Frames) -> int:
    """Return the number of bytes of all frames."""
    return sum(memoryview(frame).nbytes for frame in frames)


def _pickler() -> Any:
    """Return a pickler class for functions, also those of scripts, which leaves out the zeros of arrays."""
    if not _PICKLERS:
        try:
            from cloudpickle import Pickler
        except ImportError:
            # Missing with older versions of joblib; only functions defined in a script need it.
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
    """Return how to rebuild an array of floats from its nonzero entries, or None if that does not pay."""
    if a.size < LEAST or a.dtype.kind != "f" or a.dtype.itemsize not in _WORDS or not a.flags.c_contiguous:
        return None
    # Bits are compared, so minus zero stays minus zero.
    bits, kind = a.reshape(-1).view(_WORDS[a.dtype.itemsize]), np.dtype(np.uint32 if a.size < 1 << 32 else np.uint64)
    if (kind.itemsize + a.dtype.itemsize) * np.count_nonzero(bits) > a.nbytes // 2:
        return None
    places = np.flatnonzero(bits)
    return _with_zeros, (a.shape, a.dtype.str, places.astype(kind), a.reshape(-1)[places])


def _with_zeros(shape: tuple[int, ...], dtype: str, places: Any, values: Any) -> Any:
    made = np.zeros(shape, dtype=dtype)
    made.reshape(-1)[places] = values
    return made


# The shared values that this process has unpacked, by name: a fit has two such values at a time.
_UNPACKED: OrderedDict[str, Any] = OrderedDict()
_MOST = 6
_LOCK = threading.Lock()


def once(key: str, content: Callable[[], Frames]) -> Any:
    """Return the value of these frames; each process unpacks it once."""
    with _LOCK:
        if key not in _UNPACKED:
            _UNPACKED[key] = unpacked(content())
            while len(_UNPACKED) > _MOST:
                _UNPACKED.popitem(last=False)
        _UNPACKED.move_to_end(key)
        return _UNPACKED[key]


class Apart:
    """A shard in memory as it is sent: its data are sent once, apart from the calls, and unpacked on the worker."""

    outside = False

    def __init__(self, where: str) -> None:
        self.where = where
        self.content: Callable[[], Frames] | None = None

    def __str__(self) -> str:
        return self.where

    def _shard(self) -> Any:
        assert self.content is not None
        return unpacked(self.content())

    def load(self) -> Any:
        """Return what the shard loads."""
        return self._shard().load()

    def stamp(self, loaded: Any) -> str:
        """Return the hash of the shard."""
        return str(self._shard().stamp(loaded))


def answered(
    call: Frames, held: Callable[[], list[Any]], apart: Callable[[], Frames] | None = None
) -> tuple[Frames, float]:
    """Run a packed (function, arguments) after its shared values; return the result and the seconds of packing.

    `apart` returns the frames for an `Apart` in the arguments.
    """
    begin = time.perf_counter()
    (function, arguments), shared = unpacked(call), held()
    for value in arguments:
        if isinstance(value, Apart):
            value.content = apart
    spent = time.perf_counter() - begin
    result = function(*shared, *arguments)
    begin = time.perf_counter()
    frames = packed(result)
    return frames, spent + time.perf_counter() - begin


def opened(answer: tuple[Frames, float], moved: Moved) -> Any:
    """Return the result that `answered` packed."""
    begin = time.perf_counter()
    result = unpacked(answer[0])
    moved.bytes += weight(answer[0])
    moved.seconds += answer[1] + time.perf_counter() - begin
    return result
