r"""Selection of the arc templates that a parser needs: one pass of group dual averaging of a random field over trees.

    theta_m = -eta u_m max(0, 1 - t s d_m / norm(u_m)),   u_m the sum of all gradients of template m in t rounds

for the group lasso of strength s, and the prox of any other penalty of block norms in its place. As for chains
(`spom.solvers.structured.chains.select`), sums of gradients average the noise of single sentences away, and templates
that explain nothing stay exactly zero. The weights d_m are sqrt(concentration), scaled to mean 1: a template with few
frequent features has larger sums of pure noise than one with many rare ones. Then only the kept templates are learnt,
under the part of the penalty on single weights, if any: its l1 part makes single weights zero (`sparse`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, aligned_singles
from spom.core.jit import kernel
from spom.features.arc_spaces import longest_sentence, sentence_of
from spom.features.arcs import ArcCodes, ArcTemplates, Layout
from spom.penalties import ElasticNet
from spom.penalties.forms import selection_form
from spom.solvers.structured.structures import LOG, Loss, Parts
from spom.solvers.structured.trees.learning import (
    NORM,
    SCALE,
    Learnt,
    Task,
    TreeRule,
    change_arc,
    change_arcs,
    sentence_residual,
)
from spom.solvers.structured.trees.space import arc_limits, make_space, places_of, prepare

# The minimum number of sentences that a selection uses, and its share of a large treebank. Not tuned.
LEAST, SHARE = 1500, 0.2
# Small tables, as in pruning, are good enough for a selection, and much faster.
BITS = 14


def looked_at(sentences: int) -> int:
    """Return the number of sentences that a selection uses.

    >>> looked_at(400), looked_at(5000), looked_at(20_000)
    (400, 1500, 4000)
    """
    return min(sentences, max(LEAST, int(SHARE * sentences)))


def after_selection(penalty: Any, count: int) -> Any:
    """Return the part of a penalty that acts on the single weights of the remaining templates, or None.

    >>> from spom.penalties import GroupLasso, SparseGroupLasso
    >>> after_selection(SparseGroupLasso(0.5, l1_ratio=0.2), 69), after_selection(GroupLasso(0.5), 69)
    (ElasticNet(strength=0.1, l1_ratio=1.0), None)
    """
    l1, l2 = selection_form(penalty, count).elastic
    return ElasticNet(l1 + l2, l1 / (l1 + l2)) if l1 + l2 > 0.0 else None


@dataclass(frozen=True)
class TemplateSelection:
    """The templates `names[kept]` are kept, as their evidence norm(u_m) / (t d_m) is high enough."""

    names: list[str]
    kept: Ints
    evidence: Floats
    weights: Floats
    sentences: int
    seconds: float

    def __repr__(self) -> str:
        """Return one line."""
        return f"TemplateSelection({self.kept.size} of {len(self.names)} templates kept, {self.sentences} sentences)"


@kernel("void(Task, int64[::1], Layout, Learnt)")
def count_arcs(task: Task, order: Ints, layout: Layout, to: Learnt) -> None:
    """Add 1 for each feature of each scored arc, so that the norms of blocks are those of counts."""
    space = make_space(longest_sentence(task.corpus, order), layout.families.shape[0], layout.sets.size)
    for t in range(order.size):
        sentence = sentence_of(task.corpus, order[t])
        if sentence.n > 0:
            for a in range(prepare(sentence, layout, task.limits, space)):
                change_arc(layout, space, a, 1.0, to)


@kernel("void(TreeRule, float64[::1], float64, float64, Learnt, Learnt)")
def dual_scales(rule: TreeRule, metric: Floats, eta: float, t: float, sums: Learnt, now: Learnt) -> None:
    """Set each template's scale in `now` to -prox(b)_m / (d_m norm(u_m)), with b_m = eta norm(u_m) / d_m."""
    count = rule.places.shape[0]
    before, after = np.empty(count), np.empty(count)
    for m in range(count):
        norm = math.sqrt(max(sums.blocks[NORM, rule.places[m, 0], rule.places[m, 1]], 0.0))
        before[m] = eta * norm / metric[m]
    rule.prox.function(before, eta * t, rule.prox.reals, rule.prox.ints, after)
    for m in range(count):
        scale = -eta * after[m] / before[m] / metric[m] ** 2 if before[m] > 0.0 else 0.0
        now.blocks[SCALE, rule.places[m, 0], rule.places[m, 1]] = scale


