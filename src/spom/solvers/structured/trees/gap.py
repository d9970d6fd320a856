"""The duality gap of random fields over trees: `spom.solvers.structured.gap` with one pass over the sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, aligned_singles, read_only
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.features.arc_spaces import HEAD_OF, MODIFIER_OF, longest_sentence, sentence_of
from spom.features.arcs import ArcCodes
from spom.penalties import Zero
from spom.penalties.forms import NO_ELASTIC, Split, compiled_prox
from spom.solvers.structured.gap import Certificate, Part, certify
from spom.solvers.structured.structures import LOG, Loss, Parts, residual, structure
from spom.solvers.structured.trees.learning import ACTIVE, SCALE, Learnt, Task, TreeRule, change_arc, score_sentence
from spom.solvers.structured.trees.model import ArcModel, block_view, corpus_of
from spom.solvers.structured.trees.space import Layout, layout_of, make_space


@kernel("void(Task, Layout, TreeRule, Learnt, Learnt, float64[:, ::1])")
def tree_expectations(task: Task, layout: Layout, rule: TreeRule, now: Learnt, gradient: Learnt, out: Floats) -> None:
    """The loss and the entropy of each sentence in `out`; the sum of all gradients in the weights of `gradient`."""
    order = np.arange(out.shape[0])
    space = make_space(longest_sentence(task.corpus, order), layout.families.shape[0], layout.sets.size)
    nothing, scratch = np.empty((0, 0)), np.empty(0)
    for i in range(order.size):
        sentence = sentence_of(task.corpus, i)
        n, at = sentence.n, sentence.first
        out[i, 0] = out[i, 1] = 0.0
        if n == 0:
            continue
        scores, change = Parts(np.empty((n + 1, n + 1)), nothing), Parts(np.empty((n + 1, n + 1)), nothing)
        count = score_sentence(sentence, layout, task, space, now, scores)
        gold = task.gold[at : at + n + 1].copy()
        value = residual(rule.structure, rule.loss, scores, gold, scratch, change)
        entropy = value
        for a in range(count):
            h, m = space.arcs[HEAD_OF, a], space.arcs[MODIFIER_OF, a]
            d = change.unary[h, m]
            if d != 0.0:
                entropy -= scores.unary[h, m] * d
                change_arc(layout, space, a, d, gradient, True)
        out[i, 0], out[i, 1] = max(value, 0.0), max(entropy, 0.0)


def tree_gap(model: ArcModel, codes: ArcCodes, gold: Ints, penalty: Any, projective: bool) -> Certificate:
    """Bounds on the least Omega(theta) + mean log loss, at the weights of a model.

    Omega is a penalty of block norms, of single weights, or of both.
    """
    templates, count = model.templates, len(model.templates.blocks)
    form = penalty.split(count)
    if form is None:
        raise Unsupported(f"{penalty!r} is no penalty of the norms of templates and of single weights")
    blocks = np.zeros((5, len(templates.families), 3))
    blocks[SCALE], blocks[ACTIVE] = 1.0, templates.active
    empty, sums = aligned_singles(model.weights.size), aligned_singles(model.weights.size)
    now = Learnt(model.weights, read_only(model.weights), sums, blocks)
    gradient = Learnt(empty, read_only(empty), sums, blocks.copy())
    places = np.array(templates.places, dtype=np.int64).reshape(-1, 2)
    loss = Loss(LOG, 0.0)
    trees = structure("projective-tree" if projective else "tree", loss)
    rule = TreeRule(trees, loss, compiled_prox(Zero(), count), read_only(places), False, False, np.inf)
    task = Task(corpus_of(codes, None), read_only(gold), read_only(model.limits))
    out = np.zeros((codes.first.size, 2))
    tree_expectations(task, layout_of(templates, model.layout), rule, now, gradient, out)
    total = ArcModel(templates, model.layout, model.limits, empty)
    return certify(out[:, 0], out[:, 1], [_part(model, total, form, max(1, out.shape[0]))])


def _part(model: ArcModel, total: ArcModel, form: Split, sentences: int) -> Part:
    """The weights with their mean gradient, the sum of all over the sentences, and the penalty."""
    if form.elastic == NO_ELASTIC:
        # The penalty sees block norms alone, and so does its conjugate.
        own, slopes = model.block_norms(), total.block_norms() / sentences
        return Part(own[:, None], slopes[:, None], NO_ELASTIC, form.norms, np.arange(own.size + 1))
    weights: list[Floats] = []
    gradient: list[Floats] = []
    starts = [0]
    for f, slot in model.templates.places:
        w, g = (block_view(one.weights, one.layout, f, slot).reshape(-1) for one in (model, total))
        # Where both are zero nothing is added to any sum.
        some = np.flatnonzero((w != 0.0) | (g != 0.0))
        weights.append(w[some].astype(np.float64))
        gradient.append(g[some].astype(np.float64) / sentences)
        starts.append(starts[-1] + some.size)
    norms = None if isinstance(form.norms, Zero) else form.norms
    columns = np.concatenate(weights)[:, None], np.concatenate(gradient)[:, None]
    return Part(*columns, form.elastic, norms, np.array(starts))
