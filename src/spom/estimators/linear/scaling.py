"""Scaling of columns: learn as if they were standardised, and keep weights in the user's scale.

With m_j and s_j the centre and scale of column j, the scores of scaled weights v and bias c are

    sum_j v_j (x_j - m_j) / s_j + c = sum_j w_j x_j + b,     w_j = v_j / s_j,     b = c - sum_j w_j m_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints

# A column of sparse data is scaled if its entries are this much larger or smaller than those of the median column.
# Measured on training rows: columns of words differ by a factor of at most 4.6 from the median (trec tf-idf;
# polarity 3.3, sst5 3.2, ag_news 3.5, languages 3.5), numbers of the census next to one-hot columns by up to 200,000.
FAR = 10.0
# A column whose deviation is this small compared to its mean varies by rounding only: it is constant.
ROUNDING = 1e-12
# Dense columns are alike if none has a range of more than `FAR` times that of the median column, and at most this
# share of them has less than that over `FAR`: pixels at the border of images hardly vary.
NARROW = 0.1


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of each column; `center` is None if nothing is subtracted, as for sparse data.

    Only the columns `used` are learnt, if the others have no entries; their weights are zero.
    """

    center: Floats | None
    scale: Floats
    used: Ints | None = None

    @property
    def shown(self) -> Floats | None:
        """The scale, or None if columns are only left out."""
        return self.scale if self.used is None or (self.scale != 1.0).any() else None

    def apply(self, X: Any) -> Any:
        """Return the scaled columns, in new arrays."""
        if sparse.issparse(X):
            scaled, scale = (X.copy(), self.scale) if self.used is None else (X[:, self.used], self.scale[self.used])
            scaled.data /= scale[scaled.indices]
            return scaled
        return (X if self.center is None else X - self.center) / self.scale

    def unfold(self, theta: Any, intercept: bool) -> Any:
        """Return weights for the user's columns from those of scaled ones; rows are features, the last the bias."""
        d = self.scale.size
        if self.used is not None:
            theta = _spread(theta, self._rows(intercept), d + intercept)
        if sparse.issparse(theta):
            return _rows_times(theta, 1.0 / self.scale)
        found = theta.copy()
        found[:d] = (theta[:d].T / self.scale).T
        if intercept and self.center is not None:
            found[d] = theta[d] - self.center @ found[:d]
        return found

    def fold(self, theta: Any, intercept: bool) -> Any:
        """Apply the inverse of `unfold`."""
        d = self.scale.size
        if sparse.issparse(theta):
            found = _rows_times(theta, self.scale)
        else:
            found = theta.copy()
            found[:d] = (theta[:d].T * self.scale).T
        if intercept and self.center is not None:
            found[d] = theta[d] + self.center @ theta[:d]
        return found if self.used is None else found[self._rows(intercept)]

    def _rows(self, intercept: bool) -> Ints:
        """Return the rows of the user's weights that are learnt."""
        assert self.used is not None
        return np.append(self.used, self.scale.size) if intercept else self.used


def _spread(theta: Any, rows: Ints, count: int) -> Any:
    """Return `count` rows of weights, these ones at their places between zeros."""
    if sparse.issparse(theta):
        places = np.ones(rows.size), (rows, np.arange(rows.size))
        return sparse.csr_matrix(places, shape=(count, rows.size)) @ theta
    found = np.zeros((count, *theta.shape[1:]))
    found[rows] = theta
    return found


def _rows_times(theta: Any, scale: Floats) -> Any:
    """Scale the rows of a sparse table of weights, for data that are sparse too and not centred."""
    ones = np.ones(theta.shape[0] - scale.size)
    return sparse.diags(np.append(scale, ones), format="csr") @ theta


def measured(X: Any, weight: Floats | None, intercept: bool, real: bool = False) -> Scaling | None:
    """Measure mean and deviation of dense columns; for sparse ones, the size of those far from the median.

    The deviation is the standard one. For classes it is divided by the root of the share of non-zero entries: a pixel
    that is nearly always zero deviates little, and would get a huge weight (`real` targets gain nothing from this).
    Without an intercept nothing is subtracted, and the scale is the root mean square, over non-zero entries for
    classes. Returns None if no column needs scaling.

    >>> import numpy as np
    >>> measured(np.array([[1.0, 7.0], [3.0, 7.0]]), None, True)
    Scaling(center=array([2., 7.]), scale=array([1., 1.]), used=None)
    """
    return _sparse(X) if sparse.issparse(X) else _dense(X, weight, intercept, real)


def _dense(X: Any, weight: Floats | None, intercept: bool, real: bool) -> Scaling:
    share = None if weight is None else weight / weight.sum()
    filled = np.ones(X.shape[1]) if real else np.average(X != 0.0, axis=0, weights=share)
    if not intercept:
        return from_mean_squares(np.average(X**2, axis=0, weights=share), filled)
    center = np.average(X, axis=0, weights=share)
    spread = np.sqrt(np.average((X - center) ** 2, axis=0, weights=share))
    return from_moments(center, spread, filled, X[0])


