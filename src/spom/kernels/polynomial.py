"""Polynomials of the inner product."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Normalizable, squares
from spom.kernels.gram import Reals


@register(
    "kernel",
    "polynomial",
    formula=r"(a \langle x, z \rangle + b)^p",
    cost="one matrix product",
    examples=lambda: [
        Polynomial(2),
        Polynomial(3, bias=1.0),
        Polynomial(2, bias=0.5, normalize=True),
        Polynomial(2, 0.5, scale=0.25),
    ],
)
class Polynomial(Normalizable):
    """K(x, z) = (scale <x, z> + bias)^degree; with `normalize`, divided by sqrt(K(x, x) K(z, z)).

    Without a scale, `fitted` takes 1 / (2 mean squared norm of the training examples): with a bias of one half, K(x, x)
    is then one for a row of this norm.

    >>> Polynomial(2, bias=1.0).block([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(self, degree: int = 2, bias: float = 0.0, normalize: bool = False, scale: float | None = 1.0) -> None:
        self.degree = degree
        self.bias = bias
        self.normalize = normalize
        self.scale = scale
        self._check()

    def _check(self) -> None:
        whole = isinstance(self.degree, (int, np.integer)) and not isinstance(self.degree, bool)
        if not whole or self.degree < 1:
            raise ValueError(f"degree must be a whole number >= 1; it is {self.degree!r}")
        # A negative bias would make odd degrees indefinite.
        check_positive(self.bias, "bias")
        if self.scale is not None:
            check_positive(self.scale, "scale", zero=False)

    def fitted(self, X: object) -> Polynomial:
        """Return the kernel with a scale: the one given, or that of the data."""
        if self.scale is not None:
            return self
        A = self._input(X, "X")
        mean = float(squares(A).mean()) if A.shape[0] else 0.0
        return Polynomial(self.degree, self.bias, self.normalize, 0.5 / mean if mean > 0 else 1.0)

    def _plain(self, P: Reals) -> Reals:
        if self.scale is None:
            raise ValueError("Polynomial(scale=None) has no scale yet: give one, or take it from data with fitted(X)")
        if self.scale != 1.0:
            P *= P.dtype.type(self.scale)
        P += P.dtype.type(self.bias)
        if self.degree == 2:
            P *= P
            return P
        return np.power(P, self.degree, out=P)
