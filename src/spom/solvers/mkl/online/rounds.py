"""One round of SPOM after another, with kernels and explicit features, compiled (Alg. 3 of Martins et al. 2011).

Each block is theta_m = scale_m * (sum over tokens i and labels y of A_m[y, i] phi_m(x_i) at y). A round decodes one
sequence from cached scores, finds the norms that the blocks would have after the step from K within the sequence
alone, shrinks these norms, and touches rows of a Gram matrix only for tokens that were wrong and blocks that are on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.solvers.mkl.online.coefficients import (
    add_coefficients,
    add_weights,
    keep_average,
    keep_average_weights,
    renew,
    renew_weights,
)
from spom.solvers.mkl.online.gram_rows import add_rows, add_sparse_row, ask_for_row, freshen
from spom.solvers.mkl.online.pieces import (
    add_explicit_scores,
    add_scaled,
    add_scores,
    along_explicit,
    along_gradient,
    ask_for_coefficients,
    ask_for_scores,
    ask_for_sequence,
    decode,
    gradient_square,
    inner_products,
    pair_products,
    root,
    set_scaled,
    wrong_tokens,
)

# Rows of the table of blocks; the last column is the transitions.
SCALE, SQUARED, PEAK, SIGMA = range(4)
# Kinds of blocks.
DENSE, SPARSE, EXPLICIT = range(3)
# A scale below this is put into the coefficients: float32 scores stay far from overflow.
SMALL = 1e-9
# Entries of `counts`: the position in the order, the clock of the cache, rows wanted, tokens that were wrong, rows
# of Gram matrices that were read, tokens decoded, sequences with an error.
AT, CLOCK, WANTED, WRONG, READ, DECODED, ERRORS = range(7)


def _rounds(
    order: Ints,
    steps: Floats,
    offsets: Ints,
    gold: Ints,
    weight: Floats,
    chain: bool,
    learnt: bool,
    mode: int,
    cost: float,
    tolerance: float,
    kinds: Ints,
    places: Ints,
    F: Any,
    fmarks: Ints,
    A: Floats,
    amarks: Ints,
    stamps: Ints,
    sums: Floats,
    averaged: bool,
    store: Any,
    slots: Ints,
    ages: Ints,
    sparse_ptr: Ints,
    sparse_indices: Any,
    sparse_values: Any,
    ptr: Ints,
    indices: Any,
    values: Any,
    shapes: Ints,
    V: Floats,
    vmarks: Ints,
    vsums: Floats,
    T: Floats,
    tsums: Floats,
    local: Floats,
    starts: Ints,
    table: Floats,
    prox: Any,
    prox_reals: Floats,
    prox_ints: Ints,
    strength: float,
    radius: float,
    frozen: Any,
    gradients: Floats,
    wanted: Ints,
    counts: Ints,
) -> float:
    """Rounds from counts[AT] on; stops early where rows are wanted that are not in the store. The sum of losses."""
    blocks, k = kinds.size, T.shape[0]
    last = blocks
    longest = 1
    for e in range(offsets.size - 1):
        longest = max(longest, offsets[e + 1] - offsets[e])
    scores, errors = np.empty((longest, k)), np.empty((longest, k))
    transition, moves, tokens = np.zeros((k, k)), np.empty((k, k)), np.empty(longest, dtype=np.int64)
    active, factors = np.empty(blocks, dtype=np.int64), np.empty(blocks)
    inner, labels = np.empty((longest, longest)), np.empty((longest, k), dtype=np.int64)
    several = np.empty(longest, dtype=np.int64)
    norms, before = np.empty(blocks + (1 if chain and learnt else 0)), np.empty(blocks + 1)
    flat, rows, total = T.reshape(-1), store.reshape(-1), 0.0
    while counts[AT] < order.size:
        r = counts[AT]
        q, eta = order[r], steps[r]
        a, b = offsets[q], offsets[q + 1]
        length = b - a
        if length == 0:
            counts[AT] += 1
            continue
        unary, D = scores[:length], errors[:length]
        unary[:] = 0.0
        for m in range(blocks):
            if table[SQUARED, m] > 0.0:
                if kinds[m] == EXPLICIT:
                    e = places[m]
                    shift, base, dense = shapes[e, 0], shapes[e, 1], shapes[e, 2]
                    scale = table[SCALE, m]
                    add_explicit_scores(
                        ptr[e], indices, values, shift, base, dense, V, vmarks, stamps[m], scale, a, b, unary
                    )
                else:
                    add_scores(F, fmarks, stamps, m, table[SCALE, m], a, b, unary)
                    ask_for_scores(F, m, offsets[order[min(r + 1, order.size - 1)]])
        if chain:
            set_scaled(flat, table[SCALE, last], transition.reshape(-1))
        w = weight[q] if weight.size else 1.0
        ask_for_sequence(local, starts[q], length, amarks, slots, a, b)
        loss = decode(unary, transition, gold[a:b], cost, mode, D, moves)
        # Where all is right, or the sequence does not count, there is no gradient: the prox is all.
        eta_w, count = 0.0, 0
        if loss >= 0.0 and w > 0.0:
            eta_w, count = eta * w, wrong_tokens(D, tolerance, tokens, labels, several)
            ask_for_coefficients(A, a, tokens, labels, several, count)
            inner_products(D, tokens, labels, several, count, inner)
        loss = w * max(loss, 0.0)
        # Norms after the gradient step: norm^2 - 2 eta <theta, g> + eta^2 norm(g)^2.
        for m in range(blocks):
            square = table[SQUARED, m]
            if count > 0 and eta_w > 0.0 and not frozen[m]:
                along = 0.0
                if square > 0.0:
                    if kinds[m] == EXPLICIT:
                        e = places[m]
                        shift, base, dense = shapes[e, 0], shapes[e, 1], shapes[e, 2]
                        along = along_explicit(
                            ptr[e], indices, values, shift, base, dense, V, vmarks, stamps[m], D, tokens, count, a
                        )
                    else:
                        if kinds[m] == DENSE:
                            ask_for_row(rows, slots[places[m], a + tokens[0]] * store.shape[1], store.shape[1])
                        along = along_gradient(F, fmarks, stamps, m, D, tokens, labels, several, count, a)
                own = gradient_square(inner, tokens, count, local[m], starts[q], length)
                square += eta_w * (eta_w * own - 2.0 * table[SCALE, m] * along)
            before[m] = 0.0 if frozen[m] else root(square)
            norms[m] = before[m]
        if chain:
            square = table[SQUARED, last]
            if eta_w > 0.0:
                along, own = pair_products(moves.reshape(-1), flat)
                square += eta_w * (eta_w * own - 2.0 * table[SCALE, last] * along)
            before[last] = root(square)
            if learnt:
                norms[last] = before[last]
        prox(norms, eta, prox_reals, prox_ints, norms)
        # Are all rows there that the step needs? If not, nothing has been changed yet.
        missing = 0
        for m in range(blocks):
            if norms[m] > 0.0 and kinds[m] == DENSE and eta_w > 0.0:
                for e in range(count):
                    slot = slots[places[m], a + tokens[e]]
                    if slot < 0:
                        wanted[missing] = places[m] * gold.size + a + tokens[e]
                        missing += 1
                    elif ages.size:
                        ages[slot] = counts[CLOCK]
        counts[CLOCK] += 1
        if missing > 0:
            counts[WANTED] = missing
            return total
        shrink = 1.0
        if radius < np.inf:
            whole = 0.0
            for m in range(norms.size):
                whole += norms[m] * norms[m]
            if chain and not learnt:
                whole += (before[last] / (1.0 + eta * strength)) ** 2
            shrink = min(1.0, radius / root(whole)) if whole > 0.0 else 1.0
        if count > 0 and eta_w > 0.0:
            # Rows of dense matrices first, several matrices at a time.
            on = 0
            for m in range(blocks):
                if kinds[m] == DENSE and norms[m] > 0.0:
                    active[on], factors[on], on = m, -eta_w / table[SCALE, m], on + 1
            freshen(F, fmarks, stamps, active, on, labels, several, count)
            add_rows(F, active, factors, on, store, slots, places, a, D, tokens, labels, several, count)
        for m in range(blocks):
            stamp, e = stamps[m], places[m]
            if norms[m] == 0.0:
                if table[SQUARED, m] > 0.0:
                    if averaged:
                        if kinds[m] == EXPLICIT:
                            low, high = shapes[e, 1], shapes[e, 1] + shapes[e, 3]
                            keep_average_weights(V[low:high], vmarks[low:high], stamp, vsums[low:high], table[SIGMA, m])
                        else:
                            keep_average(A[m], amarks[m], stamp, sums[m], table[SIGMA, m])
                    stamps[m] += 1
                table[SCALE, m], table[SQUARED, m], table[PEAK, m], table[SIGMA, m] = 1.0, 0.0, 0.0, 0.0
                continue
            if count > 0 and eta_w > 0.0:
                c = -eta_w / table[SCALE, m]
                sigma = table[SIGMA, m]
                if kinds[m] == EXPLICIT:
                    shift, base, dense = shapes[e, 0], shapes[e, 1], shapes[e, 2]
                    add_weights(
                        *(V, vmarks, stamp, vsums, averaged, ptr[e], indices, values, shift, base, dense),
                        *(a, D, tokens, labels, several, count, c, sigma),
                    )
                else:
                    add_coefficients(
                        A[m], amarks[m], stamp, sums[m], averaged, a, D, tokens, labels, several, count, c, sigma
                    )
                    counts[READ] += count
                if kinds[m] == SPARSE:
                    for j in range(count):
                        t = tokens[j]
                        first, end = sparse_ptr[e, a + t], sparse_ptr[e, a + t + 1]
                        for s in range(several[j]):
                            y = labels[j, s]
                            fresh = fmarks[m, y] == stamp
                            add_sparse_row(F[m, y], sparse_indices, sparse_values, first, end, c * D[t, y], fresh)
                            fmarks[m, y] = stamp
            table[SCALE, m] *= shrink * norms[m] / before[m]
            table[SQUARED, m] = (shrink * norms[m]) ** 2
            table[PEAK, m] = max(table[PEAK, m], table[SQUARED, m])
            table[SIGMA, m] += table[SCALE, m]
            # Where most of a norm was lost its rounding errors were not.
            if table[SCALE, m] < SMALL or table[SQUARED, m] < 1e-4 * table[PEAK, m]:
                if kinds[m] == EXPLICIT:
                    low, high = shapes[e, 1], shapes[e, 1] + shapes[e, 3]
                    square = renew_weights(
                        *(V[low:high], vmarks[low:high], vsums[low:high], averaged, stamp),
                        *(table[SCALE, m], table[SIGMA, m]),
                    )
                else:
                    square = renew(
                        *(F[m], fmarks[m], A[m], amarks[m], sums[m], averaged, stamp),
                        *(table[SCALE, m], table[SIGMA, m]),
                    )
                table[SCALE, m], table[SQUARED, m], table[PEAK, m], table[SIGMA, m] = 1.0, square, square, 0.0
        if chain:
            after = norms[last] if learnt else before[last] / (1.0 + eta * strength)
            if eta_w > 0.0:
                c = -eta_w / table[SCALE, last]
                add_scaled(moves.reshape(-1), c, flat)
                if averaged:
                    add_scaled(moves.reshape(-1), -table[SIGMA, last] * c, tsums.reshape(-1))
            ratio = shrink * after / before[last] if before[last] > 0.0 else 0.0
            if ratio == 0.0 or table[SCALE, last] * ratio < SMALL:
                # A small table: the scale goes into it at once.
                square = 0.0
                for p in range(k):
                    for y in range(k):
                        if averaged:
                            tsums[p, y] += table[SIGMA, last] * T[p, y]
                        T[p, y] *= table[SCALE, last] * ratio
                        square += T[p, y] * T[p, y]
                table[SCALE, last], table[SQUARED, last], table[SIGMA, last] = 1.0, square, 1.0
            else:
                table[SCALE, last] *= ratio
                table[SQUARED, last] = (shrink * after) ** 2
                table[SIGMA, last] += table[SCALE, last]
        if gradients.size and eta_w > 0.0:
            for j in range(count):
                for y in range(k):
                    gradients[a + tokens[j], y] += w * D[tokens[j], y]
        total += loss
        counts[WRONG] += count
        counts[DECODED] += length
        counts[ERRORS] += 1 if count > 0 else 0
        counts[AT] += 1
    counts[WANTED] = 0
    return total


def _signature(f: str) -> str:
    return (
        "float64(int64[::1], float64[::1], int64[::1], int64[::1], float64[::1], boolean, boolean, int64, float64,"
        " float64,"
        f" int64[::1], int64[::1], {f}[:, :, ::1], int64[:, ::1], float64[:, :, ::1], int64[:, ::1], int64[::1],"
        f" float64[:, :, ::1], boolean, {f}[:, ::1], int64[:, ::1], int64[::1], int64[:, ::1], int32[::1], {f}[::1],"
        f" int64[:, ::1], int32[::1], {f}[::1], int64[:, ::1], float64[:, ::1], int64[::1], float64[:, ::1],"
        " float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], float64[:, ::1],"
        f" FunctionType({PROX}), float64[::1], int64[::1], float64, float64, boolean[::1], float64[:, ::1], int64[::1],"
        " int64[::1])"
    )


# One for each precision of the Gram matrices; only what is used is compiled.
rounds_single: Any = kernel(_signature("float32"))(_rounds)
rounds_double: Any = kernel(_signature("float64"))(_rounds)
