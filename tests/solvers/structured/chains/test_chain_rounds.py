"""Rounds of all updates and losses against the plain form of each, sentence by sentence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom.core.state import State
from spom.penalties import L1, L2, ElasticNet, ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2, Sum, Zero
from spom.solvers.iterate import last, take
from spom.solvers.steps import AdaGrad, InverseSqrt
from spom.solvers.structured.chains import LinearDecay, OnlineChain
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine
from spom.solvers.structured.chains.solver import LOSSES
from tests.solvers.structured.chains.naive_chains import dense, loss_and_gradient, problem, token_squares

LOSS_NAMES = list(LOSSES)


def groups(p: Any, learnt: bool) -> list[Any]:
    """Return the coordinates of theta in each block; those of a fixed chain are in none."""
    starts = p.blocks.starts
    size = p.features * p.k
    found = [np.arange(a * p.k, b * p.k) for a, b in pairwise(starts)]
    return [*found, np.arange(size, size + (p.k + 2) * p.k)] if learnt else found


def with_groups(penalty: Any, p: Any, learnt: bool) -> Any:
    """Return the penalty on the dense vector."""
    if not hasattr(penalty, "groups"):
        return penalty
    params = {**penalty.get_params(deep=False), "groups": groups(p, learnt)}
    if params.get("weights") is not None and learnt:
        params["weights"] = [*params["weights"], 1.0]
    return type(penalty)(**params)


def naive_blocks(
    p: Any,
    loss: str,
    penalty: Any,
    dual: bool,
    steps: Any,
    epochs: int,
    learnt: bool,
    cost: float,
    radius: float = np.inf,
) -> Any:
    """Forward-backward or dual averaging with the prox of the whole vector in each round; (last, mean of iterates)."""
    size = p.features * p.k
    theta, total = np.zeros(size + (p.k + 2) * p.k), 0.0
    sums, mean = np.zeros_like(theta), np.zeros_like(theta)
    omega = with_groups(penalty, p, learnt)
    squared = 0.0 if learnt or not isinstance(penalty, (SparseMKL, ElasticNetMKL)) else penalty.strength
    t = 0
    for _ in range(epochs):
        for i in range(len(p.rows.offsets) - 1):
            t += 1
            eta = steps(t)
            a, b = p.rows.offsets[i : i + 2]
            gradient = np.zeros_like(theta)
            if b > a:
                value, gradient, _ = loss_and_gradient(loss, theta, dense(p, i), p.y[a:b], p.k, cost)
                total += value
            sums += gradient
            point, scale = (-eta * sums, eta * t) if dual else (theta - eta * gradient, eta)
            if learnt or not hasattr(penalty, "groups"):
                theta = omega.prox(point, scale)
            else:
                theta = np.concatenate([_blocks_only(omega, point[:size], scale), point[size:] / (1 + scale * squared)])
            theta = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
            mean += theta
    return theta, mean / t, total / (epochs * (len(p.rows.offsets) - 1))


def _blocks_only(omega: Any, point: np.ndarray, scale: float) -> np.ndarray:
    return omega.prox(point, scale)


BLOCK_PENALTIES = [
    SparseMKL(0.3),
    GroupLasso(0.2, weights=[1.0, 2.0, 0.5]),
    LqMKL(0.1, q=1.5),
    ElasticNetMKL(0.2),
    SquaredL2(0.1),
    L2(0.2),
    Zero(),
]


# Dual averaging of penalties of coordinates is coordinate by coordinate: see below.
DUAL = [(penalty, True) for penalty in BLOCK_PENALTIES if not isinstance(penalty, (SquaredL2, Zero))]


@pytest.mark.parametrize(("penalty", "dual"), [*((penalty, False) for penalty in BLOCK_PENALTIES), *DUAL], ids=repr)
def test_rounds_with_block_penalties_are_those_of_the_dense_vector(penalty: Any, dual: bool) -> None:
    for seed, (loss, learnt) in enumerate(
        [("hinge", True), ("log", False), ("softmax-margin", True), ("hinge", False)]
    ):
        if not learnt and not hasattr(penalty, "groups") and not isinstance(penalty, (Zero, SquaredL2)):
            continue
        p = problem(seed, values=seed % 2 == 1)
        solver = OnlineChain(
            p.rows,
            p.y,
            p.k,
            blocks=p.blocks,
            loss=loss,
            penalty=penalty,
            update="dual-averaging" if dual else "forward-backward",
            step=InverseSqrt(0.7),
            transitions="learnt" if learnt else "fixed",
            cost=0.8,
            average=False,
            epochs=2,
            shuffle=False,
            skip=1.0,
        )
        state = list(solver)[-1]
        expected, _, _ = naive_blocks(p, loss, penalty, dual, lambda t: 0.7 / np.sqrt(t), 2, learnt, 0.8)
        np.testing.assert_allclose(state.theta, expected, atol=2e-5)


@pytest.mark.parametrize("dual", [False, True], ids=["forward-backward", "dual-averaging"])
@pytest.mark.parametrize("penalty", [SparseMKL(0.3), GroupLasso(0.8), Zero()], ids=repr)
def test_the_mean_of_iterates_is_that_of_every_round(penalty: Any, dual: bool) -> None:
    if dual and isinstance(penalty, Zero):
        penalty = SparseMKL(0.0)
    p = problem(3, sentences=12)
    update = "dual-averaging" if dual else "forward-backward"
    common = {"blocks": p.blocks, "loss": "hinge", "penalty": penalty, "update": update, "step": 0.5, "epochs": 3}
    solver = OnlineChain(p.rows, p.y, p.k, **common, transitions="learnt", average=True, shuffle=False)
    state = list(solver)[-1]
    _, expected, loss = naive_blocks(p, "hinge", penalty, dual, lambda t: 0.5, 3, True, 1.0)
    np.testing.assert_allclose(state.theta, expected, atol=2e-5)
    assert np.isfinite(loss)


@pytest.mark.parametrize("dual", [False, True], ids=["forward-backward", "dual-averaging"])
@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("radius", [0.3, 0.7])
def test_each_round_is_projected_onto_a_ball(radius: float, learnt: bool, dual: bool) -> None:
    p, penalty = problem(3, sentences=12), SparseMKL(0.1)
    common = {"blocks": p.blocks, "loss": "log", "penalty": penalty, "step": 0.5, "epochs": 3, "radius": radius}
    common |= {"update": "dual-averaging" if dual else "forward-backward", "skip": 1.0}
    kind = "learnt" if learnt else "fixed"
    found = naive_blocks(p, "log", penalty, dual, lambda t: 0.5, 3, learnt, 1.0, radius)
    free = naive_blocks(p, "log", penalty, dual, lambda t: 0.5, 3, learnt, 1.0)
    assert np.linalg.norm(free[0]) > radius
    for average, expected in zip((False, True), found, strict=False):
        solver = OnlineChain(p.rows, p.y, p.k, **common, transitions=kind, average=average, shuffle=False)
        np.testing.assert_allclose(list(solver)[-1].theta, expected, atol=2e-5)


def test_single_weights_are_projected_after_each_pass() -> None:
    p, radius, eta, l1 = problem(12, sentences=12), 0.8, 0.4, 0.02
    common = {"blocks": p.blocks, "penalty": L1(l1), "update": "dual-averaging", "step": eta, "shuffle": False}
    common |= {"epochs": 3, "skip": 1.0, "transitions": "learnt", "radius": radius}
    states = list(OnlineChain(p.rows, p.y, p.k, **common))
    G, t, inside = np.zeros(states[0].theta.size), 0, 1.0
    for state in states:
        for i in range(len(p.rows.offsets) - 1):
            a, b = p.rows.offsets[i : i + 2]
            theta = -inside * eta * np.sign(G) * np.maximum(np.abs(G) - t * l1, 0.0)
            if b > a:
                G += loss_and_gradient("log", theta, dense(p, i), p.y[a:b], p.k, 0.0)[1]
            t += 1
        theta = -eta * np.sign(G) * np.maximum(np.abs(G) - t * l1, 0.0)
        assert np.linalg.norm(theta) > radius
        inside = radius / np.linalg.norm(theta)
        np.testing.assert_allclose(state.theta, inside * theta, atol=2e-5)
    resumed = list(OnlineChain(p.rows, p.y, p.k, **common, start=states[0]))
    np.testing.assert_array_equal(resumed[-1].theta, states[-1].theta)


def test_blocks_go_off_and_on_again() -> None:
    """Check a penalty that clears blocks repeatedly: the cheap way to clear one equals the plain one."""
    p = problem(5, sentences=30)
    for average in (False, True):
        solver = OnlineChain(
            p.rows, p.y, p.k, blocks=p.blocks, loss="hinge", penalty=GroupLasso(1.2), step=0.5, epochs=2,
            transitions="learnt", average=average, shuffle=False,
        )  # fmt: skip
        state = list(solver)[-1]
        expected = naive_blocks(p, "hinge", GroupLasso(1.2), False, lambda t: 0.5, 2, True, 1.0)[int(average)]
        np.testing.assert_allclose(state.theta, expected, atol=2e-5)


@pytest.mark.parametrize("values", [False, True])
def test_a_block_that_is_filled_and_cleared_in_every_round_leaves_the_mean_alone(values: bool) -> None:
    """Check the mean over all rounds: the last block never survives its prox, the first mostly does."""
    p = problem(8, sentences=25, values=values)
    penalty = GroupLasso(0.3, weights=[1.0, 1.0, 40.0])
    solver = OnlineChain(
        p.rows, p.y, p.k, blocks=p.blocks, loss="log", penalty=penalty, step=0.5, epochs=2,
        transitions="learnt", average=True, shuffle=False, skip=1.0, update="forward-backward",
    )  # fmt: skip
    states = list(solver)
    for epochs, state in enumerate(states, 1):
        expected = naive_blocks(p, "log", penalty, False, lambda t: 0.5, epochs, True, 0.0)[1]
        np.testing.assert_allclose(state.theta, expected, atol=2e-5)
    size = p.features * p.k
    np.testing.assert_allclose(states[-1].theta[4 * p.k : size], 0.0, atol=1e-6)
    assert np.abs(states[-1].theta[: 4 * p.k]).max() > 1e-2


TRAJECTORIES = [
    ("hinge", SparseMKL(0.3), "forward-backward", True),
    ("log", GroupLasso(0.25, weights=[1.0, 2.0, 0.5]), "forward-backward", True),
    ("softmax-margin", ElasticNetMKL(0.2), "dual-averaging", False),
    ("perceptron", SparseMKL(0.1), "dual-averaging", True),
]


@pytest.mark.parametrize(("loss", "penalty", "update", "learnt"), TRAJECTORIES, ids=repr)
@pytest.mark.parametrize("average", [False, True])
def test_the_whole_run_is_that_of_the_naive_twin_also_after_a_restart(
    loss: str, penalty: Any, update: str, learnt: bool, average: bool, tmp_path: Path
) -> None:
    p = problem(17, sentences=14, values=True)
    make = lambda **more: OnlineChain(  # noqa: E731
        p.rows, p.y, p.k, blocks=p.blocks, loss=loss, penalty=penalty, update=update, step=InverseSqrt(0.7),
        transitions="learnt" if learnt else "fixed", cost=0.8, average=average, epochs=4, shuffle=False, skip=1.0,
        **more,
    )  # fmt: skip
    states = list(make())
    last(take(make(), 2)).save(tmp_path / "state")
    states[2:] = list(make(start=State.load(tmp_path / "state")))
    for epochs, state in enumerate(states, 1):
        found = naive_blocks(
            p, loss, penalty, update == "dual-averaging", lambda t: 0.7 / np.sqrt(t), epochs, learnt, 0.8
        )
        np.testing.assert_allclose(state.theta, found[int(average)], atol=3e-5)
    assert len(states) == 4


ENGINES = [
    {"penalty": L1(1e-3)},
    {"penalty": L1(1e-3), "step": 0.3},
    {"penalty": GroupLasso(0.0), "update": "dual-averaging", "step": 0.3},
    {"penalty": SparseMKL(1e-2), "loss": "hinge"},
    {"penalty": SparseMKL(1e-2), "loss": "hinge", "transitions": "learnt"},
]


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_weights_to_start_at_are_given_back(engine: dict[str, Any]) -> None:
    p = problem(14)
    solver = OnlineChain(p.rows, p.y, p.k, blocks=p.blocks, **engine)
    rng = np.random.default_rng(0)
    W, chain = np.zeros((p.features, 8), dtype=np.float32), rng.standard_normal((p.k + 2, p.k))
    W[:, : p.k] = rng.standard_normal((p.features, p.k))
    solver.start_at(W, chain)
    found = solver.weights()
    np.testing.assert_allclose(found[0], W, rtol=1e-6)
    np.testing.assert_allclose(found[1], chain, rtol=1e-12)


def test_small_scales_are_folded_into_the_table() -> None:
    p = problem(6, sentences=40)
    solver = OnlineChain(
        p.rows, p.y, p.k, blocks=p.blocks, loss="log", penalty=SquaredL2(30.0), update="forward-backward", step=0.5,
        epochs=2, average=True, transitions="learnt", shuffle=False, skip=1.0,
    )  # fmt: skip
    state = list(solver)[-1]
    expected = naive_blocks(p, "log", SquaredL2(30.0), False, lambda t: 0.5, 2, True, 0.0)[1]
    np.testing.assert_allclose(state.theta, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("transitions", ["fixed", "learnt", None])
def test_adagrad_dual_averaging_is_its_formula(loss: str, transitions: str | None) -> None:
    # Real values: with ones there are ties, which rounding breaks in one way or another.
    p = problem(11, values=loss != "softmax-margin")
    eta, delta, l1, l2 = 0.4, 0.2, 0.02, 0.03
    penalty = ElasticNet(l1 + l2, l1_ratio=l1 / (l1 + l2))
    solver = OnlineChain(
        p.rows, p.y, p.k, blocks=p.blocks, loss=loss, penalty=penalty, step=AdaGrad(eta, delta), cost=0.7, epochs=2,
        transitions=transitions, shuffle=False, skip=1.0,
    )  # fmt: skip
    assert isinstance(solver.engine, AdaptiveEngine)
    state = list(solver)[-1]
    size = p.features * p.k
    G, V = np.zeros(size + (p.k + 2) * p.k), np.zeros(size + (p.k + 2) * p.k)
    cut, t = np.full(G.size, l1), 0
    cut[size:] = l1 if transitions == "learnt" else 0.0

    def theta() -> np.ndarray:
        soft = np.sign(G) * np.maximum(np.abs(G) - t * cut, 0.0)
        return -eta * soft / (delta + np.sqrt(V) + eta * t * l2)

    for _ in range(2):
        for i in range(len(p.rows.offsets) - 1):
            a, b = p.rows.offsets[i : i + 2]
            if b > a:
                now = theta()
                gradient = loss_and_gradient(loss, now, dense(p, i), p.y[a:b], p.k, 0.7)[1]
                squares = token_squares(loss, now, dense(p, i), p.y[a:b], p.k, 0.7)
                if transitions is None:
                    gradient[size:] = squares[size:] = 0.0
                G += gradient
                V += squares
            t += 1
    np.testing.assert_allclose(state.theta, theta(), atol=3e-5)


def test_plain_dual_averaging_of_coordinates() -> None:
    p = problem(12)
    solver = OnlineChain(
        p.rows, p.y, p.k, blocks=p.blocks, penalty=L1(0.05), update="dual-averaging", step=0.3, epochs=2,
        transitions="learnt", shuffle=False, skip=1.0,
    )  # fmt: skip
    G, t = np.zeros(p.features * p.k + (p.k + 2) * p.k), 0
    for _ in range(2):
        for i in range(len(p.rows.offsets) - 1):
            a, b = p.rows.offsets[i : i + 2]
            if b > a:
                theta = -0.3 * np.sign(G) * np.maximum(np.abs(G) - 0.05 * t, 0.0)
                G += loss_and_gradient("log", theta, dense(p, i), p.y[a:b], p.k, 0.0)[1]
            t += 1
    expected = -0.3 * np.sign(G) * np.maximum(np.abs(G) - 0.05 * t, 0.0)
    np.testing.assert_allclose(list(solver)[-1].theta, expected, atol=2e-5)
    assert np.count_nonzero(expected) < expected.size


def test_sure_tokens_are_skipped() -> None:
    p = problem(13, sentences=20)
    counts = []
    for skip in (1.0, 0.6):
        solver = OnlineChain(p.rows, p.y, p.k, penalty=L1(0.0), epochs=3, shuffle=False, skip=skip)
        counts.append([epoch.touched for epoch in solver.passes()])
    assert counts[0] == [1.0, 1.0, 1.0]
    assert counts[1][2] < counts[1][0] <= 1.0


def test_linear_decay_falls_to_zero() -> None:
    steps = LinearDecay(2.0, epochs=3).sizes(1, 40, 10)
    np.testing.assert_allclose(steps[:30], 2.0 * (1 - np.arange(30) / 30))
    assert (steps[30:] == steps[29]).all()
    with pytest.raises(ValueError, match="needs epochs"):
        LinearDecay().sizes(1, 2, 3)


def test_a_selection_is_dual_averaging_in_its_metric_then_adagrad_on_what_is_left() -> None:
    """Compute both phases by their formulas: blocks by s d_m norm(theta_m), then single weights of the kept blocks."""
    p = problem(31, sentences=16)
    strength, l1, eta, delta, size = 0.16, 0.01, 0.5, 0.1, p.features * p.k
    solver = OnlineChain(
        p.rows, p.y, p.k, blocks=p.blocks, penalty=Sum([GroupLasso(strength), L1(l1)]), update="select", epochs=3,
        shuffle=False, skip=1.0,
    )  # fmt: skip
    states = list(solver)
    counts = np.bincount(p.rows.indices, minlength=p.features) / p.rows.offsets[-1]
    d = np.array([np.sqrt(np.linalg.norm(counts[a:b])) for a, b in pairwise(p.blocks.starts)])
    d = np.where(d > 0, d, 1.0) / d.mean()
    G, V, t = np.zeros(size + (p.k + 2) * p.k), np.zeros(size + (p.k + 2) * p.k), 0
    sentences = range(16)

    def blocks_theta() -> np.ndarray:
        theta = -0.1 * G
        for m, group in enumerate(groups(p, False)):
            norm = np.linalg.norm(G[group])
            theta[group] = -0.1 * G[group] * (max(0.0, 1 - t * strength * d[m] / norm) if norm else 0.0) / d[m] ** 2
        return theta

    for i in sentences:
        a, b = p.rows.offsets[i : i + 2]
        if b > a:
            G += loss_and_gradient("log", blocks_theta(), dense(p, i), p.y[a:b], p.k, 0.0)[1]
        t = i + 1
    np.testing.assert_allclose(states[0].theta, blocks_theta(), atol=2e-5)
    on = np.ones(size + (p.k + 2) * p.k, dtype=bool)
    for group in groups(p, False):
        on[group] = blocks_theta()[group].any()
    assert not on[:size].all()
    assert on[:size].any()
    G[:], V[:], t = 0.0, 0.0, 0
    cut = np.where(np.arange(G.size) < size, l1, 0.0)

    def theta() -> np.ndarray:
        return -eta * np.sign(G) * np.maximum(np.abs(G) - t * cut, 0.0) / (delta + np.sqrt(V)) * on

    for _ in range(2):
        for i in sentences:
            a, b = p.rows.offsets[i : i + 2]
            if b > a:
                now = theta()
                squares = token_squares("log", now, dense(p, i), p.y[a:b], p.k, 0.0)
                G += loss_and_gradient("log", now, dense(p, i), p.y[a:b], p.k, 0.0)[1] * on
                V += squares * on
            t += 1
    np.testing.assert_allclose(states[2].theta, theta(), atol=3e-5)
