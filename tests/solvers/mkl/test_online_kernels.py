"""Online learning with kernels: equal to the printed algorithm in the explicit space, in all its forms."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom.core.state import State
from spom.errors import DataError, Unsupported
from spom.kernels import DenseGram, Linear, RowGram, SparseGram
from spom.penalties import L1, L2, ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2, Zero
from spom.solvers.iterate import last, take
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem
from spom.solvers.steps import InverseSqrt
from tests.solvers.mkl.naive_spom import naive_run, outputs

Array = np.ndarray[Any, Any]
K, EPOCHS, SIZES = 3, 3, (4, 2, 5)
LENGTHS = np.array([3, 1, 2, 4, 1, 3, 2, 2, 1, 3])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
PENALTIES = [
    SparseMKL(0.02),
    SparseMKL(0.8),
    LqMKL(0.05, q=1.5),
    ElasticNetMKL(0.1, l1_ratio=0.6),
    GroupLasso(0.3),
    SquaredL2(0.1),
    L2(0.2),
    Zero(),
]


def on_norms(penalty: Any) -> Any:
    if hasattr(penalty, "groups"):
        return type(penalty)(**{**penalty.get_params(), "groups": 1})
    return penalty


def data(seed: int = 0) -> tuple[list[Array], Array]:
    rng = np.random.default_rng(seed)
    n = int(OFFSETS[-1])
    features = [rng.standard_normal((n, size)) for size in SIZES]
    # Mostly zero, so that its Gram matrix is sparse.
    features[1] *= rng.random((n, 1)) < 0.4
    return features, rng.integers(0, K, n)


def grams_of(features: list[Array], form: str) -> list[Any]:
    if form == "computed":
        return [RowGram(Linear(), X, np.float64) for X in features]
    values = [X @ X.T for X in features]
    if form == "sparse":
        return [SparseGram(sparse.csr_matrix(G)) if m == 1 else DenseGram(G) for m, G in enumerate(values)]
    return list(values)


def problem_of(form: str, seed: int = 0, chain: bool = True, weight: Any = None) -> KernelProblem:
    features, y = data(seed)
    blocks = [ExplicitBlock.of_matrix(features[1]), ExplicitBlock.of_matrix(sparse.csr_matrix(features[2]))]
    if form == "explicit":
        return KernelProblem.of([], y, K, OFFSETS, chain, [ExplicitBlock.of_matrix(features[0]), *blocks], weight)
    if form == "mixed":
        return KernelProblem.of([features[0] @ features[0].T], y, K, OFFSETS, chain, blocks, weight)
    return KernelProblem.of(grams_of(features, form), y, K, OFFSETS, chain, (), weight)


def orders(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.permutation(LENGTHS.size) for _ in range(EPOCHS)]


def primal(solver: OnlineKernels, theta: Array, features: list[Array]) -> tuple[list[Array], Array]:
    """Return the weights in the explicit space, for any form of a block."""
    A, V, T = solver.parts(theta)
    W = [X.T @ a for X, a in zip(features, A, strict=False)]
    sizes = [block.n_features for block in solver.problem.explicit]
    return [*W, *(part for part in np.split(V, np.cumsum(sizes)[:-1]) if sizes)], T


def agree(form: str, loss: str, penalty: Any, learnt: bool = False, chain: bool = True, **more: Any) -> OnlineKernels:
    features, y = data()
    weight, output = more.pop("weight", None), more.pop("output", "last")
    solver = OnlineKernels(
        problem_of(form, chain=chain, weight=weight),
        loss=loss,
        penalty=penalty,
        transitions="learnt" if learnt else "fixed",
        step=InverseSqrt(0.7),
        epochs=EPOCHS,
        output=output,
        tolerance=0.0,
        random_state=3,
        **more,
    )
    state = last(solver)
    found, T = primal(solver, state.theta, features)
    radius = more.get("radius", np.inf)
    naive = naive_run(
        *(features, y, OFFSETS, K),
        **{"loss": loss, "penalty": on_norms(penalty), "chain": chain, "learnt": learnt, "orders": orders(3)},
        **{"eta": lambda t: 0.7 / np.sqrt(t), "radius": radius, "weight": weight},
    )
    W, own = naive[:2] if output == "last" else naive[2:]
    for a, b in zip(found, W, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(T, own, atol=1e-9)
    norms = [np.linalg.norm(w) for w in [*W, own]]
    np.testing.assert_allclose(state.block_norms, norms, atol=1e-7)
    return solver


@pytest.mark.parametrize("form", ["dense", "sparse", "computed", "explicit", "mixed"])
@pytest.mark.parametrize("loss", ["hinge", "log", "perceptron"])
def test_every_form_of_a_block_equals_the_printed_algorithm(form: str, loss: str) -> None:
    agree(form, loss, SparseMKL(0.02))


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("learnt", [False, True])
def test_every_penalty_equals_the_printed_algorithm(penalty: Any, learnt: bool) -> None:
    agree("dense", "hinge", penalty, learnt)
    agree("mixed", "log", penalty, learnt)


@pytest.mark.parametrize("form", ["dense", "mixed", "explicit"])
@pytest.mark.parametrize("penalty", [SparseMKL(0.8), GroupLasso(0.3), SparseMKL(0.02)], ids=repr)
def test_the_average_counts_every_round(form: str, penalty: Any) -> None:
    agree(form, "hinge", penalty, output="average")
    agree(form, "log", penalty, True, output="average")


def test_classes_weights_and_a_radius() -> None:
    weight = np.linspace(0.0, 2.0, LENGTHS.size)
    agree("dense", "hinge", SparseMKL(0.02), chain=False)
    agree("mixed", "log", SparseMKL(0.02), weight=weight)
    agree("dense", "hinge", SparseMKL(0.02), weight=weight, output="average")
    agree("dense", "hinge", SparseMKL(0.001), radius=0.9)
    agree("mixed", "hinge", SparseMKL(0.001), learnt=True, radius=0.9)


def test_blocks_go_off_and_come_back() -> None:
    solver = OnlineKernels(
        problem_of("dense"), penalty=SparseMKL(0.8), step=InverseSqrt(0.7), epochs=30, random_state=0
    )
    off = np.array([state.block_norms for state in solver])[:, :3] == 0.0
    assert any((before & ~after).any() for before, after in pairwise(off))
    assert any((~before & after).any() for before, after in pairwise(off))


@pytest.mark.parametrize("form", ["dense", "mixed"])
def test_averages_survive_a_scale_that_underflows(form: str) -> None:
    """Shrink a block so strongly per round that its scale underflows within 40 sequences."""
    options = {"loss": "hinge", "penalty": SquaredL2(30.0)}
    agree(form, output="average", **options)
    agree(form, **options)


@pytest.mark.parametrize("output", ["last", "average"])
def test_a_run_resumes_to_the_same_bits(tmp_path: Path, output: str) -> None:
    def solver(**more: Any) -> OnlineKernels:
        options: dict[str, Any] = {"penalty": SparseMKL(0.1), "epochs": 6, "screen": True, "random_state": 5}
        return OnlineKernels(problem_of("mixed"), output=output, **options, **more)

    whole = last(solver())
    half = last(take(solver(), 3))
    half.save(tmp_path / "half")
    again = last(solver(start=State.load(tmp_path / "half")))
    assert again.theta.tobytes() == whole.theta.tobytes()
    assert again.k == whole.k == 6
    other = OnlineKernels(problem_of("dense"), penalty=SparseMKL(0.1), start=half)
    with pytest.raises(ValueError, match="of another run"):
        last(other)


def wide(seed: int = 0) -> tuple[KernelProblem, Array]:
    """Return a problem with one informative kernel and four uninformative ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, 240)
    good = np.eye(K)[y] + 0.3 * rng.standard_normal((240, K))
    noise = [0.3 * rng.standard_normal((240, 2)) for _ in range(4)]
    return KernelProblem.of([X @ X.T for X in [good, *noise]], y, K, np.arange(0, 241, 3)), y


