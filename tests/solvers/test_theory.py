"""The bounds hold on real runs, and the constants are what a brute-force search finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from spom import theory
from spom.errors import Unsupported
from spom.losses import Hinge, Logistic, MulticlassLogistic, Squared
from spom.mirror import PNorm
from spom.penalties import L1, ElasticNet, GroupLasso, LInf, SparseMKL, SquaredL2, Sum
from spom.solvers import VarianceReduced, steps
from spom.solvers.iterate import last
from spom.solvers.linear.online import OnlineProximal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 8))
Y = np.sign(X @ RNG.standard_normal(8) + 0.5 * RNG.standard_normal(300))


def regret(step, penalty, loss, projection=None, **options):
    """The regret after each round against the best fixed point of the whole run."""
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
    assert theory.structured_radius(3.0, 0.5, 1.0) == pytest.approx(2.0)
    assert theory.structured_lipschitz(2.0, 3.0, 0.5, 1.0) == pytest.approx(6.0)
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
