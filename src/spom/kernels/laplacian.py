"""The Laplacian kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # its rooms are loaded when they are first used

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Kernel
from spom.kernels.gram import Reals


@register(
    "kernel",
    "laplacian",
    formula=r"\exp(-\sum_j |x_j - z_j| / v_j)",
    cost="a difference for each entry and feature",
    examples=lambda: [Laplacian(1.0), Laplacian([0.5, 2.0, 1.0, 4.0])],
)
class Laplacian(Kernel):
    """K(x, z) = exp(-sum over features j of |x_j - z_j| / width_j), where width is one number or one per feature.

    Without a width, `fitted` takes the standard deviation of each feature times the number of features that vary, so
    units do not matter. A constant feature gets the largest width of the others.

    >>> Laplacian(2.0).block([[0.0], [2.0]], [[0.0]]).round(4).ravel()
    array([1.    , 0.3679])
    """

    has_width = True

    def __init__(self, width: float | Sequence[float] | None = None) -> None:
        self.width = width
        self._check()

    def _check(self) -> None:
        for width in [] if self.width is None else np.atleast_1d(self.width).tolist():
            check_positive(width, "width", zero=False)

    def fitted(self, X: Any) -> Laplacian:
        """Return the kernel with widths: those given, or those of the data."""
        if self.width is not None:
            return self
        A = self._input(X, "X")
        A = A.toarray() if scipy.sparse.issparse(A) else A
        spread = A.std(axis=0, dtype=np.float64) if A.shape[0] else np.zeros(A.shape[1])
        varies = spread > 1e-12 * np.abs(A).max(initial=0.0)
        if not varies.any():
            return Laplacian(1.0)
        return Laplacian((np.where(varies, spread, spread.max()) * int(varies.sum())).tolist())

    def widened(self, factor: float) -> tuple[Laplacian, float]:
        """Return (the kernel with its widths times `factor`, the power of K that is equal to it).

        >>> Laplacian(2.0).widened(0.5)
        (Laplacian(width=1.0), 2.0)
        """
        width = np.asarray(self._known(), dtype=np.float64) * factor
        return Laplacian(width.tolist()), 1.0 / factor

    def _known(self) -> float | Sequence[float]:
        if self.width is None:
            raise ValueError("Laplacian() has no width yet: give one, or take it from data with fitted(X)")
        return self.width

    def _block(self, X: Any, Z: Any) -> Reals:
        width = np.asarray(self._known(), dtype=np.float64)
        if width.ndim and width.size != X.shape[1]:
            raise ValueError(f"Laplacian has {width.size} widths; the data have {X.shape[1]} features")
        left, right = ((A.toarray() if scipy.sparse.issparse(A) else A) / width for A in (X, Z))
        found = scipy.spatial.distance.cdist(left, right, "cityblock")
        return np.asarray(np.exp(-found), dtype=X.dtype)

    def _diagonal(self, X: Any) -> Reals:
        return np.ones(X.shape[0])
