"""Relations against plain Python, and the garrote against scipy on a small problem."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from spom.data import Treebank
from spom.errors import DataError
from spom.features.arc_sets import LABELS
from spom.features.arc_spaces import sentence_of
from spom.features.arcs import ArcTemplates, with_roots, words_of
from spom.solvers import examples
from spom.solvers.structured.trees.garrote import garrote, head_loss, template_contributions
from spom.solvers.structured.trees.relation_kernels import label_rows
from spom.solvers.structured.trees.relations import LabelLearner, rows_of
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.space import corpus_of

from .naive_arcs import features, random_bank
from .naive_arcs import words_of as words_of_sentence


class Ordered(np.random.Generator):
    """A generator that shuffles nothing."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def permutation(self, n: Any) -> Any:
        return np.arange(n)


def naive_labels(bank: Any, names: list[str], epochs: int, most: float, radius: float = np.inf) -> dict[str, Any]:
    """Return the mean weights over rounds of margin steps, one word after another."""
    count = len(bank.relation_names)
    weights: dict[str, Any] = defaultdict(lambda: np.zeros(count))
    total: dict[str, Any] = defaultdict(lambda: np.zeros(count))
    rounds = 0
    for _ in range(epochs):
        for s in range(len(bank)):
            part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
            guide = [-1, *bank.heads[part].tolist()]
            sentence = words_of_sentence(bank, s)
            for m, y in enumerate(bank.relations[part].tolist(), 1):
                active = [f for t in names for f in features(sentence, t, guide[m], m, guide)]
                # The margin is measured in the weights of before the sum: as the model has them now.
                scores = sum(weights[f] for f in active)
                rival = max((k for k in range(count) if k != y), key=lambda k: scores[k])
                loss = 1.0 + scores[rival] - scores[y]
                if loss > 0:
                    step = min(most, loss / (2 * len(active)))
                    for f in active:
                        weights[f][y] += step
                        weights[f][rival] -= step
                for f in weights:
                    total[f] = total[f] + weights[f]
                rounds += 1
        norm = np.sqrt(sum(float(w @ w) for w in weights.values()))
        for f in weights:
            weights[f] = weights[f] * min(1.0, radius / norm)
    return {f: w / rounds for f, w in total.items()}


@pytest.mark.parametrize("half", [0, 1])
def test_relations_are_learnt_as_in_plain_python(half: int) -> None:
    bank = random_bank(1, sentences=6)
    templates = ArcTemplates([*LABELS[half::2], "h.feats m.feats"], min_count=1)
    codes = templates.fit(bank)
    trees, gold = with_roots(bank.heads, codes), with_roots(bank.relations.astype(np.int64), codes)
    learner = LabelLearner(templates, bank.relation_names, step=0.0371)
    learner.random = Ordered()
    for _ in range(2):
        learner.feed(codes, trees, gold).epoch()
    model = learner.model()
    naive = naive_labels(bank, templates.blocks, 2, 0.0371)
    found = model.find(codes, trees)[words_of(codes)]
    expected = []
    for s in range(len(bank)):
        part = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
        guide, sentence = [-1, *bank.heads[part].tolist()], words_of_sentence(bank, s)
        for m in range(1, len(guide)):
            active = [f for t in templates.blocks for f in features(sentence, t, guide[m], m, guide)]
            expected.append(int(np.argmax(sum(naive[f] for f in active))))
    assert found.tolist() == expected
    assert (found == bank.relations).mean() > 0.9
    assert model.root == -1
    assert np.array_equal(model.find(codes, trees, n_jobs=2), model.find(codes, trees))
    # From the entries of a model file, the same.
    loaded = replace(model, stored=model.entries())
    assert np.array_equal(loaded.find(codes, trees), model.find(codes, trees))
    assert loaded.table.weights.size < model.weights.size
    np.testing.assert_array_equal(loaded.weights, model.weights)
    # The weights of the features of each template as numbers, relation by relation, in any order.
    expected_weights = np.concatenate(list(naive.values()))
    found_weights = model.entries()[1]
    np.testing.assert_allclose(
        np.sort(found_weights[np.abs(found_weights) > 1e-6]),
        np.sort(expected_weights[np.abs(expected_weights) > 1e-6]),
        atol=1e-6,
    )


def test_each_pass_of_relations_ends_inside_the_ball() -> None:
    bank, radius = random_bank(1, sentences=6), 0.4
    templates = ArcTemplates([*LABELS[::2], "h.feats m.feats"], min_count=1)
    codes = templates.fit(bank)
    trees, gold = with_roots(bank.heads, codes), with_roots(bank.relations.astype(np.int64), codes)
    learner = LabelLearner(templates, bank.relation_names, step=0.0371, radius=radius)
    learner.random = Ordered()
    for _ in range(2):
        learner.feed(codes, trees, gold).epoch()
        assert np.linalg.norm(learner.weights) == pytest.approx(radius, rel=1e-5)
    naive = np.concatenate(list(naive_labels(bank, templates.blocks, 2, 0.0371, radius).values()))
    found = learner.model().entries().values
    np.testing.assert_allclose(np.sort(found[np.abs(found) > 1e-6]), np.sort(naive[np.abs(naive) > 1e-6]), atol=1e-6)


