"""Kernels of the penalties on their own, where the tests of whole penalties rarely or never take a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.penalties import ElasticNetMKL, GroupLInf, LInf, SquaredL1
from spom.penalties.grouped import group_norms, scale_groups
from spom.penalties.groups import resolve
from spom.penalties.latent_projections import Balls, cyclic_projections, dykstra
from spom.penalties.overlap_solver import DualBalls, DualPoint, _dual_steps, _hessian
from spom.penalties.power import power_root
from spom.penalties.threshold import (
    _near_peak,
    _select,
    norm2,
    shrink,
    solve,
    solve_depths,
    total_and_peak,
)

Vector = np.ndarray[Any, np.dtype[np.float64]]


def root(depth: Vector, a: Vector, target: float, alpha: float, beta: float) -> float:
    """alpha sum a max(x - depth, 0) + beta x = target, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(200):
        x = 0.5 * (low + high)
        if alpha * float(a @ np.maximum(x - depth, 0.0)) + beta * x < target:
            low = x
        else:
            high = x
    return low


def depths(seed: int, n: int) -> tuple[Vector, Vector]:
    """Draw depths with ties, one of them 0, and weights."""
    random = np.random.default_rng(seed)
    depth = np.round(random.random(n) * 4.0, 1 if seed % 2 else 12)
    depth[random.integers(n)] = 0.0
    return depth, random.random(n) + 0.1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (1.0, 0.7), (0.3, 1.0)])
def test_the_root_by_newton_and_by_selection(seed: int, alpha: float, beta: float) -> None:
    for n in (1, 2, 7, 40):
        depth, a = depths(seed, n)
        for target in (0.05, 1.0, 9.0, 200.0):
            wanted = root(depth, a, target, alpha, beta)
            assert _select(depth.copy(), a.copy(), 0.0, 0.0, target, alpha, beta) == pytest.approx(wanted, rel=1e-9)
            begin = (target + alpha * float(a @ depth)) / (alpha * float(a.sum()) + beta)
            assert solve_depths(depth.copy(), a.copy(), begin, target, alpha, beta) == pytest.approx(wanted, rel=1e-9)
        # Entries that are known to be active are given by their sums.
        one, more = np.append(depth, [0.0, 0.01]), np.append(a, [0.4, 0.6])
        found = _select(depth.copy(), a.copy(), 0.006, 1.0, 1.5, alpha, beta)
        assert found == pytest.approx(root(one, more, 1.5, alpha, beta), rel=1e-9)


def test_newton_that_would_take_long_ends_by_selection() -> None:
    """Make each pass drop one entry, so that selection takes over after 24 passes."""
    a = 2.0 ** np.arange(60)
    depth = np.arange(60) / 60.0
    for target in (0.3, 5.0, 1e4):
        begin = (target + float(a @ depth)) / float(a.sum())
        wanted = root(depth, a, target, 1.0, 0.0)
        assert solve_depths(depth.copy(), a.copy(), begin, target, 1.0, 0.0) == pytest.approx(wanted, rel=1e-10)
        assert solve_depths(depth[::-1].copy(), a[::-1].copy(), begin, target, 1.0, 0.0) == pytest.approx(wanted)


