"""Chains to the optimum: against a general minimiser, with screening that never removes a weight, from any start."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from spom.errors import DataError
from spom.penalties import L1, ElasticNet, GroupLasso, SquaredL2
from spom.penalties.forms import Elastic
from spom.solvers.structured.chains import OnlineChain
from spom.solvers.structured.chains.batch import BatchChain
from spom.solvers.structured.chains.batch import solver as batch_solver
from spom.solvers.structured.chains.batch.newton import Objective, dual_step
from spom.solvers.structured.chains.batch.orthant import SCALES, Memory, least, orthant
from spom.solvers.structured.chains.batch.screening import Screen
from spom.solvers.structured.chains.data import as_tokens
from tests.solvers.structured.chains.naive_chains import dense, loss_and_gradient, problem


def mean_loss(p: Any, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean log loss and its gradient by enumeration of all sequences."""
    n, value, g = len(p.rows.offsets) - 1, 0.0, np.zeros_like(theta)
    for i in range(n):
        a, b = p.rows.offsets[i : i + 2]
        if b > a:
            loss, gradient, _ = loss_and_gradient("log", theta, dense(p, i), tuple(p.y[a:b].tolist()), p.k, 0.0)
            value, g = value + loss / n, g + gradient / n
    return value, g


def solved(p: Any, goal: float = 1e-7, **params: Any) -> tuple[BatchChain, Any]:
    solver = BatchChain(p.rows, p.y, p.k, blocks=p.blocks, **params)
    for state in itertools.islice(solver, 30):
        if state.internal["gap"] < goal:
            break
    return solver, state


@pytest.mark.parametrize("values", [False, True])
def test_a_squared_penalty_ends_where_a_general_minimiser_does(values: bool) -> None:
    p, size = problem(51, values=values), 11 * 3 + 5 * 3
    best = minimize(
        lambda w: (mean_loss(p, w)[0] + 0.05 * w @ w, mean_loss(p, w)[1] + 0.1 * w),
        np.zeros(size),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-8},
    )
    _, state = solved(p, penalty=SquaredL2(0.1))
    assert state.objective == pytest.approx(best.fun, abs=1e-7)
    np.testing.assert_allclose(state.theta, best.x, atol=1e-3)


@pytest.mark.parametrize("penalty", [L1(0.03), ElasticNet(0.05, l1_ratio=0.8)])
def test_the_optimum_satisfies_the_conditions_of_an_l1_penalty(penalty: Any) -> None:
    p = problem(52)
    l1, l2 = penalty.elastic()
    solver, state = solved(p, penalty=penalty)
    g = mean_loss(p, state.theta)[1] + l2 * state.theta
    zero = state.theta == 0.0
    assert 0 < zero.sum() < zero.size
    assert np.abs(g[zero]).max() <= l1 * 1.001
    np.testing.assert_allclose(g[~zero], -l1 * np.sign(state.theta[~zero]), atol=2e-4)
    assert state.internal["screened"] == (~solver.on).sum()


def test_screening_removes_no_weight_of_the_optimum() -> None:
    for seed in range(6):
        p, l1 = problem(60 + seed, sentences=12), 0.08
        n = len(p.rows.offsets) - 1
        solver, _ = solved(p, penalty=L1(l1))
        optimum = solver.W != 0.0
        rough = BatchChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=L1(l1))
        for _ in itertools.islice(rough, 2):
            assert not (optimum & ~rough.on).any()
        screen = Screen(as_tokens(p.rows, p.features), p.y, p.features, p.k)
        assert not (optimum & ~screen.by_counts(l1 * n)).any()
        lengths = [np.sqrt(sum(dense(p, i)[:, j].sum() ** 2 for i in range(n))) for j in range(p.features)]
        np.testing.assert_allclose(screen.lengths, lengths)


def test_weights_that_are_not_there_stay_zero_and_a_start_changes_nothing_but_the_way() -> None:
    p = problem(53)
    on, chain_on = np.ones((p.features, p.k), dtype=bool), np.ones((p.k + 2, p.k), dtype=bool)
    on[::2, 1], chain_on[p.k :] = False, False
    solver, state = solved(p, penalty=L1(0.02), support=(on, chain_on))
    assert not solver.W[::2, 1].any()
    assert not solver.chain[p.k :].any()
    online = OnlineChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=L1(0.02), transitions="learnt", random_state=0)
    for _ in online.passes():
        pass
    other, again = solved(p, penalty=L1(0.02), support=(on, chain_on), start=online.weights())
    assert again.objective == pytest.approx(state.objective, abs=1e-6)
    assert not other.W[::2, 1].any()


