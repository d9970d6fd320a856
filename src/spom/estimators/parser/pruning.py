"""The choice of a parser's templates: the non-negative garrote ranks them on held-out sentences, with their cost.

A parser with all templates learns from part of the sentences, once. On others each template gets a weight beta >= 0
for its part of the scores of arcs (`solvers.structured.trees.garrote`); most are zero. Templates that share rows of
weights share their cost too, so families are taken in the order of their betas over the root of their cost, within a
budget that makes a parser with a fifth of the templates four times as fast.

A given number or share of templates is kept exactly. `"auto"` depends on the treebank: sentences are divided into
three runs, and parsers learn from two of them, for each run in turn, with all templates and with the best half. The
half is taken if it is good enough on the held-out runs (`estimators.pruning`; by correct heads). Then small weights
are dropped without learning again: the kept share of the largest weights is the smallest whose trees of the held-out
runs are good enough compared to those of the whole parser, and likewise for the weights of relations. With a second
stage or trees of second order all weights of arcs are kept.

A dict with a false discovery rate keeps the families of templates that stand out against their knockoffs
(`spom.solvers.structured.trees.knockoffs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles, aligned_singles
from spom.data.treebank import Treebank
from spom.estimators.parser.defaults import chosen_penalty
from spom.estimators.parser.stages import Stages, gold_relations
from spom.estimators.pruning import FEWEST, asked_rate, is_worse, runs, will_do
from spom.features.arc_spaces import HEAD, MODIFIER, PAIR, SALT
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates, with_roots
from spom.solvers.structured.trees.garrote import best_templates
from spom.solvers.structured.trees.knockoffs import TemplateDiscovery, discover_arcs
from spom.solvers.structured.trees.relations import LabelLearner, LabelModel

# The least number of templates, as a share, for which the budget of their cost is computed.
LEAST_SHARE = 0.2
# The share of the templates that "auto" tries, and the shares of the weights.
HALF, WEIGHTS = 0.5, (0.5, 0.65, 0.8)
# The share of the sentences for training, and the maximum number of others held out.
LEARNT, HELD_OUT = 0.2, 400
SELECTION_BITS = 14
# Relative cost of a family: one that uses a single word, and others with a small table or with one shared by hashing;
# and the factor for families that use the tags between.
SINGLE, SMALL, HASHED, TAGS = 1.0, 5.0, 15.0, 4.0


@dataclass(frozen=True)
class Pruning:
    """Of `names` those with `kept` were kept; `scores` are the betas, `reasons` why each was kept or dropped.

    `why` describes the ranking, `seconds` is its time. `share` of the weights of arcs are kept, the largest.
    `selection` is the result for a false discovery rate, or None.
    """

    names: list[str]
    scores: Floats
    kept: NDArray[np.bool_]
    reasons: list[str]
    why: str
    seconds: float
    share: float = 1.0
    selection: TemplateDiscovery | None = None

    def table(self, count: int | None = None) -> str:
        """Return the templates from the best to the worst: + kept or - dropped, beta, name, reason."""
        order = np.lexsort((-self.scores, ~self.kept))[:count]
        rows = [
            f"{'+' if self.kept[k] else '-'} {self.scores[k]:7.4f}  {self.names[k]:<44} {self.reasons[k]}"
            for k in order.tolist()
        ]
        return "\n".join([f"{self.why}; {self.seconds:.1f} s", *rows])

    def __repr__(self) -> str:
        return f"Pruning({int(self.kept.sum())} of {len(self.names)} templates kept: {self.why})"


def how_many(prune: Any, count: int) -> int:
    """Return the number of templates, of `count`, that `prune` means to keep; for "auto" the half that is tried.

    >>> how_many("auto", 435), how_many(40, 435), how_many(0.1, 435)
    (218, 40, 44)
    """
    if isinstance(prune, str) and prune == "auto":
        return max(1, round(HALF * count))
    if isinstance(prune, (bool, str)) or not isinstance(prune, (int, float, np.integer, np.floating)) or not prune > 0:
        what = "None, 'auto', a number of templates, a share below one or {'false_discovery_rate': a rate}"
        raise ValueError(f"prune must be {what}; it is {prune!r}")
    if prune < 1:
        return max(1, round(float(prune) * count))
    return min(int(prune), count)


def select_templates(
    run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, prune: Any, how: tuple[int, bool]
) -> tuple[ArcTemplates, Pruning]:
    """Return the templates to keep, and the report; for "auto", `how` is (epochs, whether single weights may go)."""
    if isinstance(prune, dict):
        return discovered_templates(run, templates, codes, gold, asked_rate(prune))
    count, begin = len(templates.blocks), time.perf_counter()
    found = how_many(prune, count)
    if not isinstance(prune, str):
        ranked = ranked_templates(run, templates, codes, gold, found)
        return templates.keep(np.flatnonzero(ranked.kept)), ranked
    every, n = ["kept"] * count, codes.first.size
    if n < FEWEST:
        why = f"everything stays: {n} sentences are too few to compare on"
        return templates, Pruning(templates.blocks, np.zeros(count), np.ones(count, bool), every, why, 0.0)
    parts = runs(np.arange(n))
    models = [_judged(run, templates, codes, gold, part, how[0]) for part in parts]
    ranked = ranked_templates(run, templates, codes, gold, found)
    fewer, smaller = templates.keep(np.flatnonzero(ranked.kept)), models[:0]
    for part in parts:
        smaller.append(_judged(run, fewer, codes, gold, part, how[0]))
        if is_worse(_right(models[: len(smaller)]), _right(smaller)):
            break
    taken, figures = will_do(_right(models[: len(smaller)]), _right(smaller))
    verdicts = [f"{int(ranked.kept.sum())} of {count} templates: {figures}: {'taken' if taken else 'refused'}"]
    share, more = smallest_share(_right(models), smaller if taken else models) if how[1] else (1.0, [])
    why = "; ".join([ranked.why, *verdicts, *more])
    if not taken:
        ranked = replace(ranked, kept=np.ones(count, bool), reasons=every)
    seconds = time.perf_counter() - begin
    return templates.keep(np.flatnonzero(ranked.kept)), replace(ranked, why=why, seconds=seconds, share=share)


def discovered_templates(
    run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, rate: float
) -> tuple[ArcTemplates, Pruning]:
    """Return the templates of families that stand out against their knockoffs."""
    penalty, seed = chosen_penalty("group-lasso", codes.first.size), run.settings["seed"]
    number = int(seed) if isinstance(seed, (int, np.integer)) else 0
    found = discover_arcs(templates, codes, gold, penalty, rate, projective=run.settings["projective"], seed=number)
    found.check_some("families of templates")
    kept = np.isin(np.arange(len(found.names)), found.kept)
    stands = {name for m, name in enumerate(found.families) if m in set(found.found.tolist())}
    judged = set(found.families)
    reasons = []
    for family in (templates.families[f].name for f, _ in templates.places):
        against = "stands out against its knockoff" if family in stands else "does not stand out against its knockoff"
        reasons.append(against if family in judged else "kept: it names no word")
    why = f"{found.promise('families of templates')}; {found.sentences} sentences"
    pruning = Pruning(found.names, found.evidence, kept, reasons, why, found.seconds, selection=found)
    return templates.keep(found.kept), pruning


class Judged(NamedTuple):
    """Weights, a function that counts (words, words, right) by sentence for any weights, and the counts of these."""

    weights: Singles
    counts: Callable[[Singles], Ints]
    right: Ints


def _right(models: list[Judged]) -> Ints:
    return np.concatenate([model.right for model in models])


def _judged(
    run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, part: tuple[Ints, Ints], epochs: int
) -> Judged:
    """Learn arcs from some sentences and judge them by the heads of others, which are contiguous."""
    rest, held = part
    solver = run.solver(templates, codes, gold)
    for _ in range(epochs):
        solver.epoch(rest)
    model, bounds = solver.model(), (int(held[0]), int(held[-1]) + 1)

    def counts(weights: Singles) -> Ints:
        heads, _ = replace(model, stored=weights).parse(codes, run.settings["projective"], None, run.n_jobs, bounds)
        return right_words(heads == gold, codes, held)

    return Judged(model.weights, counts, counts(model.weights))


def right_words(right: NDArray[np.bool_], codes: ArcCodes, sentences: Ints) -> Ints:
    """Return (words, words, right words) of each sentence."""
    before = np.append(0, np.cumsum(right))
    first, words = codes.first[sentences] + 1, codes.sizes[sentences]
    return np.stack([words, words, before[first + words] - before[first]], axis=1)


def smallest_share(full: Ints, models: list[Judged], what: str = "arcs") -> tuple[float, list[str]]:
    """Return the smallest share of the largest weights that is good enough against `full`, else 1, and the figures."""
    figures = []
    for share in WEIGHTS:
        smaller = np.concatenate([model.counts(largest_share(model.weights, share)) for model in models])
        taken, text = will_do(full, smaller)
        figures.append(f"{100 * share:.0f} % of the weights of {what}: {text}: {'taken' if taken else 'refused'}")
        if taken:
            return share, figures
    return 1.0, figures


def largest_share(weights: Singles, share: float) -> Singles:
    """Return the weights with zeros for all but the largest: this share of the non-zero ones.

    >>> largest_share(np.array([3, 0, -1, 2, -4], dtype=np.float32), 0.5).tolist()
    [3.0, 0.0, 0.0, 0.0, -4.0]
    """
    found, size = aligned_singles(weights.size), np.abs(weights)
    there = size[size > 0.0]
    edge = np.partition(there, -int(share * there.size))[-int(share * there.size)] if share * there.size >= 1.0 else 0.0
    found[:] = np.where(size < edge, np.float32(0.0), weights)
    return found


def relation_share(
    run: Stages, labels: ArcTemplates, relations: tuple[str, ...], bank: Treebank, epochs: int
) -> tuple[float, list[str]]:
    """Return the smallest share for relations, judged on gold trees of held-out sentences."""
    if len(bank) < FEWEST:
        return 1.0, []
    models = []
    for rest, held in runs(np.arange(len(bank))):
        learner = LabelLearner(labels, relations, run.settings["seed"], copies=False)
        learner.feed(*_relations(labels, relations, bank[rest]))
        for _ in range(epochs):
            learner.epoch()
        found = learner.model()
        counts = partial(_right_relations, found, _relations(labels, relations, bank[held]), run.n_jobs)
        models.append(Judged(found.weights, counts, counts(found.weights)))
    return smallest_share(_right(models), models, "relations")


def _right_relations(model: LabelModel, held: tuple[ArcCodes, Ints, Ints], n_jobs: int, weights: Singles) -> Ints:
    codes, trees, gold = held
    right = replace(model, stored=weights).find(codes, trees, n_jobs) == gold
    return right_words(right, codes, np.arange(codes.first.size))


def _relations(labels: ArcTemplates, relations: tuple[str, ...], bank: Treebank) -> tuple[ArcCodes, Ints, Ints]:
    """Return codes, gold heads and gold relations of sentences."""
    codes = labels.transform(bank)
    return codes, with_roots(bank.heads, codes), gold_relations(bank, relations, codes)


def ranked_templates(run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, wanted: int) -> Pruning:
    """Return the `wanted` best templates by the garrote and their cost."""
    begin = time.perf_counter()
    names = templates.blocks
    # Small tables are good enough for the choice, and much faster.
    trial = templates.keep(np.arange(len(names)))
    trial.table_bits = min(templates.table_bits, SELECTION_BITS)
    solver = run.solver(trial, codes, gold, penalty=None)
    count = codes.first.size
    order = np.random.default_rng(run.settings["seed"]).permutation(count)
    # With very few sentences all are used for both.
    learnt = order if count < 20 else order[: max(10, int(LEARNT * count))]
    held = order if count < 20 else order[learnt.size :][:HELD_OUT]
    solver.epoch(learnt)
    beta, strength = best_templates(solver.model(), codes, gold, held, wanted)
    kept, affordable = choose(templates, solver.layout, beta, wanted)
    mask = np.zeros(len(names), dtype=bool)
    mask[kept] = True
    reasons = [_reason(bool(k), bool(a), float(b)) for k, a, b in zip(mask, affordable, beta, strict=True)]
    why = f"garrote on {held.size} held-out sentences, strength {strength:.2g}"
    return Pruning(names, beta, mask, reasons, why, time.perf_counter() - begin)


def choose(templates: ArcTemplates, layout: ArcLayout, beta: Floats, wanted: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return (the templates to keep, which of all are in a family within the budget)."""
    families = np.array([f for f, _ in templates.places])
    value = np.bincount(families, weights=beta, minlength=len(templates.families))
    between = np.array([bool(family.between) for family in templates.families])
    table = layout.families
    single = ((table[:, HEAD] < 0) | (table[:, MODIFIER] < 0)) & (table[:, PAIR] < 0) & ~between
    cost = np.where(single, SINGLE, np.where(table[:, SALT] > 0, HASHED, SMALL)) * np.where(between, TAGS, 1.0)
    # Fewer than a fifth are the best of that fifth, which is fast enough.
    budget = (1.1 * max(LEAST_SHARE, wanted / beta.size) + 0.02) * cost.sum()
    room = np.zeros(cost.size, dtype=bool)
    for f in np.argsort(-value / np.sqrt(cost), kind="stable"):
        if cost[room].sum() + cost[f] <= budget or not room.any():
            room[f] = True
    affordable = room[families]
    # If the budget allows too few templates, add the best of the others.
    order = np.lexsort((-beta, ~affordable))
    return np.sort(order[:wanted]), affordable


def _reason(kept: bool, affordable: bool, beta: float) -> str:
    if kept:
        return "kept" if beta > 0.0 else "kept: it costs nothing beside the others of its family"
    if beta == 0.0:
        return "adds nothing to the others on held-out sentences"
    return "adds less than those kept" if affordable else "adds less than it costs"
