"""The smallest strength that gives zero, by search, where there is no formula for it."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.penalties.base import LARGEST, Penalty


def zero_threshold(unit: Penalty, g: Floats) -> float:
    """The smallest c for which prox of c * unit at g is exactly zero, to the last bit.

    `unit` is homogeneous: then 0 minimises <g, w> + c unit(w) just when the prox of c * unit sends -g to 0.
    """
    if not g.any():
        return 0.0

    def is_zero(c: float) -> bool:
        return not unit.prox(g, c).any()

    high = float(np.abs(g).max())
    while not is_zero(high):
        if high > LARGEST / 4:
            return np.inf
        high *= 4.0
    low = high / 4.0
    while is_zero(low) and low > 0.0:
        high, low = low, low / 4.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if is_zero(middle):
            high = middle
        else:
            low = middle
