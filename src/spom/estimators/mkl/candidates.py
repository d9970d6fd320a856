"""Weights of kernels that are compared on held-out rows: as the penalty weighs them, all alike, and each kernel alone.

The penalty weighs kernels by how well they fit the training rows, and a kernel that fits these less well may do better
on others. A kernel alone whose width the data chose is also tried with other widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.kernels.base import Kernel

# The multiples of the width that a kernel alone is also tried with.
WIDTHS = (2.0, 0.5, 0.25)


class Weights(NamedTuple):
    """Weights of kernels scaled to a mean diagonal of one, and what the width of a kernel alone is multiplied by."""

    name: str
    kernels: Floats
    width: float = 1.0

    def told(self) -> str:
        """Describe the weights."""
        kernels = {"learnt": "kernels as the penalty weighs them", "equal": "all kernels alike"}
        wide = "" if self.width == 1.0 else f", with {self.width:g} of its width"
        return kernels.get(self.name, f"kernel {self.name}{wide}")


class Rows(NamedTuple):
    """Gram matrices as arrays, the mean of each diagonal, and the target (or class) and weight of each row.

    `kernels` are those of the matrices, unless these were given. `free` are the numbers of the kernels whose widths the
    data chose.
    """

    grams: list[Any]
    sizes: Floats
    y: Any
    weight: Floats
    kernels: Sequence[Kernel] = ()
    free: tuple[int, ...] = ()

    def some(self, rows: Ints) -> Rows:
        """Return some of the rows."""
        grams = [gram[np.ix_(rows, rows)] for gram in self.grams]
        return self._replace(grams=grams, y=self.y[rows], weight=self.weight[rows])

    def gram(self, m: int, width: float) -> Any:
        """Return Gram matrix m with a multiple of its kernel's width."""
        return self.grams[m] if width == 1.0 else self.grams[m] ** self.kernels[m].widened(width)[1]

    def sum(self, weights: Weights) -> Any:
        """Return the weighted sum of Gram matrices scaled to a mean diagonal of one."""
        found = np.zeros_like(self.grams[0])
        for m in np.flatnonzero(weights.kernels).tolist():
            found += self.gram(m, weights.width) * found.dtype.type(weights.kernels[m] / self.sizes[m])
        return found


def candidates(rows: Rows, *learnt: Floats) -> list[Weights]:
    """Return the weights to compare, those of the penalty first; a kernel that is zero on all rows gets no weight."""
    on = (rows.sizes > 0.0).astype(np.float64)
    equal = on / max(1.0, float(on.sum()))
    found = [Weights("learnt", own / own.sum() if own.any() else equal) for own in learnt]
    if np.count_nonzero(on) > 1:
        found.append(Weights("equal", equal))
        found += [Weights(f"{m} alone", np.eye(on.size)[m]) for m in np.flatnonzero(on).tolist()]
    return found + [Weights(f"{m} alone", np.eye(on.size)[m], width) for m in rows.free for width in WIDTHS]


def free_widths(fitted: Sequence[Kernel], given: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the kernels whose widths the data chose.

    >>> from spom.kernels import Gaussian, Linear
    >>> given = [Linear(), Gaussian(), Gaussian(1.0)]
    >>> free_widths([kernel.fitted([[0.0], [1.0]]) for kernel in given], given)
    (1,)
    """
    # `fitted` returns another kernel only if it learnt something from the data.
    return tuple(m for m, kernel in enumerate(fitted) if kernel.has_width and kernel is not given[m])
