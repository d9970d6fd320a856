"""The one way in which arrays come in: float64, C-ordered, finite, or an error that says which entry is not."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spom.core.jit import kernel
from spom.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def is_sparse(x: Any) -> bool:
    """Whether x is a sparse matrix or array of scipy; `scipy.sparse`, a tenth of a second, is not loaded to find out.

    >>> is_sparse(np.eye(2))
    False
    """
    loaded: Any = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(x))


@kernel("boolean(float64[::1])", fastmath={"reassoc"})
def all_finite(w: Floats) -> bool:
    """Whether no entry is NaN or infinite: 0 * x is NaN for just those."""
    s = 0.0
    for i in range(w.size):
        s += w[i] * 0.0
    return s == 0.0


def as_floats(w: ArrayLike, name: str = "w") -> Floats:
    """`w` as a float64 C-ordered vector or matrix: itself where it is one already, else a copy."""
    # The compiled kernels take writable arrays only, so that a read-only one is copied too.
    if type(w) is np.ndarray and w.dtype == np.float64 and w.flags.c_contiguous and w.flags.writeable:
        a = w
    else:
        try:
            raw = np.asarray(w)
            if raw.dtype.kind not in "fiub":
                raise TypeError(f"its dtype is {raw.dtype}")
            a = np.array(raw, dtype=np.float64, order="C")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be an array of real numbers: {error}") from None
    if a.ndim not in (1, 2):
        raise ValueError(f"{name} must be a vector or a matrix; it has {a.ndim} dimensions")
    return a


def check_finite(a: Floats, name: str = "w") -> Floats:
    """`a` itself, or a `DataError` that names the first entry that is NaN or infinite."""
    flat = a if a.ndim == 1 else a.reshape(-1)
    if not all_finite(flat):
        at = int(np.flatnonzero(~np.isfinite(flat))[0])
        where = at if a.ndim == 1 else tuple(int(i) for i in np.unravel_index(at, a.shape))
        raise DataError(f"{name} must be finite: entry {where} is {flat[at]}")
    return a


def as_finite(w: ArrayLike, name: str = "w") -> Floats:
    """`w` as finite floats: `as_floats`, then `check_finite`."""
    return check_finite(as_floats(w, name), name)


def output_like(a: Floats, out: Floats | None) -> Floats:
    """A place for a result shaped as `a`: a new array, or `out` once it is known to fit."""
    if out is None:
        return np.empty_like(a)
    fits = isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous
    if not fits or out.shape != a.shape or not out.flags.writeable:
        raise ValueError(f"out must be a writable, C-ordered float64 array of shape {a.shape}")
    return out


def aligned_singles(size: int) -> NDArray[np.float32]:
    """Zeros that begin at a cache line, 64 bytes: a row of 16 then is one line and not two.

    >>> aligned_singles(5).ctypes.data % 64
    0
    """
    padded = np.zeros(size + 16, dtype=np.float32)
    first = -(padded.ctypes.data // 4) % 16
    return padded[first : first + size]


def check_positive(value: Any, name: str, *, zero: bool = True) -> float:
    """`value` as a finite float that is >= 0 (or > 0), else a `ValueError` that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, not {value!r}") from None
    if not (0.0 <= number < np.inf) or (number == 0.0 and not zero):
        raise ValueError(f"{name} must be finite and {'>= 0' if zero else '> 0'}; it is {value!r}")
    return number
