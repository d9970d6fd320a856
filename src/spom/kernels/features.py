"""Explicit features that approximate a kernel when there are too many examples for its Gram matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats, check_positive
from spom.core.registry import register
from spom.errors import DataError
from spom.kernels.base import Kernel, as_vectors, squares
from spom.kernels.gaussian import Gaussian
from spom.kernels.gram import Reals

# Directions with an eigenvalue below this share of the largest one are dropped.
RANK = 1e-7


class Features(Kernel):
    """K(x, z) = <phi(x), phi(z)> with explicit phi: `fit`, then `transform`; the base of the two forms.

    As a kernel of an estimator, it is a block of explicit features.
    """

    components: int
    seed: int
    map_: Floats

    def _check(self) -> None:
        whole = isinstance(self.components, (int, np.integer)) and not isinstance(self.components, bool)
        if not whole or self.components < 1:
            raise ValueError(f"components must be a whole number >= 1; it is {self.components!r}")

    def fitted(self, X: Any) -> Self:
        """Return a fitted copy."""
        return type(self)(**self.get_params(deep=False)).fit(X)

    def _block(self, X: Any, Z: Any) -> Reals:
        if not hasattr(self, "map_"):
            raise ValueError(f"{type(self).__name__} has no features yet: take them from data with fitted(X)")
        return np.asarray(self.transform(X) @ self.transform(Z).T)

    def _diagonal(self, X: Any) -> Reals:
        return squares(self.transform(X))

    def fit(self, X: Any) -> Self:
        """Learn from the training data what the features need."""
        raise NotImplementedError  # every form has its own

    def transform(self, X: Any) -> Reals:
        """Return the features of each row, dense."""
        raise NotImplementedError  # every form has its own

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays that restore fitted features."""
        raise NotImplementedError  # every form has its own


@register(
    "kernel",
    "nystroem",
    formula=r"k(x)^\top K^{-1} k(z), \; k(x)_i = K(x, l_i)",
    cost="c rows of its kernel, and their product",
    examples=lambda: [Nystroem(Gaussian(2.0), 5).fit(np.eye(7, 4))],
)
class Nystroem(Features):
    """phi(x) = S^(-1/2) U^T K(landmarks, x), with K(landmarks, landmarks) = U S U^T (Williams and Seeger 2001).

    The landmarks are `components` of the training rows, drawn with the seed. The features are exact on the landmarks,
    and the best of all features that they span.

    >>> from spom.kernels import Gaussian
    >>> X = np.arange(5.0)[:, None]
    >>> phi = Nystroem(Gaussian(1.0), components=5).fit(X).transform(X)
    >>> np.allclose(phi @ phi.T, Gaussian(1.0).block(X))
    True
    """

    def __init__(self, kernel: Kernel, components: int = 500, seed: int = 0) -> None:
        self.kernel = kernel
        self.components = components
        self.seed = seed
        self._check()

    def fit(self, X: Any) -> Nystroem:
        """Draw the landmarks and factor their Gram matrix."""
        A = as_vectors(X)
        if A.shape[0] == 0:
            raise DataError("there are no examples to take landmarks from")
        count = min(self.components, A.shape[0])
        chosen = np.sort(np.random.default_rng(self.seed).choice(A.shape[0], count, replace=False))
        self.kernel_ = self.kernel.fitted(A)
        self.landmarks_ = A[chosen]
        K = self.kernel_.block(self.landmarks_)
        K = np.asarray(K.toarray() if scipy.sparse.issparse(K) else K, dtype=np.float64)
        values, vectors = np.linalg.eigh(K)
        kept = values > RANK * max(float(values[-1]), 0.0)
        self.map_ = vectors[:, kept] / np.sqrt(values[kept])
        return self

    def transform(self, X: Any) -> Reals:
        """Return the features of each row."""
        A = as_vectors(X)
        out = np.empty((A.shape[0], self.map_.shape[1]), dtype=A.dtype)
        for start in range(0, A.shape[0], 4096):
            K = self.kernel_.block(A[start : start + 4096], self.landmarks_)
            dense = K.toarray() if scipy.sparse.issparse(K) else K
            out[start : start + 4096] = dense @ self.map_.astype(dense.dtype, copy=False)
        return out

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the landmarks and the map."""
        dense = self.landmarks_.toarray() if scipy.sparse.issparse(self.landmarks_) else self.landmarks_
        return {"landmarks": dense, "map": self.map_}


@register(
    "kernel",
    "random-fourier",
    formula=r"\tfrac{2}{c} \sum_j \cos(w_j x + b_j) \cos(w_j z + b_j)",
    cost="c cosines per row",
    examples=lambda: [RandomFourier(2.0, 6).fit(np.eye(7, 4))],
)
class RandomFourier(Features):
    """phi(x) = sqrt(2 / components) cos(W x + b), for the Gaussian kernel (Rahimi and Recht 2007).

    W has independent normal entries of variance 1 / variance, b is uniform on [0, 2 pi). The features are cheaper than
    `Nystroem` for many components, but never exact.

    >>> import numpy as np
    >>> from spom.kernels import Gaussian, RandomFourier
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> close = RandomFourier(variance=2.0, components=4000).fitted(X).block(X, X)
    >>> bool(np.abs(close - Gaussian(2.0).block(X, X)).max() < 0.1)
    True
    """

    def __init__(self, variance: float, components: int = 500, seed: int = 0) -> None:
        self.variance = variance
        self.components = components
        self.seed = seed
        self._check()

    def _check(self) -> None:
        super()._check()
        check_positive(self.variance, "variance", zero=False)

    def fit(self, X: Any) -> RandomFourier:
        """Draw W and b."""
        rng = np.random.default_rng(self.seed)
        columns = as_vectors(X).shape[1]
        self.map_ = rng.standard_normal((columns, self.components)) / np.sqrt(self.variance)
        self.shift_ = rng.uniform(0.0, 2.0 * np.pi, self.components)
        return self

    def transform(self, X: Any) -> Reals:
        """Return the features of each row."""
        A = as_vectors(X)
        angles: Reals = np.asarray(A @ self.map_.astype(A.dtype, copy=False)) + self.shift_.astype(A.dtype, copy=False)
        np.cos(angles, out=angles)
        angles *= A.dtype.type(np.sqrt(2.0 / self.components))
        return angles

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return W and b."""
        return {"map": self.map_, "shift": self.shift_}