@pytest.mark.parametrize("absolute", [True, False])
def test_unit_weights_of_a_vector(absolute: bool) -> None:
    """Small vectors, and long ones in which few entries are near the peak, so that they are gathered."""
    for seed, n in ((0, 3), (1, 60), (2, 300), (3, 700)):
        w = np.random.default_rng(seed).standard_normal(n) * (0.01 if n > 100 else 1.0)
        w[: max(1, n // 100)] = [3.0, 2.5, 2.0, 2.9, 2.7, 2.6, 2.1][: max(1, n // 100)]
        w[-1] = -1.9
        u = np.abs(w) if absolute else w
        total, peak = total_and_peak(w, absolute)
        assert (total, peak) == (pytest.approx(u.sum()), u.max())
        for sigma in (0.0, 0.7, 10.0):
            near = peak - u < sigma
            assert _near_peak(w, absolute, peak, sigma) == (pytest.approx((peak - u)[near].sum()), near.sum())
        for r, alpha, beta in ((1.3, 1.0, 0.0), (0.02, 1.0, 0.0), (0.0, 0.5, 1.0), (0.0, 1.0, 0.01)):
            found = solve(w, absolute, total, peak, r, alpha, beta)
            assert found == pytest.approx(root(peak - u, np.ones(n), alpha * r + beta * peak, alpha, beta), rel=1e-9)
    assert total_and_peak(np.zeros(0), absolute) == (0.0, 0.0)
    assert total_and_peak(np.array([-3.0, -1.0, -2.0]), absolute)[1] == (3.0 if absolute else -1.0)


def test_shrink_in_both_forms() -> None:
    w, out = np.array([3.0, -2.0, 0.5, -0.1, 0.0]), np.empty(5)
    for sigma in (2.9, 1.2, 4.0):
        shrink(w, 3.0, sigma, out)
        tau = max(3.0 - sigma, 0.0)
        np.testing.assert_allclose(out, np.sign(w) * np.maximum(np.abs(w) - tau, 0.0), atol=1e-15)
    # What is tiny against the input keeps its digits.
    shrink(np.array([1e10, -1e10]), 1e10, 1e-7, out[:2])
    np.testing.assert_array_equal(out[:2], [1e-7, -1e-7])


def test_norms_outside_of_the_range_of_squares() -> None:
    for scale in (1.0, 1e-200, 1e200, 5e-324, 1e-141, 1e-139, 1e149, 1e151):
        w = np.array([3.0, -4.0, 0.0]) * scale
        assert norm2(w) == pytest.approx(float(np.hypot(w[0], w[1])), rel=1e-12)
    assert norm2(np.zeros(2)) == 0.0
    assert np.isnan(norm2(np.array([1.0, np.nan])))
    assert norm2(np.zeros(0)) == 0.0
    # All out of range.
    norms = np.empty(2)
    group_norms(np.array([3e-200, 4e-200, 0.0, 1e-300]), resolve(2, (4,)).packed(), norms)
    np.testing.assert_allclose(norms, [5e-200, 1e-300], rtol=1e-12)
    # Groups by indices and by blocks, of which some are in range and some are not.
    w = np.array([3e-200, 4e-200, 3.0, 4.0, 3e200, -4e200, 0.0, 0.0])
    order = np.array([5, 2, 7, 0, 4, 3, 6, 1])
    mixed = np.empty(8)
    mixed[order] = w
    for groups, vector in ((resolve(2, (8,)), w), (resolve(order.reshape(4, 2).tolist(), (8,)), mixed)):
        norms, out = np.empty(4), np.empty(8)
        group_norms(vector, groups.packed(), norms)
        np.testing.assert_allclose(norms, [5e-200, 5.0, 5e200, 0.0], rtol=1e-12)
        scale_groups(vector, groups.packed(), np.array([2.0, 0.5, 0.25, 3.0]), out)
        expected = w * np.repeat([2.0, 0.5, 0.25, 3.0], 2)
        np.testing.assert_array_equal(out if groups.block else out[order], expected)


@pytest.mark.parametrize("block", range(1, 14))
def test_blocks_of_every_length_are_scaled(block: int) -> None:
    w = np.arange(1.0, 3 * block + 1.0)
    out, groups = np.full(3 * block, np.nan), resolve(block, (3 * block,))
    scale_groups(w, groups.packed(), np.array([2.0, 0.0, -1.0]), out)
    np.testing.assert_array_equal(out, w * np.repeat([2.0, 0.0, -1.0], block))


def cap(w: Vector, t: float) -> Vector:
    """Compute the prox of t norm_inf: the cap is the largest of those for each number of entries above it."""
    sizes = np.sort(np.abs(w))[::-1]
    if sizes.sum() <= t:
        return np.zeros_like(w)
    level = max((sizes[:k].sum() - t) / k for k in range(1, w.size + 1))
    return np.asarray(np.clip(w, -level, level))


@pytest.mark.parametrize("weights", [None, [0.5, 1.5, 0.0, 3.0]])
def test_weighted_maxima_of_blocks_and_of_lists(weights: Any) -> None:
    random = np.random.default_rng(0)
    for size in (1, 3):
        order = random.permutation(4 * size)
        w = random.standard_normal(4 * size) * 2.0
        mixed = np.empty_like(w)
        mixed[order] = w
        expected = np.concatenate(
            [cap(w[m * size : (m + 1) * size], 0.7 * ([1.0] * 4 if weights is None else weights)[m]) for m in range(4)]
        )
        np.testing.assert_allclose(GroupLInf(1.4, size, weights=weights).prox(w, 0.5), expected, atol=1e-14)
        lists = order.reshape(4, size).tolist()
        found = GroupLInf(1.4, lists, weights=weights).prox(mixed, 0.5)[order]
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_one_group_with_a_weight() -> None:
    w = np.array([3.0, -1.0, 0.5])
    for groups in (3, [[2, 0, 1]]):
        np.testing.assert_allclose(GroupLInf(1.0, groups, weights=[2.0]).prox(w, 0.5), cap(w, 1.0), atol=1e-14)


@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 50])
def test_caps_of_short_and_of_long_vectors(n: int) -> None:
    random = np.random.default_rng(n)
    for draw in (random.standard_normal(n), np.round(random.standard_normal(n)), np.ones(n), np.zeros(n)):
        for t in (0.0, 0.3, 2.0, float(np.abs(draw).sum()), 1e3):
            np.testing.assert_allclose(LInf(1.0).prox(draw, t) if t else draw, cap(draw, t), atol=1e-12)


