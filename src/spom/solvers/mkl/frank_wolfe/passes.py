"""One pass of block-coordinate Frank-Wolfe over sequences, which keeps the outputs found so far per sequence.

The dual variables of sequence i are weights of its outputs that sum to the weight of its loss. The scores only need
A[y, u] = [y is right at token u] - (share of the outputs that have y there), and V, the same for pairs of
neighbouring labels: F = A K scores a label at a token, T = b V a transition.

A visit finds the output with the highest score plus cost, adds it to the sequence's own outputs, and moves weight
from the worst of them to the best, by an exact step, until they are about equal. These steps involve only the
sequence itself; the change of A is added to F at the end, with one row of K per token.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.viterbi import viterbi

MATRIX = "float64[:, ::1]"
GRAMS = ("float32[:, ::1]", MATRIX)
# The maximum numbers of decodings per visit, and of moves of weight after each.
DECODES, STEPS = 3, 20
# A visit decodes again until the gap is at most AGAIN times the initial one, and moves weight until it is at most CLOSE
# times the one before.
AGAIN, CLOSE = 0.3, 0.1


class Sequences(NamedTuple):
    """Tokens offsets[i] .. offsets[i + 1] are sequence i, whose loss has the weight weight[i]."""

    offsets: Annotated[Ints, "int64[::1]"]
    gold: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]


class Numbers(NamedTuple):
    """The kernel is scale K, that of transitions `pair`, and a wrong token has this cost."""

    scale: Annotated[float, "float64"]
    pair: Annotated[float, "float64"]
    cost: Annotated[float, "float64"]


class Dual(NamedTuple):
    """The dual variables A and V, and the scores F and T that follow from them."""

    A: Annotated[Floats, "float64[:, ::1]"]
    F: Annotated[Floats, "float64[:, ::1]"]
    V: Annotated[Floats, "float64[:, ::1]"]
    T: Annotated[Floats, "float64[:, ::1]"]


class Outputs(NamedTuple):
    """The outputs found: sequence i has counts[i], which start at places[i], their weights and ages at slots[i].

    The age of an output is the number of passes since it was last the best.
    """

    labels: Annotated[Any, "int32[::1]"]
    places: Annotated[Ints, "int64[::1]"]
    weights: Annotated[Floats, "float64[::1]"]
    slots: Annotated[Ints, "int64[::1]"]
    counts: Annotated[Ints, "int64[::1]"]
    ages: Annotated[Ints, "int64[::1]"]


class Work(NamedTuple):
    """Space for the longest sequence, and counts of decodings, of steps and of rows read."""

    unary: Annotated[Floats, "float64[:, ::1]"]
    change: Annotated[Floats, "float64[:, ::1]"]
    square: Annotated[Floats, "float64[::1]"]
    found: Annotated[Ints, "int64[::1]"]
    tally: Annotated[Ints, "int64[::1]"]


class Visit(NamedTuple):
    """The data of a visit to a sequence: the kernel within it, scores plus cost, the change of A, the labels found."""

    near: Annotated[Floats, "float64[:, ::1]"]
    unary: Annotated[Floats, "float64[:, ::1]"]
    change: Annotated[Floats, "float64[:, ::1]"]
    found: Annotated[Ints, "int64[::1]"]
    pair: Annotated[float, "float64"]


def work_of(longest: int, labels: int) -> Work:
    """Return space for sequences of at most that many tokens."""
    return Work(
        np.zeros((longest, labels)),
        np.zeros((longest, labels)),
        np.zeros(longest * longest),
        np.zeros(longest, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
    )


@kernel(f"void({MATRIX}, float64, int64[::1], int64, float64, {MATRIX})")
def augmented(F: Floats, factor: float, gold: Ints, begin: int, cost: float, out: Floats) -> None:
    """factor F plus Hamming cost of the tokens of one sequence, as (token, label)."""
    for t in range(out.shape[0]):
        for y in range(out.shape[1]):
            out[t, y] = factor * F[y, begin + t] + cost
        out[t, gold[begin + t]] -= cost


@kernel(f"float64(int32[::1], int64, {MATRIX}, {MATRIX})")
def score(outputs: Any, at: int, unary: Floats, T: Floats) -> float:
    """Return the score of the output that begins at `at`."""
    s = unary[0, outputs[at]]
    for t in range(1, unary.shape[0]):
        s += unary[t, outputs[at + t]] + T[outputs[at + t - 1], outputs[at + t]]
    return float(s)


@kernel("int64(int32[::1], int64, int64, int64[::1])")
def place_of(outputs: Any, base: int, count: int, labels: Ints) -> int:
    """Return the index of this output among the `count` outputs from `base` on; a new one is appended to them."""
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
    """Return the squared distance of two outputs' features, which is the dual's curvature along a step between them.

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


