"""Compiled: scores of all arcs of a sentence, and the tree that is best for them.

Nearly all the time goes into reading weights at random places. So the families are the outer loop: within one, the
reads of all arcs wait for nothing but memory, and stay in that family's table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.data.interning import Codes
from spom.decoders.arborescence import arborescence
from spom.decoders.eisner import eisner
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
    WIDTH,
    Shorts,
    addends,
    candidates,
    pair_codes,
    side_codes,
    tags_between,
)

Singles = NDArray[np.float32]
WEIGHTS = "Array(float32, 1, 'C', readonly=True)"
LIMITS = "Array(int16, 3, 'C', readonly=True)"
# ends, atoms, families, columns of the sets, the filter's column, upos, limits: what a layout is to a kernel.
LAYOUT = f"{VECTOR}, {TABLE}, {TABLE}, {VECTOR}, int64, int64, {LIMITS}"
# The work space of a sentence: arcs, heads' and modifiers' addends, tags between, their counts, pairs.
SPACE = "int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, :, :, ::1], int64[:, :, ::1], int64[:, ::1]"


@kernel(f"int64({CODES}, {VECTOR}, int64, int64, int64[::1], {LAYOUT}, {SPACE})")
def prepare(
    codes: Codes,
    kinds: Ints,
    first: int,
    n: int,
    guide: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    sets: Ints,
    column: int,
    upos: int,
    limits: Shorts,
    arcs: Ints,
    heads: Ints,
    modifiers: Ints,
    tags: Ints,
    counts: Ints,
    pairs: Ints,
) -> int:
    """Everything that scoring a sentence needs, in the work space; returns how many arcs there are."""
    sides = np.empty((ends.size - 1, n + 1), dtype=np.int64)
    side_codes(codes, first, n, guide, ends, atoms, sides)
    addends(families, sides, n, heads, modifiers)
    count = candidates(codes, column, first, n, limits, arcs)
    for k in range(sets.size):
        tags_between(codes, sets[k], first, n, tags[k], counts[k])
    for which in range(pairs.shape[0]):
        for f in range(families.shape[0]):
            if families[f, PAIR] == which:
                pair_codes(kinds, first, n, guide, codes, upos, arcs, count, which, pairs[which])
                break
    return int(count)


@kernel(
    f"void({TABLE}, int64, {VECTOR}, {SPACE}, int64, {WEIGHTS}, float32[:, ::1], boolean, float32[::1])",
    fastmath={"contract"},
)
def score_sets(
    families: Ints,
    f: int,
    sets: Ints,
    arcs: Ints,
    heads: Ints,
    modifiers: Ints,
    tags: Ints,
    counts: Ints,
    pairs: Ints,
    count: int,
    weights: Singles,
    scales: Singles,
    scaled: bool,
    out: Singles,
) -> None:
    """The part of the scores that a family with a set of words between has: one row for each tag between."""
    k = 0
    while sets[k] != families[f, SET]:
        k += 1
    mask, base, pair = families[f, MASK], families[f, BASE], families[f, PAIR]
    stride, by_pair = families[f, BY_SET], families[f, BY_PAIR]
    s0, s1, s2 = scales[f, 0], scales[f, 1], scales[f, 2]
    as_head, as_modifier = heads[f], modifiers[f]
    for a in range(count):
        h, m = arcs[0, a], arcs[1, a]
        row = as_head[h] + as_modifier[m]
        if pair >= 0:
            row += pairs[pair, a] * by_pair
        found = tags[k, h, 0 if h < m else 1]
        d, e = np.uint64(arcs[2, a]), np.uint64(arcs[3, a])
        t0, t1, t2 = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(counts[k, h, m]):
            i = np.uint64((base + ((row + found[np.uint64(t)] * stride) & mask)) * WIDTH)
            t0 += weights[i]
            t1 += weights[i + d]
            t2 += weights[i + e]
        out[a] += s0 * t0 + s1 * t1 + s2 * t2 if scaled else t0 + t1 + t2


@kernel(
    f"void({TABLE}, {VECTOR}, {SPACE}, int64, {WEIGHTS}, float32[:, ::1], boolean, float32[::1])",
    fastmath={"contract"},
)
def score_arcs(
    families: Ints,
    sets: Ints,
    arcs: Ints,
    heads: Ints,
    modifiers: Ints,
    tags: Ints,
    counts: Ints,
    pairs: Ints,
    count: int,
    weights: Singles,
    scales: Singles,
    scaled: bool,
    out: Singles,
) -> None:
    """out[a] = the sum over templates of scale times weight of arc a; scales are one where not `scaled`."""
    # Unsigned indices need no test for negative ones, which would cost as much as the rest.
    places = np.empty(count, dtype=np.uint64)
    d, e = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    head, modifier = arcs[0], arcs[1]
    for a in range(count):
        out[a] = 0.0
        d[a], e[a] = arcs[2, a], arcs[3, a]
    for f in range(families.shape[0]):
        mask, base, pair = families[f, MASK], families[f, BASE], families[f, PAIR]
        s0, s1, s2 = scales[f, 0], scales[f, 1], scales[f, 2]
        as_head, as_modifier, stride = heads[f], modifiers[f], families[f, BY_PAIR]
        if families[f, SET] >= 0:
            score_sets(
                families, f, sets, arcs, heads, modifiers, tags, counts, pairs, count, weights, scales, scaled, out
            )
            continue
        for a in range(count):
            row = as_head[np.uint64(head[a])] + as_modifier[np.uint64(modifier[a])]
            places[a] = (base + (row & mask)) * WIDTH
        if pair >= 0:
            for a in range(count):
                row = as_head[head[a]] + as_modifier[modifier[a]] + pairs[pair, a] * stride
                places[a] = (base + (row & mask)) * WIDTH
        # The first loop is so short that many reads wait for memory at a time; the second finds its lines in the cache.
        if scaled:
            for a in range(count):
                out[a] += s0 * weights[places[a]]
            for a in range(count):
                out[a] += s1 * weights[places[a] + d[a]] + s2 * weights[places[a] + e[a]]
        else:
            for a in range(count):
                out[a] += weights[places[a]]
            for a in range(count):
                out[a] += weights[places[a] + d[a]] + weights[places[a] + e[a]]


@kernel("int64(float64[:, ::1], boolean, int64[::1])")
def best_tree(matrix: Floats, projective: bool, out: Ints) -> int:
    """The best tree with one root; 1, or 0 where there is none."""
    if projective:
        return int(eisner(matrix, True, out))
    return int(arborescence(matrix, True, out))


@kernel("void(int64[:, ::1], int64, float32[::1], float64[:, ::1])")
def to_matrix(arcs: Ints, count: int, scores: Singles, matrix: Floats) -> None:
    """Scores of arcs as a matrix of head by modifier, -inf where there is no arc."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = -np.inf
    for a in range(count):
        matrix[arcs[0, a], arcs[1, a]] = scores[a]


