"""Compiled: rounds of learning, and parsing. One round is one sentence: scores, the best tree, a step."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Ints, Singles
from spom.core.jit import kernel
from spom.decoders.second_order import ArcGraph, PartScores, arc_graph, best_second_order
from spom.features.arc_spaces import VECTOR, Corpus, Sentence, Shorts, longest_sentence, sentence_of
from spom.solvers.structured.structures import MIRA, PERCEPTRON, Loss, takes_cost
from spom.solvers.structured.trees.learning import SCALE, SUM, Learnt, change_arc, features_of
from spom.solvers.structured.trees.scoring import score_arcs
from spom.solvers.structured.trees.second_order.parts import (
    PartSpace,
    PartWeights,
    change_part,
    part_space,
    parts_of_tree,
    score_parts,
)
from spom.solvers.structured.trees.second_order.pruning import Filter, leave_arcs, take_arcs
from spom.solvers.structured.trees.second_order.templates import SIBLING, PartTable
from spom.solvers.structured.trees.space import WEIGHTS, Layout, Space, make_space, prepare_words


class Lessons(NamedTuple):
    """Sentences, their gold heads, and the other heads that each word may have, -1 after the last."""

    corpus: Corpus
    gold: Annotated[Ints, VECTOR]
    kept: Annotated[Shorts, "Array(int16, 2, 'C', readonly=True)"]


class PartModel(NamedTuple):
    """Templates of arcs and of parts, and the weights of both."""

    layout: Layout
    arcs: Annotated[Singles, WEIGHTS]
    templates: PartTable
    parts: Annotated[Singles, WEIGHTS]


@kernel("ArcGraph(Sentence, Lessons)")
def graph_of(sentence: Sentence, lessons: Lessons) -> Any:
    """Return the graph of a sentence's remaining arcs and its gold ones."""
    n, at = sentence.n, sentence.first
    allowed = np.zeros((n + 1, n + 1), dtype=np.bool_)
    for m in range(1, n + 1):
        allowed[lessons.gold[at + m], m] = True
        for k in range(lessons.kept.shape[1]):
            if lessons.kept[at + m, k] >= 0:
                allowed[lessons.kept[at + m, k], m] = True
    return arc_graph(allowed)


@kernel("PartScores(ArcGraph, PartModel, Space, PartSpace, float32[::1])")
def all_scores(graph: ArcGraph, model: PartModel, space: Space, parts: PartSpace, of_parts: Singles) -> Any:
    """Return the scores of arcs and parts in the layout of the decoder; `space` has the arcs of the graph.

    Those of parts are also written to `of_parts`, one after another.
    """
    count, N, F = graph.head.size, graph.first.size - 1, model.layout.families.shape[0]
    arcs = np.empty(count, dtype=np.float32)
    score_arcs(model.layout, space, count, N - 1, model.arcs, np.ones((F, 3), dtype=np.float32), arcs)
    score_parts(model.templates, parts, model.parts, of_parts)
    grand, p = np.empty((count, graph.into.shape[1])), 0
    for a in range(count):
        for r in range(graph.many[graph.head[a]]):
            grand[a, r] = of_parts[p]
            p += 1
    siblings, ends = of_parts[p : p + graph.siblings[count]].astype(np.float64), np.empty(count)
    p += graph.siblings[count]
    for a in range(count):
        side = 0 if graph.head[a] < graph.modifier[a] else 1
        # Relative to the part of a word without modifiers on this side, which is omitted everywhere.
        ends[a] = of_parts[p + a] - of_parts[p + count + 2 * graph.head[a] + side]
    return PartScores(arcs.astype(np.float64), grand, siblings, ends)


class Tree(NamedTuple):
    """The arcs of a tree, one per word in order, and its parts."""

    arcs: Annotated[Ints, "int64[::1]"]
    parts: Annotated[Ints, "int64[::1]"]


@kernel("Tree(ArcGraph, int64[::1])")
def tree_of(graph: ArcGraph, heads: Ints) -> Any:
    """Return a tree as arcs and parts; see `parts_of_tree`."""
    n = heads.size - 1
    found = Tree(np.empty(n, dtype=np.int64), np.empty(4 * n + 2, dtype=np.int64))
    parts_of_tree(graph, heads, found.arcs, found.parts)
    return found


