"""A data set in memory: what `load` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spom.core.arrays import Ints


@dataclass(frozen=True)
class Dataset:
    """Examples `X` with targets `y` and, where they exist, the split that everybody uses.

    `train`, `test` are index arrays; `folds` has one integer for each example. `X` is a matrix, or for
    structured data whatever the loader says.

    >>> import numpy as np
    >>> data = Dataset("toy", X=np.eye(3), y=np.array([0, 1, 1]), train=np.array([0, 1]), test=np.array([2]))
    >>> data.part("test")[1]
    array([1])
    """

    name: str
    X: Any
    y: Any
    folds: Ints | None = None
    train: Ints | None = None
    test: Ints | None = None
    feature_names: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None

    def part(self, which: str) -> tuple[Any, Any]:
        """(X, y) of `"train"` or `"test"`."""
        index = {"train": self.train, "test": self.test}.get(which)
        if index is None:
            raise ValueError(f"the data set {self.name} has no part {which!r}")
        return self.X[index], self.y[index]

    def __repr__(self) -> str:
        shape = tuple(self.X.shape) if hasattr(self.X, "shape") else (len(self.X),)
        return f"Dataset({self.name!r}, X of shape {shape})"
