"""The Gaussian kernel."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Kernel, distances, squares
from spom.kernels.gram import Reals


@register(
    "kernel",
    "gaussian",
    formula=r"\exp(-\|x - z\|^2 / (2 v))",
    cost="one matrix product and an exponential an entry",
    examples=lambda: [Gaussian(1.0), Gaussian(0.1), Gaussian(25.0)],
)
class Gaussian(Kernel):
    """K(x, z) = exp(-norm(x - z)^2 / (2 variance)).

    Without a variance, `fitted` takes half the mean squared distance of the training examples from their mean.

    >>> Gaussian(2.0).block([[0.0], [2.0]], [[0.0]]).round(4).ravel()
    array([1.    , 0.3679])
    """

    of_products = True
    has_width = True

    def __init__(self, variance: float | None = None) -> None:
        self.variance = variance
        self._check()

    def _check(self) -> None:
        if self.variance is not None:
            check_positive(self.variance, "variance", zero=False)

    def fitted(self, X: object) -> Gaussian:
        """Return the kernel with a variance: the one given, or that of the data."""
        if self.variance is not None:
            return self
        A = self._input(X, "X")
        center = np.asarray(A.mean(axis=0)).reshape(-1)
        spread = float(squares(A).mean()) - float(center @ center) if A.shape[0] else 0.0
        return Gaussian(0.5 * spread if spread > 0 else 1.0)

    def widened(self, factor: float) -> tuple[Gaussian, float]:
        """Return (the kernel with its width times `factor`, the power of K that is equal to it).

        >>> Gaussian(2.0).widened(0.5)
        (Gaussian(variance=0.5), 4.0)
        """
        return Gaussian(self._known() * factor**2), factor**-2

    def _known(self) -> float:
        if self.variance is None:
            raise ValueError("Gaussian() has no variance yet: give one, or take it from data with fitted(X)")
        return self.variance

    def _of_products(self, P: Reals, x: Reals, z: Reals) -> Reals:
        factor = -0.5 / self._known()
        D = distances(P, x, z)
        D *= D.dtype.type(factor)
        return np.exp(D, out=D)

    def _diagonal(self, X: object) -> Reals:
        return np.ones(self._input(X, "X").shape[0])
