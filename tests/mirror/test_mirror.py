"""One suite for every registered mirror map; composite steps against a minimiser that knows only values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from spom.core import registry
from spom.errors import Unsupported
from spom.mirror import Euclidean, PNorm, SmoothedBregman

MAPS = [m for entry in registry.entries("mirror") for m in entry.examples()]
each = pytest.mark.parametrize("psi", MAPS, ids=repr)
seeded = settings(derandomize=True, max_examples=60, deadline=None)


def penalty(name, **params):
    return registry.make("penalty", name, **params)


def vectors(rng, n=12, spread=3.0):
    """Draw vectors with zeros, ties and entries of many sizes."""
    w = rng.normal(size=n) * 10.0 ** rng.uniform(-spread, spread, n)
    w[rng.random(n) < 0.2] = 0.0
    w[: n // 4] = w[:1]
    return w


@each
@seeded
@given(seed=st.integers(0, 10**6), exponent=st.integers(-200, 200), n=st.integers(0, 30))
def test_round_trip_at_every_scale(psi, seed, exponent, n):
    w = vectors(np.random.default_rng(seed), n) * 10.0**exponent
    back = psi.to_primal(psi.to_dual(w))
    # The Bregman map adds its strength to the dual, so that it keeps digits relative to that.
    floor = psi.strength if isinstance(psi, SmoothedBregman) else 0.0
    assert (np.abs(back - w) <= 1e-12 * (np.abs(w) + floor)).all()
    assert (np.sign(back) == np.sign(w)).all()
    v = vectors(np.random.default_rng(seed + 1), n) * 10.0**exponent
    forth = psi.to_dual(psi.to_primal(v))
    assert np.abs(forth - v).max(initial=0.0) <= 1e-12 * np.abs(v).max(initial=0.0)


@each
@seeded
@given(seed=st.integers(0, 10**6))
def test_to_dual_is_the_gradient_of_the_value(psi, seed):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=6)
    v = psi.to_dual(w)
    for i in range(6):
        e = np.zeros(6)
        e[i] = 1e-6
        low, high = psi.to_dual(w - e)[i], psi.to_dual(w + e)[i]
        slope = (psi.value(w + e) - psi.value(w - e)) / 2e-6
        assert min(low, v[i]) - 1e-7 <= slope <= max(high, v[i]) + 1e-7


@each
@seeded
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 4))
def test_divergence_and_strong_convexity(psi, seed, spread):
    rng = np.random.default_rng(seed)
    w, u = vectors(rng, spread=spread), vectors(rng, spread=spread)
    if seed % 3 == 0:
        u = w + 1e-3 * rng.normal(size=w.size)
    literal = psi.value(w) - psi.value(u) - (w - u) @ psi.to_dual(u)
    d = psi.divergence(w, u)
    scale = psi.value(w) + psi.value(u) + 1e-300
    assert d == pytest.approx(literal, abs=1e-12 * scale)
    assert d >= 0
    assert psi.divergence(w, w) <= 1e-14 * scale
    bound = 0.5 * psi.modulus(w.size) * psi.norm(w - u) ** 2
    assert d >= bound * (1 - 1e-12) - 1e-14 * scale


@each
def test_the_modulus_is_the_largest(psi):
    """Check that some pair comes near the bound, so a larger modulus would be wrong."""
    n, rng = 8, np.random.default_rng(0)
    best = np.inf
    for _ in range(3000):
        # Far out and along the flattest direction: for the p-norm near a vector of one entry.
        u = rng.normal(size=n) * rng.choice([0.0, 1.0, 100.0], n)
        w = u + 1e-3 * rng.normal(size=n) * rng.choice([0.0, 1.0], n)
        if (w == u).all():
            continue
        best = min(best, psi.divergence(w, u) / (0.5 * psi.modulus(n) * psi.norm(w - u) ** 2))
    assert 1 - 1e-6 <= best < 1.5


@each
@seeded
@given(seed=st.integers(0, 10**6))
def test_the_dual_norm_is_dual(psi, seed):
    rng = np.random.default_rng(seed)
    w, v = vectors(rng), vectors(rng)
    assert abs(w @ v) <= psi.norm(w) * psi.dual_norm(v) * (1 + 1e-12)
    if isinstance(psi, PNorm):
        # Hoelder's inequality is an equality at the gradient.
        g = psi.to_dual(w)
        assert w @ g == pytest.approx(psi.norm(w) * psi.dual_norm(g), rel=1e-12)
        assert psi.norm(w) == pytest.approx(np.linalg.norm(w, psi.exponent(w.size)), rel=1e-12)


@each
def test_compiled_kernels(psi):
    w = vectors(np.random.default_rng(3))
    to_dual, to_primal, reals = psi.compiled(w.size)
    out = np.empty_like(w)
    to_dual(w, reals, out)
    assert (out == psi.to_dual(w)).all()
    v = out.copy()
    to_primal(out, reals, out)
    assert (out == psi.to_primal(v)).all()


@each
def test_out_and_other_types(psi):
    w = np.array([1.0, -2.0, 0.0, 0.5])
    expected = psi.to_dual(w)
    out = w.copy()
    assert psi.to_dual(out, out=out) is out
    for other in (w.tolist(), w.astype(np.float32), np.repeat(w, 2)[::2], w.reshape(2, 2)):
        np.testing.assert_array_equal(psi.to_dual(other).reshape(-1), expected)
    np.testing.assert_array_equal(out, expected)
    assert psi.to_dual([]).shape == (0,)
    assert psi.value([]) == psi.norm([]) == psi.divergence([], []) == 0.0
    frozen = w.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(psi.to_dual(frozen), expected)


SEPARABLE = [
    ("zero", {}),
    ("l1", {"strength": 0.7}),
    ("squared-l2", {"strength": 0.7}),
    ("elastic-net", {"strength": 0.7}),
    ("power", {"strength": 0.7, "q": 1.5}),
    ("box", {"lower": -0.3, "upper": 0.05}),
    ("linf-ball", {"radius": 0.5}),
]


@pytest.mark.parametrize(("name", "params"), SEPARABLE, ids=[name for name, _ in SEPARABLE])
@pytest.mark.parametrize("psi", [SmoothedBregman(1.0, 0.1), SmoothedBregman(0.3, 1.0)], ids=repr)
def test_bregman_step_is_the_argmin_coordinate_by_coordinate(psi, name, params):
    omega = penalty(name, **params)
    v = np.concatenate([np.linspace(-3, 3, 41), [0.7 * 0.5, 1.1, -1.1, 1.0]])
    x = psi.prox(omega, v, 0.5)
    box = (-0.3, 0.05) if name == "box" else (-0.5, 0.5) if name == "linf-ball" else (-5.0, 5.0)
    free = name in ("box", "linf-ball")

    def objective(z, target):
        return (0 if free else 0.5 * omega.value([z])) + psi.value([z]) - target * z

    for found, target in zip(x, v, strict=True):
        best = minimize_scalar(objective, bounds=box, args=(target,), method="bounded", options={"xatol": 1e-12})
        assert objective(found, target) <= best.fun + 1e-14
        assert found == pytest.approx(best.x, abs=2e-6)
        assert box[0] <= found <= box[1]


PAIRS = [
    (PNorm(1.05), ("l1", {"strength": 0.2})),
    (PNorm(1.5), ("l1", {"strength": 0.2})),
    (PNorm(), ("l1", {"strength": 0.5})),
    (PNorm(1.3), ("zero", {})),
    (PNorm(1.3), ("box", {"lower": 0.0, "upper": np.inf})),
    (PNorm(2.0), ("group-lasso", {"strength": 0.2, "groups": 2})),
    (PNorm(2.0), ("squared-l2", {"strength": 0.2})),
    (Euclidean(), ("l1", {"strength": 0.2})),
    (Euclidean(), ("group-lasso", {"strength": 0.2, "groups": 2})),
    (SmoothedBregman(0.5, 0.1), ("l1", {"strength": 0.2})),
    (SmoothedBregman(0.5, 0.1), ("elastic-net", {"strength": 0.2})),
]


@pytest.mark.parametrize(("psi", "pair"), PAIRS, ids=[f"{psi}-{pair[0]}" for psi, pair in PAIRS])
def test_the_composite_step_beats_other_points(psi, pair):
    """(1.2): eta <g, x> + eta penalty(x) + divergence(x, w), at random and perturbed points."""
    omega, eta, rng = penalty(pair[0], **pair[1]), 0.3, np.random.default_rng(7)
    for _ in range(5):
        w, g = rng.normal(size=6), rng.normal(size=6) * 3
        if pair[0] == "box":
            w = np.abs(w)
        x = psi.step(w, g, eta, omega)

        def objective(z, w=w, g=g):
            return eta * (g @ z) + eta * omega.value(z) + psi.divergence(z, w)

        here = objective(x)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(100):
                move = rng.normal(size=6) * size * (rng.random(6) < 0.5)
                assert here <= objective(x + move) + 1e-12
        assert here <= objective(np.zeros(6)) + 1e-12
        assert here <= objective(w) + 1e-12


def test_smidas_against_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(11)
    v = rng.normal(size=8)
    w = cp.Variable(8)
    problem = cp.Problem(cp.Minimize(0.4 * cp.norm1(w) + 0.5 * cp.square(cp.pnorm(w, 1.5)) - v @ w))
    problem.solve(solver="CLARABEL")
    x = PNorm(1.5).prox(penalty("l1", strength=0.4), v, 1.0)
    np.testing.assert_allclose(x, w.value, atol=1e-5)
    # The threshold belongs in the dual: in the primal it is another point.
    wrong = penalty("l1", strength=0.4).prox(PNorm(1.5).to_primal(v))
    assert np.abs(wrong - w.value).max() > 1e-2


def test_euclidean_step_is_forward_backward():
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=9), rng.normal(size=9)
    for name, params in [*SEPARABLE, ("l2", {"strength": 0.3}), ("squared-l1", {"strength": 0.4})]:
        omega = penalty(name, **params)
        np.testing.assert_array_equal(Euclidean().step(w, g, 0.2, omega), omega.prox(w - 0.2 * g, 0.2))
    np.testing.assert_array_equal(Euclidean().step(w, g, 0.2), w - 0.2 * g)


def test_p_norm_of_two_is_euclidean():
    rng = np.random.default_rng(0)
    w, g, omega = rng.normal(size=9), rng.normal(size=9), penalty("linf", strength=1.0)
    np.testing.assert_array_equal(PNorm(2.0).step(w, g, 0.2, omega), Euclidean().step(w, g, 0.2, omega))


def test_p_norm_of_one_entry_and_of_a_constant():
    assert PNorm(1.2).to_dual([0.0, -3.0, 0.0]).tolist() == [0.0, -3.0, 0.0]
    # norm_p of n ones is n^(1/p); each entry of the gradient is norm_p^(2-p).
    np.testing.assert_allclose(PNorm(1.5).to_dual(np.ones(8)), 8 ** (0.5 / 1.5), rtol=1e-15)


@pytest.mark.parametrize("d", [0, 1, 2, 3, 4, 100, 10**6])
def test_auto_exponent(d):
    p = PNorm("auto").exponent(d)
    assert p == (2.0 if d <= 2 else 1 + 1 / np.log(d))
    assert PNorm().modulus(d) == p - 1
    with pytest.raises(ValueError, match="dimension"):
        PNorm().modulus()


def test_bregman_map_by_hand():
    psi = SmoothedBregman(strength=2.0, eps=0.5)
    np.testing.assert_allclose(psi.to_dual([0.25, -0.5, 3.0]), [1.25, -2.5, 5.0])
    assert psi.value([0.25]) == pytest.approx(2.0 * 0.25**2 / (2 * 0.5) + 0.5 * 0.25**2)
    assert psi.value([-3.0]) == pytest.approx(2.0 * (3.0 - 0.25) + 4.5)
    # Shrunk, and never exactly zero.
    np.testing.assert_allclose(psi.to_primal([1e-9, -1e-9]), [2e-10, -2e-10], rtol=1e-15)


def test_pairs_without_a_closed_form_say_what_works():
    for psi, name, params in [
        (PNorm(1.5), "squared-l2", {"strength": 1.0}),
        (PNorm(1.5), "box", {"lower": -1.0, "upper": 1.0}),
        (PNorm(1.5), "l2", {"strength": 1.0}),
        (SmoothedBregman(), "l2", {"strength": 1.0}),
    ]:
        with pytest.raises(Unsupported, match="no known closed form") as raised:
            psi.step(np.ones(3), np.ones(3), 0.1, penalty(name, **params))
        assert psi.pairs in str(raised.value)


@each
def test_bad_input(psi):
    for bad in ([np.nan, 1.0], [1.0, np.inf]):
        for method in (psi.to_dual, psi.to_primal, psi.value, psi.norm, psi.dual_norm):
            with pytest.raises(ValueError, match="finite"):
                method(bad)
    with pytest.raises(ValueError, match="one shape"):
        psi.divergence([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="one shape"):
        psi.step([1.0], [1.0, 2.0], 0.1)
    for eta in (-1.0, np.nan, "big"):
        with pytest.raises(ValueError, match="eta"):
            psi.step([1.0], [1.0], eta)
    with pytest.raises(ValueError, match=r"eta \* gradient must be finite"):
        psi.step([1.0], [1e300], 1e300)


def test_bad_parameters():
    for p in (1.0, 2.5, "fast", np.nan, True):
        with pytest.raises(ValueError, match="1 < p <= 2"):
            PNorm(p)
    with pytest.raises(ValueError, match="eps"):
        SmoothedBregman(1.0, 0.0)
    with pytest.raises(ValueError, match="strength"):
        SmoothedBregman(-1.0)
    with pytest.raises(ValueError, match="finite"):
        SmoothedBregman(1.7e308, 1.7e308)
    psi = PNorm(1.5)
    with pytest.raises(ValueError, match="1 < p <= 2"):
        psi.set_params(p=3)
    assert psi.p == 1.5
    from sklearn.base import clone

    assert clone(psi).get_params() == {"p": 1.5}
