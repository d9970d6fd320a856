"""The duality gap of trees: losses and entropies against a list of all trees, and bounds that no other point breaks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spom import DependencyParser
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import GroupLasso, SparseMKL
from spom.solvers.structured.trees.gap import tree_gap
from spom.solvers.structured.trees.solver import ArcSolver
from tests.solvers.structured.trees.test_tree_selection import NAMES, bank


def listed(scores: np.ndarray) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return all trees with one root of a sentence, and their probabilities."""
    n, trees, values = scores.shape[0] - 1, [], []
    for heads in itertools.product(range(n + 1), repeat=n):
        if heads.count(0) != 1 or any(h == m for m, h in enumerate(heads, start=1)):
            continue
        if any(_loops(heads, m) for m in range(1, n + 1)):
            continue
        value = sum(scores[h, m] for m, h in enumerate(heads, start=1))
        if value > -np.inf:
            trees.append(heads)
            values.append(value)
    p = np.exp(np.array(values) - max(values))
    return trees, p / p.sum()


def _loops(heads: tuple[int, ...], m: int) -> bool:
    for _ in heads:
        m = heads[m - 1]
        if m == 0:
            return False
    return True


@pytest.mark.parametrize("penalty", [SparseMKL(0.5), GroupLasso(0.05)])
def test_the_bound_is_that_of_the_list_of_all_trees(penalty: SparseMKL | GroupLasso) -> None:
    trees = bank(12)
    templates = ArcTemplates(NAMES, 16, 1)
    codes = templates.fit(trees)
    gold = with_roots(trees.heads, codes)
    solver = ArcSolver(templates, codes, gold, loss="log", penalty=penalty, projective=False, seed=0)
    solver.epoch()
    solver.epoch()
    model = solver.model()
    # The gradient's norms, by what a step of one round from these weights would add, sentence by sentence.
    loss, entropies, pi = 0.0, [], []
    for s in range(len(trees)):
        scores = np.asarray(model.scores(codes, s), dtype=np.float64)
        heads, p = listed(scores)
        a, b = trees.offsets[s : s + 2]
        chance = p[heads.index(tuple(trees.heads[a:b].tolist()))]
        loss -= np.log(chance) / len(trees)
        pi.append(chance)
        entropies.append(float(-(p[p > 0] * np.log(p[p > 0])).sum()))
    found = tree_gap(model, codes, gold, penalty, False)
    norms = model.block_norms()
    omega = penalty.strength * (norms.sum() ** 2 / 2 if isinstance(penalty, SparseMKL) else norms.sum())
    assert found.primal == pytest.approx(loss + omega, rel=1e-4)
    assert found.dual <= np.mean(entropies) + 1e-4
    assert found.dual < found.primal


@pytest.mark.parametrize("projective", [False, True])
def test_no_point_is_below_the_bound_of_another(projective: bool) -> None:
    trees, penalty = bank(40), SparseMKL(0.5)
    templates = ArcTemplates(NAMES, 16, 1)
    codes = templates.fit(trees)
    gold = with_roots(trees.heads, codes)
    solver = ArcSolver(templates, codes, gold, loss="log", penalty=penalty, projective=projective, seed=0)
    seen = []
    for epoch in range(60):
        solver.epoch()
        if epoch in (0, 5, 59):
            seen.append(tree_gap(solver.model(), codes, gold, penalty, projective))
            seen.append(tree_gap(solver.model(averaged=False), codes, gold, penalty, projective))
    assert max(one.dual for one in seen) <= min(one.primal for one in seen) + 1e-6
    assert min(one.gap for one in seen[-2:]) < 0.1 * seen[0].primal


def test_a_parser_has_its_gap() -> None:
    params = {"labels": False, "verbose": 0, "min_count": 1}
    found = DependencyParser(NAMES, loss="log", penalty=SparseMKL(0.5), epochs=3, **params).fit(bank(30))
    assert found.gap_ > 0.0
    assert np.isnan(DependencyParser(NAMES, epochs=1, **params).fit(bank(10)).gap_)
