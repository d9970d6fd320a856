"""Data that no estimator can take: one clear error before work starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom import MKLClassifier, OnlineClassifier, OnlineRegressor, ProximalClassifier, SequenceTagger, load_model
from spom.data import Columns
from spom.errors import DataError
from spom.features import Templates
from spom.models import save_model
from spom.penalties import SquaredL2


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("cls", [OnlineClassifier, OnlineRegressor, ProximalClassifier, MKLClassifier])
def test_numbers_whose_squares_are_infinite_are_named(cls: Any, form: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[3, 1] = -1e300
    X = form(X)
    with pytest.raises(DataError, match=r"X has the entry 1e\+300, whose square is not finite: scale X"):
        cls().fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("cls", [OnlineClassifier, ProximalClassifier])
def test_memory_for_very_many_classes_is_estimated(cls: Any) -> None:
    n = 100_000
    X = sparse.csr_matrix((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, 10 * n))
    with pytest.raises(DataError, match=r"the weights of 100,000 classes and 1,000,00\d features need about [\d,]+ GB"):
        cls().fit(X, np.arange(n))


def test_memory_for_very_many_classes_of_few_features_is_estimated() -> None:
    n = 200_000
    X, y = np.random.default_rng(0).normal(size=(2 * n, 2)), np.arange(2 * n) % n
    what = r"a number for each of [\d,]+ rows and 200,000 classes need about [\d,]+ GB.*update='forward-backward'"
    with pytest.raises(DataError, match=what):
        OnlineClassifier("logistic", SquaredL2(1e-3)).fit(X, y)


def test_memory_for_very_many_labels_of_a_tagger_is_estimated() -> None:
    X = [[f"w{i % 7}" for i in range(200)]] * 1000
    y = [[f"L{200 * s + i}" for i in range(200)] for s in range(1000)]
    with pytest.raises(DataError, match=r"200,000 labels by 200,000 labels need about 1,920 GB.*take fewer labels"):
        SequenceTagger(["w[0]"], verbose=0).fit(X, y)


def test_labels_that_are_no_exact_numbers_are_named() -> None:
    y = np.where(np.arange(20) % 2, float("9" * 25), float("1" * 25))
    with pytest.raises(DataError, match=r"entry 1 of y is the label 1e\+25: numbers over 2\*\*53"):
        OnlineClassifier().fit(np.eye(20), y)


def test_a_tagger_with_a_templates_object_is_saved(tmp_path: Path) -> None:
    columns = Columns.from_lists([["the", "cat"], ["the", "dog"]])
    y = [["D", "N"], ["D", "N"]]
    tagger = SequenceTagger(Templates(["w[0]", "w[-1]|w[0]"]), epochs=2, random_state=0).fit(columns, y)
    save_model(tagger, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert [list(tags) for tags in loaded.predict(columns)] == [list(tags) for tags in tagger.predict(columns)]
    assert loaded.templates == ["w[0]", "w[-1]|w[0]"]
