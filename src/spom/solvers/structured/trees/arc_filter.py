"""Which arcs are worth scoring: pairs of tags in one direction, up to a distance that trees have shown."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import Codes
from spom.features.arc_spaces import CODES, VECTOR, Shorts
from spom.features.arcs import ArcCodes

# A limit that lets every arc pass.
ANY = 30000


@kernel(f"void({CODES}, int64, {VECTOR}, {VECTOR}, {VECTOR}, int16[:, :, ::1])")
def widen_limits(codes: Codes, column: int, first: Ints, sizes: Ints, gold: Ints, limits: Shorts) -> None:
    """limits[direction, tag of the head, tag of the modifier] = the largest distance of an arc; 1 below the root."""
    for s in range(first.size):
        a = first[s]
        for m in range(1, sizes[s] + 1):
            h = gold[a + m]
            side = 0 if h < m else 1
            d = 1 if h == 0 else abs(h - m)
            tag, other = codes[column, a + h], codes[column, a + m]
            limits[side, tag, other] = max(limits[side, tag, other], min(d, ANY))


def arc_limits(codes: ArcCodes, column: int, radix: int, gold: Ints, known: Shorts | None = None) -> Shorts:
    """The limits that let every arc of these trees pass, and of `known`; unknown tags have none.

    `gold` is laid out as the codes are, with any number at the places of roots.
    """
    limits = np.zeros((2, radix, radix), dtype=np.int16) if known is None else known.copy()
    limits[:, 0, :] = limits[:, :, 0] = ANY
    widen_limits(codes.codes, column, codes.first, codes.sizes, gold, limits)
    return limits


def with_roots(heads: Ints, codes: ArcCodes) -> Ints:
    """Numbers of words laid out as the codes are: with a zero for the root of each sentence."""
    out = np.zeros(codes.codes.shape[1], dtype=np.int64)
    out[words_of(codes)] = heads
    return out


def words_of(codes: ArcCodes) -> Ints:
    """The place of each word in the layout of the codes."""
    total, count = int(codes.sizes.sum()), codes.first.size
    return np.arange(total) + np.repeat(np.arange(count), codes.sizes) + 1
