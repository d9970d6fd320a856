"""Compiled: parts of second order of a sentence, their scores, and changes of their weights."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Ints, Singles
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.decoders.second_order import ArcGraph
from spom.features.arc_spaces import Sentence, mixed, side_codes
from spom.solvers.structured.trees.second_order.templates import (
    KINDS,
    MASK,
    NONE,
    SALT,
    SIBLING,
    SIDE,
    START,
    STRIDE,
    PartTable,
)
from spom.solvers.structured.trees.space import WEIGHTS


class PartSpace(NamedTuple):
    """A sentence's parts: third word, head, modifier (n + 1 for none) and kind; the first `grand` are of grandparents.

    Those of siblings follow: of each arc, then of each arc as the last on its side, then of each word and side without
    modifiers. addends[f, k, w] is the term of word w in the row of template f as third word, head or modifier.
    """

    parts: Annotated[Ints, "int64[:, ::1]"]
    grand: Annotated[int, "int64"]
    addends: Annotated[Ints, "int64[:, :, ::1]"]


class PartWeights(NamedTuple):
    """The weights of parts, a view of them for scoring, and the sums of their mean."""

    weights: Annotated[Singles, "float32[::1]"]
    fixed: Annotated[Singles, WEIGHTS]
    sums: Annotated[Singles, "float32[::1]"]


@kernel("int64(int64, int64, int64)")
def grand_kind(g: int, h: int, m: int) -> int:
    """Return the code of the directions of both arcs, and of whether h and m are neighbours."""
    return 4 * (abs(h - m) == 1) + 2 * (g < h) + (h < m)


@kernel("int64(int64, int64, int64)")
def sibling_kind(h: int, s: int, m: int) -> int:
    """Return the code of the direction of h -> m, and of the distance of s and m: 1, 2, 3 to 5, more."""
    d = abs(m - s)
    return 2 * (0 if d == 1 else (1 if d == 2 else (2 if d <= 5 else 3))) + (h < m)


@kernel("int64[:, :, ::1](Sentence, PartTable)")
def part_addends(sentence: Sentence, templates: PartTable) -> Ints:
    """Return the term of each word in the rows of each template, in each of three roles."""
    n, table = sentence.n, templates.table
    sides = np.empty((templates.ends.size - 1, n + 1), dtype=np.int64)
    side_codes(sentence, templates.ends, templates.atoms, sides)
    out = np.zeros((table.shape[0], 3, n + 2), dtype=np.int64)
    for f in range(table.shape[0]):
        for k in range(3):
            which, salt, row = table[f, SIDE + k], table[f, SALT], out[f, k]
            if which < 0:
                continue
            for w in range(n + 2):
                code = sides[which, w] if w <= n else table[f, NONE + k]
                if salt == 0:
                    row[w] = code * table[f, STRIDE + k]
                else:
                    row[w] = np.int64(mixed(np.uint64(code), np.uint64(salt + k)) & np.uint64(table[f, MASK]))
    return out


@kernel("PartSpace(Sentence, PartTable, ArcGraph)")
def part_space(sentence: Sentence, templates: PartTable, graph: ArcGraph) -> Any:
    """Return all parts of a graph."""
    count, none, grand = graph.head.size, sentence.n + 1, 0
    for a in range(count):
        grand += graph.many[graph.head[a]]
    parts, p = np.empty((4, grand + graph.siblings[count] + count + 2 * none), dtype=np.int64), 0
    for a in range(count):
        h, m = graph.head[a], graph.modifier[a]
        for r in range(graph.many[h]):
            g = graph.head[graph.into[h, r]] if h else -1
            parts[0, p], parts[1, p], parts[2, p], parts[3, p] = g if h else none, h, m, grand_kind(g, h, m)
            p += 1
    for a in range(count):
        h, m, inner = graph.head[a], graph.modifier[a], graph.inner[a]
        for t in range(inner - 1, a):
            s = graph.modifier[t] if t >= inner else h
            parts[0, p], parts[1, p], parts[2, p], parts[3, p] = s if t >= inner else none, h, m, sibling_kind(h, s, m)
            p += 1
    for a in range(count):
        h, m = graph.head[a], graph.modifier[a]
        parts[0, p], parts[1, p], parts[2, p], parts[3, p] = m, h, none, sibling_kind(h, h, m)
        p += 1
    for h in range(none):
        for side in range(2):
            parts[0, p], parts[1, p], parts[2, p], parts[3, p] = none, h, none, 1 - side
            p += 1
    return PartSpace(parts, grand, part_addends(sentence, templates))


@kernel(f"void(PartTable, PartSpace, {WEIGHTS}, float32[::1])")
def score_parts(templates: PartTable, space: PartSpace, weights: Singles, out: Singles) -> None:
    """out[p] = the sum over the templates of part p of its weight."""
    table, parts, total = templates.table, space.parts, space.parts.shape[1]
    places = np.empty((2, total), dtype=np.uint64)
    third, head, modifier, kind = parts[0], parts[1], parts[2], parts[3]
    out[:] = 0.0
    turn, waiting = 0, -1
    for f in range(table.shape[0] + 1):
        if f < table.shape[0]:
            begin, end = (space.grand, total) if table[f, SIBLING] else (0, space.grand)
            mask, start, of = table[f, MASK], table[f, START], space.addends[f]
            x, y, z, at = of[0], of[1], of[2], places[turn]
            for p in range(begin, end):
                row = x[np.uint64(third[p])] + y[np.uint64(head[p])] + z[np.uint64(modifier[p])]
                at[p] = start + (row & mask) * KINDS + kind[p]
                prefetch(weights, at[p])
        # While this template's rows are being loaded, the previous one is summed.
        turn = 1 - turn
        if waiting >= 0:
            begin, end = (space.grand, total) if table[waiting, SIBLING] else (0, space.grand)
            at = places[turn]
            for p in range(begin, end):
                out[p] += weights[at[p]]
        waiting = f


@kernel("void(PartTable, PartSpace, int64, float64, float64, PartWeights)")
def change_part(templates: PartTable, space: PartSpace, p: int, change: float, rounds: float, to: PartWeights) -> None:
    """Add `change` to the weights of part p; `rounds` is the number of earlier rounds."""
    table, of, parts = templates.table, space.addends, space.parts
    sibling = p >= space.grand
    for f in range(table.shape[0]):
        if (table[f, SIBLING] == 1) == sibling:
            row = of[f, 0, parts[0, p]] + of[f, 1, parts[1, p]] + of[f, 2, parts[2, p]]
            i = table[f, START] + (row & table[f, MASK]) * KINDS + parts[3, p]
            to.weights[i] += np.float32(change)
            to.sums[i] += np.float32(change * rounds)


@kernel("void(ArcGraph, int64[::1], int64[::1], int64[::1])")
def parts_of_tree(graph: ArcGraph, heads: Ints, arcs: Ints, parts: Ints) -> None:
    """Find the arc of each word m (heads[m], from 1), and the tree's parts: grandparents, siblings, ends (2 per word).

    All arcs of the tree must be in the graph; it may have crossing arcs.
    """
    count, N = graph.head.size, graph.first.size - 1
    begins, grand = np.empty(count, dtype=np.int64), 0
    for a in range(count):
        begins[a] = grand
        grand += graph.many[graph.head[a]]
    ends, n = grand + graph.siblings[count], N - 1
    for h in range(N):
        for side in range(2):
            parts[2 * n + 2 * h + side] = ends + count + 2 * h + side
        last = -1
        for a in range(graph.first[h], graph.first[h + 1]):
            m, inner = graph.modifier[a], graph.inner[a]
            if heads[m] != h:
                continue
            rank = 0
            if h:
                while graph.head[graph.into[h, rank]] != heads[h]:
                    rank += 1
            arcs[m - 1], parts[m - 1] = a, begins[a] + rank
            parts[n + m - 1] = grand + graph.siblings[a] + (1 + last - inner if last >= inner else 0)
            parts[2 * n + 2 * h + (0 if h < m else 1)] = ends + a
            last = a
