"""Frank-Wolfe on the dual against a cone solver on the primal, and what its certificate promises."""

from __future__ import annotations

import dataclasses
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from spom.errors import DataError, Unsupported
from spom.penalties import L1, ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2
from spom.solvers.iterate import last, take
from spom.solvers.mkl.frank_wolfe.penalties import block_penalty
from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL, dual_bound
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem
from tests.solvers.mkl.mkl_oracle import optimum, tiny

S = 0.05


def squared_sum(norms: Any) -> Any:
    return S / 2 * cp.square(sum(norms))


PENALTIES: dict[str, tuple[Any, Any]] = {
    "sparse": (SparseMKL(S), squared_sum),
    "weighted": (SparseMKL(S, weights=[1.0, 2.0, 0.7]), lambda n: S / 2 * cp.square(n[0] + 2 * n[1] + 0.7 * n[2])),
    "elastic": (
        ElasticNetMKL(S, l1_ratio=0.6),
        lambda n: S * (0.3 * cp.square(sum(n)) + 0.2 * sum(cp.square(x) for x in n)),
    ),
    "powers": (LqMKL(S, q=1.5), lambda n: S * sum(cp.power(x, 1.5) for x in n)),
    "group": (GroupLasso(S), lambda n: S * sum(n)),
    "sum": (SquaredL2(S), lambda n: S / 2 * sum(cp.square(x) for x in n)),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("kind", ["chain", "learnt", "classes"])
def test_the_optimum_of_a_cone_solver(name: str, kind: str) -> None:
    if (name, kind) == ("weighted", "learnt"):
        pytest.skip("three weights are for three blocks")
    penalty, omega = PENALTIES[name]
    problem, features = tiny(2, chain=kind != "classes", sequences=15 if kind == "classes" else 6)
    best, norms = optimum(problem, features, omega, S, learnt=kind == "learnt")
    transitions = "learnt" if kind == "learnt" else "fixed"
    solver = FrankWolfeMKL(problem, penalty, tol=1e-7, transitions=transitions, random_state=0)
    for _ in solver:
        # The cone solver is exact to about 1e-8.
        assert solver.bound <= best + 1e-7
        assert solver.objective >= best - 1e-7
        assert solver.gap >= solver.objective - best - 1e-7
    assert solver.converged
    assert solver.objective == pytest.approx(best, rel=2e-7)
    assert solver.block_norms[: norms.size] == pytest.approx(norms, abs=3e-3)


def test_the_objective_of_the_point_that_is_returned() -> None:
    """P written down again from `parts`, with every output of every sequence."""
    problem, features = tiny(3)
    solver = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-3, random_state=0).solve()
    coefficients, _, T = solver.parts()
    theta = [a.T @ X for a, X in zip(coefficients, features, strict=True)]
    scores = sum(X @ w.T for w, X in zip(theta, features, strict=True))
    total = 0.0
    for a, b in zip(problem.offsets[:-1], problem.offsets[1:], strict=True):
        gold, best = problem.y[a:b], -np.inf
        for labels in np.ndindex(*[problem.n_labels] * (b - a)):
            y = np.array(labels)
            s = scores[np.arange(a, b), y].sum() + T[y[:-1], y[1:]].sum() + (y != gold).sum()
            best = max(best, s)
        total += best - scores[np.arange(a, b), gold].sum() - T[gold[:-1], gold[1:]].sum()
    norms = [np.linalg.norm(w) for w in theta]
    value = total / problem.n_sequences + S / 2 * sum(norms) ** 2 + S / 2 * (T**2).sum()
    assert solver.objective == pytest.approx(value, rel=1e-10)
    assert solver.block_norms == pytest.approx([*norms, np.linalg.norm(T)], rel=1e-10)


