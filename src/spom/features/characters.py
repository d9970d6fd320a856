"""Lower case and classes of characters as tables over code points, for compiled code."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

# Every character that has case, and every digit, lies below this.
_CASED = 0x20000
OTHER, UPPER, LOWER, DIGIT = range(4)


@functools.cache
def tables(ascii_only: bool) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """(the lower case of each code point; its class: other, upper case, lower case or any other letter, digit)."""
    count = 128 if ascii_only else _CASED
    lower, kind = np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.uint8)
    for point in range(count):
        c = chr(point)
        if c.isalpha():
            small = c.lower()
            kind[point] = UPPER if c.isupper() or c.istitle() else LOWER
            # A lower case of several characters is left out: one character stays one character.
            if small != c and len(small) == 1:
                lower[point] = ord(small)
        elif c.isdigit():
            kind[point] = DIGIT
    return lower, kind
