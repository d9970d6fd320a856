"""Probabilities of a kernel machine with the hinge loss: calibrated on rows that it did not learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import spom
from spom import MKLClassifier
from spom.errors import Unsupported
from spom.kernels import Gaussian, Linear, Nystroem

# Labels of which a part is wrong, so that nobody can be sure.
X, Y = make_classification(900, 6, n_informative=4, n_classes=3, flip_y=0.25, random_state=0)
TRAIN, TEST = slice(0, 500), slice(500, 900)


def test_they_are_good_ones() -> None:
    model = MKLClassifier([Linear(), Gaussian(4.0)], probability=True, random_state=0).fit(X[TRAIN], Y[TRAIN])
    p = model.predict_proba(X[TEST])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X[TEST]))
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[TEST]))
    plain = LogisticRegression().fit(X[TRAIN], Y[TRAIN])
    assert log_loss(Y[TEST], p) < log_loss(Y[TEST], plain.predict_proba(X[TEST]))
    # The factor is near the best that the test rows know of, where the scores as they are would be far off.
    scores = model.decision_function(X[TEST])

    def at(factor: float) -> float:
        odds = np.exp(factor * (scores - scores.max(axis=1, keepdims=True)))
        return log_loss(Y[TEST], odds / odds.sum(axis=1, keepdims=True))

    best = min(at(f) for f in np.geomspace(0.05, 50, 200))
    assert log_loss(Y[TEST], p) < best + 0.02
    assert log_loss(Y[TEST], p) == pytest.approx(at(model.calibration_))


def test_development_rows_and_rows_given_later_calibrate_too() -> None:
    model = MKLClassifier([Gaussian(4.0)], random_state=0).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as caught:
        model.predict_proba(X[TEST])
    assert "calibrate(X, y) on held-out rows" in str(caught.value.__cause__)
    model.calibrate(X[TEST], Y[TEST])
    other = MKLClassifier([Gaussian(4.0)], random_state=0, epochs=20, patience=None)
    other.fit(X[TRAIN], Y[TRAIN], dev=(X[TEST], Y[TEST]))
    assert other.predict_proba(X[:5]).shape == model.predict_proba(X[:5]).shape == (5, 3)
    model.fit(X[TRAIN], Y[TRAIN])
    assert not hasattr(model, "calibration_")
    with pytest.raises(Unsupported, match="nothing to calibrate"):
        MKLClassifier([Linear()], loss="log").fit(X[TRAIN], Y[TRAIN]).calibrate(X[TEST], Y[TEST])


def test_two_classes_weights_and_gram_matrices(tmp_path: Path) -> None:
    x, y = X[:200], (Y[:200] > 0).astype(int)
    K = x @ x.T
    model = MKLClassifier("precomputed", probability=True, random_state=0).fit([K], y)
    rows = MKLClassifier([Linear()], probability=True, random_state=0).fit(x, y, sample_weight=np.ones(200))
    assert model.predict_proba([K[:4]]).shape == (4, 2)
    assert rows.calibration_ == pytest.approx(model.calibration_, rel=0.3)
    rows.save(tmp_path / "m.spom")
    np.testing.assert_array_equal(spom.load_model(tmp_path / "m.spom").predict_proba(x), rows.predict_proba(x))
    lonely = MKLClassifier([Linear()], probability=True, random_state=0).fit(x[:3], [0, 0, 1])
    assert lonely.calibration_ == 1.0


@pytest.mark.parametrize(
    "kernels", [[Linear(normalize=True), Gaussian(20.0)], [Nystroem(Gaussian(20.0), 50), Linear()]]
)
def test_kernels_explain_the_lead(kernels: Any) -> None:
    x, y = load_digits(return_X_y=True)
    x = x[:300] / 16.0
    model = MKLClassifier(kernels, solver="online", random_state=0).fit(x, y[:300])
    scores = model.decision_function(x[:20])
    for why, row, label in zip(model.explain(x[:20]), scores, model.predict(x[:20]), strict=True):
        best = np.sort(row)[::-1]
        assert why.label == label
        assert why.lead == pytest.approx(best[0] - best[1], rel=1e-4, abs=1e-5)
        assert set(why.names) <= set(map(repr, kernels))
    with pytest.raises(Unsupported, match="explain needs rows"):
        MKLClassifier("precomputed").fit([x @ x.T], y[:300]).explain([x @ x.T])
