"""Learning on trees against plain Python: string features, all trees written down, weights in dictionaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom.core.state import State
from spom.errors import Unsupported
from spom.features.arc_sets import guided_templates, large_templates
from spom.features.arc_spaces import SALT
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import L1, ElasticNetMKL, GroupLasso, LqMKL, SparseMKL
from spom.solvers.iterate import take
from spom.solvers.structured.trees.solver import ArcSolver

from .naive_arcs import NaiveLearner, random_bank, words_of

SOME = [
    "h.feats m.feats dir",
    "h.upos m.upos",
    "h.upos m.upos dir",
    "h.lemma m.form dist",
    "h-1.upos h.upos m+2.xpos dir",
    "m.suffix",
    "m.suffix dist",
    "h.upos m.upos between.upos",
    "h.upos m.upos between.upos dist",
    "h.xpos m.upos gap dir",
    "h.lower between.xpos dir",
]
GUIDED = [
    "h.feats m.feats",
    *("h.upos m.upos", "h^.upos h.upos m.upos dist", "h^^.upos m^.lemma", "m<.upos m>.upos dir", "h<.lemma"),
    *("h.upos same", "m.upos sibling.upos dir", "m.upos beyond.upos", "sibling.upos between.upos dist"),
]

STEP = 0.0371


def solver_for(bank: Any, names: list[str], guide: Any = None, **more: Any) -> ArcSolver:
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    guides = None if guide is None else with_roots(guide, codes)
    found = ArcSolver(templates, codes, gold, guides=guides, shuffle=False, **more)
    # The naive learner has no filter.
    found.limits[:] = 30000
    return found


def run_both(
    bank: Any, names: list[str], guide: Any = None, penalty: Any = None, on_norms: Any = None, **more: Any
) -> Any:
    """Run both for a pass with the smooth loss, after which no two trees have the same score, and two with `loss`."""
    names = ArcTemplates(names).blocks
    solver = solver_for(bank, names, guide, penalty=penalty, step=STEP, loss="log", radius=more.get("radius", np.inf))
    solver.epoch()
    solver.loss = more["loss"]
    last = [solver.epoch() for _ in range(2)][-1]
    naive = NaiveLearner(names, "log", STEP, on_norms, more.get("radius", np.inf))
    for epoch in range(3):
        naive.loss = "log" if epoch == 0 else more["loss"]
        for s in range(len(bank)):
            part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
            gold = [-1, *bank.heads[part].tolist()]
            seen = [-1, *(bank.heads if guide is None else guide)[part].tolist()]
            naive.round(words_of(bank, s), gold, seen, STEP if naive.loss == "mira" else STEP / np.sqrt(epoch + 1.0))
    compare(solver, naive, bank, guide)
    return solver, last


def compare(solver: ArcSolver, naive: NaiveLearner, bank: Any, guide: Any = None, tolerance: float = 2e-5) -> None:
    guides = None if guide is None else with_roots(guide, solver.codes)
    for averaged, theta in ((False, naive.theta), (True, naive.mean())):
        model = solver.model(averaged)
        for s in range(len(bank)):
            part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
            seen = [-1, *(bank.heads if guide is None else guide)[part].tolist()]
            expected = naive.scores(words_of(bank, s), seen, theta)
            np.testing.assert_allclose(model.scores(solver.codes, s, guides), expected, atol=tolerance)
    norms = np.zeros(len(solver.templates.blocks))
    for f, w in naive.theta.items():
        norms[solver.templates.blocks.index(f.split("|")[0])] += w * w
    np.testing.assert_allclose(solver.norms, np.sqrt(norms), atol=1e-4)


@pytest.mark.parametrize("loss", ["mira", "hinge", "perceptron", "log"])
def test_every_loss_makes_the_steps_of_plain_python(loss: str) -> None:
    run_both(random_bank(3), SOME, loss=loss)


@pytest.mark.parametrize("penalty", [SparseMKL(0.3), GroupLasso(0.2), LqMKL(0.5, q=1.5), ElasticNetMKL(0.3)])
def test_penalties_scale_blocks(penalty: Any) -> None:
    on_norms = type(penalty)(**{**penalty.get_params(), "groups": 1})
    _, state = run_both(random_bank(4), SOME, loss="hinge", penalty=penalty, on_norms=on_norms)
    assert state.objective > state.loss


def test_a_strong_penalty_switches_blocks_off_and_the_average_survives() -> None:
    on_norms = GroupLasso(0.8, groups=1)
    solver, _ = run_both(random_bank(12), SOME, loss="log", penalty=GroupLasso(0.8), on_norms=on_norms)
    assert 0 < np.count_nonzero(solver.norms == 0.0) < len(SOME)


@pytest.mark.parametrize("penalty", [None, SparseMKL(0.1)])
def test_each_round_is_projected_onto_a_ball(penalty: Any) -> None:
    on_norms = None if penalty is None else SparseMKL(0.1, groups=1)
    solver, _ = run_both(random_bank(4), SOME, loss="log", penalty=penalty, on_norms=on_norms, radius=0.15)
    free, _ = run_both(random_bank(4), SOME, loss="log", penalty=penalty, on_norms=on_norms)
    assert np.linalg.norm(solver.norms) <= 0.15 + 1e-6
    assert np.linalg.norm(free.norms) > np.linalg.norm(solver.norms)


def test_templates_of_a_second_stage() -> None:
    bank = random_bank(6)
    guide = np.concatenate([np.r_[0, np.ones(n - 1, int)] for n in np.diff(bank.offsets)])
    run_both(bank, GUIDED, guide=guide, loss="mira")


def test_the_large_set_scores_as_strings_do() -> None:
    bank = random_bank(7, sentences=3, longest=4)
    names = [*sorted([*large_templates(), *guided_templates()])[::9], "h.feats m.feats"]
    run_both(bank, names, guide=bank.heads, loss="mira")


def test_hashed_tables_differ_only_by_collisions() -> None:
    bank = random_bank(8, sentences=20)
    exact = solver_for(bank, ["h.form m.form", "h.upos m.upos dist"], loss="mira", step=0.02)
    import spom.features.arcs as arcs

    before, arcs.EXACT_ROWS = arcs.EXACT_ROWS, 0
    try:
        hashed = solver_for(bank, ["h.form m.form", "h.upos m.upos dist"], loss="mira", step=0.02)
    finally:
        arcs.EXACT_ROWS = before
    assert hashed.layout.rows == 2 << 16
    for solver in (exact, hashed):
        solver.epoch()
    for s in range(len(bank)):
        found = [solver.model().scores(solver.codes, s) for solver in (exact, hashed)]
        np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_a_saved_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    bank = random_bank(9)
    more = {"loss": "hinge", "penalty": SparseMKL(0.1), "seed": 3}
    whole = solver_for(bank, SOME, **more)
    whole.shuffle = True
    half = solver_for(bank, SOME, **more)
    half.shuffle = True
    states = list(take(whole, 3))
    half.epoch().save(tmp_path / "state.npz")
    again = solver_for(bank, SOME, **more, start=State.load(tmp_path / "state.npz"))
    again.shuffle = True
    later = list(take(again, 2))[-1]
    assert later.k == states[-1].k == 3
    np.testing.assert_array_equal(later.theta, states[-1].theta)
    np.testing.assert_array_equal(again.model().weights, whole.model().weights)
    assert not np.array_equal(states[0].theta, states[1].theta)
    with pytest.raises(ValueError, match="resume with the data"):
        solver_for(bank, SOME[:2], start=states[0])


def test_the_filter_lets_gold_arcs_pass_and_forgets_no_word() -> None:
    bank = random_bank(10, sentences=30)
    templates = ArcTemplates(SOME, min_count=1)
    codes = templates.fit(bank)
    solver = ArcSolver(templates, codes, with_roots(bank.heads, codes))
    solver.epoch()
    model = solver.model()
    for s in range(len(bank)):
        scores = model.scores(codes, s)
        heads = bank.heads[bank.offsets[s] : bank.offsets[s + 1]]
        assert np.isfinite(scores[heads, np.arange(1, heads.size + 1)]).all()
    strict = type(model)(model.templates, model.layout, np.zeros_like(model.limits), model.weights)
    found, _ = strict.parse(codes)
    free = type(model)(model.templates, model.layout, np.full_like(model.limits, 30000), model.weights)
    np.testing.assert_array_equal(found, free.parse(codes)[0])


@pytest.mark.parametrize("names", [SOME, large_templates()[::5]])
def test_a_model_of_entries_alone_is_the_same(names: Any) -> None:
    """Up to three templates of a family are folded into one table, from all weights or from entries."""
    bank = random_bank(11, sentences=20)
    solver = solver_for(bank, list(names))
    solver.epoch()
    model = solver.model()
    loaded = replace(model, stored=model.entries())
    for ours, theirs in zip(loaded.folded, model.folded, strict=True):
        np.testing.assert_equal(getattr(ours, "families", ours), getattr(theirs, "families", theirs))
    assert "weights" not in vars(loaded)
    np.testing.assert_array_equal(loaded.weights, model.weights)
    np.testing.assert_array_equal(loaded.block_norms(), model.block_norms())


def test_other_sentences_leave_the_arcs_of_the_first_ones_allowed() -> None:
    """Check that arcs that only the first trees have remain allowed."""
    bank, other = random_bank(10, sentences=30), random_bank(20, sentences=2, longest=2)
    templates = ArcTemplates(SOME, min_count=1)
    codes = templates.fit(bank)
    solver = ArcSolver(templates, codes, with_roots(bank.heads, codes))
    solver.epoch()
    second = templates.transform(other)
    solver.feed(second, with_roots(other.heads, second))
    solver.epoch()
    for s in range(len(bank)):
        scores = solver.model().scores(codes, s)
        heads = bank.heads[bank.offsets[s] : bank.offsets[s + 1]]
        assert np.isfinite(scores[heads, np.arange(1, heads.size + 1)]).all()
    alone = ArcSolver(templates, second, with_roots(other.heads, second))
    assert (alone.limits <= solver.limits).all()
    assert (alone.limits < solver.limits).any()


@pytest.mark.parametrize("loss", ["mira", "log"])
def test_every_epoch_and_a_restart_are_those_of_plain_python(loss: str, tmp_path: Path) -> None:
    bank, penalty = random_bank(13), GroupLasso(0.4)
    names = ArcTemplates(SOME).blocks
    naive = NaiveLearner(names, "log", STEP, GroupLasso(0.4, groups=1))
    solver = solver_for(bank, names, penalty=penalty, step=STEP, loss="log")
    for epoch in range(4):
        naive.loss = solver.loss = "log" if epoch == 0 else loss
        state = solver.epoch()
        for s in range(len(bank)):
            gold = [-1, *bank.heads[bank.offsets[s] : bank.offsets[s + 1]].tolist()]
            naive.round(words_of(bank, s), gold, gold, STEP if naive.loss == "mira" else STEP / np.sqrt(epoch + 1.0))
        compare(solver, naive, bank)
        state.save(tmp_path / "state.npz")
        solver = solver_for(
            bank, names, penalty=penalty, step=STEP, loss="log", start=State.load(tmp_path / "state.npz")
        )
        solver.limits[:] = 30000


def test_what_is_not_there_is_said() -> None:
    bank = random_bank(11)
    with pytest.raises(Unsupported, match="no loss 'squared'"):
        solver_for(bank, SOME, loss="squared")
    with pytest.raises(Unsupported, match=r"L1 is no penalty on block norms.*SparseArcSolver"):
        solver_for(bank, SOME, penalty=L1(1.0))
    with pytest.raises(ValueError, match="step must be"):
        solver_for(bank, SOME, step=0.0)


def test_templates_that_are_kept_score_as_before() -> None:
    bank = random_bank(5, sentences=8)
    # One family with a row for each value, and one whose values share rows by hashing.
    names = [
        "h.upos m.upos",
        "h.upos m.upos dist",
        "h-1.form h.form h+1.form m-1.form m.form m+1.form dir",
        "m.suffix dir",
    ]
    solver = solver_for(bank, names, loss="log")
    assert solver.layout.families[:, SALT].any()
    solver.epoch()
    model = solver.model(averaged=False)
    some = [model.kept(np.array([k])) for k in range(len(names))]
    parts = [one.scores(one.templates.transform(bank), 0) for one in some]
    # Arcs that are none are -inf in all of them.
    np.testing.assert_allclose(sum(parts), model.scores(solver.codes, 0), atol=1e-5)
