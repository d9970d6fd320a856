"""The regressor with several kernels: scikit-learn's checks, kernel ridge regression as an oracle, files, budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import spom
from spom import MKLRegressor
from spom.errors import ModelFileError
from spom.kernels import Gaussian, Linear, Nystroem, Polynomial
from spom.penalties import GroupLasso, LqMKL, SparseMKL, SquaredL2

X, Y = make_friedman1(500, 8, noise=0.5, random_state=0)
X_TEST, Y_TEST = make_friedman1(500, 8, noise=0.5, random_state=1)


@parametrize_with_checks([MKLRegressor()])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_with_one_kernel_it_is_kernel_ridge_regression() -> None:
    """Compare with kernel ridge regression; a Gaussian has a unit diagonal, and the targets are centred beforehand."""
    x, y = X[:150], Y[:150] - Y[:150].mean()
    model = MKLRegressor([Gaussian(0.5)], penalty=SquaredL2(1e-3), tol=1e-10, epochs=20000).fit(x, y)
    K = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=2))
    centred = np.eye(150) - 1.0 / 150
    a = np.linalg.solve(centred @ K @ centred + 1e-3 * 150 * np.eye(150), y)
    a = centred @ a
    fitted = K @ a + (y - K @ a).mean()
    np.testing.assert_allclose(model.predict(x), fitted, atol=1e-3)
    other = KernelRidge(kernel="rbf", gamma=1.0, alpha=0.15).fit(x, y)
    assert np.corrcoef(model.predict(X_TEST), other.predict(X_TEST))[0, 1] > 0.99


def test_defaults_beat_a_linear_model_where_the_target_is_not_linear() -> None:
    model = MKLRegressor(random_state=0).fit(X, Y)
    assert model.score(X_TEST, Y_TEST) > RidgeCV().fit(X, Y).score(X_TEST, Y_TEST) + 0.1
    assert model.score(X_TEST, Y_TEST) > SVR(C=10.0).fit(X, Y).score(X_TEST, Y_TEST) - 0.01
    assert model.block_weights_.sum() == pytest.approx(1.0)
    assert model.penalty_.strength in model.strengths_
    assert model.strengths_.index(model.penalty_.strength) == int(np.argmin(model.held_out_errors_))
    x, y = load_diabetes(return_X_y=True)
    linear = MKLRegressor(random_state=0).fit(x[:300], y[:300])
    assert linear.score(x[300:], y[300:]) > RidgeCV().fit(x[:300], y[:300]).score(x[300:], y[300:]) - 0.03


def test_units_of_targets_and_kernels_do_not_matter() -> None:
    settings = {"penalty": SparseMKL(1e-3), "tol": 1e-9}
    one = MKLRegressor(["linear", Gaussian(1.0)], **settings).fit(X[:100], Y[:100]).predict(X_TEST)

    def large(A: Any, B: Any) -> Any:
        return 1e4 * A @ B.T

    other = MKLRegressor([large, Gaussian(1.0)], **settings).fit(X[:100], 1000.0 * Y[:100] + 7.0).predict(X_TEST)
    np.testing.assert_allclose(other, 1000.0 * one + 7.0, rtol=1e-4)


def test_kernels_that_say_nothing_are_switched_off() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((200, 3))

    def own(A: Any, B: Any) -> Any:
        return A[:, :1] @ B[:, :1].T

    def other(A: Any, B: Any) -> Any:
        return A[:, 1:] @ B[:, 1:].T

    x = np.column_stack([rng.standard_normal(200), noise])
    model = MKLRegressor([own, other], random_state=0).fit(x, 3.0 * x[:, 0] + 0.01 * rng.standard_normal(200))
    assert model.block_weights_[0] > 0.99
    group = MKLRegressor([own, other], penalty=GroupLasso(0.3)).fit(x, 3.0 * x[:, 0])
    assert group.selected_.tolist() == [0]


@pytest.mark.parametrize("kernels", [None, [Linear(), Nystroem(Gaussian(1.0), 40)], ["laplacian", Polynomial(3)]])
def test_files_and_explanations(kernels: Any, tmp_path: Path) -> None:
    model = MKLRegressor(kernels, random_state=0).fit(X[:150], Y[:150])
    model.save(tmp_path / "m.spom")
    again = spom.load_model(tmp_path / "m.spom")
    np.testing.assert_array_equal(again.predict(X_TEST), model.predict(X_TEST))
    for why, value in zip(again.explain(X_TEST[:5]), model.predict(X_TEST[:5]), strict=True):
        assert why.lead == pytest.approx(value)
        assert set(why.names) <= {*map(repr, model.blocks_), "intercept"}
        assert (why.label, why.against) == (None, None)


def test_forms_of_memory_agree() -> None:
    whole = MKLRegressor([Gaussian(1.0)], penalty=SquaredL2(1e-3), tol=1e-8).fit(X[:200], Y[:200])
    rows = MKLRegressor([Gaussian(1.0)], penalty=SquaredL2(1e-3), tol=1e-8, memory="200KB").fit(X[:200], Y[:200])
    assert "computed" in rows.memory_plan_
    np.testing.assert_allclose(rows.predict(X_TEST), whole.predict(X_TEST), rtol=1e-3)
    thin = MKLRegressor(random_state=0).fit(sparse.csr_matrix(X[:100]), Y[:100])
    # Sparse data have no Laplacian kernel by default.
    dense = MKLRegressor(thin.blocks_, random_state=0).fit(X[:100], Y[:100])
    np.testing.assert_allclose(thin.predict(X_TEST), dense.predict(X_TEST), rtol=1e-6)


def test_bad_settings_and_damaged_files_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="epochs must be an integer >= 1"):
        MKLRegressor(epochs=0).fit(X, Y)
    with pytest.raises(ValueError, match="precision must be"):
        MKLRegressor(precision="half").fit(X, Y)
    model = MKLRegressor([Linear()], penalty=SquaredL2(1e-2)).fit(X, Y)
    state, arrays = model.model_state()
    state["params"] = model.get_params(deep=False)
    with pytest.raises(ModelFileError, match="do not fit the kernels"):
        MKLRegressor.from_model_state(state, {**arrays, "block_norms_": np.ones(2), "block_weights_": np.ones(2)})


def test_callbacks_see_each_step() -> None:
    seen: list[int] = []

    class Watch:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            seen.append(info["epoch"])
            return len(seen) == 3

    model = MKLRegressor([Linear()], penalty=SquaredL2(1e-6), tol=0.0, callbacks=Watch()).fit(X, Y)
    assert len(seen) == 3 == len(model.history_)


def test_the_history_ends_with_the_norms_and_weights_of_the_model() -> None:
    kernels = [Nystroem(Gaussian(0.5), 20), Linear(), Gaussian(0.5)]
    model = MKLRegressor(kernels, penalty=LqMKL(1e-3, q=1.5)).fit(X, Y)
    np.testing.assert_array_equal(model.history_[-1]["block_norms"], model.block_norms_)
    np.testing.assert_array_equal(model.history_[-1]["block_weights"], model.block_weights_)
