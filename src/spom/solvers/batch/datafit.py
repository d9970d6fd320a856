"""The smooth part of a problem: a mean of losses of linear scores, with its gradient, constants and dual."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from spom.core.arrays import Floats, as_finite, as_floats, check_csc, check_finite, checked_csr
from spom.errors import Unsupported

# Up to this many rows or columns the largest singular value is computed exactly, from a Gram matrix.
EXACT = 400


@runtime_checkable
class Smooth(Protocol):
    """A smooth convex function of an array `theta` of a fixed shape."""

    shape: tuple[int, ...]

    @property
    def penalised(self) -> slice:
        """The rows of `theta` that a penalty acts on: all but the intercept, which is the last row."""
        ...

    def value(self, theta: Floats) -> float:
        """f(theta)."""
        ...

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient of f at theta, in theta's shape."""
        ...

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return f(theta) and its gradient, at little more than the cost of one of them."""
        ...

    def lipschitz(self, norm: str = "l2") -> float:
        """Return L with dual_norm(gradient(x) - gradient(y)) <= L norm(x - y)."""
        ...


class Point(NamedTuple):
    """Theta with its scores, the mean loss, the derivatives alpha in the scores, and the gradient."""

    theta: Floats
    scores: Floats
    loss: float
    alpha: Floats
    gradient: Floats


class LinearSmooth:
    """f(theta) = sum_i s_i phi(y_i, x_i . w + b) / sum_i s_i, with s the sample weights (1 by default).

    `X` is dense or CSR/CSC, n x p. `theta` is w, of shape (p,), or (p, K) for a loss of K scores
    (`outputs`) or a `y` of K columns; a row is then one feature's weights. With `fit_intercept` theta has
    one row more, the last, which holds b. Every method takes theta in that shape; `split` parts it.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> f = LinearSmooth(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 1.0]), Squared())
    >>> f.value_and_gradient(np.zeros(2))
    (0.5, array([-0.5, -1. ]))
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        loss: Any,
        *,
        fit_intercept: bool = False,
        sample_weight: ArrayLike | None = None,
        outputs: int | None = None,
    ) -> None:
        self.X, self.loss, self.fit_intercept = as_matrix(X), loss, bool(fit_intercept)
        n, p = self.X.shape
        self.y = np.ascontiguousarray(y)
        if self.y.shape[:1] != (n,):
            raise ValueError(f"X has {n} rows, but y has shape {self.y.shape}")
        self.weights = mean_weights(sample_weight, n)
        if outputs is None and self.y.ndim == 2:
            outputs = int(self.y.shape[1])
        self.outputs = outputs
        rows = p + self.fit_intercept
        self.shape: tuple[int, ...] = (rows,) if outputs is None else (rows, outputs)
        self._lipschitz: dict[str, float] = {}
        self.constant: Point | None = None  # w = 0 with the best intercept, computed on first use
        self._point: Point | None = None

    @cached_property
    def column_squares(self) -> Floats:
        """sum_i S_i x_ij^2 for each column j."""
        return column_squares(self.X, self.weights)

    @cached_property
    def column_means(self) -> Floats:
        """X^T S, with 1 as its last entry where there is an intercept."""
        means: Floats = self.X.T @ self.weights
        return np.append(means, 1.0) if self.fit_intercept else means

    @property
    def penalised(self) -> slice:
        """The rows of theta that a penalty acts on: all but the intercept."""
        return slice(0, self.X.shape[1])

    def split(self, theta: Floats) -> tuple[Floats, Any]:
        """Return theta as (w, b); b is 0 without an intercept."""
        p = self.X.shape[1]
        return theta[:p], (theta[p] if self.fit_intercept else 0.0)

    # --- values and gradients ------------------------------------------------------------------------

    def scores(self, theta: Floats) -> Floats:
        """X w + b: a number, or a row of K numbers, for each example."""
        if theta.shape != self.shape:
            raise ValueError(f"theta must have shape {self.shape}; it has {theta.shape}")
        w, b = self.split(theta)
        scores: Floats = self.X @ w
        if self.fit_intercept:
            scores += b
        return scores

    def value_at(self, scores: Floats) -> float:
        """Return the mean loss of these scores."""
        values = np.asarray(self.loss.value(self.y, scores))
        return float(self.weights @ (values if values.ndim == 1 else values.sum(axis=1)))

    def dual_at(self, scores: Floats) -> Floats:
        """Return alpha, the derivatives of the mean loss in each score; the gradient is X^T alpha."""
        d: Floats = np.asarray(self.loss.derivative(self.y, scores), dtype=np.float64)
        return d * (self.weights if d.ndim == 1 else self.weights[:, None])

    def adjoint(self, alpha: Floats) -> Floats:
        """X^T alpha, with the sum of alpha as its last row where there is an intercept."""
        g: Floats = self.X.T @ alpha
        if not self.fit_intercept:
            return g
        out = np.empty(self.shape)
        out[:-1], out[-1] = g, alpha.sum(axis=0)
        return out

    def gradient_at(self, scores: Floats) -> Floats:
        """Return the gradient of f, given the scores."""
        g = np.ascontiguousarray(self.adjoint(self.dual_at(scores)))
        return check_finite(g, "the gradient of the loss (is X scaled?)")

    def value(self, theta: Floats) -> float:
        """f(theta)."""
        return self.value_at(self.scores(theta))

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient of f at theta."""
        return self._checked(self.adjoint(self.dual_at(self.scores(theta))))

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return f(theta) and its gradient, from one product with X and one with its transpose."""
        scores = self.scores(theta)
        return self.value_at(scores), self._checked(self.adjoint(self.dual_at(scores)))

    def at(self, theta: Floats, scores: Floats | None = None) -> Point:
        """Compute scores, loss, derivatives and gradient at theta; the last point is cached."""
        if self._point is None or not np.array_equal(theta, self._point.theta):
            scores = self.scores(theta) if scores is None else scores
            alpha = self.dual_at(scores)
            self._point = Point(theta.copy(), scores, self.value_at(scores), alpha, self.adjoint(alpha))
        return self._point

    @staticmethod
    def _checked(g: Floats) -> Floats:
        return check_finite(np.ascontiguousarray(g), "the gradient of the loss (scale X down, or lower the step)")

    # --- constants -----------------------------------------------------------------------------------

    def curvature(self) -> float:
        """Return the Lipschitz constant of the loss's derivative in its scores."""
        exponent, constant = self.loss.hoelder
        if exponent != 1.0 or not np.isfinite(constant):
            raise Unsupported(
                f"{type(self.loss).__name__} has no Lipschitz derivative (Hoelder exponent {exponent:g}); "
                "smooth losses are Squared, Logistic, MulticlassLogistic and PowerHinge with q = 2; "
                "OnlineClassifier and OnlineRegressor take the others"
            )
        return float(constant)

    def lipschitz(self, norm: str = "l2") -> float:
        """Return L with dual_norm(gradient(x) - gradient(y)) <= L norm(x - y), for the norm "l2", "l1" or "linf".

        c is the loss's curvature and S the normalised weights. In l2, L = c sigma_max(S^1/2 X)^2. In l1,
        L = c max_j sum_i S_i x_ij^2, because the largest entry of a positive semidefinite Hessian is on its diagonal.
        In l-inf, L is an upper bound: the smaller of c sum_i S_i norm1(x_i)^2 and p times the l2 constant.
        """
        if norm not in self._lipschitz:
            self._lipschitz[norm] = self.curvature() * self._squared_norm(norm)
        return self._lipschitz[norm]

    def _squared_norm(self, norm: str) -> float:
        ones = float(self.fit_intercept)
        if norm == "l1":
            return max(float(self.column_squares.max(initial=0.0)), ones)
        if norm == "l2":
            return squared_spectral_norm(self.X, self.weights, self.fit_intercept)
        if norm == "linf":
            sums = np.asarray(abs(self.X).sum(axis=1)).reshape(-1) + ones
            entries = int(np.prod(self.shape))
            return min(float(self.weights @ sums**2) * (self.outputs or 1), entries * self._squared_norm("l2"))
        raise Unsupported(f"no Lipschitz constant for the norm {norm!r}; the norms are 'l1', 'l2', 'linf'")

    # --- the dual ------------------------------------------------------------------------------------

    def conjugate_at(self, alpha: Floats) -> float:
        """sum_i S_i phi*(y_i, alpha_i / S_i), the conjugate of the mean loss; +inf outside its domain."""
        used = self.weights > 0.0
        scaled = alpha[used] / (self.weights[used] if alpha.ndim == 1 else self.weights[used, None])
        if np.isfinite(self.loss.lipschitz):
            scaled *= 1.0 - 2.0**-51  # keeps rounding from leaving the domain, which contains 0
        values = np.asarray(self.loss.conjugate(self.y[used], scaled))
        return float(self.weights[used] @ (values if values.ndim == 1 else values.sum(axis=1)))


