"""Coefficients of kernels and weights of explicit features, compiled: what a step, a scale and an average do to them.

Coefficients A[y, i] lie by label and token, as the scores F[y, i] do; weights V[f, y] lie by feature. A token or a
feature that carries an old stamp counts as zero.
"""

from __future__ import annotations

from typing import Any

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel(
    "void(float64[:, ::1], int64[::1], int64, float64[:, ::1], boolean, int64, float64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[::1], int64, float64, float64)"
)
def add_coefficients(
    A: Floats,
    marks: Ints,
    stamp: int,
    sums: Floats,
    averaged: bool,
    a: int,
    D: Floats,
    tokens: Ints,
    labels: Ints,
    counts: Ints,
    count: int,
    c: float,
    sigma: float,
) -> None:
    """A[:, a + t] += c D[t] for wrong tokens t, and what the running average must not count: sums -= sigma c D."""
    for e in range(count):
        t, i = tokens[e], a + tokens[e]
        if marks[i] != stamp:
            for y in range(A.shape[0]):
                A[y, i] = 0.0
            marks[i] = stamp
        for j in range(counts[e]):
            y = labels[e, j]
            A[y, i] += c * D[t, y]
            if averaged:
                sums[y, i] -= sigma * c * D[t, y]


@kernel(
    [
        f"void(float64[:, ::1], int64[::1], int64, float64[:, ::1], boolean, int64[::1], int32[::1], {f}[::1], int64,"
        " int64, int64, int64, float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64, float64, float64)"
        for f in ("float32", "float64")
    ]
)
def add_weights(
    V: Floats,
    marks: Ints,
    stamp: int,
    sums: Floats,
    averaged: bool,
    ptr: Ints,
    indices: Any,
    values: Any,
    shift: int,
    base: int,
    dense: int,
    a: int,
    D: Floats,
    tokens: Ints,
    labels: Ints,
    counts: Ints,
    count: int,
    c: float,
    sigma: float,
) -> None:
    """The same for an explicit block: the weights of a token's features change by c D[t] times their values."""
    for e in range(count):
        t, i = tokens[e], a + tokens[e]
        for p in range(ptr[i], ptr[i + 1]):
            f = base + (p - ptr[i] if dense > 0 else indices[p - shift])
            if marks[f] != stamp:
                for y in range(V.shape[1]):
                    V[f, y] = 0.0
                marks[f] = stamp
            for j in range(counts[e]):
                y = labels[e, j]
                change = c * values[p] * D[t, y]
                V[f, y] += change
                if averaged:
                    sums[f, y] -= sigma * change


@kernel(
    [
        f"float64({f}[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[:, ::1], boolean, int64, float64,"
        " float64)"
        for f in ("float32", "float64")
    ]
)
def renew(
    F: Any,
    fmarks: Ints,
    A: Floats,
    amarks: Ints,
    sums: Floats,
    averaged: bool,
    stamp: int,
    scale: float,
    sigma: float,
) -> float:
    """Put the scale of a kernel's block into its coefficients, scores and average; returns its squared norm."""
    total = 0.0
    for y in range(A.shape[0]):
        for i in range(A.shape[1]):
            if amarks[i] == stamp:
                # The average first: it is in units of the scale that is about to go.
                if averaged:
                    sums[y, i] += sigma * A[y, i]
                A[y, i] *= scale
        if fmarks[y] == stamp:
            for i in range(A.shape[1]):
                F[y, i] *= F.dtype.type(scale)
                if amarks[i] == stamp:
                    total += A[y, i] * F[y, i]
    return total


@kernel("float64(float64[:, ::1], int64[::1], float64[:, ::1], boolean, int64, float64, float64)")
def renew_weights(
    V: Floats, marks: Ints, sums: Floats, averaged: bool, stamp: int, scale: float, sigma: float
) -> float:
    """The same for the weights of an explicit block."""
    total = 0.0
    for f in range(V.shape[0]):
        if marks[f] == stamp:
            for y in range(V.shape[1]):
                if averaged:
                    sums[f, y] += sigma * V[f, y]
                V[f, y] *= scale
                total += V[f, y] * V[f, y]
    return total


@kernel("void(float64[:, ::1], int64[::1], int64, float64[:, ::1], float64)")
def keep_average(A: Floats, marks: Ints, stamp: int, sums: Floats, sigma: float) -> None:
    """Count a kernel's block that is about to be switched off in the average."""
    for y in range(A.shape[0]):
        for i in range(A.shape[1]):
            if marks[i] == stamp:
                sums[y, i] += sigma * A[y, i]


@kernel("void(float64[:, ::1], int64[::1], int64, float64[:, ::1], float64)")
def keep_average_weights(V: Floats, marks: Ints, stamp: int, sums: Floats, sigma: float) -> None:
    """The same for an explicit block."""
    for f in range(V.shape[0]):
        if marks[f] == stamp:
            for y in range(V.shape[1]):
                sums[f, y] += sigma * V[f, y]


@kernel([f"float64(float64[:, ::1], {f}[:, ::1], float64)" for f in ("float32", "float64")], fastmath={"reassoc"})
def rescale(A: Floats, F: Any, scale: float) -> float:
    """Multiply A and F by the scale; returns <A, F>."""
    total, factor = 0.0, F.dtype.type(scale)
    for y in range(A.shape[0]):
        for i in range(A.shape[1]):
            a, f = scale * A[y, i], factor * F[y, i]
            A[y, i] = a
            F[y, i] = f
            total += a * f
    return total
