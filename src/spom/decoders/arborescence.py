"""The maximum spanning arborescence of a dense graph in O(n^2) (Tarjan)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@kernel("int64(float64[::1], boolean)")
def first_best(row: Floats, fewest_roots: bool) -> int:
    """Return the first best arc into a node, or -1; with `fewest_roots`, the root only if there is no other arc."""
    u, best = -1, -np.inf
    for h in range(1 if fewest_roots else 0, row.size):
        if row[h] > best:
            best, u = row[h], h
    if u < 0 and row[0] > -np.inf:
        u = 0
    return u


class Graph(NamedTuple):
    """Nodes are words and merged cycles: the slot of each, the node of each word, parents, states and chosen arcs."""

    into: Annotated[Floats, "float64[:, ::1]"]  # [slot of a node, source]: the score of an arc
    word: Annotated[Ints, "int64[:, ::1]"]  # the word that the arc enters
    gain: Annotated[Floats, "float64[::1]"]
    slot: Annotated[Ints, "int64[::1]"]
    node_of: Annotated[Ints, "int64[::1]"]
    parent: Annotated[Ints, "int64[::1]"]
    source: Annotated[Ints, "int64[::1]"]
    target: Annotated[Ints, "int64[::1]"]


@kernel("int64(Graph, int64[::1], int64, int64, int64)")
def merge(graph: Graph, path: Ints, length: int, d: int, new: int) -> int:
    """Merge the cycle from node d to the top of the path into node `new`; return the remaining length of the path."""
    into, word, node_of, N = graph.into, graph.word, graph.node_of, graph.into.shape[0]
    s, first = graph.slot[path[length - 1]], True
    while True:
        length -= 1
        x = path[length]
        y, graph.parent[x] = graph.slot[x], new
        for h in range(N):
            if node_of[h] == x:
                node_of[h] = new
            v = into[y, h] - graph.gain[x]
            if first or v > into[s, h]:
                into[s, h], word[s, h] = v, word[y, h]
        first = False
        if x == d:
            break
    for h in range(N):
        if node_of[h] == new:
            into[s, h] = -np.inf
    graph.slot[new] = s
    return length


@kernel("int64(Graph, int64, int64[::1])")
def open_up(graph: Graph, made: int, heads: Ints) -> int:
    """Expand the merged nodes, last one first: the word that the arc into a cycle enters loses its arc of the cycle."""
    N, source, target, parent = graph.into.shape[0], graph.source, graph.target, graph.parent
    for c in range(made - 1, N - 1, -1):
        x = target[c]
        while parent[x] != c:
            x = parent[x]
        source[x], target[x] = source[c], target[c]
    count = 0
    for m in range(1, N):
        heads[m - 1] = source[m]
        count += source[m] == 0
    return count


@kernel("int64(float64[:, ::1], boolean, int64[::1])")
def grow(scores: Floats, fewest_roots: bool, heads: Ints) -> int:
    """Fill `heads` with the best tree; return the number of words attached to the root, or -1 if there is no tree.

    A path grows backwards along best incoming arcs. When it meets itself, the cycle becomes one node, and the arcs
    into it are scored by their gain over the arc of the cycle that they replace. The path is done when it meets the
    root, or an earlier path that did. With `fewest_roots`, arcs are compared by (-roots, score). This is exact where a
    large penalty on root arcs would drown the scores: only an arc from the root itself counts as a root arc, also
    after merging.
    """
    N = scores.shape[0]
    tables, path = np.zeros((6, 2 * N), dtype=np.int64), np.empty(2 * N, dtype=np.int64)
    graph = Graph(
        np.empty((N, N)), np.empty((N, N), dtype=np.int64), np.zeros(2 * N), tables[0], tables[1], tables[2],
        tables[3], tables[4],
    )  # fmt: skip
    state = tables[5]  # 0 new, 1 on the path, 2 done
    for m in range(N):
        graph.slot[m] = graph.node_of[m] = m
        for h in range(N):
            graph.into[m, h], graph.word[m, h] = scores[h, m], m
    state[0], made = 2, N
    for start in range(1, N):
        if state[graph.node_of[start]] == 2:
            continue
        path[0], length = graph.node_of[start], 1
        state[path[0]] = 1
        while True:
            c = path[length - 1]
            row = graph.into[graph.slot[c]]
            u = first_best(row, fewest_roots)
            if u < 0:
                return -1
            graph.source[c], graph.target[c], graph.gain[c] = u, graph.word[graph.slot[c], u], row[u]
            d = graph.node_of[u]
            if state[d] == 2:
                for i in range(length):
                    state[path[i]] = 2
                break
            if state[d] == 0:
                path[length], state[d] = d, 1
            else:
                length = merge(graph, path, length, d, made)
                path[length], state[made] = made, 1
                made += 1
            length += 1
    return open_up(graph, made, heads)


@kernel("int64(float64[:, ::1], int64[::1])")
def best_heads(scores: Floats, heads: Ints) -> int:
    """Find the best head of each word (ties go to the first); return how many are the root, or -1 for no tree."""
    N = scores.shape[0]
    best = scores[0].copy()
    heads[:] = 0
    for h in range(1, N):
        row = scores[h]
        for m in range(1, N):
            if row[m] > best[m]:
                best[m], heads[m - 1] = row[m], h
    # The heads form a tree if no walk upwards meets a word twice.
    seen, count = np.zeros(N, dtype=np.int64), 0
    for m in range(1, N):
        if best[m] == -np.inf:
            return -1
        count += heads[m - 1] == 0
        at = m
        while at != 0 and seen[at] == 0:
            seen[at] = m
            at = heads[at - 1]
        if at != 0 and seen[at] == m:
            return -1
    return count


@kernel("int64(float64[:, ::1], boolean, int64[::1])")
def arborescence(scores: Floats, single_root: bool, heads: Ints) -> int:
    """Return 1 with the best tree in `heads`, 0 if there is none; scores are -inf on the diagonal and in column 0."""
    # For most sentences the best head of each word is enough.
    count = best_heads(scores, heads)
    if count == 1 or (count > 1 and not single_root):
        return 1
    if count < 0:
        count = grow(scores, False, heads)
    if single_root and count > 1:
        # The best tree usually has one root already; only otherwise is the slower comparison needed.
        count = grow(scores, True, heads)
        return 1 if count == 1 else 0
    return 1 if count >= 0 else 0
