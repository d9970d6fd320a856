"""Compiled: the relation of each word to its head, given the tree. A row of weights has one entry for each relation."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.data.interning import Codes
from spom.features.arc_spaces import (
    BASE,
    BY_PAIR,
    BY_SET,
    CODES,
    MASK,
    PAIR,
    SET,
    TABLE,
    VECTOR,
    addends,
    distance_bin,
    pair_codes,
    side_codes,
)
from spom.solvers.structured.trees.scoring import WEIGHTS, Singles


@kernel(f"void({CODES}, {VECTOR}, int64, int64, int64[::1], {VECTOR}, {TABLE}, {TABLE}, int64, int64[:, ::1])")
def label_rows(
    codes: Codes,
    kinds: Ints,
    first: int,
    n: int,
    tree: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    upos: int,
    rows: Ints,
) -> None:
    """rows[m, f]: the row of template f for the arc into word m (from 1) of a tree."""
    F = families.shape[0]
    sides = np.empty((ends.size - 1, n + 1), dtype=np.int64)
    heads, modifiers = np.empty((F, n + 1), dtype=np.int64), np.empty((F, n + 1), dtype=np.int64)
    arcs, pairs = np.empty((2, n), dtype=np.int64), np.empty((4, n), dtype=np.int64)
    side_codes(codes, first, n, tree, ends, atoms, sides)
    addends(families, sides, n, heads, modifiers)
    # What a template's slot adds, for each kind of slot: nothing, the direction, direction and distance.
    slots = np.zeros((3, n + 1), dtype=np.int64)
    for m in range(1, n + 1):
        h = tree[m]
        arcs[0, m - 1], arcs[1, m - 1] = h, m
        slots[1, m] = 0 if h < m else 1
        slots[2, m] = 6 * slots[1, m] + distance_bin(abs(m - h))
    for which in range(4):
        for f in range(F):
            if families[f, PAIR] == which:
                pair_codes(kinds, first, n, tree, codes, upos, arcs, n, which, pairs[which])
                break
    for f in range(F):
        mask, base, pair = families[f, MASK], families[f, BASE], families[f, PAIR]
        as_head, as_modifier, slot, by_slot = heads[f], modifiers[f], slots[families[f, SET]], families[f, BY_SET]
        for m in range(1, n + 1):
            row = as_head[np.uint64(tree[m])] + as_modifier[m] + slot[m] * by_slot
            if pair >= 0:
                row += pairs[pair, m - 1] * families[f, BY_PAIR]
            rows[m, f] = base + (row & mask)


@kernel(f"void({WEIGHTS}, int64[:, ::1], int64, int64, float32[::1])")
def score_labels(weights: Singles, words: Ints, m: int, width: int, out: Singles) -> None:
    """The score of each relation of word m: the sum of its rows. Those of the next word are asked for."""
    out[:] = 0.0
    rows, following = words[m], words[min(m + 1, words.shape[0] - 1)]
    for f in range(rows.size):
        # A line of the cache holds 16 numbers.
        for y in range(0, width, 16):
            prefetch(weights, following[f] * width + y)
        row = weights[rows[f] * width : rows[f] * width + width]
        for y in range(width):
            out[y] += row[y]


LABELS = f"{CODES}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {TABLE}, {TABLE}, int64, int64, int64"


@kernel(f"float64({LABELS}, {VECTOR}, {VECTOR}, float32[::1], float32[::1], float64, float64)")
def learn_labels(
    codes: Codes,
    kinds: Ints,
    first: Ints,
    sizes: Ints,
    trees: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    upos: int,
    count: int,
    width: int,
    gold: Ints,
    order: Ints,
    weights: Singles,
    sums: Singles,
    most: float,
    rounds: float,
) -> float:
    """A margin step of at most `most` for each word whose gold relation does not win by one; the sum of the losses."""
    F = families.shape[0]
    scores, total = np.empty(width, dtype=np.float32), 0.0
    for t in range(order.size):
        s = order[t]
        n, a = sizes[s], first[s]
        if n == 0:
            continue
        rows = np.empty((n + 1, F), dtype=np.int64)
        label_rows(codes, kinds, a, n, trees[a : a + n + 1].copy(), ends, atoms, families, upos, rows)
        for m in range(1, n + 1):
            y = gold[a + m]
            score_labels(weights, rows, m, width, scores)
            other, best = -1, -np.inf
            for k in range(count):
                if k != y and scores[k] > best:
                    other, best = k, np.float64(scores[k])
            loss = 1.0 + best - np.float64(scores[y])
            rounds += 1.0
            if other < 0 or loss <= 0.0:
                continue
            total += loss
            step = min(most, loss / (2.0 * F))
            for f in range(F):
                i = rows[m, f] * width
                weights[i + y] += np.float32(step)
                weights[i + other] -= np.float32(step)
                sums[i + y] += np.float32(step * (rounds - 1.0))
                sums[i + other] -= np.float32(step * (rounds - 1.0))
    return total


@kernel(f"void({LABELS}, {WEIGHTS}, int64, int64[::1], int64, int64)")
def find_labels(
    codes: Codes,
    kinds: Ints,
    first: Ints,
    sizes: Ints,
    trees: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    upos: int,
    count: int,
    width: int,
    weights: Singles,
    root: int,
    out: Ints,
    begin: int,
    end: int,
) -> None:
    """The best relation of each word of the sentences begin..end-1, laid out as the codes are.

    `root`, where it is not -1, is the relation that words below the root have, and no others.
    """
    F = families.shape[0]
    scores = np.empty(width, dtype=np.float32)
    for s in range(begin, end):
        n, a = sizes[s], first[s]
        rows = np.empty((n + 1, F), dtype=np.int64)
        if n == 0:
            continue
        label_rows(codes, kinds, a, n, trees[a : a + n + 1].copy(), ends, atoms, families, upos, rows)
        for m in range(1, n + 1):
            score_labels(weights, rows, m, width, scores)
            if trees[a + m] == 0 and root >= 0:
                out[a + m] = root
                continue
            best = -1
            for k in range(count):
                if k != root and (best < 0 or scores[k] > scores[best]):
                    best = k
            out[a + m] = max(best, 0)
