"""Compiled: rows of Gram matrices, dense or sparse, added to cached scores."""

from __future__ import annotations

from typing import Any

from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.mkl.bundles import DENSE, Grams

# How many entries of a row are prefetched: the processor finds the rest by itself.
HEAD = 128
REALS = ("float32", "float64")


@kernel([f"void({f}[:, ::1], int64)" for f in REALS])
def ask_for_row(store: Any, row: int) -> None:
    """Prefetch the start of a row."""
    flat, start = store.reshape(-1), row * store.shape[1]
    for j in range(start, start + min(HEAD, store.shape[1]), 16):
        prefetch(flat, j)


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


@kernel([f"void({f}[::1], {f}[::1], {f}[:, ::1], Grams, int64, int64, float64, float64)" for f in REALS])
def add_two_rows(f: Any, g: Any, store: Any, grams: Grams, m: int, i: int, c: float, d: float) -> None:
    """f += c times row i, g += d times row i: the row is read once."""
    if grams.kinds[m] != DENSE:
        add_row(f, store, grams, m, i, c)
        add_row(g, store, grams, m, i, d)
        return
    row, a, b = store[grams.slots[grams.places[m], i]], f.dtype.type(c), f.dtype.type(d)
    for j in range(row.size):
        x = row[j]
        f[j] += a * x
        g[j] += b * x
