"""Checks of scores and gold outputs: -inf forbids a part; NaN and +inf raise errors that name the entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

# Sums of this many scores of the largest size stay below the largest float, for any input that fits in memory.
LARGEST = 1e300


@kernel("int64(float64[::1])")
def first_bad(scores: Floats) -> int:
    """Return the first entry that is NaN, +inf or larger than 1e300 in size without being -inf; -1 if there is none."""
    for i in range(scores.size):
        x = scores[i]
        if not (-1e300 <= x <= 1e300) and x != -np.inf:
            return i
    return -1


def bad_entry(name: str, where: Any, value: float) -> ValueError:
    """Return the error for an inadmissible score."""
    size = f"at most {LARGEST:g} in size, or -inf for what is forbidden"
    return ValueError(f"{name} must be {size}: entry {where} is {value}")


def as_scores(scores: ArrayLike, name: str, ndim: tuple[int, ...]) -> Floats:
    """Return `scores` as a float64, C-ordered, writable array with one of these ndim; entries are not checked."""
    if type(scores) is np.ndarray and scores.ndim in ndim and scores.dtype == np.float64:
        flags = scores.flags
        if flags.c_contiguous and flags.writeable:
            return scores
    try:
        a = np.asarray(scores)
        if a.dtype.kind not in "fiub":
            raise TypeError(f"its dtype is {a.dtype}")
        a = np.require(a, np.float64, ["C", "W"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers: {error}") from None
    if a.ndim not in ndim:
        wanted = " or ".join(map(str, ndim))
        raise ValueError(f"{name} must have {wanted} dimension{'s' if wanted != '1' else ''}; it has {a.ndim}")
    return a


def check_scores(a: Floats, name: str) -> Floats:
    """Return `a`, or raise the error for its first bad entry."""
    at = first_bad(a.reshape(-1) if a.ndim > 1 else a)
    if at >= 0:
        index = tuple(int(i) for i in np.unravel_index(at, a.shape))
        raise bad_entry(name, index[0] if a.ndim == 1 else index, float(a.reshape(-1)[at]))
    return a


def as_labels(labels: ArrayLike, shape: tuple[int, ...], count: int, name: str) -> Ints:
    """Return `labels` as int64 of this shape with 0 <= entries < count; raise an error that names the first bad one."""
    raw = np.asarray(labels)
    if raw.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one entry for each token; it has {raw.shape}")
    if raw.size and raw.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers; its dtype is {raw.dtype}")
    found = np.ascontiguousarray(raw, dtype=np.int64)
    bad = np.flatnonzero((found < 0) | (found >= count))
    if bad.size:
        at = int(bad[0])
        value = int(found.reshape(-1)[at])
        raise ValueError(f"{name} must be in 0..{count - 1}: entry {at} is {value}")
    return found
