"""Compiled: rows of Gram matrices added to cached scores, where most of the time of SPOM with kernels goes."""

from __future__ import annotations

from typing import Any

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch


@kernel([f"void({', '.join([f + '[::1]'] * 9)}, {', '.join([f] * 6)})" for f in ("float32", "float64")])
def add_three(
    x: Any,
    f: Any,
    g: Any,
    y: Any,
    h: Any,
    i: Any,
    z: Any,
    k: Any,
    m: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    p: Any,
    q: Any,
) -> None:
    """Two labels of three blocks, from a row of each: more of memory is on its way at the same time."""
    for j in range(x.size):
        # Each entry is read once: the compiler cannot know that a store leaves the rows as they are.
        u, v, w = x[j], y[j], z[j]
        f[j] += a * u
        g[j] += b * u
        h[j] += c * v
        i[j] += d * v
        k[j] += p * w
        m[j] += q * w


@kernel([f"void({f}[::1], {f}[::1], {f}[::1], {f}, {f})" for f in ("float32", "float64")])
def add_one(x: Any, f: Any, g: Any, a: Any, b: Any) -> None:
    """Two labels of one block."""
    for j in range(x.size):
        u = x[j]
        f[j] += a * u
        g[j] += b * u


@kernel(
    [
        f"void({f}[:, :, ::1], int64[:, ::1], int64[::1], int64[::1], float64[::1], int64, {f}[:, ::1], int64[:, ::1],"
        " int64[::1], int64, int64, float64[::1], int64[::1])"
        for f in ("float32", "float64")
    ]
)
def add_rows(
    F: Any,
    marks: Ints,
    stamps: Ints,
    active: Ints,
    factors: Floats,
    on: int,
    store: Any,
    slots: Ints,
    places: Ints,
    i: int,
    following: int,
    d: Floats,
    labels: Ints,
) -> None:
    """F[m, y] += factors d[y] K_m[i] for active blocks and labels with d[y] != 0: rows at the speed of memory.

    Two labels at a time, because a wrong token has two, and three blocks; a row of F that is stale is zero. The
    beginnings of the rows of the token that follows are asked for: the processor finds the rest by itself.
    """
    count, kind = 0, F.dtype.type
    for e in range(on):
        row = store[slots[places[active[e]], following]]
        for j in range(0, min(128, row.size), 16):
            prefetch(row, j)
    for y in range(d.size):
        if d[y] != 0.0:
            labels[count] = y
            count += 1
            for e in range(on):
                if marks[active[e], y] != stamps[active[e]]:
                    F[active[e], y] = 0.0
                    marks[active[e], y] = stamps[active[e]]
    for e in range(0, count - 1, 2):
        y, z = labels[e], labels[e + 1]
        b = 0
        while b + 2 < on:
            m, n, o = active[b], active[b + 1], active[b + 2]
            r, s, t = factors[b], factors[b + 1], factors[b + 2]
            add_three(
                store[slots[places[m], i]],
                F[m, y],
                F[m, z],
                store[slots[places[n], i]],
                F[n, y],
                F[n, z],
                store[slots[places[o], i]],
                F[o, y],
                F[o, z],
                kind(r * d[y]),
                kind(r * d[z]),
                kind(s * d[y]),
                kind(s * d[z]),
                kind(t * d[y]),
                kind(t * d[z]),
            )
            b += 3
        while b < on:
            m, r = active[b], factors[b]
            add_one(store[slots[places[m], i]], F[m, y], F[m, z], kind(r * d[y]), kind(r * d[z]))
            b += 1
    if count % 2:
        y = labels[count - 1]
        for b in range(on):
            f, row, r = F[active[b], y], store[slots[places[active[b]], i]], kind(factors[b] * d[y])
            for j in range(row.size):
                f[j] += r * row[j]


@kernel(
    [f"void({f}[::1], int32[::1], {f}[::1], int64, int64, float64, boolean)" for f in ("float32", "float64")],
)
def add_sparse_row(f: Any, indices: Any, values: Any, first: int, last: int, c: float, fresh: bool) -> None:
    """The same for a row of a sparse matrix."""
    if not fresh:
        for j in range(f.size):
            f[j] = 0.0
    factor = values.dtype.type(c)
    for p in range(first, last):
        f[indices[p]] += factor * values[p]