@kernel("float64(PartModel, Space, PartSpace, Tree, Tree)")
def features_between(model: PartModel, space: Space, parts: PartSpace, mine: Tree, gold: Tree) -> float:
    """Return the number of features that only one of two trees has: the squared norm of their difference."""
    templates, siblings, found = model.templates.table.shape[0], 0, 0
    for f in range(templates):
        siblings += model.templates.table[f, SIBLING]
    for w in range(mine.arcs.size):
        if mine.arcs[w] != gold.arcs[w]:
            found += features_of(model.layout, space, mine.arcs[w]) + features_of(model.layout, space, gold.arcs[w])
    for k in range(mine.parts.size):
        if mine.parts[k] != gold.parts[k]:
            found += 2 * (templates - siblings if mine.parts[k] < parts.grand else siblings)
    return float(found)


@kernel("float64(Lessons, int64[::1], float64, PartModel, Loss, Learnt, PartWeights, float64)")
def learn_parts(
    lessons: Lessons,
    order: Ints,
    most: float,
    model: PartModel,
    loss: Loss,
    to: Learnt,
    parts_to: PartWeights,
    rounds: float,
) -> float:
    """Run a round per sentence of `order` after `rounds` others, with steps up to `most`; return the sum of losses."""
    layout, templates, total = model.layout, model.templates, 0.0
    F = layout.families.shape[0]
    space = make_space(longest_sentence(lessons.corpus, order), F, layout.sets.size)
    for s in order:
        sentence = sentence_of(lessons.corpus, s)
        n, at = sentence.n, sentence.first
        if n == 0:
            continue
        graph, gold = graph_of(sentence, lessons), lessons.gold[at : at + n + 1].copy()
        prepare_words(sentence, layout, space)
        take_arcs(sentence, layout, graph, space)
        parts = part_space(sentence, templates, graph)
        of_parts = np.empty(parts.parts.shape[1], dtype=np.float32)
        scores = all_scores(graph, model, space, parts, of_parts)
        wanted, heads = tree_of(graph, gold), np.zeros(n + 1, dtype=np.int64)
        if takes_cost(loss.code):
            for a in range(graph.head.size):
                scores.arcs[a] += loss.cost * (gold[graph.modifier[a]] != graph.head[a])
        if best_second_order(graph, scores, heads[1:]) > -np.inf:
            mine, value = tree_of(graph, heads), 0.0
            for w in range(n):
                value += scores.arcs[mine.arcs[w]] - scores.arcs[wanted.arcs[w]]
            for k in range(wanted.parts.size):
                value += np.float64(of_parts[mine.parts[k]]) - np.float64(of_parts[wanted.parts[k]])
            # A perceptron also moves at ties: at zero weights all scores are tied.
            if value > 0.0 or (loss.code == PERCEPTRON and value == 0.0):
                features = features_between(model, space, parts, mine, wanted)
                step = min(most, value / max(features, 1.0)) if loss.code == MIRA else most
                total += value
                for w in range(n):
                    if mine.arcs[w] != wanted.arcs[w]:
                        change_arc(layout, space, mine.arcs[w], -step, to)
                        change_arc(layout, space, wanted.arcs[w], step, to)
                for k in range(wanted.parts.size):
                    if mine.parts[k] != wanted.parts[k]:
                        change_part(templates, parts, mine.parts[k], -step, rounds, parts_to)
                        change_part(templates, parts, wanted.parts[k], step, rounds, parts_to)
        rounds += 1.0
        to.blocks[SUM] += to.blocks[SCALE]
    return total


@kernel("int64(Corpus, int64[::1], Filter, PartModel, int64[::1])")
def parse_parts(corpus: Corpus, order: Ints, first: Filter, model: PartModel, out: Ints) -> int:
    """Write the heads of some sentences to `out`, in the layout of the codes; return the number of arcs kept."""
    layout = first.layout
    F, longest, total = layout.families.shape[0], longest_sentence(corpus, order), 0
    space = make_space(longest, F, layout.sets.size)
    scores, scales = np.empty((longest + 1) ** 2, dtype=np.float32), np.ones((F, 3), dtype=np.float32)
    for s in order:
        sentence = sentence_of(corpus, s)
        n, at = sentence.n, sentence.first
        if n == 0:
            continue
        allowed, tree = np.empty((n + 1, n + 1), dtype=np.bool_), np.empty(n, dtype=np.int64)
        leave_arcs(sentence, first, space, scores, scales, allowed)
        graph = arc_graph(allowed)
        take_arcs(sentence, layout, graph, space)
        parts = part_space(sentence, model.templates, graph)
        of_parts = np.empty(parts.parts.shape[1], dtype=np.float32)
        best_second_order(graph, all_scores(graph, model, space, parts, of_parts), tree)
        out[at + 1 : at + n + 1] = tree
        total += graph.head.size
    return total
