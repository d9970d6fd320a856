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


@pytest.mark.parametrize("cls", [OnlineClassifier, OnlineRegressor, ProximalClassifier, MKLClassifier])
def test_numbers_whose_squares_are_infinite_are_named(cls: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[3, 1] = -1e300
    with pytest.raises(DataError, match=r"X has the entry 1e\+300, whose square is not finite: scale X"):
        cls().fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("cls", [OnlineClassifier, ProximalClassifier])
def test_memory_for_very_many_classes_is_estimated(cls: Any) -> None:
    n = 100_000
    X = sparse.csr_matrix((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, 10 * n))
    with pytest.raises(DataError, match=r"the weights of 100,000 classes and 1,000,00\d features need about [\d,]+ GB"):
        cls().fit(X, np.arange(n))


def test_a_tagger_with_a_templates_object_is_saved(tmp_path: Path) -> None:
    columns = Columns.from_lists([["the", "cat"], ["the", "dog"]])
    y = [["D", "N"], ["D", "N"]]
    tagger = SequenceTagger(Templates(["w[0]", "w[-1]|w[0]"]), epochs=2, random_state=0).fit(columns, y)
    save_model(tagger, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert [list(tags) for tags in loaded.predict(columns)] == [list(tags) for tags in tagger.predict(columns)]
    assert loaded.templates == ["w[0]", "w[-1]|w[0]"]
