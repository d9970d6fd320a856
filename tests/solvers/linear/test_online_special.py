"""The special cases that the papers name, step by step, against loops of a few lines that share no code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from spom.core.state import State
from spom.errors import Unsupported
from spom.penalties import L1, ElasticNet, GroupLasso, L2Ball, SparseMKL, SquaredL1, SquaredL2, Sum, Zero
from spom.solvers import Pegasos, Subgradient, VarianceReduced, steps
from spom.solvers.iterate import last
from spom.solvers.linear.online import OnlineProximal

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 6)) * (RNG.random((40, 6)) < 0.6)
Y = np.sign(X @ RNG.standard_normal(6) + 0.2)
SOFT = lambda w, t: np.sign(w) * np.maximum(np.abs(w) - t, 0)  # noqa: E731  # a formula
SIGMOID = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731  # a formula


def thetas(**options):
    return [s.theta for s in OnlineProximal(X, Y, shuffle=False, every=1, **options)]


def loop(update, w=None):
    """w after each round, from `update(t, w, x, y)`, t from 1."""
    w, found = np.zeros(6) if w is None else w, []
    for t in range(1, 41):
        w = update(t, w, X[t - 1], Y[t - 1])
        found.append(w)
    return found


def agree(ours, theirs, atol=1e-12):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def hinge(w, x, y):
    return -y * x * (y * (w @ x) < 1)


def ball(w, r):
    return w * min(1.0, r / max(np.linalg.norm(w), 1e-300))


def test_zinkevich_projected_subgradient():
    ours = thetas(loss="hinge", step=steps.InverseSqrt(0.7), projection=L2Ball(0.9))
    agree(ours, loop(lambda t, w, x, y: ball(w - 0.7 / np.sqrt(t) * hinge(w, x, y), 0.9)))


def test_pegasos_is_forward_backward_with_squared_l2_one_round_later():
    s, r = 0.3, 0.3**-0.5
    theirs = loop(lambda t, w, x, y: ball((1 - 1 / t) * w - hinge(w, x, y) / (s * t), r))
    start = State(k=1, theta=theirs[0])
    ours = [
        state.theta
        for state in OnlineProximal(
            X[1:], Y[1:], loss="hinge", penalty=SquaredL2(s), step=lambda t: 1 / (s * (t - 1)), projection=r,
            shuffle=False, every=1, start=start, epochs=1,
        )
    ]  # fmt: skip
    agree(ours, theirs[1:])
    for project in (True, False):
        bound = r if project else np.inf
        w = loop(lambda t, w, x, y, b=bound: ball((1 - 1 / t) * w - hinge(w, x, y) / (s * t), b))[-1]
        named = last(Pegasos(X, Y, s, project=project, epochs=1, shuffle=False))
        np.testing.assert_allclose(named.theta, w, atol=1e-12)


@pytest.mark.parametrize("lazy", [True, False])
def test_truncated_gradient(lazy):
    ours = thetas(penalty=L1(0.05), step=0.3, update="forward-backward", lazy=lazy)
    agree(ours, loop(lambda t, w, x, y: SOFT(w + 0.3 * y * x * SIGMOID(-y * (w @ x)), 0.3 * 0.05)))


def test_fobos_with_squared_l2_and_groups():
    def group(w, t):
        out = w.copy()
        for m in (slice(0, 2), slice(2, 4), slice(4, 6)):
            n = np.linalg.norm(w[m])
            out[m] = w[m] * max(0.0, 1 - t / n) if n > 0 else 0.0
        return out

    step = steps.InverseSqrt(0.5)
    ours = thetas(penalty=GroupLasso(0.2, 2), step=step)
    agree(ours, loop(lambda t, w, x, y: group(w + 0.5 / t**0.5 * y * x * SIGMOID(-y * (w @ x)), 0.2 * 0.5 / t**0.5)))
    ours = thetas(penalty=SquaredL2(0.4), step=step, update="forward-backward")
    rate = lambda t: 0.5 / t**0.5  # noqa: E731  # a formula
    agree(ours, loop(lambda t, w, x, y: (w + rate(t) * y * x * SIGMOID(-y * (w @ x))) / (1 + 0.4 * rate(t))))


def test_algorithm_1_with_two_terms_takes_two_proxes():
    # Overlapping groups: no order is exact, and the given one is taken.
    first, second = GroupLasso(0.2, [[0, 1, 2], [3]]), GroupLasso(0.3, [[2, 3], [4, 5]])
    ours = thetas(penalty=Sum([first, second]), step=0.3)

    def update(t, w, x, y):
        w = w + 0.3 * y * x * SIGMOID(-y * (w @ x))
        for groups, s in (([[0, 1, 2], [3]], 0.2), ([[2, 3], [4, 5]], 0.3)):
            w = w.copy()
            for m in groups:
                n = np.linalg.norm(w[m])
                w[m] *= max(0.0, 1 - 0.3 * s / n) if n > 0 else 0.0
        return w

    agree(ours, loop(update))


def test_kaczmarz():
    # The squared loss with the step 1 / norm(x)^2 projects onto each row's equation.
    norms = (X**2).sum(axis=1)
    rows = norms > 0
    A, b = X[rows], Y[rows]
    ours = [
        s.theta
        for s in OnlineProximal(A, b, loss="squared", step=lambda t: 1 / norms[rows][t - 1], shuffle=False, every=1)
    ]
    w = np.zeros(6)
    for a, target, theta in zip(A, b, ours, strict=True):
        w = w + (target - a @ w) / (a @ a) * a
        np.testing.assert_allclose(theta, w, atol=1e-10)
        assert theta @ a == pytest.approx(target, abs=1e-9)


def power_map(v, p):
    n = np.linalg.norm(v, p)
    return np.zeros_like(v) if n == 0 else np.sign(v) * np.abs(v) ** (p - 1) * n ** (2 - p)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0])
@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_smidas(p, strength):
    from spom.mirror import PNorm

    q = p / (p - 1)
    ours = thetas(penalty=L1(strength) if strength else Zero(), mirror=PNorm(p), step=steps.InverseSqrt(0.4))
    dual = np.zeros(6)
    for t, theta in enumerate(ours, 1):
        w = power_map(dual, q)
        x, y, eta = X[t - 1], Y[t - 1], 0.4 / np.sqrt(t)
        dual = SOFT(dual + eta * y * x * SIGMOID(-y * (w @ x)), eta * strength)
        np.testing.assert_allclose(theta, power_map(dual, q), atol=1e-9)


@pytest.mark.parametrize("strength", [0.0, 0.02])
def test_the_p_norm_loop_agrees_with_full_updates(strength):
    from scipy import sparse

    from spom.mirror import PNorm

    options = {"penalty": L1(strength) if strength else None, "mirror": PNorm(1.3), "step": 0.1, "epochs": 5}
    solvers = [
        OnlineProximal(sparse.csr_matrix(X), Y, lazy=lazy, fit_intercept=True, random_state=0, **options)
        for lazy in (None, False)
    ]
    fast, full = (last(solver) for solver in solvers)
    assert [solver.engine.name for solver in solvers] == ["mirror descent, p-norm", "composite mirror descent, eager"]
    np.testing.assert_allclose(fast.theta, full.theta, atol=1e-10)
    wide = sparse.random(30, 50_000, 1e-4, random_state=0, format="csr")
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    assert last(OnlineProximal(wide, y, mirror=PNorm(), step=0.1)).k == 30
    with pytest.raises(Unsupported, match="no lazy update"):
        list(OnlineProximal(wide, y, penalty=L1(0.1), mirror=PNorm(), step=0.1))


def test_online_smoothed_linearised_bregman():
    from spom.mirror import SmoothedBregman

    lam, eps = 0.3, 0.05
    ours = thetas(loss="squared", mirror=SmoothedBregman(lam, eps), step=steps.InverseSqrt(0.2))
    v, w = np.zeros(6), np.zeros(6)
    for t, theta in enumerate(ours, 1):
        v = v - 0.2 / np.sqrt(t) * (w @ X[t - 1] - Y[t - 1]) * X[t - 1]
        w = np.where(np.abs(v) <= lam + eps, v * eps / (lam + eps), v - lam * np.sign(v))
        np.testing.assert_allclose(theta, w, atol=1e-12)


def test_mirror_descent_with_the_euclidean_map_is_fobos():
    for penalty in (L1(0.05), SquaredL1(0.1), SparseMKL(0.1, 2)):
        plain = thetas(penalty=penalty, step="sqrt", update="forward-backward", lazy=False)
        agree(plain, thetas(penalty=penalty, step="sqrt", mirror="euclidean", update="forward-backward", lazy=False))


def test_adagrad_takes_the_exact_prox_in_its_metric():
    squares = np.zeros(6)

    def update(t, w, x, y):
        g = -y * x * SIGMOID(-y * (w @ x))
        squares[:] += g * g
        h = 0.5 / (0.1 + np.sqrt(squares))
        return SOFT(w - h * g, h * 0.03) * (squares > 0)

    agree(thetas(penalty=L1(0.03), step=steps.AdaGrad(0.5, 0.1), update="forward-backward"), loop(update))


def test_dual_averaging_of_xiao_and_of_adagrad():
    total, squares = np.zeros(6), np.zeros(6)

    def xiao(t, w, x, y):
        total[:] += -y * x * SIGMOID(-y * (w @ x))
        return -SOFT(total, t * 0.03) * 0.5 / np.sqrt(t)

    agree(thetas(penalty=L1(0.03), step=steps.InverseSqrt(0.5), update="dual-averaging"), loop(xiao))
    total[:] = 0.0

    def adagrad(t, w, x, y):
        g = -y * x * SIGMOID(-y * (w @ x))
        total[:] += g
        squares[:] += g * g
        return -SOFT(total, t * 0.03) * 0.5 / (0.1 + np.sqrt(squares))

    agree(thetas(penalty=L1(0.03), step=steps.AdaGrad(0.5, 0.1), update="dual-averaging"), loop(adagrad))


def test_subgradient_baseline():
    def update(t, w, x, y):
        eta = 0.5 / np.sqrt(t)
        g = -y * x * SIGMOID(-y * (w @ x))
        return w - eta * 0.05 * np.sign(w) - eta * g

    named = last(Subgradient(X, Y, penalty=L1(0.05), step=steps.InverseSqrt(0.5), epochs=1, shuffle=False))
    np.testing.assert_allclose(named.theta, loop(update)[-1], atol=1e-12)


def test_mini_batches_and_full_gradients():
    def update(w, idx, eta):
        g = -(Y[idx] * SIGMOID(-Y[idx] * (X[idx] @ w))) @ X[idx] / len(idx)
        return SOFT(w - eta * g, eta * 0.02)

    for lazy in (True, False):
        options = {"penalty": L1(0.02), "step": 0.5, "update": "forward-backward", "lazy": lazy, "shuffle": False}
        ours = last(OnlineProximal(X, Y, batch_size=16, **options))
        w = np.zeros(6)
        for part in (np.arange(16), np.arange(16, 32), np.arange(32, 40)):
            w = update(w, part, 0.5)
        np.testing.assert_allclose(ours.theta, w, atol=1e-12)
        full = last(OnlineProximal(X, Y, batch_size=None, epochs=3, **options))
        w = np.zeros(6)
        for _ in range(3):
            w = update(w, np.arange(40), 0.5)
        np.testing.assert_allclose(full.theta, w, atol=1e-12)


@pytest.mark.parametrize("loss", ["multiclass-logistic", "multiclass-hinge"])
def test_several_scores_against_a_loop(loss):
    classes = np.argmax(X @ RNG.standard_normal((6, 3)), axis=1)
    ours = [
        s.theta
        for s in OnlineProximal(X, classes, loss=loss, penalty=GroupLasso(0.1, "rows"), step=0.3, shuffle=False,
                                every=1, fit_intercept=True, outputs=3)
    ]  # fmt: skip
    W = np.zeros((7, 3))
    for x, c, theta in zip(X, classes, ours, strict=True):
        z = np.append(x, 1.0)
        a = z @ W
        if loss == "multiclass-logistic":
            d = np.exp(a - a.max()) / np.exp(a - a.max()).sum()
            d[c] -= 1
        else:
            cost = a - a[c] + (np.arange(3) != c)
            d = np.zeros(3)
            if cost.max() > 0:
                d[np.argmax(cost)] += 1
                d[c] -= 1
        W = W - 0.3 * np.outer(z, d)
        n = np.linalg.norm(W[:6], axis=1, keepdims=True)
        W[:6] *= np.maximum(0, 1 - 0.03 / np.maximum(n, 1e-300))
        np.testing.assert_allclose(theta, W, atol=1e-12)


def test_variance_reduced_meets_its_tolerance_and_says_when_not():
    for options in (
        {"penalty": L1(0.02)},
        {"penalty": SquaredL2(0.1), "loss": "hinge"},
        {"penalty": ElasticNet(0.05), "loss": "squared"},
    ):
        solver = VarianceReduced(X, Y, tol=1e-7, random_state=0, **options)
        state = last(solver)
        assert solver.converged
        assert float(state.internal["gap"]) <= 1e-7
    with pytest.warns(UserWarning, match="no convergence"):
        assert not last(VarianceReduced(X, Y, penalty=L1(0.02), tol=1e-14, epochs=1, random_state=0)).k > 1


@pytest.mark.parametrize("solver", [Pegasos, Subgradient, VarianceReduced])
def test_baselines_and_certified_runs_resume_to_the_same_bits(solver, tmp_path):
    options = {"epochs": 4, "random_state": 2}
    if solver is VarianceReduced:
        options |= {"penalty": L1(0.02), "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        whole = list(solver(X, Y, **options))
        whole[1].save(tmp_path / "state")
        rest = list(solver(X, Y, **options, start=State.load(tmp_path / "state")))
    assert [state.k for state in rest] == [state.k for state in whole[2:]]
    for a, b in zip(rest, whole[2:], strict=True):
        assert a.theta.tobytes() == b.theta.tobytes()


def test_what_has_no_proximal_point_is_left_to_batch_solvers():
    with pytest.raises(Unsupported, match=r"l1 and squared l2 penalties.*BatchProximal can"):
        list(VarianceReduced(X, Y, penalty=GroupLasso(0.1, 2)))
