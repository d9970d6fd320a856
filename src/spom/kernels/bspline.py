"""The spline kernel of the distance, which is zero for all but near neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Kernel, distances, products, squares
from spom.kernels.gram import Reals

# The number of rows from which the width is chosen.
SAMPLE = 1500


@register(
    "kernel",
    "b-spline",
    formula=r"\max(0, 1 - \|x - z\| / h)",
    cost="one matrix product; kept as CSR",
    examples=lambda: [BSpline(1.0), BSpline(3.0)],
)
class BSpline(Kernel):
    """K(x, z) = max(0, 1 - norm(x - z) / width), as CSR: only near neighbours have an entry (Martins et al. 2011).

    Without a width, `fitted` takes the one at which a share `zeros` of the training examples' Gram matrix is zero. In
    one dimension the kernel is positive semidefinite; in more it need not be, though with many zeros it mostly is.

    >>> BSpline(2.0).block([[0.0], [1.0], [5.0]]).toarray()
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    of_products = True
    positive = False

    def __init__(self, width: float | None = None, zeros: float = 0.95) -> None:
        self.width = width
        self.zeros = zeros
        self._check()

    def _check(self) -> None:
        if self.width is not None:
            check_positive(self.width, "width", zero=False)
        if not 0.0 <= self.zeros < 1.0:
            raise ValueError(f"zeros must be in [0, 1); it is {self.zeros!r}")

    @property
    def sparse(self) -> bool:
        """Blocks are CSR."""
        return True

    def fitted(self, X: Any) -> BSpline:
        """Return the kernel with a width: the one given, or that of the data."""
        if self.width is not None:
            return self
        A = self._input(X, "X")
        # Evenly spaced rows, so that the same data give the same width.
        some = A[np.unique(np.linspace(0, A.shape[0] - 1, min(A.shape[0], SAMPLE)).astype(np.int64))]
        D: Any = distances(products(some, some), squares(some), squares(some))
        far: Any
        far, count = np.unique(D[~np.eye(D.shape[0], dtype=bool)], return_counts=True)
        far, count = far[far > 0], count[far > 0]
        if far.size == 0:
            return BSpline(1.0, self.zeros)
        share = count[::-1].cumsum()[::-1] / D.size
        return BSpline(float(np.sqrt(far[np.abs(share - self.zeros).argmin()])), self.zeros)

    def _of_products(self, P: Reals, x: Reals, z: Reals) -> Any:
        if self.width is None:
            raise ValueError("BSpline() has no width yet: give one, or take it from data with fitted(X)")
        D = distances(P, x, z)
        row, column = np.nonzero(D.dtype.type(self.width**2) > D)
        values = 1.0 - np.sqrt(D[row, column]) / D.dtype.type(self.width)
        found = scipy.sparse.csr_matrix((values.astype(D.dtype, copy=False), (row, column)), shape=D.shape)
        found.sort_indices()
        return found

    def _diagonal(self, X: Any) -> Reals:
        return np.ones(X.shape[0])
