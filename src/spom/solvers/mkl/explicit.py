"""Explicit blocks, compiled: inner products within sequences, scores, and steps on the weights V[feature, label]."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.mkl.errors import Wrong

# Columns of `shapes`: see `Explicit`.
SHIFT, BASE, IS_DENSE, FEATURES = range(4)


class Explicit(NamedTuple):
    """Rows of explicit blocks: row i of block e is ptr[e, i] .. ptr[e, i + 1].

    `shapes` has for each block: the start of its indices minus the start of its values, its first feature, whether its
    rows are dense (and have no indices), and its number of features.
    """

    ptr: Annotated[Ints, "int64[:, ::1]"]
    indices: Annotated[Any, "int32[::1]"]
    values: Annotated[Floats, "float64[::1]"]
    shapes: Annotated[Ints, "int64[:, ::1]"]


class Weights(NamedTuple):
    """Weights V[feature, label] of explicit blocks; a weight whose mark is not the stamp of its block counts as zero.

    `sums` is for the average of all rounds, and empty if there is none.
    """

    V: Annotated[Floats, "float64[:, ::1]"]
    marks: Annotated[Ints, "int64[::1]"]
    sums: Annotated[Floats, "float64[:, ::1]"]


@kernel("void(Explicit, int64, int64[::1], int64[::1], float64[::1], float64[::1])")
def within(rows: Explicit, e: int, offsets: Ints, starts: Ints, spare: Floats, out: Floats) -> None:
    """<x_a, x_b> for all tokens a, b of each sequence; `spare` has a zero for each feature of block e."""
    ptr, shift, dense = rows.ptr[e], rows.shapes[e, SHIFT], rows.shapes[e, IS_DENSE]
    for q in range(offsets.size - 1):
        first, length = offsets[q], offsets[q + 1] - offsets[q]
        for a in range(length):
            i = first + a
            for p in range(ptr[i], ptr[i + 1]):
                spare[p - ptr[i] if dense > 0 else rows.indices[p - shift]] += rows.values[p]
            for b in range(length):
                j, s = first + b, 0.0
                for p in range(ptr[j], ptr[j + 1]):
                    s += rows.values[p] * spare[p - ptr[j] if dense > 0 else rows.indices[p - shift]]
                out[starts[q] + a * length + b] = s
            for p in range(ptr[i], ptr[i + 1]):
                spare[p - ptr[i] if dense > 0 else rows.indices[p - shift]] = 0.0


@kernel("void(Explicit, int64, Weights, int64, float64, int64, int64, float64[:, ::1])")
def add_explicit(
    rows: Explicit, e: int, weights: Weights, stamp: int, scale: float, a: int, b: int, unary: Floats
) -> None:
    """Add scale times the scores of block e for the tokens a .. b-1."""
    ptr, shift, base, dense = rows.ptr[e], rows.shapes[e, SHIFT], rows.shapes[e, BASE], rows.shapes[e, IS_DENSE]
    for t in range(a, b):
        out = unary[t - a]
        for p in range(ptr[t], ptr[t + 1]):
            f = base + (p - ptr[t] if dense > 0 else rows.indices[p - shift])
            if weights.marks[f] == stamp:
                x, w = scale * rows.values[p], weights.V[f]
                for y in range(out.size):
                    out[y] += x * w[y]


@kernel("float64(Explicit, int64, Weights, int64, Wrong)")
def explicit_along(rows: Explicit, e: int, weights: Weights, stamp: int, wrong: Wrong) -> float:
    """<V, gradient> of block e."""
    ptr, shift, base, dense = rows.ptr[e], rows.shapes[e, SHIFT], rows.shapes[e, BASE], rows.shapes[e, IS_DENSE]
    total, errors = 0.0, wrong.errors
    for j in range(wrong.size):
        t, d = wrong.first + errors.tokens[j], errors.D[errors.tokens[j]]
        for p in range(ptr[t], ptr[t + 1]):
            f = base + (p - ptr[t] if dense > 0 else rows.indices[p - shift])
            if weights.marks[f] == stamp:
                w, s = weights.V[f], 0.0
                for y in range(d.size):
                    s += d[y] * w[y]
                total += rows.values[p] * s
    return total


@kernel("void(Explicit, int64, Weights, int64, Wrong, float64, float64)")
def add_to_weights(rows: Explicit, e: int, weights: Weights, stamp: int, wrong: Wrong, c: float, sigma: float) -> None:
    """V += c times the gradient of block e; sums -= sigma times that, as the average must not count it earlier."""
    ptr, shift, base, dense = rows.ptr[e], rows.shapes[e, SHIFT], rows.shapes[e, BASE], rows.shapes[e, IS_DENSE]
    V, errors = weights.V, wrong.errors
    for j in range(wrong.size):
        t, i = errors.tokens[j], wrong.first + errors.tokens[j]
        for p in range(ptr[i], ptr[i + 1]):
            f = base + (p - ptr[i] if dense > 0 else rows.indices[p - shift])
            if weights.marks[f] != stamp:
                for y in range(V.shape[1]):
                    V[f, y] = 0.0
                weights.marks[f] = stamp
            for s in range(errors.several[j]):
                y = errors.labels[j, s]
                change = c * rows.values[p] * errors.D[t, y]
                V[f, y] += change
                if weights.sums.size > 0:
                    weights.sums[f, y] -= sigma * change
