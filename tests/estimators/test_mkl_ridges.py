"""`MKLRegressor()`: exact errors of rows left out, the ridge regression, and the choice of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

import spom
from spom import MKLRegressor
from spom.estimators.mkl.candidates import Rows, Weights
from spom.estimators.mkl.ridges import Ridge, chosen_ridge, fitted_ridge, left_out
from spom.kernels import Gaussian, Laplacian, Linear

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(40)


def features_ridge(Z: Any, y: Any, share: Any, strength: float) -> Any:
    """Return slopes and intercept of a weighted ridge regression by its normal equations."""
    A = np.column_stack([Z, np.ones(len(Z))])
    penalty = np.diag([strength] * Z.shape[1] + [0.0])
    return np.linalg.solve(A.T @ (share[:, None] * A) + penalty, A.T @ (share * y))


@pytest.mark.parametrize("strength", [1e-4, 0.1, 3.0])
def test_errors_of_rows_left_out_are_those_of_learning_without_them(strength: float) -> None:
    weight = RNG.uniform(0.5, 2.0, 40)
    share = weight / weight.sum()
    found = left_out(X @ X.T, Y, share, np.array([strength]))[0]
    for i in range(0, 40, 7):
        rest = np.arange(40) != i
        theta = features_ridge(X[rest], Y[rest], share[rest], strength)
        assert found[i] == pytest.approx(Y[i] - np.append(X[i], 1.0) @ theta, rel=1e-8)


@pytest.mark.parametrize("strength", [0.003, 0.05])
def test_rows_left_out_judge_kernels_with_negative_eigenvalues_as_they_are(strength: float) -> None:
    K = np.minimum(1.0, 2.0 * Gaussian(1.0).block(X))
    assert np.linalg.eigvalsh(K)[0] < -0.5
    share = RNG.dirichlet(np.full(40, 20.0))
    found = left_out(K, Y, share, np.array([strength]))[0]
    for i in range(0, 40, 7):
        # Shares keep their sizes when a row is left out, so the strength is divided by their new sum.
        rest = np.arange(40) != i
        left = share[rest].sum()
        rows = Rows([K[np.ix_(rest, rest)]], np.ones(1), Y[rest], share[rest])
        a, _, b = fitted_ridge(rows, Ridge(Weights("learnt", np.ones(1)), strength / left, 0, {}))
        assert found[i] == pytest.approx(Y[i] - K[i, rest] @ a[0] - b, rel=1e-6)


def test_a_kernel_with_negative_eigenvalues_does_as_well_as_promised() -> None:
    x = np.random.default_rng(0).uniform(size=(400, 5))
    y = np.sin(np.pi * x[:, 0] * x[:, 1]) + 2.0 * (x[:, 2] - 0.5) ** 2 + x[:, 3]

    def capped(a: Any, b: Any) -> Any:
        return np.minimum(1.0, 2.0 * np.asarray(Gaussian(0.33).block(a, b)))

    model = MKLRegressor([capped], random_state=0).fit(x[:200], y[:200])
    error = np.mean((model.predict(x[200:]) - y[200:]) ** 2)
    assert error < 2.0 * min(model.held_out_errors_)


def test_the_model_is_weighted_ridge_regression() -> None:
    weight = RNG.uniform(0.5, 2.0, 40)
    share = weight / weight.sum()
    rows = Rows([X[:, :1] @ X[:, :1].T, X[:, 1:] @ X[:, 1:].T], np.ones(2), Y, weight)
    a, norms, b = fitted_ridge(rows, Ridge(Weights("learnt", np.array([0.75, 0.25])), 0.2, 0, {}))
    scaled = X * np.sqrt([0.75, 0.25, 0.25])
    theta = features_ridge(scaled, Y, share, 0.2)
    np.testing.assert_allclose(
        rows.grams[0] @ a[0] + rows.grams[1] @ a[1] + b, np.column_stack([scaled, np.ones(40)]) @ theta
    )
    np.testing.assert_allclose(norms, [np.sqrt(0.75) * abs(theta[0]), np.sqrt(0.25) * np.hypot(*theta[1:3])])


def test_it_is_kernel_ridge_regression_with_what_was_chosen() -> None:
    x, y = load_diabetes(return_X_y=True)
    model = MKLRegressor([Linear(), Gaussian()], random_state=0).fit(x[:200], y[:200])
    K = sum(
        w * k.block(x) / np.diagonal(k.block(x[:200])).mean()
        for w, k in zip(model.block_weights_[model.selected_], model.kernels_, strict=True)
    )
    # A large constant in the kernel is an intercept that is hardly penalised.
    peer = KernelRidge(kernel="precomputed", alpha=200 * model.penalty_.strength).fit(K[:200, :200] + 1e4, y[:200])
    np.testing.assert_allclose(model.predict(x[200:]), peer.predict(K[200:, :200] + 1e4), rtol=1e-3)
    assert model.penalty_.strength == model.strengths_[int(np.argmin(model.held_out_errors_))]
    assert model.converged_
    assert model.history_[-1]["block_weights"] == model.block_weights_.tolist()


def test_a_noiseless_line_is_learnt_although_another_kernel_fits_the_rows_too() -> None:
    y = X @ [1.0, -2.0, 0.5] + 3.0
    model = MKLRegressor(random_state=0).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) > 0.9999


def test_a_width_is_changed_if_another_is_better_unless_it_was_given(tmp_path: Path) -> None:
    x = np.linspace(0.0, 10.0, 120)[:, None]
    y = np.sin(6.0 * x[:, 0])
    model = MKLRegressor([Gaussian()], random_state=0).fit(x[::2], y[::2])
    wide = Gaussian().fitted(x[::2]).variance
    assert wide is not None
    assert model.kernels_[0].variance == pytest.approx(wide / 16.0)
    given = MKLRegressor([Gaussian(wide)], random_state=0).fit(x[::2], y[::2])
    assert given.kernels_[0].variance == wide
    assert model.score(x[1::2], y[1::2]) > given.score(x[1::2], y[1::2])
    model.save(tmp_path / "waves.spom")
    np.testing.assert_array_equal(spom.load_model(tmp_path / "waves.spom").predict(x), model.predict(x))


def test_a_smooth_function_of_the_rows_is_found_again() -> None:
    """Compare with targets drawn from a Gaussian process: its kernel should do as well as the best of all."""
    x = np.random.default_rng(0).uniform(-3.0, 3.0, (150, 1))
    y = np.random.default_rng(1).multivariate_normal(np.zeros(150), RBF(0.7)(x) + 1e-8 * np.eye(150))
    assert MKLRegressor(random_state=0).fit(x[:100], y[:100]).score(x[100:], y[100:]) > 0.99


def test_weights_equal_repetitions() -> None:
    repeated = np.repeat(np.arange(40), np.arange(40) % 3 + 1)
    one = MKLRegressor(random_state=0).fit(X, Y, sample_weight=np.arange(40) % 3 + 1)
    other = MKLRegressor(random_state=0).fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 9, 10])
def test_few_rows(rows: int) -> None:
    model = MKLRegressor(random_state=0).fit(X[:rows], Y[:rows])
    assert np.isfinite(model.predict(X)).all()
    assert (len(model.strengths_) == 0) == (rows < 10)


def test_constant_targets_and_constant_columns() -> None:
    np.testing.assert_allclose(MKLRegressor(random_state=0).fit(X, np.full(40, 7.0)).predict(X), 7.0)
    flat = MKLRegressor(random_state=0).fit(np.ones((40, 2)), Y)
    np.testing.assert_allclose(flat.predict(np.ones((3, 2))), Y.mean())


def test_single_precision_and_sparse_rows_do_as_well() -> None:
    x, y = load_diabetes(return_X_y=True)
    double = MKLRegressor([Gaussian(), Linear()], random_state=0).fit(x[:300], y[:300]).score(x[300:], y[300:])
    single = MKLRegressor([Gaussian(), Linear()], precision="single", random_state=0).fit(x[:300], y[:300])
    assert single.score(x[300:], y[300:]) == pytest.approx(double, abs=0.01)
    thin = MKLRegressor([Gaussian(), Linear()], random_state=0).fit(sparse.csr_matrix(x[:300]), y[:300])
    assert thin.score(sparse.csr_matrix(x[300:]), y[300:]) == pytest.approx(double, abs=1e-6)


def test_a_choice_is_told_in_words() -> None:
    few = Ridge(Weights("learnt", np.ones(2)), 0.01, 0, {})
    assert few.told() == "kernels as the penalty weighs them, too few rows to compare"
    grams = [Laplacian(1.0).block(X), np.zeros((40, 40))]
    found = chosen_ridge(Rows(grams, np.array([1.0, 0.0]), Y, np.ones(40)), [np.array([1.0, 0.0])], 0)
    assert found.told().startswith("kernels as the penalty weighs them, mean squared error 0.")
    assert found.told().endswith("of 40 rows left out")
