"""Paths and safe screening: against scikit-learn's paths, and against the optimum that screening must not cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import enet_path, lasso_path

from spom import losses, penalties
from spom.errors import Unsupported
from spom.penalties.base import with_strength
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.path import check_grid, gap_safe, path, strength_grid
from spom.solvers.batch.problem import constant_point, solve

RNG = np.random.default_rng(5)
N, P = 50, 80
X = RNG.standard_normal((N, P))
Y = X[:, :4] @ [3.0, -2.0, 1.0, 1.0] + 0.2 * RNG.standard_normal(N)
SIGNS = np.where(Y > 0.3, 1.0, -1.0)
CLASSES = np.digitize(Y, [-1.0, 2.0])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("screen", [True, False])
def test_the_lasso_path_is_that_of_scikit_learn(kind, screen):
    f = LinearSmooth(kind(X), Y, losses.Squared())
    found = path(f, penalties.L1(), n_strengths=20, ratio=1e-2, tol=1e-9, screen=screen)
    alphas, coefs, _ = lasso_path(X, Y, alphas=found.strengths, tol=1e-12, max_iter=10**5)
    np.testing.assert_allclose(found.strengths, alphas)
    np.testing.assert_allclose(found.coefs, coefs.T, atol=1e-4)
    assert found.converged.all()
    assert not found.coefs[0].any()
    assert found.coefs[1].any()
    assert (found.screened > 0).any() == screen


def test_the_elastic_net_path_is_that_of_scikit_learn():
    f = LinearSmooth(X, Y, losses.Squared())
    found = path(f, penalties.ElasticNet(1.0, 0.6), n_strengths=10, ratio=1e-2, tol=1e-10)
    _, coefs, _ = enet_path(X, Y, alphas=found.strengths, l1_ratio=0.6, tol=1e-12, max_iter=10**5)
    np.testing.assert_allclose(found.coefs, coefs.T, atol=1e-4)


CASES = [
    (losses.Squared(), Y, None, penalties.L1()),
    (losses.Squared(), Y, None, penalties.ElasticNet(1.0, 0.5)),
    (losses.Squared(), Y, None, penalties.GroupLasso(1.0, 4)),
    (losses.Logistic(), SIGNS, None, penalties.L1()),
    (losses.Logistic(), SIGNS, None, penalties.SparseGroupLasso(1.0, 4, 0.3)),
    (losses.Logistic(), SIGNS, None, penalties.GroupLasso(1.0, 4, weights=RNG.random(20) + 0.5)),
    (losses.MulticlassLogistic(), CLASSES, 3, penalties.GroupLasso(1.0, "rows")),
    (losses.MulticlassLogistic(), CLASSES, 3, penalties.L1()),
]


@pytest.mark.parametrize(("loss", "y", "outputs", "penalty"), CASES)
@pytest.mark.parametrize("intercept", [True, False])
def test_screening_cuts_no_feature_of_the_optimum(loss, y, outputs, penalty, intercept):
    f = LinearSmooth(X, y, loss, fit_intercept=intercept, outputs=outputs)
    top = strength_grid(f, penalty, 1)[0]
    cut = 0
    for part in (0.9, 0.5, 0.2):
        here = with_strength(penalty, part * top)
        best = solve(f, here, tol=1e-10)
        for theta in (np.zeros(f.shape), 0.9 * best.theta, best.theta):
            off = gap_safe(f, here, theta)
            assert not best.theta[:P][off].any()
            cut += off.sum()
    assert cut > 0


@pytest.mark.parametrize(("loss", "y", "outputs", "penalty"), CASES)
def test_the_first_strength_is_the_smallest_that_gives_zero(loss, y, outputs, penalty):
    f = LinearSmooth(X, y, loss, fit_intercept=True, outputs=outputs)
    top = strength_grid(f, penalty, 1)[0]
    assert not solve(f, with_strength(penalty, 1.0001 * top), tol=1e-9).theta[:P].any()
    assert solve(f, with_strength(penalty, 0.99 * top), tol=1e-9).theta[:P].any()


def test_screened_problems_are_put_back_in_place():
    f = LinearSmooth(X, SIGNS, losses.Logistic(), fit_intercept=True)
    penalty = penalties.GroupLasso(
        1.0, [[0, 5, 9], [1, 2, 4, 6, 7, 8], [3], list(range(10, 80))], weights=[1.0, 2.0, 1.0, 3.0]
    )
    one = path(f, penalty, n_strengths=8, ratio=0.05, tol=1e-9)
    two = path(f, penalty, n_strengths=8, ratio=0.05, tol=1e-9, screen=False)
    np.testing.assert_allclose(one.coefs, two.coefs, atol=1e-3)
    np.testing.assert_allclose(one.objectives, two.objectives, atol=1e-8)


def test_kept_features_keep_their_groups_and_weights():
    penalty = penalties.GroupLasso(2.0, [[0, 3], [1, 4], [2]], weights=[1.0, 2.0, 3.0])
    kept = np.array([1, 3, 4])
    part = penalty.restrict(kept, 5)
    w = np.array([0.0, 1.0, 0.0, -2.0, 3.0])
    assert part.value(w[kept]) == pytest.approx(penalty.value(w))


def test_the_best_constant_has_no_slope():
    for loss, y, outputs in [(losses.Logistic(), SIGNS, None), (losses.MulticlassLogistic(), CLASSES, 3)]:
        f = LinearSmooth(X, y, loss, fit_intercept=True, outputs=outputs, sample_weight=RNG.random(N))
        assert np.abs(constant_point(f).alpha.sum(axis=0)).max() <= 1e-14
    hinge = LinearSmooth(X, SIGNS, losses.PowerHinge(2.0), fit_intercept=True)
    assert abs(constant_point(hinge).alpha.sum()) <= 1e-9


def test_grids_are_checked():
    f = LinearSmooth(X, Y, losses.Squared())
    np.testing.assert_array_equal(check_grid([0.1, 1.0]), [1.0, 0.1])
    with pytest.raises(ValueError, match="strengths"):
        check_grid([])
    with pytest.raises(ValueError, match="strengths"):
        check_grid([-1.0])
    with pytest.raises(ValueError, match="ratio"):
        strength_grid(f, penalties.L1(), 3, 0.0)
    with pytest.raises(ValueError, match="n_strengths"):
        strength_grid(f, penalties.L1(), 0)
    with pytest.raises(Unsupported, match="strengths="):
        strength_grid(f, penalties.SquaredL2())
    with pytest.raises(Unsupported, match="no strength"):
        strength_grid(f, penalties.L1Ball(1.0))
