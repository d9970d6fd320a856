"""Sparse columns with a power of their size as scale, and the losses of two classes: held-out rows decide."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from spom import OnlineClassifier, OnlineRegressor, ProximalClassifier
from spom.estimators.linear.scaling import POWER, Scaling, by_size
from spom.losses import Logistic, PowerHinge
from spom.penalties import SquaredL2

FREQUENT, RARE = 80, 2000
MODELS = [OnlineClassifier(random_state=0), ProximalClassifier(verbose=0)]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def texts(rows: int, seed: int, topical: bool = True) -> tuple[sparse.csr_matrix, NDArray[np.str_]]:
    """Return rows of frequent and rare words; either the rare ones tell the class (four in five), or the others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = np.zeros((rows, FREQUENT + RARE))
    for i, c in enumerate(y):
        leans = (np.arange(FREQUENT) % 4 == c) & (not topical)
        X[i, :FREQUENT] = rng.uniform(size=FREQUENT) < np.where(leans, 0.4, 0.3)
        side = (c + (rng.uniform(size=6) < 0.2)) % 2 if topical else rng.integers(0, 2, 6)
        X[i, FREQUENT + 2 * rng.integers(0, RARE // 2, 6) + side] = 1.0
    return sparse.csr_matrix(X), np.array(["no", "yes"])[y]


def test_scales_are_powers_of_root_mean_squares() -> None:
    X = sparse.random_array((50, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    dense = X.toarray()
    for scaling in (None, Scaling(None, np.linspace(1.0, 3.0, 20))):
        first = np.ones(20) if scaling is None else scaling.scale
        expected = first * np.sqrt(np.mean((dense / first) ** 2, axis=0)) ** POWER
        found = by_size(X, scaling)
        assert found is not None
        assert found.center is None
        ratio = found.scale / expected
        np.testing.assert_allclose(ratio, ratio[0])
        assert np.median(found.scale / first) == pytest.approx(1.0)


def test_columns_of_one_size_and_empty_ones_need_no_scales() -> None:
    assert by_size(sparse.csr_matrix(np.eye(3)), None) is None
    assert by_size(sparse.csr_matrix((3, 2)), None) is None
    found = by_size(sparse.csr_matrix([[1.0, 0.0, 2.0], [0.0, 0.0, 2.0]]), None)
    assert found is not None
    assert np.isfinite(found.scale).all()
    assert found.scale[1] > 0.0


@each_model
def test_rare_words_of_topics_get_larger_weights(model: OnlineClassifier) -> None:
    X, y = texts(1200, 0)
    held, gold = texts(1500, 1)
    chosen, plain = clone(model).fit(X, y), clone(model).set_params(scale=False).fit(X, y)
    assert plain.scale_ is None
    counts = np.asarray((X != 0).sum(axis=0)).ravel()
    assert chosen.scale_[:FREQUENT].min() > chosen.scale_[FREQUENT:][counts[FREQUENT:] > 0].max()
    assert chosen.score(held, gold) > plain.score(held, gold)


@each_model
def test_columns_keep_their_scale_where_frequent_words_matter(model: OnlineClassifier) -> None:
    assert clone(model).fit(*texts(1200, 0, topical=False)).scale_ is None


def test_a_penalty_object_states_the_problem_exactly() -> None:
    X, y = texts(300, 0)
    assert OnlineClassifier(penalty=SquaredL2(1e-3), random_state=0).fit(X, y).scale_ is None
    assert OnlineRegressor(random_state=0).fit(X, np.where(y == "yes", 1.0, 0.0)).scale_ is None


@each_model
def test_two_classes_may_take_the_squared_hinge_where_features_outnumber_rows(model: OnlineClassifier) -> None:
    rng = np.random.default_rng(0)
    # Each row has one of 600 words, which is always of the same class: margins matter, likelihoods do not.
    words = rng.integers(0, 600, 500)
    X = sparse.csr_matrix((np.ones(500), (np.arange(500), words)), shape=(500, 600))
    found = clone(model).fit(X, words % 2)
    assert isinstance(found.loss_, (Logistic, PowerHinge))
    shares = found.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares.argmax(axis=1), found.predict(X))
    assert isinstance(clone(model).set_params(loss="logistic").fit(X, words % 2).loss_, Logistic)
    assert isinstance(clone(model).fit(X[:, :300], words % 2).loss_, Logistic)
