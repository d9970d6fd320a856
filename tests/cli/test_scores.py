"""The numbers that `spom evaluate` prints, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, mean_absolute_error, precision_recall_fscore_support, r2_score

from spom.cli.scores import class_scores, real_scores

GOLD = np.array(["a"] * 7 + ["b"] * 2 + ["c"])
PREDICTED = np.array(["a", "a", "a", "a", "b", "b", "c", "b", "a", "a"])


def test_class_scores_are_scikit_learns() -> None:
    found = class_scores(GOLD, PREDICTED)
    expected = precision_recall_fscore_support(GOLD, PREDICTED, average="macro", zero_division=0)
    names = ("macro_precision", "macro_recall", "macro_f1")
    assert [found.flat[name] for name in names] == pytest.approx(expected[:3])
    assert found.flat["macro_precision"] != pytest.approx(found.flat["macro_recall"])
    assert found.flat["accuracy"] == pytest.approx(accuracy_score(GOLD, PREDICTED))


def test_each_printed_row_has_precision_before_recall() -> None:
    lines = {line.split()[0]: line.split()[1:] for line in class_scores(GOLD, PREDICTED).text.splitlines()[1:-1]}
    each = precision_recall_fscore_support(GOLD, PREDICTED, zero_division=0)
    for i, label in enumerate("abc"):
        assert lines[label] == [*(f"{each[k][i]:.4f}" for k in range(3)), str(each[3][i])]


def test_regression_scores_are_scikit_learns() -> None:
    random = np.random.default_rng(0)
    gold = random.standard_normal(20)
    predicted = gold + 0.3 * random.standard_normal(20)
    flat = real_scores(gold, predicted).flat
    assert flat["r2"] == pytest.approx(r2_score(gold, predicted))
    assert flat["mae"] == pytest.approx(mean_absolute_error(gold, predicted))
    assert flat["rmse"] == pytest.approx(np.sqrt(np.mean((gold - predicted) ** 2)))
