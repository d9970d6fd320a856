"""The parts of X that working sets have used so far: columns as rows, their Gram matrix, and a constant per block.

A path shares one store between its strengths, as nothing here depends on the strength of the penalty.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.working_set.blocks import PenalisedBlocks
from spom.solvers.batch.working_set.columns import Dense
from spom.solvers.batch.working_set.gram import largest_eigenvalues


class _Places:
    """Consecutive places for coordinates, in the order in which they are first requested."""

    def __init__(self, count: int) -> None:
        self.at = np.full(count, -1, dtype=np.int64)
        self.order = np.zeros(0, dtype=np.int64)

    def add(self, wanted: Ints) -> Ints:
        """Give places at the end to the new coordinates of `wanted`, and return these."""
        new: Ints = wanted[self.at[wanted] < 0]
        self.at[new] = np.arange(self.order.size, self.order.size + new.size)
        self.order = np.concatenate([self.order, new])
        return new


class Store:
    """Columns of X, added on request."""

    def __init__(self, smooth: LinearSmooth) -> None:
        self.smooth = smooth
        self._columns, self._squares = _Places(smooth.shape[0]), _Places(smooth.shape[0])
        self.rows = np.empty((0, smooth.X.shape[0]))
        self._gram = np.empty((0, 0))
        self._constants = np.zeros(0)

    @cached_property
    def csc(self) -> Any:
        """X in CSC form."""
        return sparse_columns(self.smooth)

    def places(self, order: Ints) -> Ints:
        """Return the places of these columns of X among `rows`."""
        new = self._columns.add(order)
        if new.size:
            end = self._columns.order.size
            if end > self.rows.shape[0]:
                self.rows = _larger(self.rows, (2 * end, self.rows.shape[1]))
            self.rows[end - new.size : end] = dense_columns(self.smooth, new)
        return self._columns.at[order]

    def columns(self, order: Ints) -> Dense:
        """Return these columns of X, as loops take them."""
        at = self.places(order)
        return Dense(self.rows, at)

    def gram(self, order: Ints) -> Floats:
        """X^T S X on these columns."""
        new = self._squares.add(order)
        if new.size:
            end = self._squares.order.size
            old = end - new.size
            if end > self._gram.shape[0]:
                self._gram = _larger(self._gram, (2 * end, 2 * end))
            places = self.places(self._squares.order)
            in_order = bool((places == np.arange(end)).all())
            rows = self.rows[:end] if in_order else self.rows[places]
            self._gram[old:end, :end] = (rows[old:] * self.smooth.weights) @ rows.T
            self._gram[:old, old:end] = self._gram[old:end, :old].T
        at = self._squares.at[order]
        return self._gram[np.ix_(at, at)]

    def constants(self, chosen: Ints, blocks: PenalisedBlocks, count: int) -> Floats:
        """Return the largest eigenvalue of X_b^T S X_b for each of the `chosen` blocks, out of `count`."""
        if self._constants.size != count:
            self._constants = np.full(count, np.nan)
        new = np.flatnonzero(np.isnan(self._constants[chosen]))
        sizes = np.diff(blocks.ptr)[new]
        for size in set(sizes.tolist()):
            which = new[sizes == size]
            places = self.places(blocks.order[blocks.ptr[which][:, None] + np.arange(size)])
            parts = self.rows[places]
            self._constants[chosen[which]] = largest_eigenvalues((parts * self.smooth.weights) @ parts.mT)
        found: Floats = self._constants[chosen]
        return found


def _larger(a: Floats, shape: tuple[int, int]) -> Floats:
    """Return a larger array that begins with `a`."""
    out = np.empty(shape)
    out[: a.shape[0], : a.shape[1]] = a
    return out


def dense_columns(smooth: LinearSmooth, order: Ints) -> Floats:
    """Return these columns of X, as rows; coordinate p is the column of ones of an intercept."""
    p = smooth.X.shape[1]
    inside = order < p
    part = smooth.X[:, order[inside]].T
    rows = np.ascontiguousarray(part.toarray() if sparse.issparse(part) else part)
    return rows if inside.all() else np.insert(rows, np.flatnonzero(~inside), 1.0, axis=0)


def sparse_columns(smooth: LinearSmooth) -> Any:
    """Return X in CSC form with 32-bit indices, plus ones for an intercept; the user's arrays are not changed."""
    X = sparse.csc_matrix(smooth.X)
    if smooth.fit_intercept:
        X = sparse.hstack([X, np.ones((X.shape[0], 1))], format="csc")
    if X.nnz > np.iinfo(np.int32).max:
        raise Unsupported(f'a working set takes at most 2^31 - 1 non-zeros, X has {X.nnz}; solver="fista" takes more')
    if not X.has_canonical_format or not all(a.flags.writeable for a in (X.data, X.indices, X.indptr)):
        X = X.copy()
        X.sum_duplicates()
    X.indptr, X.indices = X.indptr.astype(np.int32, copy=False), X.indices.astype(np.int32, copy=False)
    return X
