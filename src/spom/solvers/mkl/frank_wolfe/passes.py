"""One pass of block-coordinate Frank-Wolfe over sequences, with the outputs found so far kept for each of them.

The dual variables of sequence i are weights of its outputs that sum to the weight of its loss. What the scores need of
them is A[y, u] = [y is right at token u] - (share of the outputs that have y there), and V, the same for pairs of
neighbouring labels: F = A K scores a label at a token, T = b V a transition.

A visit finds the output with the highest score plus cost, adds it to the sequence's own outputs, and moves weight
from the worst of them to the best, by an exact step, until they are about equal. These steps look at the sequence
alone; the change of A goes into F at the end, with one row of K for a token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.viterbi import viterbi

MATRIX = "float64[:, ::1]"
GRAMS = ("float32[:, ::1]", MATRIX)
# At most so many times a visit decodes, and so many times it moves weight after each.
DECODES, STEPS = 3, 20
# The kernel is scale K, that of transitions `pair`, and a wrong token has this cost.
NUMBERS = "UniTuple(float64, 3)"
# A, F, V and T.
DUAL = "UniTuple(float64[:, ::1], 4)"
# Outputs; where those of a sequence begin; their weights; where those begin; how many there are; passes since they
# were of use.
POOL = "Tuple((int32[::1], int64[::1], float64[::1], int64[::1], int64[::1], int64[::1]))"
# Places for scores and changes (2, longest, labels), for a kernel (longest^2) and for labels; and counts of decodings,
# of steps and of rows read.
WORK = "Tuple((float64[:, :, ::1], float64[::1], int64[::1], int64[::1]))"


@kernel(f"void({MATRIX}, float64, int64[::1], int64, float64, {MATRIX})")
def augmented(F: Floats, factor: float, gold: Ints, begin: int, cost: float, out: Floats) -> None:
    """factor F plus Hamming cost of the tokens of one sequence, as (token, label)."""
    for t in range(out.shape[0]):
        for y in range(out.shape[1]):
            out[t, y] = factor * F[y, begin + t] + cost
        out[t, gold[begin + t]] -= cost


@kernel(f"float64(int32[::1], int64, {MATRIX}, {MATRIX})")
def score(outputs: Any, at: int, unary: Floats, T: Floats) -> float:
    """The score of the output that begins at `at`."""
    s = unary[0, outputs[at]]
    for t in range(1, unary.shape[0]):
        s += unary[t, outputs[at + t]] + T[outputs[at + t - 1], outputs[at + t]]
    return float(s)


@kernel("int64(int32[::1], int64, int64, int64[::1])")
def place_of(outputs: Any, base: int, count: int, labels: Ints) -> int:
    """Which of `count` outputs from `base` on is this one; it is written after them where it is new."""
    n = labels.size
    for j in range(count):
        t = 0
        while t < n and outputs[base + j * n + t] == labels[t]:
            t += 1
        if t == n:
            return j
    for t in range(n):
        outputs[base + count * n + t] = labels[t]
    return count


@kernel(f"float64(int32[::1], int64, int64, {MATRIX}, float64)")
def distance(outputs: Any, a: int, b: int, near: Floats, pair: float) -> float:
    """The squared distance of two outputs' features: the curvature of the dual along a step between them.

    `near` is the kernel between the tokens of the sequence.
    """
    d, n = 0.0, near.shape[0]
    for t in range(n):
        if outputs[a + t] == outputs[b + t]:
            continue
        for r in range(n):
            if outputs[a + r] == outputs[b + r]:
                continue
            e = 0.0
            e += 1.0 if outputs[a + t] == outputs[a + r] else 0.0
            e += 1.0 if outputs[b + t] == outputs[b + r] else 0.0
            e -= 1.0 if outputs[a + t] == outputs[b + r] else 0.0
            e -= 1.0 if outputs[b + t] == outputs[a + r] else 0.0
            if e != 0.0:
                d += e * near[t, r]
    if pair == 0.0:
        return d
    for t in range(n - 1):
        for r in range(n - 1):
            e = 0.0
            e += 1.0 if outputs[a + t] == outputs[a + r] and outputs[a + t + 1] == outputs[a + r + 1] else 0.0
            e += 1.0 if outputs[b + t] == outputs[b + r] and outputs[b + t + 1] == outputs[b + r + 1] else 0.0
            e -= 2.0 if outputs[a + t] == outputs[b + r] and outputs[a + t + 1] == outputs[b + r + 1] else 0.0
            d += pair * e
    return d


@kernel(f"void(int32[::1], int64, int64, float64, {MATRIX}, float64, {MATRIX}, {MATRIX}, {MATRIX}, {MATRIX})")
def move(
    outputs: Any,
    a: int,
    b: int,
    g: float,
    near: Floats,
    pair: float,
    unary: Floats,
    change: Floats,
    V: Floats,
    T: Floats,
) -> None:
    """Move the weight g from output b to output a, as seen by the sequence itself; `change` is that of A."""
    n = unary.shape[0]
    for t in range(n):
        y, z = outputs[a + t], outputs[b + t]
        if y == z:
            continue
        change[t, y] -= g
        change[t, z] += g
        for r in range(n):
            d = g * near[t, r]
            unary[r, y] -= d
            unary[r, z] += d
    if pair == 0.0:
        return
    for t in range(n - 1):
        V[outputs[a + t], outputs[a + t + 1]] -= g
        T[outputs[a + t], outputs[a + t + 1]] -= g * pair
        V[outputs[b + t], outputs[b + t + 1]] += g
        T[outputs[b + t], outputs[b + t + 1]] += g * pair


@kernel(
    [f"int64({MATRIX}, int64, {gram}, float64, {MATRIX}, {MATRIX})" for gram in GRAMS],
    fastmath={"reassoc", "contract"},
)
def push(change: Floats, begin: int, K: Any, scale: float, A: Floats, F: Floats) -> int:
    """A += change and F += change K, one row of K for a token that changed; `change` is zero afterwards."""
    touched = 0
    for t in range(change.shape[0]):
        row = K[begin + t]
        for y in range(change.shape[1]):
            d = change[t, y]
            if d != 0.0:
                A[y, begin + t] += d
                change[t, y] = 0.0
                touched += 1
                f, d = F[y], d * scale
                for u in range(f.size):
                    f[u] += d * row[u]
    return touched


@kernel(
    f"boolean(int64, int64, float64, {MATRIX}, {MATRIX}, {MATRIX}, {MATRIX}, {MATRIX}, {POOL}, int64[::1], int64[::1])"
)
def visit(
    i: int,
    n: int,
    pair: float,
    near: Floats,
    unary: Floats,
    change: Floats,
    V: Floats,
    T: Floats,
    pool: Any,
    found: Ints,
    tally: Ints,
) -> bool:
    """Decode and correct sequence i until its own gap is a third of what it was; whether anything changed."""
    outputs, places, weights, slots, counts, ages = pool
    base, slot, none = places[i], slots[i], np.zeros(T.shape[0])
    before, moved = 0.0, False
    for decode in range(DECODES):
        viterbi(unary, T, none, none, found)
        tally[0] += 1
        new = place_of(outputs, base, counts[i], found)
        if new == counts[i]:
            weights[slot + new] = 0.0
            counts[i] += 1
        ages[slot + new] = 0
        first = 0.0
        for step in range(STEPS):
            best, worst, top, low, mean, mass = 0, 0, -np.inf, np.inf, 0.0, 0.0
            for j in range(counts[i]):
                s, w = score(outputs, base + j * n, unary, T), weights[slot + j]
                mean += w * s
                mass += w
                if s > top:
                    best, top = j, s
                if w > 0.0 and s < low:
                    worst, low = j, s
            gap = mass * top - mean
            if step == 0:
                first = gap
                if decode == 0:
                    before = gap
                elif gap <= 0.3 * before:
                    break
            # Rounding is all that is left, or this is close enough until the next output is known.
            if top - low <= 1e-14 * (1.0 + abs(top)) or (step > 0 and gap <= 0.1 * first):
                break
            a, b = base + best * n, base + worst * n
            curve = distance(outputs, a, b, near, pair)
            g = weights[slot + worst]
            if curve * g > top - low:
                g = (top - low) / curve
                weights[slot + worst] -= g
            else:
                weights[slot + worst] = 0.0
            weights[slot + best] += g
            move(outputs, a, b, g, near, pair, unary, change, V, T)
            ages[slot + best] = 0
            moved = True
            tally[1] += 1
        if decode > 0 and first <= 0.3 * before:
            break
    return moved


def _sweep(order: Ints, offsets: Ints, gold: Ints, K: Any, numbers: Any, dual: Any, pool: Any, work: Any) -> None:
    """Visit sequences in this order."""
    scale, pair, cost = numbers
    A, F, V, T = dual
    wide, square, labels, tally = work
    for i in order:
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        near = square[: n * n].reshape(n, n)
        for t in range(n):
            for r in range(n):
                near[t, r] = scale * K[begin + t, begin + r]
        unary, change = wide[0, :n], wide[1, :n]
        augmented(F, 1.0, gold, begin, cost, unary)
        if visit(i, n, pair, near, unary, change, V, T, pool, labels[:n], tally):
            tally[2] += push(change, begin, K, scale, A, F)


# Compiled for the precision that is asked for.
_ARGUMENTS = f"{NUMBERS}, {DUAL}, {POOL}, {WORK})"
sweep_single = kernel(f"void(int64[::1], int64[::1], int64[::1], {GRAMS[0]}, {_ARGUMENTS}")(_sweep)
sweep_double = kernel(f"void(int64[::1], int64[::1], int64[::1], {GRAMS[1]}, {_ARGUMENTS}")(_sweep)


@kernel(f"void(int64[::1], int64[::1], float64, {MATRIX}, {MATRIX}, {POOL}, float64[::1])")
def find_gaps(offsets: Ints, gold: Ints, cost: float, F: Floats, T: Floats, pool: Any, out: Floats) -> None:
    """Each sequence's part of the gap: what it would gain to first order if its weight went to its best output."""
    outputs, places, weights, slots, counts, _ = pool
    none = np.zeros(F.shape[0])
    for i in range(counts.size):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        out[i] = 0.0
        if counts[i] == 0:
            continue
        unary, found = np.empty((n, F.shape[0])), np.empty(n, dtype=np.int64)
        augmented(F, 1.0, gold, begin, cost, unary)
        top = viterbi(unary, T, none, none, found)
        for j in range(counts[i]):
            w = weights[slots[i] + j]
            if w > 0.0:
                out[i] += w * (top - score(outputs, places[i] + j * n, unary, T))