@kernel("void(int32[::1], int64, int64, float64, Visit, Dual)")
def move(outputs: Any, a: int, b: int, g: float, visit: Visit, dual: Dual) -> None:
    """Move the weight g from output b to output a, within the sequence's own data."""
    near, unary, change, pair, n = visit.near, visit.unary, visit.change, visit.pair, visit.unary.shape[0]
    V, T = dual.V, dual.T
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
    """A += change and F += change K, with a row of K per changed token; clear `change`, and return their number."""
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


@kernel(f"Tuple((int64, int64, float64, float64, float64))(int64, Visit, {MATRIX}, Outputs)")
def best_and_worst(i: int, visit: Visit, T: Floats, pool: Outputs) -> tuple[int, int, float, float, float]:
    """Return (best, worst, score of the best, score of the worst, gap), with the worst among those that have weight."""
    base, slot, n = pool.places[i], pool.slots[i], visit.unary.shape[0]
    best, worst, top, low, mean, mass = 0, 0, -np.inf, np.inf, 0.0, 0.0
    for j in range(pool.counts[i]):
        s, w = score(pool.labels, base + j * n, visit.unary, T), pool.weights[slot + j]
        mean += w * s
        mass += w
        if s > top:
            best, top = j, s
        if w > 0.0 and s < low:
            worst, low = j, s
    return best, worst, top, low, mass * top - mean


@kernel("int64(int64, Visit, Dual, Outputs)")
def decode(i: int, visit: Visit, dual: Dual, pool: Outputs) -> int:
    """Find the best output of sequence i and add it to the pool; return its place there."""
    none = np.zeros(dual.T.shape[0])
    viterbi(visit.unary, dual.T, none, none, visit.found)
    new = place_of(pool.labels, pool.places[i], pool.counts[i], visit.found)
    if new == pool.counts[i]:
        pool.weights[pool.slots[i] + new] = 0.0
        pool.counts[i] += 1
    pool.ages[pool.slots[i] + new] = 0
    return new


@kernel("boolean(int64, Visit, Dual, Outputs, int64[::1])")
def correct(i: int, visit: Visit, dual: Dual, pool: Outputs, tally: Ints) -> bool:
    """Decode and correct sequence i until its own gap is a third of the initial one; tell whether anything changed."""
    weights, base, slot, n = pool.weights, pool.places[i], pool.slots[i], visit.unary.shape[0]
    before, moved = 0.0, False
    for turn in range(DECODES):
        decode(i, visit, dual, pool)
        tally[0] += 1
        first = 0.0
        for step in range(STEPS):
            best, worst, top, low, gap = best_and_worst(i, visit, dual.T, pool)
            if step == 0:
                first = gap
                if turn == 0:
                    before = gap
                elif gap <= AGAIN * before:
                    break
            # Only rounding remains, or this is close enough until the next output is known.
            if top - low <= 1e-14 * (1.0 + abs(top)) or (step > 0 and gap <= CLOSE * first):
                break
            a, b = base + best * n, base + worst * n
            curve = distance(pool.labels, a, b, visit.near, visit.pair)
            g = weights[slot + worst]
            if curve * g > top - low:
                g = (top - low) / curve
                weights[slot + worst] -= g
            else:
                weights[slot + worst] = 0.0
            weights[slot + best] += g
            move(pool.labels, a, b, g, visit, dual)
            pool.ages[slot + best] = 0
            moved = True
            tally[1] += 1
        if turn > 0 and first <= AGAIN * before:
            break
    return moved