def test_beta_is_the_best_combination() -> None:
    """Check that no other kernel weights give a better machine, by solving with the sum of beta_m K_m and others."""
    problem, _ = tiny(5, sequences=12, chain=False)
    solver = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-8, random_state=0).solve()

    def value(beta: Any) -> float:
        K = sum(b * g.values for b, g in zip(beta, problem.grams, strict=True))
        one = KernelProblem.of([K], problem.y, problem.n_labels)
        return FrankWolfeMKL(one, SquaredL2(S), tol=1e-8, random_state=0).solve().objective

    assert value(solver.beta) == pytest.approx(solver.objective, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = 0.8 * solver.beta + 0.2 * rng.dirichlet(np.ones(3))
        assert value(other) >= solver.objective * (1 - 1e-7)


def test_a_useless_kernel_is_switched_off_exactly() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = y[:, None] * 3.0 + 0.1 * rng.standard_normal((40, 1))
    noise = 0.1 * rng.standard_normal((40, 2))
    problem = KernelProblem.of([X @ X.T + 1, noise @ noise.T], y)
    solver = FrankWolfeMKL(problem, SparseMKL(0.01), tol=1e-6, random_state=0).solve()
    assert solver.converged
    assert solver.beta.tolist() == [1.0, 0.0]
    assert solver.scale[1] == 0.0


def test_everything_is_zero_under_a_strong_group_lasso() -> None:
    problem, _ = tiny(2, chain=False)
    solver = FrankWolfeMKL(problem, GroupLasso(100.0), tol=1e-8, random_state=0).solve()
    assert solver.converged
    assert solver.objective == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", ["sparse", "group", "sum"])
def test_resuming_gives_the_same_bits(name: str, tmp_path: Any) -> None:
    penalty, _ = PENALTIES[name]
    problem, _ = tiny(4)

    def run(**options: Any) -> FrankWolfeMKL:
        return FrankWolfeMKL(problem, penalty, tol=0.0, random_state=3, **options)

    whole = last(run(max_epochs=12))
    half = last(take(run(max_epochs=12), 2))
    half.save(tmp_path / "half")
    again = last(run(max_epochs=12, start=type(half).load(tmp_path / "half")))
    assert again.k == whole.k == 12
    assert again.theta.tobytes() == whole.theta.tobytes()
    assert again.objective == whole.objective
    assert again.internal["beta"].tobytes() == whole.internal["beta"].tobytes()
    assert last(run(max_epochs=12)).theta.tobytes() == whole.theta.tobytes()


def test_a_run_that_is_done_stays_done() -> None:
    problem, _ = tiny(4)
    solver = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-3, random_state=3)
    state = last(solver)
    again = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-3, random_state=3, start=state)
    assert list(again) == []
    assert again.converged
    for mine, theirs in zip(again.parts(), solver.parts(), strict=True):
        assert (mine == theirs).all()


def test_a_state_of_another_problem_is_refused() -> None:
    state = last(take(FrankWolfeMKL(tiny(0)[0], SparseMKL(S)), 1))
    with pytest.raises(ValueError, match="another run"):
        last(FrankWolfeMKL(tiny(1)[0], SparseMKL(S), start=state))


def test_sparse_explicit_and_single_precision_blocks_agree() -> None:
    problem, features = tiny(6)
    offsets, y, k = problem.offsets, problem.y, problem.n_labels
    dense = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-8, random_state=0).solve()
    rows = sp.csr_matrix(features[2])
    block = ExplicitBlock(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), 2, rows.data)
    mixed = KernelProblem.of(
        [problem.grams[0], sp.csr_matrix(features[1] @ features[1].T)], y, k, offsets, explicit=[block]
    )
    other = FrankWolfeMKL(mixed, SparseMKL(S), tol=1e-8, random_state=0).solve()
    assert other.objective == pytest.approx(dense.objective, rel=1e-7)
    assert other.parts()[1] == pytest.approx(features[2].T @ dense.parts()[0][2], abs=1e-3)
    single = KernelProblem.of([(X @ X.T).astype(np.float32) for X in features], y, k, offsets, check=False)
    rough = FrankWolfeMKL(single, SparseMKL(S), tol=1e-4, random_state=0).solve()
    assert rough.converged
    assert rough.objective == pytest.approx(dense.objective, rel=1e-4)


def test_weights_of_sequences_are_repetitions() -> None:
    problem, features = tiny(7, chain=False, sequences=6)
    twice = np.array([0, 0, 1, 2, 2, 3, 5])
    repeated = KernelProblem.of([(X @ X.T)[np.ix_(twice, twice)] for X in features], problem.y[twice], 3)
    weight = np.bincount(twice, minlength=6) * 6 / 7
    weighted = dataclasses.replace(problem, weight=weight)
    a = FrankWolfeMKL(repeated, SparseMKL(S), tol=1e-7, random_state=0).solve()
    b = FrankWolfeMKL(weighted, SparseMKL(S), tol=1e-7, random_state=0).solve()
    assert a.objective == pytest.approx(b.objective, rel=1e-6)
    assert 4 not in b.support


def test_a_cost_scales_the_machine() -> None:
    """Check that cost c and strength s scale the solution of cost 1 and strength s by c, for squared penalties."""
    problem, _ = tiny(8)
    one = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-8, random_state=0).solve()
    two = FrankWolfeMKL(problem, SparseMKL(S / 2), cost=2.0, tol=1e-8, random_state=0).solve()
    assert two.objective == pytest.approx(2 * one.objective, rel=1e-6)


def test_empty_sequences_are_passed_over() -> None:
    problem, _ = tiny(9, sequences=3)
    offsets = np.insert(problem.offsets, 1, problem.offsets[1])
    more = KernelProblem.of(list(problem.grams), problem.y, 3, offsets)
    a = FrankWolfeMKL(more, SparseMKL(S * 3 / 4), tol=1e-7, random_state=0).solve()
    b = FrankWolfeMKL(problem, SparseMKL(S), tol=1e-7, random_state=0).solve()
    assert a.objective * 4 == pytest.approx(b.objective * 3, rel=1e-6)