def as_matrix(X: Any) -> Any:
    """Return X as a finite float64 matrix: CSR or CSC if it is sparse, else dense, in C or Fortran order."""
    if sparse.issparse(X):
        X = check_csc(X) if X.format == "csc" else checked_csr(X)
        X = X.astype(np.float64, copy=False)
        _check_entries(X.data, "X (its stored entries)")
        return X
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2 and X.flags.f_contiguous:
        _check_entries(X.T, "X (transposed)")
        return X
    a = as_floats(X, "X")
    _check_entries(a, "X")
    if a.ndim != 2:
        raise ValueError(f"X must be a matrix with one row per example; it has {a.ndim} dimension")
    return a


def _check_entries(a: Floats, name: str) -> None:
    """Do as `check_finite`, also for read-only arrays such as memory maps."""
    if a.flags.writeable:
        check_finite(a, name)
    elif not np.isfinite(a).all():
        check_finite(a.copy(), name)


def mean_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Return the sample weights divided by their sum; 1/n each if there are none."""
    if n == 0:
        raise ValueError("there are no examples: X has 0 rows")
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    s = as_finite(sample_weight, "sample_weight")
    if s.shape != (n,):
        raise ValueError(f"sample_weight must be a vector of {n} numbers; its shape is {s.shape}")
    if (s < 0).any() or s.sum() <= 0:
        raise ValueError("sample_weight must be >= 0, and not all zero")
    shares: Floats = s / s.sum()
    return shares


def column_squares(X: Any, weights: Floats) -> Floats:
    """Return sum_i weights_i x_ij^2 for each column j."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).T @ weights).reshape(-1)
    squares: Floats = np.einsum("ij,ij,i->j", X, X, weights, optimize=False)
    return squares


