"""Trees at the optimum: against proximal gradient in numpy with every tree of every sentence written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spom
from spom import DependencyParser
from spom.data import Treebank
from spom.errors import Unsupported
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import L1, GroupLasso, SparseGroupLasso, SparseMKL, SquaredL2, TreeGroupLasso
from spom.solvers.iterate import take
from spom.solvers.structured.trees.batch import BatchArcs

from .naive_arcs import all_trees, features, log_sum, random_bank, words_of
from .test_tree_selection import NAMES
from .test_tree_selection import bank as tagged_bank

SOME = ["h.upos m.upos", "h.upos m.upos dir", "m.suffix", "h.lemma m.form dist"]


class Listed:
    """Every tree of every sentence as counts of features, and the objective as a plain function of a vector."""

    def __init__(self, bank: Treebank, names: list[str], l1: float, group: float) -> None:
        self.names, self.l1, self.group, self.index = names, l1, group, dict[str, int]()
        every = []
        for s in range(len(bank)):
            sentence, gold = words_of(bank, s), tuple(bank.heads[bank.offsets[s] : bank.offsets[s + 1]].tolist())
            trees = all_trees(len(sentence) - 1)
            texts = [
                [f for m, h in enumerate(tree, 1) for t in names for f in features(sentence, t, h, m, [])]
                for tree in trees
            ]
            for f in (f for some in texts for f in some):
                self.index.setdefault(f, len(self.index))
            every.append((texts, trees.index(gold)))
        self.sentences = []
        for texts, gold_at in every:
            counts = np.zeros((len(texts), len(self.index)))
            for row, some in zip(counts, texts, strict=True):
                np.add.at(row, [self.index[f] for f in some], 1.0)
            self.sentences.append((counts, gold_at))
        self.block = np.array([names.index(f.split("|")[0]) for f in self.index])

    def loss(self, w: Any) -> tuple[float, Any]:
        value, slope = 0.0, np.zeros_like(w)
        for counts, gold_at in self.sentences:
            scores = counts @ w
            value += log_sum(scores) - scores[gold_at]
            slope += np.exp(scores - log_sum(scores)) @ counts - counts[gold_at]
        return value / len(self.sentences), slope / len(self.sentences)

    def norms(self, w: Any) -> Any:
        return np.array([np.linalg.norm(w[self.block == m]) for m in range(len(self.names))])

    def objective(self, w: Any) -> float:
        return self.loss(w)[0] + self.l1 * float(np.abs(w).sum()) + self.group * float(self.norms(w).sum())

    def solve(self, step: float, rounds: int) -> Any:
        w = np.zeros(len(self.index))
        for _ in range(rounds):
            w = w - step * self.loss(w)[1]
            w = np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0)
            norms = np.maximum(self.norms(w), 1e-300)
            w = w * np.maximum(1.0 - step * self.group / norms, 0.0)[self.block]
        return w


def batch_for(bank: Treebank, names: list[str], penalty: Any, **more: Any) -> BatchArcs:
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(bank)
    limits = np.full((2, templates.radix("upos"), templates.radix("upos")), 30000, dtype=np.int16)
    return BatchArcs(templates, codes, with_roots(bank.heads, codes), penalty=penalty, limits=limits, **more)


@pytest.mark.parametrize(
    ("penalty", "l1", "group"),
    [(L1(0.05), 0.05, 0.0), (GroupLasso(0.3), 0.0, 0.3), (SparseGroupLasso(0.3, l1_ratio=0.1), 0.03, 0.27)],
    ids=["l1", "groups", "both"],
)
def test_the_optimum_is_that_of_plain_proximal_gradient(penalty: Any, l1: float, group: float) -> None:
    bank, names = random_bank(8, sentences=8, longest=4), ArcTemplates(SOME).blocks
    listed = Listed(bank, names, l1, group)
    w = listed.solve(0.2, 3000)
    solver = batch_for(bank, names, penalty)
    states = list(take(solver, 20))
    assert states[-1].objective == pytest.approx(listed.objective(w), rel=1e-4)
    # A bound of each state holds for the optimum, and the last one is near.
    for state in states:
        assert state.objective - float(state.internal["gap"]) <= listed.objective(w) + 1e-5
    assert float(states[-1].internal["gap"]) < 1e-2 * states[-1].objective
    np.testing.assert_allclose(states[-1].block_norms, listed.norms(w), atol=2e-2)
    assert (states[-1].block_norms == 0.0).tolist() == (listed.norms(w) == 0.0).tolist()
    assert 0 < states[-1].nnz < w.size


def test_a_run_resumes_to_the_same_bits() -> None:
    bank = tagged_bank(20)
    first = list(take(batch_for(bank, NAMES, SparseMKL(0.2)), 3))
    again = next(iter(batch_for(bank, NAMES, SparseMKL(0.2), start=first[1])))
    assert again.k == 2
    np.testing.assert_array_equal(again.theta, first[2].theta)
    assert again.internal["gap"] == first[2].internal["gap"]


class StopInBatch:
    """Ends a run before the first round of the batch solver."""

    def on_epoch(self, info: dict[str, Any]) -> bool:
        return bool((info["stage"], info["epoch"]) == ("batch", 0))


def parser(penalty: Any, **params: Any) -> DependencyParser:
    settings = {"verbose": 0, "labels": False, "min_count": 1, "loss": "log", "solver": "batch", "epochs": 2}
    return DependencyParser(NAMES, penalty=penalty, **{**settings, **params})


@pytest.mark.parametrize("penalty", [GroupLasso(0.3), SparseGroupLasso(0.3, l1_ratio=0.1)])
def test_a_parser_goes_to_the_optimum_and_templates_are_zero(penalty: Any, tmp_path: Path) -> None:
    trees = tagged_bank(40)
    found = parser(penalty, tol=1e-2).fit(trees)
    objective = found.history_[-1]["objective"]
    assert 0.0 <= found.gap_ <= 1e-2 * objective
    assert found.converged_
    assert found.selection_ is None
    assert 0 < found.selected_.size < len(NAMES)
    start = parser(penalty, solver="online").fit(trees) if isinstance(penalty, GroupLasso) else None
    assert start is None or found.gap_ < start.gap_
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(spom.load_model(tmp_path / "model").arcs_.weights, found.arcs_.weights)
    place = tmp_path / "checkpoint"
    whole = parser(penalty, tol=1e-6).fit(trees)
    parser(penalty, tol=1e-6, callbacks=StopInBatch()).fit(trees, checkpoint=place, checkpoint_every=1)
    again = parser(penalty, tol=1e-6).fit(trees, checkpoint=place, checkpoint_every=1, resume=True)
    assert len(again.history_) == len(whole.history_) > 3
    np.testing.assert_array_equal(again.arcs_.weights, whole.arcs_.weights)


def test_what_the_batch_solver_does_not_take() -> None:
    trees = tagged_bank(5)
    with pytest.raises(Unsupported, match="minimises the log loss"):
        parser(L1(0.1), loss="mira").fit(trees)
    with pytest.raises(ValueError, match="needs a penalty"):
        parser(None).fit(trees)
    with pytest.raises(Unsupported, match="unknown solver 'newton'"):
        parser(L1(0.1), solver="newton").fit(trees)
    with pytest.raises(Unsupported, match="update='select'"):
        parser(GroupLasso(0.1), update="select").fit(trees)
    with pytest.raises(Unsupported, match="all sentences at once"):
        parser(SquaredL2(0.1)).partial_fit(trees)
    with pytest.raises(Unsupported, match="not an exact sum"):
        parser(TreeGroupLasso(0.1, groups=[[0, 1], [0]])).fit(trees)