def test_the_relation_of_roots_is_theirs_alone() -> None:
    bank = random_bank(3, sentences=30)
    codes_of = np.where(bank.heads == 0, 2, bank.relations % 2).astype(np.int32)
    bank = bank.with_trees(bank.heads, codes_of, ("obj", "det", "root"))
    templates = ArcTemplates(["m.suffix", "h.upos"], min_count=1)
    codes = templates.fit(bank)
    trees, gold = with_roots(bank.heads, codes), with_roots(bank.relations.astype(np.int64), codes)
    learner = LabelLearner(templates, bank.relation_names)
    assert learner.root == -1
    learner.feed(codes, trees, gold).epoch()
    assert learner.model().root == 2
    found = learner.model().find(codes, trees)[words_of(codes)]
    np.testing.assert_array_equal(found == 2, bank.heads == 0)


@pytest.mark.parametrize("head", [1, 17])
def test_arcs_of_any_length_have_rows_of_their_own(head: int) -> None:
    n = 17
    words = [{"form": "x", "upos": "X", "head": 0 if m == head else head, "deprel": "d"} for m in range(1, n + 1)]
    bank = Treebank.from_sentences([words])
    templates = ArcTemplates(["h.upos m.upos dist"], min_count=1)
    codes, layout = templates.fit(bank), templates.layout(apart=True)
    corpus = corpus_of(codes, with_roots(bank.heads, codes))
    rows = label_rows(sentence_of(corpus, 0), layout, np.empty(0, dtype=np.int32))
    lengths = [abs(head - m) for m in range(1, n + 1) if m != head]
    slots = [sum(d > top for top in (1, 2, 3, 6, 11)) + (0 if head == 1 else 6) for d in lengths]
    found = np.delete(rows[1:, 0], head - 1)
    # The root is another tag, and twelve slots belong to each pair of tags.
    assert (found - found.min()).tolist() == [slot - min(slots) for slot in slots]
    assert (found % 12).tolist() == slots
    assert (rows[1:] < layout.rows).all()


def test_words_between_are_no_template_for_relations() -> None:
    templates = ArcTemplates(["h.upos between.upos"])
    templates.fit(random_bank(1))
    with pytest.raises(DataError, match="words between"):
        LabelLearner(templates, ("a", "b"))


def test_contributions_add_up_to_scores() -> None:
    bank = random_bank(2, sentences=10)
    templates = ArcTemplates(["h.upos m.upos", "h.upos m.upos dist", "h.lemma m.form dir", "between.upos"], min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    solver = ArcSolver(templates, codes, gold)
    solver.epoch()
    model = solver.model()
    parts, words, right, count = template_contributions(model, codes, gold, np.arange(len(bank)))
    assert count == bank.n_words
    assert right.sum() == bank.n_words
    sums, at = parts.sum(axis=1), 0
    for s in range(len(bank)):
        scores = model.scores(codes, s)
        n = scores.shape[0] - 1
        for m in range(1, n + 1):
            mine = np.sort(sums[words == at])
            # Fewer than seven heads: all of them are there.
            np.testing.assert_allclose(mine, np.sort(scores[np.isfinite(scores[:, m]), m]), atol=1e-5)
            at += 1


def test_the_garrote_is_at_its_optimum() -> None:
    rng = np.random.default_rng(0)
    words = np.repeat(np.arange(60), 4)
    right = np.tile([True, False, False, False], 60)
    parts = rng.standard_normal((240, 6)).astype(np.float32)
    parts[right, 0] += 1.5
    parts[right, 1] += 0.5
    parts[:, 2] = parts[:, 0]

    def value(beta: Any) -> float:
        scores = (parts @ beta).reshape(60, 4)
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[:, 0])) + 0.02 * float(np.sum(beta))

    beta = garrote(parts, words, right, 60, 0.02)
    best = minimize(value, np.full(6, 0.1), bounds=[(0, None)] * 6, method="L-BFGS-B")
    assert value(beta) == pytest.approx(best.fun, abs=1e-4)
    assert np.count_nonzero(beta[3:]) < 3
    out = np.empty(240, dtype=np.float32)
    loss = head_loss(np.zeros(240, dtype=np.float32), words, right, 60, out)
    assert loss == pytest.approx(np.log(4.0), rel=1e-6)
    assert out[:4] == pytest.approx(np.array([-0.75, 0.25, 0.25, 0.25]) / 60)


def test_a_learner_of_the_rows_that_sentences_use_learns_what_one_of_all_rows_does() -> None:
    (templates, names), (codes, trees, gold) = examples.two_relations()
    rows = rows_of(templates, codes, trees)
    whole, part = LabelLearner(templates, names, 3), LabelLearner(templates, names, 3, rows=rows)
    for _ in range(3):
        assert whole.feed(codes, trees, gold).epoch().loss == part.feed(codes, trees, gold).epoch().loss
    assert 0 < rows.size < whole.layout.rows
    for name in ("weights", "sums"):
        all_rows = getattr(whole, name).reshape(whole.layout.rows, -1)
        np.testing.assert_array_equal(all_rows[rows], getattr(part, name).reshape(rows.size, -1))
        others = np.delete(all_rows, rows, axis=0)
        np.testing.assert_array_equal(others, np.zeros_like(others))