def squared_spectral_norm(X: Any, weights: Floats, ones: bool) -> float:
    """Return the largest eigenvalue of A^T diag(weights) A, where A is X, with a column of ones if `ones`.

    It is exact if X has few rows or columns; else Lanczos from a fixed start, plus a margin above its tolerance.
    """
    n, p = X.shape
    if p == 0:
        return float(ones)
    root = np.sqrt(weights)
    if min(n, p) <= EXACT:
        scaled = sparse.diags(root) @ X if sparse.issparse(X) else root[:, None] * X
        gram = scaled.T @ scaled if p <= n else scaled @ scaled.T
        gram = gram.toarray() if sparse.issparse(gram) else gram
        if ones and p <= n:
            edge = np.asarray(scaled.T @ root).reshape(-1, 1)
            gram = np.block([[gram, edge], [edge.T, np.ones((1, 1))]])
        elif ones:
            gram = gram + np.outer(root, root)
        return float(np.linalg.eigvalsh(gram)[-1])

    def apply(v: Floats) -> Floats:
        v = v.reshape(-1)
        out: Floats = root * (X @ v[:p] + (v[p] if ones else 0.0))
        return out

    def back(u: Floats) -> Floats:
        u = root * u.reshape(-1)
        g: Floats = X.T @ u
        return np.append(g, u.sum()) if ones else g

    operator = LinearOperator((n, p + ones), matvec=apply, rmatvec=back, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(min(n, p + ones))
    tol = 1e-4
    largest = float(svds(operator, k=1, tol=tol, v0=start, return_singular_vectors=False)[-1])
    return largest**2 * (1.0 + 10 * tol)
