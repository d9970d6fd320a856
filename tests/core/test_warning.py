"""Warnings of fits point at the line of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom import OnlineClassifier, OnlineRegressor, ProximalClassifier, ProximalRegressor, SequenceTagger
from spom.penalties import L1

X = np.random.default_rng(0).normal(size=(50, 3))
LABELS = (X[:, 0] > 0).astype(int)
SENTENCES = [[["a"], ["b"], ["c"]]] * 20
BROKEN = [["O", "I-X", "B-X"]] * 19 + [["B-X", "I-X", "O"]]


@pytest.mark.parametrize("model", [OnlineClassifier, OnlineRegressor, ProximalClassifier, ProximalRegressor])
def test_weights_that_are_all_zero(model: Any) -> None:
    with pytest.warns(UserWarning, match="every weight is zero") as caught:
        model(penalty=L1(10.0)).fit(X, LABELS)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_solver_that_stopped_early() -> None:
    with pytest.warns(UserWarning, match="the solver stopped after 2 rounds") as caught:
        ProximalClassifier(penalty=L1(1e-6), solver="fista", max_iter=2).fit(X, LABELS)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_gold_labels_that_break_a_scheme(method: str) -> None:
    tagger = SequenceTagger(verbose=0, constraints="BIO", penalty=None)
    with pytest.warns(UserWarning, match="19 sentences have gold labels that break BIO") as caught:
        getattr(tagger, method)(SENTENCES, BROKEN)
    assert {warning.filename for warning in caught} == {__file__}