@kernel([f"void({gram}, float64, int64, {MATRIX})" for gram in GRAMS])
def find_near(K: Any, scale: float, begin: int, near: Floats) -> None:
    """Write the kernel between the tokens of a sequence to `near`."""
    for t in range(near.shape[0]):
        for r in range(near.shape[0]):
            near[t, r] = scale * K[begin + t, begin + r]


def _sweep(order: Ints, sequences: Sequences, K: Any, numbers: Numbers, dual: Dual, pool: Outputs, work: Work) -> None:
    """Visit sequences in this order."""
    offsets = sequences.offsets
    for i in order:
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        near = work.square[: n * n].reshape(n, n)
        find_near(K, numbers.scale, begin, near)
        visit = Visit(near, work.unary[:n], work.change[:n], work.found[:n], numbers.pair)
        augmented(dual.F, 1.0, sequences.gold, begin, numbers.cost, visit.unary)
        if correct(i, visit, dual, pool, work.tally):
            work.tally[2] += push(visit.change, begin, K, numbers.scale, dual.A, dual.F)


# One per precision of the Gram matrices.
_ARGUMENTS = "Numbers, Dual, Outputs, Work)"
sweep_single = kernel(f"void(int64[::1], Sequences, {GRAMS[0]}, {_ARGUMENTS}")(_sweep)
sweep_double = kernel(f"void(int64[::1], Sequences, {GRAMS[1]}, {_ARGUMENTS}")(_sweep)


@kernel("void(Sequences, float64, Dual, Outputs, float64[::1])")
def find_gaps(sequences: Sequences, cost: float, dual: Dual, pool: Outputs, out: Floats) -> None:
    """Write each sequence's part of the gap to `out`: its first-order gain if its weight moved to its best output."""
    outputs, places, weights, slots, counts, _ = pool
    offsets, gold, F, T = sequences.offsets, sequences.gold, dual.F, dual.T
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


@kernel("void(int64[::1], Outputs, int64)")
def forget(offsets: Ints, pool: Outputs, limit: int) -> None:
    """Drop outputs that have no weight and were not chosen for `limit` passes; the others grow older."""
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


@kernel(f"UniTuple(float64, 2)(Sequences, float64, {MATRIX}, {MATRIX}, float64)")
def hinge_on_ray(sequences: Sequences, cost: float, F: Floats, T: Floats, factor: float) -> tuple[float, float]:
    """Return the sum of weight times hinge loss at the scores factor F and factor T, and its derivative in factor."""
    offsets, gold, weight = sequences
    total, slope, none = 0.0, 0.0, np.zeros(F.shape[0])
    scaled = factor * T
    for i in range(offsets.size - 1):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        unary, found = np.empty((n, F.shape[0])), np.empty(n, dtype=np.int64)
        augmented(F, factor, gold, begin, cost, unary)
        s = unary[0, gold[begin]]
        for t in range(1, n):
            s += unary[t, gold[begin + t]] + scaled[gold[begin + t - 1], gold[begin + t]]
        loss = viterbi(unary, scaled, none, none, found) - s
        if loss > 0.0:
            wrong = 0
            for t in range(n):
                wrong += found[t] != gold[begin + t]
            total += weight[i] * loss
            slope += weight[i] * (loss - cost * wrong) / factor
    return total, slope


@kernel(f"float64(Sequences, float64, {MATRIX}, {MATRIX})")
def total_hinge(sequences: Sequences, cost: float, F: Floats, T: Floats) -> float:
    """Return the sum of weight times hinge loss over all sequences, at the scores F and T."""
    return hinge_on_ray(sequences, cost, F, T, 1.0)[0]


@kernel("float64(Sequences, Outputs)")
def total_cost(sequences: Sequences, pool: Outputs) -> float:
    """Return the sum over outputs of weight times Hamming cost: the linear part of the dual."""
    offsets, gold = sequences.offsets, sequences.gold
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
