"""Contributions add up to what they explain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from spom import DependencyParser, OnlineClassifier, ProximalRegressor, SequenceTagger
from spom.data import Treebank
from spom.data.generated import ingredients
from spom.errors import DataError
from spom.kernels import Gaussian, Linear
from spom.penalties import L1


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_several_classes(make: object) -> None:
    X, y = load_iris(return_X_y=True)
    model = OnlineClassifier(penalty=L1(1e-3), random_state=0, verbose=0).fit(X, y)
    scores = model.decision_function(X[::30])
    for why, row, label in zip(model.explain(make(X[::30])), scores, model.predict(X[::30]), strict=True):
        best = np.sort(row)[::-1]
        assert why.label == label
        assert why.lead == pytest.approx(best[0] - best[1])


def test_two_classes_and_numbers() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = OnlineClassifier(random_state=0, verbose=0).fit(X, y)
    for why, score in zip(model.explain(X[:4]), model.decision_function(X[:4]), strict=True):
        assert why.lead == pytest.approx(abs(score))
        assert why.label == int(score > 0)
    X, y = load_diabetes(return_X_y=True)
    model = ProximalRegressor(penalty=L1(0.1), verbose=0).fit(X, y)
    (why,) = model.explain(X[:1])
    assert why.lead == pytest.approx(model.predict(X[:1])[0])
    assert why.label is None


def test_tokens_of_a_sentence() -> None:
    train = ingredients(300, seed=0)
    tagger = SequenceTagger(random_state=0, verbose=0).fit(train)
    sentence = train[:1]
    (found,) = tagger.explain(sentence)
    (labels,) = tagger.predict(sentence)
    assert [why.label for why in found] == labels
    assert all(why.against != why.label for why in found)
    assert [why.of for why in found] == [fields[0] for fields in train[0]]
    checked = 0
    scores = {tuple(path): score for path, score in tagger.predict_kbest(sentence, 200)[0]}
    for t, why in enumerate(found):
        other = (*labels[:t], why.against, *labels[t + 1 :])
        if other in scores:
            assert why.lead == pytest.approx(scores[tuple(labels)] - scores[other], abs=1e-4)
            checked += 1
    assert checked, "at least one runner-up is among the best sequences"
    assert sum(c for _, c in found[0].by_block().top(100)) == pytest.approx(found[0].lead)


def test_labels_that_are_given_stay() -> None:
    train = ingredients(300, seed=0)
    tagger = SequenceTagger(random_state=0, verbose=0).fit(train)
    sentence = train[:1]
    n = len(train[0])
    given = [[None] * n]
    given[0][1] = "B-NAME"
    (found,) = tagger.predict(sentence, given=given)
    assert found[1] == "B-NAME"
    best = [path for path, _ in tagger.predict_kbest(sentence, 2000)[0] if path[1] == "B-NAME"]
    assert found == best[0]
    assert tagger.predict(sentence, given=[[None] * n]) == tagger.predict(sentence)
    whole = [[fields[-1] for fields in train[0]]]
    assert tagger.predict(sentence, given=whole) == whole
    for bad, message in (
        ([], "there must be labels for each"),
        ([["B-NAME"]], "1 labels for"),
        ([["X"] * n], "no label 'X'"),
    ):
        with pytest.raises(DataError, match=message):
            tagger.predict(sentence, given=bad)


@pytest.mark.parametrize("both", [False, True])
def test_kernels_of_a_tagger(both: bool) -> None:
    rng = np.random.default_rng(0)
    V = [rng.standard_normal((4, 3)) for _ in range(40)]
    y = [["p" if v[0] * v[1] > 0 else "q" if v[2] > 0 else "r" for v in x] for x in V]
    words = [["w" + label for label in labels] for labels in y]
    tagger = SequenceTagger(["w[0]"] if both else "auto", kernels=[Linear(), Gaussian(1.0)], random_state=0, verbose=0)
    X = (words, V) if both else V
    tagger.fit(X, y)
    some = (words[:5], V[:5]) if both else V[:5]
    checked = 0
    for i, (found, labels) in enumerate(zip(tagger.explain(some), tagger.predict(some), strict=True)):
        assert [why.label for why in found] == labels
        one = (words[i : i + 1], V[i : i + 1]) if both else V[i : i + 1]
        scores = {tuple(path): score for path, score in tagger.predict_kbest(one, 81)[0]}
        for t, why in enumerate(found):
            other = (*labels[:t], why.against, *labels[t + 1 :])
            assert why.lead == pytest.approx(scores[tuple(labels)] - scores[other], abs=1e-3)
            checked += 1
        wanted = "w[0]=" if both else "Gaussian"
        assert any(wanted in name for why in found for name in why.names)
    assert checked == 20


@pytest.mark.parametrize("second", [False, True])
def test_heads_of_a_parser(second: bool) -> None:
    rng = np.random.default_rng(0)
    bank = []
    for _ in range(30):
        nouns = rng.permutation(["dog", "cat", "bird"]).tolist()
        sentence = [("the", "DET", 2, "det"), (nouns[0], "NOUN", 3, "nsubj"), ("sees", "VERB", 0, "root")]
        sentence += [("a", "DET", 5, "det"), (nouns[1], "NOUN", 3, "obj")]
        bank.append([dict(zip(("form", "upos", "head", "deprel"), word, strict=True)) for word in sentence])
    trees = Treebank.from_sentences(bank)
    parser = DependencyParser(epochs=3, label_epochs=1, second_stage=second, random_state=0, verbose=0).fit(trees)
    some = trees[:3] if isinstance(trees[:3], Treebank) else Treebank.from_sentences(bank[:3])
    found, predicted = parser.explain(some), parser.predict(some)
    model = parser.second_ or parser.arcs_
    codes = parser.arcs_.templates.transform(some)
    guides = parser.arcs_.parse(codes, parser.projective_)[0] if second else None
    for s, whys in enumerate(found):
        scores = model.scores(codes, s, guides)
        heads = predicted.heads[predicted.offsets[s] : predicted.offsets[s + 1]].tolist()
        assert [why.of for why in whys] == [word["form"] for word in bank[s]]
        for m, (why, head) in enumerate(zip(whys, heads, strict=True), 1):
            assert why.label == ("the root" if head == 0 else f"{head} {bank[s][head - 1]['form']}")
            others = np.delete(scores[:, m], [head, m])
            others = others[np.isfinite(others)]
            expected = scores[head, m] - (others.max() if others.size else 0.0)
            assert why.lead == pytest.approx(expected, abs=1e-3)
            assert (why.against == "no other head") == (others.size == 0)
            assert set(why.names) <= set(model.templates.blocks)
