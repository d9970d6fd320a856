"""What penalties say of themselves: conjugates, traits, skipped steps, the largest useful strength."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from spom.errors import Unsupported
from spom.penalties import (
    L1,
    L2,
    ElasticNet,
    GroupLasso,
    L1Ball,
    LInf,
    LInfBall,
    Power,
    SquaredL1,
    SquaredL2,
    Sum,
)
from tests.penalties.cases import ACCURACY, DIMENSION, EVERY, EXACT, name, over
from tests.penalties.test_prox import STEPS, VECTORS

Vector = np.ndarray[Any, Any]


def has_conjugate(penalty: Any) -> bool:
    try:
        penalty.conjugate().value(np.zeros(DIMENSION))
    except Unsupported:
        return False
    return True


CONJUGATE = [p for p in EXACT if has_conjugate(p)]


# Rounding of (w - x) / step must stay small against the sets that it is compared with.
MODERATE = arrays(
    np.float64, DIMENSION, elements=st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-10, 10, width=16))
)


@over(CONJUGATE)
@given(w=MODERATE, step=st.sampled_from([0.3, 1.0, 7.0]))
def test_prox_and_conjugate_meet_in_fenchels_equality(penalty: Any, w: Vector, step: float) -> None:
    """x = prox(w) and y = (w - x)/step are a dual pair just when value(x) + conjugate(y) = <x, y>."""
    conjugate = penalty.conjugate()
    x = penalty.prox(w, step)
    y = (w - x) / step
    if conjugate.value(y) == np.inf:
        y = y * (1 - 1e-9)  # rounding may leave y outside a set by a hair: step back inside
    scale = max(1.0, abs(float(x @ y)), float(np.abs(w).max()) * float(np.abs(y).max()))
    assert (
        abs(penalty.value(x) + conjugate.value(y) - x @ y) <= max(1e-8, 10 * ACCURACY.get(name(penalty), 0.0)) * scale
    )


@over(CONJUGATE)
@given(x=VECTORS, y=VECTORS)
def test_fenchels_inequality(penalty: Any, x: Vector, y: Vector) -> None:
    """Catch a conjugate that is too small somewhere; one that is too large fails the test of equality."""
    conjugate = penalty.conjugate()
    total = penalty.value(x) + conjugate.value(y)
    assert total >= x @ y - 1e-6 * max(1.0, abs(float(x @ y)))


@over([p for p in EXACT if type(p.conjugate()).__name__ != "Conjugate" and name(p) != "Conjugate"])
@given(w=VECTORS, step=STEPS)
def test_moreau_with_an_independent_conjugate(penalty: Any, w: Vector, step: float) -> None:
    """w = prox of Omega + step * prox of Omega* at w / step, where Omega* is an operator of its own."""
    x = penalty.prox(w, step)
    y = penalty.conjugate().prox(w / step, 1.0 / step)
    assert np.abs(x + step * y - w).max() <= 1e-12 * max(1.0, float(np.abs(w).max())) * max(1.0, step)


@over(EXACT)
@given(v=VECTORS, w=VECTORS, c=st.sampled_from([0.25, 2.0, 1e3]))
def test_traits_hold(penalty: Any, v: Vector, w: Vector, c: float) -> None:
    fv, fw = penalty.value(v), penalty.value(w)
    assert penalty.convex
    if np.isfinite(fv) and np.isfinite(fw):
        assert penalty.value((v + w) / 2) <= (fv + fw) / 2 + 1e-7 * max(1.0, abs(fv), abs(fw))
    if penalty.indicator:
        assert fv in (0.0, np.inf)
    if penalty.homogeneous:
        assert penalty.value(c * v) == pytest.approx(c * fv, rel=1e-6, abs=1e-9)
    if penalty.separable:
        # Changing one coordinate leaves the prox of the others alone.
        u = v.copy()
        u[0] += 1.0
        np.testing.assert_allclose(penalty.prox(u)[1:], penalty.prox(v)[1:], atol=1e-12)


@over([p for p in EXACT if p.follows_l1])
@given(w=VECTORS, step=STEPS, seed=st.integers(0, 1000))
def test_what_follows_l1_minimises_the_sum(penalty: Any, w: Vector, step: float, seed: int) -> None:
    """Check that no point near the soft threshold followed by this prox has a lower sum, which is convex."""
    x = penalty.prox(L1(0.7).prox(w, step), step)

    def total(v: Vector) -> float:
        return 0.5 * float((v - w) @ (v - w)) + step * (penalty.value(v) + 0.7 * float(np.abs(v).sum()))

    size = max(1.0, float(np.abs(w).max()))
    for scale in (1e-3, 0.1, 1.0):
        near = x + scale * size * np.random.default_rng(seed).standard_normal(DIMENSION)
        assert total(x) <= total(penalty.prox(near, 0.0) if penalty.indicator else near) + 1e-9 * size * size


@over([p for p in EVERY if p.radial])
@given(w=VECTORS)
def test_radial_penalties_look_at_the_norm_alone(penalty: Any, w: Vector) -> None:
    turned = np.zeros(DIMENSION)
    turned[0] = -np.linalg.norm(w)
    if abs(np.linalg.norm(w) - getattr(penalty, "radius", np.inf)) > 1e-6:
        assert penalty.value(turned) == pytest.approx(penalty.value(w), rel=1e-9, abs=1e-9)


@over([p for p in EVERY if p.polyhedron(DIMENSION) is not None])
@given(w=MODERATE)
def test_the_linear_program_of_a_penalty_has_its_value(penalty: Any, w: Vector) -> None:
    A, B, cost, lower, upper = penalty.polyhedron(DIMENSION)
    if penalty.indicator:
        w = penalty.prox(w)
        slack = 1e-7
    else:
        slack = 0.0
    low, high = lower - A @ w - slack, upper - A @ w + slack
    if not cost.size:
        assert (low <= 0).all()
        assert (high >= 0).all()
        return
    below, above = np.isfinite(high), np.isfinite(low)
    rows = np.vstack([B.toarray()[below], -B.toarray()[above]])
    found = linprog(cost, A_ub=rows, b_ub=np.concatenate([high[below], -low[above]]))
    assert found.status == 0
    assert found.fun == pytest.approx(penalty.value(w), rel=1e-7, abs=1e-7)
    if penalty.indicator:
        far = w + 100.0
        low, high = lower - A @ far, upper - A @ far
        below, above = np.isfinite(high), np.isfinite(low)
        outside = linprog(cost, A_ub=rows, b_ub=np.concatenate([high[below], -low[above]]))
        assert (outside.status == 0) == (penalty.value(far) == 0.0)


@over([p for p in EXACT if p.semigroup])
@given(w=VECTORS, s=STEPS, t=STEPS)
def test_semigroups_are_semigroups(penalty: Any, w: Vector, s: float, t: float) -> None:
    twice = penalty.prox(penalty.prox(w, s), t)
    assert np.abs(twice - penalty.prox(w, s + t)).max() <= 1e-11 * max(1.0, float(np.abs(w).max()))


def may_be_a_semigroup(penalty: Any) -> bool:
    """Tell whether this depends on inner penalties or structures, or is a plain norm at an end of its ratio."""
    around = ("Scaled", "Translated", "Conjugate", "LatentGroupLasso", "Sum", "SeparableSum")
    return name(penalty) in around or getattr(penalty, "l1_ratio", 0.5) in (0.0, 1.0)


@over([p for p in EXACT if not p.semigroup and getattr(p, "strength", 1.0) > 0 and not may_be_a_semigroup(p)])
def test_what_is_no_semigroup_does_not_say_so_in_vain(penalty: Any) -> None:
    """Check that the trait is not merely undeclared: some input tells the two apart."""
    rng = np.random.default_rng(0)
    gaps = []
    for w in rng.standard_normal((200, DIMENSION)) * 3:
        gaps.append(np.abs(penalty.prox(penalty.prox(w, 0.4), 0.9) - penalty.prox(w, 1.3)).max())
    assert max(gaps) > 1e-6


SKIPS = [p for p in EVERY if p.semigroup or p.elastic() is not None]


@over(SKIPS)
@given(w=VECTORS, seed=st.integers(0, 1000), k=st.sampled_from([0, 1, 2, 50]))
def test_skip_is_one_prox_after_another(penalty: Any, w: Vector, seed: int, k: int) -> None:
    steps = np.random.default_rng(seed).uniform(0, 0.1, k)
    x = w.copy()
    for step in steps:
        x = penalty.prox(x, step)
    skipped = penalty.skip(w, steps)
    if k == 0 and (penalty.indicator or not np.isfinite(penalty.value(w))):
        return  # no steps: a set has not been projected to
    assert np.abs(skipped - x).max() <= 1e-11 * max(1.0, float(np.abs(w).max()))
    out = w.copy()
    assert penalty.skip(out, steps, out=out) is out
    np.testing.assert_array_equal(out, skipped)


def test_skip_of_a_million_steps_does_not_overflow() -> None:
    w = np.array([5.0, -1e-3])
    steps = np.full(10**6, 1e-2)
    assert np.isfinite(ElasticNet(1.0, 0.1).skip(w, steps)).all()
    assert (SquaredL2(1.0).skip(w, steps) == 0).all() or np.abs(SquaredL2(1.0).skip(w, steps)).max() < 1e-300


@over([p for p in EVERY if p not in SKIPS])
def test_no_skip_without_a_closed_form(penalty: Any) -> None:
    with pytest.raises(Unsupported, match="no closed form"):
        penalty.skip(np.zeros(DIMENSION), [0.1])


def test_bad_steps_to_skip() -> None:
    for steps in ([-1.0], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="steps"):
            L1().skip([1.0], steps)


@over([p for p in EXACT if hasattr(p, "strength") and name(p) != "OverlappingGroupLasso"])
@given(g=VECTORS)
def test_max_strength_gives_zero_and_a_hair_less_does_not(penalty: Any, g: Vector) -> None:
    """0 minimises <g, w> + value(w) just where the prox of -g by one step is 0."""
    found = penalty.max_strength(g)
    params = penalty.get_params(deep=False)
    if found == np.inf:
        strong = type(penalty)(**{**params, "strength": 10.0})
        # The power 1.01 leaves (g / 10)^100: not zero, but below the smallest float.
        assert strong.prox(-g).any() or getattr(penalty, "q", 2.0) < 1.1
        return
    if found == 0.0:
        assert not g.any()
        return
    hair = max(1e-12, 100 * ACCURACY.get(name(penalty), 1e-14))
    at = type(penalty)(**{**params, "strength": found * (1 + hair)})
    below = type(penalty)(**{**params, "strength": found * (1 - max(hair, 1e-6))})
    assert not at.prox(-g).any()
    assert below.prox(-g).any()


def test_max_strength_of_sums_is_a_factor() -> None:
    g = np.array([3.0, -1.0, 0.5, 2.0])
    total = Sum([L1(0.5), GroupLasso(1.0, 2)])
    c = total.max_strength(g)
    assert not total.prox(g, c).any()
    assert total.prox(g, c * (1 - 1e-9)).any()
    assert Sum([L1(0.5), SquaredL2(3.0)]).max_strength(g) == pytest.approx(6.0)
    with pytest.raises(Unsupported, match="homogeneous"):
        Sum([SquaredL1(1.0), L1(1.0)]).max_strength(g)
    with pytest.raises(Unsupported, match="set"):
        L1Ball().max_strength(g)


def test_named_conjugates() -> None:
    assert repr(L1(2.0).conjugate()) == "LInfBall(radius=2.0)"
    assert repr(LInfBall(2.0).conjugate()) == "L1(strength=2.0)"
    assert repr(L2(2.0).conjugate()) == "L2Ball(radius=2.0)"
    assert repr(LInf(2.0).conjugate()) == "L1Ball(radius=2.0)"
    assert SquaredL2(4.0).conjugate().strength == 0.25
    assert repr(ElasticNet(1.0).conjugate().conjugate()) == "ElasticNet()"


def test_proposition_4_of_fobos() -> None:
    """Check that consecutive proxes of the lq norm equal one prox with the summed strengths, for q = 1, 2 and inf."""
    rng = np.random.default_rng(0)
    w, strengths = 3 * rng.standard_normal(20), rng.uniform(0, 0.2, 15)
    for norm in (L1, L2, LInf):
        x = w
        for strength in strengths:
            x = norm(strength).prox(x)
        np.testing.assert_allclose(x, norm(strengths.sum()).prox(w), atol=1e-14)
    # and not for the others: here q = 3, where the norm's own prox would be needed and powers do not add up.
    x = w
    for strength in strengths:
        x = Power(strength, 3).prox(x)
    assert np.abs(x - Power(strengths.sum(), 3).prox(w)).max() > 1e-3


def test_algorithm_4_with_unit_weights_is_algorithm_2() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        w = rng.standard_normal(40) * rng.choice([1e-6, 1.0, 1e6])
        t = 10.0 ** rng.uniform(-8, 8)
        plain, weighted = SquaredL1(t).prox(w), SquaredL1(t, weights=np.ones(40)).prox(w)
        assert np.abs(plain - weighted).max() <= 1e-14 * np.abs(w).max()
