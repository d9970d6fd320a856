"""Proximal points of one score and of several, pass by pass, against the same passes written out naively."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from spom.losses import Logistic
from spom.penalties import L1, ElasticNet, GroupLasso, GroupLInf, SquaredL2, Zero
from spom.solvers.linear import proximal_point_pairs
from spom.solvers.linear.data import as_rows
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.problem import compiled_loss
from spom.solvers.linear.proximal_point_loops import (
    HINGE,
    LOGISTIC,
    OTHER,
    SQUARED,
    SQUARED_HINGE,
    Anchored,
    DualSteps,
    close_pass,
    dual_pass,
    implicit_slope,
    logistic_slope,
    take_roots,
)
from spom.solvers.linear.proximal_point_pairs import Columns, Slopes, find_pairs, read_slopes, sum_slopes, write_slopes
from spom.solvers.linear.proximal_point_threads import merge, receive, send
from tests.solvers.linear import passes
from tests.solvers.linear.rounds import awkward, soft, value
from tests.solvers.linear.test_trajectories import cap, check, shrink


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "power-hinge"])
@pytest.mark.parametrize(("l1", "l2", "intercept"), [(0.03, 0.0, True), (0.0, 0.4, False), (0.02, 0.2, True)])
def test_one_score(kind: str, loss: str, l1: float, l2: float, intercept: bool) -> None:
    A, y, weight = awkward(4, 17)
    penalty: Any = L1(l1) if l2 == 0.0 else SquaredL2(l2) if l1 == 0.0 else ElasticNet(l1 + l2, l1 / (l1 + l2))
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, loss=loss, penalty=penalty, epochs=6, fit_intercept=intercept,
        sample_weight=weight, shuffle=False,
    )  # fmt: skip
    theirs, _ = passes.proximal_point(A, y, weight, loss, l1, l2, intercept, 6)
    check(solver, theirs, "proximal-point", 1e-9)


def test_passes_that_raise_the_objective_are_taken_back() -> None:
    rejected = 0
    for seed in range(4):
        A, y, weight = awkward(seed, 11, 4)
        solver = OnlineProximal(A, y, loss="squared", penalty=Zero(), epochs=8, sample_weight=weight, shuffle=False)
        theirs, judge = passes.proximal_point(A, y, weight, "squared", 0.0, 0.0, False, 8)
        check(solver, theirs, "proximal-point", 1e-9)
        rejected += judge.rejected
    assert rejected > 0


@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (1, 1)])
def test_one_row_and_one_column(shape: tuple[int, int]) -> None:
    A, y, weight = awkward(21, *shape)
    A = A + A.__class__(np.full(shape, 0.5))
    for intercept in (True, False):
        solver = OnlineProximal(A, y, penalty=L1(0.01), epochs=3, fit_intercept=intercept, sample_weight=weight)
        solver.shuffle = False
        theirs, _ = passes.proximal_point(A, y, weight, "logistic", 0.01, 0.0, intercept, 3)
        check(solver, theirs, "proximal-point")


ROWS: dict[str, tuple[Any, Any, float, Any]] = {
    "l1": (L1(0.02), lambda w, j: soft(w, 0.02), 0.0, lambda w: 0.02 * np.abs(w).sum()),
    "both": (
        ElasticNet(0.4, 0.05),
        lambda w, j: soft(w, 0.02),
        0.38,
        lambda w: 0.02 * np.abs(w).sum() + 0.19 * (w * w).sum(),
    ),
    "ridge": (SquaredL2(0.3), lambda w, j: w, 0.3, lambda w: 0.15 * (w * w).sum()),
    "l2 rows": (
        GroupLasso(0.05, "rows", weights=[0.5, 1.0, 2.0, 1.0, 0.0, 1.5]),
        lambda w, j: shrink(w, 0.05 * [0.5, 1.0, 2.0, 1.0, 0.0, 1.5][j]),
        0.0,
        lambda w: 0.05 * float(np.array([0.5, 1.0, 2.0, 1.0, 0.0, 1.5]) @ np.linalg.norm(w, axis=1)),
    ),
    "linf rows": (
        GroupLInf(0.05, "rows"),
        lambda w, j: cap(w, 0.05),
        0.0,
        lambda w: 0.05 * float(np.abs(w).max(axis=1).sum()),
    ),
}


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("loss", ["multiclass-logistic", "multiclass-power-hinge"])
@pytest.mark.parametrize("penalty", ROWS)
@pytest.mark.parametrize("intercept", [True, False])
def test_several_scores(kind: str, loss: str, penalty: str, intercept: bool) -> None:
    A, y, weight = awkward(6, 14, classes=3)
    omega, prox, l2, worth = ROWS[penalty]
    options = {"columns": 3, "intercept": intercept, "epochs": 5, "l2": l2, "value": worth, "ridge": penalty == "ridge"}
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, loss=loss, penalty=omega, epochs=5, fit_intercept=intercept,
        sample_weight=weight, shuffle=False, outputs=3,
    )  # fmt: skip
    theirs, _ = passes.by_rows(A, y, weight, loss, options, prox)
    check(solver, theirs, f"proximal-point, {'ridge' if penalty == 'ridge' else 'rows'}", 1e-10)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("width", [3, 64])
def test_pairs(monkeypatch: Any, intercept: bool, width: int) -> None:
    """Check pairs of features and classes, in parts of two features, with few derivatives per row or all of them."""
    monkeypatch.setattr(proximal_point_pairs, "LARGE", 0)
    monkeypatch.setattr(proximal_point_pairs, "KEPT", width)
    monkeypatch.setattr(proximal_point_pairs, "PART", 10)
    A, y, weight = awkward(8, 15, classes=5)
    counts = np.bincount(y, weights=weight / weight.mean(), minlength=5) + 1.0

    def keep(s: Any) -> Any:
        small = np.abs(s) <= 2.0 / 3.0
        rest = s[small].sum() / counts[small].sum() if small.any() else 0.0
        return np.where(small, rest * counts, s)

    options = {
        "columns": 5, "intercept": intercept, "epochs": 4, "l2": 0.0, "pairs": 0.004,
        "value": lambda w: 0.004 * np.abs(w).sum(), "keep": keep if width == 3 else lambda s: s,
    }  # fmt: skip
    solver = OnlineProximal(
        A, y, loss="multiclass-logistic", penalty=L1(0.004), epochs=4, fit_intercept=intercept, sample_weight=weight,
        shuffle=False, outputs=5,
    )  # fmt: skip
    theirs, _ = passes.by_rows(A, y, weight, "multiclass-logistic", options, lambda w, j: soft(w, 0.004))
    states = list(solver)
    assert solver.engine is not None
    assert solver.engine.name == "proximal-point, pairs"
    assert solver.engine.slopes.shape == (15, min(width, 5))  # type: ignore[attr-defined]  # this engine has it
    for state, theta, loss in zip(states, theirs.thetas, theirs.losses, strict=True):
        np.testing.assert_allclose(state.theta.toarray(), theta, atol=1e-10)
        assert state.loss == pytest.approx(loss, rel=1e-9)


def test_derivatives_that_are_kept() -> None:
    """Those above the bound as they are, the sum of the others in proportion to the prior."""
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    slopes = Slopes(np.full((3, 2), -1, np.int32), np.zeros((3, 2)), np.zeros(3), prior, 0.5, 0.5)
    out = np.full(4, np.nan)
    read_slopes(slopes, 1, out)
    np.testing.assert_array_equal(out, np.zeros(4))
    new = np.array([0.1, -0.9, 0.2, 0.5])
    write_slopes(slopes, 1, new)
    np.testing.assert_allclose(new, [0.1, -0.9, 0.3, 0.4])
    assert slopes.rest[1] == pytest.approx(0.8 / 0.8)
    np.testing.assert_array_equal(slopes.places[1], [1, -1])
    new = np.array([0.7, -0.6, 0.1, 0.1])
    write_slopes(slopes, 1, new)
    np.testing.assert_allclose(new, [0.7, -0.6, 0.3 * 2 / 7, 0.4 * 2 / 7])
    np.testing.assert_array_equal(slopes.places[1], [0, 1])
    read_slopes(slopes, 1, out)
    np.testing.assert_array_equal(out, new)
    for i in (0, 2):
        read_slopes(slopes, i, out)
        np.testing.assert_array_equal(out, np.zeros(4))
    total = np.full(4, 7.0)
    sum_slopes(slopes, np.array([0.3, 0.5, 0.2]), total)
    np.testing.assert_allclose(total, -0.5 * new)
    # All above the bound: nothing is left for the rest.
    whole = Slopes(np.full((1, 2), -1, np.int32), np.zeros((1, 2)), np.ones(1), np.array([0.5, 0.5]), -1.0, 0.5)
    kept = np.array([0.3, -0.3])
    write_slopes(whole, 0, kept)
    assert whole.rest[0] == 0.0
    read_slopes(whole, 0, out[:2])
    np.testing.assert_array_equal(out[:2], [0.3, -0.3])


def test_pairs_of_some_features() -> None:
    """u = M theta - sum_i share_i a_i x_i over the pairs that occur together or are above the threshold."""
    random = np.random.default_rng(0)
    n, d, k, low = 9, 5, 4, 2
    A, y, _ = awkward(12, n, d, k)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    slopes = Slopes(np.full((n, 2), -1, np.int32), np.zeros((n, 2)), np.zeros(n), prior, 0.5, 0.5)
    table = np.zeros((n, k))
    for i in range(n):
        table[i] = random.standard_normal(k) * [0.3, 2.0, 0.1, 0.2]
        table[i, 2:] = np.clip(table[i, 2:], -0.4, 0.4)
        write_slopes(slopes, i, table[i])
    theta = np.where(random.random((d, k)) < 0.4, random.standard_normal((d, k)), 0.0)
    from scipy import sparse

    w, columns, share, metric = sparse.csr_matrix(theta), A.tocsc(), random.random(n), random.random(d) + 0.5
    x = Columns(
        columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data, y.astype(float), share,
        w.indptr.astype(np.int64), w.indices.astype(np.int32), w.data, metric,
    )  # fmt: skip
    ends, classes, u = np.full(d - low + 1, low, np.int64), np.empty(d * k, np.int32), np.empty(d * k)
    for l1 in (0.3, 100.0, 0.0):
        ends[:] = low
        count = find_pairs(x, slopes, l1, ends, classes, u)
        expected = metric[:, None] * theta - A.toarray().T @ (share[:, None] * table)
        stored = A.tocoo()
        together = {(j, y[i]) for i, j in zip(stored.row, stored.col, strict=True)}
        pairs = [
            (j, c) for j in range(low, d) for c in range(k) if (j, c) in together or abs(expected[j, c]) > l1 + 1e-12
        ]
        if l1 > 0.0:
            assert count == len(pairs)
            np.testing.assert_array_equal(classes[:count], [c for _, c in pairs])
            np.testing.assert_array_equal(ends[1:], [sum(j <= at for j, _ in pairs) for at in range(low, d)])
            np.testing.assert_allclose(u[:count], [expected[pair] for pair in pairs], atol=1e-12)


@pytest.mark.parametrize("code", [LOGISTIC, SQUARED, HINGE, SQUARED_HINGE, OTHER])
@pytest.mark.parametrize("intercept", [True, False])
def test_boosted_steps(code: int, intercept: bool) -> None:
    """Check a thread's steps: its changes have more weight, and those below the smallest one are postponed."""
    loss = ["logistic", "squared", "hinge", "power-hinge", "power-hinge"][code]
    A, y, weight = awkward(13 + code, 12)
    weight = weight / weight.mean()
    from spom.core.registry import make

    rows, whole = as_rows(A, y, weight, "real"), make("loss", loss)
    random = np.random.default_rng(code)
    for dense in (False, True):
        rows = as_rows(A.toarray() if dense else A, y, weight, "real")
        u = np.ascontiguousarray(np.column_stack([random.standard_normal(6 + intercept), random.random(6 + intercept)]))
        slopes, numbers = random.standard_normal(12) * 0.3, np.array([0.35, 5.0])
        B = np.column_stack([A.toarray(), np.ones(12)])[:, : 6 + intercept]
        z, s, total, moved = u[:, 0].copy(), slopes.copy(), 0.0, 5.0
        cut = np.append(np.full(6, 0.4), np.zeros(int(intercept)))
        for i in (3, 0, 11, 5, 2, 1, 7):
            over = soft(z, cut)
            a = float(B[i] @ (over * u[:, 1]))
            on = (over != 0.0) | (np.arange(6 + intercept) == 6)
            q = 1.7 * weight[i] / 12 * float((B[i] ** 2 * u[:, 1])[on].sum())
            new = passes.implicit(loss, y[i], a, q, s[i])
            total, moved = total + weight[i] * value(loss, y[i], a), moved + abs(new - s[i])
            if abs(new - s[i]) > 0.35:
                z -= 1.7 * weight[i] / 12 * (new - s[i]) * B[i]
                s[i] = new
        state = DualSteps(u, slopes, numbers, 0.4, 1.7, intercept, code)
        found = dual_pass(rows.examples(np.array([3, 0, 11, 5, 2, 1, 7])), compiled_loss(whole), state)
        assert found == pytest.approx(total, rel=1e-9)
        assert numbers[1] == pytest.approx(moved, rel=1e-8)
        np.testing.assert_allclose(slopes, s, atol=1e-8)
        np.testing.assert_allclose(u[:, 0], z, atol=1e-8)


