"""GPM and accGPM: ISTA and FISTA step by step in the Euclidean norm, Theorems 1 and 2 on runs, resuming, errors."""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom.core.state import State
from spom.errors import SpomError, Unsupported
from spom.losses import Logistic, Squared
from spom.norms import AtomicNorm
from spom.penalties import L1, ElasticNet, L1Ball, LatentGroupLasso, LInf, Simplex, SquaredL2, Zero
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.general_prox_functions import ProxFunction, best_epsilon, half_square_gradient, modulus
from spom.solvers.batch.general_proximal import GeneralProximal
from spom.solvers.iterate import halt, last, small, take


def problem(n: int = 40, p: int = 20, seed: int = 0, loss: Any = None) -> LinearSmooth:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3)) + 0.1 * rng.standard_normal(n)
    return LinearSmooth(X, np.sign(y) if loss is not None else y, loss or Squared())


def objective(smooth: LinearSmooth, penalty: Any, x: Any) -> float:
    return smooth.value(x) + penalty.value(x)


def optimum(smooth: LinearSmooth, penalty: Any) -> tuple[Any, float]:
    """Return the optimum by FISTA with restarts in plain numpy, to rounding: the problems are well conditioned."""
    L = np.linalg.eigvalsh(smooth.X.T @ smooth.X / smooth.X.shape[0])[-1]
    x = w = np.zeros(smooth.X.shape[1])
    t, best = 1.0, np.inf
    for _ in range(500):
        new = penalty.prox(w - smooth.gradient(w) / L, 1.0 / L)
        s = (1 + np.sqrt(1 + 4 * t * t)) / 2
        value = objective(smooth, penalty, new)
        t, w = (1.0, new) if value > best else (s, new + (t - 1) / s * (new - x))
        x, best = new, min(best, value)
    return x, objective(smooth, penalty, x)


@cache
def case_optimum(case: str) -> tuple[Any, float]:
    return optimum(problem(n=60), CASES[case][0])


def test_the_euclidean_norm_is_ista() -> None:
    smooth, s = problem(), 0.05
    L = smooth.lipschitz("l2")
    x = np.zeros(20)
    for state in take(GeneralProximal(smooth, L1(s), norm="l2", lipschitz=L, line_search=False), 50):
        v = x - smooth.X.T @ (smooth.X @ x - smooth.y) / (40 * L)
        x = np.sign(v) * np.maximum(np.abs(v) - s / L, 0.0)
        np.testing.assert_allclose(state.theta, x, atol=1e-13)


def test_the_euclidean_norm_accelerated_is_fista() -> None:
    smooth, s = problem(), 0.05
    L = smooth.lipschitz("l2")
    x, y, t = np.zeros(20), np.zeros(20), 1.0
    run = GeneralProximal(smooth, L1(s), norm="l2", accelerated=True, lipschitz=L, line_search=False)
    for state in take(run, 80):
        v = y - smooth.X.T @ (smooth.X @ y - smooth.y) / (40 * L)
        new = np.sign(v) * np.maximum(np.abs(v) - s / L, 0.0)
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        x, y, t = new, new + (t - 1) / later * (new - x), later
        np.testing.assert_allclose(state.theta, x, atol=1e-11)


