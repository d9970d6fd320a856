"""Scales of columns from sums over shards: the same as from all rows at once, up to rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.estimators.linear.scaling import Scaling, column_squares, from_mean_squares, from_moments, from_squares


@dataclass(frozen=True)
class Moments:
    """Of dense columns: weight, mean, sum of squared distances from it, weight of entries that are not zero, first row.

    Of sparse ones: counts and squares.
    """

    mass: float
    first: Floats
    second: Floats
    filled: Floats
    row: Floats | None

    @classmethod
    def of(cls, X: Any, weight: Floats | None) -> Moments:
        """The moments of the columns of one shard."""
        if sparse.issparse(X):
            return cls(1.0, *column_squares(X), np.zeros(X.shape[1]), None)
        w = np.ones(X.shape[0]) if weight is None else weight
        mass = float(w.sum())
        mean = w @ X / max(mass, 1e-300)
        return cls(mass, mean, w @ (X - mean) ** 2, w @ (X != 0.0), X[0].copy())

    def widened(self, size: int) -> Moments:
        """The same with more columns, which were all zero."""
        more = (0, max(0, size - self.first.size))
        first, second, filled = (np.pad(a, more) for a in (self.first, self.second, self.filled))
        return Moments(self.mass, first, second, filled, self.row)


def scaling_of(parts: Iterable[Moments], features: int, intercept: bool, real: bool) -> Scaling | None:
    """What `measured` says of all rows, from the moments of the shards in their order."""
    total: Moments | None = None
    for part in (part.widened(features) for part in parts):
        if total is None:
            total = part
        elif part.row is None:
            total = Moments(1.0, total.first + part.first, total.second + part.second, total.filled, None)
        else:
            mass = total.mass + part.mass
            gap = part.first - total.first
            mean = total.first + gap * (part.mass / mass)
            spread = total.second + part.second + gap**2 * (total.mass * part.mass / mass)
            total = Moments(mass, mean, spread, total.filled + part.filled, total.row)
    assert total is not None
    if total.row is None:
        return from_squares(total.first, total.second)
    spread, filled = np.sqrt(total.second / total.mass), np.ones(features) if real else total.filled / total.mass
    if intercept:
        return from_moments(total.first, spread, filled, total.row)
    return from_mean_squares(total.first**2 + spread**2, filled)