@kernel(
    f"int64({CODES}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {LAYOUT}, {WEIGHTS}, boolean, int64[::1], "
    f"float64[:, ::1], int64, int64)"
)
def parse_sentences(
    codes: Codes,
    kinds: Ints,
    first: Ints,
    sizes: Ints,
    guides: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    sets: Ints,
    column: int,
    upos: int,
    limits: Shorts,
    weights: Singles,
    projective: bool,
    out: Ints,
    scores_out: Floats,
    begin: int,
    end: int,
) -> int:
    """The heads of sentences begin..end-1 in `out`, laid out as the codes are; returns how many arcs were scored.

    With `scores_out` (for a single sentence) the matrix of scores is written there, and no tree is sought.
    """
    longest = 0
    for s in range(begin, end):
        longest = max(longest, sizes[s])
    N, F = longest + 1, families.shape[0]
    arcs = np.empty((4, N * N), dtype=np.int64)
    heads, modifiers = np.empty((F, N), dtype=np.int64), np.empty((F, N), dtype=np.int64)
    tags, counts = np.empty((sets.size, N, 2, N), dtype=np.int64), np.empty((sets.size, N, N), dtype=np.int64)
    pairs = np.empty((4, N * N), dtype=np.int64)
    scores, scales = np.empty(N * N, dtype=np.float32), np.ones((F, 3), dtype=np.float32)
    nothing = np.empty((0, 0, 0), dtype=np.int16)
    total = 0
    for s in range(begin, end):
        n, a = sizes[s], first[s]
        if n == 0:
            continue
        guide = guides[a : a + n + 1].copy() if guides.size else np.empty(0, dtype=np.int64)
        matrix, tree = np.empty((n + 1, n + 1)), np.empty(n, dtype=np.int64)
        # Where the filter leaves no tree, all arcs are scored.
        for attempt in range(2):
            allowed = limits if attempt == 0 else nothing
            count = prepare(
                codes, kinds, a, n, guide, ends, atoms, families, sets, column, upos, allowed,
                arcs, heads, modifiers, tags, counts, pairs,
            )  # fmt: skip
            score_arcs(
                families, sets, arcs, heads, modifiers, tags, counts, pairs, count, weights, scales, False, scores
            )
            total += count
            to_matrix(arcs, count, scores, matrix)
            if scores_out.size:
                scores_out[:, :] = matrix
                break
            if best_tree(matrix, projective, tree) == 1:
                out[a + 1 : a + n + 1] = tree
                break
    return total
