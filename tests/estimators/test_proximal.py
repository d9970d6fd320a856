"""The proximal estimators: scikit-learn's checks, its models as oracles, and every penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LassoCV, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import spom
from spom import penalties
from spom.errors import Unsupported
from spom.estimators.linear.proximal import ProximalClassifier, ProximalRegressor
from spom.estimators.linear.proximal_cv import ProximalClassifierCV, ProximalRegressorCV
from spom.losses import PowerHinge

RNG = np.random.default_rng(17)
N, P = 80, 12
X = RNG.standard_normal((N, P))
Y = X[:, :3] @ [2.0, -1.0, 1.0] + 0.3 * RNG.standard_normal(N) + 4.0
LABELS = np.array(["low", "high", "top"])[np.digitize(Y, np.quantile(Y, [0.4, 0.7]))]
TWO = Y > 4.0


@parametrize_with_checks(
    [
        ProximalRegressor(),
        ProximalClassifier(),
        ProximalRegressorCV(n_strengths=3, cv=2),
        ProximalClassifierCV(n_strengths=3, cv=2),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_public_names():
    assert spom.ProximalRegressor is ProximalRegressor
    assert spom.ProximalClassifierCV is ProximalClassifierCV


@pytest.mark.parametrize("solver", ["auto", "working-set", "fista", "ista"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csc_array])
def test_lasso_is_that_of_scikit_learn(solver, kind):
    weights = RNG.random(N)
    model = ProximalRegressor(penalty=penalties.L1(0.1), solver=solver, tol=1e-10)
    model.fit(kind(X), Y, sample_weight=weights)
    oracle = Lasso(alpha=0.1, tol=1e-12).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(oracle.intercept_, abs=1e-5)
    assert model.converged_
    assert model.dual_gap_ <= 1e-8
    np.testing.assert_allclose(model.predict(kind(X)), oracle.predict(X), atol=1e-4)


def test_logistic_is_that_of_scikit_learn():
    model = ProximalClassifier(penalty=penalties.SquaredL2(0.1), tol=1e-12).fit(X, TWO)
    oracle = LogisticRegression(C=1 / (0.1 * N), tol=1e-10).fit(X, TWO)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(X), atol=1e-4)
    many = ProximalClassifier(penalty=penalties.SquaredL2(0.1), tol=1e-12).fit(X, LABELS)
    oracle = LogisticRegression(C=1 / (0.1 * N), tol=1e-10).fit(X, LABELS)
    np.testing.assert_allclose(many.coef_, oracle.coef_, atol=1e-4)
    np.testing.assert_allclose(many.intercept_, oracle.intercept_ - oracle.intercept_.mean(), atol=1e-4)


TREE = [list(range(12)), [0, 1, 2], [3, 4, 5, 6], [3, 4]]
PENALTIES = [
    penalties.L1(0.05),
    penalties.ElasticNet(0.05),
    penalties.SquaredL2(0.05),
    penalties.GroupLasso(0.05, 3),
    penalties.GroupLInf(0.05, 3),
    penalties.SparseGroupLasso(0.05, 3),
    penalties.TreeGroupLasso(0.05, TREE),
    penalties.OverlappingGroupLasso(0.05, [[0, 1, 2], [2, 3, 4], [4, 5, 6, 7], [8, 9, 10, 11]]),
    penalties.SparseMKL(0.05, 3),
    penalties.L1Ball(2.0),
    penalties.Sum([penalties.L1(0.02), penalties.SquaredL2(0.02)]),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("y", [Y, TWO, LABELS], ids=["real", "two", "three"])
def test_any_penalty_ends_at_a_point_that_its_prox_step_keeps(penalty, y):
    kind = ProximalRegressor if y is Y else ProximalClassifier
    model = kind(penalty=penalty, tol=1e-8).fit(X, y)
    assert model.converged_
    assert model.score(X, y) > 0.5
    # A proximal step by hand, from the gradient by hand, does not move.
    w = model._weights()
    if y is Y:
        alpha = (model.predict(X) - Y) / N
    else:
        target = model.classes_[None, :] == np.asarray(y)[:, None]
        alpha = (model.predict_proba(X) - target) / N
        alpha = alpha[:, 1] if w.ndim == 1 else alpha
    step = 0.1
    moved = penalty.prox(np.ascontiguousarray(w - step * (X.T @ alpha)), step)
    np.testing.assert_allclose(moved, w, atol=1e-4)
    assert np.abs(alpha.sum(axis=0)).max() < 1e-5  # the intercept is not penalised


@pytest.mark.parametrize("q", [np.inf, 2])
def test_latent_groups_select_unions_of_groups(q):
    groups = [[0, 1, 2], [2, 3, 4], [4, 5, 6, 7], [8, 9, 10, 11]]
    model = ProximalRegressor(penalty=penalties.LatentGroupLasso(0.5, groups, q)).fit(X, Y)
    assert model.converged_
    assert model.dual_gap_ <= 1e-4 * Y.var()
    np.testing.assert_allclose(model.coef_[3:], 0.0, atol=1e-6)


def test_features_that_nothing_penalises():
    # No multiple of the residual is a dual point: the run ends by its residual, and says that there is no gap.
    free = ProximalRegressor(penalty=penalties.GroupLasso(0.2, [[0, 1], [2, 3]]), tol=1e-8).fit(X, Y)
    assert free.converged_
    assert np.isnan(free.dual_gap_)
    slope = X.T @ (free.predict(X) - Y) / N
    assert np.abs(slope[4:]).max() <= 1e-6
    tree = ProximalRegressor(penalty=penalties.TreeGroupLasso(0.2, [[0, 1], [0]]), tol=1e-8).fit(X, Y)
    assert tree.converged_


def test_no_penalty_is_least_squares():
    model = ProximalRegressor(penalty=penalties.Zero(), tol=1e-10).fit(X, Y)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(N)]), Y)[0]
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), exact, atol=1e-6)


def test_rows_switch_features_off_for_all_classes_at_once():
    model = ProximalClassifier(penalty=penalties.GroupLasso(0.1)).fit(X, LABELS)
    off = ~model.coef_.any(axis=0)
    assert 0 < off.sum() < P
    np.testing.assert_array_equal(np.flatnonzero(~off), model.selected_)
    assert model.block_weights_.sum() == pytest.approx(1.0)
    two = ProximalClassifier(penalty=penalties.GroupLasso(0.1)).fit(X, TWO)
    one = ProximalClassifier(penalty=penalties.L1(0.1)).fit(X, TWO)
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-4)


def test_penalties_by_name_and_grid_search():
    model = ProximalRegressor(penalty="elastic-net").fit(X, Y)
    assert 0.0 < model.penalty_.strength < 1.0  # chosen from the data
    grid = {"penalty__strength": [1.0, 0.1, 0.001]}
    search = GridSearchCV(ProximalRegressor(penalty=penalties.L1()), grid, cv=3).fit(X, Y)
    assert search.best_params_["penalty__strength"] < 1.0
    copy = clone(ProximalRegressor(penalty=penalties.L1(0.3))).set_params(penalty__strength=0.5)
    assert copy.penalty.strength == 0.5


def test_a_run_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = ProximalRegressor(penalty=penalties.L1(1e-4), solver="ista", max_iter=3).fit(X, Y)
    assert not model.converged_
    assert model.n_iter_ == 3


def test_warm_start_and_history():
    model = ProximalRegressor(penalty=penalties.L1(0.05), solver="fista", warm_start=True).fit(X, Y)
    first = model.n_iter_
    assert len(model.history_["objective"]) == first
    assert model.fit(X, Y).n_iter_ < first
    many = ProximalClassifier(penalty=penalties.L1(0.01), warm_start=True).fit(X, LABELS)
    before = many.coef_.copy()
    np.testing.assert_allclose(many.fit(X, LABELS).coef_, before, atol=1e-3)
    many.fit(X[:, :5], LABELS)  # another shape starts afresh
    assert many.coef_.shape == (3, 5)


def test_a_failed_fit_loses_nothing():
    model = ProximalClassifier().fit(X, TWO)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), TWO)
    np.testing.assert_array_equal(model.coef_, before)


def test_losses_that_are_not_smooth_are_refused_by_name():
    with pytest.raises(Unsupported, match="OnlineClassifier"):
        ProximalClassifier(loss="hinge").fit(X, TWO)
    with pytest.raises(Unsupported, match="regressors support"):
        ProximalRegressor(loss="logistic").fit(X, Y)
    model = ProximalClassifier(loss=PowerHinge(2.0), penalty=penalties.L1(0.01)).fit(X, TWO)
    assert model.score(X, TWO) > 0.9
    with pytest.raises(Unsupported, match="fista"):
        ProximalClassifier(loss=PowerHinge(2.0), solver="working-set").fit(X, TWO)


def test_class_weights_are_sample_weights():
    by_class = ProximalClassifier(class_weight={False: 1.0, True: 3.0}, tol=1e-9).fit(X, TWO)
    by_sample = ProximalClassifier(tol=1e-9).fit(X, TWO, sample_weight=np.where(TWO, 3.0, 1.0))
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, atol=1e-6)


def test_the_path_of_an_estimator():
    found = ProximalClassifier(penalty=penalties.GroupLasso()).path(X, LABELS, n_strengths=5, ratio=0.1)
    assert found.coefs.shape == (5, P, 3)
    assert not found.coefs[0].any()
    assert (np.diff([np.count_nonzero(w.any(axis=1)) for w in found.coefs]) >= 0).all()


def test_cross_validation_chooses_as_scikit_learn_does():
    ours = ProximalRegressorCV(penalty="l1", n_strengths=20, cv=4, tol=1e-8).fit(X, Y)
    theirs = LassoCV(alphas=ours.strengths_, cv=4, tol=1e-8).fit(X, Y)
    assert ours.strength_ == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(-2 * ours.cv_scores_, theirs.mse_path_, atol=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_folds_count_by_the_weight_of_their_examples():
    """Uneven sample weights: the best score is the mean over folds with the examples' weights, worked out here."""
    weight = np.where(np.arange(N) < N // 4, 25.0, 0.5)
    model = ProximalRegressorCV(strengths=[0.3, 0.05], cv=KFold(4), tol=1e-8).fit(X, Y, sample_weight=weight)
    shares = np.array([weight[test].sum() for _, test in KFold(4).split(X)]) / weight.sum()
    by_hand = [sum(s * c for s, c in zip(shares, row, strict=True)) for row in model.cv_scores_]
    assert model.best_score_ == pytest.approx(max(by_hand), rel=1e-12)
    assert abs(model.best_score_ - model.cv_scores_.mean(axis=1).max()) > 1e-3 * abs(model.best_score_)


def test_folds_are_as_many_as_a_small_class_allows():
    few = np.where(np.arange(N) < 3, "rare", LABELS)
    model = ProximalClassifierCV(n_strengths=3).fit(X, few)
    assert model.cv_scores_.shape == (3, 3)
    assert ProximalClassifierCV(n_strengths=3).fit(X, LABELS).cv_scores_.shape == (3, 5)


def test_cross_validation_with_a_scorer_and_given_strengths():
    model = ProximalClassifierCV(strengths=[1.0, 0.01], scoring="accuracy", cv=3, n_jobs=2).fit(X, LABELS)
    assert model.strength_ == 0.01
    assert model.cv_scores_.shape == (2, 3)
    assert 0.5 < model.best_score_ <= 1.0
    ridge = ProximalRegressorCV(penalty=penalties.SquaredL2(), n_strengths=5, cv=3).fit(X, Y)
    assert ridge.score(X, Y) > 0.9
    with pytest.raises(Unsupported, match="strength"):
        ProximalRegressorCV(penalty=penalties.L1Ball(1.0)).fit(X, Y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_grid_of_a_squared_norm_follows_the_units_of_the_columns(form: Any) -> None:
    one, other = (
        ProximalRegressorCV(penalty="squared-l2", n_strengths=11, cv=3).fit(form(unit * X), Y)
        for unit in (1.0, 2.0**-10)
    )
    assert other.strength_ == pytest.approx(one.strength_ * 2.0**-20)
    assert other.score(form(2.0**-10 * X), Y) == pytest.approx(one.score(form(X), Y), abs=1e-3)
