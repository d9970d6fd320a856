"""Gram matrices of training data for solvers: dense, sparse, of features, or with rows computed on demand.

All of them have `n`, `dtype`, `diagonal()`, `rows(indices)` (dense, one row per index) and `dot(A)`, the product of
the whole matrix with A.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use
from numpy.typing import ArrayLike, NDArray

from spom.core.arrays import Floats, checked_csr
from spom.errors import DataError

# float32 or float64.
Reals = NDArray[Any]

# The size of the blocks of rows in a product: some megabytes.
BLOCK_BYTES = 1 << 25
# Of larger matrices, only a principal submatrix of this size is checked.
EIGENVALUES_OF = 400


class Gram:
    """K(x_i, x_j) over n examples; the base of all forms."""

    n: int
    dtype: np.dtype[Any]

    def diagonal(self) -> Floats:
        """K(x_i, x_i), as float64."""
        raise NotImplementedError  # every form has its own

    def rows(self, indices: ArrayLike) -> Reals:
        """Return these rows, dense, as (number of rows, n)."""
        raise NotImplementedError  # every form has its own

    def dot(self, A: ArrayLike) -> Floats:
        """K A for A of n rows, as float64, block after block."""
        a = np.asarray(A, dtype=np.float64)
        out = np.zeros((self.n, *a.shape[1:]))
        used = np.flatnonzero(a.reshape(self.n, -1).any(axis=1))
        step = max(1, BLOCK_BYTES // max(1, 8 * self.n))
        for start in range(0, used.size, step):
            some = used[start : start + step]
            # By symmetry, only the rows with nonzero entries in A are needed.
            out += self.rows(some).T.astype(np.float64, copy=False) @ a[some]
        return out


class DenseGram(Gram):
    """The whole matrix as `values`, float32 or float64, C-ordered.

    >>> DenseGram(np.eye(2)).dot([[1.0], [2.0]]).ravel()
    array([1., 2.])
    """

    def __init__(self, values: Reals) -> None:
        self.values = values
        self.n, self.dtype = values.shape[0], values.dtype

    def diagonal(self) -> Floats:
        """K(x_i, x_i)."""
        return np.ascontiguousarray(np.diagonal(self.values), dtype=np.float64)

    def rows(self, indices: ArrayLike) -> Reals:
        """Return a copy of these rows."""
        return self.values[np.asarray(indices, dtype=np.int64)]


class SparseGram(Gram):
    """A CSR matrix `matrix` with sorted indices: most entries are exactly zero."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.n, self.dtype = matrix.shape[0], matrix.dtype

    def diagonal(self) -> Floats:
        """K(x_i, x_i)."""
        return np.asarray(self.matrix.diagonal(), dtype=np.float64)

    def rows(self, indices: ArrayLike) -> Reals:
        """Return these rows, dense."""
        found: Reals = self.matrix[np.asarray(indices, dtype=np.int64)].toarray()
        return found

    def dot(self, A: ArrayLike) -> Floats:
        """K A."""
        return np.asarray(self.matrix.astype(np.float64) @ np.asarray(A, dtype=np.float64))


class RowGram(Gram):
    """Rows are computed from the examples on demand, and not kept."""

    def __init__(self, kernel: Any, X: Any, dtype: Any = np.float32) -> None:
        self.kernel, self.X = kernel, X
        self.n, self.dtype = X.shape[0], np.dtype(dtype)

    def diagonal(self) -> Floats:
        """K(x_i, x_i)."""
        found: Floats = self.kernel.diagonal(self.X)
        return found

    def rows(self, indices: ArrayLike) -> Reals:
        """Compute K(x_i, x) for each index i and all x."""
        found = self.kernel.block(self.X[np.asarray(indices, dtype=np.int64)], self.X)
        dense = found.toarray() if scipy.sparse.issparse(found) else found
        return np.ascontiguousarray(dense, dtype=self.dtype)


class FeatureGram(Gram):
    """Phi Phi^T of explicit features, a dense or CSR matrix; never formed."""

    def __init__(self, features: Any) -> None:
        self.features = features
        self.n, self.dtype = int(features.shape[0]), np.dtype(np.float64)

    def diagonal(self) -> Floats:
        """Return the squared norm of each row."""
        squares = self.features.multiply(self.features) if scipy.sparse.issparse(self.features) else self.features**2
        return np.asarray(squares.sum(axis=1), dtype=np.float64).reshape(-1)

    def rows(self, indices: ArrayLike) -> Reals:
        """Return these rows, dense."""
        found: Any = self.features[np.asarray(indices, dtype=np.int64)] @ self.features.T
        dense: Reals = found.toarray() if scipy.sparse.issparse(found) else found
        return dense

    def dot(self, A: ArrayLike) -> Floats:
        """Phi (Phi^T A)."""
        return np.asarray(self.features @ (self.features.T @ np.asarray(A, dtype=np.float64)), dtype=np.float64)