def test_useless_blocks_are_held_at_zero_and_cost_nothing() -> None:
    problem, _ = wide()
    options: dict[str, Any] = {"penalty": SparseMKL(0.1), "epochs": 12, "random_state": 0}
    plain = last(OnlineKernels(problem, objective=True, **options))
    held = last(OnlineKernels(problem, screen=True, objective=True, **options))
    assert (np.asarray(plain.block_norms)[1:5] > 0).any()
    assert (np.asarray(held.block_norms)[1:5] == 0).all()
    assert np.asarray(held.block_norms)[0] > 0
    assert held.objective < plain.objective * 1.02
    # Rows that were read: of one kernel after the first passes, and of five without.
    assert held.internal["counts"][4] < 0.6 * plain.internal["counts"][4]


def test_states_without_copies_end_the_same() -> None:
    options: dict[str, Any] = {"penalty": SparseMKL(0.02), "epochs": 3, "random_state": 1}
    kept = list(OnlineKernels(problem_of("mixed"), **options))
    shared = list(OnlineKernels(problem_of("mixed"), copies=False, **options))
    np.testing.assert_array_equal(kept[-1].theta, shared[-1].theta)
    # The first state of the one run is still that of the first pass; the other's has moved on.
    assert not np.array_equal(kept[0].theta, kept[-1].theta)
    assert np.shares_memory(shared[0].theta, shared[-1].theta)


