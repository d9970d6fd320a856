"""The bounds hold on real runs, and the constants are what a brute-force search finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from spom import theory
from spom.errors import Unsupported
from spom.losses import Hinge, Logistic, MulticlassLogistic, Squared
from spom.mirror import PNorm
from spom.penalties import L1, Box, ElasticNet, GroupLasso, L2Ball, LInf, Power, Simplex, SparseMKL, SquaredL2, Sum
from spom.solvers import VarianceReduced, steps
from spom.solvers.iterate import last
from spom.solvers.linear.online import OnlineProximal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 8))
Y = np.sign(X @ RNG.standard_normal(8) + 0.5 * RNG.standard_normal(300))


def regret(step, penalty, loss, projection=None, **options):
    """Return the regret after each round against the best fixed point of the whole run."""
    states = list(
        OnlineProximal(X, Y, loss=loss, penalty=penalty, step=step, projection=projection, shuffle=False, regret=True,
                       update="forward-backward", **options)
    )  # fmt: skip
    suffered = np.array([float(s.internal["cumulative"]) for s in states])
    best = last(VarianceReduced(X, Y, loss=loss, penalty=penalty, tol=1e-6, epochs=3000, random_state=0))
    values = np.asarray((Logistic() if loss == "logistic" else Hinge()).value(Y, X @ best.theta)) + penalty.value(
        best.theta
    )
    return suffered, np.cumsum(values), best.theta


def test_proposition_3_holds_on_runs():
    penalty, G = L1(0.01), theory.lipschitz(Logistic(), X)
    suffered, best, theta = regret(steps.Constant(0.05), penalty, "logistic")
    bound = theory.spom_regret(np.arange(1, 301), G, eta=0.05, norm=float(np.linalg.norm(theta)))
    assert (suffered - best <= bound + 1e-9)[[9, 99, 299]].all()
    radius = 1.5 * float(np.linalg.norm(theta))
    suffered, best, _ = regret(steps.InverseSqrt(0.3), penalty, "logistic", projection=radius)
    bound = theory.spom_regret(np.arange(1, 301), G, eta0=0.3, diameter=2 * radius)
    assert (suffered - best <= bound + 1e-9).all()
    fobos = theory.fobos_regret(np.arange(1, 301), max(G, 0.01 * np.sqrt(8)), 2 * radius, 0.3)
    assert (fobos > bound).all()


def test_the_three_parts_must_be_told_apart():
    assert theory.spom_regret(np.e, 2.0, sigma=1.0) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="three parts"):
        theory.spom_regret(10, 1.0, eta=0.1)
    with pytest.raises(ValueError, match="at least 1"):
        theory.fobos_regret(0, 1.0, 1.0, 1.0)


def test_theorem_2_bounds_the_excess_of_the_last_iterate():
    penalty = L1(0.01)
    eta = theory.largest_step(Logistic(), penalty, None, X, Y)
    best = last(VarianceReduced(X, Y, penalty=penalty, tol=1e-6, epochs=3000, random_state=0))
    R = float(np.linalg.norm(X, axis=1).max())
    constants = theory.MirrorDescent(
        eta1=eta, divergence=0.5 * float(best.theta @ best.theta), risk=best.objective, radius=R, Lp=0.02 * np.sqrt(8),
        at_zero=np.log(2), slope=0.5,
    )  # fmt: skip
    runs = [
        last(OnlineProximal(X, Y, penalty=penalty, step="theory", update="forward-backward", random_state=seed,
                            objective=True)).objective
        for seed in range(5)
    ]  # fmt: skip
    assert np.mean(runs) - best.objective <= float(theory.mirror_descent_excess(300, constants))
    rounds = np.array([1e2, 1e4, 1e6, 1e8])
    bound = theory.mirror_descent_excess(rounds, constants)
    # O(log T / sqrt T).
    ratio = bound * np.sqrt(rounds) / np.log(np.e * rounds)
    assert ratio.max() <= 1.5 * ratio[-1] * 2
    with pytest.raises(ValueError, match="theta must be"):
        theory.MirrorDescent(eta1=0.1, divergence=1.0, risk=1.0, radius=1.0, theta=0.3)


@pytest.mark.parametrize(
    "penalty",
    [L1(0.05), SquaredL2(0.2), ElasticNet(0.1), GroupLasso(0.1, 2), SparseMKL(0.1, 2), Sum([L1(0.05), SquaredL2(0.3)])],
)
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Hinge()])
def test_the_vacuous_radius_holds_the_optimum(penalty, loss):
    radius = theory.vacuous_radius(loss, penalty, Y)

    def value(w):
        return float(np.mean(loss.value(Y, X @ w))) + penalty.value(w)

    found = optimize.minimize(value, np.zeros(8), method="Powell", options={"maxiter": 4000, "ftol": 1e-10})
    assert np.linalg.norm(found.x) <= radius * (1 + 1e-6)


def test_radius_of_structured_problems_and_unknown_penalties():
    assert theory.structured_radius(6.0, 0.5, 1.0) == pytest.approx(2.0)
    assert theory.structured_lipschitz(2.0, 6.0, 0.5, 1.0) == pytest.approx(6.0)
    with pytest.raises(Unsupported, match="no radius"):
        theory.vacuous_radius(Logistic(), LInf(0.1), Y)
    many = theory.vacuous_radius(MulticlassLogistic(), SquaredL2(1.0), np.array([0, 1, 2]), outputs=3)
    assert many == pytest.approx(np.sqrt(2 * np.log(3)))


def test_largest_step_by_hand():
    R2 = float((X**2).sum(axis=1).max())
    assert theory.largest_step(Logistic(), None, None, X, Y) == pytest.approx(0.25 / (R2 * 0.25))
    assert theory.largest_step(Hinge(), None, None, X, Y) == pytest.approx(0.25 / R2)
    strong = theory.largest_step(Squared(), L1(100.0), None, X, Y)
    assert strong == pytest.approx(0.25 / (100.0**2 * 8))
    psi = PNorm(1.5)
    rows = np.linalg.norm(X, 3, axis=1).max()
    assert theory.largest_step(Squared(), None, psi, X, Y) == pytest.approx(0.25 * 0.5 / rows**2)
    assert theory.largest_step(Squared(), None, psi, sparse.csr_matrix(X), Y) == pytest.approx(0.125 / rows**2)
    with pytest.raises(Unsupported):
        theory.largest_step(Squared(), SparseMKL(1.0, 2), None, X, Y)


def test_lipschitz_constant_bounds_every_subgradient():
    for loss in (Hinge(), Logistic()):
        G = theory.lipschitz(loss, X)
        for w in RNG.standard_normal((20, 8)) * 10:
            g = loss.derivative(Y, X @ w)[:, None] * X
            assert np.linalg.norm(g, axis=1).max() <= G + 1e-12


@pytest.mark.parametrize("theta", [0.5, 2 / 3, 0.66, 0.67])
def test_the_bound_on_the_excess_has_no_pole_by_rounding(theta: float) -> None:
    constants = theory.MirrorDescent(eta1=0.1, divergence=1.0, risk=0.3, radius=1.0, theta=theta)
    assert theory.mirror_descent_excess([100], constants)[0] < 1e6


def test_the_tight_radius_holds_the_structured_optimum() -> None:
    """lambda/2 (sum of norms)^2 with the multiclass logistic loss: Lambda is the log of the number of classes."""
    random = np.random.default_rng(3)
    A, y, lam = random.standard_normal((40, 4)), random.integers(0, 3, 40), 0.05

    def objective(flat: np.ndarray) -> float:
        theta = flat.reshape(4, 3)
        norms = np.sqrt((theta**2).sum(axis=1) + 1e-18).sum()
        return float(MulticlassLogistic().value(y, A @ theta).mean() + lam / 2 * norms**2)

    best = optimize.minimize(objective, np.zeros(12) + 1e-3, method="L-BFGS-B", options={"maxiter": 2000})
    norms = np.sqrt((best.x.reshape(4, 3) ** 2).sum(axis=1)).sum()
    assert norms <= theory.structured_radius(np.log(3.0), lam) + 1e-6
    assert theory.structured_radius(np.log(3.0), lam) < np.sqrt(2 * np.log(3.0) / lam)


def test_theorem_1_of_fobos_holds_on_a_run() -> None:
    """Batch FOBOS by hand, with the proximal step one step size ahead."""
    lam, T = 0.05, 60
    eta, half = theory.fobos_steps(0.3 / np.sqrt(np.arange(1, T + 2)))
    penalty, w, values = L1(lam), np.zeros(8), []
    for step, ahead in zip(eta, half, strict=True):
        values.append(float(Hinge().value(Y, X @ w).mean()) + penalty.value(w))
        slope = Hinge().derivative(Y, X @ w)
        w = penalty.prox(w - step * (X.T @ slope) / len(Y), ahead)
    best = last(VarianceReduced(X, Y, loss="hinge", penalty=penalty, tol=1e-6, epochs=3000, random_state=0)).theta
    optimum = float(Hinge().value(Y, X @ best).mean()) + penalty.value(best)
    G = max(float(np.linalg.norm(X, axis=1).mean()), lam * np.sqrt(8))
    assert min(values) - optimum <= theory.fobos_best(eta, G, float(np.linalg.norm(best)))
    with pytest.raises(ValueError, match="eta_t / 2 <= eta_"):
        theory.fobos_steps([1.0, 0.1])
    with pytest.raises(ValueError, match="more rounds"):
        theory.fobos_fixed_step([1], 1.0, 10.0, A=4.0)


def test_theorems_of_general_proximal_gradients_hold_on_a_run() -> None:
    """Check plain steps in the Euclidean norm on a quadratic in two variables."""
    H, start = np.diag([1.0, 4.0]), np.array([2.0, 1.0])
    gaps, x = [], start
    for _ in range(6):
        gaps.append(0.5 * float(x @ H @ x))
        x = x - H @ x / 4.0
    level = np.sqrt(2 * gaps[0])
    bound = theory.gpm_gap(np.arange(6), gaps[0], L=4.0, radius=level, mu=1.0)
    assert (np.array(gaps) <= bound + 1e-12).all()
    assert theory.gpm_gap([3], 1.0, 4.0, 1.0, mu=1.0)[0] == pytest.approx(0.75**3)
    assert theory.accelerated_gpm_gap([0], start=1.0, L=4.0, distance=0.0)[0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="beta0 >= tau mu"):
        theory.accelerated_gpm_rate(1.0, 2.0, 1.0)


def test_online_to_batch_by_hand() -> None:
    assert theory.averaged_rounds(0.1, 2.0, 3.0, np.exp(-4.0)) == 2 * 60**2 * 9
    assert theory.averaged_excess([2 * 60**2 * 9], 2.0, 3.0, np.exp(-4.0))[0] == pytest.approx(0.1)
    G, sigma = theory.absorbed(1.0, 0.5, 2.0)
    assert theory.strongly_convex_excess([np.e], G, sigma, 0.5)[0] == pytest.approx(8.0 / (0.5 * np.e))
    for bad in (0.0, 1.0):
        with pytest.raises(ValueError, match="delta"):
            theory.averaged_excess([1], 1.0, 1.0, bad)
    with pytest.raises(ValueError, match="p, q > 0"):
        theory.gradient_excess([1], theory.MirrorDescent(eta1=0.1, divergence=1.0, risk=0.3, radius=1.0))


def test_the_step_for_powers_by_hand_and_by_search() -> None:
    A, d, s, q = np.array([[0.1, 0.0, 0.0]]), 3, 0.7, 1.5
    constant = s * q * 2**0.5 * d**0.25
    assert theory.largest_step(Squared(), Power(s, q), None, A, [1.0]) == pytest.approx(0.25 * constant ** (-2 / q))
    random = np.random.default_rng(0)
    for _ in range(2000):
        u, v = random.standard_normal((2, d)) * 10.0 ** random.uniform(-2, 2)
        change = s * q * (np.sign(u) * abs(u) ** (q - 1) - np.sign(v) * abs(v) ** (q - 1))
        assert np.linalg.norm(change) <= constant * np.linalg.norm(u - v) ** (q - 1) * (1 + 1e-12)


def test_lemma_2_tells_sound_orders_from_others() -> None:
    assert theory.lemma2(Sum([L1(0.5), LInf(1.0)]), 5, L2Ball(2.0)).holds
    away = theory.lemma2(L1(1.0), 4, Box(1.0, 2.0))
    assert not away.projects
    assert away.shrinks
    turned = theory.lemma2(Sum([L1(0.5), Simplex(3.0)]), 4)
    assert not turned.shrinks
