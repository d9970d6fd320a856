"""Exact tables of conjunctions: from combined 64-bit keys to dense ids, without collisions."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import Codes

# Keys stay below this, so that arithmetic in int64 never wraps.
LIMIT = 1 << 62
# Up to this many possible keys, a table is addressed directly.
DIRECT = 1 << 18


DIRECT_TABLE = -1


@kernel("int64(int64, int64)")
def slot_of_key(key: int, bits: int) -> int:
    """Return the slot where the search for a key begins in a table of 2^bits slots (Fibonacci hashing)."""
    found: Any = (np.uint64(key) * np.uint64(11400714819323198485)) >> np.uint64(64 - bits)
    return int(np.int64(found))


@kernel("void(int32[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def stage_keys(
    padded: NDArray[np.int32], offsets: Ints, reach: int, stream: Ints, offset: Ints, radix: Ints, keys: Ints
) -> None:
    """keys[t] = (keys[t], code, code, ...) as one number, or -1 if a code is unknown or keys[t] was -1."""
    for i in range(offsets.size - 1):
        for t in range(offsets[i], offsets[i + 1]):
            p, key = t + (2 * i + 1) * reach, keys[t]
            for a in range(stream.size):
                code = padded[stream[a], p + offset[a]]
                key = key * radix[a] + code if code > 0 and key >= 0 else -1
            keys[t] = key


@kernel("void(int32[:, ::1], int32[:, ::1])")
def turn(a: NDArray[np.int32], out: NDArray[np.int32]) -> None:
    """out = a transposed, a few columns at a time so that both stay in cache."""
    for first in range(0, a.shape[1], 64):
        for v in range(a.shape[0]):
            for t in range(first, min(first + 64, a.shape[1])):
                out[t, v] = a[v, t]


@kernel("int64(int64[::1], int64[::1], int32[::1])")
def intern_direct(keys: Ints, known: Ints, table: Codes) -> int:
    """Replace keys by dense ids in order of first occurrence; write the distinct keys to `known`, return their number.

    Negative keys stay. `table` has a place for every possible key, filled with -1.
    """
    count = 0
    for t in range(keys.size):
        key = keys[t]
        if key >= 0:
            if table[key] < 0:
                table[key], known[count] = count, key
                count += 1
            keys[t] = table[key]
    return count


@kernel("int64(int64[::1], int64[::1])")
def intern_keys(keys: Ints, known: Ints) -> int:
    """Do the same as `intern_direct` for keys of any size, by hashing."""
    bits, count = 10, 0
    slots = np.zeros(2 << bits, dtype=np.int64)
    for t in range(keys.size):
        key = keys[t]
        if key < 0:
            continue
        slot = slot_of_key(key, bits)
        while slots[2 * slot] != 0 and slots[2 * slot] != key + 1:
            slot = (slot + 1) & ((1 << bits) - 1)
        if slots[2 * slot] == 0:
            slots[2 * slot], slots[2 * slot + 1], known[count] = key + 1, count, key
            count += 1
            keys[t] = count - 1
            if 2 * count > 1 << bits:
                bits += 2
                slots = np.zeros(2 << bits, dtype=np.int64)
                fill_slots(known, count, bits, False, 0, slots)
        else:
            keys[t] = slots[2 * slot + 1]
    return count


@kernel("void(int64[::1], int64, int64, boolean, int64, int64[::1])")
def fill_slots(known: Ints, count: int, bits: int, narrow: bool, base: int, slots: Ints) -> None:
    """Fill the table of `count` distinct keys, the id of the c-th being base + c; the slots are zero before."""
    step, mask = 1 if narrow else 2, (1 << bits) - 1
    for c in range(count):
        slot = slot_of_key(known[c], bits)
        while slots[step * slot] != 0:
            slot = (slot + 1) & mask
        if narrow:
            slots[slot] = ((known[c] << 32) | (base + c)) + 1
        else:
            slots[2 * slot], slots[2 * slot + 1] = known[c] + 1, base + c


@kernel("void(int32[::1], int64, int64[::1], int64)")
def look_up_direct(direct: Codes, place: int, keys: Ints, count: int) -> None:
    """Replace keys by ids, or -1 if there is none, in a table of all keys."""
    for j in range(count):
        keys[j] = direct[place + keys[j]] if keys[j] >= 0 else -1


@kernel("void(int64[::1], int64, int64, int64[::1], int64)")
def look_up_narrow(slots: Ints, place: int, bits: int, keys: Ints, count: int) -> None:
    """Do the same as `look_up_direct` in a table of slots (key << 32 | id) + 1."""
    mask = (1 << bits) - 1
    for j in range(count):
        key, slot = keys[j], slot_of_key(keys[j], bits)
        while True:
            found = slots[place + slot] - 1
            if found < 0 or found >> 32 == key:
                break
            slot = (slot + 1) & mask
        keys[j] = found & 0xFFFFFFFF if found >= 0 else -1


@kernel("void(int64[::1], int64, int64, int64[::1], int64)")
def look_up_wide(slots: Ints, place: int, bits: int, keys: Ints, count: int) -> None:
    """Do the same as `look_up_direct` in a table of pairs (key + 1, id)."""
    mask = (1 << bits) - 1
    for j in range(count):
        key, slot = keys[j], slot_of_key(keys[j], bits)
        while slots[place + 2 * slot] != 0 and slots[place + 2 * slot] != key + 1:
            slot = (slot + 1) & mask
        keys[j] = slots[place + 2 * slot + 1] if slots[place + 2 * slot] != 0 and key >= 0 else -1


class Program(NamedTuple):
    """Every template as arrays, for one pass over sentences.

    Template v runs the stages stages[v] to stages[v + 1] - 1. Stage s folds its atoms atoms[s] .. atoms[s + 1] - 1
    into key = key * radix + code, beginning with the id of the previous stage, and looks the key up at place[s]: in
    `direct` if bits[s] = DIRECT_TABLE, else in 2^bits[s] slots of `slots`. A slot is (key << 32 | id) + 1 for a
    narrow[s] table, whose keys have 32 bits, else a pair (key + 1, id). Ids of last stages are ids of features.
    A key that contains the unknown code, 0, is in no table and gives no feature.
    """

    stages: Annotated[Ints, "int64[::1]"]
    atoms: Annotated[Ints, "int64[::1]"]
    stream: Annotated[Ints, "int64[::1]"]
    offset: Annotated[Ints, "int64[::1]"]
    radix: Annotated[Ints, "int64[::1]"]
    bits: Annotated[Ints, "int64[::1]"]
    narrow: Annotated[Ints, "int64[::1]"]
    place: Annotated[Ints, "int64[::1]"]
    direct: Annotated[Codes, "int32[::1]"]
    slots: Annotated[Ints, "int64[::1]"]


@kernel("int64(int32[:, ::1], int64[::1], int64, Program, int64[::1], int32[::1])")
def run_program(
    padded: NDArray[np.int32], offsets: Ints, reach: int, program: Program, indptr: Ints, indices: Codes
) -> int:
    """Write the known features of all tokens into (indptr, indices); return their number.

    The loop goes template by template within a sentence, so that the loops over its tokens are simple.
    """
    stages, atoms, stream, offset, radix, bits, narrow, place, direct, slots = program
    nnz, longest, width = 0, 0, stages.size - 1
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    keys, found = np.empty(longest, dtype=np.int64), np.empty((longest, width), dtype=np.int32)
    indptr[0] = 0
    for i in range(offsets.size - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        p = first + (2 * i + 1) * reach
        for v in range(width):
            for j in range(n):
                keys[j] = 0
            for s in range(stages[v], stages[v + 1]):
                for a in range(atoms[s], atoms[s + 1]):
                    codes, here, r = padded[stream[a]], p + offset[a], radix[a]
                    for j in range(n):  # a negative key stays negative
                        keys[j] = keys[j] * r + codes[here + j]
                if bits[s] < 0:
                    look_up_direct(direct, place[s], keys, n)
                elif narrow[s]:
                    look_up_narrow(slots, place[s], bits[s], keys, n)
                else:
                    look_up_wide(slots, place[s], bits[s], keys, n)
            for j in range(n):
                found[j, v] = keys[j]
        for j in range(n):
            for v in range(width):
                indices[nnz] = found[j, v]
                nnz += found[j, v] >= 0
            indptr[first + j + 1] = nnz
    return nnz