@pytest.mark.parametrize("small", [20_000, 0])
def test_a_run_resumes_to_the_same_bits(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume with all labels in the model of a step, and with light labels sampled as for many tokens."""
    monkeypatch.setattr(batch_solver, "SMALL", small)
    p = problem(54)
    for penalty in (L1(0.02), GroupLasso(0.05)):
        whole = list(itertools.islice(BatchChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=penalty), 4))
        assert [state.k for state in whole] == [0, 1, 2, 3]
        for begin in range(3):
            rest = BatchChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=penalty, start=whole[begin])
            state = next(iter(rest))
            assert state.k == begin + 1
            np.testing.assert_array_equal(state.theta, whole[begin + 1].theta)


def test_the_objective_falls_and_bounds_stay_below_the_optimum() -> None:
    """Round after round, with the objective of the weights by the list of all sequences."""
    for seed in (52, 54, 57):
        p, l1 = problem(seed), 0.03
        best = solved(p, 1e-9, penalty=L1(l1))[1].objective
        before = np.inf
        for state in itertools.islice(BatchChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=L1(l1)), 6):
            value = mean_loss(p, state.theta)[0] + l1 * np.abs(state.theta).sum()
            assert state.objective == pytest.approx(value, abs=1e-10)
            assert best - 1e-9 <= state.objective <= before + 1e-12
            assert state.objective - float(state.internal["gap"]) <= best + 1e-10
            before = state.objective
        assert float(state.internal["gap"]) < 1e-4


def test_unknown_labels_are_refused() -> None:
    p = problem(55)
    y = p.y.copy()
    y[0] = -1
    with pytest.raises(DataError, match="labels must be numbers from 0"):
        BatchChain(p.rows, y, p.k, penalty=L1(0.1))


def test_dual_steps_bring_gradients_within_their_bounds() -> None:
    """Start near the optimum with gradients out of bounds; after the last step almost no excess must remain."""
    p, l1 = problem(58, sentences=12), 0.03
    n = len(p.rows.offsets) - 1
    solver, _ = solved(p, penalty=L1(l1))
    forms = Elastic(n * l1, 0.0), Elastic(n * l1, 0.0)
    objective = Objective(solver.field, np.ones_like(solver.on), solver.chain_on, forms)
    x = objective.flat(solver.W, solver.chain) + np.random.default_rng(0).normal(0.0, 0.1, objective.l1.size)
    point = objective.at(x)
    over = [np.abs(point.gradient).max() / (n * l1) - 1.0]
    for _ in range(4):
        point = dual_step(objective, point, True)
        over.append(np.abs(point.gradient).max() / (n * l1) - 1.0)
    assert over[0] > 0.1
    assert over[-1] < 0.01 * over[0]


def test_the_direction_is_that_of_the_updated_inverse_as_a_matrix() -> None:
    """B <- (1 - s y' / s y) B (1 - y s' / s y) + s s' / s y for each pair, in the free weights alone."""
    rng, n = np.random.default_rng(4), 9
    A = rng.normal(size=(20, n))
    H, guess = A.T @ A, rng.uniform(0.02, 0.1, n)
    memory = Memory(lambda r: guess * r)
    memory.pairs.extend((s, H @ s) for s in rng.normal(size=(5, n)))
    memory.pairs.append((np.zeros(n), np.ones(n)))
    of = orthant(rng.normal(size=n) * (rng.random(n) < 0.6), rng.normal(0.0, 3.0, n), np.full(n, 2.0))
    assert 2 < of.free.sum() < n
    some = [(s * of.free, y * of.free) for s, y in memory.pairs if s.any()]
    s, y = some[-1]
    B = np.diag(guess * of.free) * np.clip((s @ y) / (y @ (guess * y)), *SCALES)
    for s, y in some:
        left = np.eye(n) - np.outer(s, y) / (s @ y)
        B = left @ B @ left.T + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(memory.direction(of), -B @ of.slope, atol=1e-12)


@pytest.mark.parametrize("free", [False, True])
def test_quasi_newton_steps_end_where_coordinate_descent_does(free: bool) -> None:
    rng = np.random.default_rng(7)
    A = rng.normal(size=(30, 12))
    H, g, l1, x0 = A.T @ A, rng.normal(0.0, 8.0, 12), np.full(12, 4.0), rng.normal(size=12)
    if free:
        l1[:3] = 0.0
    found = least(x0, g, l1, lambda v: H @ v, Memory(lambda r: r / np.diag(H)), (1e-10, 500))
    x = x0.copy()
    for _ in range(3000):
        for j in range(12):
            u = H[j, j] * x[j] - (g + H @ (x - x0))[j]
            x[j] = np.sign(u) * max(abs(u) - l1[j], 0.0) / H[j, j]
    np.testing.assert_allclose(found.x, x, atol=1e-7)
    assert (x == 0.0).any()
    np.testing.assert_array_equal(found.x == 0.0, x == 0.0)

    def value(z: np.ndarray) -> float:
        return float(g @ (z - x0) + 0.5 * (z - x0) @ H @ (z - x0) + l1 @ np.abs(z))

    assert found.gained == pytest.approx(value(x0) - value(x))
    np.testing.assert_allclose(found.gradient, g + H @ (x - x0), atol=1e-6)


@pytest.mark.parametrize("penalty", [L1(0.1), L1(100.0), L1(0.0), SquaredL2(0.1), ElasticNet(0.1)])
@pytest.mark.parametrize("transitions", ["learnt", "fixed", None])
@pytest.mark.parametrize(
    ("indptr", "offsets", "y", "labels"),
    [
        ([0], [0], [], 2),
        ([0], [0, 0, 0], [], 2),
        ([0, 0, 0], [0, 2], [0, 1], 2),
        ([0, 1, 2], [0, 2], [0, 0], 1),
        ([0, 1], [0, 1], [1], 2),
    ],
    ids=["no sentences", "empty ones", "no features", "one label", "one token"],
)
def test_next_to_nothing_gives_finite_weights(
    indptr: list[int], offsets: list[int], y: list[int], labels: int, penalty: Any, transitions: str | None
) -> None:
    rows = SimpleNamespace(indptr=indptr, indices=list(range(indptr[-1])), values=[], offsets=offsets)
    solver = BatchChain(rows, y, labels, penalty=penalty, transitions=transitions)
    objectives = [state.objective for state in itertools.islice(solver, 4)]
    assert np.isfinite(objectives).all()
    assert np.diff(objectives).max() <= 1e-12
    assert np.isfinite(solver.W).all()
    assert np.isfinite(solver.chain).all()
