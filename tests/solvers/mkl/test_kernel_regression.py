"""Regression with kernels: against explicit features and a general solver, kernel ridge regression, and its own gap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from spom.errors import DataError
from spom.kernels.gram import FeatureGram
from spom.penalties import ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2
from spom.solvers import KernelRegression
from spom.solvers.iterate import last

PENALTIES = [SparseMKL(0.3), GroupLasso(0.2), ElasticNetMKL(0.3), LqMKL(0.2, q=1.5), SquaredL2(0.2)]


def problem(seed: int = 0, n: int = 14):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    parts = [X[:, :2], X[:, 2:4], np.column_stack([X[:, 4] ** 2, X[:, 0] * X[:, 4]])]
    return parts, X[:, 0] - 0.5 * X[:, 4] ** 2 + 2.0 + 0.1 * rng.standard_normal(n), rng.uniform(0.2, 2.0, n)


def value(penalty, norms) -> float:
    """Omega, from its formula in the documentation."""
    s, n = penalty.strength, np.asarray(norms)
    r = getattr(penalty, "l1_ratio", None)
    return {
        "SparseMKL": lambda: s / 2 * n.sum() ** 2,
        "GroupLasso": lambda: s * n.sum(),
        "ElasticNetMKL": lambda: s * (r / 2 * n.sum() ** 2 + (1 - r) / 2 * (n**2).sum()),
        "LqMKL": lambda: s * (n ** getattr(penalty, "q", 2)).sum(),
        "SquaredL2": lambda: s / 2 * (n**2).sum(),
    }[type(penalty).__name__]()


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimum_is_that_of_a_general_solver_over_explicit_features(penalty, weighted: bool) -> None:
    parts, y, weight = problem()
    w = weight / weight.sum() if weighted else np.full(y.size, 1 / y.size)

    def objective(theta: np.ndarray) -> float:
        blocks = np.split(theta[:-1], 3)
        f = sum(part @ block for part, block in zip(parts, blocks, strict=True))
        norms = [np.sqrt((block**2).sum() + 1e-18) for block in blocks]
        return value(penalty, norms) + 0.5 * w @ (y - f - theta[-1]) ** 2

    starts = [np.full(7, 0.1), np.random.default_rng(1).standard_normal(7)]
    best = min(optimize.minimize(objective, s, method="BFGS", options={"gtol": 1e-9}).fun for s in starts)
    solver = KernelRegression([p @ p.T for p in parts], y, penalty, weight=weight if weighted else None, tol=1e-9)
    state = last(solver)
    assert state.objective == pytest.approx(best, rel=1e-6)
    assert solver.converged or isinstance(penalty, LqMKL)


def test_one_kernel_is_kernel_ridge_regression() -> None:
    parts, y, _ = problem(1, 30)
    K, s = (1 + parts[0] @ parts[0].T) ** 2, 0.05
    state = last(KernelRegression([K], y, SquaredL2(s), fit_intercept=False, tol=1e-13, epochs=20000))
    exact = np.linalg.solve(K + s * y.size * np.eye(y.size), y)
    np.testing.assert_allclose(K @ state.theta, K @ exact, atol=1e-4)


def test_the_gap_bounds_the_distance_to_the_optimum() -> None:
    parts, y, _ = problem(2, 20)
    grams = [p @ p.T for p in parts]
    best = last(KernelRegression(grams, y, SparseMKL(0.1), tol=1e-12)).objective
    for tol in (1e-1, 1e-2, 1e-4):
        solver = KernelRegression(grams, y, SparseMKL(0.1), tol=tol)
        state = last(solver)
        assert solver.converged
        assert state.objective - best + 1e-12 >= 0
        assert state.objective - best <= tol * 0.5 * y.var() + 1e-12


def test_what_is_off_is_exactly_zero_and_all_is_off_at_a_large_strength() -> None:
    parts, y, _ = problem(3, 20)
    grams = [p @ p.T for p in parts]
    state = last(KernelRegression(grams, y, GroupLasso(100.0)))
    assert not state.theta.any()
    assert state.internal["intercept"] == pytest.approx(y.mean())
    few = last(KernelRegression(grams, y, GroupLasso(0.4), tol=1e-8))
    assert 0 < np.count_nonzero(few.block_norms) < 3


def test_forms_of_gram_matrices_agree() -> None:
    parts, y, _ = problem(4, 20)
    dense = last(KernelRegression([p @ p.T for p in parts], y, SparseMKL(0.1), tol=1e-10))
    for form in (FeatureGram, lambda p: sparse.csr_matrix(p @ p.T), lambda p: FeatureGram(sparse.csr_matrix(p))):
        other = last(KernelRegression([form(p) for p in parts], y, SparseMKL(0.1), tol=1e-10))
        np.testing.assert_allclose(other.block_norms, dense.block_norms, atol=1e-5)
    np.testing.assert_allclose(FeatureGram(parts[0]).diagonal(), (parts[0] ** 2).sum(axis=1))


def test_a_start_saves_steps_and_bad_shapes_are_refused() -> None:
    parts, y, _ = problem(5, 20)
    grams = [p @ p.T for p in parts]
    cold = last(KernelRegression(grams, y, SparseMKL(0.01), tol=1e-8))
    warm = last(KernelRegression(grams, y, SparseMKL(0.01), tol=1e-7, start=cold))
    assert warm.k < cold.k
    with pytest.raises(DataError, match="Gram matrices of 19 rows"):
        KernelRegression(grams, y[1:], SparseMKL(0.1))
