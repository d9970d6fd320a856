"""The parts of a round with kernels, compiled: scores, decoding, and what is known of the gradient.

F[m, y] are the scores of label y at all tokens by block m, without the block's scale; a row that carries an old stamp
counts as zero, and so do coefficients and weights, so that a block that was switched off is not touched.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.decoders.forward_backward import forward_backward
from spom.decoders.viterbi import viterbi

HINGE, LOG, PERCEPTRON = 0, 1, 2


@kernel(
    [
        f"void({f}[:, :, ::1], int64[:, ::1], int64[::1], int64, float64, int64, int64, float64[:, ::1])"
        for f in ("float32", "float64")
    ]
)
def add_scores(F: Any, marks: Ints, stamps: Ints, m: int, scale: float, a: int, b: int, unary: Floats) -> None:
    """Add the scores of a kernel's block for the tokens a .. b-1."""
    for t in range(a, b):
        for y in range(F.shape[1]):
            if marks[m, y] == stamps[m]:
                unary[t - a, y] += scale * F[m, y, t]


@kernel(
    [
        f"void(int64[::1], int32[::1], {f}[::1], int64, int64, int64, float64[:, ::1], int64[::1], int64, float64,"
        " int64, int64, float64[:, ::1])"
        for f in ("float32", "float64")
    ]
)
def add_explicit_scores(
    ptr: Ints,
    indices: Any,
    values: Any,
    shift: int,
    base: int,
    dense: int,
    V: Floats,
    marks: Ints,
    stamp: int,
    scale: float,
    a: int,
    b: int,
    unary: Floats,
) -> None:
    """Add the scores of an explicit block."""
    for t in range(a, b):
        out = unary[t - a]
        for p in range(ptr[t], ptr[t + 1]):
            f = base + (p - ptr[t] if dense > 0 else indices[p - shift])
            if marks[f] == stamp:
                x, w = scale * values[p], V[f]
                for y in range(out.size):
                    out[y] += x * w[y]


@kernel([f"void({f}[:, :, ::1], int64, int64)" for f in ("float32", "float64")])
def ask_for_scores(F: Any, m: int, t: int) -> None:
    """Have the scores of a block for the tokens from t on brought near: each label has them in another place."""
    for y in range(F.shape[1]):
        prefetch(F[m, y], t)


@kernel("void(float64[:, ::1], int64, int64, int64[:, ::1], int64[:, ::1], int64, int64)")
def ask_for_sequence(local: Floats, start: int, length: int, marks: Ints, slots: Ints, a: int, b: int) -> None:
    """Have brought near what a step on the tokens a .. b-1 will read, while they are decoded; of long ones a part."""
    for m in range(local.shape[0]):
        for j in range(start, start + min(length * length, 512), 8):
            prefetch(local[m], j)
    for m in range(marks.shape[0]):
        prefetch(marks[m], a)
        prefetch(marks[m], b - 1)
    for m in range(slots.shape[0]):
        prefetch(slots[m], a)
        prefetch(slots[m], b - 1)


@kernel("void(float64[:, :, ::1], int64, int64[::1], int64[:, ::1], int64[::1], int64)")
def ask_for_coefficients(A: Floats, a: int, tokens: Ints, labels: Ints, counts: Ints, count: int) -> None:
    """Have the coefficients brought near that a step will change."""
    for m in range(A.shape[0]):
        for e in range(count):
            for j in range(counts[e]):
                prefetch(A[m, labels[e, j]], a + tokens[e])


@kernel("void(float64[:, ::1], float64[:, ::1])")
def clear(D: Floats, steps: Floats) -> None:
    """Zeros in both."""
    D[:] = 0.0
    steps[:] = 0.0


@kernel("float64(float64[:, ::1], float64[:, ::1], int64[::1], float64, int64, float64[:, ::1], float64[:, ::1])")
def decode(unary: Floats, T: Floats, gold: Ints, cost: float, mode: int, D: Floats, steps: Floats) -> float:
    """The loss; D = expected (or found) labels minus gold ones at each token, steps = the same for transitions.

    -1 where the gold labels were found: then D and steps are not written.
    """
    n, k = unary.shape
    right = 0.0
    for t in range(n):
        right += unary[t, gold[t]]
        if t > 0:
            right += T[gold[t - 1], gold[t]]
    zero = np.zeros(k)
    if mode == LOG:
        clear(D, steps)
        value = forward_backward(unary, T, zero, zero, D, steps, np.empty((0, k, k))) - right
    else:
        if mode == HINGE:
            for t in range(n):
                for y in range(k):
                    unary[t, y] += cost
                unary[t, gold[t]] -= cost
        found = np.empty(n, dtype=np.int64)
        value = viterbi(unary, T, zero, zero, found) - right
        wrong = False
        for t in range(n):
            wrong |= found[t] != gold[t]
        if not wrong:
            return -1.0
        clear(D, steps)
        for t in range(n):
            D[t, found[t]] += 1.0
            if t > 0:
                steps[found[t - 1], found[t]] += 1.0
    for t in range(n):
        D[t, gold[t]] -= 1.0
        if t > 0:
            steps[gold[t - 1], gold[t]] -= 1.0
    return max(value, 0.0)


