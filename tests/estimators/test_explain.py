"""Contributions add up to what they explain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from spom import OnlineClassifier, ProximalRegressor, SequenceTagger
from spom.data.generated import ingredients
from spom.errors import DataError
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