def test_logistic_steps_are_two_newton_steps() -> None:
    for y in (1.0, -1.0):
        for a in (-3.0, -0.2, 0.0, 0.7, 40.0):
            for q, old in ((0.0, 0.2), (0.7, -0.4), (5.0, 0.9)):
                found, s = logistic_slope(y, a, q, old)
                assert found == pytest.approx(value("logistic", y, a), rel=1e-12)
                assert s == pytest.approx(passes.implicit("logistic", y, a, q, old), rel=1e-12)


def test_bisection_solves_the_implicit_equation() -> None:
    loss = compiled_loss(Logistic())
    for y, a, q, old in ((1.0, -3.0, 2.0, 0.4), (-1.0, 0.5, 9.0, -0.7), (1.0, 30.0, 0.5, 0.9), (1.0, 0.0, 0.0, 0.3)):
        s = implicit_slope(y, a, q, old, OTHER, loss)
        assert s == pytest.approx(-y / (1.0 + math.exp(y * (a - q * (s - old)))), abs=1e-8)


def test_a_pass_is_closed_in_parts() -> None:
    random = np.random.default_rng(1)
    size, features = 7, 5
    anchor, dual, metric = random.standard_normal(size), random.standard_normal(size), random.random(size) + 0.1
    state = Anchored(anchor, dual, metric, 0.7, 0.3, 0.6, features)
    u, point = random.standard_normal((size, 2)), np.full(size, np.nan)
    total = sum(close_pass(u, state, point, first, end) for first, end in ((0, 2), (2, 6), (6, 7)))
    expected = np.append(soft(u[:5, 0], 0.3), u[5:, 0]) * u[:, 1]
    np.testing.assert_allclose(point, expected, rtol=1e-13)
    np.testing.assert_allclose(dual, u[:, 0] - 0.7 * metric * anchor, rtol=1e-12)
    assert total == pytest.approx(0.3 * np.abs(expected[:5]).sum() + 0.3 * (expected[:5] ** 2).sum())


