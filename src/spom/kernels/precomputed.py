"""A kernel given as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.registry import register
from spom.errors import DataError
from spom.kernels.base import Kernel
from spom.kernels.gram import Reals, as_gram


@register(
    "kernel",
    "precomputed",
    formula=r"G_{ij}",
    cost="a lookup an entry",
    examples=lambda: [Precomputed(np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]]))],
)
class Precomputed(Kernel):
    """K(i, j) = matrix[i, j], for items given by their indices.

    >>> Precomputed([[1.0, 0.5], [0.5, 1.0]]).block([1], [0, 1])
    array([[0.5, 1. ]])
    """

    takes = "indices"

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = matrix
        self._check()

    def _check(self) -> None:
        self._gram = as_gram(self.matrix, "the precomputed matrix")

    def _input(self, X: Any, name: str) -> Any:
        items = np.asarray(X)
        if items.ndim == 2 and items.shape[1] == 1:
            items = items[:, 0]
        if items.ndim != 1 or (items.size and items.dtype.kind not in "iu"):
            raise DataError(f"{name} must be indices of items of the precomputed matrix: whole numbers")
        if items.size and (items.min() < 0 or items.max() >= self._gram.n):
            raise DataError(f"{name} has an item out of range: the precomputed matrix has {self._gram.n} of them")
        return items

    def _block(self, X: Any, Z: Any) -> Reals:
        return np.ascontiguousarray(self._gram.rows(X)[:, Z])

    def _diagonal(self, X: Any) -> Reals:
        return np.asarray(self._gram.diagonal()[X])
