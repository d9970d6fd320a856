"""Which templates a parser needs: the non-negative garrote on held-out sentences ranks them, and what they cost counts.

A parser with all templates learns from part of the sentences, once. On others each template gets a weight beta >= 0
for what it adds to the scores of arcs (`solvers.structured.trees.garrote`); most are zero. Templates that share rows of
weights share their cost too, so families are taken in the order of their betas over the root of their cost, within a
budget that makes a parser with a fifth of the templates four times as fast.

A number of templates or a share of them is kept as asked. `"auto"` asks the treebank: parsers with all templates, with
the best fifth, half and three quarters learn from four fifths of the sentences; on the others the smaller one is taken
where its heads are not worse by more than .001, and, at a risk of one in ten (sentence by sentence), not by more than
.005. Otherwise every template stays.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.estimators.parser.stages import Run
from spom.features.arc_spaces import HEAD, MODIFIER, PAIR, SALT
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates
from spom.solvers.structured.trees.garrote import best_templates

AUTO_SHARE = 0.2
# The shares of templates that "auto" tries in turn; every fifth sentence is held out for that, unless there are few.
SHARES, EVERY, FEWEST = (0.2, 0.5, 0.75), 5, 60
# What heads may lose on held-out sentences, by their mean and at a risk of one in ten (a normal quantile).
FALL, WORST, QUANTILE = 0.001, 0.005, 1.2816
# How much of the sentences is learnt from, and how many of the others at most are held out.
LEARNT, HELD_OUT = 0.2, 400
SELECTION_BITS = 14
# What a family costs: one that looks at a single word, others with a small table and with one that is shared by
# hashing; and how many times as much for the tags between.
SINGLE, SMALL, HASHED, TAGS = 1.0, 5.0, 15.0, 4.0


@dataclass(frozen=True)
class Pruning:
    """Of `names` those with `kept` stayed; `scores` are their betas, `reasons` say why each stayed or went.

    `why` says how they were ranked, `seconds` what that took.
    """

    names: list[str]
    scores: Floats
    kept: NDArray[np.bool_]
    reasons: list[str]
    why: str
    seconds: float

    def table(self, count: int | None = None) -> str:
        """The templates from the best to the worst: + kept or - dropped, beta, name, reason."""
        order = np.lexsort((-self.scores, ~self.kept))[:count]
        rows = [
            f"{'+' if self.kept[k] else '-'} {self.scores[k]:7.4f}  {self.names[k]:<44} {self.reasons[k]}"
            for k in order.tolist()
        ]
        return "\n".join([f"{self.why}; {self.seconds:.1f} s", *rows])

    def __repr__(self) -> str:
        return f"Pruning({int(self.kept.sum())} of {len(self.names)} templates kept: {self.why})"


def how_many(prune: Any, count: int) -> int:
    """The number of templates to keep that `prune` means, of `count`; of "auto" the fewest that are tried.

    >>> how_many("auto", 435), how_many(40, 435), how_many(0.1, 435)
    (87, 40, 44)
    """
    if isinstance(prune, str) and prune == "auto":
        return max(1, round(AUTO_SHARE * count))
    if isinstance(prune, (bool, str)) or not isinstance(prune, (int, float, np.integer, np.floating)) or not prune > 0:
        raise ValueError(f"prune must be None, 'auto', a number of templates or a share below one; it is {prune!r}")
    if prune < 1:
        return max(1, round(float(prune) * count))
    return min(int(prune), count)


def select_templates(
    run: Run, templates: ArcTemplates, codes: ArcCodes, gold: Ints, prune: Any, epochs: int
) -> tuple[ArcTemplates, Pruning]:
    """The templates to keep, and how they were chosen; `epochs` is for the comparisons of "auto"."""
    how_many(prune, len(templates.blocks))
    if not isinstance(prune, str):
        found = ranked_templates(run, templates, codes, gold, how_many(prune, len(templates.blocks)))
        return templates.keep(np.flatnonzero(found.kept)), found
    begin, every = time.perf_counter(), np.arange(codes.first.size)
    held, count = every[EVERY - 1 :: EVERY], len(templates.blocks)
    if every.size < FEWEST:
        why = f"every template stays: {every.size} sentences are too few to compare on"
        return templates, Pruning(templates.blocks, np.zeros(count), np.ones(count, bool), ["kept"] * count, why, 0.0)
    rest, verdicts = np.setdiff1d(every, held), []

    def right(some: ArcTemplates) -> Floats:
        """The words with the right head in each held-out sentence, after learning from the others."""
        solver = run.solver(some, codes, gold)
        for _ in range(epochs):
            solver.epoch(rest)
        heads, _ = solver.model().parse(codes, run.settings["projective"], n_jobs=run.n_jobs)
        return np.array(
            [np.count_nonzero((heads == gold)[a + 1 : a + 1 + n]) for a, n in places_of(codes, held)], float
        )

    full, words = right(templates), codes.sizes[held].astype(np.float64)
    for share in SHARES:
        found = ranked_templates(run, templates, codes, gold, how_many(share, count))
        smaller = templates.keep(np.flatnonzero(found.kept))
        taken, verdict = compared(full, right(smaller), words)
        verdicts.append(f"{int(found.kept.sum())} of {count} templates: {verdict}")
        if taken:
            break
    why, seconds = f"{found.why}; " + "; ".join(verdicts), time.perf_counter() - begin
    if taken:
        return smaller, replace(found, why=why, seconds=seconds)
    return templates, replace(found, kept=np.ones(count, bool), reasons=["kept"] * count, why=why, seconds=seconds)


def places_of(codes: ArcCodes, sentences: Ints) -> list[tuple[int, int]]:
    """Where each sentence begins (with its root), and how many words it has."""
    return list(zip(codes.first[sentences].tolist(), codes.sizes[sentences].tolist(), strict=True))


def compared(full: Floats, smaller: Floats, words: Floats) -> tuple[bool, str]:
    """Whether the smaller parser will do, from right heads in each sentence, and the figures.

    >>> compared(np.array([9.0, 8.0]), np.array([9.0, 8.0]), np.array([10.0, 10.0]))
    (True, 'heads 0.8500 to 0.8500, at worst -0.0000 at a risk of .1: taken')
    """
    total = float(words.sum())
    fall = float((full - smaller).sum()) / total
    spread = np.sqrt(np.sum((full - smaller - fall * words) ** 2)) / total
    worst = fall + QUANTILE * float(spread)
    taken = fall <= FALL and worst <= WORST
    scores = f"heads {float(full.sum()) / total:.4f} to {float(smaller.sum()) / total:.4f}"
    return taken, f"{scores}, at worst {-worst:.4f} at a risk of .1: {'taken' if taken else 'refused'}"


def ranked_templates(run: Run, templates: ArcTemplates, codes: ArcCodes, gold: Ints, wanted: int) -> Pruning:
    """The `wanted` best templates by the garrote and their cost."""
    begin = time.perf_counter()
    names = templates.blocks
    # Small tables are good enough to choose by, and much faster.
    trial = templates.keep(np.arange(len(names)))
    trial.table_bits = min(templates.table_bits, SELECTION_BITS)
    solver = run.solver(trial, codes, gold, penalty=None)
    count = codes.first.size
    order = np.random.default_rng(run.settings["seed"]).permutation(count)
    # With a handful of sentences there is none to spare.
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
    """(the templates to keep, which of all are in a family that the budget has room for)."""
    families = np.array([f for f, _ in templates.places])
    value = np.bincount(families, weights=beta, minlength=len(templates.families))
    between = np.array([bool(family.between) for family in templates.families])
    table = layout.families
    single = ((table[:, HEAD] < 0) | (table[:, MODIFIER] < 0)) & (table[:, PAIR] < 0) & ~between
    cost = np.where(single, SINGLE, np.where(table[:, SALT] > 0, HASHED, SMALL)) * np.where(between, TAGS, 1.0)
    # Who wants fewer than a fifth gets the best of them: they are fast enough.
    budget = (1.1 * max(AUTO_SHARE, wanted / beta.size) + 0.02) * cost.sum()
    room = np.zeros(cost.size, dtype=bool)
    for f in np.argsort(-value / np.sqrt(cost), kind="stable"):
        if cost[room].sum() + cost[f] <= budget or not room.any():
            room[f] = True
    affordable = room[families]
    # Where the budget leaves too few templates, the best of the others fill up.
    order = np.lexsort((-beta, ~affordable))
    return np.sort(order[:wanted]), affordable


def _reason(kept: bool, affordable: bool, beta: float) -> str:
    if kept:
        return "kept" if beta > 0.0 else "kept: it costs nothing beside the others of its family"
    if beta == 0.0:
        return "adds nothing to the others on held-out sentences"
    return "adds less than those kept" if affordable else "adds less than it costs"
