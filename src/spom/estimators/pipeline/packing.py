"""Arrays made small for a model file: half precision, the narrowest integers, differences of rising numbers, deflated.

A packed array is bytes; the header has its dtype, shape and form.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from spom.errors import ModelFileError

Arrays = dict[str, np.ndarray[Any, Any]]
_KINDS = ("u1", "u2", "u4", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "b1")
# The maximum size of an array after unpacking.
_MOST = 1 << 31


def pack(arrays: Arrays, half: bool = True) -> tuple[dict[str, list[Any]], Arrays]:
    """Return (dtype, shape and form of each array, the packed arrays)."""
    told: dict[str, list[Any]] = {}
    packed: Arrays = {}
    for name, array in arrays.items():
        if array.dtype == object:
            text = "\n".join(array.tolist()).encode()
            told[name] = ["text", [array.size], "text", len(text)]
            packed[name] = _deflated(text)
            continue
        a, form = np.ascontiguousarray(array), "plain"
        if a.dtype.kind in "iu" and a.size > 1:
            flat = a.reshape(-1).astype(np.int64)
            steps = np.diff(flat, prepend=np.int64(0))
            if a.ndim == 1 and steps.min() >= 0:
                flat, form = steps, "steps"
            a = flat.astype(_narrow(flat)).reshape(a.shape)
        elif a.dtype.kind == "f" and half and np.abs(a).max(initial=0.0) < 6e4:
            a = a.astype(np.float16)
        told[name] = [array.dtype.str[1:], list(array.shape), form, a.dtype.str[1:]]
        # Bytes of the same weight are alike, and deflate better next to each other.
        planes = a.reshape(-1).view(np.uint8).reshape(-1, a.itemsize).T if a.size else a.view(np.uint8)
        packed[name] = _deflated(np.ascontiguousarray(planes).tobytes())
    return told, packed


def unpack(told: dict[str, list[Any]], packed: Arrays) -> Arrays:
    """Return the arrays; raise a `ModelFileError` if they do not fit their descriptions."""
    found: Arrays = {}
    for name, (kind, shape, form, narrow) in told.items():
        count = math.prod(shape)
        if form == "text":
            lines = _inflated(packed[name], int(narrow)).decode().split("\n") if count else []
            if len(lines) != count:
                raise ModelFileError(f"the text {name!r} has {len(lines)} lines, not {count}: the file is damaged")
            found[name] = np.array(lines, dtype=object)
            continue
        if kind not in _KINDS or narrow not in _KINDS or not 0 <= count <= _MOST:
            raise ModelFileError(f"the packed array {name!r} is of no known kind: the file is damaged")
        width = np.dtype(narrow).itemsize
        raw = np.frombuffer(_inflated(packed[name], count * width), dtype=np.uint8)
        flat = np.ascontiguousarray(raw.reshape(width, -1).T).reshape(-1).view(narrow) if count else raw.view(narrow)
        if form == "steps":
            flat = np.cumsum(flat, dtype=np.int64)
        found[name] = np.ascontiguousarray(flat.astype(kind).reshape(shape))
    return found


def _narrow(flat: Any) -> str:
    low, high = int(flat.min()), int(flat.max())
    for kind in ("u1", "i1", "u2", "i2", "u4", "i4"):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return kind
    return "i8"


def _deflated(raw: bytes) -> Any:
    return np.frombuffer(zlib.compress(raw, 6), dtype=np.uint8)


def _inflated(array: Any, size: int) -> bytes:
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(np.ascontiguousarray(array, dtype=np.uint8).tobytes(), size + 1)
    except zlib.error as error:
        raise ModelFileError(f"a packed array cannot be read ({error}): the file is damaged") from None
    if len(raw) != size:
        raise ModelFileError("a packed array has another size than was told: the file is damaged")
    return raw
