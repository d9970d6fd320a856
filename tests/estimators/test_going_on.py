"""`partial_fit` after `fit`: the weights are kept, and steps are as small as after the examples of `fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_classification
from sklearn.metrics import log_loss

import spom
from spom import OnlineClassifier, OnlineRegressor, SequenceTagger
from spom.data import read_conll
from spom.data.generated import ingredients
from spom.losses import Logistic
from spom.penalties import L1
from spom.solvers import OnlineProximal
from spom.solvers.iterate import last
from spom.solvers.linear.streaming_point import StreamingPoint

CANCER = load_breast_cancer(return_X_y=True)
DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


class Watching:
    """A callback."""

    def on_epoch(self, entry: Any) -> None:
        """Do nothing."""


def halves(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    order = np.random.default_rng(0).permutation(len(y))
    first, second = np.array_split(order, 2)
    return X[first], y[first], X[second], y[second]


@pytest.mark.parametrize(
    ("data", "make"),
    [
        (CANCER, lambda: OnlineClassifier(random_state=0, verbose=0)),
        (CANCER, lambda: OnlineClassifier(penalty=L1(1e-3), random_state=0, verbose=0)),
        (DIGITS, lambda: OnlineClassifier(random_state=0, verbose=0)),
        (DIABETES, lambda: OnlineRegressor(random_state=0, verbose=0)),
    ],
    ids=["two classes", "l1", "ten classes", "numbers"],
)
def test_what_fit_learnt_is_kept(data: Any, make: Any) -> None:
    X, y, X_test, y_test = halves(*data)
    model = make().fit(X, y)
    before = model.score(X_test, y_test)
    for k in range(20):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    assert model.score(X_test, y_test) > before - 0.03


@pytest.mark.parametrize("stream", [False, True])
def test_the_squared_hinge_that_fit_chose_is_kept(tmp_path: Path, stream: bool) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(400, 2000, 0.01, "csr", random_state=0)
    y = np.where(X @ rng.standard_normal(2000) > 1.5, "rare", "usual")
    model = OnlineClassifier(random_state=0, warm_start=True, verbose=0).fit(X[:300], y[:300])
    loss, before = repr(model.loss_), log_loss(y[300:], model.predict_proba(X[300:]))
    assert loss == "PowerHinge()"
    model.save(tmp_path / "m.spom")
    for each in (model, spom.load_model(tmp_path / "m.spom")):
        each.fit([(X[:1], y[:1])], classes=["rare", "usual"]) if stream else each.partial_fit(X[:1], y[:1])
        assert repr(each.loss_) == loss
        # One more row hardly changes the probabilities.
        assert log_loss(y[300:], each.predict_proba(X[300:])) == pytest.approx(before, rel=0.05)


def test_a_model_from_a_file_goes_on(tmp_path: Path) -> None:
    X, y, X_test, y_test = halves(*CANCER)
    fitted = OnlineClassifier(random_state=0, verbose=0).fit(X, y)
    fitted.save(tmp_path / "m.spom")
    again = spom.load_model(tmp_path / "m.spom").partial_fit(X[:5], y[:5])
    np.testing.assert_array_equal(again.coef_, fitted.partial_fit(X[:5], y[:5]).coef_)
    assert again.score(X_test, y_test) > 0.9


def test_small_blocks_of_sparse_rows_are_learnt_in_the_same_way() -> None:
    X, y = make_classification(400, 300, n_informative=20, random_state=0)
    S = sparse.csr_matrix(np.where(np.abs(X) < 1.5, 0.0, X))
    quick, plain = (OnlineClassifier(random_state=0, verbose=0).fit(S[:300], y[:300]) for _ in range(2))
    start = quick.coef_.copy()
    # A callback needs the weights after each call, so this run does not stay between calls.
    plain.set_params(callbacks=Watching())
    for k in range(300, 400):
        quick.partial_fit(S[k : k + 1], y[k : k + 1])
        plain.partial_fit(S[k : k + 1], y[k : k + 1])
    assert "_live" in vars(quick)
    assert "_live" not in vars(plain)
    np.testing.assert_allclose(quick.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
    assert 0.0 < np.abs(quick.coef_ - start).max() < np.abs(start).max()


def test_weights_of_features_that_are_not_met_stay() -> None:
    X, y = make_classification(300, 30, random_state=0)
    model = OnlineClassifier(random_state=0, verbose=0).fit(sparse.csr_matrix(X), y)
    before = model.coef_.copy()
    some = np.zeros((40, 30))
    some[:, :10] = X[:40, :10]
    model.partial_fit(sparse.csr_matrix(some), y[:40])
    np.testing.assert_allclose(model.coef_[:, 10:], before[:, 10:], rtol=1e-12)
    assert (model.coef_[:, :10] != before[:, :10]).all()


def test_the_point_is_the_formula() -> None:
    rng = np.random.default_rng(0)
    X, y, v = rng.standard_normal((50, 4)), np.sign(rng.standard_normal(50)), rng.standard_normal(4)
    settings: dict[str, Any] = {"loss": Logistic(), "penalty": L1(0.01), "fit_intercept": False, "random_state": 0}
    start = spom.core.state.State(k=1000, theta=v)
    state = last(OnlineProximal(iter([(X, y)]), None, start=start, **settings))
    engine = StreamingPoint(Logistic(), 0.01, 0.0, 4, False)
    engine.unpack(state.theta, {name[7:]: a for name, a in state.internal.items() if name.startswith("engine.")})
    assert (engine.earlier, engine.seen) == (1000.0, 50.0)
    root = np.sqrt(engine.squares / 50.0)
    features = root.sum() ** 2 / (root**2).sum()
    c = 0.5 * np.sqrt(1.0 + 1050.0 / (5.0 * features))
    M = c * 0.25 * root * root.sum()
    z = M * v + engine.dual
    np.testing.assert_allclose(state.theta, np.sign(z) * np.maximum(np.abs(z) - 50 * 0.01, 0.0) / M, rtol=1e-9)
    np.testing.assert_allclose(engine.point(), state.theta, rtol=1e-9)


@pytest.mark.parametrize("penalty", ["auto", "l1"])
def test_a_tagger_keeps_what_fit_learnt(penalty: str) -> None:
    train, test = ingredients(300, seed=0), ingredients(200, seed=1)
    model = SequenceTagger(penalty=penalty, random_state=0, verbose=0).fit(train)
    before = model.score(test)
    for k in range(0, 50, 5):
        model.partial_fit(train[k : k + 5])
        assert model.score(test) > before - 0.02


@pytest.mark.parametrize("settings", [{}, {"penalty": "sparse-mkl"}, {"penalty": "group-lasso"}, {"step": "sqrt"}])
def test_a_chunker_keeps_what_fit_learnt(settings: dict[str, Any], data_folder: Path) -> None:
    part = read_conll(data_folder / "conll2000" / "train.txt.gz")[:1100]
    labels = [str(label) for label in part.distinct(2)[1]]
    model = SequenceTagger(random_state=0, verbose=0, **settings).fit(part[:500], classes=labels)
    before = model.score(part[600:])
    for k in range(500, 530, 10):
        model.partial_fit(part[k : k + 10])
        assert model.score(part[600:]) > before - 0.03