@pytest.mark.parametrize("name", PENALTIES)
def test_conjugates_slopes_and_targets(name: str) -> None:
    """h* by brute force, slopes by differences, and the scales that are best by the formula that defines them."""
    blocks = block_penalty(PENALTIES[name][0], 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        b = rng.uniform(0.1, 2.0, 3)
        steps = 1e-6 * np.eye(3)
        slope = [(blocks.value(b + e) - blocks.value(b - e)) / 2e-6 for e in steps]
        assert blocks.slopes(b) == pytest.approx(slope, rel=1e-5)
        # b attains the supremum of <slope, b> - h(b).
        assert blocks.conjugate(blocks.slopes(b)) == pytest.approx(blocks.slopes(b) @ b - blocks.value(b), abs=1e-9)
        n = rng.uniform(0.0, 0.04, 3)
        others = rng.uniform(0.0, 3.0, (2000, 3)) * rng.integers(0, 2, (2000, 3))
        assert blocks.conjugate(n) >= max(float(n @ c) - blocks.value(c) for c in others) - 1e-12
        scales = blocks.normalised(blocks.target(b))
        assert b / scales == pytest.approx(blocks.slopes(b), rel=1e-9)
        assert blocks.shares(scales) == pytest.approx(blocks.target(b), rel=1e-9)


def test_the_bound_scales_a_point_that_is_not_feasible() -> None:
    blocks = block_penalty(GroupLasso(1.0), 2)
    assert dual_bound(blocks, 1.0, np.array([2.0, 0.5]), 0.0) == pytest.approx(0.5, rel=1e-9)
    assert dual_bound(blocks, 1.0, np.array([0.5, 0.5]), 0.0) == 1.0
    assert dual_bound(block_penalty(SparseMKL(1.0), 2), 1.0, np.array([2.0, 1.0]), 0.0) == pytest.approx(0.125)


def test_what_it_refuses() -> None:
    problem, _ = tiny(0)
    for penalty in (L1(1.0), LqMKL(1.0, q=3.0), SparseMKL(0.0), SparseMKL(1.0, weights=[1.0, 2.0])):
        with pytest.raises(Unsupported):
            FrankWolfeMKL(problem, penalty)
    with pytest.raises(ValueError, match="transitions"):
        FrankWolfeMKL(problem, transitions="other")
    with pytest.raises(DataError, match="no kernels"):
        FrankWolfeMKL(KernelProblem.of([], [0, 1]))
    with pytest.raises(DataError, match="no sequences"):
        FrankWolfeMKL(KernelProblem.of([np.zeros((0, 0))], np.zeros(0, dtype=np.int64), 2))


def test_more_than_the_first_space_for_outputs() -> None:
    """Long sequences with labels that cannot be told apart need many outputs: the pool grows, the gap closes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3))
    problem = KernelProblem.of([X @ X.T], rng.integers(0, 4, 24), 4, [0, 12, 24])
    solver = FrankWolfeMKL(problem, SparseMKL(0.1), tol=1e-4, random_state=0).solve()
    assert solver.converged
    assert solver._pool.space.max() > 12


def test_rows_of_an_explicit_block_may_be_dense() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = (X[:, 0] > 0).astype(int)
    blocks = [ExplicitBlock.of_dense(X), ExplicitBlock.of_matrix(sp.csr_matrix(X))]
    found = [
        FrankWolfeMKL(KernelProblem.of([], y, explicit=[block]), SparseMKL(0.1), tol=1e-8, random_state=0).solve()
        for block in blocks
    ]
    assert found[0].converged
    np.testing.assert_allclose(found[0].objective, found[1].objective, rtol=1e-7)
    np.testing.assert_allclose(found[0]._mixture.grams[0].diagonal(), (X**2).sum(axis=1))


def of_very_different_scale() -> tuple[KernelProblem, Any]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    X = 3.0 * rng.standard_normal((90, 6)) + 8.0 * np.eye(3, 6)[y]
    cubes = np.einsum("ti,tj->tij", X, X).reshape(90, -1)
    features = [X, 5.0 * cubes, 0.1 * X]
    return KernelProblem.of([F @ F.T for F in features], y), features


def test_kernels_that_are_large_beside_the_strength_come_to_the_gap() -> None:
    """Check an optimum with almost no loss: the returned point must be as long as this needs."""
    problem, features = of_very_different_scale()
    solver = FrankWolfeMKL(problem, SparseMKL(1e-3), tol=1e-2, max_epochs=300, random_state=0).solve()
    assert solver.converged
    coefficients, _, _ = solver.parts()
    theta = [a.T @ X for a, X in zip(coefficients, features, strict=True)]
    scores = sum(X @ w.T for w, X in zip(theta, features, strict=True))
    gold = scores[np.arange(90), problem.y][:, None]
    loss = np.max(scores - gold + 1.0 - np.eye(3)[problem.y], axis=1).mean()
    value = loss + 5e-4 * sum(np.linalg.norm(w) for w in theta) ** 2
    assert solver.objective == pytest.approx(value, rel=1e-6)
    assert loss < 0.1 * value


def test_a_run_that_stops_early_says_why() -> None:
    problem, _ = of_very_different_scale()
    with pytest.warns(UserWarning, match=r"2 passes ended at a gap of .* mean diagonals are .* normalise the kernels"):
        FrankWolfeMKL(problem, SparseMKL(1e-3), tol=1e-6, max_epochs=2, random_state=0).solve()
