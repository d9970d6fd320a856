"""L-BFGS: against closed forms, scikit-learn, scipy and FISTA; the gap of the squared hinge with an intercept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression, Ridge

from spom import ProximalClassifier, losses, penalties
from spom.errors import Unsupported
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import certificate
from spom.solvers.batch.problem import solve
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.batch.quasi_newton import QuasiNewton
from spom.solvers.iterate import halt, last, rounds, small

RNG = np.random.default_rng(5)
N, P = 60, 8
X = RNG.standard_normal((N, P)) * np.geomspace(0.1, 10.0, P)
Y = X @ RNG.standard_normal(P) + 3.0 + RNG.standard_normal(N)
SIGNS = np.where(np.median(Y) < Y + RNG.standard_normal(N), 1.0, -1.0)
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
WEIGHTS = RNG.integers(0, 4, N).astype(float)
CASES = [
    (losses.Squared(), Y, None),
    (losses.Logistic(), SIGNS, None),
    (losses.PowerHinge(2.0), SIGNS, None),
    (losses.MulticlassLogistic(), CLASSES, 3),
    (losses.MulticlassPowerHinge(2.0), CLASSES, 3),
]


def test_ridge_has_a_closed_form() -> None:
    f = LinearSmooth(X, Y, losses.Squared(), fit_intercept=True)
    found = last(halt(halt(QuasiNewton(f, penalties.SquaredL2(0.2)), small("residual", 1e-10)), rounds(500)))
    ridge = Ridge(alpha=0.2 * N, solver="svd").fit(X, Y)
    np.testing.assert_allclose(found.theta, [*ridge.coef_, ridge.intercept_], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("loss", "y", "outputs"), CASES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimum_is_that_of_scipy(loss, y, outputs, kind, intercept) -> None:
    f = LinearSmooth(kind(X), y, loss, fit_intercept=intercept, sample_weight=WEIGHTS, outputs=outputs)

    def objective(flat):
        theta = flat.reshape(f.shape)
        w, b = theta[:P], theta[P] if intercept else 0.0
        share = WEIGHTS / WEIGHTS.sum()
        values = loss.value(y, X @ w + b)
        return float(share @ values) + 0.05 * float((w**2).sum())

    best = optimize.minimize(objective, np.zeros(f.shape).reshape(-1), method="BFGS", options={"gtol": 1e-7})
    found = solve(f, penalties.SquaredL2(0.1), solver="quasi-newton", tol=1e-9)
    assert found.converged
    assert found.objective <= best.fun + 1e-9
    np.testing.assert_allclose(found.theta.reshape(-1), best.x, atol=2e-4)


@pytest.mark.parametrize(("loss", "y", "outputs"), CASES[2:5:2])
def test_the_gap_of_the_squared_hinge_bounds_the_distance_to_the_optimum(loss, y, outputs) -> None:
    f = LinearSmooth(X, y, loss, fit_intercept=True, sample_weight=WEIGHTS, outputs=outputs)
    penalty = penalties.SquaredL2(0.1)
    best = last(halt(BatchProximal(f, penalty), rounds(20_000))).objective
    for count in (1, 5, 20, 400):
        theta = last(halt(QuasiNewton(f, penalty), rounds(count))).theta
        found = certificate(f, penalty, theta, 1.0)
        assert found.objective - best - 1e-12 <= found.gap
    assert found.gap < 1e-6


def test_auto_takes_it_for_squared_penalties_and_no_others() -> None:
    f = LinearSmooth(X, SIGNS, losses.Logistic(), fit_intercept=True)
    found = solve(f, penalties.SquaredL2(0.5), tol=1e-10)
    peer = LogisticRegression(C=1.0 / (0.5 * N), tol=1e-10, max_iter=10_000).fit(X, SIGNS)
    np.testing.assert_allclose(found.theta[:-1], peer.coef_[0], atol=1e-4)
    with pytest.raises(Unsupported, match="smooth penalty"):
        QuasiNewton(f, penalties.ElasticNet(0.5))
    with pytest.raises(ValueError, match="start must have shape"):
        last(halt(QuasiNewton(f, penalties.SquaredL2(0.5), start=np.zeros(3)), rounds(1)))


def test_a_start_from_online_passes_leads_to_the_same_optimum() -> None:
    rng = np.random.default_rng(0)
    big = sparse.random_array((1500, 40), density=0.2, rng=rng, format="csr")
    y = np.digitize(big @ rng.standard_normal(40) + 0.3 * rng.standard_normal(1500), [-0.5, 0.5])
    for loss in (losses.MulticlassLogistic(), losses.MulticlassPowerHinge(2.0)):
        model = ProximalClassifier(loss, penalties.SquaredL2(1e-3), tol=1e-8, verbose=0).fit(big, y)
        f = LinearSmooth(big, y, loss, fit_intercept=True, outputs=3)
        cold = solve(f, penalties.SquaredL2(1e-3), solver="fista", tol=1e-8)
        assert model.objective_ == pytest.approx(cold.objective, abs=1e-7)
        assert model.converged_