def test_elastic_net_over_blocks_of_what_no_group_has() -> None:
    """Check that coordinates in no group are divided by 1 + a, and that the shrunk norms solve b = norms - t sum(b)."""
    w = np.array([3.0, 1.0, -2.0, 4.0, 0.5, -1.0])
    found = ElasticNetMKL(1.5, [[4, 0], [2, 3, 5]], l1_ratio=0.4).prox(w, 0.5)
    c, a = 0.5 * 1.5 * 0.4, 0.5 * 1.5 * 0.6
    norms = np.array([np.hypot(3.0, 0.5), np.sqrt(4.0 + 16.0 + 1.0)]) / (1.0 + a)
    t = c / (1.0 + a)
    b = norms - t * norms.sum() / (1.0 + 2.0 * t)
    factors = b / (norms * (1.0 + a))
    np.testing.assert_allclose(found, w * [factors[0], 1.0 / (1.0 + a), factors[1], factors[1], factors[0], factors[1]])


def test_weighted_squared_l1_with_few_or_small_weights() -> None:
    """x_i = max(u_i - t d_i sum(d x), 0); with one positive weight x = u / (1 + t d^2) there."""
    found = SquaredL1(2.0, weights=[0.0, 0.3, 0.0]).prox([1.0, -5.0, 2.0], 0.5)
    np.testing.assert_allclose(found, [1.0, -5.0 / 1.09, 2.0], rtol=1e-13)
    random = np.random.default_rng(2)
    for scale, step in ((0.01, 0.5), (0.01, 9.0), (1.0, 0.5), (30.0, 0.5), (0.3, 5.0)):
        d, w = random.random(8) * scale, random.standard_normal(8)
        d[3] = 0.0
        x = SquaredL1(1.6, weights=d).prox(w, step)
        total = 1.6 * step * float(d @ np.abs(x))
        np.testing.assert_allclose(x, np.sign(w) * np.maximum(np.abs(w) - total * d, 0.0), atol=1e-12)


