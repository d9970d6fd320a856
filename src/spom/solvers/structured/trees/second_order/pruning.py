"""Compiled: the arcs that a first-order parser keeps, which are in trees not much worse than its best one."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles
from spom.core.jit import kernel
from spom.decoders.max_marginals import max_marginals
from spom.decoders.second_order import ArcGraph
from spom.features.arc_spaces import (
    BIN,
    HEAD_OF,
    LIMITS,
    MODIFIER_OF,
    SIDE,
    Corpus,
    Sentence,
    Shorts,
    distance_bin,
    longest_sentence,
    sentence_of,
)
from spom.solvers.structured.trees.scoring import score_arcs, to_matrix
from spom.solvers.structured.trees.space import WEIGHTS, Layout, Space, make_space, prepare, prepare_pairs

Flags = NDArray[np.bool_]


class Beam(NamedTuple):
    """An arc is kept if the best tree with it scores at most `width` less than the best; at most `most` per word."""

    width: Annotated[float, "float64"]
    most: Annotated[int, "int64"]


class Filter(NamedTuple):
    """A first-order parser: its layout, its filter of arcs, its weights, and the beam of arcs that it keeps."""

    layout: Layout
    limits: Annotated[Shorts, LIMITS]
    weights: Annotated[Singles, WEIGHTS]
    beam: Beam


@kernel("void(float64[:, ::1], float64, Beam, int64[::1], boolean[:, ::1])")
def keep_arcs(best_with: Floats, best: float, beam: Beam, heads: Ints, allowed: Flags) -> None:
    """Set allowed[h, m] for the arcs that are kept, including those of the best tree. Ties go to the lower head."""
    N = best_with.shape[0]
    allowed[:] = False
    for m in range(1, N):
        allowed[heads[m - 1], m] = True
        for _ in range(beam.most - 1):
            found, top = -1, best - beam.width
            for h in range(N):
                if h != m and not allowed[h, m] and best_with[h, m] >= top and (found < 0 or best_with[h, m] > top):
                    found, top = h, best_with[h, m]
            if found < 0:
                break
            allowed[found, m] = True


@kernel("void(Sentence, Filter, Space, float32[::1], float32[:, ::1], boolean[:, ::1])")
def leave_arcs(
    sentence: Sentence, first: Filter, space: Space, scores: Singles, scales: Singles, allowed: Flags
) -> None:
    """Find the arcs of a sentence that are kept; fills `space` with its words' terms in rows."""
    n = sentence.n
    matrix, best_with, heads = np.empty((n + 1, n + 1)), np.empty((n + 1, n + 1)), np.empty(n, dtype=np.int64)
    nothing = np.empty((0, 0, 0), dtype=np.int16)
    # If the filter leaves no tree, all arcs are scored.
    for attempt in range(2):
        count = prepare(sentence, first.layout, first.limits if attempt == 0 else nothing, space)
        score_arcs(first.layout, space, count, n, first.weights, scales, scores)
        to_matrix(space.arcs, count, scores, matrix)
        best = max_marginals(matrix, True, best_with, heads)
        if best > -np.inf:
            break
    keep_arcs(best_with, best, first.beam, heads, allowed)


@kernel("void(Sentence, Layout, ArcGraph, Space)")
def take_arcs(sentence: Sentence, layout: Layout, graph: ArcGraph, space: Space) -> None:
    """Copy the arcs of a graph into `space`, which already has the sentence's words."""
    arcs = space.arcs
    for a in range(graph.head.size):
        h, m = graph.head[a], graph.modifier[a]
        side = 0 if h < m else 1
        arcs[HEAD_OF, a], arcs[MODIFIER_OF, a] = h, m
        arcs[SIDE, a], arcs[BIN, a] = side, 6 * side + distance_bin(abs(h - m))
    prepare_pairs(sentence, layout, graph.head.size, space)


@kernel("void(Corpus, int64[::1], Filter, int16[:, ::1])")
def leave_all(corpus: Corpus, order: Ints, first: Filter, out: Shorts) -> None:
    """Write the heads that are kept per word of some sentences to `out`, in the codes' layout; it has -1 elsewhere."""
    F, longest = first.layout.families.shape[0], longest_sentence(corpus, order)
    space = make_space(longest, F, first.layout.sets.size)
    scores, scales = np.empty((longest + 1) ** 2, dtype=np.float32), np.ones((F, 3), dtype=np.float32)
    for s in order:
        sentence = sentence_of(corpus, s)
        n, a = sentence.n, sentence.first
        if n == 0:
            continue
        allowed = np.empty((n + 1, n + 1), dtype=np.bool_)
        leave_arcs(sentence, first, space, scores, scales, allowed)
        for m in range(1, n + 1):
            k = 0
            for h in range(n + 1):
                if allowed[h, m]:
                    out[a + m, k] = h
                    k += 1
