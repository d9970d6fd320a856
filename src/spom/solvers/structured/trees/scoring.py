"""Compiled: scores of all arcs of a sentence, and the best tree for them.

Reading weights at random places takes nearly all the time. So the families are the outer loop: within one, the reads
of all arcs stay in that family's table, and they are prefetched while the previous family is summed.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, Singles
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.decoders.arborescence import arborescence
from spom.decoders.eisner import eisner
from spom.features.arc_spaces import (
    AT,
    BIN,
    BY_PAIR,
    BY_SET,
    HEAD_OF,
    LENGTHS,
    LIMITS,
    MASK,
    MODIFIER_OF,
    PAIR,
    SET,
    SIDE,
    START,
    TABLE,
    VECTOR,
    WIDE,
    Corpus,
    Shorts,
    longest_sentence,
    sentence_of,
)
from spom.solvers.structured.trees.space import WEIGHTS, Layout, Places, Space, index_of, make_space, prepare

# The weights of a word for all slots: plain, two directions, twelve bins.
SLOTS = sum(LENGTHS)


@kernel(
    f"void(Layout, int64, Space, int64, {WEIGHTS}, float32[:, ::1], float32[::1])",
    fastmath={"contract"},
)
def score_sets(
    layout: Layout, f: int, space: Space, count: int, weights: Singles, scales: Singles, out: Singles
) -> None:
    """Add the scores of a family with a set of words between: one row per tag between."""
    family, arcs, pairs = layout.families[f], space.arcs, space.pairs
    k = index_of(layout.sets, family[SET])
    tags, counts = space.tags[k], space.counts[k]
    mask, start, wide, pair = family[MASK], family[START], family[WIDE], family[PAIR]
    stride, by_pair = family[BY_SET], family[BY_PAIR]
    plain, by_side, by_bin = family[AT], family[AT + 1], family[AT + 2]
    s0, s1, s2 = scales[f, 0], scales[f, 1], scales[f, 2]
    as_head, as_modifier = space.heads[f], space.modifiers[f]
    for a in range(count):
        h, m = arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]
        row = as_head[h] + as_modifier[m]
        if pair >= 0:
            row += pairs[pair, a] * by_pair
        found = tags[h, 0 if h < m else 1]
        at0, at1, at2 = np.uint64(plain), np.uint64(by_side + arcs[SIDE, a]), np.uint64(by_bin + arcs[BIN, a])
        t0, t1, t2 = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(counts[h, m]):
            i = np.uint64(start + ((row + found[np.uint64(t)] * stride) & mask) * wide)
            if plain >= 0:
                t0 += weights[i + at0]
            if by_side >= 0:
                t1 += weights[i + at1]
            if by_bin >= 0:
                t2 += weights[i + at2]
        out[a] += s0 * t0 + s1 * t1 + s2 * t2


@kernel(f"boolean({VECTOR}, int64)")
def of_one_side(family: Ints, side: int) -> bool:
    """Tell whether a family reads only the head (side 0), or only the modifier (1)."""
    return bool(family[side] >= 0 and family[1 - side] < 0 and family[PAIR] < 0 and family[SET] < 0)


@kernel(f"void({TABLE}, int64, int64[:, ::1], int64, {WEIGHTS}, float32[:, ::1], float32[:, ::1])")
def add_words(
    families: Ints, side: int, addends: Ints, n: int, weights: Singles, scales: Singles, out: Singles
) -> None:
    """out[w] = the sum over the families of one side of the rows of word w, with all slots.

    This pays off because there are many more arcs than words.
    """
    out[: n + 1] = 0.0
    for f in range(families.shape[0]):
        if not of_one_side(families[f], side):
            continue
        mask, start, wide = families[f, MASK], families[f, START], families[f, WIDE]
        begin = 0
        for slot in range(3):
            length, at = LENGTHS[slot], families[f, AT + slot]
            factor = scales[f, slot]
            if at >= 0:
                for w in range(n + 1):
                    i = start + (addends[f, w] & mask) * wide + at
                    for k in range(length):
                        out[w, begin + k] += factor * weights[i + k]
            begin += length


@kernel(f"void({VECTOR}, int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64, {WEIGHTS}, uint64[::1])")
def find_places(
    family: Ints, arcs: Ints, heads: Ints, modifiers: Ints, pairs: Ints, count: int, weights: Singles, out: Places
) -> None:
    """Find the start of each arc's row in the weights, and prefetch the rows."""
    mask, start, wide, pair, stride = family[MASK], family[START], family[WIDE], family[PAIR], family[BY_PAIR]
    head, modifier = arcs[HEAD_OF], arcs[MODIFIER_OF]
    if pair >= 0:
        for a in range(count):
            row = heads[np.uint64(head[a])] + modifiers[np.uint64(modifier[a])] + pairs[pair, a] * stride
            out[a] = start + (row & mask) * wide
            prefetch(weights, out[a])
        return
    for a in range(count):
        row = heads[np.uint64(head[a])] + modifiers[np.uint64(modifier[a])]
        out[a] = start + (row & mask) * wide
        prefetch(weights, out[a])


