"""Compiled: rounds of learning. One round is one sentence: scores, a tree (or marginals), a step, a proximal step.

Weights are theta = scale * w for each template, so that a proximal step on block norms touches the scales alone.
Averages are lazy: the sum of theta over rounds is S w - u, where S sums the scale and every change d of w adds S d to
u. Before a scale goes into its weights, u takes what was summed so far (u - S w) and S starts again at zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.data.interning import Codes
from spom.decoders.inside_outside import inside_outside
from spom.decoders.nonprojective import matrix_tree
from spom.features.arc_spaces import (
    AT,
    BASE,
    BY_PAIR,
    BY_SET,
    CODES,
    LENGTHS,
    MASK,
    PAIR,
    SET,
    START,
    TABLE,
    VECTOR,
    WIDE,
    Shorts,
)
from spom.solvers.structured.trees.scoring import LAYOUT, SPACE, Singles, best_tree, prepare, score_arcs, to_matrix

# Losses.
MIRA, HINGE, PERCEPTRON, CRF = range(4)
# Rows of `blocks[kind, family, slot]`: scale, sum of scales, squared norm of theta, progressive score, and 1 for a
# template of the set.
SCALE, SUM, NORM, PROGRESS, ACTIVE = range(5)
# An arc whose expectation is this near to the truth is left alone.
SMALL = 1e-3


@kernel(f"void({TABLE}, {VECTOR}, {SPACE}, int64, float64, float32[::1], float32[::1], float64[:, :, ::1], boolean)")
def change_arc(
    families: Ints,
    sets: Ints,
    arcs: Ints,
    heads: Ints,
    modifiers: Ints,
    tags: Ints,
    counts: Ints,
    pairs: Ints,
    a: int,
    change: float,
    weights: Singles,
    sums: Singles,
    blocks: Floats,
    apply: bool,
) -> None:
    """Add `change` to theta at all features of arc a.

    Without `apply` nothing moves; instead `change` times what each template scores goes to its progressive score.
    """
    h, m = arcs[0, a], arcs[1, a]
    for f in range(families.shape[0]):
        mask, which, pair = families[f, MASK], families[f, SET], families[f, PAIR]
        row = heads[f, h] + modifiers[f, m]
        if pair >= 0:
            row += pairs[pair, a] * families[f, BY_PAIR]
        k, many = 0, 1
        if which >= 0:
            while sets[k] != which:
                k += 1
            many = counts[k, h, m]
        side = 0 if h < m else 1
        for t in range(many):
            at = row + tags[k, h, side, t] * families[f, BY_SET] if which >= 0 else row
            i = families[f, START] + (at & mask) * families[f, WIDE]
            for slot in range(3):
                if families[f, AT + slot] < 0:
                    continue
                j = i + families[f, AT + slot] + (0 if slot == 0 else arcs[1 + slot, a])
                scale = blocks[SCALE, f, slot]
                old, step = np.float64(weights[j]) * scale, change / scale
                if not apply:
                    blocks[PROGRESS, f, slot] += change * old
                    continue
                blocks[NORM, f, slot] += change * (2.0 * old + change)
                weights[j] += np.float32(step)
                sums[j] += np.float32(step * blocks[SUM, f, slot])


@kernel(f"int64({TABLE}, {VECTOR}, int64[:, ::1], int64[:, :, ::1], int64)")
def features_of(families: Ints, sets: Ints, arcs: Ints, counts: Ints, a: int) -> int:
    """How many features arc a has: one for each template, for those with words between one for each of their tags."""
    found = 0
    for f in range(families.shape[0]):
        slots, k = 0, 0
        for slot in range(3):
            slots += families[f, AT + slot] >= 0
        if families[f, SET] >= 0:
            while sets[k] != families[f, SET]:
                k += 1
            slots *= counts[k, arcs[0, a], arcs[1, a]]
        found += slots
    return int(found)


@kernel(f"void({TABLE}, int64, int64, int64, float32[::1], float32[::1], float64[:, :, ::1])")
def fold(families: Ints, f: int, slot: int, rows: int, weights: Singles, sums: Singles, blocks: Floats) -> None:
    """Put a template's scale into its weights and what was summed into `sums`; its norm is summed up again."""
    scale, sum_ = blocks[SCALE, f, slot], blocks[SUM, f, slot]
    norm = 0.0
    for row in range(rows):
        begin = families[f, START] + row * families[f, WIDE] + families[f, AT + slot]
        for j in range(begin, begin + LENGTHS[slot]):
            w = np.float64(weights[j])
            if w != 0.0:
                sums[j] -= np.float32(sum_ * w)
                weights[j] = np.float32(scale * w)
                norm += (scale * w) ** 2
    blocks[SCALE, f, slot], blocks[SUM, f, slot], blocks[NORM, f, slot] = 1.0, 0.0, norm


@kernel(
    f"void({TABLE}, int64, float64, FunctionType({PROX}), float64[::1], int64[::1], int64[:, ::1], float32[::1], "
    "float32[::1], float64[:, :, ::1])"
)
def proximal_step(
    families: Ints,
    total_rows: int,
    step: float,
    prox: Any,
    reals: Floats,
    ints: Ints,
    places: Ints,
    weights: Singles,
    sums: Singles,
    blocks: Floats,
) -> None:
    """The prox of the penalty on the block norms; each template is scaled to its new norm."""
    count = places.shape[0]
    norms, after = np.empty(count), np.empty(count)
    for b in range(count):
        norms[b] = math.sqrt(max(blocks[NORM, places[b, 0], places[b, 1]], 0.0))
    prox(norms, step, reals, ints, after)
    for b in range(count):
        f, slot = places[b, 0], places[b, 1]
        if norms[b] == 0.0 or after[b] == norms[b]:
            continue
        ratio = after[b] / norms[b]
        blocks[SCALE, f, slot] *= ratio
        blocks[NORM, f, slot] *= ratio * ratio
        if blocks[SCALE, f, slot] < 1e-6:
            end = families[f + 1, BASE] if f + 1 < families.shape[0] else total_rows
            fold(families, f, slot, end - families[f, BASE], weights, sums, blocks)


