"""Working sets: against scikit-learn, celer, FISTA and the optimality conditions, which share no code with them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import Lasso, LogisticRegression

from spom import losses, penalties
from spom.errors import Unsupported
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.problem import solve
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.batch.working_set.blocks import blocks_of
from spom.solvers.batch.working_set.columns import extrapolation
from spom.solvers.batch.working_set.gram import best_on_ray
from spom.solvers.batch.working_set.solver import WorkingSet
from spom.solvers.batch.working_set.store import Store
from spom.solvers.iterate import any_of, halt, last, rounds, small

RNG = np.random.default_rng(11)
N, P = 60, 120
X = RNG.standard_normal((N, P)) + 0.3
X[:, 7] = 0.0  # a column of nothing
X[:, 9] = X[:, 8]  # and one that is there twice
Y = X[:, :6] @ [2.0, -1.0, 1.0, 0.5, -2.0, 1.0] + 0.5 * RNG.standard_normal(N) + 2.0
SIGNS = np.where(np.median(Y) < Y, 1.0, -1.0)
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
WEIGHTS = RNG.integers(0, 4, N).astype(float)


def run(f, penalty, tol=1e-10, limit=100, **options):
    return last(halt(WorkingSet(f, penalty, **options), any_of(small("gap", tol), rounds(limit))))


@pytest.mark.parametrize("strength", [0.5, 0.05, 0.002])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csc_array])
def test_lasso_is_that_of_scikit_learn(strength, intercept, kind):
    f = LinearSmooth(kind(X), Y, losses.Squared(), fit_intercept=intercept, sample_weight=WEIGHTS)
    state = run(f, penalties.L1(strength))
    oracle = Lasso(alpha=strength, fit_intercept=intercept, tol=1e-12, max_iter=10**6)
    oracle.fit(X, Y, sample_weight=WEIGHTS)
    assert state.internal["gap"] <= 1e-10
    np.testing.assert_allclose(X @ state.theta[:P], X @ oracle.coef_, atol=1e-3 * strength**0.5)
    value = f.value(np.append(oracle.coef_, oracle.intercept_) if intercept else oracle.coef_)
    assert state.objective <= value + strength * np.abs(oracle.coef_).sum() + 1e-10
    assert not state.theta[7]


def test_elastic_net_is_that_of_scikit_learn():
    f = LinearSmooth(X, Y, losses.Squared(), fit_intercept=True)
    state = run(f, penalties.ElasticNet(0.1, 0.7), tol=1e-13)
    oracle = SkElasticNet(alpha=0.1, l1_ratio=0.7, tol=1e-13, max_iter=10**6).fit(X, Y)
    np.testing.assert_allclose(state.theta[:P], oracle.coef_, atol=1e-5)
    assert state.theta[P] == pytest.approx(oracle.intercept_, abs=1e-5)


@pytest.mark.parametrize("strength", [0.05, 0.005])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_l1_logistic_is_that_of_scikit_learn(strength, kind):
    f = LinearSmooth(kind(X), SIGNS, losses.Logistic())
    state = run(f, penalties.L1(strength))
    oracle = LogisticRegression(C=1 / (N * strength), l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        coef = oracle.fit(X, SIGNS).coef_[0]
    # How far rounding lets the gap of the logistic loss fall differs between machines: 1e-11 to 2e-10 were seen.
    assert state.internal["gap"] <= 1e-9
    assert state.objective <= f.value(coef) + strength * np.abs(coef).sum() + 1e-9
    assert state.objective >= f.value(coef) + strength * np.abs(coef).sum() - 1e-5


def violation_by_hand(f, penalty, theta, groups, weights, l1):
    """Return the largest violation of the optimality conditions of the sparse group lasso, written out."""
    g, worst = f.gradient(theta), 0.0
    for members, weight in zip(groups, weights, strict=True):
        w, s = theta[members], g[members]
        norm = np.linalg.norm(w)
        if norm == 0:
            kept = np.maximum(np.abs(s) - l1, 0.0)
            worst = max(worst, np.linalg.norm(kept) - weight)
        else:
            slope = s + weight * w / norm
            kept = np.where(w != 0, slope + l1 * np.sign(w), np.maximum(np.abs(slope) - l1, 0.0))
            worst = max(worst, np.linalg.norm(kept))
    return worst


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Logistic()])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
@pytest.mark.parametrize("intercept", [True, False])
def test_groups_meet_the_optimality_conditions(loss, kind, l1_ratio, intercept):
    y = Y if loss.target == "real" else SIGNS
    members = [np.array(m) for m in np.array_split(RNG.permutation(P - 5), 30)]  # five in no group
    weights = RNG.random(30) + 0.5
    strength = 0.03
    penalty = (
        penalties.SparseGroupLasso(strength, members, l1_ratio, weights)
        if l1_ratio
        else penalties.GroupLasso(strength, members, weights)
    )
    f = LinearSmooth(kind(X), y, loss, fit_intercept=intercept, sample_weight=WEIGHTS)
    state = last(halt(WorkingSet(f, penalty), any_of(small("residual", 1e-9), rounds(100))))
    groups = [*members, *([j] for j in range(P - 5, P)), *([[P]] if intercept else [])]
    l1 = strength * l1_ratio
    by_group = [*(strength * (1 - l1_ratio) * weights), *[0.0] * 5]
    assert violation_by_hand(f, penalty, state.theta, groups[: len(by_group)], by_group, l1) <= 1e-8
    if intercept:
        assert abs(f.gradient(state.theta)[P]) <= 1e-8
    assert 0 < np.count_nonzero(state.theta) < P


def test_group_lasso_is_that_of_celer():
    celer = pytest.importorskip("celer")
    f = LinearSmooth(X, Y, losses.Squared())
    state = run(f, penalties.GroupLasso(0.1, 10), tol=1e-12)
    oracle = celer.GroupLasso(groups=10, alpha=0.1, fit_intercept=False, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(state.theta, oracle.coef_, atol=1e-5)


def test_wide_dense_sets_go_through_the_columns():
    n, p = 30, 2000
    A = RNG.standard_normal((n, p))
    y = A[:, :5].sum(axis=1)
    f = LinearSmooth(A, y, losses.Squared())
    state = run(f, penalties.GroupLasso(1e-2, 40), first=30)  # 1200 coordinates at once: no Gram matrix
    # The duality gap of the group lasso, written out.
    residual = (y - A @ state.theta) / n
    norms = np.linalg.norm((A.T @ residual).reshape(-1, 40), axis=1)
    dual = residual * min(1.0, 1e-2 / norms.max())
    primal = n / 2 * residual @ residual + 1e-2 * np.linalg.norm(state.theta.reshape(-1, 40), axis=1).sum()
    assert primal - (dual @ y - n / 2 * dual @ dual) <= 2e-10


def test_sparse_text_like_data_logistic():
    n, p = 3000, 3000
    A = sparse.random_array((n, p), density=0.004, rng=RNG, format="csr", data_sampler=lambda size: np.ones(size))
    y = np.where(A @ RNG.standard_normal(p) + 0.5 * RNG.standard_normal(n) > 0, 1.0, -1.0)
    for intercept in (False, True):
        f = LinearSmooth(A, y, losses.Logistic(), fit_intercept=intercept)
        state = run(f, penalties.L1(5e-4), tol=1e-8, limit=50)
        assert state.internal["gap"] <= 1e-8
        fista = BatchProximal(f, penalties.L1(5e-4), start=state.theta)
        assert last(halt(fista, rounds(20))).objective >= state.objective - 1e-8


def test_sparse_arrays_of_the_user_are_left_alone():
    rows, columns = RNG.integers(0, 3000, 9000), RNG.integers(0, 2500, 9000)
    A = sparse.coo_matrix((np.ones(9000), (rows, columns)), shape=(3000, 2500)).tocsc()
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    y = np.where(np.arange(3000) % 2, 1.0, -1.0)
    for array in (A.data, A.indices, A.indptr):
        array.flags.writeable = False
    before = A.copy()
    state = run(LinearSmooth(A, y, losses.Logistic()), penalties.L1(2e-4), tol=1e-6)
    assert state.internal["gap"] <= 1e-6
    assert (before != A).nnz == 0


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "penalty",
    [
        penalties.GroupLasso(0.03, "rows"),
        penalties.L1(0.02),
        penalties.ElasticNet(0.03, 0.5),
        penalties.SparseGroupLasso(0.03, "rows", 0.3),
    ],
)
def test_rows_of_several_classes_agree_with_fista(penalty, kind, size):
    A = X[:, :20] if size == "small" else np.hstack([X, X[:, ::-1] ** 2])
    for intercept in (False, True):
        f = LinearSmooth(kind(A), CLASSES, losses.MulticlassLogistic(), fit_intercept=intercept, outputs=3)
        state = run(f, penalty, tol=1e-9, limit=200)
        assert state.internal["gap"] <= 1e-9
        slow = last(halt(BatchProximal(f, penalty), any_of(small("gap", 1e-5), rounds(200))))
        assert state.objective <= slow.objective + 1e-9
        if slow.internal["gap"] <= 1e-5:
            assert state.objective >= slow.objective - 1e-5


def test_rows_of_several_targets_agree_with_one_at_a_time():
    two = np.column_stack([Y, -2 * Y + X[:, 11]])
    f = LinearSmooth(X, two, losses.Squared(), fit_intercept=True)
    state = run(f, penalties.L1(0.1), tol=1e-11)
    for k in range(2):
        one = run(LinearSmooth(X, two[:, k], losses.Squared(), fit_intercept=True), penalties.L1(0.1), tol=1e-12)
        np.testing.assert_allclose(X @ state.theta[:P, k], X @ one.theta[:P], atol=1e-4)


def test_many_rows_use_a_set():
    n, p = 50, 1700  # above the size at which all rows are taken
    A = RNG.standard_normal((n, p))
    y = (A[:, 0] > 0).astype(int) + (A[:, 1] > 0)
    f = LinearSmooth(A, y, losses.MulticlassLogistic(), fit_intercept=True, outputs=3)
    state = run(f, penalties.GroupLasso(0.05, "rows"), tol=1e-7, limit=300)
    assert state.internal["gap"] <= 1e-7
    assert state.theta[:p].any(axis=1).sum() < 60


def test_a_warm_start_is_done_at_once_and_a_run_repeats_to_the_bit():
    f = LinearSmooth(X, Y, losses.Squared(), fit_intercept=True)
    state = run(f, penalties.L1(0.05))
    again = run(f, penalties.L1(0.05))
    np.testing.assert_array_equal(state.theta, again.theta)
    warm = run(f, penalties.L1(0.05), start=state.theta)
    assert warm.k == 0


def test_it_ends_by_itself_at_rounding():
    f = LinearSmooth(X, Y, losses.Squared())
    states = list(WorkingSet(f, penalties.L1(0.05)))
    assert states[-1].internal["residual"] <= 1e-13


def test_degenerate_data():
    nothing = solve(LinearSmooth(np.zeros((5, 3)), np.ones(5), losses.Squared(), fit_intercept=True), penalties.L1(0.1))
    assert nothing.converged
    np.testing.assert_allclose(nothing.theta, [0, 0, 0, 1])
    one = solve(LinearSmooth(np.ones((1, 1)), np.array([3.0]), losses.Squared()), penalties.L1(1.0))
    np.testing.assert_allclose(one.theta, [2.0])
    free = solve(LinearSmooth(X[:, :5], Y, losses.Squared()), penalties.L1(0.0), tol=1e-12)
    np.testing.assert_allclose(free.theta, np.linalg.lstsq(X[:, :5], Y)[0], atol=1e-5)
    none = solve(
        LinearSmooth(np.zeros((4, 0)), np.arange(4.0), losses.Squared(), fit_intercept=True), penalties.L1(0.1)
    )
    np.testing.assert_allclose(none.theta, [1.5])


def test_what_does_not_fit_says_what_does():
    f = LinearSmooth(X, Y, losses.Squared())
    with pytest.raises(Unsupported, match="GroupLasso"):
        WorkingSet(f, penalties.LInf(0.1))
    with pytest.raises(Unsupported, match="fista"):
        WorkingSet(LinearSmooth(X, SIGNS, losses.PowerHinge(2.0)), penalties.L1(0.1))
    classes = LinearSmooth(X, CLASSES, losses.MulticlassLogistic(), outputs=3)
    with pytest.raises(Unsupported, match="rows"):
        WorkingSet(classes, penalties.GroupLasso(0.1, 2))
    with pytest.raises(ValueError, match="shape"):
        WorkingSet(f, penalties.L1(0.1), start=np.zeros(2))
    with pytest.raises(ValueError, match="solver"):
        solve(f, penalties.L1(0.1), solver="newton")
    with pytest.raises(ValueError, match="max_iter"):
        solve(f, penalties.L1(0.1), max_iter=0)


def test_the_best_point_on_a_ray_is_that_of_a_search():
    for _ in range(50):
        s = 8
        A = RNG.standard_normal((s, s))
        Q = A @ A.T
        at, b, l1 = RNG.standard_normal(s), RNG.standard_normal(s), np.abs(RNG.standard_normal(s))
        g = Q @ at - b
        step = -np.linalg.solve(Q + np.eye(s), g + l1 * np.sign(at))

        def value(t, at=at, step=step, Q=Q, b=b, l1=l1):
            w = at + t * step
            return 0.5 * w @ Q @ w - b @ w + l1 @ np.abs(w)

        t = best_on_ray(at, step, g, float(step @ Q @ step), l1)
        times = np.linspace(0, max(2.0, 2 * t), 401)
        assert value(t) <= min(value(x) for x in times) + 1e-9


def test_a_direction_that_changes_no_score_is_followed_to_the_best_crossing():
    """Follow equal columns, whose weights only need a large enough sum; rounding may make the curvature negative."""
    at, step, l1 = np.array([0.5, 2.0, 1.0]), np.array([-1.0, -1.0, 2.0]), np.array([1.0, 1.0, 0.5])
    for curvature in (0.0, -1e-12):
        # The l1 norm falls by 1 per unit until the first entry is zero, and grows by 1 per unit after that.
        assert best_on_ray(at, step, np.zeros(3), curvature, l1) == 0.5
        # Nothing to gain, or no end: the ray is not taken.
        assert best_on_ray(at, -step, np.zeros(3), curvature, l1) == 0.0
        assert best_on_ray(at, step, np.array([0.0, 0.0, -9.0]), curvature, 0.0 * l1) == 0.0


@pytest.mark.parametrize("seed", [6, 22, 45])
def test_more_columns_in_use_than_distinct_rows_is_no_place_to_stop(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.random((8, 20)).repeat(3, axis=0), rng.integers(0, 3, 24).astype(float)
    f = LinearSmooth(X, y, losses.Squared(), fit_intercept=True)
    start = np.append(rng.standard_normal(14), np.zeros(7))
    found = solve(f, penalties.L1(1e-4), solver="working-set", tol=1e-12, max_iter=100, start=start)
    assert found.gap < 1e-13


def test_extrapolation_solves_a_linear_iteration():
    M = 0.3 * RNG.standard_normal((4, 4))
    fixed, x, seen = RNG.standard_normal(4), np.zeros(4), [np.zeros(4)]
    for _ in range(5):
        x = fixed + M @ (x - fixed)
        seen.append(x)
    c = extrapolation(np.array(seen))
    assert c is not None
    np.testing.assert_allclose(c @ np.array(seen)[1:], fixed, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_store_gives_columns_gram_and_constants_in_any_order(intercept):
    rng = np.random.default_rng(3)
    X, weight = rng.standard_normal((12, 8)), rng.random(12)
    f = LinearSmooth(X, rng.standard_normal(12), losses.Squared(), fit_intercept=intercept, sample_weight=weight)
    A = np.column_stack([X, np.ones(12)]) if intercept else X
    exact = A.T @ (f.weights[:, None] * A)
    store = Store(f)
    for order in ([5, 2], [2, 7, 0], [1, 5, A.shape[1] - 1, 3]):
        at = np.array(order)
        columns = store.columns(at[::-1].copy())
        np.testing.assert_array_equal(columns.rows[columns.at], A[:, at[::-1]].T)
        np.testing.assert_allclose(store.gram(at), exact[np.ix_(at, at)], rtol=1e-12, atol=1e-14)
    blocks = blocks_of(penalties.GroupLasso(1.0, 2), 8)
    chosen = np.array([3, 1])
    expected = [np.linalg.eigvalsh(exact[2 * b : 2 * b + 2, 2 * b : 2 * b + 2])[-1] for b in chosen]
    for _ in range(2):
        np.testing.assert_allclose(store.constants(chosen, blocks.restrict(chosen), blocks.count), expected)


def test_the_last_point_is_found_again_and_another_one_is_not():
    f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), losses.Squared())
    theta = np.array([1.0, 0.0, 2.0])
    here = f.at(theta)
    assert f.at(theta.copy()) is here
    theta[1] = 5.0
    assert f.at(theta) is not here
    np.testing.assert_array_equal(f.at(theta).gradient, f.gradient(theta))