@pytest.mark.parametrize("q", [1.0, 1.05, 1.2, 1.5, 1.9, 2.0, 2.3, 3.0, 4.0, 7.5])
def test_roots_of_powers(q: float) -> None:
    """x + t q x^(q-1) = b in logarithms, by bisection, for numbers of very different sizes."""
    for b in (1e-6, 0.02, 1.0, 3.0, 50.0, 1e6):
        for t in (1e-5, 0.1, 0.9, 4.0, 1e5):
            low, high = -60.0, 0.0
            for _ in range(200):
                middle = 0.5 * (low + high)
                x = b * np.exp(middle)
                low, high = (middle, high) if x + t * q * x ** (q - 1.0) < b else (low, middle)
            wanted = max(b - t, 0.0) if q == 1.0 else b * np.exp(high)
            if q > 1.0 and high < -59.0:
                continue
            assert power_root(b, t, q) == pytest.approx(wanted, rel=1e-10)
    # Where a square or a product leaves the range of floats; x is then too small to count beside t q x^(q-1).
    assert power_root(1e200, 1e160, 1.5) == pytest.approx((1e40 / 1.5) ** 2)
    assert power_root(1e160, 1e150, 3.0) == pytest.approx(np.sqrt(1e10 / 3.0))
    assert power_root(0.0, 2.0, q) == 0.0
    assert power_root(2.0, 0.0, q) == 2.0


# --- projections onto the balls of overlapping groups -----------------------------------------------------

LISTS = [[2, 0, 5], [1, 2], [5, 3, 1, 4], [6]]
PTR = np.array([0, 3, 5, 9, 10])
INDICES = np.concatenate(LISTS)
U = np.array([1.5, -2.0, 3.0, 0.1, -0.7, 2.2, -4.0])


def project(v: Vector, radius: float, l1: bool) -> Vector:
    """Onto the l1 ball by the largest cap of its sorted entries, or onto the l2 ball."""
    if not l1:
        return v * min(1.0, radius / max(float(np.linalg.norm(v)), 1e-300))
    if np.abs(v).sum() <= radius:
        return v
    sizes = np.sort(np.abs(v))[::-1]
    tau = max((sizes[:k].sum() - radius) / k for k in range(1, v.size + 1))
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - tau, 0.0))


@pytest.mark.parametrize("l1", [True, False])
@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_cyclic_projections(l1: bool, repair: bool, given: bool) -> None:
    balls = Balls(PTR, INDICES, 1.3, l1)
    target = np.linspace(-1.0, 1.0, 7) if given else np.zeros(0)
    for limit, tol in ((1, 0.0), (2, 0.0), (5, 0.0), (400, 1e-3 if not given else 3.0 if l1 else 6.0)):
        y = np.full(7, np.nan)
        cycles, distance = cyclic_projections(U, balls, repair, limit, tol, target, y)
        x, parts, last, count = U.copy(), [np.zeros(len(g)) for g in LISTS], U.copy(), 0
        while count < limit:
            count += 1
            for m, g in enumerate(LISTS):
                v = x[g] + (parts[m] if repair else 0.0)
                x[g] = project(v, 1.3, l1)
                parts[m] = v - x[g]
            if not repair:
                x = (U + count * x) / (count + 1)
            away = float(np.linalg.norm(x - (target if given else last)))
            last = x.copy()
            if away <= tol:
                break
        assert cycles == count
        assert distance == pytest.approx(away, rel=1e-9, abs=1e-13)
        np.testing.assert_allclose(y, x, atol=1e-11)
    assert count < 400


@pytest.mark.parametrize("l1", [True, False])
def test_dykstra_adds_up_what_was_taken_away(l1: bool) -> None:
    balls = Balls(PTR, INDICES, 1.3, l1)
    for limit, tol in ((0, 0.0), (1, 0.0), (2, 0.0), (4, 0.0), (500, 1e-9)):
        x, sizes = np.full(7, np.nan), np.full(4, np.nan)
        cycles, error = dykstra(U, balls, limit, tol, x, sizes)
        y, parts, count, before, bound = U.copy(), [np.zeros(len(g)) for g in LISTS], 0, np.inf, np.inf
        while count < limit and bound > tol:
            count, moved = count + 1, 0.0
            for m, g in enumerate(LISTS):
                v = y[g] + parts[m]
                y[g] = project(v, 1.3, l1)
                moved += float(((v - y[g] - parts[m]) ** 2).sum())
                parts[m] = v - y[g]
            ratio = min(np.sqrt(moved) / before, 0.999) if np.isfinite(before) else 0.999
            before = np.sqrt(moved)
            bound = before * ratio / (1.0 - ratio)
        assert cycles == count
        assert error == pytest.approx(bound, rel=1e-6)
        np.testing.assert_allclose(x, U - y if limit else np.zeros(7), atol=1e-11)
        norms = [np.abs(part).max() if l1 else np.linalg.norm(part) for part in parts]
        np.testing.assert_allclose(sizes, norms, atol=1e-11)
    assert count < 500


