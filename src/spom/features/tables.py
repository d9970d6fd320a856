"""Exact tables of conjunctions: combined 64-bit keys to dense ids, with no collisions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import Codes

# Keys stay below this, so that arithmetic in int64 never wraps.
LIMIT = 1 << 62
# A table of all possible keys, addressed directly, is used up to this many entries.
DIRECT = 1 << 18

READ64, READ32 = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"


class Program(NamedTuple):
    """Every template as arrays, for one pass over tokens.

    Template v runs the stages stages[v] to stages[v + 1] - 1. Stage s folds its atoms atoms[s] .. atoms[s + 1] - 1
    into key = key * radix + code, beginning with the id of the stage before, and looks the key up in its table: at
    place[s] of `direct` where bits[s] < 0, else in the 2^bits[s] pairs (key + 1, id) from place[s] on in `slots`. The
    id of its last stage plus base[v] is the feature.
    """

    stages: Ints
    atoms: Ints
    stream: Ints
    offset: Ints
    radix: Ints
    bits: Ints
    place: Ints
    base: Ints
    direct: Codes
    slots: Ints


@kernel("void(int32[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def stage_keys(
    padded: NDArray[np.int32], offsets: Ints, reach: int, stream: Ints, offset: Ints, radix: Ints, keys: Ints
) -> None:
    """keys[t] = (keys[t], code, code, ...) as one number, -1 where a code is unknown or keys[t] was -1."""
    for i in range(offsets.size - 1):
        for t in range(offsets[i], offsets[i + 1]):
            p, key = t + (2 * i + 1) * reach, keys[t]
            for a in range(stream.size):
                code = padded[stream[a], p + offset[a]]
                key = key * radix[a] + code if code > 0 and key >= 0 else -1
            keys[t] = key


@kernel("int64(int64, int64)")
def slot_of_key(key: int, bits: int) -> int:
    """Where a search for a key begins in a table of 2^bits slots (Fibonacci hashing)."""
    found: Any = (np.uint64(key) * np.uint64(11400714819323198485)) >> np.uint64(64 - bits)
    return int(np.int64(found))


@kernel("int64[::1](int64[::1])")
def intern_keys(keys: Ints) -> Ints:
    """Replace each key >= 0 by a dense id in order of first occurrence; the distinct keys in that order."""
    bits, count = 10, 0
    known, slots = np.empty(1 << 9, dtype=np.int64), np.zeros(1 << 11, dtype=np.int64)
    for t in range(keys.size):
        key = keys[t]
        if key < 0:
            continue
        slot = slot_of_key(key, bits)
        while slots[2 * slot] != 0 and slots[2 * slot] != key + 1:
            slot = (slot + 1) & ((1 << bits) - 1)
        if slots[2 * slot] == 0:
            if count == known.size:
                wider = np.empty(2 * count, dtype=np.int64)
                wider[:count] = known
                known = wider
            slots[2 * slot], slots[2 * slot + 1] = key + 1, count
            known[count] = key
            keys[t] = count
            count += 1
            if 2 * count > 1 << bits:
                bits += 2
                slots = np.zeros(2 << bits, dtype=np.int64)
                fill_slots(known[:count], bits, slots)
        else:
            keys[t] = slots[2 * slot + 1]
    return known[:count].copy()


@kernel("void(int64[::1], int64, int64[::1])")
def fill_slots(known: Ints, bits: int, slots: Ints) -> None:
    """The table of distinct keys: pairs (key + 1, id) in 2^bits slots, which are zero before."""
    for c in range(known.size):
        slot = slot_of_key(known[c], bits)
        while slots[2 * slot] != 0:
            slot = (slot + 1) & ((1 << bits) - 1)
        slots[2 * slot], slots[2 * slot + 1] = known[c] + 1, c


@kernel(
    f"int64(int32[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], {READ64},"
    f" {READ64}, {READ32}, {READ64}, int64[::1], int32[::1])"
)
def run_program(
    padded: NDArray[np.int32],
    offsets: Ints,
    reach: int,
    stages: Ints,
    atoms: Ints,
    at: Ints,
    radix: Ints,
    base: Ints,
    bits: Ints,
    place: Ints,
    direct: Codes,
    slots: Ints,
    indptr: Ints,
    indices: Codes,
) -> int:
    """The known features of all tokens into (indptr, indices); how many there are. `at` is stream * row + offset."""
    flat, nnz = padded.reshape(-1), 0
    indptr[0] = 0
    for i in range(offsets.size - 1):
        shift = (2 * i + 1) * reach
        for t in range(offsets[i], offsets[i + 1]):
            p = t + shift
            for v in range(base.size):
                value: Any = np.int64(0)
                for s in range(stages[v], stages[v + 1]):
                    key = value
                    for a in range(atoms[s], atoms[s + 1]):
                        code = flat[p + at[a]]
                        if code == 0:
                            key = -1
                            break
                        key = key * radix[a] + code
                    value = np.int64(-1)
                    if key < 0:
                        break
                    if bits[s] < 0:
                        value = np.int64(direct[place[s] + key])
                    else:
                        mask, slot = (1 << bits[s]) - 1, slot_of_key(key, bits[s])
                        q = place[s] + 2 * slot
                        while slots[q] != 0 and slots[q] != key + 1:
                            slot = (slot + 1) & mask
                            q = place[s] + 2 * slot
                        if slots[q] != 0:
                            value = slots[q + 1]
                    if value < 0:
                        break
                if value >= 0:
                    indices[nnz] = base[v] + value
                    nnz += 1
            indptr[t + 1] = nnz
    return nnz