@kernel(f"void(int64[::1], {POOL}, int64)")
def forget(offsets: Ints, pool: Any, limit: int) -> None:
    """Drop outputs that have no weight and were of no use for `limit` passes; the others grow older."""
    outputs, places, weights, slots, counts, ages = pool
    for i in range(counts.size):
        n, kept = offsets[i + 1] - offsets[i], 0
        base, slot = places[i], slots[i]
        for j in range(counts[i]):
            if weights[slot + j] == 0.0 and ages[slot + j] >= limit:
                continue
            if kept < j:
                weights[slot + kept] = weights[slot + j]
                for t in range(n):
                    outputs[base + kept * n + t] = outputs[base + j * n + t]
            ages[slot + kept] = ages[slot + j] + 1
            kept += 1
        counts[i] = kept


@kernel(f"float64(int64[::1], int64[::1], float64[::1], float64, {MATRIX}, {MATRIX})")
def total_hinge(offsets: Ints, gold: Ints, weight: Floats, cost: float, F: Floats, T: Floats) -> float:
    """The sum of weight times hinge loss over all sequences, at the scores F and T."""
    total, none = 0.0, np.zeros(F.shape[0])
    for i in range(offsets.size - 1):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        unary, found = np.empty((n, F.shape[0])), np.empty(n, dtype=np.int64)
        augmented(F, 1.0, gold, begin, cost, unary)
        s = unary[0, gold[begin]]
        for t in range(1, n):
            s += unary[t, gold[begin + t]] + T[gold[begin + t - 1], gold[begin + t]]
        total += weight[i] * max(0.0, viterbi(unary, T, none, none, found) - s)
    return total


@kernel(f"float64(int64[::1], int64[::1], {POOL})")
def total_cost(offsets: Ints, gold: Ints, pool: Any) -> float:
    """The sum over outputs of weight times Hamming cost: the linear part of the dual."""
    outputs, places, weights, slots, counts, _ = pool
    total = 0.0
    for i in range(counts.size):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        for j in range(counts[i]):
            wrong = 0
            for t in range(n):
                wrong += outputs[places[i] + j * n + t] != gold[begin + t]
            total += weights[slots[i] + j] * wrong
    return total
