"""Kernels made of kernels: weighted sums, products, and unit diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Kernel, inverse_roots, products, squares
from spom.kernels.gaussian import Gaussian
from spom.kernels.gram import Reals
from spom.kernels.linear import Linear
from spom.kernels.polynomial import Polynomial


class _Several(Kernel):
    """The base of sums and products of kernels; kernels of inner products share one matrix product."""

    kernels: Sequence[Kernel]

    def _check(self) -> None:
        if not self.kernels or not all(isinstance(kernel, Kernel) for kernel in self.kernels):
            raise ValueError(f"kernels must be a list of one or more kernels; it is {self.kernels!r}")

    def _blocks(self, X: Any, Z: Any) -> list[Any]:
        shared = [kernel for kernel in self.kernels if kernel.of_products]
        if len(shared) < 2:
            return [kernel._block(X, Z) for kernel in self.kernels]
        P, x, z = products(X, Z), squares(X), squares(Z)
        return [k._of_products(P.copy(), x, z) if k.of_products else k._block(X, Z) for k in self.kernels]


@register(
    "kernel",
    "kernel-sum",
    formula=r"\sum_m w_m K_m(x, z)",
    cost="the sum of its kernels'",
    examples=lambda: [Linear() + Gaussian(1.0), KernelSum([Linear(), Polynomial(2), Gaussian(2.0)], [0.5, 0.0, 2.0])],
)
class KernelSum(_Several):
    """K(x, z) = sum over m of weights_m K_m(x, z); the default weights are ones.

    >>> (Linear() + 2.0 * Linear()).block([[1.0]], [[3.0]])
    array([[9.]])
    """

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[float] | None = None) -> None:
        self.kernels = kernels
        self.weights = weights
        self._check()

    def _check(self) -> None:
        super()._check()
        for m, weight in enumerate(self._weights()):
            check_positive(weight, f"weight {m}")
        if len(self._weights()) != len(self.kernels):
            raise ValueError(f"there are {len(self._weights())} weights for {len(self.kernels)} kernels")

    def _weights(self) -> Sequence[float]:
        return [1.0] * len(self.kernels) if self.weights is None else list(self.weights)

    @property
    def sparse(self) -> bool:
        """Whether all of its kernels are sparse."""
        return all(kernel.sparse for kernel in self.kernels)

    def fitted(self, X: Any) -> KernelSum:
        """Return the sum of the fitted kernels."""
        return KernelSum([kernel.fitted(X) for kernel in self.kernels], self.weights)

    def _block(self, X: Any, Z: Any) -> Any:
        total: Any = None
        for weight, K in zip(self._weights(), self._blocks(X, Z), strict=True):
            part = K * K.dtype.type(weight)
            if total is not None and scipy.sparse.issparse(part) and not scipy.sparse.issparse(total):
                part = part.toarray()
            total = part if total is None else total + part
        return total.tocsr() if self.sparse else np.ascontiguousarray(total)

    def _diagonal(self, X: Any) -> Reals:
        return np.asarray(sum(w * k._diagonal(X) for w, k in zip(self._weights(), self.kernels, strict=True)))


@register(
    "kernel",
    "kernel-product",
    formula=r"\prod_m K_m(x, z)",
    cost="the sum of its kernels'",
    examples=lambda: [Linear() * Gaussian(1.0), KernelProduct([Polynomial(2, 1.0), Gaussian(2.0)])],
)
class KernelProduct(_Several):
    """K(x, z) = product over m of K_m(x, z).

    >>> (Linear() * Linear()).block([[1.0]], [[3.0]])
    array([[9.]])
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels
        self._check()

    @property
    def sparse(self) -> bool:
        """Whether one of its kernels is sparse."""
        return any(kernel.sparse for kernel in self.kernels)

    def fitted(self, X: Any) -> KernelProduct:
        """Return the product of the fitted kernels."""
        return KernelProduct([kernel.fitted(X) for kernel in self.kernels])

    def _block(self, X: Any, Z: Any) -> Any:
        # Sparse ones first: the product is then sparse at once.
        parts = sorted(self._blocks(X, Z), key=lambda K: not scipy.sparse.issparse(K))
        found = parts[0]
        for K in parts[1:]:
            found = found.multiply(K) if scipy.sparse.issparse(found) else found * K
        return found.tocsr() if self.sparse else found

    def _diagonal(self, X: Any) -> Reals:
        return np.asarray(np.prod([kernel._diagonal(X) for kernel in self.kernels], axis=0))


@register(
    "kernel",
    "normalized",
    formula=r"K(x, z) / \sqrt{K(x, x) K(z, z)}",
    cost="that of its kernel",
    examples=lambda: [Normalized(Polynomial(3, bias=1.0)), (Linear() + Gaussian(1.0)).normalized()],
)
class Normalized(Kernel):
    """K(x, z) / sqrt(K(x, x) K(z, z)): only the angle counts, and every kernel has the same scale.

    >>> Normalized(Linear()).block([[3.0]], [[5.0]])
    array([[1.]])
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._check()

    def _check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel must be a kernel, not {self.kernel!r}")

    @property
    def sparse(self) -> bool:
        """Whether its kernel is sparse."""
        return self.kernel.sparse

    def fitted(self, X: Any) -> Normalized:
        """Return the fitted kernel, normalised."""
        return Normalized(self.kernel.fitted(X))

    def _block(self, X: Any, Z: Any) -> Any:
        K = self.kernel._block(X, Z)
        left, right = inverse_roots(self.kernel._diagonal(X)), inverse_roots(self.kernel._diagonal(Z))
        if scipy.sparse.issparse(K):
            return (scipy.sparse.diags(left) @ K @ scipy.sparse.diags(right)).tocsr().astype(K.dtype)
        return np.ascontiguousarray(K * left[:, None] * right[None, :], dtype=K.dtype)

    def _diagonal(self, X: Any) -> Reals:
        return np.asarray(self.kernel._diagonal(X) > 0, dtype=np.float64)
