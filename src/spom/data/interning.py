"""Interning of tokens: equal strings get equal codes, by compiled hashing of spans of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel

Bytes = NDArray[np.uint8]
Codes = NDArray[np.int32]

# Input arrays of a kernel may be read-only: bytes of a file, or a model mapped into memory.
BYTES = "Array(uint8, 1, 'C', readonly=True)"
SPANS = "Array(int64, 2, 'A', readonly=True), Array(int32, 2, 'A', readonly=True)"


@kernel(f"uint64({BYTES}, int64, int64)")
def eight_bytes(buffer: Bytes, start: int, count: int) -> Any:
    """Return `count` bytes, at most eight, as one number, the first byte lowest."""
    word = np.uint64(0)
    if start + 8 <= buffer.size and count > 0:
        # Eight reads with unsigned indices compile to a single load.
        i = np.uint64(start)
        for j in range(8):
            word |= np.uint64(buffer[i + np.uint64(j)]) << np.uint64(8 * j)
        return word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * count))
    for j in range(count):
        word |= np.uint64(buffer[start + j]) << np.uint64(8 * j)
    return word


@kernel(f"uint64({BYTES}, int64, int64)")
def hash_bytes(buffer: Bytes, start: int, length: int) -> Any:
    """Compute a hash of a span. It must never change, because model files depend on it.

    Different spans of less than eight bytes have different hashes, because each step is invertible: they are hashed as
    one number with the length in its highest byte. Longer spans set a bit there that no such length sets.
    """
    odd = np.uint64(10376313370251892927)
    if length < 8:
        h = eight_bytes(buffer, start, length) | (np.uint64(length) << np.uint64(56))
    else:
        h = np.uint64(length)
        for i in range(start, start + length, 8):
            h = (h ^ eight_bytes(buffer, i, min(start + length - i, 8))) * odd
            h ^= h >> np.uint64(32)
        h |= np.uint64(1 << 63)
    h *= odd
    h ^= h >> np.uint64(32)
    return h * odd


@kernel(f"boolean({BYTES}, int64, {BYTES}, int64, int64)")
def same_bytes(a: Bytes, i: int, b: Bytes, j: int, length: int) -> bool:
    """Tell whether two spans of the same length hold the same bytes."""
    for k in range(0, length, 8):
        count = min(length - k, 8)
        if eight_bytes(a, i + k, count) != eight_bytes(b, j + k, count):
            return False
    return True


@kernel(f"Tuple((int32[::1], int64[::1]))({BYTES}, {SPANS}, int64)")
def distinct(buffer: Bytes, start: Ints, length: Codes, k: int) -> tuple[Codes, Ints]:
    """Return (the code of each token of column k, the first token of each code); codes number strings as they occur."""
    n, t, size, count = start.shape[0], 0, 1024, 0
    codes, first, hashes = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.uint64)
    table = np.zeros(size, dtype=np.int32)
    while t < n:
        last = np.uint64(size - 1)
        while t < n and 2 * count <= size:
            at, long = start[t, k], int(length[t, k])
            h = hash_bytes(buffer, at, long)
            slot = (h >> np.uint64(20)) & last
            while True:
                c = int(table[slot]) - 1
                if c < 0:
                    break
                # Equal hashes of short spans are equal spans.
                if hashes[c] == h and (
                    long < 8
                    or (length[first[c], k] == long and same_bytes(buffer, start[first[c], k], buffer, at, long))
                ):
                    break
                slot = (slot + np.uint64(1)) & last
            if c < 0:
                c = count
                first[c], hashes[c] = t, h
                count += 1
                table[slot] = count
            codes[t] = c
            t += 1
        if t < n:
            size *= 4
            table, last = np.zeros(size, dtype=np.int32), np.uint64(size - 1)
            for c in range(count):
                slot = (hashes[c] >> np.uint64(20)) & last
                while table[slot] != 0:
                    slot = (slot + np.uint64(1)) & last
                table[slot] = c + 1
    return codes, first[:count].copy()
