"""Compiled: the relation of each word to its head, given the tree. A row of weights has one entry per relation."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, Singles
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.features.arc_spaces import (
    BASE,
    BY_PAIR,
    BY_SET,
    HEAD_OF,
    MASK,
    MODIFIER_OF,
    PAIR,
    SET,
    VECTOR,
    Corpus,
    Sentence,
    addends,
    distance_bin,
    pair_codes,
    sentence_of,
    side_codes,
)
from spom.solvers.structured.trees.space import WEIGHTS, Layout

Ids = NDArray[np.int32]


class Relations(NamedTuple):
    """`total` relations; a row of weights has `width` entries. `root` is that of words below the root, or -1."""

    total: Annotated[int, "int64"]
    width: Annotated[int, "int64"]
    root: Annotated[int, "int64"]


class LabelTable(NamedTuple):
    """Only the non-zero rows of weights, after one zero row: row r is at places[r]."""

    places: Annotated[Ids, "int32[::1]"]
    weights: Annotated[Singles, WEIGHTS]


class LabelSums(NamedTuple):
    """Weights of relations (and a view of them for scoring), the sums of their mean, and the largest step.

    Row r is at places[r], or at r if there are no places.
    """

    places: Annotated[Ids, "int32[::1]"]
    weights: Annotated[Singles, "float32[::1]"]
    fixed: Annotated[Singles, WEIGHTS]
    sums: Annotated[Singles, "float32[::1]"]
    most: Annotated[float, "float64"]


@kernel("void(Sentence, Layout, int64[:, ::1])")
def label_rows(sentence: Sentence, layout: Layout, rows: Ints) -> None:
    """rows[m, f] = the row of template f for the arc into word m (from 1) of the sentence's tree."""
    families, tree, n = layout.families, sentence.guide, sentence.n
    F = families.shape[0]
    sides = np.empty((layout.ends.size - 1, n + 1), dtype=np.int64)
    heads, modifiers = np.empty((F, n + 1), dtype=np.int64), np.empty((F, n + 1), dtype=np.int64)
    arcs, pairs = np.empty((2, n), dtype=np.int64), np.empty((4, n), dtype=np.int64)
    side_codes(sentence, layout.ends, layout.atoms, sides)
    addends(families, sides, n, heads, modifiers)
    # The code of each kind of slot: nothing, the direction, direction and distance.
    slots = np.zeros((3, n + 1), dtype=np.int64)
    for m in range(1, n + 1):
        h = tree[m]
        arcs[HEAD_OF, m - 1], arcs[MODIFIER_OF, m - 1] = h, m
        slots[1, m] = 0 if h < m else 1
        slots[2, m] = 6 * slots[1, m] + distance_bin(abs(m - h))
    for which in range(4):
        for f in range(F):
            if families[f, PAIR] == which:
                pair_codes(sentence, layout.upos, arcs, n, which, pairs[which])
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
    """Compute the score of each relation of word m, as the sum of its rows; prefetch those of the next word."""
    out[:] = 0.0
    rows, following = words[m], words[min(m + 1, words.shape[0] - 1)]
    for f in range(rows.size):
        # A line of the cache holds 16 numbers.
        for y in range(0, width, 16):
            prefetch(weights, following[f] * width + y)
        row = weights[rows[f] * width : rows[f] * width + width]
        for y in range(width):
            out[y] += row[y]


@kernel("int64(float32[::1], int64, int64)")
def best_other(scores: Singles, count: int, y: int) -> int:
    """Return the best relation except y, or -1; ties go to the lower one."""
    best = -1
    for k in range(count):
        if k != y and (best < 0 or scores[k] > scores[best]):
            best = k
    return best


@kernel("void(Corpus, int64, Layout, boolean[::1])")
def mark_rows(corpus: Corpus, count: int, layout: Layout, used: NDArray[np.bool_]) -> None:
    """used[r] = True for the rows of the arcs of the first `count` sentences; the trees are the guides."""
    for s in range(count):
        sentence = sentence_of(corpus, s)
        rows = np.empty((sentence.n + 1, layout.families.shape[0]), dtype=np.int64)
        label_rows(sentence, layout, rows)
        for m in range(1, sentence.n + 1):
            for f in range(rows.shape[1]):
                used[rows[m, f]] = True


@kernel(f"float64(Corpus, {VECTOR}, int64[::1], Layout, Relations, LabelSums, float64)")
def learn_labels(
    corpus: Corpus, gold: Ints, order: Ints, layout: Layout, relations: Relations, to: LabelSums, rounds: float
) -> float:
    """Take a margin step for each word whose gold relation does not win by 1; return the sum of the losses.

    The trees are the guides of the corpus; `rounds` words were seen before.
    """
    F, width, weights, sums = layout.families.shape[0], relations.width, to.weights, to.sums
    scores, total = np.empty(width, dtype=np.float32), 0.0
    for s in order:
        sentence = sentence_of(corpus, s)
        n, a = sentence.n, sentence.first
        if n == 0:
            continue
        rows = np.empty((n + 1, F), dtype=np.int64)
        label_rows(sentence, layout, rows)
        if to.places.size:
            for m in range(1, n + 1):
                for f in range(F):
                    rows[m, f] = to.places[rows[m, f]]
        for m in range(1, n + 1):
            y = gold[a + m]
            score_labels(to.fixed, rows, m, width, scores)
            other = best_other(scores, relations.total, y)
            rounds += 1.0
            if other < 0:
                continue
            loss = 1.0 + np.float64(scores[other]) - np.float64(scores[y])
            if loss <= 0.0:
                continue
            total += loss
            step = min(to.most, loss / (2.0 * F))
            for f in range(F):
                i = rows[m, f] * width
                weights[i + y] += np.float32(step)
                weights[i + other] -= np.float32(step)
                sums[i + y] += np.float32(step * (rounds - 1.0))
                sums[i + other] -= np.float32(step * (rounds - 1.0))
    return total


@kernel("void(Corpus, int64[::1], Layout, Relations, LabelTable, int64[::1])")
def find_labels(
    corpus: Corpus, order: Ints, layout: Layout, relations: Relations, table: LabelTable, out: Ints
) -> None:
    """Find the best relation of each word of some sentences, in the layout of the codes; the trees are the guides.

    Words below the root get the relation of the root, if there is one, and no other words get it.
    """
    F, root = layout.families.shape[0], relations.root
    scores = np.empty(relations.width, dtype=np.float32)
    for s in order:
        sentence = sentence_of(corpus, s)
        n, a = sentence.n, sentence.first
        if n == 0:
            continue
        rows = np.empty((n + 1, F), dtype=np.int64)
        label_rows(sentence, layout, rows)
        for m in range(1, n + 1):
            for f in range(F):
                rows[m, f] = table.places[rows[m, f]]
        for m in range(1, n + 1):
            score_labels(table.weights, rows, m, relations.width, scores)
            if sentence.guide[m] == 0 and root >= 0:
                out[a + m] = root
                continue
            out[a + m] = max(best_other(scores, relations.total, root), 0)
