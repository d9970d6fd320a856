"""One suite for every registered loss: derivative against value, constants against random pairs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spom.core import registry
from spom.losses import MulticlassHinge, MulticlassPowerHinge, PowerAbsolute
from spom.losses.base import BinaryLoss, MulticlassLoss

LOSSES = [loss for entry in registry.entries("loss") for loss in entry.examples()]
BINARY = [loss for loss in LOSSES if isinstance(loss, BinaryLoss)]
MULTI = [loss for loss in LOSSES if isinstance(loss, MulticlassLoss)]
SCORES = st.floats(-50, 50)
seeded = settings(derandomize=True, max_examples=60, deadline=None)


def targets(loss, n, rng):
    if loss.target == "sign":
        return rng.choice([-1.0, 1.0], n)
    return rng.normal(size=n) * 3 if loss.target == "real" else rng.integers(0, 4, n)


def scores(loss, n, rng, scale=2.0):
    return rng.normal(size=(n, 4) if loss.target == "class" else n) * scale


def each(losses):
    return pytest.mark.parametrize("loss", losses, ids=repr)


def test_every_name_is_registered():
    names = {entry.name for entry in registry.entries("loss")}
    assert names == {
        "hinge",
        "power-hinge",
        "logistic",
        "squared",
        "power-absolute",
        "multiclass-hinge",
        "multiclass-logistic",
        "multiclass-power-hinge",
    }


@each(BINARY)
@seeded
@given(a=SCORES, y=st.floats(-5, 5), sign=st.sampled_from([-1.0, 1.0]))
def test_derivative_matches_differences_of_the_value(loss, a, y, sign):
    y = sign if loss.target == "sign" else y
    h = 1e-6 * max(1.0, abs(a))
    left, right = loss.derivative(y, a - h), loss.derivative(y, a + h)
    slope = (loss.value(y, a + h) - loss.value(y, a - h)) / (2 * h)
    # By the mean value theorem a convex function's slope lies between its derivatives at the ends.
    slack = 1e-9 * (1 + abs(loss.value(y, a)) / h * 1e-6) + 1e-8
    assert left - slack <= slope <= right + slack


@each(MULTI)
@seeded
@given(seed=st.integers(0, 10**6))
def test_multiclass_derivative_is_a_subgradient_and_matches_differences(loss, seed):
    rng = np.random.default_rng(seed)
    a, b, y = rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), rng.integers(0, 4, 5)
    g = loss.derivative(y, a)
    assert (loss.value(y, b) >= loss.value(y, a) + (g * (b - a)).sum(axis=1) - 1e-12).all()
    h = 1e-7 * rng.normal(size=(5, 4))
    slope = loss.value(y, a + h) - loss.value(y, a - h)
    np.testing.assert_allclose(slope, 2 * (g * h).sum(axis=1), atol=1e-12)


@each(LOSSES)
def test_convex(loss):
    rng = np.random.default_rng(1)
    y = targets(loss, 4000, rng)
    a, b, t = scores(loss, 4000, rng), scores(loss, 4000, rng), rng.random(4000)
    mix = (t * a.T + (1 - t) * b.T).T
    chord = t * loss.value(y, a) + (1 - t) * loss.value(y, b)
    gap = 0.5 * loss.strong_convexity * t * (1 - t) * (((a - b) ** 2) if a.ndim == 1 else 0)
    assert (loss.value(y, mix) <= chord - gap + 1e-12).all()
    assert (loss.value(y, a) >= 0).all()


@each(LOSSES)
def test_hoelder_constant_holds_and_is_tight(loss):
    rng = np.random.default_rng(2)
    n = 20000
    y = targets(loss, n, rng)
    a = scores(loss, n, rng)
    b = a + scores(loss, n, rng) * 10.0 ** rng.uniform(-6, 1, n).reshape((n,) + (1,) * (a.ndim - 1))
    if loss.target == "class":
        # Where the constant of the multiclass losses is attained: two classes that share all.
        a[:500], b[:500] = -30.0, -30.0
        a[:500, :2], b[:500, :2] = rng.normal(size=(500, 2)) * 1e-3, rng.normal(size=(500, 2)) * 1e-3
        y[:500] = 0
    elif loss.target == "real":
        b[: n // 2] = 2 * y[: n // 2] - a[: n // 2]  # symmetric around the kink: the worst pairs
    else:
        a[: n // 2], b[: n // 2] = y[: n // 2] + a[: n // 2] * 1e-3, y[: n // 2]
    exponent, constant = loss.hoelder
    change, distance = loss.derivative(y, a) - loss.derivative(y, b), a - b
    if a.ndim == 2:
        change, distance = np.linalg.norm(change, axis=1), np.linalg.norm(distance, axis=1)
    change, distance = np.abs(change), np.abs(distance)
    bound = constant * distance**exponent
    assert (change <= bound * (1 + 1e-9) + 1e-12).all()
    far = distance > 1e-6
    slack = 0.85 if loss.target != "sign" or loss.hoelder[0] < 1 else 0.7
    assert (change[far] / bound[far]).max() >= slack


@each(LOSSES)
def test_lipschitz_constant_holds_and_is_tight(loss):
    rng = np.random.default_rng(3)
    y = targets(loss, 5000, rng)
    g = loss.derivative(y, scores(loss, 5000, rng, scale=100.0 if np.isfinite(loss.lipschitz) else 1e12))
    size = np.abs(g) if g.ndim == 1 else np.linalg.norm(g, axis=1)
    if np.isinf(loss.lipschitz):
        assert size.max() > 10
    else:
        assert size.max() <= loss.lipschitz * (1 + 1e-12)
        assert size.max() >= 0.99 * loss.lipschitz


@each(BINARY)
@pytest.mark.parametrize("a", [1e300, -1e300, 1e154, -1e154, 800.0, -800.0, 1.5e154, 0.0, 5e-324])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_extreme_scores(loss, y, a):
    value, slope = float(loss.value(y, a)), float(loss.derivative(y, a))
    q = getattr(loss, "q", {"Squared": 2, "Hinge": 1}.get(type(loss).__name__, 1))
    z = Fraction(y) - Fraction(a) if loss.target == "real" else max(Fraction(0), 1 - Fraction(y) * Fraction(a))
    size = float(abs(z))
    with np.errstate(over="ignore"):
        truth = np.float64(size) ** q * (0.5 if type(loss).__name__ == "Squared" else 1.0)
    if type(loss).__name__ == "Squared":
        exact = z * z / 2
        truth = float(exact) if exact < Fraction(np.finfo(float).max) else np.inf
    if type(loss).__name__ == "Logistic":
        truth = max(0.0, -y * a) if abs(a) > 100 else np.log(2.0)
    assert value == pytest.approx(truth, rel=1e-12)
    assert not np.isnan(slope)


@each([loss for loss in MULTI if not hasattr(loss, "q")])
def test_multiclass_extreme_scores(loss):
    a = np.array([[1e300, -1e300, 0.0], [1e300, 1e300, 1e300], [-1e300, 1e300, 0.0]])
    value, g = loss.value([0, 0, 0], a), loss.derivative([0, 0, 0], a)
    tie = 1.0 if type(loss).__name__ == "MulticlassHinge" else np.log(3.0)
    np.testing.assert_allclose(value, [0.0, tie, 2e300])
    np.testing.assert_allclose(g[0], 0.0)
    np.testing.assert_allclose(g[2], [-1, 1, 0])
    assert np.abs(g.sum(axis=1)).max() < 1e-12


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
def test_multiclass_power_hinge_is_one_against_the_rest(q):
    from spom.losses import MulticlassPowerHinge, PowerHinge

    rng = np.random.default_rng(8)
    y = rng.integers(0, 3, 50)
    signs = np.where(np.arange(3) == y[:, None], 1.0, -1.0)
    for scale in (1.0, 1e300):
        a = rng.normal(size=(50, 3)) * scale
        with np.errstate(over="ignore"):
            total = PowerHinge(q).value(signs, a).sum(axis=1)
        np.testing.assert_allclose(MulticlassPowerHinge(q).value(y, a), total, rtol=1e-14)
        np.testing.assert_array_equal(MulticlassPowerHinge(q).derivative(y, a), PowerHinge(q).derivative(signs, a))
    assert np.isinf(MulticlassPowerHinge(1.5).hoelder[1])
    assert MulticlassPowerHinge(2.0).hoelder == (1.0, 2.0)


def test_overflow_only_where_the_truth_overflows():
    from spom.losses import PowerAbsolute, Squared

    big = 1.7e308
    assert PowerAbsolute(1.5).derivative(-big, big) == pytest.approx(1.5 * np.sqrt(2) * np.sqrt(big))
    assert PowerAbsolute(1.5).derivative(big, -big) == pytest.approx(-1.5 * np.sqrt(2) * np.sqrt(big))
    assert np.isfinite(Squared().value(0.0, 1.8e154))
    assert np.isinf(Squared().value(0.0, 1e160))


def test_left_derivative_at_kinks():
    from spom.losses import Hinge, PowerAbsolute, PowerHinge

    for hinge in (Hinge(), PowerHinge(1.0)):
        assert hinge.derivative([1, -1], [1.0, -1.0]).tolist() == [-1.0, 0.0]
        above, below = np.nextafter(1.0, 2), np.nextafter(1.0, 0)
        assert hinge.derivative([1, 1, -1, -1], [above, below, -above, -below]).tolist() == [0, -1, 0, 1]
    assert PowerAbsolute(1.0).derivative([3.0], [3.0]).tolist() == [-1.0]
    assert PowerHinge(1.5).derivative([1], [1.0]).tolist() == [0.0]
    # Left means: the limit of slopes from the left, at every kink of every loss with one.
    for loss, y, kink in [(Hinge(), 1, 1.0), (Hinge(), -1, -1.0), (PowerAbsolute(1.0), 3.0, 3.0)]:
        slope = (loss.value(y, kink) - loss.value(y, kink - 0.25)) / 0.25
        assert loss.derivative(y, kink) == slope


@each(BINARY)
@seeded
@given(a=st.floats(-1e300, 1e300), sign=st.sampled_from([-1.0, 1.0]), y=st.floats(-1e300, 1e300))
def test_compiled_kernels_equal_the_vectorised_form(loss, a, sign, y):
    value, derivative, reals = loss.compiled()
    for score in (a, sign, a % 7.0, sign + 1e-9, y):
        target = np.float64(sign if loss.target == "sign" else y)
        score = np.float64(score)  # a float of Python raises where its power overflows
        np.testing.assert_allclose(value(target, score, reals), loss.value(target, score), rtol=1e-14)
        np.testing.assert_allclose(derivative(target, score, reals), loss.derivative(target, score), rtol=1e-14)


@each(MULTI)
def test_compiled_rows_equal_the_vectorised_form(loss):
    rng = np.random.default_rng(5)
    row, reals = loss.compiled()
    for k in (1, 2, 7):
        for scale in (1.0, 30.0, 1e300):
            a, y = rng.normal(size=k) * scale, int(rng.integers(k))
            out, both = np.empty(k), a.copy()
            value = row(y, a, reals, out)
            row(y, both, reals, both)
            np.testing.assert_allclose(value, loss.value(y, a), rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(out, loss.derivative(y, a), rtol=1e-13, atol=1e-300)
            assert (out == both).all()


def test_compiled_derivatives_at_kinks_and_where_a_difference_overflows():
    _, derivative, reals = PowerAbsolute(1.5).compiled()
    y, a = np.float64(-1.5e308), np.float64(1.5e308)
    assert derivative(y, a, reals) == pytest.approx(1.5 * np.sqrt(3.0) * 1e154, rel=1e-12)
    assert derivative(a, y, reals) == pytest.approx(-1.5 * np.sqrt(3.0) * 1e154, rel=1e-12)
    assert derivative(a, np.float64(0.5e308), reals) == pytest.approx(-1.5e154, rel=1e-12)
    # At a margin of exactly one: the left derivative for q = 1, which is zero for a class that is not the gold one.
    for q in (1.0, 1.5, 2.0):
        row, reals = MulticlassPowerHinge(q, 4).compiled()
        out = np.empty(4)
        assert row(0, np.array([1.0, -3.0, -1.0, -1.0]), reals, out) == 0.0
        np.testing.assert_array_equal(out, [-1.0 if q == 1.0 else 0.0, 0.0, 0.0, 0.0])
        row(1, np.array([-1.0, 4.0, -1.0, -1.0]), reals, out)
        np.testing.assert_array_equal(out, np.zeros(4))
    for scores in ([2.0, 2.0, 2.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [3.0, 2.0, 2.0], [3.0, 2.5, 2.5]):
        for y in range(3):
            row, reals = MulticlassHinge().compiled()
            out = np.empty(3)
            value = row(y, np.array(scores), reals, out)
            assert value == MulticlassHinge().value(y, scores)
            np.testing.assert_array_equal(out, MulticlassHinge().derivative(y, scores))


@each(LOSSES)
def test_conjugate_is_fenchel(loss):
    rng = np.random.default_rng(6)
    y, a, b = targets(loss, 300, rng), scores(loss, 300, rng), scores(loss, 300, rng)
    u = loss.derivative(y, a)
    product = (lambda x, z: x * z) if a.ndim == 1 else (lambda x, z: (x * z).sum(axis=1))
    star = loss.conjugate(y, u)
    np.testing.assert_allclose(star + loss.value(y, a), product(u, a), rtol=1e-9, atol=1e-9)
    assert (star + loss.value(y, b) >= product(u, b) - 1e-9).all()


@each([loss for loss in LOSSES if np.isfinite(loss.lipschitz)])
def test_conjugate_outside_its_domain(loss):
    y = targets(loss, 3, np.random.default_rng(0))
    u = np.full((3, 4), 2.0) if loss.target == "class" else np.full(3, 2.0)
    assert np.isinf(loss.conjugate(y, u)).all()
    assert np.isinf(loss.conjugate(y, -u)).all()


def test_probabilities():
    from spom.losses import Hinge, Logistic, MulticlassLogistic

    p = Logistic().probability([0.0, 1e300, -1e300, 2.0])
    np.testing.assert_allclose(p, [0.5, 1.0, 0.0, 1 / (1 + np.exp(-2.0))], rtol=1e-15)
    p = MulticlassLogistic().probability([[0.0, 0.0], [1e300, -1e300]])
    assert p.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    with pytest.raises(AttributeError, match="no probabilities"):
        Hinge().probability([0.0])


@each(LOSSES)
def test_empty_lists_and_other_types(loss):
    empty = np.zeros((0, 4)) if loss.target == "class" else []
    assert loss.value([], empty).shape == (0,)
    y, a = ([0], [[1, 2, 3, 4]]) if loss.target == "class" else ([1], [2])
    wide = np.asarray(a, dtype=np.float64)
    for other in (wide.astype(np.float32), np.asfortranarray(wide), np.asarray(a, dtype=np.int8), a):
        np.testing.assert_array_equal(loss.derivative(y, other), loss.derivative(y, wide))


@each(BINARY)
def test_bad_input(loss):
    with pytest.raises(ValueError, match="the same shape"):
        loss.value([1, 1], [0.0])
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"a must be finite: entry 1"):
            loss.derivative([1, 1], [0.0, bad])
        with pytest.raises(ValueError, match=r"y must be finite: entry 0"):
            loss.value([bad, 1], [0.0, 0.0])
    with pytest.raises(ValueError, match="real numbers"):
        loss.value(["spam"], [0.0])
    if loss.target == "sign":
        with pytest.raises(ValueError, match=r"labels must be -1 or \+1; entry 1 is 0"):
            loss.value([1, 0], [0.0, 0.0])


@each(MULTI)
def test_multiclass_bad_input(loss):
    for y in ([0, 3], [-1, 0], [0.5, 0]):
        with pytest.raises(ValueError, match="class indices from 0 to 2"):
            loss.value(y, np.zeros((2, 3)))
    for a in (np.zeros((3, 3)), np.zeros(2), np.zeros((2, 0))):
        with pytest.raises(ValueError, match="one row for each entry"):
            loss.derivative([0, 1], a)
    with pytest.raises(ValueError, match="finite"):
        loss.value([0], [[np.nan, 0.0]])


def test_parameters():
    from sklearn.base import clone

    from spom.losses import PowerAbsolute, PowerHinge

    loss = clone(PowerHinge(q=1.25))
    assert loss.get_params() == {"q": 1.25}
    assert loss.set_params(q=2).hoelder == (1.0, 2.0)
    assert repr(PowerHinge(q=1.5)) == "PowerHinge(q=1.5)"
    for cls in (PowerHinge, PowerAbsolute):
        for q in (0.5, 2.5, "two", np.nan, True):
            with pytest.raises(ValueError, match="from 1 to 2"):
                cls(q)
    with pytest.raises(ValueError, match="from 1 to 2"):
        loss.set_params(q=3.0)
    assert loss.q == 2


def test_hoelder_constants_of_the_paper():
    from spom.losses import Hinge, Logistic, PowerAbsolute, PowerHinge, Squared

    assert Hinge().hoelder == (0.0, 1.0)
    assert Squared().hoelder == (1.0, 1.0)
    assert Logistic().hoelder == (1.0, 0.25)
    assert PowerHinge(1.5).hoelder == (0.5, 1.5)
    assert PowerAbsolute(1.5).hoelder == (0.5, 1.5 * 2**0.5)