def test_a_block_that_is_held_comes_back(tmp_path: Path) -> None:
    """Held by hand at the fourth pass, and let go by the look after the eighth."""
    problem, _ = wide()
    options: dict[str, Any] = {"penalty": SparseMKL(0.1), "epochs": 12, "random_state": 0, "screen": True}
    state = last(take(OnlineKernels(problem, **options), 5))
    state.internal["frozen"][:] = [True, False, False, False, False]
    state.theta[: 240 * K] = 0.0
    state.internal["scores"][0] = 0.0
    norms = [s.block_norms[0] for s in OnlineKernels(problem, start=state, **options) if s.block_norms is not None]
    assert norms[0] == 0.0
    assert norms[-1] > 0.0


def test_the_objective_is_that_of_the_problem() -> None:
    features, y = data()
    solver = OnlineKernels(problem_of("dense"), penalty=SparseMKL(0.1), epochs=2, objective=True, random_state=0)
    state = last(solver)
    W, T = primal(solver, state.theta, features)
    total = 0.0
    for a, b in pairwise(OFFSETS):
        unary = sum(X[a:b] @ w for X, w in zip(features, W, strict=True))

        def score(out: Any, unary: Any = unary) -> float:
            return float(sum(unary[i, x] for i, x in enumerate(out)) + sum(T[pair] for pair in pairwise(out)))

        gold = tuple(y[a:b])
        every = [score(o) + sum(x != g for x, g in zip(o, gold, strict=True)) for o in outputs(b - a, K)]
        total += max(every) - score(gold)
    norms = np.array([np.linalg.norm(w) for w in W])
    expected = total / LENGTHS.size + 0.05 * norms.sum() ** 2 + 0.05 * float((T**2).sum())
    assert state.objective == pytest.approx(expected, abs=1e-9)
    # Looking at the objective changes nothing.
    blind = last(OnlineKernels(problem_of("dense"), penalty=SparseMKL(0.1), epochs=2, random_state=0))
    assert blind.theta.tobytes() == state.theta.tobytes()


def test_a_small_cache_of_rows_gives_the_same_as_the_whole_matrix() -> None:
    kept = last(OnlineKernels(problem_of("dense"), penalty=SparseMKL(0.02), epochs=3, random_state=1))
    for slots in (12, 20):
        solver = OnlineKernels(problem_of("computed"), penalty=SparseMKL(0.02), epochs=3, random_state=1, slots=slots)
        np.testing.assert_allclose(last(solver).theta, kept.theta, atol=1e-9)
    with pytest.raises(DataError, match="give more memory"):
        last(OnlineKernels(problem_of("computed"), slots=11))


def test_single_precision_is_close() -> None:
    features, y = data()
    grams = [(X @ X.T).astype(np.float32) for X in features]
    single = OnlineKernels(KernelProblem.of(grams, y, K, OFFSETS), penalty=SparseMKL(0.02), epochs=3, random_state=1)
    double = OnlineKernels(problem_of("dense"), penalty=SparseMKL(0.02), epochs=3, random_state=1)
    np.testing.assert_allclose(last(single).theta, last(double).theta, atol=1e-4)


def test_bad_input_has_one_clear_error() -> None:
    problem = problem_of("dense")
    with pytest.raises(Unsupported, match="penalty of their norms"):
        OnlineKernels(problem, penalty=L1(0.1))
    with pytest.raises(Unsupported, match="loss must be one of"):
        OnlineKernels(problem, loss="squared")
    with pytest.raises(Unsupported, match="transitions must be"):
        OnlineKernels(problem, transitions="none")
    with pytest.raises(Unsupported, match="output must be"):
        OnlineKernels(problem, output="best")
    with pytest.raises(ValueError, match="epochs must be"):
        OnlineKernels(problem, epochs=0)
    with pytest.raises(DataError, match="must be square"):
        KernelProblem.of([np.ones((2, 3))], [0, 1])
    with pytest.raises(DataError, match="for 2 tokens, but y has 3"):
        KernelProblem.of([np.eye(3), np.eye(2)], [0, 1, 1])
    with pytest.raises(DataError, match="not positive semidefinite"):
        KernelProblem.of([np.array([[1.0, 0.0], [0.0, -1.0]])], [0, 1])
    with pytest.raises(DataError, match="offsets must rise"):
        KernelProblem.of([np.eye(3)], [0, 1, 1], offsets=[0, 2])
    with pytest.raises(DataError, match="only 2 labels"):
        KernelProblem.of([np.eye(3)], [0, 1, 2], n_labels=2)


def test_empty_sequences_are_passed_over() -> None:
    problem = KernelProblem.of([np.eye(2)], [0, 1], 2, [0, 0, 1, 1, 2, 2])
    assert last(OnlineKernels(problem, penalty=SparseMKL(0.01), epochs=2, random_state=0)).loss >= 0.0
