"""Single weights of a parser at exactly zero: dual averaging against plain Python, alone and after a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spom
from spom import DependencyParser
from spom.core.state import State
from spom.data import Treebank
from spom.errors import Unsupported
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import L1, ElasticNet, GroupLasso, SparseGroupLasso, SparseMKL, SquaredL2, Sum, TreeGroupLasso
from spom.solvers.iterate import take
from spom.solvers.structured.trees.gap import tree_gap
from spom.solvers.structured.trees.select import after_selection
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.sparse import SparseArcSolver

from .naive_arcs import NaiveLearner, NaiveSparse, random_bank, words_of
from .test_arc_learning import GUIDED, SOME, STEP
from .test_tree_gap import listed
from .test_tree_selection import NAMES
from .test_tree_selection import bank as tagged_bank


def sparse_for(bank: Treebank, names: list[str], penalty: Any, guide: Any = None, **more: Any) -> SparseArcSolver:
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(bank)
    guides = None if guide is None else with_roots(guide, codes)
    gold = with_roots(bank.heads, codes)
    found = SparseArcSolver(templates, codes, gold, penalty=penalty, guides=guides, **{"shuffle": False, **more})
    # The naive learner has no filter.
    found.limits[:] = 30000
    return found


def run_both(
    bank: Treebank, names: list[str], l1: float, l2: float, loss: str, guide: Any = None, radius: float = np.inf
) -> tuple[SparseArcSolver, NaiveSparse]:
    """Run both for a pass with the smooth loss, after which no two trees have the same score, and two with `loss`."""
    names = ArcTemplates(names).blocks
    penalty = Sum([L1(l1), SquaredL2(l2)])
    solver = sparse_for(bank, names, penalty, guide, step=STEP, loss="log", radius=radius)
    naive = NaiveSparse(names, "log", STEP, l1, l2, radius)
    for epoch in range(3):
        solver.loss = naive.loss = "log" if epoch == 0 else loss
        solver.epoch()
        for s in range(len(bank)):
            part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
            gold = [-1, *bank.heads[part].tolist()]
            seen = [-1, *(bank.heads if guide is None else guide)[part].tolist()]
            naive.round(words_of(bank, s), gold, seen, STEP if naive.loss == "mira" else STEP / np.sqrt(epoch + 1.0))
        naive.end_pass()
        compare(solver, naive, bank, guide)
    return solver, naive


def compare(solver: SparseArcSolver, naive: NaiveSparse, bank: Treebank, guide: Any = None) -> None:
    guides = None if guide is None else with_roots(guide, solver.codes)
    for averaged, theta in ((False, naive.theta), (True, naive.mean())):
        model = solver.model(averaged)
        for s in range(len(bank)):
            part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
            seen = [-1, *(bank.heads if guide is None else guide)[part].tolist()]
            expected = naive.scores(words_of(bank, s), seen, theta)
            np.testing.assert_allclose(model.scores(solver.codes, s, guides), expected, atol=2e-5)
        norms = np.zeros(len(solver.templates.blocks))
        for f, w in theta.items():
            norms[solver.templates.blocks.index(f.split("|")[0])] += w * w
        np.testing.assert_allclose(model.block_norms(), np.sqrt(norms), atol=1e-5)
        # A zero there is a zero here, but for weights at the very edge of the cut.
        sizes = np.array([abs(w) for w in theta.values() if w != 0.0])
        assert abs(model.entries().values.size - sizes.size) <= np.count_nonzero(sizes < 1e-6)


@pytest.mark.parametrize("loss", ["mira", "hinge", "perceptron", "log"])
def test_every_loss_makes_the_rounds_of_plain_python(loss: str) -> None:
    solver, naive = run_both(random_bank(3), SOME, 0.02, 0.0, loss)
    assert 0 < len(naive.mean()) < len(naive.duals[-1])
    assert solver.model().entries().values.size < np.count_nonzero(solver.weights)


def test_squares_shrink_what_is_left() -> None:
    run_both(random_bank(4), SOME, 0.01, 0.5, "mira")
    run_both(random_bank(5), SOME, 0.0, 0.7, "log")


def test_templates_that_look_at_a_tree() -> None:
    bank = random_bank(6)
    guide = np.concatenate([np.r_[0, np.ones(n - 1, int)] for n in np.diff(bank.offsets)])
    run_both(bank, GUIDED, 0.02, 0.0, "mira", guide=guide)


def test_words_between_in_the_first_column() -> None:
    names = ["h.feats m.feats", "h.form m.upos between.form", "between.form dist"]
    assert ArcTemplates(names).columns[0] == "form"
    run_both(random_bank(7), names, 0.01, 0.0, "log")


@pytest.mark.parametrize("solver", [ArcSolver, SparseArcSolver])
def test_a_tree_above_all_others_has_no_loss(solver: Any) -> None:
    # The arcs 4 -> 2 and 3 -> 1 cross: after long steps the tree is ahead of all projective ones.
    words = [{"form": str(w), "head": h, "deprel": "x"} for w, h in enumerate([3, 4, 4, 0], 1)]
    bank = Treebank.from_sentences([words, words])
    templates = ArcTemplates(["h.form m.form"], min_count=1)
    codes = templates.fit(bank)
    more = {"penalty": L1(0.0)} if solver is SparseArcSolver else {}
    found = solver(templates, codes, with_roots(bank.heads, codes), projective=True, loss="hinge", step=9.0, **more)
    found.limits[:] = 30000
    assert found.epoch().loss > 0.0
    weights = found.weights.copy()
    for _ in range(3):
        assert found.epoch().loss == 0.0
    np.testing.assert_array_equal(found.weights, weights)


@pytest.mark.parametrize("solver", [ArcSolver, SparseArcSolver])
@pytest.mark.parametrize("loss", ["hinge", "mira", "perceptron", "log"])
def test_a_sentence_that_is_left_without_a_tree_teaches_nothing(solver: Any, loss: str) -> None:
    # Arcs between tags that were never seen are dropped, and those of this tree cross.
    words = [{"form": str(h), "upos": "RABCD"[w], "head": h, "deprel": "x"} for w, h in enumerate([3, 4, 4, 0], 1)]
    bank = Treebank.from_sentences([words, words])
    templates = ArcTemplates(["h.form m.form", "h.upos m.upos"], min_count=1)
    codes = templates.fit(bank)
    more = {"penalty": L1(0.0)} if solver is SparseArcSolver else {}
    found = solver(templates, codes, with_roots(bank.heads, codes), projective=True, loss=loss, **more)
    for _ in range(2):
        assert found.epoch().loss == 0.0
    assert not found.weights.any()
    # With all trees there is the right one, and no other one.
    found.projective = False
    assert found.epoch().loss == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("loss", ["mira", "log"])
def test_each_pass_ends_inside_the_ball(loss: str) -> None:
    solver, naive = run_both(random_bank(4), SOME, 0.01, 0.1, loss, radius=0.1)
    assert naive.inside < 1.0
    for averaged in (False, True):
        assert np.linalg.norm(solver.model(averaged).weights) <= 0.1 * (1 + 1e-6)


def test_without_a_penalty_it_is_the_plain_solver_to_the_bit() -> None:
    bank = tagged_bank(60)
    templates = ArcTemplates(NAMES, min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    plain, sparse = ArcSolver(templates, codes, gold), SparseArcSolver(templates, codes, gold, penalty=L1(0.0))
    for _ in range(3):
        states = plain.epoch(), sparse.epoch()
        assert states[0].loss == states[1].loss
    for averaged in (False, True):
        np.testing.assert_array_equal(plain.model(averaged).weights, sparse.model(averaged).weights)


def test_a_state_has_the_iterate_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    bank, penalty = tagged_bank(40), ElasticNet(0.02, l1_ratio=0.8)
    whole, half = (sparse_for(bank, NAMES, penalty, shuffle=True, radius=0.5) for _ in range(2))
    states = list(take(whole, 3))
    first = half.epoch()
    np.testing.assert_array_equal(first.theta, half.model(averaged=False).weights)
    sizes, squares = np.abs(first.theta).sum(dtype=np.float64), float(np.vdot(first.theta, first.theta))
    assert first.objective == pytest.approx(first.loss + 0.016 * sizes + 0.002 * squares, rel=1e-5)
    first.save(tmp_path / "state.npz")
    again = sparse_for(bank, NAMES, penalty, shuffle=True, radius=0.5, start=State.load(tmp_path / "state.npz"))
    later = list(take(again, 2))[-1]
    assert later.k == 3
    np.testing.assert_array_equal(later.theta, states[-1].theta)
    np.testing.assert_array_equal(again.model().weights, whole.model().weights)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(Unsupported, match="not a penalty of single weights"):
        sparse_for(tagged_bank(3), NAMES, GroupLasso(0.1))


# --- the estimator -----------------------------------------------------------------------------------------------


def parser(penalty: Any, **params: Any) -> DependencyParser:
    return DependencyParser(NAMES, penalty=penalty, **{"verbose": 0, "labels": False, "min_count": 1, **params})


@pytest.mark.parametrize(
    ("penalty", "l1"),
    [
        (SparseGroupLasso(0.11, l1_ratio=0.1), 0.011),
        (Sum([L1(0.011), GroupLasso(0.099)]), 0.011),
        (Sum([TreeGroupLasso(0.05, groups=[[0, 1, 2, 3, 4], [0, 1], [4]]), L1(0.011)]), 0.011),
        (Sum([L1(0.011), SparseMKL(0.02)]), 0.011),
    ],
    ids=["sparse group", "sum", "tree", "mkl"],
)
def test_a_penalty_of_both_selects_templates_and_then_weights(penalty: Any, l1: float) -> None:
    """Compare with a selection by the part on templates, and learning the kept ones under the l1 norm alone."""
    trees = tagged_bank(300)
    both = parser(penalty).fit(trees)
    assert both.selection_ is not None
    assert 0 < both.selection_.kept.size < len(NAMES)
    assert [both.selection_.names[m] for m in both.selection_.kept] == both.blocks_
    second = DependencyParser(both.blocks_, penalty=L1(l1), verbose=0, labels=False, min_count=1).fit(trees)
    assert second.blocks_ == both.blocks_
    np.testing.assert_allclose(second.arcs_.weights, both.arcs_.weights, rtol=1e-6)
    assert both.arcs_.entries().values.size < parser(None).fit(trees).arcs_.entries().values.size
    np.testing.assert_array_equal(both.selected_, np.flatnonzero(both.arcs_.block_norms()))
    assert both.score(tagged_bank(60, seed=1)) > 0.99
    again = parser(penalty).fit(trees)
    np.testing.assert_array_equal(again.arcs_.weights, both.arcs_.weights)


def test_the_l1_norm_alone_keeps_all_templates_and_few_weights() -> None:
    trees = tagged_bank(200)
    found = parser(L1(0.02)).fit(trees)
    assert found.selection_ is None
    assert sorted(found.blocks_) == sorted(NAMES)
    counts = [parser(L1(s)).fit(trees).arcs_.entries().values.size for s in (1e-4, 5e-3, 0.02)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2 * counts[-1] > 0
    # A template without any weight is still in the model, and not selected.
    strong = parser(L1(0.1)).fit(trees)
    assert 0 < strong.selected_.size < len(NAMES) == len(strong.blocks_)
    assert strong.history_[-1]["nonzeros"] > 0


def test_squares_beside_a_group_lasso_act_on_what_is_left() -> None:
    trees = tagged_bank(100)
    plain, both = (parser(p).fit(trees) for p in (GroupLasso(0.1), Sum([GroupLasso(0.1), SquaredL2(0.5)])))
    assert plain.blocks_ == both.blocks_
    assert both.arcs_.block_norms().sum() < 0.9 * plain.arcs_.block_norms().sum()
    assert after_selection(GroupLasso(0.1), 5) is None
    assert after_selection(Sum([GroupLasso(0.1), SquaredL2(0.5)]), 5).elastic() == (0.0, 0.5)


def test_which_update_a_penalty_takes() -> None:
    trees = tagged_bank(30)
    for penalty, update in ((SparseGroupLasso(0.1), "select"), (L1(0.01), "dual-averaging")):
        with pytest.raises(Unsupported, match=f"needs update='{update}'"):
            parser(penalty, update="forward-backward").fit(trees)
    with pytest.raises(Unsupported, match="single weights, not GroupLasso"):
        parser(GroupLasso(0.1), update="dual-averaging").fit(trees)
    with pytest.raises(ValueError, match="single weights, such as L1"):
        parser(None, update="dual-averaging").fit(trees)
    with pytest.raises(Unsupported, match="order=2 does not support"):
        parser(SparseGroupLasso(0.1), order=2).fit(trees)
    tree = TreeGroupLasso(0.01, groups=[[0, 1, 2, 3, 4], [0, 1]])
    assert parser(tree, loss="log").fit(trees).selection_ is not None


@pytest.mark.parametrize("penalty", [SparseGroupLasso(0.11, l1_ratio=0.1), L1(0.011)])
def test_a_parser_is_saved_learns_further_and_resumes(penalty: Any, tmp_path: Path) -> None:
    trees, more = tagged_bank(120), tagged_bank(40, seed=7)
    found = parser(penalty, labels=True).fit(trees)
    found.save(tmp_path / "model")
    loaded = spom.load_model(tmp_path / "model")
    assert loaded.blocks_ == found.blocks_
    np.testing.assert_array_equal(loaded.arcs_.weights, found.arcs_.weights)
    assert loaded.predict(more).heads.tolist() == found.predict(more).heads.tolist()
    # Learning further keeps the l1 part: rare words stay at zero.
    for one in (found, loaded):
        one.partial_fit(more)
    np.testing.assert_array_equal(loaded.arcs_.weights, found.arcs_.weights)
    free = parser(None).fit(trees).partial_fit(more)
    assert found.arcs_.entries().values.size < free.arcs_.entries().values.size
    place = tmp_path / "checkpoint"
    whole = parser(penalty, epochs=4).fit(trees)
    parser(penalty, epochs=2).fit(trees, checkpoint=place, checkpoint_every=1)
    resumed = parser(penalty, epochs=4).fit(trees, checkpoint=place, checkpoint_every=1, resume=True)
    np.testing.assert_array_equal(resumed.arcs_.weights, whole.arcs_.weights)


def test_single_weights_are_learnt_from_a_stream_too() -> None:
    trees = tagged_bank(90)
    found = parser(L1(0.02), epochs=1).fit(iter([trees[:45], trees[45:]]))
    free = parser(None, epochs=1).fit(iter([trees[:45], trees[45:]]))
    assert 0 < found.arcs_.entries().values.size < free.arcs_.entries().values.size
    with pytest.raises(Unsupported, match="all sentences at once"):
        parser(SparseGroupLasso(0.1)).fit(iter([trees]))


def test_a_second_stage_has_the_same_zeros() -> None:
    trees = tagged_bank(60)
    found, free = (parser(p, second_stage=True).fit(trees) for p in (L1(0.02), None))
    assert found.second_.entries().values.size < free.second_.entries().values.size


# --- the certificate ---------------------------------------------------------------------------------------------


def naive_bounds(bank: Treebank, solver: SparseArcSolver, l1: float) -> tuple[float, float]:
    """Primal and dual of the l1 random field, with every tree of every sentence written down."""
    names, model, n = solver.templates.blocks, solver.model(), len(bank)
    naive = NaiveLearner(names, "log", 1.0)
    gradient: dict[str, float] = {}
    loss, shares = 0.0, []
    for s in range(n):
        trees, p = listed(np.asarray(model.scores(solver.codes, s), dtype=np.float64))
        gold = tuple(bank.heads[bank.offsets[s] : bank.offsets[s + 1]].tolist())
        loss -= np.log(p[trees.index(gold)]) / n
        shares.append((p, trees.index(gold)))
        sentence = words_of(bank, s)
        for tree, share in [*zip(trees, p, strict=True), (gold, -1.0)]:
            for m, h in enumerate(tree, start=1):
                for f in naive.all_features(sentence, h, m, [-1, *gold]):
                    gradient[f] = gradient.get(f, 0.0) + share / n
    scale = min(1.0, l1 / max(abs(g) for g in gradient.values()))
    dual = 0.0
    for p, gold_at in shares:
        q = scale * p
        q[gold_at] += 1.0 - scale
        dual -= float((q[q > 0] * np.log(q[q > 0])).sum()) / n
    return loss + l1 * float(np.abs(model.weights).sum(dtype=np.float64)), dual


def test_the_bounds_are_those_of_plain_python() -> None:
    bank, l1 = random_bank(8, sentences=6), 0.05
    solver = sparse_for(bank, SOME, L1(l1), loss="log")
    for _ in range(3):
        solver.epoch()
    found = tree_gap(solver.model(), solver.codes, solver.gold, L1(l1), False)
    primal, dual = naive_bounds(bank, solver, l1)
    assert found.primal == pytest.approx(primal, rel=1e-4)
    assert found.dual == pytest.approx(dual, rel=1e-3)


@pytest.mark.parametrize("penalty", [L1(0.05), ElasticNet(0.1, l1_ratio=0.5), SparseGroupLasso(0.2, l1_ratio=0.3)])
def test_no_point_is_below_the_bound_of_another(penalty: Any) -> None:
    trees = tagged_bank(30)
    l1, l2 = penalty.split(len(NAMES)).elastic
    solver = sparse_for(trees, NAMES, Sum([L1(l1), SquaredL2(l2)]), loss="log")
    seen = [tree_gap(solver.model(False), solver.codes, solver.gold, penalty, False)]
    for epoch in range(60):
        solver.epoch()
        if epoch in (0, 5, 59):
            seen += [tree_gap(solver.model(a), solver.codes, solver.gold, penalty, False) for a in (True, False)]
    assert max(one.dual for one in seen) <= min(one.primal for one in seen) + 1e-6
    assert min(one.gap for one in seen[1:]) < seen[0].gap


def test_a_parser_of_single_weights_has_its_gap() -> None:
    trees = tagged_bank(30)
    gaps = [parser(L1(0.1), loss="log", epochs=epochs).fit(trees).gap_ for epochs in (1, 20)]
    assert 0.0 < gaps[1] < gaps[0]
    assert parser(SparseGroupLasso(0.05, l1_ratio=0.2), loss="log").fit(trees).gap_ > 0.0
    assert np.isnan(parser(L1(0.1)).fit(trees).gap_)
