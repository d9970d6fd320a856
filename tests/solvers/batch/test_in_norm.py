"""Steps in a norm for linear models with intercepts, against scikit-learn and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso, LogisticRegression

from spom import ProximalClassifier, ProximalRegressor
from spom.errors import Unsupported
from spom.losses import Logistic, MulticlassLogistic, PowerHinge, Squared
from spom.penalties import L1, GroupLasso, LatentGroupLasso
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.in_norm import InNorm, Profiled


def data(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 8))
    return X, X[:, 0] - 2.0 * X[:, 3] + 3.0 + 0.1 * rng.standard_normal(60)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), PowerHinge(2), MulticlassLogistic()])
def test_the_profile_is_the_least_over_intercepts_and_has_its_gradient(loss: Any) -> None:
    X, y = data()
    if loss.target != "real":
        y = np.where(y > 3.0, 1.0, -1.0)
    outputs = None
    if isinstance(loss, MulticlassLogistic):
        y, outputs = np.digitize(data()[1], [2.0, 4.0]), 3
    smooth = LinearSmooth(X, y, loss, fit_intercept=True, outputs=outputs)
    flat, rng = Profiled(smooth), np.random.default_rng(1)
    w = 0.3 * rng.standard_normal(flat.shape)
    theta = flat.theta(w)
    assert flat.value(w) == pytest.approx(smooth.value(theta), rel=1e-12)
    for _ in range(5):
        moved = theta.copy()
        moved[-1] = moved[-1] + 0.1 * rng.standard_normal(np.shape(theta[-1]))
        assert smooth.value(moved) >= flat.value(w) - 1e-12
    d, h = rng.standard_normal(flat.shape), 1e-5
    slope = (flat.value(w + h * d) - flat.value(w - h * d)) / (2 * h)
    assert float(flat.gradient(w) @ d) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("norm", ["l1", "linf", "l2"])
@pytest.mark.parametrize("solver", ["gpm", "accgpm"])
def test_the_lasso_with_an_intercept_is_scikit_learns(solver: str, norm: str) -> None:
    X, y = data()
    ours = ProximalRegressor(penalty=L1(0.1), solver=solver, norm=norm, tol=1e-5, scale=False).fit(X, y)
    theirs = Lasso(alpha=0.1, tol=1e-10).fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-3)
    thin = ProximalRegressor(penalty=L1(0.1), solver=solver, norm=norm, tol=1e-6, scale=False).fit(
        sparse.csr_array(X), y
    )
    np.testing.assert_allclose(thin.coef_, ours.coef_, atol=2e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_l1_logistic_regression_is_scikit_learns(classes: int) -> None:
    X, y = data()
    y = np.digitize(y, [3.0] if classes == 2 else [2.0, 4.0])
    options: dict[str, Any] = {"loss": "logistic", "penalty": L1(0.02), "scale": False, "tol": 1e-7}
    ours = ProximalClassifier(solver="accgpm", norm="l1", **options).fit(X, y)
    theirs = LogisticRegression(l1_ratio=1.0, solver="saga", C=1 / (0.02 * 60), tol=1e-6, max_iter=2000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.02)


def test_a_latent_group_lasso_in_the_l_inf_norm_is_that_of_fista() -> None:
    X, y = data()
    penalty = LatentGroupLasso(0.2, [[0, 1, 2], [2, 3, 4], [4, 5, 6, 7]])
    one, two = (
        ProximalRegressor(penalty=penalty, scale=False, tol=1e-7, **kind).fit(X, y)
        for kind in ({"solver": "accgpm", "norm": "linf"}, {"solver": "fista"})
    )
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-3)


def test_what_cannot_be_done_says_so() -> None:
    X, y = data()
    with pytest.raises(Unsupported, match="several classes takes penalties of single weights"):
        ProximalClassifier(penalty=GroupLasso(0.1), solver="gpm").fit(X, np.digitize(y, [2.0, 4.0]))
    with pytest.raises(ValueError, match="gpm"):
        ProximalRegressor(penalty=L1(0.1), solver="newton").fit(X, y)


def test_the_path_takes_the_norm() -> None:
    X, y = data()
    one = ProximalRegressor(solver="accgpm", norm="linf", tol=1e-7, scale=False).path(X, y, strengths=[0.5, 0.1])
    two = ProximalRegressor(tol=1e-7, scale=False).path(X, y, strengths=[0.5, 0.1])
    np.testing.assert_allclose(one.coefs, two.coefs, atol=1e-3)


def test_a_run_that_starts_at_the_optimum_has_a_certificate() -> None:
    smooth = LinearSmooth(np.eye(2), np.array([0.1, -0.1]), Squared())
    states = iter(InNorm(smooth, L1(1.0)))
    first, second = next(states), next(states)
    assert float(first.internal["gap"]) == pytest.approx(0.0, abs=1e-15)
    assert second.k == 2
