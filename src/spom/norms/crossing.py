"""The crossing of a decreasing line and a growing sum: the search behind the l1 and l-inf proxes, in linear time.

Items with a key and a weight >= 0 are taken in the order of decreasing keys, and C is the weight taken so far,
including the item itself. The crossing is the first item with

    max(slope * key + offset, floor) <= C        (slope >= 0)

The left side decreases and the right side grows, so selection finds the crossing without sorting: a pivot
tells on which side it is, and the other side is dropped. Pivots are medians of three random items from
a fixed seed, so the expected time is linear for any input, and the same input gives the same bits.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel

_PAIR = "UniTuple(float64, 2)(float64[::1], float64[::1], int64, float64, float64, float64)"


@kernel("float64(float64, float64, float64)")
def _median(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


# Sums may be reordered: the same input still gives the same bits, and the passes run at memory speed.
@kernel(_PAIR, fastmath={"reassoc"})
def crossing(keys: Floats, weights: Floats, n: int, slope: float, offset: float, floor: float) -> tuple[float, float]:
    """Return (key, weight of all items with a larger key) at the crossing; (NaN, total weight) if there is none.

    Only the first n items are used. `keys` and `weights` are overwritten.
    """
    state = 88172645463325252
    before = 0.0
    while n > 0:
        state ^= (state << 13) & 0x7FFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= (state << 17) & 0x7FFFFFFFFFFFFFFF
        pivot = _median(keys[state % n], keys[(state >> 20) % n], keys[(state >> 40) % n])
        above = 0.0
        level = 0.0
        lowest = np.inf
        for i in range(n):
            k, w = keys[i], weights[i]
            above += w if k > pivot else 0.0
            level += w if k == pivot else 0.0
        for i in range(n):
            k = keys[i] if keys[i] > pivot else np.inf
            lowest = k if k < lowest else lowest
        reached = before + above + level
        kept = 0
        if not max(slope * pivot + offset, floor) <= reached:
            before = reached
            for i in range(n):
                k, w = keys[i], weights[i]
                keys[kept] = k
                weights[kept] = w
                kept += k < pivot
        elif lowest == np.inf or not max(slope * lowest + offset, floor) <= before + above:
            return pivot, before + above
        else:
            for i in range(n):
                k, w = keys[i], weights[i]
                keys[kept] = k
                weights[kept] = w
                kept += k > pivot
        n = kept
    return np.nan, before
