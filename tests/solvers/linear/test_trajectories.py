"""Whole trajectories of the online engines on small awkward rows, against the same rounds written out naively."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom.core.state import State
from spom.penalties import L1, L2, ElasticNet, GroupLasso, GroupLInf, L2Ball, SparseMKL, SquaredL2, Sum, Zero
from spom.solvers import steps
from spom.solvers.linear.online import OnlineProximal
from tests.solvers.linear import rounds
from tests.solvers.linear.rounds import Array, Trajectory, awkward, soft

RULES = {
    "plain": (lambda t: 0.4 / math.sqrt(t), lambda t: 0.4 / math.sqrt(t)),
    "adagrad": (steps.AdaGrad(0.5, 0.1), ("adagrad", 0.5, 0.1)),
    "auto": ("auto", ("auto",)),
}
ELASTIC = {
    "zero": (Zero(), 0.0, 0.0),
    "l1": (L1(0.03), 0.03, 0.0),
    "l2": (SquaredL2(0.2), 0.0, 0.2),
    "both": (ElasticNet(0.32, 0.0625), 0.02, 0.3),
}


def check(solver: OnlineProximal, theirs: Trajectory, name: str, atol: float = 1e-11) -> None:
    """Check that the states after each pass, and the average, equal those of the twin."""
    states = list(solver)
    assert solver.engine is not None
    assert solver.engine.name == name
    for state, theta, loss in zip(states, theirs.thetas, theirs.losses, strict=True):
        np.testing.assert_allclose(state.theta, theta, rtol=1e-9, atol=atol)
        assert state.loss == pytest.approx(loss, rel=1e-9)
    if "average" in states[-1].internal:
        np.testing.assert_allclose(states[-1].internal["average"], theirs.average, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("penalty", ELASTIC)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("batch", "intercept", "loss"),
    [(1, True, "logistic"), (5, True, "hinge"), (1, False, "hinge"), (4, False, "squared")],
)
def test_forward_backward(kind: str, penalty: str, rule: str, batch: int, intercept: bool, loss: str) -> None:
    A, y, weight = awkward(batch + len(penalty))
    step, naive = RULES[rule]
    omega, l1, l2 = ELASTIC[penalty]
    lazy = not (rule != "plain" and l2 > 0) and kind == "sparse"
    options = {"epochs": 3, "batch": batch, "intercept": intercept, "rule": naive}
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, loss=loss, penalty=omega, step=step, update="forward-backward",
        lazy=lazy, epochs=3, batch_size=batch, fit_intercept=intercept, sample_weight=weight, shuffle=False,
        output="both",
    )  # fmt: skip
    theirs = rounds.forward_backward(A, y, weight, loss, options, l1, l2)
    check(solver, theirs, f"forward-backward, {'lazy' if lazy else 'eager'}")


@pytest.mark.parametrize("rule", RULES)
def test_lazy_updates_of_dense_rows(rule: str) -> None:
    A, y, weight = awkward(7)
    step, naive = RULES[rule]
    for batch in (1, 3):
        solver = OnlineProximal(
            A.toarray(), y, penalty=L1(0.05), step=step, update="forward-backward", lazy=True, epochs=3,
            batch_size=batch, fit_intercept=True, sample_weight=weight, shuffle=False,
        )  # fmt: skip
        options = {"epochs": 3, "batch": batch, "intercept": True, "rule": naive}
        theirs = rounds.forward_backward(A, y, weight, "logistic", options, 0.05, 0.0)
        check(solver, theirs, "forward-backward, lazy")


def test_a_batch_that_touches_every_coordinate() -> None:
    random = np.random.default_rng(0)
    A = sparse.csr_matrix(random.standard_normal((10, 4)) + 3.0)
    y, weight = np.where(random.random(10) < 0.5, 1.0, -1.0), np.ones(10)
    solver = OnlineProximal(
        A, y, penalty=L1(0.1), step=RULES["plain"][0], update="forward-backward", lazy=True, epochs=2, batch_size=3,
        shuffle=False,
    )  # fmt: skip
    options = {"epochs": 2, "batch": 3, "intercept": False, "rule": RULES["plain"][1]}
    check(solver, rounds.forward_backward(A, y, weight, "logistic", options, 0.1, 0.0), "forward-backward, lazy")


def test_a_coordinate_that_waits_for_many_rounds() -> None:
    """Use the first column only in the first and the last row: its iterates in between are never written."""
    for l1, l2 in ((0.02, 0.0), (0.02, 0.5), (0.0, 0.5), (0.9, 0.0)):
        A, y, weight = awkward(11, 19, 3)
        A = A.tolil()
        A[:, 0] = 0.0
        A[0, 0], A[18, 0] = 2.0, -1.0
        A = A.tocsr()
        weight[0] = 1.0
        penalty = Sum([L1(l1), SquaredL2(l2)])
        options = {"epochs": 2, "batch": 1, "intercept": False, "rule": RULES["plain"][1]}
        solver = OnlineProximal(
            A, y, penalty=penalty, step=RULES["plain"][0], update="forward-backward", lazy=True, epochs=2,
            sample_weight=weight, shuffle=False, output="both",
        )  # fmt: skip
        check(solver, rounds.forward_backward(A, y, weight, "logistic", options, l1, l2), "forward-backward, lazy")


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("penalty", ELASTIC)
@pytest.mark.parametrize(
    ("batch", "intercept", "loss"), [(1, True, "logistic"), (4, False, "hinge"), (5, True, "hinge")]
)
def test_dual_averaging(kind: str, rule: str, penalty: str, batch: int, intercept: bool, loss: str) -> None:
    A, y, weight = awkward(3 + batch)
    step, naive = RULES[rule]
    omega, l1, l2 = ELASTIC[penalty]
    options = {"epochs": 3, "batch": batch, "intercept": intercept, "rule": naive}
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, loss=loss, penalty=omega, step=step, update="dual-averaging",
        epochs=3, batch_size=batch, fit_intercept=intercept, sample_weight=weight, shuffle=False,
    )  # fmt: skip
    check(solver, rounds.dual_averaging(A, y, weight, loss, options, l1, l2), "dual averaging, lazy")


def shrink(w: Array, t: float) -> Array:
    norm = float(np.linalg.norm(w))
    return w * max(0.0, 1.0 - t / norm) if norm > 0.0 else w


def cap(w: Array, t: float) -> Array:
    """Compute the prox of t norm_inf, by the definition of its cap, tried at each number of entries above it."""
    sizes = np.sort(np.abs(w))[::-1]
    if sizes.sum() <= t:
        return np.zeros_like(w)
    caps = [(sizes[:k].sum() - t) / k for k in range(1, w.size + 1)]
    return np.asarray(np.clip(w, -max(caps), max(caps)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("batch", "intercept", "columns"), [(1, True, 0), (4, False, 0), (5, True, 3), (2, False, 3)])
def test_one_step_for_all(rule: str, batch: int, intercept: bool, columns: int) -> None:
    """Run a penalty that couples all coordinates, from a starting point, with a projection after each prox."""
    A, y, weight = awkward(5 + batch, classes=columns)
    step, naive = RULES[rule]
    loss = "multiclass-power-hinge" if columns else "logistic"
    size = A.shape[1] + intercept
    start = np.random.default_rng(0).standard_normal((size, columns) if columns else size) * 0.3
    options: dict[str, Any] = {
        "epochs": 3, "batch": batch, "intercept": intercept, "rule": naive, "columns": columns, "start": start,
    }  # fmt: skip
    more: dict[str, Any] = {}
    if not columns:
        options["project"] = lambda w: w * min(1.0, 0.8 / max(float(np.linalg.norm(w)), 1e-300))
        more["projection"] = L2Ball(0.8)
    else:
        more["outputs"] = columns
    penalty: Any = L2(0.1) if not columns else GroupLasso(0.1, [list(range(A.shape[1]))])
    solver = OnlineProximal(
        A, y, loss=loss, penalty=penalty, step=step, update="forward-backward", lazy=False, epochs=3, batch_size=batch,
        fit_intercept=intercept, sample_weight=weight, shuffle=False, output="both",
        start=State(k=0, theta=start), **more,
    )  # fmt: skip
    theirs = rounds.tied(A, y, weight, loss, options, lambda w, t: shrink(w, 0.1 * t))
    check(solver, theirs, "forward-backward, eager")


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("penalty", ["entries", "both", "ridge", "l2 rows", "linf rows", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
def test_late_rows(kind: str, rule: str, penalty: str, intercept: bool) -> None:
    A, y, weight = awkward(9, classes=3)
    weights = np.linspace(0.3, 2.0, A.shape[1])
    cases: dict[str, tuple[Any, Any]] = {
        "entries": (L1(0.03), lambda w, t, j: soft(w, 0.03 * t)),
        "both": (ElasticNet(0.4, 0.25), lambda w, t, j: soft(w, 0.1 * t) / (1.0 + 0.3 * t)),
        "ridge": (SquaredL2(0.3), lambda w, t, j: w / (1.0 + 0.3 * t)),
        "l2 rows": (GroupLasso(0.06, "rows"), lambda w, t, j: shrink(w, 0.06 * t)),
        "linf rows": (GroupLInf(0.06, "rows"), lambda w, t, j: cap(w, 0.06 * t)),
        "weighted": (GroupLasso(0.06, "rows", weights=weights), lambda w, t, j: shrink(w, 0.06 * weights[j] * t)),
    }
    step, naive = RULES[rule]
    omega, prox = cases[penalty]
    if penalty in ("both", "ridge") and rule != "plain":
        pytest.skip("no lazy update")
    options = {"epochs": 3, "batch": 1, "intercept": intercept, "rule": naive, "columns": 3}
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, loss="multiclass-power-hinge", penalty=omega, step=step,
        update="forward-backward", lazy=True, epochs=3, fit_intercept=intercept, sample_weight=weight, shuffle=False,
        outputs=3,
    )  # fmt: skip
    theirs = rounds.by_rows(A, y, weight, "multiclass-power-hinge", options, prox)
    check(solver, theirs, "forward-backward, lazy rows", 1e-10)


GROUPS = [-1, 0, 0, 1, 1, 0]


def by_groups(w: Array, t: float) -> Array:
    out = w.copy()
    for m, weight in ((0, 0.5), (1, 2.0)):
        at = [j for j, group in enumerate(GROUPS) if group == m]
        out[at] = shrink(w[at], weight * t)
    return out


def squared_sum_of_norms(w: Array, t: float) -> Array:
    """Compute the prox of t/2 (norm_0 + norm_1)^2 with weighted norms, by bisection of the result's sum of norms."""
    parts = [([j for j, group in enumerate(GROUPS) if group == m], weight) for m, weight in ((0, 0.5), (1, 2.0))]

    def at(total: float) -> Array:
        out = w.copy()
        for where, weight in parts:
            out[where] = shrink(w[where], t * weight * total)
        return out

    low, high = 0.0, float(sum(weight * np.linalg.norm(w[where]) for where, weight in parts))
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = at(middle)
        if sum(weight * np.linalg.norm(found[where]) for where, weight in parts) > middle:
            low = middle
        else:
            high = middle
    return at(0.5 * (low + high))


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("penalty", ["sum", "squared"])
@pytest.mark.parametrize("intercept", [True, False])
def test_scales_of_blocks(kind: str, rule: str, penalty: str, intercept: bool) -> None:
    A, y, weight = awkward(2)
    step, naive = RULES[rule]
    weights = [0.5, 2.0]
    omega: Any = GroupLasso(0.08, GROUPS, weights) if penalty == "sum" else SparseMKL(0.5, GROUPS, weights=weights)
    prox = (
        (lambda w, t: by_groups(w, 0.08 * t)) if penalty == "sum" else (lambda w, t: squared_sum_of_norms(w, 0.5 * t))
    )
    options = {"epochs": 3, "batch": 1, "intercept": intercept, "rule": naive}
    solver = OnlineProximal(
        A if kind == "sparse" else A.toarray(), y, penalty=omega, step=step, update="forward-backward", lazy=True,
        epochs=3, fit_intercept=intercept, sample_weight=weight, shuffle=False,
    )  # fmt: skip
    check(solver, rounds.tied(A, y, weight, "logistic", options, prox), "forward-backward, block scales", 1e-9)
