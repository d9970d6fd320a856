"""Polynomials of the inner product."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import check_positive
from spom.core.registry import register
from spom.kernels.base import Normalizable
from spom.kernels.gram import Reals


@register(
    "kernel",
    "polynomial",
    formula=r"(\langle x, z \rangle + b)^p",
    cost="one matrix product",
    examples=lambda: [Polynomial(2), Polynomial(3, bias=1.0), Polynomial(2, bias=0.5, normalize=True)],
)
class Polynomial(Normalizable):
    """K(x, z) = (<x, z> + bias)^degree; with `normalize`, divided by sqrt(K(x, x) K(z, z)).

    >>> Polynomial(2, bias=1.0).block([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(self, degree: int = 2, bias: float = 0.0, normalize: bool = False) -> None:
        self.degree = degree
        self.bias = bias
        self.normalize = normalize
        self._check()

    def _check(self) -> None:
        whole = isinstance(self.degree, (int, np.integer)) and not isinstance(self.degree, bool)
        if not whole or self.degree < 1:
            raise ValueError(f"degree must be a whole number >= 1; it is {self.degree!r}")
        # A negative one would make odd degrees indefinite.
        check_positive(self.bias, "bias")

    def _plain(self, P: Reals) -> Reals:
        P += P.dtype.type(self.bias)
        if self.degree == 2:
            P *= P
            return P
        return np.power(P, self.degree, out=P)
