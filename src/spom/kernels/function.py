"""Any pairwise kernel of scikit-learn by its name, or any function of two matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.registry import register
from spom.errors import Unsupported
from spom.kernels.base import Kernel
from spom.kernels.gram import Reals


@register(
    "kernel",
    "function",
    formula=r"f(x, z)",
    cost="what the function takes",
    examples=lambda: [Function("laplacian", {"gamma": 0.5}), Function("sigmoid", {"gamma": 0.0, "coef0": 1.0})],
)
class Function(Kernel):
    """K(x, z) = function(X, Z): a name of `sklearn.metrics.pairwise` (with its parameters), or a callable.

    The callable takes two matrices and returns the block of their rows. If it takes two vectors instead, set
    `vectors=True`, and it is called for each pair.

    >>> Function("laplacian", {"gamma": 1.0}).block([[0.0]], [[0.0]])
    array([[1.]])
    >>> Function(lambda X, Z: X @ Z.T).block([[2.0]], [[3.0]])
    array([[6.]])
    """

    def __init__(
        self, function: str | Callable[..., Any], params: dict[str, Any] | None = None, vectors: bool = False
    ) -> None:
        self.function = function
        self.params = params
        self.vectors = vectors
        self._check()

    def _check(self) -> None:
        if not isinstance(self.function, str) and not callable(self.function):
            raise ValueError(f"function must be a callable or a name of scikit-learn, not {self.function!r}")

    def _block(self, X: Any, Z: Any) -> Reals:
        params = self.params or {}
        if X.shape[0] == 0 or Z.shape[0] == 0:
            return np.zeros((X.shape[0], Z.shape[0]), dtype=X.dtype)
        if isinstance(self.function, str):
            from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

            if self.function not in PAIRWISE_KERNEL_FUNCTIONS:
                names = ", ".join(sorted(PAIRWISE_KERNEL_FUNCTIONS))
                raise Unsupported(f"scikit-learn has no pairwise kernel {self.function!r}; it has: {names}")
            found = pairwise_kernels(X, Z, metric=self.function, **params)
        elif self.vectors:
            found = [[self.function(x, z, **params) for z in Z] for x in X]
        else:
            found = self.function(X, Z, **params)
        K = np.asarray(found, dtype=X.dtype)
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(f"the kernel function gave shape {K.shape}; it must be {(X.shape[0], Z.shape[0])}")
        return K

    def _diagonal(self, X: Any) -> Reals:
        # Small square blocks instead of one call per row.
        parts = [np.diagonal(self._block(X[i : i + 64], X[i : i + 64])) for i in range(0, X.shape[0], 64)]
        return np.concatenate(parts) if parts else np.zeros(0)
