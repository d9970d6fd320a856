"""Dual averaging over kernels: equal to its naive twin in the explicit space, in all its forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom.core.state import State
from spom.errors import Unsupported
from spom.kernels import Gaussian, RowGram
from spom.penalties import L1, L2, ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2, TreeGroupLasso, Zero
from spom.solvers.iterate import last, take
from spom.solvers.mkl.dual_averaging.rounds import READ, SCALE, SPREAD, SQUARE
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem, reach
from tests.solvers.mkl.naive_dual_averaging import naive_dual_averaging
from tests.solvers.mkl.test_online_kernels import EPOCHS, LENGTHS, OFFSETS, K, data, on_norms, orders, problem_of, wide

Array = np.ndarray[Any, Any]
LIMIT = 1.7
PENALTIES = [
    SparseMKL(0.02),
    SparseMKL(0.4),
    SparseMKL(0.2, weights=[1.0, 2.0, 0.5]),
    LqMKL(0.05, q=1.5),
    ElasticNetMKL(0.1, l1_ratio=0.6),
    GroupLasso(0.3),
    SquaredL2(0.1),
    L2(0.2),
    Zero(),
]


def weights(solver: DualAveragingKernels, features: list[Array]) -> list[Array]:
    """Return the weights in the explicit space, for any form of a block, with transitions last."""
    A, V, T = solver.parts()
    sizes = [block.n_features for block in solver.problem.explicit]
    explicit = np.split(V, np.cumsum(sizes)[:-1]) if sizes else []
    return [*(X.T @ a for X, a in zip(features, A, strict=False)), *explicit, T]


def agree(form: str, loss: str, penalty: Any, learnt: bool = False, chain: bool = True, **more: Any) -> None:
    features, y = data()
    weight = more.pop("weight", None)
    options = {"loss": loss, "penalty": penalty, "transitions": "learnt" if learnt else "fixed", "step": LIMIT}
    h = on_norms(penalty)
    naive = naive_dual_averaging(
        *(features, y, OFFSETS, K, orders(3)),
        **{"loss": loss, "penalty": h, "limit": LIMIT, "chain": chain, "learnt": learnt, "weight": weight},
        **{"strength": float(getattr(h, "strength", 0.0)), "scaled": more.get("scale", True)},
        radius=more.get("radius", np.inf),
    )
    problem = problem_of(form, chain=chain, weight=weight)
    for output, expected in zip(("last", "average"), naive, strict=True):
        solver = DualAveragingKernels(
            problem, epochs=EPOCHS, tolerance=0.0, random_state=3, output=output, **options, **more
        )
        state = last(solver)
        for a, b in zip(weights(solver, features), expected, strict=False):
            np.testing.assert_allclose(a, b, atol=1e-9)
        sizes = solver.sizes if more.get("scale", True) else np.ones(solver.sizes.size)
        norms = [np.linalg.norm(w) * np.sqrt(s) for w, s in zip(expected, sizes, strict=True)]
        np.testing.assert_allclose(np.asarray(state.block_norms)[: len(features)], norms[:-1], atol=1e-8)
        assert ((np.asarray(state.block_norms)[:-1] == 0.0) == (np.array(norms[:-1]) == 0.0)).all()


@pytest.mark.parametrize("form", ["dense", "sparse", "computed", "explicit", "mixed"])
@pytest.mark.parametrize("loss", ["hinge", "log", "perceptron"])
def test_every_form_of_a_block_equals_the_twin(form: str, loss: str) -> None:
    agree(form, loss, SparseMKL(0.02))


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("learnt", [False, True])
def test_every_penalty_equals_the_twin(penalty: Any, learnt: bool) -> None:
    if learnt and getattr(penalty, "weights", None) is not None:
        penalty = type(penalty)(penalty.strength, weights=[1.0, 2.0, 0.5, 1.5])
    agree("dense", "hinge", penalty, learnt)
    agree("mixed", "log", penalty, learnt)


def test_classes_weights_and_blocks_as_they_are() -> None:
    weight = np.linspace(0.0, 2.0, LENGTHS.size)
    agree("dense", "hinge", SparseMKL(0.02), chain=False)
    agree("mixed", "log", SparseMKL(0.02), weight=weight)
    agree("sparse", "hinge", SparseMKL(0.2), scale=False)


@pytest.mark.parametrize("radius", [0.05, 0.4])
def test_rounds_and_averages_are_projected_onto_a_ball(radius: float) -> None:
    agree("dense", "hinge", SparseMKL(0.02), radius=radius)
    agree("mixed", "log", GroupLasso(0.05), learnt=True, radius=radius)


def test_kernels_in_a_tree_go_together() -> None:
    """Check a tree over blocks: the two kernels of a group share a threshold."""
    problem, _ = wide()
    tree = TreeGroupLasso(1.0, groups=[[0, 1], [2, 3, 4], [2]])
    solver = DualAveragingKernels(problem, penalty=tree, epochs=5, output="last", random_state=0)
    norms = np.asarray(last(solver).block_norms)
    assert norms[0] > 0.0
    assert norms[2] == 0.0


def noisy(M: int = 40, n: int = 120, seed: int = 0) -> KernelProblem:
    """Return a problem with two informative kernels among many uninformative ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    views = [rng.standard_normal((n, 4)) for _ in range(M)]
    for m in (3, 17):
        views[m][:, :K] = 2.0 * np.eye(K)[y] + 0.7 * rng.standard_normal((n, K))
    return KernelProblem.of([Gaussian(4.0).block(X) for X in views], y, K)