def test_roots() -> None:
    squares = np.array([4.0, 0.0, 0.01, 9.0])
    total, squared = take_roots(squares, 0.25)
    np.testing.assert_allclose(squares, [2.0, 0.5, 0.5, 3.0])
    assert (total, squared) == (pytest.approx(6.0), pytest.approx(13.5))


def test_news_of_threads() -> None:
    u, known, where = np.arange(10.0).reshape(5, 2), np.array([1.0, 10.0]), np.array([1, 4])
    news = np.zeros(2)
    send(u, known, where, 0.5, news)
    np.testing.assert_array_equal(news, [0.5, -1.0])  # half of 2 - 1, and of 8 - 10
    np.testing.assert_array_equal(known, [1.5, 9.0])
    np.testing.assert_array_equal(u[:, 0], [0.0, 1.5, 4.0, 6.0, 9.0])
    receive(u, known, where, np.array([3.0, -2.0]))
    np.testing.assert_array_equal(known, [4.5, 7.0])
    np.testing.assert_array_equal(u[:, 0], [0.0, 4.5, 4.0, 6.0, 7.0])
    np.testing.assert_array_equal(u[:, 1], [1.0, 3.0, 5.0, 7.0, 9.0])


@pytest.mark.parametrize("last", [False, True])
def test_merged_copies(last: bool) -> None:
    copies, agreed = np.zeros((3, 4, 2)), np.array([1.0, 2.0, 3.0, 4.0])
    copies[:, :, 0] = [[2.0, 5.0, 3.0, 9.0], [0.5, 5.0, 7.0, 9.0], [1.0, 5.0, 4.0, 9.0]]
    metric = np.array([0.1, 0.9, 0.5, 0.1])
    merge(copies, agreed, metric, 0.5, 0.4, last, 0, 3)
    # 1 + 0.4 (1 - 0.5 + 0); above the cut the copies agree; 3 + 0.4 (0 + 4 + 1), at the cut; outside of the range.
    np.testing.assert_allclose(copies[0, :, 0], [1.2, 5.0, 5.0, 9.0])
    np.testing.assert_allclose(agreed, [1.0, 2.0, 3.0, 4.0] if last else [1.2, 5.0, 5.0, 4.0])
    if not last:
        np.testing.assert_allclose(copies[:, :3, 0], [[1.2, 5.0, 5.0]] * 3)
    np.testing.assert_array_equal(copies[:, :, 1], 0.0)
