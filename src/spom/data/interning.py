"""Which tokens are the same string: compiled hashing of spans of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel

Bytes = NDArray[np.uint8]
Codes = NDArray[np.int32]

# Arrays that a kernel only reads may be read-only: bytes of a file, or a model that is mapped into memory.
BYTES = "Array(uint8, 1, 'C', readonly=True)"
SPANS = "Array(int64, 2, 'A', readonly=True), Array(int32, 2, 'A', readonly=True)"


@kernel(f"uint64({BYTES}, int64, int64)")
def hash_bytes(buffer: Bytes, start: int, length: int) -> Any:
    """FNV-1a of a span, with its high bits folded into the low ones. Model files depend on it: it stays as it is."""
    h = np.uint64(14695981039346656037)
    for i in range(start, start + length):
        h = (h ^ np.uint64(buffer[i])) * np.uint64(1099511628211)
    h ^= h >> np.uint64(32)
    return h ^ (h >> np.uint64(15))


@kernel(f"boolean({BYTES}, int64, {BYTES}, int64, int64)")
def same_bytes(a: Bytes, i: int, b: Bytes, j: int, length: int) -> bool:
    """Whether two spans of the same length hold the same bytes."""
    for k in range(length):  # noqa: SIM110 - compiled code has no generators
        if a[i + k] != b[j + k]:
            return False
    return True


@kernel(f"Tuple((int32[::1], int64[::1]))({BYTES}, {SPANS}, int64)")
def distinct(buffer: Bytes, start: Ints, length: Codes, k: int) -> tuple[Codes, Ints]:
    """(a code from 0 on for each token of column k; the first token of each code), in order of first occurrence."""
    n = start.shape[0]
    codes, first = np.empty(n, dtype=np.int32), np.empty(256, dtype=np.int64)
    hashes = np.empty(256, dtype=np.uint64)
    size, count = 1024, 0
    table = np.zeros(size, dtype=np.int32)
    for t in range(n):
        at, long = start[t, k], int(length[t, k])
        h = hash_bytes(buffer, at, long)
        slot = np.int64(h & np.uint64(size - 1))
        code = -1
        while table[slot] != 0:
            c = table[slot] - 1
            f = first[c]
            if hashes[c] == h and length[f, k] == long and same_bytes(buffer, start[f, k], buffer, at, long):
                code = c
                break
            slot = (slot + 1) & (size - 1)
        if code < 0:
            if count == first.size:
                wider, more = np.empty(2 * count, dtype=np.int64), np.empty(2 * count, dtype=np.uint64)
                wider[:count], more[:count] = first, hashes
                first, hashes = wider, more
            code = count
            first[code], hashes[code] = t, h
            count += 1
            table[slot] = count
            if 2 * count > size:
                size *= 4
                table = np.zeros(size, dtype=np.int32)
                for c in range(count):
                    slot = np.int64(hashes[c] & np.uint64(size - 1))
                    while table[slot] != 0:
                        slot = (slot + 1) & (size - 1)
                    table[slot] = c + 1
        codes[t] = code
    return codes, first[:count].copy()
