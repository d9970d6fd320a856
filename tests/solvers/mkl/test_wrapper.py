"""The wrappers: their machine against Pegasos written down with explicit features, and where they end up."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from spom.errors import DataError, Unsupported
from spom.penalties import ElasticNetMKL, GroupLasso, SparseMKL
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.mkl.wrapper import WrapperMKL
from tests.solvers.mkl.mkl_oracle import optimum, tiny
from tests.solvers.mkl.test_frank_wolfe import S, squared_sum


def features_of(labels: Any, tokens: Any, X: Any, k: int, roots: tuple[float, float]) -> Any:
    """Return the joint features of a sequence, each block times the root of its scale."""
    unary, pairs = np.zeros((k, X.shape[1])), np.zeros((k, k))
    for y, t in zip(labels, tokens, strict=True):
        unary[y] += X[t]
    for a, b in itertools.pairwise(labels):
        pairs[a, b] += 1.0
    return np.concatenate([roots[0] * unary.ravel(), roots[1] * pairs.ravel()])


def naive_pegasos(problem: KernelProblem, X: Any, strength: float, passes: int, seed: int, t: int = 0) -> Any:
    """1/2 norm(w)^2 + mean loss by Pegasos with every output written down; K has the scale 1 / strength."""
    k, rng = problem.n_labels, np.random.default_rng(seed)
    root = (strength**-0.5, strength**-0.5)
    radius = np.sqrt(np.diff(problem.offsets).mean())
    w = np.zeros(k * X.shape[1] + k * k)
    for _ in range(passes):
        for i in rng.permutation(problem.n_sequences):
            t += 1
            tokens = range(problem.offsets[i], problem.offsets[i + 1])
            gold = [int(problem.y[u]) for u in tokens]
            right = features_of(gold, tokens, X, k, root)
            outputs = list(itertools.product(range(k), repeat=len(gold)))
            # Of outputs with equal scores the lower label wins, the last token first.
            outputs.sort(key=lambda labels: labels[::-1])
            found = [features_of(labels, tokens, X, k, root) for labels in outputs]
            wrong = [sum(a != b for a, b in zip(labels, gold, strict=True)) for labels in outputs]
            best = found[int(np.argmax(np.round([w @ f + c for f, c in zip(found, wrong, strict=True)], 12)))]
            w = (1 - 1 / t) * w + (right - best) / t
            w *= min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    return w


@pytest.mark.parametrize("offset", [0, 3])
def test_the_machine_is_pegasos(offset: int) -> None:
    problem, features = tiny(0, sequences=5)
    one = KernelProblem.of([problem.grams[0]], problem.y, problem.n_labels, problem.offsets)
    solver = WrapperMKL(one, SparseMKL(S), epochs=4, first=4, offset=offset, random_state=1).solve()
    coefficients, _, T = solver.parts()
    theta = (coefficients[0].T @ features[0]).ravel()
    w = naive_pegasos(one, features[0], S, 4, 1, offset * one.n_sequences)
    # theta = sqrt(scale) w, block by block.
    assert np.concatenate([theta, T.ravel()]) == pytest.approx(w * S**-0.5, abs=1e-9)


@pytest.mark.parametrize("method", ["gauss-seidel", "simple"])
def test_they_come_close_to_the_optimum(method: str) -> None:
    problem, features = tiny(2)
    best, _ = optimum(problem, features, squared_sum, S)
    solver = WrapperMKL(problem, SparseMKL(S), method, epochs=600, random_state=0)
    values = [state.objective for state in solver]
    assert min(values) >= best - 1e-7
    assert values[-1] <= 1.03 * best
    assert solver.beta.sum() == pytest.approx(1.0)
    assert (solver.beta >= 0).all()


def test_passes_are_counted_honestly() -> None:
    problem, _ = tiny(1)
    states = list(WrapperMKL(problem, SparseMKL(S), "simple", epochs=15, first=4, later=3, random_state=0))
    assert [s.k for s in states] == list(range(1, 16))
    assert [int(s.internal["call"]) for s in states] == [1] * 4 + [2] * 3 + [3] * 3 + [4] * 3 + [5] * 2
    assert states[-1].counters.gradients == 15 * problem.n_sequences
    # The kernel weights are those of the call.
    for a, b in itertools.pairwise(states):
        if a.internal["call"] == b.internal["call"]:
            assert (a.internal["beta"] == b.internal["beta"]).all()


@pytest.mark.parametrize("penalty", [SparseMKL(S, weights=[1.0, 2.0, 0.5]), GroupLasso(S), ElasticNetMKL(S)])
def test_the_kernel_weights_follow_the_norms(penalty: Any) -> None:
    """After a call, the scales are those at which sum b^2 / s has the derivative of the penalty."""
    problem, _ = tiny(4, chain=False, sequences=12)
    solver = WrapperMKL(problem, penalty, epochs=5, first=4, later=1, random_state=0)
    states = iter(solver)
    for _ in range(4):
        next(states)
    b = solver._scales * solver._norms
    next(states)
    assert b / solver._scales == pytest.approx(solver.blocks.slopes(b), rel=1e-9)


def test_the_same_seed_gives_the_same_bits() -> None:
    problem, _ = tiny(3)
    one, two = (WrapperMKL(problem, SparseMKL(S), "simple", epochs=30, random_state=5).solve() for _ in range(2))
    assert one.coef.tobytes() == two.coef.tobytes()


def test_what_the_wrappers_refuse() -> None:
    problem, _ = tiny(0)
    with pytest.raises(Unsupported, match="simplex"):
        WrapperMKL(problem, GroupLasso(1.0), "simple")
    with pytest.raises(ValueError, match="method"):
        WrapperMKL(problem, method="other")
    with pytest.raises(DataError):
        WrapperMKL(KernelProblem.of([], [0, 1]))
