"""The rules of online learning with kernels, by their numbers: blocks held at zero, and the automatic step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom.penalties import ElasticNetMKL, GroupLasso, LqMKL, SparseMKL
from spom.solvers.mkl.online.coefficients import SQUARED
from spom.solvers.mkl.online.solver import OnlineKernels, thresholds
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem


def held(
    penalty: Any, frozen: list[bool], gradient: list[float], norms: list[float], chain: bool = False
) -> list[bool]:
    """Return a solver's decision after a pass that ended with these norms and gradients of its blocks."""
    count = len(frozen)
    offsets = [0, 2, 4] if chain else None
    problem = KernelProblem.of([np.eye(4)] * count, [0, 1, 1, 0], 2, offsets)
    solver = OnlineKernels(problem, penalty=penalty, screen=True)
    table = np.zeros((4, count + 1))
    table[SQUARED, :count] = np.square(norms)
    table[SQUARED, count] = 100.0
    model = SimpleNamespace(table=table, frozen=np.array(frozen))
    work = SimpleNamespace(model=model, gradient_norms=lambda rng: np.array(gradient))
    found: list[bool] = solver._held(work, np.random.default_rng(0)).tolist()  # type: ignore[arg-type]
    return found


def test_a_block_between_the_two_edges_stays_as_it_is() -> None:
    """Held below .8 of the threshold, let go above all of it: at .9 nothing changes."""
    gradient = [0.9, 0.9, 0.79, 0.81, 1.01, 0.99, 5.0]
    frozen = [True, False, False, False, True, True, False]
    assert held(GroupLasso(1.0), frozen, gradient, [1.0] * 7) == [True, False, True, False, False, True, False]


def test_the_edge_is_the_slope_of_the_penalty_and_leaves_transitions_out() -> None:
    # strength times the sum of the norms is .5 * 6 = 3, with or without transitions, whose weight is fixed.
    for chain in (False, True):
        assert held(SparseMKL(0.5), [False] * 3, [2.3, 2.5, 9.0], [1.0, 2.0, 3.0], chain) == [True, False, False]


def test_the_block_with_the_largest_gradient_is_never_held() -> None:
    assert held(GroupLasso(10.0), [False, True], [0.1, 0.2], [1.0, 1.0]) == [True, False]


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (SparseMKL(0.5, weights=[1.0, 2.0, 4.0]), [6.5, 13.0, 26.0]),
        (GroupLasso(0.5, weights=[1.0, 2.0, 4.0]), [0.5, 1.0, 2.0]),
        (ElasticNetMKL(0.5, l1_ratio=0.4), [1.2, 1.2, 1.2]),
        (LqMKL(0.5, q=1.5), [0.0, 0.0, 0.0]),
    ],
    ids=repr,
)
def test_thresholds_by_hand(penalty: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(thresholds(penalty, np.array([3.0, 1.0, 2.0])), expected)


@pytest.mark.parametrize(("loss", "factor"), [("hinge", 1.0), ("perceptron", 1.0), ("log", 3.0)])
def test_the_automatic_step_is_one_over_the_mean_diagonal(loss: str, factor: float) -> None:
    # Mean diagonals 2.5 and 4 of the kernels, mean squared lengths of rows (1 + 4 + 9 + 0) / 4 and 2 of the others.
    X = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]))
    ones = ExplicitBlock(np.arange(0, 9, 2), np.array([0, 1] * 4, dtype=np.int32), 2)
    grams = [np.diag([1.0, 2.0, 3.0, 4.0]), sparse.csr_matrix(4.0 * np.eye(4))]
    problem = KernelProblem.of(grams, [0, 1, 1, 0], 2, [0, 2, 4], explicit=[ExplicitBlock.of_matrix(X), ones])
    rule = OnlineKernels(problem, loss=loss, epochs=5).step
    # Two rounds in each of 5 passes, falling to zero.
    sizes = rule.sizes(1, 10, 2)
    assert sizes[0] == pytest.approx(factor / 12.0, rel=0.11)
    assert rule.eta0 == pytest.approx(factor / 12.0)  # type: ignore[attr-defined]
    assert sizes[-1] < 0.2 * sizes[0]