def as_gram(given: Any, name: str = "the Gram matrix", *, check: bool = True, among: int = 1) -> Gram:
    """Return a `Gram` from a square array, a scipy sparse matrix, or a `Gram`; `check` looks for mistakes.

    `among` is the number of matrices: the more there are, the smaller the part of each whose eigenvalues are computed.

    >>> as_gram([[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    ...
    spom.errors.DataError: the Gram matrix is not positive semidefinite: K[0, 1] = 2 exceeds sqrt(K[0, 0] K[1, 1]) = 1
    """
    if isinstance(given, Gram):
        return given
    matrix: Any = checked_csr(given, name) if scipy.sparse.issparse(given) else np.asarray(given)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{name} must be square: its shape is {matrix.shape}")
    if matrix.dtype not in (np.float32, np.float64):
        if matrix.dtype.kind not in "iub":
            raise DataError(f"{name} must be real numbers; its dtype is {matrix.dtype}")
        matrix = matrix.astype(np.float64)
    if scipy.sparse.issparse(matrix):
        if not matrix.has_sorted_indices:
            matrix = matrix.sorted_indices()
    else:
        matrix = np.ascontiguousarray(matrix)
    if check:
        check_gram(matrix, name, eigenvalues_of(among))
    return SparseGram(matrix) if scipy.sparse.issparse(matrix) else DenseGram(matrix)


def eigenvalues_of(among: int) -> int:
    """Return the number of rows whose eigenvalues are computed: 400 for up to eight matrices, then for equal cost.

    >>> eigenvalues_of(3), eigenvalues_of(1000)
    (400, 80)
    """
    share = float((8.0 / max(1, among)) ** (1.0 / 3.0))
    return max(40, min(EIGENVALUES_OF, round(EIGENVALUES_OF * share)))


def check_gram(matrix: Any, name: str = "the Gram matrix", size: int = EIGENVALUES_OF) -> None:
    """Raise a `DataError` if a square matrix is not finite, not symmetric, or certainly not positive semidefinite.

    Entries are compared with the diagonal, and the smallest eigenvalue of a principal submatrix of at most `size` rows
    with the largest. This finds mistakes quickly for matrices of any size.
    """
    n = matrix.shape[0]
    data = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if not np.isfinite(data).all():
        raise DataError(f"{name} must be finite: it has NaN or infinite entries")
    diagonal = np.asarray(matrix.diagonal(), dtype=np.float64)
    if n and diagonal.min() < 0:
        at = int(diagonal.argmin())
        raise DataError(f"{name} is not positive semidefinite: K[{at}, {at}] = {diagonal[at]:g} is negative")
    loose = 1e-3 if matrix.dtype == np.float32 else 1e-8
    root = np.sqrt(diagonal)
    some = np.linspace(0, n - 1, min(n, size)).astype(np.int64)
    part = matrix[some][:, some]
    part = np.asarray(part.toarray() if scipy.sparse.issparse(part) else part, dtype=np.float64)
    scale = float(diagonal.max(initial=0.0))
    if np.abs(part - part.T).max(initial=0.0) > loose * scale:
        a, b = np.unravel_index(int(np.abs(part - part.T).argmax()), part.shape)
        i, j = int(some[a]), int(some[b])
        raise DataError(f"{name} must be symmetric: K[{i}, {j}] = {part[a, b]:g} and K[{j}, {i}] = {part[b, a]:g}")
    over = np.abs(part) - np.outer(root[some], root[some])
    if over.max(initial=0.0) > loose * scale:
        a, b = np.unravel_index(int(over.argmax()), part.shape)
        i, j, bound = int(some[a]), int(some[b]), root[some[a]] * root[some[b]]
        what = f"K[{i}, {j}] = {part[a, b]:g} exceeds sqrt(K[{i}, {i}] K[{j}, {j}]) = {bound:g}"
        raise DataError(f"{name} is not positive semidefinite: {what}")
    if n:
        values = np.linalg.eigvalsh(part)
        if values[0] < -loose * max(values[-1], 0.0):
            raise DataError(
                f"{name} is not positive semidefinite: it has an eigenvalue of {values[0]:g}, beside a largest of "
                f"{values[-1]:g}; clip its eigenvalues at zero, or add their negative part to the diagonal"
            )
