"""Rows of data as compiled loops take them: one form for dense and sparse rows, without a copy where possible.

Row i has the entries `data[indptr[i]:indptr[i + 1]]`. For CSR rows, `indices` holds their columns at the same places.
For dense rows, `indices` is 0, 1, ..., d - 1 once. A loop reads `indices[k - shift]`, with shift = indptr[i] for dense
rows and 0 for CSR rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from spom.core.arrays import Floats, Ints, check_finite, checked_csr, read_only
from spom.core.jit import kernel
from spom.core.ordered import in_order
from spom.core.prefetch import prefetch
from spom.errors import DataError, Unsupported

T = TypeVar("T")
# How many rows ahead the start of a row (PLACES) and its first LONG entries (CONTENTS) are prefetched. The processor
# prefetches the rest by itself. On Zipf data with 44 entries per row, 4 to 8 and 2 to 4 rows are equal within the
# noise.
PLACES, CONTENTS, LONG = 6, 3, 512
# The number of consecutive rows that a sample takes.
RUN = 64
_FLOATS, _INTS = "Array(float64, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"


class Examples(NamedTuple):
    """Rows in some order, as loops take them; see the top of this file."""

    indptr: Annotated[Ints, _INTS]
    indices: Annotated[Any, "Array(int32, 1, 'C', readonly=True)"]
    data: Annotated[Floats, _FLOATS]
    dense: Annotated[bool, "boolean"]
    y: Annotated[Floats, _FLOATS]
    weight: Annotated[Floats, _FLOATS]
    order: Annotated[Ints, _INTS]


def in_threads(jobs: int, function: Callable[[int], T]) -> list[T]:
    """Return function(0), function(1), ..., each run in its own thread."""
    if jobs == 1:
        return [function(0)]
    return list(in_order(function, range(jobs), jobs))


@kernel("void(Examples, int64)")
def look_ahead(rows: Examples, place: int) -> None:
    """Prefetch the data of the rows after this place; in shuffled order the processor does not."""
    indptr, last = rows.indptr, rows.order.size - 1
    prefetch(indptr, rows.order[min(place + PLACES, last)])
    i = rows.order[min(place + CONTENTS, last)]
    prefetch(rows.y, i)
    prefetch(rows.weight, i)
    low = indptr[i]
    high = min(indptr[i + 1], low + LONG)
    # A line of the cache has 64 bytes.
    for k in range(low, high, 8):
        prefetch(rows.data, k)
    if not rows.dense:
        for k in range(low, high, 16):
            prefetch(rows.indices, k)


@kernel("void(Examples, int64, float64[:, ::1])")
def look_ahead_in(rows: Examples, place: int, table: Floats) -> None:
    """Do as `look_ahead`, and prefetch the table rows of the entries of the next data row."""
    look_ahead(rows, place)
    if not rows.dense:
        following = rows.order[min(place + 1, rows.order.size - 1)]
        for k in range(rows.indptr[following], rows.indptr[following + 1]):
            prefetch(table, rows.indices[k])


@kernel("void(Examples, float64[::1])")
def add_squares(rows: Examples, out: Floats) -> None:
    """Add weight times the square of each entry to its column."""
    indptr, indices, data, order = rows.indptr, rows.indices, rows.data, rows.order
    for place in range(order.size):
        i = order[place]
        shift = indptr[i] if rows.dense else 0
        if not rows.dense:
            following = order[min(place + 1, order.size - 1)]
            for k in range(indptr[following], indptr[following + 1]):
                prefetch(out, indices[k])
        for k in range(indptr[i], indptr[i + 1]):
            out[indices[k - shift]] += rows.weight[i] * data[k] * data[k]


@dataclass(frozen=True)
class Rows:
    """Examples: rows of features, targets, and weights with mean one."""

    indptr: Ints
    indices: NDArray[np.int32]
    data: Floats
    dense: bool
    y: Floats
    weight: Floats
    columns: int

    def __len__(self) -> int:
        return self.y.size

    @cached_property
    def _views(self) -> Examples:
        indptr, indices, data, y, weight = (
            read_only(a) for a in (self.indptr, self.indices, self.data, self.y, self.weight)
        )
        return Examples(indptr, indices, data, self.dense, y, weight, indptr)

    def examples(self, order: Ints) -> Examples:
        """Return the rows in this order, as loops take them."""
        return self._views._replace(order=read_only(order))

    def matrix(self) -> Any:
        """Return the features as a dense or CSR matrix, without a copy."""
        return self._matrix

    @cached_property
    def _matrix(self) -> Any:
        if self.dense:
            return self.data.reshape(len(self), self.columns)
        return sparse.csr_matrix((self.data, self.indices, self.indptr), shape=(len(self), self.columns))

    def sample(self, entries: float) -> Ints:
        """Return rows with about this many entries in total, spread over the data; all rows if they have no more.

        They come in runs, which are faster to read than single rows far apart.
        """
        apart = RUN * max(1, round(self.data.size / entries))
        starts = np.arange(0, len(self), apart, dtype=np.int64)
        found = np.add.outer(starts, np.arange(min(RUN, apart), dtype=np.int64)).reshape(-1)
        return np.asarray(found[: np.searchsorted(found, len(self))])

    def squares(self, order: Ints, jobs: int = 1) -> Floats:
        """Return the mean over the rows in `order` of each feature's square, weighted as the examples are."""

        def add(part: Ints) -> Floats:
            found = np.zeros(self.columns)
            add_squares(self.examples(np.ascontiguousarray(part)), found)
            return found

        mass = max(float(self.weight[order].sum()), 1e-300)
        parts = np.array_split(order, jobs)
        found, *others = in_threads(jobs, lambda k: add(parts[k]))
        for other in others:
            found += other
        found /= mass
        return found

    def check_finite(self, jobs: int = 1) -> None:
        """Raise an error that names the first entry that is NaN or infinite; `jobs` threads search."""
        numbers = self.data if self.data.flags.writeable else self.data.copy()
        parts = np.array_split(numbers, jobs)
        try:
            in_threads(jobs, lambda k: check_finite(parts[k], "X"))
        except ValueError:
            at = int(np.flatnonzero(~np.isfinite(self.data))[0])
            row = int(np.searchsorted(self.indptr, at, side="right")) - 1
            raise DataError(f"X must be finite: row {row} has an entry {self.data[at]}; drop it or impute it") from None

    def norms(self) -> Floats:
        """Return the Euclidean norm of each row."""
        size = np.abs(self.data)
        if self.dense:
            return np.asarray(np.linalg.norm(size.reshape(len(self), -1), axis=1))
        owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        peak = float(size.max(initial=0.0)) or 1.0
        return np.asarray(peak * np.sqrt(np.bincount(owner, weights=(size / peak) ** 2, minlength=len(self))))


