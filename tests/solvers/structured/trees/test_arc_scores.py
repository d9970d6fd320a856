"""Scores and norms of all kinds of families against plain Python, where arcs have every attribute that there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.features.arcs import ArcTemplates, with_roots
from spom.solvers.structured.trees.solver import ArcSolver

from .naive_arcs import NaiveLearner, random_bank, words_of

# One side with an attribute of the pair or a set, both sides, none; each slot alone and all together.
ODD = [
    *("h.upos gap", "h.lemma gap dist", "m.upos gap dir", "h.xpos between.upos", "m.xpos between.upos dir"),
    *("h.upos m.upos", "h.upos m.upos dir", "h.upos m.upos dist", "h.feats", "h.feats dist", "m.feats dir"),
    *("h.upos m.upos gap between.xpos", "h-1.form", "m+1.form dir", "h.upos between.lemma dist", "h-2.upos m+2.upos"),
    *("between.form dir", "m.upos between.form"),
]
GUIDED = [
    *("h.upos same", "m.upos same dist", "h.upos sibling.upos dir", "m.xpos beyond.upos", "h^.upos same between.upos"),
    *("h.feats same", "h<.upos m>.upos", "h^^.xpos", "m^.upos m.lemma dist", "sibling.upos between.xpos dir"),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("names", [ODD, [*ODD, *GUIDED]], ids=["plain", "guided"])
def test_scores_of_all_families(names: list[str], seed: int) -> None:
    bank = random_bank(seed, sentences=5)
    draw, names = np.random.default_rng(seed), ArcTemplates(names).blocks
    # A guide of any heads, the root's among them.
    guide = None
    if len(names) > len(ODD):
        guide = np.concatenate([[int(draw.choice([h for h in range(n + 1) if h != m])) for m in range(1, n + 1)]
                                for n in np.diff(bank.offsets).tolist()])  # fmt: skip
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    guides = None if guide is None else with_roots(guide, codes)
    solver = ArcSolver(templates, codes, gold, guides=guides, shuffle=False, loss="log", step=0.3)
    solver.limits[:] = 30000
    naive = NaiveLearner(names, "log", 0.3)
    seen: Any = bank.heads if guide is None else guide
    solver.epoch()
    for s in range(len(bank)):
        part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
        own = [-1, *seen[part].tolist()]
        naive.round(words_of(bank, s), [-1, *bank.heads[part].tolist()], own, 0.3)
    model = solver.model(averaged=False)
    for s in range(len(bank)):
        own = [-1, *seen[bank.offsets[s] : bank.offsets[s + 1]].tolist()]
        expected = naive.scores(words_of(bank, s), own, naive.theta)
        np.testing.assert_allclose(model.scores(codes, s, guides), expected, atol=1e-5)
    norms = np.zeros(len(names))
    for f, w in naive.theta.items():
        norms[names.index(f.split("|")[0])] += w * w
    np.testing.assert_allclose(solver.norms, np.sqrt(norms), atol=1e-4)
