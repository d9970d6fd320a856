"""Compiled: rows of Gram matrices added to cached scores, which takes most of the time of learning with kernels."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.mkl.errors import Wrong

# Kinds of blocks.
DENSE, SPARSE, EXPLICIT = range(3)
# The number of prefetched entries per row; the processor prefetches the rest by itself.
HEAD = 128
REALS = ("float32", "float64")


class Grams(NamedTuple):
    """The places of the rows of each block's Gram matrix.

    Row i of dense matrix places[m] is row slots[places[m], i] of the store, or -1 if it is not in memory. `ages` are
    those of the rows of the store, and empty if all rows stay in memory.
    """

    kinds: Annotated[Ints, "int64[::1]"]
    places: Annotated[Ints, "int64[::1]"]
    slots: Annotated[Ints, "int64[:, ::1]"]
    ages: Annotated[Ints, "int64[::1]"]
    sparse_ptr: Annotated[Ints, "int64[:, ::1]"]
    sparse_indices: Annotated[Any, "int32[::1]"]
    sparse_values: Annotated[Floats, "float64[::1]"]


class Active(NamedTuple):
    """Blocks whose Gram rows a step adds to the scores, the factor of each, and the places of the rows in the store."""

    blocks: Annotated[Ints, "int64[::1]"]
    factors: Annotated[Floats, "float64[::1]"]
    rows: Annotated[Ints, "int64[::1]"]


def active_of(blocks: int) -> Active:
    """Return space for that many blocks."""
    return Active(np.zeros(blocks, dtype=np.int64), np.zeros(blocks), np.zeros(blocks, dtype=np.int64))


@kernel([f"void({f}[:, ::1], int64)" for f in REALS])
def prefetch_row(store: Any, row: int) -> None:
    """Prefetch the start of a row."""
    flat, start = store.reshape(-1), row * store.shape[1]
    for j in range(start, start + min(HEAD, store.shape[1]), 16):
        prefetch(flat, j)


@kernel("int64(Grams, float64[::1], Wrong, int64, int64[::1])")
def missing_rows(grams: Grams, on: Floats, wrong: Wrong, clock: int, wanted: Ints) -> int:
    """List in `wanted` the rows that a step of the blocks that are on needs and the store lacks; return their count."""
    missing, n = 0, grams.slots.shape[1]
    if grams.ages.size == 0:
        return 0
    for m in range(grams.kinds.size):
        if on[m] > 0.0 and grams.kinds[m] == DENSE:
            for e in range(wrong.size):
                i = wrong.first + wrong.errors.tokens[e]
                slot = grams.slots[grams.places[m], i]
                if slot < 0:
                    wanted[missing] = grams.places[m] * n + i
                    missing += 1
                else:
                    grams.ages[slot] = clock
    return missing


@kernel([f"void({f}[::1], {f}[:, ::1], Grams, int64, int64, float64)" for f in REALS])
def add_row(f: Any, store: Any, grams: Grams, m: int, i: int, c: float) -> None:
    """f += c times row i of the Gram matrix of kernel m."""
    place, factor = grams.places[m], f.dtype.type(c)
    if grams.kinds[m] == DENSE:
        row = store[grams.slots[place, i]]
        for j in range(row.size):
            f[j] += factor * row[j]
    else:
        for p in range(grams.sparse_ptr[place, i], grams.sparse_ptr[place, i + 1]):
            f[grams.sparse_indices[p]] += factor * f.dtype.type(grams.sparse_values[p])


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Active, int64, int64, int64, float64, float64)" for f in REALS])
def add_three(F: Any, store: Any, active: Active, b: int, y: int, z: int, dy: float, dz: float) -> None:
    """Add rows to labels y and z of the active blocks b, b + 1 and b + 2: more loads run at a time."""
    kind, blocks, factors = F.dtype.type, active.blocks, active.factors
    k, m, n = blocks[b], blocks[b + 1], blocks[b + 2]
    r, s, t = factors[b], factors[b + 1], factors[b + 2]
    ky, kz, my, mz, ny, nz = F[k, y], F[k, z], F[m, y], F[m, z], F[n, y], F[n, z]
    first, second, third = store[active.rows[b]], store[active.rows[b + 1]], store[active.rows[b + 2]]
    ry, rz, sy, sz, ty, tz = kind(r * dy), kind(r * dz), kind(s * dy), kind(s * dz), kind(t * dy), kind(t * dz)
    for j in range(first.size):
        # Each entry is read once explicitly, as the compiler cannot know that a write leaves the rows unchanged.
        u, v, w = first[j], second[j], third[j]
        ky[j] += ry * u
        kz[j] += rz * u
        my[j] += sy * v
        mz[j] += sz * v
        ny[j] += ty * w
        nz[j] += tz * w


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Active, int64, int64, int64, float64, float64)" for f in REALS])
def add_one(F: Any, store: Any, active: Active, b: int, y: int, z: int, dy: float, dz: float) -> None:
    """Add a row to labels y and z of the active block b."""
    m, r, row = active.blocks[b], active.factors[b], store[active.rows[b]]
    f, g, ry, rz = F[m, y], F[m, z], F.dtype.type(r * dy), F.dtype.type(r * dz)
    for j in range(row.size):
        u = row[j]
        f[j] += ry * u
        g[j] += rz * u


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Grams, Active, int64, Wrong)" for f in REALS])
def add_rows(F: Any, store: Any, grams: Grams, active: Active, on: int, wrong: Wrong) -> None:
    """F[m, y] += factor_m D[t, y] K_m[first + t] for the first `on` active blocks and wrong tokens t.

    It handles two labels at a time, because a wrong token has two, and three blocks. The rows of the next token are
    prefetched.
    """
    errors, blocks = wrong.errors, active.blocks
    for e in range(wrong.size):
        t, i = errors.tokens[e], wrong.first + errors.tokens[e]
        following, d = wrong.first + errors.tokens[min(e + 1, wrong.size - 1)], errors.D[errors.tokens[e]]
        for b in range(on):
            prefetch_row(store, grams.slots[grams.places[blocks[b]], following])
            active.rows[b] = grams.slots[grams.places[blocks[b]], i]
        for j in range(0, errors.several[e] - 1, 2):
            y, z = errors.labels[e, j], errors.labels[e, j + 1]
            b = 0
            while b + 2 < on:
                add_three(F, store, active, b, y, z, d[y], d[z])
                b += 3
            while b < on:
                add_one(F, store, active, b, y, z, d[y], d[z])
                b += 1
        if errors.several[e] % 2:
            y = errors.labels[e, errors.several[e] - 1]
            for b in range(on):
                f, row, r = F[blocks[b], y], store[active.rows[b]], F.dtype.type(active.factors[b] * errors.D[t, y])
                for j in range(row.size):
                    f[j] += r * row[j]
