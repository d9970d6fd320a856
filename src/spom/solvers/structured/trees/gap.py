"""The duality gap of random fields over trees: `spom.solvers.structured.gap` with one pass over the sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, aligned_singles
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.features.arc_spaces import HEAD_OF, MODIFIER_OF, Shorts, longest_sentence, sentence_of
from spom.features.arcs import ArcCodes, ArcTemplates, Layout
from spom.penalties import Zero
from spom.penalties.forms import NO_ELASTIC, Split
from spom.solvers.structured.gap import Certificate, Part, certify
from spom.solvers.structured.structures import LOG, Loss, Parts
from spom.solvers.structured.trees.learning import Learnt, Task, TreeRule, change_arc, sentence_residual
from spom.solvers.structured.trees.model import ArcModel, block_view
from spom.solvers.structured.trees.space import make_space, places_of


@kernel("void(Task, Layout, TreeRule, Learnt, Learnt, float64[:, ::1])")
def tree_expectations(task: Task, layout: Layout, rule: TreeRule, now: Learnt, gradient: Learnt, out: Floats) -> None:
    """Write the loss and the entropy of each sentence to `out`, and the sum of all gradients to `gradient`."""
    order = np.arange(out.shape[0])
    space = make_space(longest_sentence(task.corpus, order), layout.families.shape[0], layout.sets.size)
    nothing = np.empty((0, 0))
    for i in range(order.size):
        sentence = sentence_of(task.corpus, i)
        out[i, 0] = out[i, 1] = 0.0
        if sentence.n == 0:
            continue
        shape = (sentence.n + 1, sentence.n + 1)
        scores, change = Parts(np.empty(shape), nothing), Parts(np.empty(shape), nothing)
        value, count = sentence_residual(sentence, layout, task, rule, space, now, scores, change)
        entropy = value
        for a in range(count):
            h, m = space.arcs[HEAD_OF, a], space.arcs[MODIFIER_OF, a]
            d = change.unary[h, m]
            if d != 0.0:
                entropy -= scores.unary[h, m] * d
                change_arc(layout, space, a, d, gradient)
        out[i, 0], out[i, 1] = max(value, 0.0), max(entropy, 0.0)


class At(NamedTuple):
    """The loss and the entropy of each sentence at some weights, and the sum of the gradients of the losses."""

    losses: Floats
    entropies: Floats
    gradient: Singles


class TreeField:
    """A random field over trees as a function of its weights."""

    def __init__(
        self, templates: ArcTemplates, codes: ArcCodes, gold: Ints, limits: Shorts, *, projective: bool
    ) -> None:
        self.templates, self.task, self.layout = templates, Task.of(codes, gold, limits), templates.layout()
        self.rule, self.sentences = TreeRule.of(places_of(templates), Loss(LOG, 0.0), projective), codes.first.size
        # Scales are never summed, so only zeros are added to these sums for a mean.
        self._unused = aligned_singles(self.layout.size)

    def table(self, weights: Singles) -> Learnt:
        """Return weights as kernels take them."""
        return Learnt.of(self.templates.active, weights, self._unused)

    def at(self, weights: Singles) -> At:
        """Return losses, entropies and gradient at these weights: one pass over the sentences."""
        gradient, out = aligned_singles(weights.size), np.zeros((self.sentences, 2))
        tree_expectations(self.task, self.layout, self.rule, self.table(weights), self.table(gradient), out)
        return At(out[:, 0], out[:, 1], gradient)


def tree_gap(model: ArcModel, codes: ArcCodes, gold: Ints, penalty: Any, projective: bool) -> Certificate:
    """Return bounds on the least Omega(theta) + mean log loss, at the weights of a model.

    Omega is a penalty of block norms, of single weights, or of both.
    """
    form = penalty.split(len(model.templates.blocks))
    if form is None:
        raise Unsupported(f"{penalty!r} is not a penalty of the norms of templates and of single weights")
    found = TreeField(model.templates, codes, gold, model.limits, projective=projective).at(model.weights)
    part = _part(model, replace(model, stored=found.gradient), form, max(1, found.losses.size))
    return certify(found.losses, found.entropies, [part])


def _part(model: ArcModel, total: ArcModel, form: Split, sentences: int) -> Part:
    """Return the weights with their mean gradient (`total` over the number of sentences), and the penalty."""
    if form.elastic == NO_ELASTIC:
        # The penalty depends on block norms only, and so does its conjugate.
        own, slopes = model.block_norms(), total.block_norms() / sentences
        return Part(own[:, None], slopes[:, None], NO_ELASTIC, form.norms, np.arange(own.size + 1))
    weights: list[Floats] = []
    gradient: list[Floats] = []
    starts = [0]
    for f, slot in model.templates.places:
        w, g = (block_view(one.weights, one.layout, f, slot).reshape(-1) for one in (model, total))
        # Entries where both are zero add nothing to any sum.
        some = np.flatnonzero((w != 0.0) | (g != 0.0))
        weights.append(w[some].astype(np.float64))
        gradient.append(g[some].astype(np.float64) / sentences)
        starts.append(starts[-1] + some.size)
    norms = None if isinstance(form.norms, Zero) else form.norms
    columns = np.concatenate(weights)[:, None], np.concatenate(gradient)[:, None]
    return Part(*columns, form.elastic, norms, np.array(starts))
