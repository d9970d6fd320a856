"""Scores, squares, block scales, the p-norm map and the baselines on small awkward rows, against plain arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from spom.losses import Logistic
from spom.mirror import PNorm
from spom.penalties import L1, ElasticNet, GroupLasso, Zero
from spom.penalties.forms import compiled_prox
from spom.solvers import Pegasos, Subgradient
from spom.solvers.linear.baselines import pegasos_rounds
from spom.solvers.linear.block_scales import PEAK, SCALE, SQUARED, Scales, block_rounds, move_row, renew, shrink_blocks
from spom.solvers.linear.data import as_rows
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.problem import Rounds, compiled_loss
from spom.solvers.linear.scores import row_scores
from tests.solvers.linear.rounds import Array, awkward, slope, soft, value


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_scores_and_squares(kind: str) -> None:
    A, y, weight = awkward(1)
    X = A.toarray()
    rows = as_rows(A if kind == "sparse" else X, y, weight, "real", mean=False)
    theta = np.random.default_rng(0).standard_normal(7)
    for order in (np.array([3, 0, 12, 5]), np.array([12]), np.arange(13)):
        out = np.full(order.size, np.nan)
        row_scores(rows.examples(order), theta, True, out)
        np.testing.assert_allclose(out, X[order] @ theta[:6] + theta[6], atol=1e-13)
        row_scores(rows.examples(order), theta[:6].copy(), False, out)
        np.testing.assert_allclose(out, X[order] @ theta[:6], atol=1e-13)
        np.testing.assert_allclose(
            rows.squares(order), weight[order] @ X[order] ** 2 / max(weight[order].sum(), 1e-300), atol=1e-13
        )


def scales(v: Array, scale: list[float]) -> Scales:
    """Return the blocks {1, 3, 4}, {0, 2} and, without a penalty, {5}."""
    blocks = np.array([1, 0, 1, 0, 0, 2])
    table = np.zeros((3, 3))
    table[SCALE] = scale
    norms = [v[blocks == m] @ v[blocks == m] * scale[m] ** 2 for m in range(3)]
    table[SQUARED] = table[PEAK] = norms
    marks, stamps = np.zeros(6, np.int64), np.zeros(3, np.int64)
    ptr, members = np.array([0, 3, 5]), np.array([1, 3, 4, 0, 2])
    return Scales(v, marks, blocks, stamps, ptr, members, table, np.zeros(3))


def weights(state: Scales) -> Array:
    valid = state.marks == state.stamps[state.blocks]
    return np.asarray(np.where(valid, state.v * state.table[SCALE][state.blocks], 0.0))


def test_a_block_is_summed_up_again() -> None:
    state = scales(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), [0.5, 3.0, 1.0])
    state.stamps[0], state.marks[1], state.marks[3] = 2, 2, 1  # of block 0 only coordinate 1 is valid
    state.table[SQUARED, 0] = state.table[PEAK, 0] = 77.0
    before = state.v.copy()
    renew(state, 0)
    np.testing.assert_array_equal(state.v, [before[0], 1.0, before[2], 0.0, 0.0, before[5]])
    np.testing.assert_array_equal(state.table[:, 0], [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(state.marks, [0, 2, 0, 2, 2, 0])
    renew(state, 1)
    np.testing.assert_array_equal(state.v[[0, 2]], [3.0, 9.0])
    np.testing.assert_array_equal(state.table[:, 1], [1.0, 90.0, 90.0])
    np.testing.assert_array_equal(state.table[SCALE], [1.0, 1.0, 1.0])


@pytest.mark.parametrize("size", [1.0, 1e4, 1e-4])
def test_norms_are_right_after_most_of_them_was_lost(size: float) -> None:
    """Subtract a row that cancels nearly all of a block: the rest of its squared norm must not be rounding."""
    from scipy import sparse

    for block, columns in ((0, [1, 3, 4]), (1, [0, 2])):
        state = scales(np.arange(1.0, 7.0) * size, [0.5, 3.0, 1.0])
        w = weights(state)
        x = np.zeros(6)
        x[columns] = w[columns] * (1.0 - 1e-9)
        x[5] = w[5]
        rows = as_rows(sparse.csr_matrix(x[None]), [1.0], None, "real")
        dots, squares = np.zeros(3), np.zeros(3)
        dots[block], squares[block] = w[columns] @ x[columns], x[columns] @ x[columns]
        dots[2] = squares[2] = x[5] * x[5]
        move_row(rows.examples(np.array([0])), 0, state, 1.0, dots, squares)
        np.testing.assert_allclose(weights(state), w - x, rtol=1e-5, atol=0.0)
        left = (w - x)[columns] @ (w - x)[columns]
        assert state.table[SQUARED, block] == pytest.approx(left, rel=1e-5)
        np.testing.assert_array_equal(dots, np.zeros(3))
        np.testing.assert_array_equal(squares, np.zeros(3))
        other = 1 - block
        assert state.table[SCALE, other] == [0.5, 3.0][other]


def test_a_scale_that_would_underflow_goes_into_its_vector() -> None:
    for scale in (1e-119, 1e-121, 0.5):
        state = scales(np.arange(1.0, 7.0), [scale, 1.0, 1.0])
        w, prox = weights(state), compiled_prox(GroupLasso(1.0, 1, weights=[0.5, 0.25]), 2)
        shrink_blocks(state, prox, scale, np.empty(2))
        norm = math.sqrt(4.0 + 16.0 + 25.0)
        for at, factor in (([1, 3, 4], 1.0 - 0.5 / norm), ([0, 2], 1.0 - 0.25 * scale / math.sqrt(10.0))):
            np.testing.assert_allclose(weights(state)[at], w[at] * factor, rtol=1e-12)
        assert (state.table[SCALE, 0] == 1.0) == (scale < 1e-120)


@pytest.mark.parametrize("intercept", [True, False])
def test_blocks_that_come_back(intercept: bool) -> None:
    """Compare blocks that the prox makes zero in one round, and a row fills in the next, with dense arrays."""
    random = np.random.default_rng(5)
    A = np.where(random.random((40, 6)) < 0.5, random.standard_normal((40, 6)), 0.0)
    y = np.where(random.random(40) < 0.5, 1.0, -1.0)
    rows = as_rows(A, y, None, "real")
    state = scales(np.zeros(6), [1.0, 1.0, 1.0])
    prox = compiled_prox(GroupLasso(0.9, 1, weights=[1.0, 0.6]), 2)
    steps = Rounds(np.linspace(0.9, 0.3, 40), 1, 0, 0.0, intercept, False)
    total = block_rounds(rows.examples(np.arange(40)), steps, compiled_loss(Logistic()), prox, state)
    w, b, expected, zeros = np.zeros(6), 0.0, 0.0, 0
    for t in range(40):
        a, eta = float(A[t] @ w) + b, float(steps.steps[t])
        expected += value("logistic", y[t], a)
        w = w - eta * slope("logistic", y[t], a) * A[t]
        b -= eta * slope("logistic", y[t], a) * intercept
        for at, weight in (([1, 3, 4], 1.0), ([0, 2], 0.6)):
            norm = float(np.linalg.norm(w[at]))
            w[at] *= max(0.0, 1.0 - 0.9 * weight * eta / norm) if norm > 0.0 else 0.0
            zeros += norm > 0.0 and not w[at].any()
    assert zeros > 5
    np.testing.assert_allclose(weights(state), w, atol=1e-12)
    assert state.sums[2] == pytest.approx(b)
    assert total == pytest.approx(expected)
    for m, at in ((0, [1, 3, 4]), (1, [0, 2])):
        assert state.table[SQUARED, m] == pytest.approx(float(w[at] @ w[at]), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize(("l1", "intercept", "loss"), [(0.0, True, "logistic"), (0.05, False, "hinge")])
def test_the_p_norm_map(kind: str, l1: float, intercept: bool, loss: str) -> None:
    A, y, weight = awkward(5)
    weight[0] = 0.0
    X, q, v, b = A.toarray(), 3.0, np.zeros(6), 0.0
    solver = OnlineProximal(
        A if kind == "sparse" else X, y, loss=loss, penalty=L1(l1) if l1 else Zero(), mirror=PNorm(1.5),
        step=lambda t: 0.5 / math.sqrt(t), epochs=3, fit_intercept=intercept, sample_weight=weight, shuffle=False,
    )  # fmt: skip
    share, t = weight / weight.mean(), 0
    for state in solver:
        total = 0.0
        for i in range(len(y)):
            t += 1
            eta = 0.5 / math.sqrt(t)
            w = primal(v, q)
            a = float(X[i] @ w) + b
            total += share[i] * value(loss, y[i], a)
            s = share[i] * slope(loss, y[i], a)
            v, b = soft(v - eta * s * X[i], eta * l1), b - eta * s * intercept
        np.testing.assert_allclose(state.theta, np.append(primal(v, q), [b] * intercept), rtol=1e-9, atol=1e-12)
        assert state.loss == pytest.approx(total / share.sum())
    assert solver.engine is not None
    assert solver.engine.name == "mirror descent, p-norm"


def primal(v: Array, q: float) -> Array:
    """Return the gradient of 1/2 norm_q^2."""
    norm = float((np.abs(v) ** q).sum() ** (1.0 / q))
    return np.sign(v) * np.abs(v) ** (q - 1.0) / norm ** (q - 2.0) if norm > 0.0 else v


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("project", [True, False])
def test_pegasos(kind: str, project: bool) -> None:
    A, y, weight = awkward(14)
    X, share, s = A.toarray(), weight / weight.mean(), 0.2
    w, t = np.zeros(6), 0
    solver = Pegasos(A if kind == "sparse" else X, y, s, project=project, epochs=3, shuffle=False, sample_weight=weight)
    for state in solver:
        total = 0.0
        for i in range(len(y)):
            t += 1
            total += share[i] * value("hinge", y[i], float(X[i] @ w))
            w = (1.0 - 1.0 / t) * w - share[i] * slope("hinge", y[i], float(X[i] @ w)) * X[i] / (s * t)
            if project:
                w = w * min(1.0, 1.0 / max(math.sqrt(s) * float(np.linalg.norm(w)), 1e-300))
        np.testing.assert_allclose(state.theta, w, rtol=1e-9, atol=1e-12)
        assert state.loss == pytest.approx(total / len(y))


def test_pegasos_leaves_a_margin_of_exactly_one_alone() -> None:
    rows = as_rows(np.array([[1.0, 0.0]]), [1.0], None, "sign")
    v, numbers = np.array([1.0, 4.0]), np.array([1.0, 17.0])
    assert pegasos_rounds(rows.examples(np.array([0])), v, numbers, 0.1, 1, False) == 0.0
    np.testing.assert_array_equal(numbers[0] * v, [0.5, 2.0])


def test_a_scale_of_pegasos_that_would_underflow() -> None:
    A, y, _ = awkward(15)
    rows = as_rows(A, y, None, "sign")
    for a in (1e-101, 0.5):
        v, numbers = np.arange(1.0, 7.0) / a, np.array([a, 91.0])
        pegasos_rounds(rows.examples(np.array([4])), v, numbers, 0.1, 9, False)
        x, w = A.toarray()[4], np.arange(1.0, 7.0)
        expected = 0.9 * w - slope("hinge", y[4], float(x @ w)) * x
        np.testing.assert_allclose(numbers[0] * v, expected, rtol=1e-12)
        assert numbers[1] == pytest.approx(float(expected @ expected))
        assert numbers[0] == (1.0 if a < 1e-100 else pytest.approx(0.45))


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_subgradients(kind: str) -> None:
    A, y, weight = awkward(16)
    X, share, w, t = A.toarray(), weight / weight.mean(), np.zeros(6), 0
    solver = Subgradient(
        A if kind == "sparse" else X, y, penalty=ElasticNet(0.3, 0.4), step=lambda t: 0.4 / t, epochs=3, shuffle=False,
        sample_weight=weight,
    )  # fmt: skip
    for state in solver:
        total = 0.0
        for i in range(len(y)):
            t += 1
            a = float(X[i] @ w)
            total += share[i] * value("logistic", y[i], a)
            g: Any = share[i] * slope("logistic", y[i], a) * X[i]
            w = w - 0.4 / t * (g + 0.12 * np.sign(w) + 0.18 * w)
        np.testing.assert_allclose(state.theta, w, rtol=1e-10, atol=1e-13)
        assert state.loss == pytest.approx(total / len(y))
