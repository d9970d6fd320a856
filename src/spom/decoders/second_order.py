"""The best projective tree for scores of arcs, of pairs of adjacent modifiers, and of grandparents.

The spans of Koo and Collins (2010, model 1), over few arcs. The span of a word is identified by the arc into that
word, so there are as many kinds of spans as arcs, not as pairs of words. With k heads per word this takes O(n^2 k^2)
for trees of n words, and O(n k^2) times the largest distance between two modifiers of a word.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.eisner import first_max, max_sum


class ArcGraph(NamedTuple):
    """Arcs of n words, grouped by head: its modifiers to the right, inner ones first, then those to the left.

    `first[h]` is the first arc of head h, `inner[a]` the first arc on the side of arc a. `into[m, r]` is the arc of
    rank r into word m, which has `many[m]` arcs; the root has one entry, which is no arc. The parts of arc a with its
    sibling begin at `siblings[a]`: first the one without a sibling, then those with each arc from `inner[a]` to a.
    """

    head: Annotated[Ints, "int64[::1]"]
    modifier: Annotated[Ints, "int64[::1]"]
    first: Annotated[Ints, "int64[::1]"]
    inner: Annotated[Ints, "int64[::1]"]
    into: Annotated[Ints, "int64[:, ::1]"]
    many: Annotated[Ints, "int64[::1]"]
    rank: Annotated[Ints, "int64[::1]"]
    siblings: Annotated[Ints, "int64[::1]"]


class PartScores(NamedTuple):
    """Scores of arcs, of arc a below the arc of rank r into its head (a, r), and of arcs with their inner siblings.

    `ends[a]` is added where arc a is the last of its head on its side.
    """

    arcs: Annotated[Floats, "float64[::1]"]
    grand: Annotated[Floats, "float64[:, ::1]"]
    siblings: Annotated[Floats, "float64[::1]"]
    ends: Annotated[Floats, "float64[::1]"]


@kernel("ArcGraph(boolean[:, ::1])")
def arc_graph(allowed: Any) -> Any:
    """Return the graph of the arcs h -> m with allowed[h, m], except those into the root or from a word to itself."""
    N = allowed.shape[0]
    count, most = 0, 1
    for m in range(1, N):
        found = 0
        for h in range(N):
            found += 1 if allowed[h, m] and h != m else 0
        count, most = count + found, max(most, found)
    head, modifier = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    first, inner = np.empty(N + 1, dtype=np.int64), np.empty(count, dtype=np.int64)
    into, many = np.full((N, most), -1, dtype=np.int64), np.zeros(N, dtype=np.int64)
    rank, siblings = np.empty(count, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    many[0], a = 1, 0
    for h in range(N):
        first[h] = a
        for side in range(2):
            begin = a
            for d in range(1, N):
                m = h + d if side == 0 else h - d
                if 1 <= m < N and allowed[h, m]:
                    head[a], modifier[a], inner[a], rank[a] = h, m, begin, many[m]
                    into[m, many[m]] = a
                    many[m] += 1
                    siblings[a + 1] = siblings[a] + 1 + a - begin
                    a += 1
    first[N] = a
    return ArcGraph(head, modifier, first, inner, into, many, rank, siblings)


@kernel("float64(ArcGraph, int64, int64, float64[:, ::1])")
def between(graph: ArcGraph, t: int, a: int, spans: Floats) -> float:
    """Return the best two spans that fill the words between the modifiers of arcs t and a, where t is the inner one."""
    s, m = graph.modifier[t], graph.modifier[a]
    if s < m:
        return max_sum(spans[t], spans[a], s, s + 1, m - s)
    return max_sum(spans[a], spans[t], m, m + 1, s - m)


@kernel("void(ArcGraph, PartScores, int64, float64[:, ::1], float64[:, ::1], float64[::1])")
def make_arc(graph: ArcGraph, scores: PartScores, a: int, spans: Floats, made: Floats, joins: Floats) -> None:
    """made[a, r]: the best of the words from the head to the modifier of arc a, below the arc of rank r.

    `joins` gets the score of arc a with each inner sibling, including the best spans between them.
    """
    h, m, at, inner = graph.head[a], graph.modifier[a], graph.siblings[a], graph.inner[a]
    joins[at] = scores.siblings[at] + spans[a, h + 1 if h < m else h - 1]
    for t in range(inner, a):
        joins[at + 1 + t - inner] = scores.siblings[at + 1 + t - inner] + between(graph, t, a, spans)
    for r in range(graph.many[h]):
        g = graph.head[graph.into[h, r]]
        best = joins[at]
        # A word cannot have modifiers beyond its own head.
        if (h < g <= m) or (m <= g < h):
            best = -np.inf
        else:
            for t in range(inner, a):
                best = max(best, made[t, r] + joins[at + 1 + t - inner])
        made[a, r] = best + scores.arcs[a] + scores.grand[a, r]


@kernel("int64(ArcGraph, float64[::1], int64, int64, float64[:, ::1], float64[:, ::1])")
def last_arc(graph: ArcGraph, ends: Floats, b: int, e: int, spans: Floats, made: Floats) -> int:
    """Return the outermost arc of the best span from the modifier of arc b to word e, or -1. Ties go to the inner."""
    h, r, found, best = graph.modifier[b], graph.rank[b], -1, -np.inf
    for a in range(graph.first[h], graph.first[h + 1]):
        m = graph.modifier[a]
        if (h < m <= e) or (e <= m < h):
            value = made[a, r] + spans[a, e] + ends[a]
            if value > best:
                best, found = value, a
    return found


@kernel("void(ArcGraph, float64[::1], int64, int64, float64[:, ::1], float64[:, ::1])")
def make_spans(graph: ArcGraph, ends: Floats, begin: int, e: int, spans: Floats, made: Floats) -> None:
    """spans[b, e]: the best of the words from h to e, all of them below h, for each arc b into h.

    `begin` is the first arc of h on this side; word e lies on that side too, no nearer than its modifier.
    """
    h, last = graph.head[begin], graph.first[graph.head[begin] + 1]
    end, far = begin + 1, abs(e - h)
    while end < last and graph.inner[end] == begin and abs(graph.modifier[end] - h) <= far:
        end += 1
    for r in range(graph.many[h]):
        b = graph.into[h, r]
        g, best = graph.head[b], -np.inf
        # A word cannot have modifiers beyond its own head.
        if (h < g <= e) or (e <= g < h):
            continue
        for a in range(begin, end):
            value = made[a, r] + spans[a, e] + ends[a]
            best = value if value > best else best
        spans[b, e] = best


@kernel("int64[::1](ArcGraph)")
def by_distance(graph: ArcGraph) -> Ints:
    """Return the arcs of words, short ones first; the arcs of the root come last."""
    count, N = graph.head.size, graph.first.size - 1
    starts, order = np.zeros(N + 1, dtype=np.int64), np.empty(count, dtype=np.int64)
    for turn in range(2):
        for a in range(count):
            d = abs(graph.head[a] - graph.modifier[a]) if graph.head[a] else N - 1
            if turn == 0:
                starts[d + 1] += 1
            else:
                order[starts[d]] = a
                starts[d] += 1
        if turn == 0:
            for d in range(N):
                starts[d + 1] += starts[d]
    return order


@kernel("float64(ArcGraph, PartScores, int64[::1])")
def best_second_order(graph: ArcGraph, scores: PartScores, heads: Ints) -> float:
    """Return the best score of a projective tree with one root (-inf: there is none); write its heads to `heads`."""
    N, count = graph.first.size - 1, graph.head.size
    spans, made = np.full((count, N), -np.inf), np.full(scores.grand.shape, -np.inf)
    joins, order, done = np.empty(scores.siblings.size), by_distance(graph), 0
    # The first arc of each word on each side, if there is one.
    sides, many = np.empty(2 * N, dtype=np.int64), 0
    for a in range(count):
        spans[a, graph.modifier[a]] = 0.0
        if graph.inner[a] == a and graph.head[a]:
            sides[many] = a
            many += 1
    for width in range(1, N - 1):
        while (
            done < count
            and graph.head[order[done]]
            and abs(graph.head[order[done]] - graph.modifier[order[done]]) == width
        ):
            make_arc(graph, scores, order[done], spans, made, joins)
            done += 1
        for begin in sides[:many]:
            h, m = graph.head[begin], graph.modifier[begin]
            e = h + width if h < m else h - width
            if abs(m - h) <= width and 1 <= e < N:
                make_spans(graph, scores.ends, begin, e, spans, made)
    best, top = -np.inf, -1
    for a in range(graph.first[0], graph.first[1]):
        value = scores.arcs[a] + scores.grand[a, 0] + scores.siblings[graph.siblings[a]]
        value += spans[a, 1] + spans[a, N - 1] + scores.ends[a]
        if value > best:
            best, top = value, a
    if top >= 0:
        trace_spans(graph, scores.ends, top, (spans, made), joins, heads)
    return best


@kernel("void(ArcGraph, float64[::1], int64, UniTuple(float64[:, ::1], 2), float64[::1], int64[::1])")
def trace_spans(
    graph: ArcGraph, ends: Floats, top: int, chart: tuple[Floats, Floats], joins: Floats, heads: Ints
) -> None:
    """Write the tree below arc `top` of the root to `heads`; `chart` has the spans and the results of `make_arc`."""
    spans, made = chart
    N = graph.first.size - 1
    stack = np.empty((4 * N, 2), dtype=np.int64)  # an arc, and the end of a span below its modifier
    heads[graph.modifier[top] - 1] = 0
    stack[0, 0], stack[0, 1], stack[1, 0], stack[1, 1] = top, 1, top, N - 1
    size = 2
    while size:
        size -= 1
        b, e = stack[size, 0], stack[size, 1]
        h, r = graph.modifier[b], graph.rank[b]
        if h == e:
            continue
        a = last_arc(graph, ends, b, e, spans, made)
        stack[size, 0], stack[size, 1] = a, e
        size += 1
        while True:
            m, at, inner = graph.modifier[a], graph.siblings[a], graph.inner[a]
            heads[m - 1] = h
            best, t = joins[at], -1
            for other in range(inner, a):
                value = made[other, r] + joins[at + 1 + other - inner]
                if value > best:
                    best, t = value, other
            if t < 0:
                stack[size, 0], stack[size, 1] = a, h + 1 if h < m else h - 1
                size += 1
                break
            low, high = (t, a) if h < m else (a, t)
            s, o = graph.modifier[low], graph.modifier[high]
            split = s + first_max(spans[low], spans[high], s, s + 1, o - s)
            stack[size, 0], stack[size, 1] = low, split
            stack[size + 1, 0], stack[size + 1, 1] = high, split + 1
            size += 2
            a = t
