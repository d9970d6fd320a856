"""The smooth part, ISTA and FISTA: against finite differences, theory, scikit-learn and a conic solver."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import Lasso

from spom import losses, penalties
from spom.core.state import State
from spom.errors import Unsupported
from spom.solvers.batch.datafit import LinearSmooth, Smooth
from spom.solvers.batch.duality import certificate
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.iterate import any_of, halt, last, rounds, small, take

RNG = np.random.default_rng(3)
N, P = 40, 12
X = RNG.standard_normal((N, P))
Y = X[:, :3] @ [1.0, -2.0, 0.5] + 0.3 * RNG.standard_normal(N) + 1.5
SIGNS = np.where(Y.mean() < Y, 1.0, -1.0)
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
WEIGHTS = RNG.integers(0, 4, N).astype(float)

CASES = [
    (losses.Squared(), Y, None),
    (losses.Logistic(), SIGNS, None),
    (losses.PowerHinge(2.0), SIGNS, None),
    (losses.MulticlassLogistic(), CLASSES, 3),
    (losses.Squared(), np.column_stack([Y, -Y, SIGNS]), None),
]


def smooth_of(loss, y, outputs, kind=np.asarray, intercept=True, weights=WEIGHTS):
    return LinearSmooth(kind(X), y, loss, fit_intercept=intercept, sample_weight=weights, outputs=outputs)


@pytest.mark.parametrize(("loss", "y", "outputs"), CASES)
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix])
def test_gradient_matches_value(loss, y, outputs, kind):
    f = smooth_of(loss, y, outputs, kind)
    assert isinstance(f, Smooth)
    theta = 0.3 * RNG.standard_normal(f.shape)
    value, g = f.value_and_gradient(theta)
    assert value == pytest.approx(f.value(theta))
    h = 1e-6
    for index in np.ndindex(*f.shape):
        d = np.zeros(f.shape)
        d[index] = h
        slope = (f.value(theta + d) - f.value(theta - d)) / (2 * h)
        assert g[index] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize(("loss", "y", "outputs"), CASES)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_lipschitz_constants_bound_differences_of_gradients(loss, y, outputs, norm):
    f = smooth_of(loss, y, outputs)
    L = f.lipschitz(norm)
    order, dual = {"l1": (1, np.inf), "l2": (2, 2), "linf": (np.inf, 1)}[norm]
    for _ in range(50):
        a, b = RNG.standard_normal(f.shape), RNG.standard_normal(f.shape)
        step = np.linalg.norm((a - b).ravel(), order)
        assert np.linalg.norm((f.gradient(a) - f.gradient(b)).ravel(), dual) <= L * step * (1 + 1e-9)


@pytest.mark.parametrize("shape", [(500, 430), (430, 500), (30, 900)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_spectral_norm_is_that_of_the_matrix(shape, kind):
    A = RNG.standard_normal(shape)
    y, s = RNG.standard_normal(shape[0]), RNG.random(shape[0])
    L = LinearSmooth(kind(A), y, losses.Squared(), sample_weight=s, fit_intercept=True).lipschitz()
    whole = np.column_stack([A, np.ones(shape[0])])
    exact = np.linalg.svd(np.sqrt(s / s.sum())[:, None] * whole, compute_uv=False)[0] ** 2
    assert exact * (1 - 1e-12) <= L <= exact * (1 + 2e-3)


def test_sample_weights_are_repetitions():
    repeated = np.repeat(np.arange(N), WEIGHTS.astype(int))
    one = smooth_of(losses.Logistic(), SIGNS, None)
    two = LinearSmooth(X[repeated], SIGNS[repeated], losses.Logistic(), fit_intercept=True)
    theta = RNG.standard_normal(P + 1)
    assert one.value(theta) == pytest.approx(two.value(theta), rel=1e-12)
    np.testing.assert_allclose(one.gradient(theta), two.gradient(theta), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_lasso_is_that_of_scikit_learn(accelerated, intercept):
    f = smooth_of(losses.Squared(), Y, None, intercept=intercept)
    solver = BatchProximal(f, penalties.L1(0.1), accelerated=accelerated)
    state = last(halt(solver, any_of(small("gap", 1e-12), rounds(20_000))))
    oracle = Lasso(alpha=0.1, fit_intercept=intercept, tol=1e-12).fit(X, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(state.theta[:P], oracle.coef_, atol=1e-6)
    if intercept:
        assert state.theta[P] == pytest.approx(oracle.intercept_, abs=1e-6)


def test_elastic_net_is_that_of_scikit_learn():
    f = smooth_of(losses.Squared(), Y, None, weights=None)
    state = last(halt(BatchProximal(f, penalties.ElasticNet(0.2, 0.3)), small("gap", 1e-13)))
    oracle = SkElasticNet(alpha=0.2, l1_ratio=0.3, tol=1e-13).fit(X, Y)
    np.testing.assert_allclose(state.theta[:P], oracle.coef_, atol=1e-6)


def conic(penalty_of, loss_of, shape, intercept=True):
    """Return the optimal value of F(w, b) by a conic solver."""
    w = cvxpy.Variable(shape)
    b = cvxpy.Variable(shape[1:] or 1) if intercept else 0.0
    problem = cvxpy.Problem(cvxpy.Minimize(loss_of(w, b) + penalty_of(w)))
    problem.solve(solver=cvxpy.CLARABEL)
    return float(problem.value)


def mean_logistic(w, b):
    return cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(SIGNS, X @ w + b))) / N


TREE = [list(range(12)), list(range(6)), [6, 7, 8], [0, 1]]
OVERLAP = [[0, 1, 2, 3], [2, 3, 4, 5], [5, 6, 7], [7, 8, 9, 10, 11]]


def group_sum(groups):
    return lambda w: 0.05 * sum(cvxpy.norm2(w[g]) for g in groups)


@pytest.mark.parametrize(
    ("penalty", "penalty_of"),
    [
        (penalties.GroupLasso(0.05, 3), group_sum([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])),
        (penalties.TreeGroupLasso(0.05, TREE), group_sum(TREE)),
        (penalties.OverlappingGroupLasso(0.05, OVERLAP), group_sum(OVERLAP)),
        (penalties.SparseMKL(0.05, 3), lambda w: 0.025 * cvxpy.square(cvxpy.mixed_norm(cvxpy.reshape(w, (4, 3), "C")))),
        (penalties.L1Ball(1.0), lambda w: 1e9 * cvxpy.pos(cvxpy.norm1(w) - 1.0)),
        (penalties.LInf(0.05), lambda w: 0.05 * cvxpy.norm_inf(w)),
    ],
)
def test_logistic_with_any_penalty_reaches_the_conic_optimum(penalty, penalty_of):
    f = smooth_of(losses.Logistic(), SIGNS, None, weights=None)
    done = any_of(small("residual", 1e-9), rounds(3000))
    state = last(halt(BatchProximal(f, penalty), done))
    optimum = conic(penalty_of, mean_logistic, (P,))
    assert state.objective == pytest.approx(optimum, abs=2e-7)
    found = certificate(f, penalty, state.theta, 1 / state.step)
    if not np.isnan(found.gap):
        assert found.gap >= state.objective - optimum - 1e-7


@pytest.mark.parametrize("penalty", [penalties.GroupLasso(0.05), penalties.GroupLInf(0.05), penalties.L1(0.02)])
def test_rows_of_several_classes_reach_the_conic_optimum(penalty):
    f = smooth_of(losses.MulticlassLogistic(), CLASSES, 3, weights=None)
    state = last(halt(BatchProximal(f, penalty), any_of(small("gap", 1e-9), rounds(5000))))
    norms = {"GroupLasso": cvxpy.norm2, "GroupLInf": cvxpy.norm_inf, "L1": cvxpy.norm1}
    norm = norms[type(penalty).__name__]

    def loss_of(w, b):
        scores = X @ w + np.ones((N, 1)) @ cvxpy.reshape(b, (1, 3), "C")
        gold = sum(scores[i, CLASSES[i]] for i in range(N))
        return (sum(cvxpy.log_sum_exp(scores[i]) for i in range(N)) - gold) / N

    optimum = conic(lambda w: penalty.strength * sum(norm(w[j]) for j in range(P)), loss_of, (P, 3))
    assert state.objective == pytest.approx(optimum, abs=1e-6)
    assert float(state.internal["gap"]) <= 1e-9


def test_the_theorems_hold_on_runs():
    f = smooth_of(losses.Squared(), Y, None, intercept=False)
    penalty = penalties.L1(0.05)
    best = last(halt(BatchProximal(f, penalty), small("gap", 1e-14)))
    L, distance = f.lipschitz(), float(best.theta @ best.theta)
    plain = BatchProximal(f, penalty, accelerated=False, backtracking=False)
    before = np.inf
    for state in take(plain, 300):
        assert state.objective <= before + 1e-12
        assert state.objective - best.objective <= L * distance / (2 * state.k) + 1e-12
        before = state.objective
    fast = BatchProximal(f, penalty, restart=False, backtracking=False)
    for state in take(fast, 300):
        assert state.objective - best.objective <= 2 * L * distance / (state.k + 1) ** 2 + 1e-12


def test_a_fixed_step_is_written_out_by_hand():
    f = smooth_of(losses.Logistic(), SIGNS, None, intercept=False)
    penalty, L = penalties.L1(0.02), f.lipschitz()
    x = y = np.zeros(P)
    t = 1.0
    for state in take(BatchProximal(f, penalty, restart=False, backtracking=False), 30):
        new = penalty.prox(y - f.gradient(y) / L, 1 / L)
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        x, y, t = new, new + (t - 1) / t_new * (new - x), t_new
        np.testing.assert_allclose(state.theta, x, atol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
def test_a_saved_state_goes_on_to_the_same_bits(tmp_path, accelerated):
    f = smooth_of(losses.Logistic(), SIGNS, None)
    penalty = penalties.GroupLasso(0.01, 3)
    whole = list(take(BatchProximal(f, penalty, accelerated=accelerated), 40))
    whole[19].save(tmp_path / "state")
    again = State.load(tmp_path / "state")
    rest = list(take(BatchProximal(f, penalty, accelerated=accelerated, start=again), 20))
    assert [s.k for s in rest] == list(range(21, 41))
    for one, two in zip(whole[20:], rest, strict=True):
        np.testing.assert_array_equal(one.theta, two.theta)
        assert one.objective == two.objective
        assert one.counters == two.counters or one.k == 21


def test_states_are_copies_and_counters_count():
    f = smooth_of(losses.Squared(), Y, None)
    states = list(take(BatchProximal(f, penalties.L1(0.1)), 5))
    assert len({s.theta.ctypes.data for s in states}) == 5
    assert states[-1].counters.gradients > 5
    assert states[-1].counters.proxes >= 5


def test_bad_input_gets_one_clear_error():
    with pytest.raises(Unsupported, match="OnlineClassifier"):
        BatchProximal(smooth_of(losses.Hinge(), SIGNS, None), penalties.L1(0.1))
    f = smooth_of(losses.Squared(), Y, None)
    with pytest.raises(ValueError, match="shape"):
        next(iter(BatchProximal(f, penalties.L1(0.1), start=np.zeros(3))))
    with pytest.raises(ValueError, match="check_every"):
        BatchProximal(f, penalties.L1(0.1), check_every=0)
    with pytest.raises(ValueError, match="entry"):
        LinearSmooth(np.full((2, 2), np.nan), np.ones(2), losses.Squared())
    with pytest.raises(ValueError, match="rows"):
        LinearSmooth(X, Y[:-1], losses.Squared())
    with pytest.raises(ValueError, match="0 rows"):
        LinearSmooth(np.zeros((0, 3)), np.zeros(0), losses.Squared())
    with pytest.raises(ValueError, match="sample_weight"):
        LinearSmooth(X, Y, losses.Squared(), sample_weight=-np.ones(N))
    huge = LinearSmooth(1e200 * X, 1e200 * Y, losses.Squared())
    with pytest.raises(ValueError, match="gradient"), np.errstate(all="ignore"):
        huge.gradient(np.full(P, 1e20))
    with pytest.raises(Unsupported, match="linf"):
        f.lipschitz("nuclear")