@kernel(
    f"float64({CODES}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {LAYOUT}, float32[::1], "
    f"float32[::1], float64[:, :, ::1], int64, boolean, float64, float64[::1], boolean, FunctionType({PROX}), "
    "float64[::1], int64[::1], int64[:, ::1], int64, boolean)"
)
def learn(
    codes: Codes,
    kinds: Ints,
    first: Ints,
    sizes: Ints,
    guides: Ints,
    gold: Ints,
    order: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    sets: Ints,
    column: int,
    upos: int,
    limits: Shorts,
    weights: Singles,
    sums: Singles,
    blocks: Floats,
    loss: int,
    projective: bool,
    cost: float,
    steps: Floats,
    penalised: bool,
    prox: Any,
    reals: Floats,
    ints: Ints,
    places: Ints,
    total_rows: int,
    ranking: bool,
) -> float:
    """One round for each sentence of `order`, with its step (for MIRA the largest step); the sum of the losses met."""
    longest = 0
    for t in range(order.size):
        longest = max(longest, sizes[order[t]])
    N, F = longest + 1, families.shape[0]
    arcs = np.empty((4, N * N), dtype=np.int64)
    heads, modifiers = np.empty((F, N), dtype=np.int64), np.empty((F, N), dtype=np.int64)
    tags, counts = np.empty((sets.size, N, 2, N), dtype=np.int64), np.empty((sets.size, N, N), dtype=np.int64)
    pairs = np.empty((4, N * N), dtype=np.int64)
    scores, scales = np.empty(N * N, dtype=np.float32), np.empty((F, 3), dtype=np.float32)
    which, found = np.empty(N * N, dtype=np.int64), np.empty(N, dtype=np.int64)
    total = 0.0
    for t in range(order.size):
        s = order[t]
        n, at = sizes[s], first[s]
        if n == 0:
            continue
        guide = guides[at : at + n + 1].copy() if guides.size else np.empty(0, dtype=np.int64)
        count = prepare(
            codes, kinds, at, n, guide, ends, atoms, families, sets, column, upos, limits,
            arcs, heads, modifiers, tags, counts, pairs,
        )  # fmt: skip
        for f in range(F):
            for slot in range(3):
                scales[f, slot] = blocks[SCALE, f, slot] * blocks[ACTIVE, f, slot]
        score_arcs(
            families, sets, arcs, heads, modifiers, tags, counts, pairs, count, n, weights, scales, penalised, scores
        )
        matrix, tree = np.empty((n + 1, n + 1)), np.empty(n, dtype=np.int64)
        # Of each arc: whether it is gold (bit 1), and whether it is in the tree (bit 2).
        for a in range(count):
            right = gold[at + arcs[1, a]] == arcs[0, a]
            which[a] = 1 if right else 0
            if loss < 2 and not right:
                scores[a] += np.float32(cost)
        to_matrix(arcs, count, scores, matrix)
        step = steps[t]
        if loss == 3:
            marginals = np.empty((n + 1, n + 1))
            log_partition = (
                inside_outside(matrix, True, marginals) if projective else matrix_tree(matrix, True, marginals)
            )
            total += log_partition
            for a in range(count):
                if which[a] == 1:
                    total -= scores[a]
            # First what was known, then the step: an arc shares features with others of its sentence.
            for attempt in range(0 if ranking else 1, 2):
                for a in range(count):
                    change = which[a] - marginals[arcs[0, a], arcs[1, a]]
                    if abs(change) > SMALL:
                        change_arc(
                            families, sets, arcs, heads, modifiers, tags, counts, pairs, a,
                            change if attempt == 0 else step * change, weights, sums, blocks, attempt == 1,
                        )  # fmt: skip
        else:
            best_tree(matrix, projective, tree)
            hinge, features, wrong = 0.0, 0, 0
            for m in range(1, n + 1):
                found[m] = tree[m - 1]
            for a in range(count):
                h, m = arcs[0, a], arcs[1, a]
                if found[m] == h:
                    which[a] += 2
                    hinge += scores[a]
                if which[a] & 1:
                    hinge -= scores[a]
                wrong += which[a] == 2
            # A perceptron moves at ties too: at zero there is nothing else.
            if wrong > 0 and (hinge > 0.0 or loss == 2):
                total += hinge
                for a in range(count):
                    if which[a] == 1 or which[a] == 2:
                        features += features_of(families, sets, arcs, counts, a)
                        if ranking:
                            change_arc(
                                families, sets, arcs, heads, modifiers, tags, counts, pairs, a,
                                1.0 if which[a] == 1 else -1.0, weights, sums, blocks, False,
                            )  # fmt: skip
                if loss == 0:
                    step = min(steps[t], hinge / features)
                for a in range(count):
                    if which[a] == 1 or which[a] == 2:
                        change_arc(
                            families, sets, arcs, heads, modifiers, tags, counts, pairs, a,
                            step if which[a] == 1 else -step, weights, sums, blocks, True,
                        )  # fmt: skip
        if penalised:
            proximal_step(families, total_rows, steps[t], prox, reals, ints, places, weights, sums, blocks)
        for f in range(F):
            for slot in range(3):
                blocks[SUM, f, slot] += blocks[SCALE, f, slot]
    return total