def test_dykstra_gives_up_where_its_pace_is_too_slow() -> None:
    """After each 30 cycles: where the moves, at the ratio of the last two, would be above tol at the limit."""
    random = np.random.default_rng(1)
    lists = [np.sort(random.choice(4, 2, replace=False)) for _ in range(4)]
    u, balls = random.standard_normal(4) * 3.0, Balls(np.arange(0, 9, 2), np.concatenate(lists), 1.0, False)
    y, parts, moves = u.copy(), np.zeros((4, 2)), [np.inf]
    for _ in range(60):
        before = parts.copy()
        for m, g in enumerate(lists):
            v = y[g] + parts[m]
            y[g] = project(v, 1.0, False)
            parts[m] = v - y[g]
        moves.append(float(np.linalg.norm(parts - before)))
    needed = [k + np.log(1e-10 / moves[k]) / np.log(moves[k] / moves[k - 1]) for k in (30, 60)]
    limit = int(max(needed)) + 1
    assert 90 < limit < 100
    x, sizes = np.empty(4), np.empty(4)

    def cycles(limit: int) -> int:
        return int(dykstra(u, balls, limit, 1e-10, x, sizes)[0])

    assert cycles(29) == 29
    assert cycles(int(needed[0])) == 30
    assert cycles(limit) == limit
    assert cycles(61) == 30


# --- the dual of overlapping groups -----------------------------------------------------------------------


def test_accelerated_steps_on_the_dual() -> None:
    w, radius = U, np.array([0.4, 1.0, 0.7, 0.2])
    owner = np.repeat(np.arange(4), np.diff(PTR))
    balls = DualBalls(PTR, INDICES.astype(np.int64), radius, 2.0)
    random = np.random.default_rng(0)
    restarts = 0
    for n in (1, 2, 3, 7, 25):
        z = random.standard_normal(10) * 0.2
        point = DualPoint(np.empty(7), z.copy(), z.copy())
        t = _dual_steps(w, point, balls, 1.0, n)
        y, momentum = z.copy(), 1.0
        for _ in range(n):
            x = w - np.bincount(INDICES, weights=y, minlength=7)
            new = y + x[INDICES] / 2.0
            for g in range(4):
                new[owner == g] = project(new[owner == g], radius[g], False)
            ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            beta = (momentum - 1.0) / ahead
            momentum = ahead
            if (y - new) @ (new - z) > 0.0:
                momentum, beta, restarts = 1.0, 0.0, restarts + 1
            y, z = new + beta * (new - z), new
        np.testing.assert_allclose(point.z, z, atol=1e-12)
        np.testing.assert_allclose(point.y, y, atol=1e-12)
        np.testing.assert_allclose(point.x, w - np.bincount(INDICES, weights=z, minlength=7), atol=1e-12)
        assert t == pytest.approx(momentum)
    assert restarts > 0


def test_the_hessian_of_overlapping_norms() -> None:
    random = np.random.default_rng(1)
    x, v, c = random.standard_normal(7), random.standard_normal(7), np.array([0.4, 1.0, 0.7, 0.2])
    owner = np.repeat(np.arange(4), np.diff(PTR))

    def force(x: Vector) -> Vector:
        pulls = x.copy()
        for m, g in enumerate(LISTS):
            pulls[g] += c[m] * x[g] / np.linalg.norm(x[g])
        return pulls

    norms, out = np.array([np.linalg.norm(x[g]) for g in LISTS]), np.empty(7)
    _hessian(v, x, INDICES.astype(np.int64), owner, norms, (c / norms)[owner], out)
    np.testing.assert_allclose(out, (force(x + 1e-5 * v) - force(x - 1e-5 * v)) / 2e-5, atol=1e-7)
