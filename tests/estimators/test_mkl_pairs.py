"""`MKLClassifier()` with pairs of classes: the machines, the choice of weights, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_gaussian_quantiles
from sklearn.svm import SVC

import spom
from spom import MKLClassifier
from spom.estimators.checking import merged
from spom.estimators.mkl.candidates import Rows, Weights
from spom.estimators.mkl.pairs import Machine, chosen_machine
from spom.kernels import Gaussian, Linear, Polynomial
from spom.solvers.mkl.pairs import duels, pair_machines, votes

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


def objective(K: Any, alpha: Any, cost: float) -> float:
    """Return the dual objective of one pair."""
    sign = np.where(Y[Y != 2] == 0, 1.0, -1.0)
    return float(alpha.sum() - 0.5 * (sign * alpha) @ (K + 1.0) @ (sign * alpha))


def test_a_pair_is_the_support_vector_machine_without_an_intercept() -> None:
    two = X[Y != 2]
    K, y = Gaussian(1.0).block(two), Y[Y != 2]
    alpha = pair_machines(K, y, np.ones(y.size), [1.0], 1e-6)[0]
    own = alpha[np.arange(y.size), 1 - y]
    peer = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(K + 1.0, y)
    theirs = np.zeros(y.size)
    theirs[peer.support_] = np.abs(peer.dual_coef_[0])
    assert ((own >= 0.0) & (own <= 1.0)).all()
    assert objective(K, own, 1.0) >= objective(K, theirs, 1.0) - 1e-6


@pytest.mark.parametrize("cost", [8.0, 128.0, 2048.0])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(1.0)])
def test_a_large_cost_ends_at_the_optimum(kernel: Any, cost: float) -> None:
    # Labels that no kernel explains: many alphas end at their bounds, and the others move together.
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((80, 3)), rng.integers(0, 2, 80)
    K = kernel.block(x)
    alpha = pair_machines(K, y, np.ones(80), [cost], 1e-4)[0].sum(axis=1)
    sign = np.where(y == 0, 1.0, -1.0)
    peer = SVC(kernel="precomputed", C=cost, tol=1e-6).fit(K + 1.0, y)
    # SVC has a free constant besides; without it no machine does better than ours by the gap of the dual.
    f = (K + 1.0) @ (sign * alpha)
    primal = 0.5 * (sign * alpha) @ f + cost * np.maximum(0.0, 1.0 - sign * f).sum()
    dual = alpha.sum() - 0.5 * (sign * alpha) @ f
    assert primal - dual < 1e-3 * primal
    assert np.mean((f > 0) == (y == 0)) == pytest.approx(peer.score(K + 1.0, y), abs=0.05)


def test_rows_that_are_equal_and_rows_without_weight_do_no_harm() -> None:
    K = Linear().block(np.repeat(np.eye(3), 20, axis=0))
    y, weight = np.tile([0, 1], 30), np.ones(60)
    weight[:7] = 0.0
    alpha = pair_machines(K, y, weight, [1.0, 100.0], 1e-6)
    assert np.isfinite(alpha).all()
    assert (alpha[:, :7] == 0.0).all()


def test_weights_count_as_repetitions() -> None:
    K = Gaussian(1.0).block(X)
    weight = np.ones(150)
    weight[::3] = 2.0
    twice = np.concatenate([np.arange(150), np.arange(0, 150, 3)])
    a = pair_machines(K, Y, weight, [0.5], 1e-8)[0]
    b = pair_machines(K[np.ix_(twice, twice)], Y[twice], np.ones(twice.size), [0.5], 1e-8)[0]
    np.testing.assert_allclose(duels(K, a, Y), duels(K[:, twice], b, Y[twice]), atol=0.01)


def test_votes_are_what_the_pairs_say() -> None:
    f = RNG.standard_normal((50, 4, 4))
    f -= f.transpose(0, 2, 1)
    assert (np.round(votes(f)) == (f > 0).sum(axis=2)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_file_has_the_pairs(classes: int, tmp_path: Path) -> None:
    x, y = X[classes > Y], Y[classes > Y]
    model = MKLClassifier(random_state=0).fit(x, y)
    model.save(tmp_path / "m.spom")
    again = spom.load_model(tmp_path / "m.spom")
    np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
    assert model.score(x, y) > 0.95
    assert model._model.kept.tolist() == model.selected_.tolist()
    assert model.block_weights_.sum() == pytest.approx(1.0)


def test_gram_matrices_give_what_kernels_give() -> None:
    kernels = [Linear(normalize=True), Gaussian(2.0)]
    # Rows that are equal become one, and rows are sorted: two are equal in these data.
    x, y, _ = merged(X, Y, None)
    rows = MKLClassifier(kernels, precision="double", random_state=0).fit(x, y)
    blocks = [k.block(x) for k in kernels]
    grams = MKLClassifier("precomputed", random_state=0).fit(blocks, y)
    np.testing.assert_allclose(rows.decision_function(x), grams.decision_function(blocks), rtol=1e-6)


def test_rings_are_learnt_from_pairs_better_than_from_all_classes_at_once() -> None:
    x, y = make_gaussian_quantiles(n_samples=600, n_features=8, n_classes=3, random_state=0)
    pairs = MKLClassifier([Gaussian()], random_state=0).fit(x[:400], y[:400])
    whole = MKLClassifier([Gaussian()], solver="online", random_state=0).fit(x[:400], y[:400])
    assert pairs.score(x[400:], y[400:]) > whole.score(x[400:], y[400:]) + 0.05


def test_explanations_are_of_the_winner_against_the_second() -> None:
    kernels = [Polynomial(2, 0.5, scale=None), Gaussian()]
    model = MKLClassifier(kernels, random_state=0).fit(X, Y)
    for why, label, scores in zip(model.explain(X), model.predict(X), model.decision_function(X), strict=True):
        assert why.label == label
        assert why.against == np.argsort(-scores, kind="stable")[1]
        assert set(why.names) <= set(map(repr, kernels))


def test_weights_that_do_not_hold_on_other_rows_are_left() -> None:
    noise = RNG.standard_normal((150, 150))
    good, bad = Gaussian(1.0).block(X), noise @ noise.T / 150.0
    sizes = np.array([np.diagonal(k).mean() for k in (good, bad)])
    machine = chosen_machine(Rows([good, bad], sizes, Y, np.ones(150)), np.array([0.1, 0.9]), 0)
    assert machine.weights.kernels[0] >= 0.5
    assert machine.held == 150


def test_a_kernel_of_zeros_has_no_weight() -> None:
    model = MKLClassifier("precomputed", random_state=0).fit([np.zeros((150, 150)), Gaussian(1.0).block(X)], Y)
    assert model.selected_.tolist() == [1]


def squares_of_a_board(rows: int, seed: int) -> tuple[Any, Any]:
    """Return points in a square, and the colours of a board of 8 by 8 fields."""
    x = np.random.default_rng(seed).uniform(0.0, 8.0, (rows, 2))
    return x, np.floor(x).sum(axis=1).astype(np.int64) % 2


def test_a_width_that_the_data_chose_is_changed_if_another_is_better(tmp_path: Path) -> None:
    x, y = squares_of_a_board(500, 0)
    x_test, y_test = squares_of_a_board(500, 1)
    model = MKLClassifier([Gaussian()], precision="double", random_state=0).fit(x, y)
    wide = Gaussian().fitted(x).variance
    (narrow,) = model.kernels_
    assert wide is not None
    assert narrow.variance == pytest.approx(wide / 16.0)
    cost = 1.0 / (model.penalty_.strength * y.size)
    peer = SVC(kernel="precomputed", C=cost, tol=1e-8).fit(narrow.block(x) + 1.0, y)
    assert (model.predict(x_test) == peer.predict(narrow.block(x_test, x) + 1.0)).mean() > 0.99
    given = MKLClassifier([Gaussian(wide)], random_state=0).fit(x, y)
    assert given.kernels_[0].variance == wide
    assert model.score(x_test, y_test) > given.score(x_test, y_test) + 0.1
    model.save(tmp_path / "board.spom")
    again = spom.load_model(tmp_path / "board.spom")
    np.testing.assert_array_equal(again.decision_function(x_test), model.decision_function(x_test))
    assert list(map(repr, again.kernels_)) == list(map(repr, model.kernels_))


def test_a_choice_is_told_in_words() -> None:
    alone = Machine(Weights("1 alone", np.ones(2)), 2.0, 40, 0.875)
    assert alone.told() == "kernel 1 alone, C 2: 87.5% of 40 held-out rows right"
    narrow = Machine(Weights("1 alone", np.ones(2), 0.5), 2.0, 40, 0.875)
    assert narrow.told() == "kernel 1 alone, with 0.5 of its width, C 2: 87.5% of 40 held-out rows right"
    plain = Machine(Weights("learnt", np.ones(2)), 8.0)
    assert plain.told() == "kernels as the penalty weighs them, too few rows to compare"


@pytest.mark.parametrize("unit", [1e-6, 3.0])
def test_units_of_weights_do_not_matter(unit: float) -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, Y.size)
    one, other = (MKLClassifier(random_state=0).fit(X, Y, sample_weight=w) for w in (weight, unit * weight))
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)