def without_empty(X: Any, scaling: Scaling | None) -> Scaling | None:
    """Leave out the columns of sparse data that have no entries, if they are half of all.

    >>> without_empty(sparse.csr_matrix([[0.0, 0.0, 2.0, 0.0]]), None)
    Scaling(center=None, scale=array([1., 1., 1., 1.]), used=array([2]))
    """
    if not sparse.issparse(X):
        return scaling
    used = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))
    if not 0 < 2 * used.size <= X.shape[1]:
        return scaling
    return Scaling(None, np.ones(X.shape[1]) if scaling is None else scaling.scale, used)


def rooted(X: Any, weight: Floats | None, scaling: Scaling | None) -> Scaling:
    """Divide the columns of sparse data by the root of their root mean square, after `scaling`.

    A penalty is then milder for rare words, as if each word were weighted by a power of its frequency.

    >>> rooted(sparse.csr_matrix([[4.0, 0.0], [4.0, 0.0]]), None, None)
    Scaling(center=None, scale=array([2., 1.]), used=None)
    """
    share = np.full(X.shape[0], 1.0 / X.shape[0]) if weight is None else weight / weight.sum()
    squares: Any = np.bincount(X.indices, np.repeat(share, np.diff(X.indptr)) * X.data**2, X.shape[1])
    before, used = (np.ones(X.shape[1]), None) if scaling is None else (scaling.scale, scaling.used)
    return Scaling(None, before * np.where(squares > 0.0, np.sqrt(np.sqrt(squares) / before), 1.0), used)


def common(X: Any, weight: Floats | None) -> Scaling | None:
    """Return one scale for all dense columns if they are alike, as if they had the same unit; otherwise None.

    It is the root of the mean of their variances, without constant columns. Differences between columns are
    preserved: how much a pixel varies tells how much it matters.

    >>> import numpy as np
    >>> common(np.array([[1.0, 4.0, 5.0], [3.0, 8.0, 5.0]]), None)
    Scaling(center=array([2., 6., 5.]), scale=array([1.58113883, 1.58113883, 1.58113883]), used=None)
    >>> common(np.array([[1.0, 4.0], [3.0, 800.0]]), None) is None
    True
    """
    if sparse.issparse(X):
        return None
    kept = X if weight is None else X[weight > 0.0]
    ranges = np.ptp(kept, axis=0)
    varies = ranges > ROUNDING * np.abs(kept).max(axis=0)
    if varies.sum() < 2:
        return None
    low, middle, high = np.quantile(ranges[varies], (NARROW, 0.5, 1.0), method="lower")
    if high > FAR * middle or low < middle / FAR:
        return None
    plain = _dense(X, weight, True, True)
    size = float(np.sqrt(np.mean(plain.scale[varies] ** 2)))
    return Scaling(plain.center, np.full(X.shape[1], size))


def from_mean_squares(square: Floats, filled: Floats) -> Scaling:
    """Return the scaling of dense columns without an intercept; `filled` is the share of non-zero entries."""
    size = np.sqrt(square / np.where(filled > 0.0, filled, 1.0))
    return Scaling(None, np.where(size == 0.0, 1.0, size))


def from_moments(center: Floats, spread: Floats, filled: Floats, row: Floats) -> Scaling:
    """Return the scaling of dense columns with these means, standard deviations and shares of non-zero entries.

    `row` is any row of the data.
    """
    constant = spread <= ROUNDING * np.abs(center)
    # The mean of equal numbers may be off by rounding; subtracting the number itself makes the column zero.
    size = spread / np.sqrt(np.where(filled > 0.0, filled, 1.0))
    return Scaling(np.where(constant, row, center), np.where(constant, 1.0, size))


def _sparse(X: Any) -> Scaling | None:
    return from_squares(*column_squares(X))


def column_squares(X: Any) -> tuple[Floats, Floats]:
    """Return (number of non-zero entries, sum of their squares) of each column of a CSR matrix."""
    count: Any = np.bincount(X.indices, weights=X.data != 0.0, minlength=X.shape[1])
    squares: Any = np.bincount(X.indices, weights=X.data**2, minlength=X.shape[1])
    return count, squares


def from_squares(count: Floats, squares: Floats) -> Scaling | None:
    """Return the scaling of sparse columns with these numbers of entries and sums of their squares."""
    met = squares > 0.0
    size = np.ones(squares.size)
    size[met] = np.sqrt(squares[met] / count[met])
    middle = float(np.median(size[met])) if met.any() else 1.0
    far = met & ((size > FAR * middle) | (size < middle / FAR))
    return Scaling(None, np.where(far, size / middle, 1.0)) if far.any() else None