CASES: dict[str, tuple[Any, Any]] = {
    "l1/l1": (L1(0.05), "l1"),
    "ball/l1": (L1Ball(2.0), "l1"),
    "linf/linf": (LInf(0.3), "linf"),
    "latent/linf": (LatentGroupLasso(0.1, [list(range(i, i + 5)) for i in range(0, 16, 3)] + [[0, 19]]), "linf"),
    "l1/l2": (L1(0.05), "l2"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("line_search", [False, True])
def test_theorem_1(case: str, line_search: bool) -> None:
    """F(x_k) - F* <= 2 max(L R^2, F(x_0) - F*) / k, and never up."""
    penalty, norm = CASES[case]
    smooth = problem(n=60)
    xs, best = case_optimum(case)
    F = [objective(smooth, penalty, np.zeros(20))]
    states = list(take(GeneralProximal(smooth, penalty, norm=norm, line_search=line_search), 60))
    F += [state.objective for state in states]
    L = max(1.0 / state.step for state in states)
    from spom.norms import as_norm

    # The level set's radius, over the points that the run went through: a smaller bound than the theorem's.
    radius = max(as_norm(norm).value(state.theta - xs) for state in [State(0, np.zeros(20)), *states])
    for k in range(1, len(F)):
        assert F[k] <= F[k - 1] + 1e-12
        assert F[k] - best <= 2 * max(L * radius**2, F[0] - best) / k + 1e-12


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("beta0", [np.inf, 1.0, 50.0])
@pytest.mark.parametrize("line_search", [False, True])
def test_theorem_2(case: str, beta0: float, line_search: bool) -> None:
    """F(x_{k+1}) - F* <= 4 (sigma (F(x_0) - F*) + beta_0 d(x*)) / (sigma (2 + sqrt(beta_0) sum sqrt(gamma))^2)."""
    penalty, norm = CASES[case]
    smooth = problem(n=60)
    xs, best = case_optimum(case)
    from spom.norms import as_norm

    start = np.zeros(20)
    d = ProxFunction(as_norm(norm), start)
    first = objective(smooth, penalty, start) - best
    run = GeneralProximal(smooth, penalty, norm=norm, accelerated=True, beta0=beta0, line_search=line_search)
    total = 0.0
    for state in take(run, 80):
        total += np.sqrt(state.step)
        if np.isinf(beta0):
            bound = 4 * d.value(xs) / (d.sigma * total**2)
        else:
            bound = 4 * (d.sigma * first + beta0 * d.value(xs)) / (d.sigma * (2 + np.sqrt(beta0) * total) ** 2)
        assert state.objective - best <= bound * (1 + 1e-9) + 1e-12


def test_theorem_2_with_a_strongly_convex_penalty() -> None:
    """tau = 1: F - F* <= (1 - rho)^(k+1) (F(x_0) - F* + beta_0 d(x*) / sigma)."""
    smooth, mu = problem(n=60), 0.5
    penalty = ElasticNet(1.0, l1_ratio=0.5)
    xs, best = optimum(smooth, penalty)
    L = smooth.lipschitz("l2")
    beta0 = 2.0
    rho = mu / (2 * L) * (np.sqrt(1 + 4 * L / (beta0 + mu)) - 1)
    first = objective(smooth, penalty, np.zeros(20)) - best + beta0 * 0.5 * float(xs @ xs)
    run = GeneralProximal(
        smooth, penalty, norm="l2", accelerated=True, tau=1, beta0=beta0, strong_convexity=mu, line_search=False
    )
    for k, state in enumerate(take(run, 60)):
        assert state.objective - best <= (1 - rho) ** (k + 1) * first + 1e-12


@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_both_estimates_reach_the_optimum(tau: int, norm: str) -> None:
    smooth, penalty = problem(n=60), L1(0.05)
    best = optimum(smooth, penalty)[1]
    found = last(take(GeneralProximal(smooth, penalty, norm=norm, accelerated=True, tau=tau), 600))
    assert found.objective - best <= 1e-4


@pytest.mark.parametrize("accelerated", [False, True])
def test_other_losses_sets_and_atoms(accelerated: bool) -> None:
    smooth = problem(loss=Logistic())
    for penalty, norm in ((L1(0.02), "l1"), (Simplex(1.0), "l1"), (Zero(), "linf"), (SquaredL2(0.1), "l2")):
        run = GeneralProximal(smooth, penalty, norm=norm, accelerated=accelerated, start=np.full(20, 0.05))
        states = list(take(run, 200))
        assert states[-1].objective < states[0].objective
        assert np.isfinite(penalty.value(states[-1].theta))
    norm = AtomicNorm(np.linalg.qr(np.random.default_rng(0).standard_normal((20, 20)))[0])
    penalty = norm.penalty(0.02)
    F = [state.objective for state in take(GeneralProximal(smooth, penalty, norm=norm, accelerated=accelerated), 300)]
    assert F[-1] < F[0]


def test_stopping_on_the_residual_is_stopping_at_the_optimum() -> None:
    smooth, penalty = problem(n=60), L1(0.05)
    best = optimum(smooth, penalty)[1]
    for norm in ("l1", "l2"):
        run = GeneralProximal(smooth, penalty, norm=norm)
        found = last(halt(take(run, 5000), small("residual", 1e-7)))
        assert found.k < 5000
        assert found.objective - best <= 1e-6


@pytest.mark.parametrize("accelerated", [False, True])
def test_a_saved_state_goes_on_with_the_same_bits(tmp_path: Path, accelerated: bool) -> None:
    smooth, penalty = problem(), L1(0.05)

    def run(start: Any = None) -> GeneralProximal:
        return GeneralProximal(smooth, penalty, norm="l1", accelerated=accelerated, start=start, line_search=False)

    whole = list(take(run(), 12))
    whole[5].save(tmp_path / "state.npz")
    rest = list(islice(run(State.load(tmp_path / "state.npz")), 6))
    for a, b in zip(whole[6:], rest, strict=True):
        assert a.k == b.k
        np.testing.assert_array_equal(a.theta, b.theta)


def test_states_are_snapshots() -> None:
    states = list(take(GeneralProximal(problem(), L1(0.05), norm="l1"), 5))
    assert len({state.theta.tobytes() for state in states}) > 1


def test_best_epsilon_is_the_best() -> None:
    for p in (2, 5, 8, 20, 1000, 10**6):
        grid = np.linspace(1e-3, 1.0, 2000)
        assert modulus(best_epsilon(p), p) >= max(modulus(float(e), p) for e in grid) * (1 - 1e-6)


def test_prox_function_argmin_and_modulus() -> None:
    rng = np.random.default_rng(0)
    from spom.norms import as_norm

    for name in ("l1", "l2", "linf"):
        d = ProxFunction(as_norm(name), rng.standard_normal(12))
        S = rng.standard_normal(12)
        w = d.argmin(S)

        def value(x: Any, d: ProxFunction = d, S: Any = S) -> float:
            return float(S @ x) + d.value(x) / d.sigma

        for _ in range(50):
            x = w + rng.standard_normal(12) * rng.choice([1e-2, 1.0])
            # Strongly convex with modulus 1 in the norm, once divided by sigma.
            assert value(x) >= value(w) + 0.5 * as_norm(name).value(x - w) ** 2 * (1 - 1e-9) - 1e-10
    v = rng.standard_normal(5) * 1e200
    assert np.isfinite(half_square_gradient(v / 1e100, 12.0)).all()


class Wrong:
    """A value with the gradient of another function."""

    shape = (3,)
    penalised = slice(0, 3)

    def value(self, x: Any) -> float:
        return float(np.abs(x).sum() * 5)

    def gradient(self, x: Any) -> Any:
        return -np.ones(3)

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        return self.value(x), self.gradient(x)

    def lipschitz(self, norm: str = "l2") -> float:
        raise Unsupported("not known")


class NotFinite(Wrong):
    def gradient(self, x: Any) -> Any:
        return np.array([0.0, np.nan, 0.0])


def test_bad_input() -> None:
    smooth = problem()
    with pytest.raises(SpomError, match="does not belong to the value"):
        list(take(GeneralProximal(Wrong(), L1(0.1), norm="l1"), 3))
    with pytest.raises(SpomError, match="does not belong to the value"):
        list(take(GeneralProximal(Wrong(), L1(0.1), norm="l1", accelerated=True), 3))
    with pytest.raises(ValueError, match="gradient of the loss must be finite: entry 1"):
        list(take(GeneralProximal(NotFinite(), L1(0.1), norm="l1"), 3))
    with pytest.raises(Unsupported, match="These work"):
        list(take(GeneralProximal(smooth, SquaredL2(0.1), norm="l1"), 3))
    with pytest.raises(Unsupported, match="tau=1 needs"):
        list(take(GeneralProximal(smooth, L1Ball(0.1), norm="l1", accelerated=True, tau=1), 3))
    with pytest.raises(ValueError, match="tau must be 0 or 1"):
        GeneralProximal(smooth, L1(0.1), tau=2)
    with pytest.raises(ValueError, match="beta0"):
        GeneralProximal(smooth, L1(0.1), beta0=0.0)
    with pytest.raises(Unsupported, match="intercept"):
        GeneralProximal(LinearSmooth(smooth.X, smooth.y, Squared(), fit_intercept=True), L1(0.1))
