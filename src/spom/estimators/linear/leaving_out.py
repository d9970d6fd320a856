"""Ridge regression with exact leave-one-out errors, for all strengths at once.

With S the matrix that maps targets to fitted values, the error at row i of the model learnt without it is

    (y_i - (S y)_i) / (1 - S_ii),

and one eigendecomposition gives S for every strength (Golub, Heath and Wahba 1979; `RidgeCV` of scikit-learn).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from spom.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from spom.estimators.linear.strength import Examples

# Limit of rows * columns * min(rows, columns). Below it the eigendecomposition takes less time than the passes that
# it saves, about a second at the limit.
MOST_WORK = 4e9
# A row that determines its own fitted value has no leave-one-out error: the quotient is bounded.
LEAST_REST = 1e-9


def is_small(examples: Examples) -> bool:
    """Tell whether the data are dense and small enough for an eigendecomposition."""
    n, d = examples.X.shape
    return not sparse.issparse(examples.X) and n * d * min(n, d) <= MOST_WORK


def errors_left_out(examples: Examples, strengths: Floats, rows: Ints) -> Floats:
    """Return (strengths, rows): y_i minus the prediction of the model learnt from all rows but i, for i in `rows`.

    The model minimises sum_i share_i (y_i - <w, x_i> - b)^2 / 2 + strength / 2 norm(w)^2, where b is free if there is
    an intercept. The shares, proportional to the weights, do not change when a row is left out.

    >>> import numpy as np
    >>> from spom.estimators.linear.strength import Examples
    >>> data = Examples(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0]), None, None, True)
    >>> errors_left_out(data, np.array([1e-9, 1e9]), np.array([0, 2])).round(3) + 0.0
    array([[ 0. ,  0. ],
           [-1.5,  1.5]])
    """
    A, a, share = _weighed(examples)
    root, fixed = np.sqrt(share), share if examples.intercept else np.zeros(share.size)
    if A.shape[0] > A.shape[1]:
        values, vectors = linalg.eigh(A.T @ A)
        inner, basis, scale = vectors.T @ (A.T @ a), A[rows] @ vectors, np.ones(values.size)
    else:
        values, vectors = linalg.eigh(A @ A.T)
        inner, basis, scale = vectors.T @ a, vectors[rows], np.maximum(values, 0.0)
    squares, root = basis * basis, root[rows]
    found = np.empty((strengths.size, rows.size))
    for k, strength in enumerate(strengths):
        shrink = scale / (np.maximum(values, 0.0) + strength)
        rest = np.maximum(1.0 - fixed[rows] - squares @ shrink, LEAST_REST)
        found[k] = (a[rows] - basis @ (shrink * inner)) / rest
    return np.where(root > 0.0, found / np.where(root > 0.0, root, 1.0), 0.0)


def solution(examples: Examples, strength: float) -> Floats:
    """Return theta of the model learnt from all rows.

    >>> from spom.estimators.linear.strength import Examples
    >>> data = Examples(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]), None, None, True)
    >>> solution(data, 1e-9).round(6)
    array([2., 1.])
    """
    A, a, share = _weighed(examples)
    wide = A.shape[1] > A.shape[0]
    square = A @ A.T if wide else A.T @ A
    square[np.diag_indices_from(square)] += strength
    w = A.T @ linalg.solve(square, a, assume_a="pos") if wide else linalg.solve(square, A.T @ a, assume_a="pos")
    return np.append(w, share @ (examples.y - examples.X @ w)) if examples.intercept else w


def _weighed(examples: Examples) -> tuple[Floats, Floats, Floats]:
    """Return (rows, targets, shares): centred if there is an intercept, and multiplied by the roots of the shares."""
    share = examples.weights / examples.weights.sum()
    A, a = np.array(examples.X), np.array(examples.y, dtype=np.float64)
    if examples.intercept:
        A -= share @ A
        a -= share @ a
    A *= np.sqrt(share)[:, None]
    a *= np.sqrt(share)
    return A, a, share