def test_useful_kernels_are_chosen_and_rows_of_others_are_left_alone() -> None:
    problem = noisy()
    solver = DualAveragingKernels(problem, epochs=20, random_state=0)
    state = last(solver)
    norms = np.asarray(state.block_norms)
    assert np.count_nonzero(norms) <= 5
    assert norms[[3, 17]].sum() > 0.9 * norms.sum()
    wrong = state.internal["dual.counts"][3]
    assert state.internal["dual.counts"][READ] < 0.9 * wrong * problem.n_blocks


def test_bounds_of_kernels_that_fell_behind_hold() -> None:
    problem = noisy()
    solver = DualAveragingKernels(problem, epochs=1, output="last", random_state=0)
    checked = 0
    for epochs in range(1, 7):
        solver.epochs = epochs
        state = last(solver)
        table, alpha = state.internal["dual.table"], state.internal["dual.alpha"]
        for m, gram in enumerate(problem.grams):
            exact = float(np.vdot(alpha, gram.dot(alpha.T).T))
            bound = table[SQUARE, m] + table[SPREAD, m]
            assert exact <= bound + 1e-9
            if table[SPREAD, m] == 0.0:
                assert bound == pytest.approx(exact, abs=1e-8)
            else:
                assert table[SCALE, m] == 0.0
                checked += 1
    assert checked > 0


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("form", ["mixed", "sparse"])
def test_a_run_resumes_to_the_same_bits(tmp_path: Path, output: str, form: str) -> None:
    def solver(**more: Any) -> DualAveragingKernels:
        options: dict[str, Any] = {"penalty": SparseMKL(0.1), "epochs": 6, "random_state": 5, "output": output}
        return DualAveragingKernels(problem_of(form), **options, **more)

    whole = last(solver())
    half = last(take(solver(), 3))
    half.save(tmp_path / "half")
    again = last(solver(start=State.load(tmp_path / "half")))
    assert again.theta.tobytes() == whole.theta.tobytes()
    assert again.internal["scale"].tobytes() == whole.internal["scale"].tobytes()
    assert again.k == whole.k == 6
    with pytest.raises(ValueError, match="of another run"):
        last(DualAveragingKernels(problem_of("explicit"), start=half))


def test_a_small_cache_of_rows_gives_the_same_as_the_whole_matrix() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, K, 60)
    kernels = [Gaussian(v).fitted(X) for v in (0.5, 2.0, 8.0)]
    kept = DualAveragingKernels(KernelProblem.of([k.block(X) for k in kernels], y, K), epochs=4, random_state=1)
    last(kept)
    for slots in (6, 40):
        problem = KernelProblem.of([RowGram(k, X, np.float64) for k in kernels], y, K)
        solver = DualAveragingKernels(problem, epochs=4, random_state=1, slots=slots)
        last(solver)
        np.testing.assert_allclose(solver.parts()[0], kept.parts()[0], atol=1e-9)


def test_single_precision_is_close_and_scaling_a_kernel_changes_nothing() -> None:
    problem = noisy(M=18)
    double = DualAveragingKernels(problem, epochs=3, random_state=1)
    last(double)
    single = [np.asarray(gram.values, dtype=np.float32) for gram in problem.grams]  # type: ignore[attr-defined]
    for grams, factor in ((single, 1.0), ([100.0 * g.astype(np.float64) for g in single], 100.0)):
        other = DualAveragingKernels(KernelProblem.of(grams, problem.y, K), epochs=3, random_state=1)
        last(other)
        np.testing.assert_allclose(factor * other.parts()[0], double.parts()[0], atol=1e-4)


