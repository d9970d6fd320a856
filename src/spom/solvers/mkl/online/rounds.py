"""Rounds of SPOM, with kernels and explicit features, compiled (Alg. 3 of Martins et al. 2011).

Each block is theta_m = scale_m * (sum over tokens i and labels y of A_m[y, i] phi_m(x_i) at y). A round decodes one
sequence from cached scores. It finds the norms that the blocks would have after the step, from K within the sequence
alone, and shrinks these norms. It reads rows of a Gram matrix only for wrong tokens and blocks that are on.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
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
from spom.solvers.mkl.explicit import add_explicit, add_to_weights, explicit_along
from spom.solvers.mkl.gram_rows import (
    DENSE,
    EXPLICIT,
    REALS,
    SPARSE,
    Active,
    add_row,
    add_rows,
    missing_rows,
    prefetch_row,
)
from spom.solvers.mkl.online.coefficients import (
    PEAK,
    SCALE,
    SIGMA,
    SQUARED,
    Model,
    add_coefficients,
    freshen,
    renew_coefficients,
    renew_weights,
    switch_off,
)
from spom.solvers.mkl.store import AT, CLOCK, DECODED, FAULTY, READ, WANTED, WRONG, Data
from spom.solvers.structured.structures import is_sum

# A scale below this is moved into the coefficients, which keeps float32 scores far from overflow.
SMALL = 1e-9
# A block whose squared norm falls below this fraction of its peak is renewed, as its rounding errors do not fall with
# it.
FALLEN = 1e-4


class Work(NamedTuple):
    """Space for a round: errors of its sequence, norms of the blocks after and before the prox, missing rows.

    `norms` has one more entry if the transitions are a block of the penalty; `before` always has.
    """

    errors: Errors
    norms: Annotated[Floats, "float64[::1]"]
    before: Annotated[Floats, "float64[::1]"]
    active: Active
    wanted: Annotated[Ints, "int64[::1]"]


@kernel([f"void({f}[:, :, ::1], Data, Model, Errors, int64, int64)" for f in REALS])
def find_scores(F: Any, data: Data, model: Model, errors: Errors, q: int, following: int) -> None:
    """Compute the scores of sequence q by the blocks that are on; prefetch those of the token `following`."""
    a, b = data.sequences.offsets[q], data.sequences.offsets[q + 1]
    unary, table, grams, k = errors.scores.unary, model.table, data.grams, model.T.shape[0]
    unary[: b - a] = 0.0
    for m in range(grams.kinds.size):
        if table[SQUARED, m] > 0.0:
            scale, stamp = table[SCALE, m], model.stamps[m]
            if grams.kinds[m] == EXPLICIT:
                add_explicit(data.explicit, grams.places[m], model.weights, stamp, scale, a, b, unary)
            else:
                for t in range(a, b):
                    for y in range(k):
                        if model.fmarks[m, y] == stamp:
                            unary[t - a, y] += scale * F[m, y, t]
                for y in range(k):
                    prefetch(F[m, y], following)
    if data.sequences.chain:
        pairs, flat, scale = errors.scores.shared.reshape(-1), model.T.reshape(-1), table[SCALE, grams.kinds.size]
        for e in range(flat.size):
            pairs[e] = scale * flat[e]


@kernel("void(Data, Model, int64)")
def prefetch_sequence(data: Data, model: Model, q: int) -> None:
    """Prefetch the data of a step on sequence q while it is decoded; only a part of long sequences."""
    local, start, slots, marks = data.sequences.local, data.sequences.starts[q], data.grams.slots, model.amarks
    a, b = data.sequences.offsets[q], data.sequences.offsets[q + 1]
    for m in range(local.shape[0]):
        for j in range(start, start + min((b - a) * (b - a), 512), 8):
            prefetch(local[m], j)
    for m in range(marks.shape[0]):
        prefetch(marks[m], a)
        prefetch(marks[m], b - 1)
    for m in range(slots.shape[0]):
        prefetch(slots[m], a)
        prefetch(slots[m], b - 1)


@kernel("void(Model, Wrong)")
def prefetch_coefficients(model: Model, wrong: Wrong) -> None:
    """Prefetch the coefficients that a step will change."""
    errors = wrong.errors
    for m in range(model.A.shape[0]):
        for e in range(wrong.size):
            for j in range(errors.several[e]):
                prefetch(model.A[m, errors.labels[e, j]], wrong.first + errors.tokens[e])


@kernel([f"float64({f}[:, :, ::1], {f}[:, ::1], Data, Model, int64, Wrong)" for f in REALS])
def along_gradient(F: Any, store: Any, data: Data, model: Model, m: int, wrong: Wrong) -> float:
    """<theta_m, g_m> without the scale; prefetches the first Gram row that a step needs."""
    grams, stamp, errors, total = data.grams, model.stamps[m], wrong.errors, 0.0
    if grams.kinds[m] == EXPLICIT:
        return explicit_along(data.explicit, grams.places[m], model.weights, stamp, wrong)
    if grams.kinds[m] == DENSE:
        prefetch_row(store, grams.slots[grams.places[m], wrong.first + errors.tokens[0]])
    for e in range(wrong.size):
        t = errors.tokens[e]
        for j in range(errors.several[e]):
            y = errors.labels[e, j]
            if model.fmarks[m, y] == stamp:
                total += errors.D[t, y] * F[m, y, wrong.first + t]
    return total


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Data, Model, Work, Wrong, int64, float64)" for f in REALS])
def find_norms(F: Any, store: Any, data: Data, model: Model, work: Work, wrong: Wrong, q: int, eta: float) -> None:
    """Compute the norms after a gradient step: norm^2 - 2 eta <theta, g> + eta^2 norm(g)^2."""
    sequences, table, last = data.sequences, model.table, data.grams.kinds.size
    length = sequences.offsets[q + 1] - sequences.offsets[q]
    for m in range(last):
        square = table[SQUARED, m]
        if wrong.size > 0 and eta > 0.0 and not model.frozen[m]:
            along = along_gradient(F, store, data, model, m, wrong) if square > 0.0 else 0.0
            own = gradient_square(wrong.errors, wrong.size, sequences.local[m], sequences.starts[q], length)
            square += eta * (eta * own - 2.0 * table[SCALE, m] * along)
        work.before[m] = 0.0 if model.frozen[m] else root(square)
        work.norms[m] = work.before[m]
    if sequences.chain:
        square = table[SQUARED, last]
        if eta > 0.0:
            along, own = pair_products(wrong.errors.moves.reshape(-1), model.T.reshape(-1))
            square += eta * (eta * own - 2.0 * table[SCALE, last] * along)
        work.before[last] = root(square)
        if work.norms.size > last:
            work.norms[last] = work.before[last]


@kernel("float64(Work, float64, float64)")
def into_ball(work: Work, other: float, radius: float) -> float:
    """Return the factor that brings all norms, and the norm `other` of the remaining block, into the ball."""
    if radius == np.inf:
        return 1.0
    whole = 0.0
    for m in range(work.norms.size):
        whole += work.norms[m] * work.norms[m]
    whole += other * other
    return min(1.0, radius / root(whole)) if whole > 0.0 else 1.0


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Data, Model, Work, Wrong, float64)" for f in REALS])
def add_dense_rows(F: Any, store: Any, data: Data, model: Model, work: Work, wrong: Wrong, eta: float) -> None:
    """Add the step to the scores of all dense kernels that are on, several matrices at a time."""
    on, active = 0, work.active
    for m in range(data.grams.kinds.size):
        if data.grams.kinds[m] == DENSE and work.norms[m] > 0.0:
            active.blocks[on], active.factors[on], on = m, -eta / model.table[SCALE, m], on + 1
    freshen(F, model, active, on, wrong)
    add_rows(F, store, data.grams, active, on, wrong)


@kernel([f"void({f}[:, :, ::1], {f}[:, ::1], Data, Model, int64, Wrong, float64)" for f in REALS])
def add_to_block(F: Any, store: Any, data: Data, model: Model, m: int, wrong: Wrong, eta: float) -> None:
    """Add the step to the coefficients or weights of a block, and to the scores of a sparse kernel."""
    grams, stamp, errors = data.grams, model.stamps[m], wrong.errors
    c = -eta / model.table[SCALE, m]
    if grams.kinds[m] == EXPLICIT:
        add_to_weights(data.explicit, grams.places[m], model.weights, stamp, wrong, c, model.table[SIGMA, m])
        return
    add_coefficients(model, m, wrong, c)
    model.counts[READ] += wrong.size
    if grams.kinds[m] == SPARSE:
        for j in range(wrong.size):
            t = errors.tokens[j]
            for s in range(errors.several[j]):
                y = errors.labels[j, s]
                if model.fmarks[m, y] != stamp:
                    F[m, y] = 0.0
                    model.fmarks[m, y] = stamp
                add_row(F[m, y], store, grams, m, wrong.first + t, c * errors.D[t, y])


@kernel([f"void({f}[:, :, ::1], Data, Model, int64, float64, float64)" for f in REALS])
def shrink_block(F: Any, data: Data, model: Model, m: int, before: float, after: float) -> None:
    """Shrink the norm of a block by its scale; renew the block if the scale or the norm became too small."""
    table = model.table
    table[SCALE, m] *= after / before
    table[SQUARED, m] = after**2
    table[PEAK, m] = max(table[PEAK, m], table[SQUARED, m])
    table[SIGMA, m] += table[SCALE, m]
    if table[SCALE, m] < SMALL or table[SQUARED, m] < FALLEN * table[PEAK, m]:
        if data.grams.kinds[m] == EXPLICIT:
            square = renew_weights(data.explicit, data.grams.places[m], model, m)
        else:
            square = renew_coefficients(F[m], model, m)
        table[SCALE, m], table[SQUARED, m], table[PEAK, m], table[SIGMA, m] = 1.0, square, square, 0.0


@kernel("void(Model, float64[:, ::1], float64, float64, float64)")
def move_transitions(model: Model, moves: Floats, eta: float, before: float, after: float) -> None:
    """Take the step on the transitions, and scale them from the norm `before` to `after`."""
    T, table, flat, last = model.T, model.table, model.T.reshape(-1), model.table.shape[1] - 1
    if eta > 0.0:
        c, steps, sums = -eta / table[SCALE, last], moves.reshape(-1), model.tsums.reshape(-1)
        for e in range(flat.size):
            flat[e] += c * steps[e]
        if model.averaged:
            c *= -table[SIGMA, last]
            for e in range(flat.size):
                sums[e] += c * steps[e]
    ratio = after / before if before > 0.0 else 0.0
    if ratio == 0.0 or table[SCALE, last] * ratio < SMALL:
        # The table is small, so the scale is moved into it at once.
        square = 0.0
        for p in range(T.shape[0]):
            for y in range(T.shape[0]):
                if model.averaged:
                    model.tsums[p, y] += table[SIGMA, last] * T[p, y]
                T[p, y] *= table[SCALE, last] * ratio
                square += T[p, y] * T[p, y]
        table[SCALE, last], table[SQUARED, last], table[SIGMA, last] = 1.0, square, 1.0
    else:
        table[SCALE, last] *= ratio
        table[SQUARED, last] = after**2
        table[SIGMA, last] += table[SCALE, last]


def _rounds(order: Ints, steps: Floats, F: Any, store: Any, data: Data, model: Model, rule: Rule, work: Work) -> float:
    """Run rounds from counts[AT] on, until rows are missing in the store; return the sum of losses."""
    counts, sequences, errors, norms = model.counts, data.sequences, work.errors, work.norms
    blocks, total = data.grams.kinds.size, 0.0
    while counts[AT] < order.size:
        r = counts[AT]
        q, eta = order[r], steps[r]
        a, b = sequences.offsets[q], sequences.offsets[q + 1]
        if b == a:
            counts[AT] += 1
            continue
        find_scores(F, data, model, errors, q, sequences.offsets[order[min(r + 1, order.size - 1)]])
        prefetch_sequence(data, model, q)
        loss, count = find_errors(rule, errors, sequences.gold[a:b])
        w = sequences.weight[q] if sequences.weight.size else 1.0
        # If all labels are right, or the weight is 0, there is no gradient, and only the prox is applied.
        count = count if w > 0.0 else 0
        eta_w = eta * w if count > 0 or is_sum(rule.loss.code) else 0.0
        wrong = Wrong(errors, a, count)
        prefetch_coefficients(model, wrong)
        inner_products(errors, count)
        find_norms(F, store, data, model, work, wrong, q, eta_w)
        rule.prox.function(norms, eta, rule.prox.reals, rule.prox.ints, norms)
        # If rows that the step needs are missing, return now: nothing has been changed yet.
        missing = missing_rows(data.grams, norms, wrong, counts[CLOCK], work.wanted) if eta_w > 0.0 else 0
        counts[CLOCK] += 1
        if missing > 0:
            counts[WANTED] = missing
            return total
        fixed = work.before[blocks] / (1.0 + eta * rule.strength) if sequences.chain and not rule.learnt else 0.0
        shrink = into_ball(work, fixed, rule.radius)
        if count > 0 and eta_w > 0.0:
            add_dense_rows(F, store, data, model, work, wrong, eta_w)
        for m in range(blocks):
            if norms[m] == 0.0:
                switch_off(data, model, m)
                continue
            if count > 0 and eta_w > 0.0:
                add_to_block(F, store, data, model, m, wrong, eta_w)
            shrink_block(F, data, model, m, work.before[m], shrink * norms[m])
        if sequences.chain:
            after = shrink * (norms[blocks] if rule.learnt else fixed)
            move_transitions(model, errors.moves, eta_w, work.before[blocks], after)
        if model.gradients.size and eta_w > 0.0:
            for j in range(count):
                for y in range(model.T.shape[0]):
                    model.gradients[a + errors.tokens[j], y] += w * errors.D[errors.tokens[j], y]
        total += w * loss
        counts[WRONG] += count
        counts[DECODED] += b - a
        counts[FAULTY] += 1 if count > 0 else 0
        counts[AT] += 1
    counts[WANTED] = 0
    return total


def _signature(f: str) -> str:
    return f"float64(int64[::1], float64[::1], {f}[:, :, ::1], {f}[:, ::1], Data, Model, Rule, Work)"


# One per precision of the Gram matrices; only the one in use is compiled.
rounds_single: Any = kernel(_signature("float32"))(_rounds)
rounds_double: Any = kernel(_signature("float64"))(_rounds)