@kernel("int64(float64[:, ::1], float64, int64[::1], int64[:, ::1], int64[::1])")
def wrong_tokens(D: Floats, tolerance: float, out: Ints, labels: Ints, counts: Ints) -> int:
    """Tokens whose labels are not all right; expectations within `tolerance` of the gold ones count as right.

    The labels of the e-th of them that have D != 0 are `labels[e, :counts[e]]`: of a hinge two, of a random field many.
    """
    count = 0
    for t in range(D.shape[0]):
        largest = 0.0
        for y in range(D.shape[1]):
            largest = max(largest, abs(D[t, y]))
        if tolerance > 0.0:
            for y in range(D.shape[1]):
                if largest <= tolerance or abs(D[t, y]) <= 1e-2 * tolerance:
                    D[t, y] = 0.0
        if largest > tolerance:
            some = 0
            for y in range(D.shape[1]):
                labels[count, some] = y
                some += 1 if D[t, y] != 0.0 else 0
            out[count], counts[count] = t, some
            count += 1
    return count


@kernel("UniTuple(float64, 2)(float64[::1], float64[::1])", fastmath={"reassoc"})
def pair_products(moves: Floats, T: Floats) -> tuple[float, float]:
    """(<moves, T>, norm(moves)^2) of tables that are laid out flat: one long loop is faster than many short ones."""
    along, own = 0.0, 0.0
    for e in range(T.size):
        along += moves[e] * T[e]
        own += moves[e] * moves[e]
    return along, own


@kernel("void(float64[::1], float64, float64[::1])")
def set_scaled(x: Floats, scale: float, out: Floats) -> None:
    """out = scale x."""
    for e in range(x.size):
        out[e] = scale * x[e]


@kernel("void(float64[::1], float64, float64[::1])")
def add_scaled(x: Floats, scale: float, out: Floats) -> None:
    """out += scale x."""
    for e in range(x.size):
        out[e] += scale * x[e]


@kernel("void(float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64, float64[:, ::1])")
def inner_products(D: Floats, tokens: Ints, labels: Ints, counts: Ints, count: int, out: Floats) -> None:
    """out[a, b] = <D[tokens[a]], D[tokens[b]]>: shared by the norms of all blocks' gradients."""
    for a in range(count):
        for b in range(a + 1):
            s = 0.0
            for e in range(counts[a]):
                s += D[tokens[a], labels[a, e]] * D[tokens[b], labels[a, e]]
            out[a, b] = s
            out[b, a] = s


@kernel("float64(float64[:, ::1], int64[::1], int64, float64[::1], int64, int64)")
def gradient_square(products: Floats, tokens: Ints, count: int, local: Floats, start: int, length: int) -> float:
    """norm(g_m)^2 = sum over wrong tokens a, b of <D_a, D_b> K_m(a, b); `local` has K_m within the sequence."""
    total = 0.0
    for a in range(count):
        row = start + tokens[a] * length
        for b in range(count):
            total += products[a, b] * local[row + tokens[b]]
    return total


@kernel(
    [
        f"float64({f}[:, :, ::1], int64[:, ::1], int64[::1], int64, float64[:, ::1], int64[::1], int64[:, ::1],"
        " int64[::1], int64, int64)"
        for f in ("float32", "float64")
    ]
)
def along_gradient(
    F: Any, marks: Ints, stamps: Ints, m: int, D: Floats, tokens: Ints, labels: Ints, counts: Ints, count: int, a: int
) -> float:
    """<theta_m, g_m> without the scale, from cached scores."""
    total = 0.0
    for e in range(count):
        t = tokens[e]
        for j in range(counts[e]):
            y = labels[e, j]
            if marks[m, y] == stamps[m]:
                total += D[t, y] * F[m, y, a + t]
    return total


@kernel(
    [
        f"float64(int64[::1], int32[::1], {f}[::1], int64, int64, int64, float64[:, ::1], int64[::1], int64,"
        " float64[:, ::1], int64[::1], int64, int64)"
        for f in ("float32", "float64")
    ]
)
def along_explicit(
    ptr: Ints,
    indices: Any,
    values: Any,
    shift: int,
    base: int,
    dense: int,
    V: Floats,
    marks: Ints,
    stamp: int,
    D: Floats,
    tokens: Ints,
    count: int,
    a: int,
) -> float:
    """<theta_m, g_m> without the scale, for an explicit block."""
    total = 0.0
    for e in range(count):
        t, d = a + tokens[e], D[tokens[e]]
        for p in range(ptr[t], ptr[t + 1]):
            f = base + (p - ptr[t] if dense > 0 else indices[p - shift])
            if marks[f] == stamp:
                w, s = V[f], 0.0
                for y in range(d.size):
                    s += d[y] * w[y]
                total += values[p] * s
    return total


@kernel("float64(float64)")
def root(x: float) -> float:
    """sqrt, and 0 where rounding made a square negative."""
    return math.sqrt(x) if x > 0.0 else 0.0


@kernel(
    [
        f"void(int64[::1], int32[::1], {f}[::1], int64, int64, int64[::1], int64[::1], float64[::1], float64[::1])"
        for f in ("float32", "float64")
    ]
)
def within(
    ptr: Ints,
    indices: Any,
    values: Any,
    shift: int,
    dense: int,
    offsets: Ints,
    starts: Ints,
    spare: Floats,
    out: Floats,
) -> None:
    """<x_a, x_b> for all tokens a, b of each sequence; `spare` has a zero for each feature."""
    for q in range(offsets.size - 1):
        first, length = offsets[q], offsets[q + 1] - offsets[q]
        for a in range(length):
            i = first + a
            for p in range(ptr[i], ptr[i + 1]):
                spare[p - ptr[i] if dense > 0 else indices[p - shift]] += values[p]
            for b in range(length):
                j, s = first + b, 0.0
                for p in range(ptr[j], ptr[j + 1]):
                    s += values[p] * spare[p - ptr[j] if dense > 0 else indices[p - shift]]
                out[starts[q] + a * length + b] = s
            for p in range(ptr[i], ptr[i + 1]):
                spare[p - ptr[i] if dense > 0 else indices[p - shift]] = 0.0
