"""Templates of a parser by penalty: dual averaging against a plain recursion, and exact zeros in the parser."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from spom import DependencyParser
from spom.data import Treebank
from spom.errors import Unsupported
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import GroupLasso, SparseMKL, Sum, TreeGroupLasso
from spom.solvers.structured.trees import select as selection
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.space import ANY, arc_limits

from .naive_arcs import NaiveLearner, random_bank, words_of

NAMES = ["h.form", "m.form", "h.upos m.upos", "h.upos m.upos dist", "h.form m.form"]


def bank(count: int, seed: int = 0) -> Treebank:
    """Draw nouns that depend on the verb before them, and verbs on the first verb; words carry no information."""
    rng, sentences = np.random.default_rng(seed), []
    for _ in range(count):
        tags = ["VERB", *rng.choice(["VERB", "NOUN"], int(rng.integers(2, 6)), p=[0.3, 0.7]).tolist()]
        words, last = [], 0
        for i, tag in enumerate(tags, start=1):
            head = 0 if i == 1 else 1 if tag == "VERB" else last
            form = f"w{rng.integers(0, 40)}"
            words.append({"form": form, "upos": tag, "head": head, "deprel": "root" if i == 1 else "dep"})
            last = i if tag == "VERB" else last
        sentences.append(words)
    return Treebank.from_sentences(sentences)


def parser(**params: Any) -> DependencyParser:
    settings = {"verbose": 0, "labels": False, "min_count": 1, "update": "select", "penalty": GroupLasso(0.1)}
    return DependencyParser(NAMES, **{**settings, **params})


def test_noise_goes_and_what_decides_stays() -> None:
    found = parser().fit(bank(400))
    assert "h.upos m.upos dist" in found.blocks_
    assert "h.form m.form" not in found.blocks_
    assert found.selection_ is not None
    assert [found.selection_.names[m] for m in found.selection_.kept] == found.blocks_
    assert found.selected_.tolist() == list(range(len(found.blocks_)))
    assert found.score(bank(60, seed=1)) > 0.99
    every = parser(penalty=GroupLasso(1e-6)).fit(bank(400))
    assert sorted(every.blocks_) == sorted(NAMES)


def test_a_stronger_penalty_keeps_no_more() -> None:
    kept = [parser(penalty=GroupLasso(s)).fit(bank(200)).selected_.size for s in (1e-4, 0.05, 0.2)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


def test_other_penalties_of_templates_and_what_is_refused() -> None:
    assert parser(penalty=SparseMKL(1e-4)).fit(bank(50)).selected_.size > 0
    tree = TreeGroupLasso(0.01, groups=[[0, 1, 2, 3, 4], [0, 1]])
    assert parser(penalty=tree).fit(bank(50)).selected_.size > 0
    with pytest.raises(Unsupported, match="Lemma 2"):
        parser(penalty=Sum([GroupLasso(0.1), SparseMKL(0.1)])).fit(bank(20))
    with pytest.raises(ValueError, match="leaves no template"):
        parser(penalty=GroupLasso(100.0)).fit(bank(20))
    with pytest.raises(ValueError, match="needs a penalty"):
        parser(penalty=None).fit(bank(20))
    with pytest.raises(Unsupported, match="there is no update 'newton'"):
        parser(update="newton").fit(bank(20))
    with pytest.raises(Unsupported, match="all sentences at once"):
        parser().partial_fit(bank(20))


def test_the_first_round_is_the_gradient_at_zero() -> None:
    trees = bank(1)
    templates = ArcTemplates(NAMES, 16, 1)
    codes = templates.fit(trees)
    gold = with_roots(trees.heads, codes)
    found = selection.select_arcs(templates, codes, gold, GroupLasso(0.0), projective=True)
    # One step of the log loss from zero, by the solver that has its own tests: theta = -step * gradient.
    solver = ArcSolver(templates, codes, gold, loss="log", step=1.0, projective=True, seed=0)
    solver.epoch()
    np.testing.assert_allclose(found.evidence * found.weights, solver.norms, rtol=1e-5)
    assert found.weights.mean() == pytest.approx(1.0)


def test_arcs_of_single_words_count_too() -> None:
    """Check that the weight of a template is the root of the norm of its counts, over the mean of all."""
    one = [[{"form": form, "upos": "VERB", "head": 0, "deprel": "root"}] for form in ("a", "a", "b")]
    templates = ArcTemplates(["h.upos", "m.form"], min_count=1)
    words = Treebank.from_sentences(one)
    codes = templates.fit(words)
    found = selection.select_arcs(templates, codes, with_roots(words.heads, codes), GroupLasso(0.0), projective=True)
    # The root is the head three times; the words occur twice and once.
    roots = dict(zip(found.names, found.weights.tolist(), strict=True))
    assert roots["h.upos"] / roots["m.form"] == pytest.approx((9 / 5) ** 0.25)


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.55])
def test_a_whole_pass_is_that_of_the_plain_recursion(strength: float) -> None:
    """theta_m = -(eta u_m / d_m^2) prox(b)_m / b_m, b_m = eta norm(u_m) / d_m, u the sum of all gradients before."""
    names = ["h.upos m.upos dist", "h.lemma", "h.feats m.feats dir", "h.xpos m.upos between.upos", "h.suffix dir"]
    trees = random_bank(11, sentences=9)
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(trees)
    gold, limits = with_roots(trees.heads, codes), np.full((2, *[templates.radix("upos")] * 2), ANY, dtype=np.int16)
    order = np.random.default_rng(0).permutation(len(trees))
    arrays, count = templates.layout(), len(names)
    layout = selection.layout_of(templates, arrays), order, selection.places_of(templates), templates.active
    sample = selection.ArcSample(selection.Task.of(codes, gold, limits), *layout, arrays.size)
    metric = sample.metric()
    norms = selection.selection_form(GroupLasso(strength), count).norms
    evidence, kept = sample.run(norms, metric, False)

    naive = NaiveLearner(templates.blocks, "log", 0.0)

    def block(feature: str) -> int:
        return naive.templates.index(feature.split("|")[0])

    def lengths(values: dict[str, float]) -> np.ndarray:
        squares = np.zeros(count)
        for feature, value in values.items():
            squares[block(feature)] += value**2
        return np.sqrt(squares)

    counts: dict[str, float] = defaultdict(float)
    heads = [[-1, *trees.heads[a:b].tolist()] for a, b in pairwise(trees.offsets.tolist())]
    for s, tree in enumerate(heads):
        sentence = words_of(trees, s)
        for h, m in product(range(len(tree)), range(1, len(tree))):
            for feature in naive.all_features(sentence, h, m, tree) if h != m else []:
                counts[feature] += 1
    roots = np.sqrt(lengths(counts))
    np.testing.assert_allclose(metric, roots / roots.mean(), rtol=1e-6)
    sums: dict[str, float] = defaultdict(float)
    eta = 1 / count
    for t, s in enumerate(order.tolist(), 1):
        change, _ = naive.change(words_of(trees, s), heads[s], heads[s], 1.0)
        for feature, value in change.items():
            sums[feature] -= value
        before = eta * lengths(sums) / metric
        after = np.maximum(before - eta * t * strength, 0.0)
        scales = -eta * after / np.where(before > 0, before, 1.0) / metric**2
        naive.theta = defaultdict(float, {f: scales[block(f)] * u for f, u in sums.items()})
    np.testing.assert_allclose(evidence, lengths(sums) / (len(heads) * metric), rtol=1e-4)
    assert kept.tolist() == np.flatnonzero(after).tolist()
    assert (kept.size < count) == (strength > 0.5)
    assert kept.size > 0


def test_limits_are_the_longest_arcs_of_each_pair_of_tags() -> None:
    trees = random_bank(7, sentences=30, longest=7)
    templates = ArcTemplates(["h.upos m.upos"], min_count=1)
    codes = templates.fit(trees)
    gold, radix = with_roots(trees.heads, codes), templates.radix("upos")
    tags = codes.codes[templates.columns.index("upos")]
    for known in (None, np.full((2, radix, radix), 2, dtype=np.int16)):
        expected = np.zeros((2, radix, radix), dtype=int) if known is None else known.astype(int)
        # An unknown tag, 0, has no limit.
        expected[:, 0, :] = expected[:, :, 0] = ANY
        for a, n in zip(codes.first.tolist(), codes.sizes.tolist(), strict=True):
            for m in range(1, n + 1):
                h = int(gold[a + m])
                place = int(h > m), tags[a + h], tags[a + m]
                expected[place] = max(expected[place], abs(h - m) if h else 1)
        np.testing.assert_array_equal(arc_limits(templates, codes, gold, known), expected)
        assert len(np.unique(expected)) > 4
