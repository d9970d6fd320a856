"""Validation of input arrays: float64, C-ordered, finite and in range, or an error that names the offending entry."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spom.core.jit import kernel
from spom.errors import DataError, ModelFileError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Array = NDArray[Any]
# The contents of states, checkpoints and model files.
Arrays = dict[str, Array]


def is_sparse(x: Any) -> bool:
    """Tell whether x is a scipy sparse matrix or array, without importing `scipy.sparse` (a tenth of a second).

    >>> is_sparse(np.eye(2))
    False
    """
    loaded: Any = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(x))


@kernel("boolean(float64[::1])", fastmath={"reassoc"})
def all_finite(w: Floats) -> bool:
    """Tell whether no entry is NaN or infinite: 0 * x is NaN for exactly those."""
    s = 0.0
    for i in range(w.size):
        s += w[i] * 0.0
    return s == 0.0


def as_floats(w: ArrayLike, name: str = "w") -> Floats:
    """Return `w` as a C-ordered float64 vector or matrix: `w` itself if it is one already, else a copy."""
    # Compiled kernels take writable arrays only, so a read-only array is copied too.
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
    """Return `a` itself, or raise a `DataError` that names the first entry that is NaN or infinite."""
    flat = a if a.ndim == 1 else a.reshape(-1)
    if not all_finite(flat):
        at = int(np.flatnonzero(~np.isfinite(flat))[0])
        where = at if a.ndim == 1 else tuple(int(i) for i in np.unravel_index(at, a.shape))
        raise DataError(f"{name} must be finite: entry {where} is {flat[at]}")
    return a


def as_finite(w: ArrayLike, name: str = "w") -> Floats:
    """Return `w` as finite floats: `as_floats`, then `check_finite`."""
    return check_finite(as_floats(w, name), name)


def output_like(a: Floats, out: Floats | None) -> Floats:
    """Return an array for a result of the shape of `a`: a new one, or `out` after checking that it fits."""
    if out is None:
        return np.empty_like(a)
    fits = isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous
    if not fits or out.shape != a.shape or not out.flags.writeable:
        raise ValueError(f"out must be a writable, C-ordered float64 array of shape {a.shape}")
    return out


def read_only(a: NDArray[Any]) -> Any:
    """Return a C-ordered read-only view, for bundle fields that may hold a read-only array of the user."""
    view = np.ascontiguousarray(a).view()
    view.flags.writeable = False
    return view


def aligned_singles(size: int) -> NDArray[np.float32]:
    """Return float32 zeros aligned to a cache line of 64 bytes: a row of 16 then takes one line, not two.

    >>> aligned_singles(5).ctypes.data % 64
    0
    """
    padded = np.zeros(size + 16, dtype=np.float32)
    first = -(padded.ctypes.data // 4) % 16
    return padded[first : first + size]


def offsets_of(sizes: Any) -> Ints:
    """Return the offsets at which consecutive parts of these sizes begin, and the end of the last part.

    >>> offsets_of([2, 3])
    array([0, 2, 5])
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def under(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays whose names start with a prefix, with the prefix removed.

    >>> under({"a.x": 1, "a.y": 2, "b.x": 3}, "a.")
    {'x': 1, 'y': 2}
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def check_positive(value: Any, name: str, *, zero: bool = True) -> float:
    """Return `value` as a finite float that is >= 0 (or > 0), else raise a `ValueError` that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, not {value!r}") from None
    if not (0.0 <= number < np.inf) or (number == 0.0 and not zero):
        raise ValueError(f"{name} must be finite and {'>= 0' if zero else '> 0'}; it is {value!r}")
    return number


def check_radius(radius: float) -> float:
    """Return a radius, checked to be above zero; infinity is allowed and means no ball."""
    return np.inf if radius == np.inf else check_positive(radius, "radius", zero=False)


# --- arrays from outside --------------------------------------------------------------------------------------
#
# Compiled loops do not check their indices. A wrong index reads or writes out of bounds.


def checked_csr(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix as CSR, or raise a `DataError` that names an index out of bounds.

    It costs one pass over the indices. Call it before any use of a caller's sparse matrix: scipy checks a matrix when
    it is created, but not when its arrays are written to later.

    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1.0, 0.0], [0.0, 2.0]])
    >>> X.indices[1] = 7
    >>> checked_csr(X)
    Traceback (most recent call last):
    spom.errors.DataError: X is no valid sparse matrix: row 1 has the column 7, and there are 2 columns
    """
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo":
        for k, (of, what) in enumerate(zip(X.coords, ("row", "column"), strict=True)):
            _check_indices(of, X.shape[k], f"{name} is no valid sparse matrix: entry {{at}} has the {what}", what)
        if any(of.shape != X.data.shape for of in X.coords):
            raise DataError(f"{name} is no valid sparse matrix: its arrays have different lengths")
    if X.format == "csr":
        return X
    found = X.tocsr()
    _check_compressed(found, name)
    return found


def check_csc(X: Any) -> Any:
    """Return a CSC matrix itself, or raise a `DataError` if an index is out of bounds."""
    _check_compressed(X, "X")
    return X


def check_csr_arrays(parts: tuple[Array, Array, Array], shape: tuple[int, int], name: str) -> Any:
    """Return (data, indices, indptr) of a file as a CSR matrix of this shape, or raise a `ModelFileError`."""
    data, indices, indptr = parts
    try:
        if data.ndim != 1 or data.dtype.kind != "f" or indices.dtype.kind != "i" or indices.shape != data.shape:
            raise DataError(f"{name}: the entries and their columns do not fit together")
        if indptr.ndim != 1 or indptr.dtype.kind != "i" or not np.isfinite(data).all():
            raise DataError(f"{name}: the rows do not fit, or entries are not finite")
        _check_offsets(indptr, shape[0], data.size, name, "row")
        _check_indices(indices, shape[1], f"{name}: entry {{at}} has the column", "column")
    except DataError as error:
        raise ModelFileError(f"{error}: the file is damaged") from None
    from scipy.sparse import csr_matrix

    return csr_matrix((data, indices, indptr), shape=shape)


def _check_compressed(X: Any, name: str) -> None:
    lines, others = ("column", "row") if X.format == "csc" else ("row", "column")
    height, width = (X.shape[1], X.shape[0]) if X.format == "csc" else X.shape
    if X.format == "bsr":
        height, width = height // X.blocksize[0], width // X.blocksize[1]
    what = f"{name} is no valid sparse matrix"
    entries = X.data.shape[0]
    if X.indices.shape != (entries,):
        raise DataError(f"{what}: there are {entries} entries and {X.indices.size} indices")
    _check_offsets(X.indptr, height, entries, what, lines)
    used = X.indices[: int(X.indptr[-1])]
    if not _within(used, width):
        at = int(np.flatnonzero((used < 0) | (used >= width))[0])
        line = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise DataError(f"{what}: {lines} {line} has the {others} {used[at]}, and there are {width} {others}s")


def _check_offsets(offsets: Array, lines: int, entries: int, what: str, line: str) -> None:
    if offsets.shape != (lines + 1,) or int(offsets[0]) != 0 or int(offsets[-1]) > entries:
        raise DataError(f"{what}: the places at which {line}s begin do not go from 0 to the {entries} entries")
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise DataError(f"{what}: {line} {at} ends at entry {offsets[at + 1]}, before it begins ({offsets[at]})")


def _check_indices(indices: Array, limit: int, what: str, of: str) -> None:
    if not _within(indices, limit):
        at = int(np.flatnonzero((indices < 0) | (indices >= limit))[0])
        raise DataError(f"{what.format(at=at)} {indices[at]}, and there are {limit} {of}s")


def _within(indices: Array, limit: int) -> bool:
    """Tell whether all indices are from 0 to `limit` - 1, in one pass: read as unsigned, negative ones are large."""
    if indices.size == 0:
        return True
    unsigned = indices.view(np.dtype(f"u{indices.dtype.itemsize}")) if indices.dtype.kind == "i" else indices
    return int(unsigned.max()) < limit


def check_restored(given: dict[str, Array], like: dict[str, Array], todo: str = "") -> dict[str, Array]:
    """Return the arrays of `given` that `like` names, checked to be finite and of the same shapes and dtypes.

    `given` are the arrays of a saved state, `like` those of a solver before its first round.

    >>> check_restored({"w": np.zeros(3), "more": np.ones(1)}, {"w": np.zeros(3)})
    {'w': array([0., 0., 0.])}
    """
    found = {}
    for name, mine in like.items():
        if name not in given:
            raise DataError(f"the saved state has no array {name!r}: it is of another solver")
        array = given[name]
        _check_like(name, array, mine, array.shape == mine.shape, todo)
        if array.dtype.kind == "f":
            _check_numbers(name, np.isfinite(array))
        if name == "epoch" and int(array) < 0:
            # A run would make that many extra passes.
            raise ModelFileError(f"the saved state has made {int(array)} epochs: it is damaged")
        found[name] = array
    return found


def check_saved(given: dict[str, Array], like: dict[str, Array], rows: int | None = None) -> dict[str, Array]:
    """Return the saved arrays of an engine that reads data row by row, checked before its compiled loops use them.

    `like` is what the engine packs before its first pass. An array that is empty there is created in the first pass;
    the engine checks its size. If no name is saved, the run starts from a point alone. Numbers must be finite, except
    in `scalars`, where infinity means that no value is known yet. `rows` bounds the row indices in `sample`.

    >>> check_saved({"sums": np.ones(2)}, {"sums": np.zeros(2)})
    {'sums': array([1., 1.])}
    """
    known = {name: a for name, a in given.items() if name in like}
    for name, array in known.items():
        mine = like[name]
        later = mine.size == 0 and array.ndim == mine.ndim and array.shape[1:] == mine.shape[1:]
        _check_like(name, array, mine, later or array.shape == mine.shape)
        good = np.isfinite(array)
        if name == "scalars":
            # Infinite only where no value is known before the first pass.
            good |= ~np.isnan(array) & ~np.isfinite(mine)
        _check_numbers(name, good)
    if known and len(known) < len(like):
        missing = min(set(like) - set(known))
        raise DataError(f"the saved state has no array {missing!r}: it is of another solver")
    if rows is not None and "sample" in known:
        check_range(known["sample"], 0, rows, "sample")
    return known


def _check_like(name: str, array: Array, mine: Array, fits: bool, todo: str = "") -> None:
    if not fits or array.dtype != mine.dtype:
        what = f"{name!r} is {array.dtype}{array.shape}, this run needs {mine.dtype}{mine.shape}"
        raise DataError(f"the saved state is of another run: {what}" + (f"; {todo}" if todo else ""))


def _check_numbers(name: str, good: Any) -> None:
    if not good.all():
        raise ModelFileError(f"the saved state has numbers in {name!r} that are not finite: it is damaged")


def check_squares(X: Any) -> Any:
    """Return `X` itself, or raise a `DataError` that names an entry too large for finite sums of squares.

    >>> check_squares(np.array([[1.0, 1e300]]))
    Traceback (most recent call last):
    spom.errors.DataError: X has the entry 1e+300, whose square is not finite: scale X
    """
    numbers = X.data if is_sparse(X) else np.asarray(X)
    largest = max(float(numbers.max()), -float(numbers.min())) if numbers.size else 0.0
    # The square root of the largest float is 1e154. This limit leaves a factor of 1e8 for sums.
    if largest > 1e150:
        raise DataError(f"X has the entry {largest:g}, whose square is not finite: scale X")
    return X


def check_room(rows: int, columns: int, copies: int, what: str, todo: str = "take fewer classes or features") -> None:
    """Raise a `DataError` if `copies` tables of rows x columns floats need more memory than this machine has.

    >>> check_room(10, 10, 1, "the weights")
    """
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        # Windows has no such call: a failed allocation there ends with a MemoryError.
        return
    needed = 8 * copies * rows * columns
    if needed > memory:
        raise DataError(f"{what} need about {needed / 1e9:,.0f} GB, more than this machine has: {todo}")


def check_range(array: Array, low: int, high: int, name: str) -> Array:
    """Return `array` itself, checked to have entries from `low` to `high` - 1 only."""
    if array.size and not (low <= int(array.min()) and int(array.max()) < high):
        raise ModelFileError(f"the saved state has entries in {name!r} that are not from {low} to {high - 1}")
    return array


def restore_random(generator: np.random.Generator, state: Any) -> None:
    """Set the state of a random generator, or do nothing if `state` is None; an invalid state is an error."""
    if state is None:
        return
    try:
        generator.bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise ModelFileError(f"the saved state has no state of a random generator ({error})") from None


def check_dev(labels: Array, classes: Array) -> None:
    """Check that development data have at least one label that is learnt: otherwise every score is zero."""
    if labels.size and not {str(label) for label in labels.tolist()} & {str(label) for label in classes.tolist()}:
        shown = [", ".join(str(label) for label in part.tolist()[:5]) for part in (labels, classes)]
        raise DataError(f"dev has the labels {shown[0]}, none of which is learnt ({shown[1]}): give data of one kind")
