"""The base of all kernels: input checks, blocks, sums and products, and kernels that are functions of <x, z>.

A kernel is one file with a class. The class has `_of_products` if K(x, z) depends only on <x, z>, norm(x)^2 and
norm(z)^2 (several such kernels on the same data then share one matrix product), else `_block` and `_diagonal`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its subpackages are loaded on first use
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, checked_csr
from spom.core.registry import Parameters
from spom.kernels.gram import Reals


class Kernel(Parameters):
    """K(x, z), a positive semidefinite function of two vectors, in blocks."""

    # Whether K is a function of inner products and squared norms: then only `_of_products` is needed.
    of_products: ClassVar[bool] = False
    # Whether K(x, z) is positive semidefinite for vectors of any length.
    positive: ClassVar[bool] = True
    # "vectors", or "indices" of items of a fixed set.
    takes: ClassVar[str] = "vectors"
    # Whether K has a width: then `widened` returns it with another one.
    has_width: ClassVar[bool] = False

    @property
    def sparse(self) -> bool:
        """Whether blocks are CSR matrices, because most entries are exactly zero."""
        return False

    # --- what a kernel implements ------------------------------------------------------------------

    def _of_products(self, P: Reals, x: Reals, z: Reals) -> Any:
        """Return K from P = X Z^T, x = squared norms of X, z = squared norms of Z; may write into P."""
        raise NotImplementedError  # kernels that declare `of_products` have their own

    def _block(self, X: Any, Z: Any) -> Any:
        return self._of_products(products(X, Z), squares(X), squares(Z))

    def _diagonal(self, X: Any) -> Reals:
        x = squares(X)
        return np.asarray(self._of_products(x[:, None].copy(), x, x[:1]))[:, 0]

    def fitted(self, X: Any) -> Kernel:
        """Return the kernel with the parameters that it learns from the training data; most kernels learn none."""
        return self

    def widened(self, factor: float) -> tuple[Kernel, float]:
        """Return (the fitted kernel with its width times `factor`, the power of K that is equal to it)."""
        raise NotImplementedError  # kernels that declare `has_width` have their own

    # --- what users call ---------------------------------------------------------------------------

    def block(self, X: ArrayLike, Z: ArrayLike | None = None, out: Any = None) -> Any:
        """K(x, z) for each row x of X and z of Z (default: X itself); CSR for a sparse kernel.

        float32 data give float32, all others float64.
        """
        A = self._input(X, "X")
        B = A if Z is None else self._input(Z, "Z")
        if self.takes == "vectors" and A.shape[1] != B.shape[1]:
            raise ValueError(f"X has {A.shape[1]} features and Z has {B.shape[1]}: they must have the same number")
        found = self._block(A, B)
        if out is None:
            return found
        if out.shape != found.shape:
            raise ValueError(f"out has shape {out.shape}; the block has {found.shape}")
        out[...] = found.toarray() if scipy.sparse.issparse(found) else found
        return out

    def diagonal(self, X: ArrayLike) -> Floats:
        """K(x, x) for each row x of X."""
        return np.ascontiguousarray(self._diagonal(self._input(X, "X")), dtype=np.float64)

    def _input(self, X: Any, name: str) -> Any:
        return as_vectors(X, name)

    # --- arithmetic --------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        from spom.kernels.combined import KernelSum

        return KernelSum([self, other]) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from spom.kernels.combined import KernelProduct, KernelSum

        if isinstance(other, Kernel):
            return KernelProduct([self, other])
        return KernelSum([self], [float(other)]) if isinstance(other, (int, float)) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Kernel:
        return self * (1.0 / other)

    def normalized(self) -> Kernel:
        """K(x, z) / sqrt(K(x, x) K(z, z)): the same kernel with a unit diagonal."""
        from spom.kernels.combined import Normalized

        return Normalized(self)


class Normalizable(Kernel):
    """A kernel of inner products with a parameter `normalize`: division by the square roots of its diagonal."""

    of_products = True
    normalize: bool

    def _plain(self, P: Reals) -> Reals:
        """Return K before normalisation, from inner products alone; may write into P."""
        raise NotImplementedError  # every kernel has its own

    def _of_products(self, P: Reals, x: Reals, z: Reals) -> Any:
        K = self._plain(P)
        if self.normalize:
            K *= inverse_roots(self._plain(x.copy()))[:, None]
            K *= inverse_roots(self._plain(z.copy()))[None, :]
        return K

    def _diagonal(self, X: Any) -> Reals:
        found = self._plain(squares(X))
        return (found > 0).astype(found.dtype) if self.normalize else found

    def normalized(self) -> Self:
        """Return the same kernel with `normalize=True`."""
        return type(self)(**{**self.get_params(deep=False), "normalize": True})


def as_vectors(X: Any, name: str = "X") -> Any:
    """Return X as a finite float32 or float64 matrix, dense in C order or CSR; without a copy if it is one."""
    if scipy.sparse.issparse(X):
        found = checked_csr(X, name)
        data = found.data
    else:
        found = np.asarray(X)
        if found.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be an array of real numbers; its dtype is {found.dtype}")
        data = found
    if found.ndim != 2:
        raise ValueError(f"{name} must be a matrix with an example in each row; it has {found.ndim} dimensions")
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(np.float64)
    if not np.isfinite(data).all():
        raise ValueError(f"{name} must be finite: it has NaN or infinite entries")
    return found if scipy.sparse.issparse(found) else np.ascontiguousarray(found)


def products(X: Any, Z: Any) -> Reals:
    """X Z^T, dense, in the precision of the data."""
    found = X @ Z.T
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)


def squares(X: Any) -> Reals:
    """norm(x)^2 of each row."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).reshape(-1).astype(X.dtype, copy=False)
    return np.asarray(np.einsum("ij,ij->i", X, X))


def distances(P: Reals, x: Reals, z: Reals) -> Reals:
    """norm(x - z)^2 from inner products and squared norms, written in place of P; never negative."""
    P *= -2.0
    P += x[:, None]
    P += z[None, :]
    np.maximum(P, 0.0, out=P)
    return P


def inverse_roots(diagonal: Reals) -> Reals:
    """1 / sqrt(diagonal), and 0 for 0: the zero vector stays zero."""
    with np.errstate(divide="ignore"):
        return np.where(diagonal > 0, 1.0 / np.sqrt(diagonal), 0.0).astype(diagonal.dtype, copy=False)