def as_rows(
    X: Any,
    y: ArrayLike,
    weight: ArrayLike | None,
    target: str,
    *,
    columns: int | None = None,
    mean: bool = True,
    finite: bool = True,
    jobs: int = 1,
) -> Rows:
    """Return checked rows: finite numbers, one target per row, targets of the kind that the loss takes.

    X must have `columns` features, if given. With `mean` the weights are scaled to mean one. `jobs` threads check the
    numbers; with `finite=False` the solver does, which may find infinite ones at no cost.
    """
    indptr, indices, data, dense, shape = _entries(X)
    n, d = shape
    if columns is not None and d != columns:
        raise DataError(f"X has {d} features, but the model has {columns}: give every block the same columns")
    rows = Rows(indptr, indices, data, dense, _targets(y, n, target), _weights(weight, n, mean), d)
    if finite:
        rows.check_finite(jobs)
    return rows


def _entries(X: Any) -> tuple[Ints, NDArray[np.int32], Floats, bool, tuple[int, int]]:
    if sparse.issparse(X):
        X = checked_csr(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if X.shape[1] > np.iinfo(np.int32).max:
            raise Unsupported(f"X has {X.shape[1]} columns, and at most 2^31 - 1 can be indexed: hash the features")
        data = np.ascontiguousarray(X.data, dtype=np.float64)
        indptr, indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
        shape, dense = X.shape, False
    else:
        a = np.asarray(X)
        if a.ndim != 2 or a.dtype.kind not in "fiub":
            raise DataError(f"X must be a matrix of numbers; it has {a.ndim} dimensions and dtype {a.dtype}")
        a = np.ascontiguousarray(a, dtype=np.float64)
        n, d = shape = a.shape
        data, dense = a.reshape(-1), True
        indptr, indices = np.arange(n + 1, dtype=np.int64) * d, np.arange(d, dtype=np.int32)
    return indptr, indices, data, dense, shape


def _targets(y: ArrayLike, n: int, target: str) -> Floats:
    raw = np.asarray(y)
    if raw.ndim != 1 or raw.size != n:
        raise DataError(f"X has {n} rows, but y has shape {raw.shape}: give one target for each row")
    if raw.dtype.kind not in "fiub":
        raise DataError(f"y must be numbers for a solver; its dtype is {raw.dtype} (the estimators take labels)")
    values = np.ascontiguousarray(raw, dtype=np.float64)
    if target == "sign":
        bad, what = (values != 1.0) & (values != -1.0), "-1 or +1"
    elif target == "class":
        bad, what = ~(np.isfinite(values) & (values >= 0) & (values == np.floor(values))), "class indices from 0"
    else:
        bad, what = ~np.isfinite(values), "finite"
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"targets must be {what}: entry {at} is {values[at]:g}")
    return values


def _weights(weight: ArrayLike | None, n: int, mean: bool) -> Floats:
    if weight is None:
        return np.ones(n)
    values = np.ascontiguousarray(weight, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"sample_weight has shape {values.shape}; there must be one for each of the {n} rows")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"sample_weight must be finite and >= 0: entry {at} is {values[at]:g}")
    if not mean or n == 0:
        return values
    total = float(values.sum())
    if total == 0:
        raise DataError("sample_weight is zero everywhere: there is nothing to learn from")
    return values * (n / total)


# A vector with more than this many times the entries of the mean row is too long for a full update per round.
MANY = 200


def too_wide(rows: Rows) -> bool:
    """Return whether a full update of theta at each round would cost far more than the row itself."""
    mean = max(1.0, rows.data.size / max(1, len(rows)))
    return not rows.dense and rows.columns > 10_000 and rows.columns > MANY * mean


def not_lazy(penalty: Any, rows: Rows) -> Unsupported:
    """Return the error for sparse, wide data with a penalty that has no lazy update."""
    return Unsupported(
        f"{penalty!r} has no lazy update, so each round would touch all {rows.columns} features for a row with "
        f"{rows.data.size / max(1, len(rows)):.0f} of them; lazy are Zero, L1, SquaredL2, ElasticNet, their sums, "
        "sums of norms of the rows of a matrix, and functions of block norms such as SparseMKL. "
        "lazy=False runs it all the same, batch_size=None takes full gradients, and "
        "spom.solvers.BatchProximal solves it in batch"
    )


def ranges(size: int, parts: int) -> Ints:
    """Return the starts of `parts` ranges of about the same size, and the end."""
    if parts == 1:
        return np.array([0, size])
    return np.linspace(0, size, parts + 1).astype(np.int64)