@kernel("void(Task, int64[::1], Layout, TreeRule, float64[::1], float64, Learnt, Learnt)")
def select_rounds(
    task: Task, order: Ints, layout: Layout, rule: TreeRule, metric: Floats, eta: float, sums: Learnt, now: Learnt
) -> None:
    """Run one round of dual averaging per sentence; `sums` and `now` share a table, but have their own scales."""
    space = make_space(longest_sentence(task.corpus, order), layout.families.shape[0], layout.sets.size)
    nothing = np.empty((0, 0))
    for t in range(order.size):
        sentence = sentence_of(task.corpus, order[t])
        if sentence.n > 0:
            shape = (sentence.n + 1, sentence.n + 1)
            scores, change = Parts(np.empty(shape), nothing), Parts(np.empty(shape), nothing)
            _, count = sentence_residual(sentence, layout, task, rule, space, now, scores, change)
            change_arcs(layout, space, count, -1.0, change, sums)
        dual_scales(rule, metric, eta, t + 1.0, sums, now)


@dataclass(frozen=True)
class ArcSample:
    """The sentences `order` of a task, and the templates at `places` (family, slot) of a layout."""

    task: Task
    layout: Layout
    order: Ints
    places: Ints
    active: NDArray[np.bool_]

    def _table(self) -> Learnt:
        size = self.layout.size
        return Learnt.of(self.active, aligned_singles(size), aligned_singles(size))

    def metric(self) -> Floats:
        """Return the weight d_m of each template."""
        counts = self._table()
        count_arcs(self.task, self.order, self.layout, counts)
        root = np.maximum(counts.blocks[NORM][self.places[:, 0], self.places[:, 1]], 0.0) ** 0.25
        return np.asarray(np.where(root > 0.0, root, 1.0) / (root.mean() if root.any() else 1.0))

    def run(self, norms: Any, metric: Floats, projective: bool) -> tuple[Floats, Ints]:
        """Return (evidence of each template, remaining templates) after a pass under a penalty of their norms."""
        sums = self._table()
        now = sums._replace(blocks=sums.blocks.copy())
        now.blocks[SCALE] = 0.0
        rule = TreeRule.of(self.places, Loss(LOG, 0.0), projective, norms)
        select_rounds(self.task, self.order, self.layout, rule, metric, 1.0 / self.places.shape[0], sums, now)
        sizes = np.sqrt(np.maximum(sums.blocks[NORM][self.places[:, 0], self.places[:, 1]], 0.0))
        kept = np.flatnonzero(now.blocks[SCALE][self.places[:, 0], self.places[:, 1]])
        return sizes / (max(1, self.order.size) * metric), kept


def small_templates(templates: ArcTemplates) -> ArcTemplates:
    """Return the same templates with small tables."""
    trial = templates.keep(np.arange(len(templates.blocks)))
    trial.table_bits = min(templates.table_bits, BITS)
    return trial


def drawn_sentences(codes: ArcCodes, seed: Any) -> Ints:
    """Return a random sample of sentences for a selection."""
    total = codes.first.size
    return np.random.default_rng(seed).permutation(total)[: looked_at(total)]


def select_arcs(
    templates: ArcTemplates, codes: ArcCodes, gold: Ints, penalty: Any, *, projective: bool, seed: Any = 0
) -> TemplateSelection:
    """Return the templates that a penalty of block norms keeps, from one pass over part of the sentences."""
    begin = time.perf_counter()
    norms = selection_form(penalty, len(templates.blocks)).norms
    trial = small_templates(templates)
    order = drawn_sentences(codes, seed)
    task = Task.of(codes, gold, arc_limits(trial, codes, gold))
    sample = ArcSample(task, trial.layout(), order, places_of(trial), trial.active)
    metric = sample.metric()
    evidence, kept = sample.run(norms, metric, projective)
    return TemplateSelection(templates.blocks, kept, evidence, metric, order.size, time.perf_counter() - begin)