@kernel(
    f"void({VECTOR}, uint64[::1], uint64[::1], uint64[::1], int64, {WEIGHTS}, float32[::1], float32[::1])",
)
def add_family(
    family: Ints,
    places: Places,
    sides: Places,
    bins: Places,
    count: int,
    weights: Singles,
    scales: Singles,
    out: Singles,
) -> None:
    """Add a family's weights of each arc, up to three."""
    s0, s1, s2 = scales[0], scales[1], scales[2]
    # Unsigned indices need no test for negative ones, which would cost as much as the rest.
    if family[AT] >= 0:
        at = np.uint64(family[AT])
        for a in range(count):
            out[a] += s0 * weights[places[a] + at]
    if family[AT + 1] >= 0:
        at = np.uint64(family[AT + 1])
        for a in range(count):
            out[a] += s1 * weights[places[a] + at + sides[a]]
    if family[AT + 2] >= 0:
        at = np.uint64(family[AT + 2])
        for a in range(count):
            out[a] += s2 * weights[places[a] + at + bins[a]]


@kernel(
    f"void(Layout, Space, int64, int64, {WEIGHTS}, float32[:, ::1], float32[::1])",
    fastmath={"contract"},
)
def score_arcs(
    layout: Layout, space: Space, count: int, n: int, weights: Singles, scales: Singles, out: Singles
) -> None:
    """out[a] = the sum over templates of scale times weight of arc a."""
    families, arcs, heads, modifiers, pairs = layout.families, space.arcs, space.heads, space.modifiers, space.pairs
    places = np.empty((2, count), dtype=np.uint64)
    sides, bins = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    as_head, as_modifier = np.empty((n + 1, SLOTS), dtype=np.float32), np.empty((n + 1, SLOTS), dtype=np.float32)
    add_words(families, 0, heads, n, weights, scales, as_head)
    add_words(families, 1, modifiers, n, weights, scales, as_modifier)
    for a in range(count):
        h, m = np.uint64(arcs[HEAD_OF, a]), np.uint64(arcs[MODIFIER_OF, a])
        sides[a], bins[a] = arcs[SIDE, a], arcs[BIN, a]
        d, e = np.uint64(1) + sides[a], np.uint64(3) + bins[a]
        out[a] = as_head[h, 0] + as_head[h, d] + as_head[h, e] + as_modifier[m, 0] + as_modifier[m, d]
        out[a] += as_modifier[m, e]
    turn, waiting = 0, -1
    for f in range(families.shape[0]):
        if families[f, SET] >= 0:
            score_sets(layout, f, space, count, weights, scales, out)
            continue
        if of_one_side(families[f], 0) or of_one_side(families[f], 1):
            continue
        find_places(families[f], arcs, heads[f], modifiers[f], pairs, count, weights, places[turn])
        # While this family's rows are being loaded, the previous one is summed.
        turn = 1 - turn
        if waiting >= 0:
            add_family(families[waiting], places[turn], sides, bins, count, weights, scales[waiting], out)
        waiting = f
    if waiting >= 0:
        add_family(families[waiting], places[1 - turn], sides, bins, count, weights, scales[waiting], out)


@kernel("int64(float64[:, ::1], boolean, int64[::1])")
def best_tree(matrix: Floats, projective: bool, out: Ints) -> int:
    """Find the best tree with one root; return 1, or 0 if there is none."""
    if projective:
        return int(eisner(matrix, True, out))
    return int(arborescence(matrix, True, out))


@kernel("void(int64[:, ::1], int64, float32[::1], float64[:, ::1])")
def to_matrix(arcs: Ints, count: int, scores: Singles, matrix: Floats) -> None:
    """Write the scores of arcs to a matrix of head by modifier, with -inf for no arc."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = -np.inf
    for a in range(count):
        matrix[arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]] = scores[a]


@kernel(f"int64(Corpus, int64[::1], Layout, {LIMITS}, {WEIGHTS}, boolean, int64[::1], float64[:, ::1])")
def parse_sentences(
    corpus: Corpus,
    order: Ints,
    layout: Layout,
    limits: Shorts,
    weights: Singles,
    projective: bool,
    out: Ints,
    scores_out: Floats,
) -> int:
    """Write the heads of some sentences to `out`, in the layout of the codes; return the number of scored arcs.

    With `scores_out` (for a single sentence) the matrix of scores is written there, and no tree is searched.
    """
    F, longest = layout.families.shape[0], longest_sentence(corpus, order)
    space = make_space(longest, F, layout.sets.size)
    scores, scales = np.empty((longest + 1) ** 2, dtype=np.float32), np.ones((F, 3), dtype=np.float32)
    nothing, total = np.empty((0, 0, 0), dtype=np.int16), 0
    for s in order:
        sentence = sentence_of(corpus, s)
        n, a = sentence.n, sentence.first
        if n == 0:
            continue
        matrix, tree = np.empty((n + 1, n + 1)), np.empty(n, dtype=np.int64)
        # If the filter leaves no tree, all arcs are scored.
        for attempt in range(2):
            count = prepare(sentence, layout, limits if attempt == 0 else nothing, space)
            score_arcs(layout, space, count, n, weights, scales, scores)
            total += count
            to_matrix(space.arcs, count, scores, matrix)
            if scores_out.size:
                scores_out[:, :] = matrix
                break
            if best_tree(matrix, projective, tree) == 1:
                out[a + 1 : a + n + 1] = tree
                break
    return total
