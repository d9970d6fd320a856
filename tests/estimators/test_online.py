"""OnlineClassifier and OnlineRegressor as scikit-learn sees them, and what they learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import check_estimator

from spom import OnlineClassifier, OnlineRegressor
from spom.mirror import PNorm
from spom.penalties import L1, ElasticNet, GroupLasso, SquaredL2

CANCER = scale(load_breast_cancer().data), load_breast_cancer().target
IRIS = scale(load_iris().data), load_iris().target_names[load_iris().target]
DIABETES = scale(load_diabetes().data), load_diabetes().target


@pytest.mark.parametrize(
    "estimator",
    [OnlineClassifier(), OnlineRegressor(), OnlineClassifier(loss="hinge")],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_nothing_wrong(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed
    # The one check that may be skipped asks for another array library.
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


def test_reaches_the_optimum_of_l1_logistic_regression():
    X, y = CANCER
    strength = 0.01
    ours = OnlineClassifier(penalty=L1(strength), epochs=200, tol=None, random_state=0).fit(X, y)
    peer = LogisticRegression(
        l1_ratio=1.0, C=1 / (strength * len(y)), solver="saga", tol=1e-8, max_iter=20000, random_state=0
    ).fit(X, y)

    def objective(coef, intercept):
        margin = np.where(y == 1, 1, -1) * (X @ coef.ravel() + intercept)
        return np.logaddexp(0, -margin).mean() + strength * np.abs(coef).sum()

    assert objective(ours.coef_, ours.intercept_) <= objective(peer.coef_, peer.intercept_) * (1 + 1e-4)
    assert set(ours.selected_) == set(np.flatnonzero(peer.coef_))
    assert 0 < len(ours.selected_) < X.shape[1]


@pytest.mark.parametrize("loss", ["logistic", "hinge", "power-hinge"])
def test_binary_and_multiclass(loss):
    for X, y in (CANCER, IRIS):
        model = OnlineClassifier(loss=loss, epochs=50, random_state=0).fit(X, y)
        rows = 1 if len(np.unique(y)) == 2 else len(np.unique(y))
        assert model.coef_.shape == (rows, X.shape[1])
        assert model.intercept_.shape == (rows,)
        assert model.decision_function(X).shape == ((len(y),) if rows == 1 else (len(y), rows))
        assert model.score(X, y) > 0.93
        assert hasattr(model, "predict_proba") == (loss == "logistic")


def test_probabilities():
    for X, y in (CANCER, IRIS):
        model = OnlineClassifier(random_state=0).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert (model.classes_[p.argmax(axis=1)] == model.predict(X)).all()
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-10, atol=1e-300)


def test_rows_of_several_classes_are_tied():
    X, y = IRIS
    rng = np.random.default_rng(0)
    X = np.hstack([X, rng.normal(size=(len(X), 20))])
    penalty = GroupLasso(0.05, groups="rows")
    model = OnlineClassifier(penalty=penalty, update="dual-averaging", epochs=30, random_state=0).fit(X, y)
    rows = np.count_nonzero(model.coef_, axis=0)
    assert set(rows) <= {0, 3}  # a feature is used by all classes or by none
    assert 0 < (rows > 0).sum() < 12
    np.testing.assert_array_equal(model.selected_, np.flatnonzero(rows))
    assert len(model.blocks_) == X.shape[1]
    assert model.block_weights_.sum() == pytest.approx(1.0)


def test_groups_of_features():
    X, y = CANCER
    groups = [[0, 1, 2], [3, 4], list(range(5, 30))]
    model = OnlineClassifier(penalty=GroupLasso(0.02, groups), epochs=30, random_state=0).fit(X, y)
    assert [block.tolist() for block in model.blocks_] == groups
    norms = np.array([np.linalg.norm(model.coef_[0, g]) for g in groups])
    np.testing.assert_allclose(model.block_weights_, norms / norms.sum())
    np.testing.assert_array_equal(model.selected_, np.flatnonzero(norms))


def test_the_intercept_is_not_penalised():
    X, y = DIABETES
    model = OnlineRegressor(penalty=L1(1e6), epochs=50, random_state=0).fit(X, y)
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(y.mean(), rel=1e-3)
    assert model.block_weights_.sum() == 0.0
    assert OnlineRegressor(fit_intercept=False, random_state=0).fit(X, y).intercept_ == 0.0


def test_regression():
    X, y = DIABETES
    model = OnlineRegressor(penalty=L1(1.0), epochs=100, tol=None, random_state=0).fit(X, y)
    assert model.coef_.shape == (10,)
    assert isinstance(model.intercept_, float)
    assert model.score(X, y) > 0.5
    robust = OnlineRegressor(loss="power-absolute", penalty="squared-l2", epochs=20, random_state=0)
    assert robust.fit(X, y / y.std()).score(X, y / y.std()) > 0.4
    assert robust.penalty_.strength > 0.0  # a name alone: chosen from the data


def test_the_same_seed_gives_the_same_bits_and_sparse_is_dense():
    X, y = CANCER
    first = OnlineClassifier(random_state=3).fit(X, y)
    assert (OnlineClassifier(random_state=3).fit(X, y).coef_ == first.coef_).all()
    thin = X * (np.abs(X) > 1.0)
    for container in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        a = OnlineClassifier(penalty=L1(1e-4), random_state=3, epochs=3).fit(container(thin), y)
        b = OnlineClassifier(penalty=L1(1e-4), random_state=3, epochs=3).fit(thin, y)
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-7, atol=1e-9)


def test_csr_comes_in_without_a_copy():
    from spom.estimators.checking import check_data

    X = sparse.random(2000, 50, density=0.1, format="csr", random_state=0)
    checked = check_data(OnlineClassifier(), X, reset=True)
    assert np.shares_memory(checked.data, X.data)
    assert np.shares_memory(checked.indices, X.indices)
    dense = np.ascontiguousarray(X.toarray())
    assert np.shares_memory(check_data(OnlineClassifier(), dense, reset=True), dense)


def test_order_and_repetition_do_not_matter_in_small_data():
    X, y = IRIS
    rng = np.random.default_rng(0)
    times = rng.integers(0, 4, len(y))
    weighted = OnlineClassifier(random_state=0).fit(X, y, sample_weight=times)
    order = rng.permutation(times.sum())
    repeated = OnlineClassifier(random_state=0).fit(X.repeat(times, axis=0)[order], y.repeat(times)[order])
    assert (weighted.coef_ == repeated.coef_).all()


def test_sample_and_class_weights():
    X, y = CANCER
    half = np.where(y == 1, 2.0, 1.0)
    a = OnlineClassifier(random_state=0).fit(X, y, sample_weight=half)
    b = OnlineClassifier(random_state=0, class_weight={0: 1.0, 1: 2.0}).fit(X, y)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-10)
    rare = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:10]]
    plain = OnlineClassifier(penalty=L1(0.1), random_state=0).fit(X[rare], y[rare])
    balanced = OnlineClassifier(penalty=L1(0.1), class_weight="balanced", random_state=0).fit(X[rare], y[rare])
    assert (balanced.predict(X) == 0).sum() > (plain.predict(X) == 0).sum()


def test_sparsify_and_densify():
    for model, (X, y) in ((OnlineClassifier(), IRIS), (OnlineRegressor(), DIABETES)):
        model.fit(X, y)
        before, coef = model._scores(X), model.coef_
        assert sparse.issparse(model.sparsify().coef_)
        np.testing.assert_allclose(model._scores(X), before, rtol=1e-10, atol=1e-10)
        assert model.selected_.size
        np.testing.assert_array_equal(model.densify().coef_, coef)
        np.testing.assert_allclose(model._scores(sparse.csr_matrix(X)), before, rtol=1e-10, atol=1e-10)


def test_frames_and_feature_names():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = CANCER
    names = [str(name) for name in load_breast_cancer().feature_names]
    plain = OnlineClassifier(random_state=0).fit(X, y)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = OnlineClassifier(random_state=0).fit(frame, y)
        assert (model.coef_ == plain.coef_).all()
        assert model.feature_names_in_.tolist() == names
        assert (model.predict(frame) == plain.predict(X)).all()
    wrong = pd.DataFrame(X, columns=[f"x{j}" for j in range(30)])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(wrong)
    series = OnlineClassifier(random_state=0).fit(pd.DataFrame(X, columns=names), pd.Series(y))
    assert (series.coef_ == plain.coef_).all()


def test_pipelines_grids_clones_and_pickles():
    X, y = CANCER
    pipe = make_pipeline(StandardScaler(), OnlineClassifier(penalty=L1(1e-3), random_state=0))
    pipe.set_output(transform="pandas")
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.95
    grid = GridSearchCV(
        pipe, {"onlineclassifier__penalty__strength": [1e-4, 1e-1], "onlineclassifier__loss": ["hinge"]}, cv=2, n_jobs=2
    ).fit(X, y)
    assert grid.best_score_ > 0.93
    assert grid.best_estimator_[-1].penalty.strength == grid.best_params_["onlineclassifier__penalty__strength"]
    model = OnlineClassifier(penalty=ElasticNet(0.1, 0.3), mirror=None)
    copy = clone(model)
    assert copy.penalty is not model.penalty
    assert copy.get_params()["penalty__l1_ratio"] == 0.3
    assert copy.set_params(penalty__strength=2.0).penalty.strength == 2.0
    assert model.penalty.strength == 0.1
    fitted = OnlineClassifier(random_state=0).fit(X, y)
    assert (pickle.loads(pickle.dumps(fitted)).predict(X) == fitted.predict(X)).all()


def test_early_stopping():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    y = np.sign(X[:, 0] + 2.0 * rng.normal(size=300))
    late = OnlineClassifier(penalty=SquaredL2(1e-6), epochs=100, tol=None, random_state=0).fit(X, y)
    early = OnlineClassifier(
        penalty=SquaredL2(1e-6), epochs=100, early_stopping=True, validation_fraction=0.2, random_state=0
    ).fit(X, y)
    assert early.converged_
    assert len(early.history_) < len(late.history_) == 100
    fresh = rng.normal(size=(2000, 200))
    target = np.sign(fresh[:, 0])
    assert early.score(fresh, target) >= late.score(fresh, target)


def test_history_and_convergence():
    X, y = CANCER
    model = OnlineClassifier(epochs=7, tol=None, random_state=0).fit(X, y)
    assert len(model.history_) == 7
    assert not model.converged_
    assert np.isfinite(model.history_.loss).all()
    assert model.history_.nnz[-1] == np.count_nonzero(model.coef_) + 1
    stopped = OnlineClassifier(epochs=1000, tol=1e-4, random_state=0).fit(X, y)
    assert stopped.converged_
    assert 3 < len(stopped.history_) < 1000
    assert stopped.history_.objective[-1] < stopped.history_.objective[0]


def test_warm_start_goes_on():
    X, y = CANCER
    model = OnlineClassifier(epochs=1, warm_start=True, batch_size=1, step=0.01, tol=None, random_state=0)
    losses = [model.fit(X, y).history_.loss[-1] for _ in range(5)]
    assert losses[-1] < 0.7 * losses[0]
    assert losses == sorted(losses, reverse=True)
    cold = OnlineClassifier(epochs=1, step=0.01, tol=None, random_state=0)
    assert cold.fit(X, y).history_.loss == cold.fit(X, y).history_.loss
    with pytest.raises(ValueError, match="warm_start needs the same features"):
        model.fit(X[:, :5], y)


def test_mirror_steps_and_updates():
    X, y = CANCER
    for parameters in (
        {"mirror": PNorm(), "step": 0.05},
        {"mirror": "p-norm", "step": "sqrt"},
        {"step": "adagrad"},
        {"update": "dual-averaging"},
        {"projection": 5.0, "step": 0.05},
        {"output": "average", "step": 0.05},
        {"batch_size": 16, "step": 0.1},
        {"n_jobs": 2},
    ):
        model = OnlineClassifier(**parameters, epochs=20, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.93, parameters
        assert (clone(model).fit(X, y).coef_ == model.coef_).all()
    assert np.linalg.norm(OnlineClassifier(projection=0.5, step=0.1, random_state=0).fit(X, y).coef_) <= 0.5 + 1e-9