def test_the_limit_by_hand() -> None:
    problem = KernelProblem.of([np.eye(4)] * 2, [0, 1, 1, 0], 2)
    # s/2 r^2 = 1, the hinge loss of a token at zero; or sqrt(4 tokens) where the penalty allows more.
    assert DualAveragingKernels(problem, penalty=SparseMKL(8.0)).limit == pytest.approx(0.5)
    assert DualAveragingKernels(problem, penalty=SparseMKL(1e-3)).limit == pytest.approx(2.0)
    assert DualAveragingKernels(problem, penalty=Zero()).limit == pytest.approx(2.0)
    log = DualAveragingKernels(problem, loss="log", penalty=GroupLasso(2.0, weights=[3.0, 1.0]))
    assert log.limit == pytest.approx(np.log(2.0) / 2.0)
    assert reach(Zero(), 3, 1.0) == np.inf


def test_sizes_are_mean_squared_lengths() -> None:
    X = np.array([[3.0, 4.0], [0.0, 1.0]])
    ones = ExplicitBlock(np.array([0, 3, 4]), np.array([0, 1, 2, 2], dtype=np.int32), 3)
    problem = KernelProblem.of([np.diag([1.0, 3.0])], [0, 1], explicit=[ExplicitBlock.of_matrix(X), ones])
    np.testing.assert_allclose(DualAveragingKernels(problem).sizes, [2.0, 13.0, 2.0, 1.0])


def test_bad_input_has_one_clear_error() -> None:
    with pytest.raises(ValueError, match="radius must be finite and > 0; it is 0"):
        DualAveragingKernels(wide()[0], radius=0)
    problem = problem_of("dense")
    with pytest.raises(Unsupported, match="penalty of their norms"):
        DualAveragingKernels(problem, penalty=L1(0.1))
    with pytest.raises(Unsupported, match="loss must be one of"):
        DualAveragingKernels(problem, loss="squared")
    with pytest.raises(Unsupported, match="transitions must be"):
        DualAveragingKernels(problem, transitions="none")
    with pytest.raises(Unsupported, match="output must be"):
        DualAveragingKernels(problem, output="best")
    with pytest.raises(ValueError, match="epochs must be"):
        DualAveragingKernels(problem, epochs=0)


def test_empty_sequences_count_as_rounds() -> None:
    problem = KernelProblem.of([np.eye(2)], [0, 1], 2, [0, 0, 1, 1, 2, 2])
    assert last(DualAveragingKernels(problem, epochs=2, random_state=0)).loss >= 0.0


def test_after_choosing_the_blocks_that_are_left_are_learnt_from_zero() -> None:
    problem, passes = noisy(20), 6
    options: dict[str, Any] = {"penalty": SparseMKL(0.05), "step": 10.0}
    first = last(DualAveragingKernels(problem, epochs=passes, random_state=4, **options))
    kept = np.flatnonzero(np.asarray(first.block_norms)[:-1])
    assert 0 < kept.size < 20
    both = DualAveragingKernels(problem, epochs=2 * passes, choosing=passes, random_state=4, **options)
    found = last(both)
    rng = np.random.default_rng()
    rng.bit_generator.state = first.random
    few = KernelProblem.of([problem.grams[m] for m in kept], problem.y, problem.n_labels)
    alone = last(DualAveragingKernels(few, epochs=passes, random_state=rng, **options))
    norms = np.asarray(found.block_norms)
    np.testing.assert_allclose(norms[kept], np.asarray(alone.block_norms)[:-1], rtol=1e-6)
    assert (np.delete(norms[:-1], kept) == 0.0).all()
    np.testing.assert_allclose(found.theta, alone.theta, atol=1e-8)


@pytest.mark.parametrize("at", [2, 3, 5])
def test_a_run_that_chooses_resumes_to_the_same_bits(at: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"penalty": SparseMKL(0.05), "epochs": 6, "choosing": 3, "random_state": 5}
    whole = last(DualAveragingKernels(noisy(20), **options))
    take_at = DualAveragingKernels(noisy(20), **options)
    half = next(state for state in take_at if state.k == at)
    half.save(tmp_path / "half")
    again = last(DualAveragingKernels(noisy(20), start=State.load(tmp_path / "half"), **options))
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(np.asarray(again.block_norms), np.asarray(whole.block_norms))


def test_a_block_of_rare_features_is_scaled_by_the_tokens_that_have_one() -> None:
    block = ExplicitBlock(np.array([0, 0, 0, 0, 0, 2, 2]), np.array([0, 1], dtype=np.int32), 2, np.array([3.0, 4.0]))
    problem = KernelProblem.of([np.eye(6)], [0, 1, 0, 1, 0, 1], explicit=[block])
    assert problem.mean_squares() == [1.0, 25.0 / 6.0]
    assert problem.mean_squares(present=True) == [1.0, 25.0]
    assert DualAveragingKernels(problem).sizes.tolist() == [1.0, 25.0, 1.0]
