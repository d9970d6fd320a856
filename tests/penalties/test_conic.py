"""cvxpy as an outside oracle: the prox of every penalty as a conic program."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from spom import penalties as P
from spom.penalties import GroupLasso, OverlappingGroupLasso, Sum
from tests.penalties.cases import DIMENSION, EXACT, name, over
from tests.penalties.naive import group_list, weight_list

Expression = tuple[Any, list[Any]]  # (value, constraints)


def group_terms(p: Any, x: Any, norm: Any = 2) -> list[Any]:
    groups = group_list(p, DIMENSION)
    weights = weight_list(p, len(groups))
    return [d * cp.norm(x[g], norm) for g, d in zip(groups, weights, strict=True) if len(g)]


@singledispatch
def conic(p: Any, x: Any) -> Expression:
    raise NotImplementedError(f"write {name(p)} as a conic program here")


def add(cls: type, value: Any) -> None:
    conic.register(cls)(value)


add(P.Zero, lambda p, x: (0, []))
add(P.L1, lambda p, x: (p.strength * cp.norm1(x), []))
add(P.L2, lambda p, x: (p.strength * cp.norm2(x), []))
add(P.SquaredL2, lambda p, x: (0.5 * p.strength * cp.sum_squares(x), []))
add(P.LInf, lambda p, x: (p.strength * cp.norm_inf(x), []))
add(P.SquaredL1, lambda p, x: (0.5 * p.strength * cp.square(weight_list(p, DIMENSION) @ cp.abs(x)), []))
add(P.Power, lambda p, x: (p.strength * cp.sum(cp.power(cp.abs(x), p.q)), []))
add(
    P.ElasticNet,
    lambda p, x: (p.strength * (p.l1_ratio * cp.norm1(x) + (1 - p.l1_ratio) / 2 * cp.sum_squares(x)), []),
)
add(P.GroupLasso, lambda p, x: (p.strength * sum(group_terms(p, x)), []))
add(P.GroupLInf, lambda p, x: (p.strength * sum(group_terms(p, x, "inf")), []))
add(P.SparseMKL, lambda p, x: (0.5 * p.strength * cp.square(sum(group_terms(p, x))), []))
add(P.LqMKL, lambda p, x: (p.strength * sum(cp.power(t, p.q) for t in group_terms(p, x)), []))
add(
    P.ElasticNetMKL,
    lambda p, x: (
        p.strength * (p.l1_ratio / 2 * cp.square(sum(group_terms(p, x))) + (1 - p.l1_ratio) / 2 * cp.sum_squares(x)),
        [],
    ),
)
add(
    P.SparseGroupLasso,
    lambda p, x: (p.strength * (p.l1_ratio * cp.norm1(x) + (1 - p.l1_ratio) * sum(group_terms(p, x))), []),
)
add(P.TreeGroupLasso, lambda p, x: (p.strength * sum(group_terms(p, x, 2 if p.norm == 2 else "inf")), []))
add(P.L1Ball, lambda p, x: (0, [cp.norm1(x) <= p.radius]))
add(P.L2Ball, lambda p, x: (0, [cp.norm2(x) <= p.radius]))
add(P.LInfBall, lambda p, x: (0, [cp.norm_inf(x) <= p.radius]))
add(P.Simplex, lambda p, x: (0, [x >= 0, cp.sum(x) == p.radius]))
add(P.Scaled, lambda p, x: (p.factor * conic(p.penalty, x)[0], conic(p.penalty, x)[1]))
add(P.Translated, lambda p, x: conic(p.penalty, x - p.shift))


@conic.register(P.Box)
def _(p: Any, x: Any) -> Expression:
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), DIMENSION) for b in (p.lower, p.upper))
    bounded = [i for i in range(DIMENSION) if np.isfinite(high[i])]
    return 0, [x >= low, x[bounded] <= high[bounded]]


@conic.register(P.Sum)
def _(p: Any, x: Any) -> Expression:
    parts = [conic(term, x) for term in p.terms]
    return sum(value for value, _ in parts), [c for _, constraints in parts for c in constraints]


@conic.register(P.SeparableSum)
def _(p: Any, x: Any) -> Expression:
    # The terms of the examples have no structure of their own, so they take a part of x as it is.
    parts = [conic(term, x[np.asarray(indices)]) for term, indices in p.parts]
    return sum(value for value, _ in parts), [c for _, constraints in parts for c in constraints]


@conic.register(P.MoreauEnvelope)
def _(p: Any, x: Any) -> Expression:
    z = cp.Variable(DIMENSION)
    value, constraints = conic(p.penalty, z)
    return value + cp.sum_squares(x - z) / (2 * p.smoothing), constraints


def solve(p: Any, w: Any, step: float) -> tuple[Any, float]:
    x = cp.Variable(DIMENSION)
    value, constraints = conic(p, x)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - w) + step * value), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return x.value, problem.value


W = np.array([2.5, -0.7, 1.2, 0.0, -3.0, 0.4])


# The latent group lasso has conic oracles of its own; conjugates are checked through their penalties.
@over([p for p in EXACT if name(p) not in ("LatentGroupLasso", "Conjugate")])
def test_prox_against_a_conic_solver(penalty: Any) -> None:
    for w in (W, 0.3 * W[::-1]):
        wanted, objective = solve(penalty, w, 0.8)
        x = penalty.prox(w, 0.8)
        np.testing.assert_allclose(x, wanted, atol=1e-4)
        ours = 0.5 * float(((x - w) ** 2).sum()) + 0.8 * penalty.value(x)
        assert ours <= objective + 1e-7 * max(1.0, abs(objective))


def test_orders_of_proxes_that_are_exact() -> None:
    """Check that sums give the same result in either order of their terms, and agree with the conic solver."""
    rng = np.random.default_rng(0)
    pairs = [
        [P.L1(0.4), P.GroupLasso(0.5, 2)],
        [P.L1(0.4), P.SquaredL2(0.7)],
        [P.L1(0.4), P.SquaredL1(0.3)],
        [P.L1(0.4), P.LInf(0.6)],
        [P.L1(0.4), P.Power(0.3, 1.5)],
        [P.L1(0.4), P.L1Ball(2.0)],
        [P.L1(0.4), P.L2(0.6)],
        [P.L1(0.4), P.LqMKL(0.3, 2, q=1.5)],
        [P.L1(0.4), P.ElasticNetMKL(0.3, 2)],
        [P.L1(0.4), P.TreeGroupLasso(0.3, [[0, 1, 2, 3], [0, 1]])],
        [P.SquaredL2(0.4), P.SparseMKL(0.3, 3)],
        [P.SquaredL2(0.4), P.Simplex(1.0)],
        [P.L2Ball(1.0), P.GroupLInf(0.3, 2)],
        [P.Power(0.4, 1.5), P.Box(-0.5, 1.0)],
    ]
    for terms in pairs:
        w = 2 * rng.standard_normal(DIMENSION)
        wanted = solve(Sum(terms), w, 0.8)[0]
        for order in (terms, terms[::-1]):
            assert Sum(order).exact
            np.testing.assert_allclose(Sum(order).prox(w, 0.8), wanted, atol=1e-4)


def test_sums_that_are_not_exact_say_so() -> None:
    overlapping = Sum([GroupLasso(0.5, 2), GroupLasso(0.5, 3)])
    assert not overlapping.exact
    w = np.array([2.0, -1.0, 1.5, 0.5, 1.0, -2.0])
    in_turn = GroupLasso(0.5, 3).prox(GroupLasso(0.5, 2).prox(w))
    np.testing.assert_array_equal(overlapping.prox(w), in_turn)
    assert np.abs(in_turn - solve(overlapping, w, 1.0)[0]).max() > 1e-3
    for terms in ([P.LInf(1.0), P.SparseMKL(1.0, 2)], [P.L1(1.0), P.Simplex()], [P.L2(1.0), P.SquaredL1(1.0)]):
        assert not Sum(terms).exact


def test_composition_of_overlapping_groups_is_what_it_says() -> None:
    groups = [[0, 1, 2], [2, 3, 4], [4, 5]]
    exact, composed = OverlappingGroupLasso(0.5, groups), OverlappingGroupLasso(0.5, groups, exact=False)
    assert exact.exact
    assert not composed.exact
    assert "certificate" in exact.method
    assert "composition" in composed.method
    x = W.copy()
    for group in groups:
        x[group] = P.L2(0.5).prox(x[group])
    np.testing.assert_allclose(composed.prox(W), x, atol=1e-15)
    assert np.abs(composed.prox(W) - exact.prox(W)).max() > 1e-3


def test_overlapping_certificates_hold() -> None:
    """Check that the certified distance bounds the real one, for problems with every kind of overlap."""
    rng = np.random.default_rng(5)
    for _ in range(15):
        groups = [np.sort(rng.choice(DIMENSION, rng.integers(1, 5), replace=False)) for _ in range(4)]
        penalty = OverlappingGroupLasso(0.6, groups, weights=rng.uniform(0.2, 2, 4))
        w = 2 * rng.standard_normal(DIMENSION)
        found = penalty.prox_certified(w)
        wanted = solve(penalty, w, 1.0)[0]
        assert found.error <= 1e-9
        assert np.abs(found.x - wanted).max() <= found.error + 2e-5


def test_max_strength_of_overlapping_groups_is_the_dual_norm() -> None:
    rng = np.random.default_rng(6)
    groups, weights = [[0, 1, 2], [2, 3, 4], [4, 5]], [1.0, 0.5, 2.0]
    penalty = OverlappingGroupLasso(1.0, groups, weights)
    for _ in range(3):
        g = rng.standard_normal(DIMENSION)
        parts = [cp.Variable(len(m)) for m in groups]
        total: list[Any] = [0] * DIMENSION
        for part, members in zip(parts, groups, strict=True):
            for e, i in enumerate(members):
                total[i] = total[i] + part[e]
        radius = cp.Variable()
        fits = [cp.norm2(part) <= radius * d for part, d in zip(parts, weights, strict=True)]
        cp.Problem(cp.Minimize(radius), [cp.hstack(total) == g, *fits]).solve(solver=cp.CLARABEL)
        found = penalty.max_strength(g)
        assert found == pytest.approx(float(radius.value), rel=1e-5)
        assert not penalty.prox(g, found * 1.01).any()
        assert penalty.prox(g, found * 0.99).any()
    assert OverlappingGroupLasso(1.0, [[0, 1]]).max_strength([0.0, 0.0, 1.0]) == np.inf


def test_overlapping_groups_at_scale() -> None:
    rng = np.random.default_rng(7)
    n = 1_000
    groups = [np.arange(i, min(i + 10, n)) for i in range(0, n, 5)]
    found = OverlappingGroupLasso(1.5, groups).prox_certified(rng.standard_normal(n))
    assert found.error <= 1e-10
    assert 0 < np.count_nonzero(found.x) < n
