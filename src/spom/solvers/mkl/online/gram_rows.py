"""Compiled: rows of Gram matrices added to cached scores, where most of the time of SPOM with kernels goes."""

from __future__ import annotations

from typing import Any

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch

# How many entries of a row are asked for early: the processor finds the rest by itself.
HEAD = 128


@kernel([f"void({f}[::1], int64, int64)" for f in ("float32", "float64")])
def ask_for_row(rows: Any, start: int, width: int) -> None:
    """Have the beginning of a row brought near."""
    for j in range(start, start + min(HEAD, width), 16):
        prefetch(rows, j)


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
        f"void({f}[:, :, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64[:, ::1], int64[::1], int64)"
        for f in ("float32", "float64")
    ]
)
def freshen(F: Any, marks: Ints, stamps: Ints, active: Ints, on: int, labels: Ints, counts: Ints, count: int) -> None:
    """Rows of scores that are stale, and that rows of a Gram matrix will be added to, become zero."""
    for e in range(count):
        for j in range(counts[e]):
            y = labels[e, j]
            for b in range(on):
                m = active[b]
                if marks[m, y] != stamps[m]:
                    F[m, y] = 0.0
                    marks[m, y] = stamps[m]


@kernel(
    [
        f"void({f}[:, :, ::1], int64[::1], float64[::1], int64, {f}[:, ::1], int64[:, ::1], int64[::1], int64,"
        " float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64)"
        for f in ("float32", "float64")
    ]
)
def add_rows(
    F: Any,
    active: Ints,
    factors: Floats,
    on: int,
    store: Any,
    slots: Ints,
    places: Ints,
    a: int,
    D: Floats,
    tokens: Ints,
    labels: Ints,
    counts: Ints,
    count: int,
) -> None:
    """F[m, y] += factors D[t, y] K_m[a + t] for active blocks and wrong tokens: rows at the speed of memory.

    Two labels at a time, because a wrong token has two, and three blocks. The rows of the token that follows are asked
    for in time.
    """
    kind, width, flat = F.dtype.type, store.shape[1], store.reshape(-1)
    for e in range(count):
        t, i, following = tokens[e], a + tokens[e], a + tokens[min(e + 1, count - 1)]
        for b in range(on):
            ask_for_row(flat, slots[places[active[b]], following] * width, width)
        for first in range(0, counts[e] - 1, 2):
            y, z = labels[e, first], labels[e, first + 1]
            b = 0
            while b + 2 < on:
                m, n, o = active[b], active[b + 1], active[b + 2]
                r, s, q = factors[b], factors[b + 1], factors[b + 2]
                add_three(
                    *(store[slots[places[m], i]], F[m, y], F[m, z], store[slots[places[n], i]], F[n, y], F[n, z]),
                    *(store[slots[places[o], i]], F[o, y], F[o, z], kind(r * D[t, y]), kind(r * D[t, z])),
                    *(kind(s * D[t, y]), kind(s * D[t, z]), kind(q * D[t, y]), kind(q * D[t, z])),
                )
                b += 3
            while b < on:
                m, r = active[b], factors[b]
                add_one(store[slots[places[m], i]], F[m, y], F[m, z], kind(r * D[t, y]), kind(r * D[t, z]))
                b += 1
        if counts[e] % 2:
            y = labels[e, counts[e] - 1]
            for b in range(on):
                f, row, r = F[active[b], y], store[slots[places[active[b]], i]], kind(factors[b] * D[t, y])
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
