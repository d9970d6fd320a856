"""Rounds of dual averaging over kernels, compiled.

The sum of all steps so far is G_m = sum over tokens i of alpha[:, i] k_m(x_i, .) in the space of kernel m, with one
alpha for all kernels. A round reads the cached scores F[m] = copies[m] K_m of its own tokens. A kernel that is on has
copies[m] = alpha: each wrong token adds a row of its Gram matrix to F[m]. A kernel that is off is out of date: with
P = G_m - (its part that F[m] knows),

    norm(G_m)^2 = norm(G_m - P)^2 + 2 <G_m - P, P> + norm(P)^2  <=  SQUARE + SPREAD,

where SQUARE follows from F[m] exactly, and SPREAD is the sum over labels of (sum of norms of steps in P)^2. A block
is zero after the prox of the norms if it is zero after the prox of their bounds. So rows of a kernel that is off are
only read when the bound no longer proves that it is off, and then once per token changed since, however often it did.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.mkl.errors import (
    Errors,
    Rule,
    Wrong,
    find_errors,
    gradient_square,
    inner_products,
    pair_products,
    root,
)
from spom.solvers.mkl.explicit import Weights, add_explicit, add_to_weights, explicit_along
from spom.solvers.mkl.gram_rows import DENSE, EXPLICIT, REALS, SPARSE, Active, Grams, add_row, add_rows, missing_rows
from spom.solvers.mkl.store import AT, CLOCK, DECODED, FAULTY, READ, RENEWED, WANTED, WRONG, Data
from spom.solvers.structured.structures import is_sum

# Rows of the table of blocks, whose last column is the transitions: for SQUARE and SPREAD see above. SCALE multiplies
# F[m] (or V) in a score. Norms are divided by SIZE, the mean of the kernel's diagonal. NORM is the norm of the block.
SQUARE, SPREAD, SCALE, SIZE, NORM = range(5)
# Entries of `sums`: the sum of the weights of all rounds, and the sum of squared norms of their steps.
TOTAL, STEPS = range(2)


class Dual(NamedTuple):
    """All that a run changes except the scores: alpha (labels, tokens), V of explicit blocks, T of label pairs."""

    alpha: Annotated[Floats, "float64[:, ::1]"]
    V: Annotated[Floats, "float64[:, ::1]"]
    T: Annotated[Floats, "float64[:, ::1]"]
    copies: Annotated[Floats, "float64[:, :, ::1]"]
    changed: Annotated[Ints, "int64[::1]"]
    known: Annotated[Ints, "int64[::1]"]
    spread: Annotated[Floats, "float64[:, ::1]"]
    table: Annotated[Floats, "float64[:, ::1]"]
    sums: Annotated[Floats, "float64[::1]"]
    counts: Annotated[Ints, "int64[::1]"]


class Work(NamedTuple):
    """Space for a round: errors of its sequence, norms of the blocks, kernels that are on, missing rows.

    `weights` are the explicit ones, `V` of `Dual`; none of them is ever stale here.
    """

    errors: Errors
    weights: Weights
    norms: Annotated[Floats, "float64[::1]"]
    active: Active
    wanted: Annotated[Ints, "int64[::1]"]


@kernel([f"float64(float64[::1], {f}[::1])" for f in REALS], fastmath={"reassoc"})
def product(a: Floats, f: Any) -> float:
    """<a, f>."""
    s = 0.0
    for i in range(a.size):
        s += a[i] * f[i]
    return s


def _bring_up(F: Any, store: Any, grams: Grams, dual: Dual, m: int) -> None:
    """Update F[m] to alpha K_m, by a Gram row per token whose alpha has changed, and compute its exact norm."""
    k, n = dual.alpha.shape
    for i in range(n):
        if dual.changed[i] > dual.known[m]:
            for y in range(k):
                change = dual.alpha[y, i] - dual.copies[m, y, i]
                if change != 0.0:
                    dual.copies[m, y, i] = dual.alpha[y, i]
                    add_row(F[m, y], store, grams, m, i, change)
            dual.counts[READ] += 1
    dual.known[m] = dual.counts[CLOCK]
    dual.counts[RENEWED] += 1
    dual.table[SQUARE, m] = product(dual.alpha.reshape(-1), F[m].reshape(-1))
    dual.table[SPREAD, m] = 0.0
    for y in range(k):
        dual.spread[m, y] = 0.0


_BRING_UP = [f"void({f}[:, :, ::1], {f}[:, ::1], Grams, Dual, int64)" for f in REALS]
bring_up = kernel(_BRING_UP)(_bring_up)
bring_up_single, bring_up_double = (kernel(s)(_bring_up) for s in _BRING_UP)


@kernel([f"int64({f}[:, :, ::1], {f}[:, ::1], Data, Dual, Rule, float64[::1])" for f in REALS])
def find_scales(F: Any, store: Any, data: Data, dual: Dual, rule: Rule, norms: Floats) -> int:
    """theta_m = scale_m G_m, from the prox of the norms; return -1, or a kernel that the caller must update first."""
    table, grams, blocks = dual.table, data.grams, data.grams.kinds.size
    # Loops, not slices: numba takes a second to compile an operation on slices.
    for m in range(table.shape[1]):
        table[SCALE, m] = table[NORM, m] = 0.0
    if dual.sums[STEPS] <= 0.0:
        return -1
    beta = math.sqrt(dual.sums[STEPS]) / rule.limit
    last = blocks
    while True:
        for m in range(norms.size):
            norms[m] = root((table[SQUARE, m] + table[SPREAD, m]) / table[SIZE, m]) / beta
        rule.prox.function(norms, dual.sums[TOTAL] / beta, rule.prox.reals, rule.prox.ints, norms)
        late = 0
        for m in range(blocks):
            if norms[m] > 0.0 and table[SPREAD, m] > 0.0:
                if grams.kinds[m] == DENSE and grams.ages.size > 0:
                    return m
                bring_up(F, store, grams, dual, m)
                late += 1
        if late == 0:
            break
    for m in range(norms.size):
        own = table[SIZE, m] * root(table[SQUARE, m] / table[SIZE, m])
        if norms[m] > 0.0 and own > 0.0:
            table[SCALE, m], table[NORM, m] = norms[m] / own, norms[m]
    if data.sequences.chain and not rule.learnt:
        table[SCALE, last] = 1.0 / (beta + dual.sums[TOTAL] * rule.strength)
        table[NORM, last] = table[SCALE, last] * root(table[SQUARE, last])
    square = 0.0
    for m in range(table.shape[1]):
        square += table[NORM, m] * table[NORM, m]
    size = root(square)
    if size > rule.radius:
        for m in range(table.shape[1]):
            table[SCALE, m] *= rule.radius / size
            table[NORM, m] *= rule.radius / size
    return -1


@kernel([f"void({f}[:, :, ::1], Data, Dual, Work, int64, int64)" for f in REALS])
def find_scores(F: Any, data: Data, dual: Dual, work: Work, a: int, b: int) -> None:
    """Compute the scores of the tokens a .. b-1 and of pairs of labels, by the blocks that are on."""
    scores, table, kinds = work.errors.scores, dual.table, data.grams.kinds
    scores.unary[: b - a] = 0.0
    for m in range(kinds.size):
        scale = table[SCALE, m]
        if scale > 0.0:
            if kinds[m] == EXPLICIT:
                add_explicit(data.explicit, data.grams.places[m], work.weights, 0, scale, a, b, scores.unary)
            else:
                for y in range(F.shape[1]):
                    f = F[m, y]
                    for t in range(a, b):
                        scores.unary[t - a, y] += scale * f[t]
    if data.sequences.chain:
        scale = table[SCALE, kinds.size]
        for p in range(dual.T.shape[0]):
            for y in range(dual.T.shape[0]):
                scores.shared[p, y] = scale * dual.T[p, y]


@kernel("float64(float64[::1], Wrong, float64[::1], int64, int64, float64)")
def fall_behind(spread: Floats, wrong: Wrong, local: Floats, start: int, length: int, c: float) -> float:
    """Add the norms of a step to spread[y], for each label y; return the change of the sum of squares."""
    change, errors = 0.0, wrong.errors
    for e in range(wrong.size):
        t = errors.tokens[e]
        size = abs(c) * root(local[start + t * length + t])
        for j in range(errors.several[e]):
            y = errors.labels[e, j]
            r = size * abs(errors.D[t, y])
            change += r * (2.0 * spread[y] + r)
            spread[y] += r
    return change


@kernel([f"float64({f}[:, :, ::1], Data, Dual, Work, Wrong, int64, float64)" for f in REALS])
def change_norms(F: Any, data: Data, dual: Dual, work: Work, wrong: Wrong, q: int, c: float) -> float:
    """Update the norms (or bounds) for a step of c times the errors of sequence q; return its largest squared norm."""
    sequences, kinds, table, errors = data.sequences, data.grams.kinds, dual.table, wrong.errors
    a, length = sequences.offsets[q], sequences.offsets[q + 1] - sequences.offsets[q]
    largest = 0.0
    for m in range(kinds.size):
        near, start = sequences.local[m], sequences.starts[q]
        own = gradient_square(errors, wrong.size, near, start, length)
        along = 0.0
        if kinds[m] == EXPLICIT:
            along = explicit_along(data.explicit, data.grams.places[m], work.weights, 0, wrong)
        else:
            for e in range(wrong.size):
                for j in range(errors.several[e]):
                    y = errors.labels[e, j]
                    along += errors.D[errors.tokens[e], y] * F[m, y, a + errors.tokens[e]]
        table[SQUARE, m] += 2.0 * c * along
        if kinds[m] == EXPLICIT or table[SCALE, m] > 0.0:
            table[SQUARE, m] += c * c * own
        else:
            table[SPREAD, m] += fall_behind(dual.spread[m], wrong, near, start, length, c)
        largest = max(largest, own / table[SIZE, m])
    if sequences.chain:
        along, own = pair_products(errors.moves.reshape(-1), dual.T.reshape(-1))
        table[SQUARE, kinds.size] += c * (2.0 * along + c * own)
        largest = max(largest, own / table[SIZE, kinds.size])
    return c * c * largest


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Data, Dual, Work, Wrong, float64)" for f in REALS])
def take_step(F: Any, store: Any, data: Data, dual: Dual, work: Work, wrong: Wrong, c: float) -> None:
    """alpha += c D, in F too for kernels that are on; the same for explicit weights and transitions."""
    grams, errors, clock, on = data.grams, wrong.errors, dual.counts[CLOCK] + 1, 0
    dual.counts[CLOCK] = clock
    for e in range(wrong.size):
        t, i = errors.tokens[e], wrong.first + errors.tokens[e]
        dual.changed[i] = clock
        for j in range(errors.several[e]):
            y = errors.labels[e, j]
            dual.alpha[y, i] += c * errors.D[t, y]
    for m in range(grams.kinds.size):
        if grams.kinds[m] == EXPLICIT:
            add_to_weights(data.explicit, grams.places[m], work.weights, 0, wrong, c, 0.0)
        elif dual.table[SCALE, m] > 0.0:
            if grams.kinds[m] == DENSE:
                work.active.blocks[on], work.active.factors[on], on = m, c, on + 1
            for e in range(wrong.size):
                t, i = errors.tokens[e], wrong.first + errors.tokens[e]
                for j in range(errors.several[e]):
                    y = errors.labels[e, j]
                    if grams.kinds[m] == SPARSE:
                        add_row(F[m, y], store, grams, m, i, c * errors.D[t, y])
                    dual.copies[m, y, i] = dual.alpha[y, i]
            dual.known[m] = clock
            dual.counts[READ] += wrong.size
    add_rows(F, store, grams, work.active, on, wrong)
    if data.sequences.chain:
        for p in range(dual.T.shape[0]):
            for y in range(dual.T.shape[0]):
                dual.T[p, y] += c * errors.moves[p, y]


def _rounds(order: Ints, weights: Floats, F: Any, store: Any, data: Data, dual: Dual, rule: Rule, work: Work) -> float:
    """Run rounds from counts[AT] on, until counts[WANTED] is not zero; return the sum of losses."""
    counts, sequences, errors, total = dual.counts, data.sequences, work.errors, 0.0
    counts[WANTED] = 0
    while counts[AT] < order.size:
        r = counts[AT]
        q = order[r]
        a, b = sequences.offsets[q], sequences.offsets[q + 1]
        behind = find_scales(F, store, data, dual, rule, work.norms)
        if behind >= 0:
            counts[WANTED] = -1 - behind
            return total
        w = sequences.weight[q] if sequences.weight.size else 1.0
        if b > a and w > 0.0:
            find_scores(F, data, dual, work, a, b)
            loss, count = find_errors(rule, errors, sequences.gold[a:b])
            if count > 0 or is_sum(rule.loss.code):
                wrong = Wrong(errors, a, count)
                counts[WANTED] = missing_rows(data.grams, dual.table[SCALE], wrong, counts[CLOCK], work.wanted)
                if counts[WANTED] > 0:
                    return total
                c = -weights[r] * w
                inner_products(errors, count)
                dual.sums[STEPS] += change_norms(F, data, dual, work, wrong, q, c)
                take_step(F, store, data, dual, work, wrong, c)
            total += w * loss
            counts[WRONG] += count
            counts[FAULTY] += 1 if count > 0 else 0
            counts[DECODED] += b - a
        dual.sums[TOTAL] += weights[r]
        counts[AT] += 1
    behind = find_scales(F, store, data, dual, rule, work.norms)
    counts[WANTED] = -1 - behind if behind >= 0 else 0
    return total


_ROUNDS = [f"float64(int64[::1], float64[::1], {f}[:, :, ::1], {f}[:, ::1], Data, Dual, Rule, Work)" for f in REALS]
rounds_single, rounds_double = (kernel(s)(_rounds) for s in _ROUNDS)
