"""Selection of arc templates with a bounded error: knockoffs, and the threshold of `spom.solvers.knockoffs`.

A knockoff of a template has the same attributes read at other words, moved by a permutation of all words, and of all
roots. Direction, distance and the counts of `gap` do not change, so a template is judged by what its words add to
these. Templates that only differ in direction and distance read the same words: they are one family, and judged
together. Group dual averaging (`select`) runs on families and knockoffs together. With Z_f^2 the sum over the
templates of family f of (norm of the mean gradient over its weight)^2, and Z'_f^2 that of the knockoff,
W_f = Z_f - Z'_f.

The guarantee is about families whose words are independent of the trees and of the other families. A family that only
repeats another one is related to the trees, and counts as a discovery. So does one that reveals the position of a word:
by a neighbour that is the root or missing, or by one column at different places of both sides, whose values are equal
if they are the same word. Families without words are not judged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.features.arc_spaces import BASE, HEAD, MODIFIER, SET, START
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates
from spom.penalties.forms import selection_form
from spom.solvers.knockoffs import Stated, stated
from spom.solvers.structured.trees.learning import Task
from spom.solvers.structured.trees.select import (
    ArcSample,
    TemplateSelection,
    drawn_sentences,
    small_templates,
)
from spom.solvers.structured.trees.space import arc_limits, layout_of, places_of


@dataclass(frozen=True)
class TemplateDiscovery(TemplateSelection, Stated):
    """A selection with a guaranteed rate; `differences` are those of `families`."""

    families: tuple[str, ...]


def some_sentences(codes: ArcCodes, gold: Ints, sentences: Ints) -> tuple[ArcCodes, Ints]:
    """Return only these sentences, and their gold heads."""
    sizes = codes.sizes[sentences]
    first = np.append(0, np.cumsum(sizes + 1))
    at = np.arange(first[-1]) + np.repeat(codes.first[sentences] - first[:-1], sizes + 1)
    return ArcCodes(np.ascontiguousarray(codes.codes[:, at]), codes.kinds[at], first[:-1], sizes), gold[at]


def with_knockoffs(
    templates: ArcTemplates, layout: ArcLayout, codes: ArcCodes, random: np.random.Generator
) -> tuple[ArcLayout, ArcCodes]:
    """Return the families followed by their knockoffs, which read columns of their own."""
    knockoffs, n = layout.families.copy(), codes.kinds.size
    roots = codes.first
    words = np.setdiff1d(np.arange(n), roots)
    start, end = np.repeat(roots, codes.sizes + 1), np.repeat(roots + codes.sizes, codes.sizes + 1)
    columns, atoms, ends = [*codes.codes], layout.atoms.tolist(), layout.ends.tolist()
    sets = [*layout.columns]
    for family in knockoffs:
        order = np.empty(n, dtype=np.int64)
        order[words], order[roots] = random.permutation(words), random.permutation(roots)
        for side in (HEAD, MODIFIER):
            if family[side] < 0:
                continue
            for c, hop, radix in layout.atoms[layout.ends[family[side]] : layout.ends[family[side] + 1]].tolist():
                # The neighbours of a word move with it.
                at = order + hop
                there = (start[order] <= at) & (at <= end[order])
                atoms.append([len(columns), 0, radix])
                columns.append(np.where(there, codes.codes[c, np.where(there, at, 0)], radix - 1))
            family[side] = len(ends) - 1
            ends.append(len(atoms))
        if family[SET] >= 0:
            columns.append(codes.codes[family[SET], order])
            family[SET] = len(columns) - 1
            sets.append(len(columns) - 1)
    knockoffs[:, BASE] += layout.rows
    knockoffs[:, START] += layout.size
    both = ArcLayout(
        np.array(ends, dtype=np.int64),
        np.array(atoms, dtype=np.int64).reshape(-1, 3),
        np.concatenate([layout.families, knockoffs]),
        2 * layout.rows,
        2 * layout.size,
        tuple(sets),
    )
    return both, ArcCodes(np.array(columns, dtype=np.int32), codes.kinds, codes.first, codes.sizes)


def discover_arcs(
    templates: ArcTemplates,
    codes: ArcCodes,
    gold: Ints,
    penalty: Any,
    rate: float,
    *,
    projective: bool,
    seed: Any = 0,
) -> TemplateDiscovery:
    """Select templates, with an expected share of noise among their families of at most `rate`."""
    begin = time.perf_counter()
    trial, order = small_templates(templates), drawn_sentences(codes, seed)
    limits, own = arc_limits(trial, codes, gold), places_of(trial)
    count, families = own.shape[0], len(trial.families)
    some, heads = some_sentences(codes, gold, order)
    layout, both = with_knockoffs(trial, trial.layout(), some, np.random.default_rng([int(seed), 1]))
    task = Task.of(both, heads, limits)
    places, active = np.concatenate([own, own + np.array([families, 0])]), np.tile(trial.active, (2, 1))
    sample = ArcSample(task, layout_of(trial, layout), np.arange(order.size), places, active, layout.size)
    # Both of a pair have the same metric.
    metric = np.tile(sample.metric()[:count], 2)
    evidence, _ = sample.run(selection_form(penalty, 2 * count).norms, metric, projective)
    Z = np.sqrt(np.bincount(places[:, 0], evidence**2, 2 * families))
    judged = np.array([bool(f.head or f.modifier or f.between) for f in trial.families])
    promise = stated((Z[:families] - Z[families:])[judged], rate)
    stays = ~judged
    stays[np.flatnonzero(judged)[promise.found]] = True
    return TemplateDiscovery(
        names=templates.blocks,
        kept=np.flatnonzero(stays[own[:, 0]]),
        evidence=evidence[:count],
        weights=metric[:count],
        sentences=order.size,
        seconds=time.perf_counter() - begin,
        families=tuple(f.name for f, told in zip(trial.families, judged.tolist(), strict=True) if told),
        **vars(promise),
    )
