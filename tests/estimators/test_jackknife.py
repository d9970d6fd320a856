"""Every prediction comes from a model that did not see the example, and columns can be replaced by predictions."""

from __future__ import annotations

from concurrent import futures

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor

from spom.data import Treebank
from spom.errors import DataError
from spom.estimators.jackknife import jackknife


class Seen(BaseEstimator):  # type: ignore[misc]
    """Predicts whether an example was among those it learnt from."""

    def fit(self, X: list[int], y: object = None) -> Seen:
        self.seen_ = set(X)
        return self

    def predict(self, X: list[int]) -> list[tuple[int, bool]]:
        return [(x, x in self.seen_) for x in X]


@pytest.mark.parametrize("folds", [2, 3, 7, 50])
def test_no_model_sees_what_it_predicts(folds: int) -> None:
    found = jackknife(Seen(), list(range(11)), folds=folds, n_jobs=2)
    assert found == [(x, False) for x in range(11)]


def bank() -> Treebank:
    words = [("Dogs", 2, "nsubj"), ("bark", 0, "root"), (".", 2, "punct")]
    return Treebank.from_sentences([[{"form": f, "head": h, "deprel": r} for f, h, r in words]] * 4)


class Upper(BaseEstimator):  # type: ignore[misc]
    def fit(self, X: Treebank, y: object = None) -> Upper:
        return self

    def predict(self, X: Treebank) -> Treebank:
        forms = X.columns.strings("form")
        return X.with_columns(lemma=[[form.upper() for form in sentence] for sentence in forms])


def test_treebanks_are_joined_in_order() -> None:
    found = jackknife(Upper(), bank(), folds=3)
    assert found.columns.strings("lemma") == [["DOGS", "BARK", "."]] * 4
    assert found.heads.tolist() == bank().heads.tolist()


def test_columns_in_three_forms() -> None:
    one = bank()
    tags = ["NOUN", "VERB", "PUNCT"]
    lists = one.with_columns(upos=[tags] * 4)
    flat = one.with_columns(upos=tags * 4, feats=["A=1"] * 12)
    coded = one.with_columns(upos=(np.array([0, 1, 2] * 4), tags))
    assert lists.columns.strings("upos") == flat.columns.strings("upos") == coded.columns.strings("upos") == [tags] * 4
    assert flat[1][0] == ("1", "Dogs", "_", "NOUN", "_", "A=1", "2", "nsubj", "_", "_")


def test_part_of_a_treebank_with_other_trees_keeps_them() -> None:
    part = bank()[[1, 3]].with_trees(np.array([0, 1, 1, 2, 0, 2]))
    found = part.with_columns(upos=["X"] * 6)
    assert found.heads.tolist() == [0, 1, 1, 2, 0, 2]
    assert len(found) == 2


def test_bad_columns_are_named() -> None:
    with pytest.raises(DataError, match="'upos' has 2 values for 12 words"):
        bank().with_columns(upos=["A", "B"])
    with pytest.raises(DataError, match="contains a tab"):
        bank().with_columns(xpos=["A\tB"] * 12)
    with pytest.raises(ValueError, match="cannot replace column 'heads'"):
        bank().with_columns(heads=["A"] * 12)


def test_threads_by_the_rule_of_joblib(monkeypatch: pytest.MonkeyPatch) -> None:
    """-1 is one for each core, -2 one fewer, here and in the command; the result is the same."""
    from spom.core.ordered import in_order

    opened: list[int] = []

    class Pool(futures.ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            opened.append(count)
            super().__init__(count)

    monkeypatch.setattr("spom.estimators.jackknife.ThreadPoolExecutor", Pool)
    monkeypatch.setattr(futures, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr("joblib.parallel.cpu_count", lambda *_: 5)
    monkeypatch.setattr("joblib._parallel_backends.cpu_count", lambda *_: 5)
    X, y = np.zeros((6, 1)), np.arange(6.0)
    one = jackknife(DummyRegressor(), X, y, folds=3)
    for jobs in (-1, -2, 3):
        assert np.array_equal(jackknife(DummyRegressor(), X, y, folds=3, n_jobs=jobs), one)
        assert list(in_order(lambda k: k * k, range(7), jobs)) == [k * k for k in range(7)]
    assert opened == [1, 5, 5, 4, 4, 3, 3]
