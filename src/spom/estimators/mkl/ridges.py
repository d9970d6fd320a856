r"""The machine of a kernel regressor with `penalty="auto"`: ridge regression with kernel weights from rows left out.

    min over f and b of  s/2 norm(f)^2 + 1/2 sum_i w_i (y_i - b - f(x_i))^2,  sum_i w_i = 1,

in the space of K, the weighted sum of the kernels: the problem of `SparseMKL(s)` with these weights. With K centred by
the shares w_i and multiplied by their roots on both sides, and S = K (K + s I)^-1, the error at a row of the model
learnt without it is (y_i - (S y)_i) / (1 - w_i - S_ii), so one eigendecomposition gives all errors for all strengths.
The weights that the penalty learns are kept, at their best strength, unless others (`mkl.candidates`) have less error
by more than a standard error of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from spom.core.arrays import Floats
from spom.estimators.linear.judging import surely_better
from spom.estimators.linear.leaving_out import LEAST_REST
from spom.estimators.mkl.candidates import Rows, Weights, candidates

# Strengths for kernels with a mean diagonal of one, the least for matrices in single precision, whose rounding errors
# are near the others, and the standard errors needed to leave the penalty's weights.
STRENGTHS, LEAST_SINGLE, ERRORS = 10.0 ** np.arange(1.0, -7.1, -0.5), 0.99e-5, 1.0
# The penalty learns weights at these multiples of the strength that makes all of them zero; the first is the default.
LEARNT = (0.01, 0.1, 0.001)
# The maximum number of rows for the choice; with fewer rows than `FEW` there is none, and the strength is `DEFAULT`.
MOST, FEW, DEFAULT = 1000, 10, 0.01


class Ridge(NamedTuple):
    """Weights, the strength, the number of rows left out in turn, and their mean squared error by strength."""

    weights: Weights
    strength: float
    held: int
    errors: dict[float, float]

    def told(self) -> str:
        """Describe the choice and its reason."""
        if not self.held:
            return f"{self.weights.told()}, too few rows to compare"
        return f"{self.weights.told()}, mean squared error {min(self.errors.values()):.4g} of {self.held} rows left out"


def chosen_ridge(rows: Rows, learnt: Sequence[Floats], seed: int) -> Ridge:
    """Return the best of the learnt weights, equal weights and a single kernel, with its best strength."""
    some = np.flatnonzero(rows.weight > 0.0)
    some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    if some.size < FEW:
        return Ridge(candidates(rows, *learnt)[0], DEFAULT, 0, {})
    part = rows.some(some)
    share = part.weight / part.weight.sum()
    every = candidates(part, *learnt)
    single = rows.grams[0].dtype == np.float32
    strengths = STRENGTHS[(LEAST_SINGLE if single else 0.0) <= STRENGTHS]
    squares = [left_out(part.sum(weights), part.y, share, strengths) ** 2 for weights in every]
    means = [own @ share for own in squares]
    least = [own[int(mean.argmin())] for own, mean in zip(squares, means, strict=True)]
    best = int(np.argmin([float(mean.min()) for mean in means]))
    if not surely_better(-least[best], -least[0], part.weight, ERRORS):
        best = 0
    # More rows need a smaller strength: its product with their weight stays the same.
    rest = float(part.weight.sum() / rows.weight.sum())
    errors = {float(f"{s * rest:.3g}"): float(e) for s, e in zip(strengths, means[best], strict=True)}
    return Ridge(every[best], min(errors, key=errors.__getitem__), int(some.size), errors)


def left_out(K: Any, y: Floats, share: Floats, strengths: Floats) -> Floats:
    """Return (strengths, rows): y_i minus the prediction of the model learnt from all rows but i.

    >>> left_out(np.eye(2), np.array([0.0, 1.0]), np.full(2, 0.5), np.array([1.0, 1e-9])).round(3)
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    A, a, root = _centred(K, y, share)
    values, vectors = linalg.eigh(A, overwrite_a=True, check_finite=False, driver="evd")
    inner, squares = vectors.T @ a, vectors * vectors
    # Kernels such as "sigmoid" have negative values. They count as in `fitted_ridge`, where one near -s makes the
    # solution huge: with them at zero, R2 of new rows was -67 where rows left out promised .91.
    shrink = values[:, None] / (values[:, None] + strengths)
    rest = 1.0 - share[:, None] - squares @ shrink
    rest = np.where(np.abs(rest) < LEAST_REST, LEAST_REST, rest)
    return np.asarray(((a[:, None] - vectors @ (shrink * inner[:, None])) / (rest * root[:, None])).T)


def fitted_ridge(rows: Rows, ridge: Ridge) -> tuple[Floats, Floats, float]:
    """Return (coefficients of each kernel, the norm of its part, the intercept) of the model learnt from all rows."""
    K, share = rows.sum(ridge.weights), rows.weight / rows.weight.sum()
    A, a, root = _centred(K, rows.y, share)
    A[np.diag_indices_from(A)] += ridge.strength
    own = root * linalg.solve(A, a, assume_a="sym", overwrite_a=True, check_finite=False)
    weights = ridge.weights.kernels
    norms = np.zeros(weights.size)
    for m in np.flatnonzero(weights).tolist():
        norms[m] = weights[m] * np.sqrt(max(float(own @ rows.gram(m, ridge.weights.width) @ own), 0.0))
    return np.outer(weights, own), norms, float(share @ (rows.y - K @ own))


def _centred(K: Any, y: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (K, y, roots of the shares): centred by the shares and multiplied by their roots, K on both sides."""
    root, mean = np.sqrt(share), share @ K
    # In place, and by columns as LAPACK reads it: the matrix may be as large as memory allows.
    A = np.array(K, dtype=np.float64, order="F")
    A -= mean
    A -= mean[:, None]
    A += float(mean @ share)
    A *= root
    A *= root[:, None]
    return A, root * (y - share @ y), root
