"""Every registered prox: it minimises, equals its naive twin, and contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spom.penalties import SquaredL1
from tests.penalties.cases import ACCURACY, DIMENSION, EVERY, EXACT, TWIN_ACCURACY, name, over, takes_any_size
from tests.penalties.naive import naive_prox

# Ties, zeros and numbers of very different sizes, as well as plain ones.
NUMBERS = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-8, 3e4]), st.floats(-10, 10, allow_subnormal=False))
VECTORS = arrays(np.float64, DIMENSION, elements=NUMBERS)
STEPS = st.sampled_from([1e-3, 0.3, 1.0, 7.0])


def tolerance(penalty: Any, w: np.ndarray[Any, Any], default: float = 1e-12) -> float:
    return ACCURACY.get(name(penalty), default) * max(float(np.abs(w).max(initial=0.0)), 1.0)


@over(EXACT)
@given(w=VECTORS, step=STEPS, seed=st.integers(0, 2**31))
def test_prox_beats_every_other_point(penalty: Any, w: np.ndarray[Any, Any], step: float, seed: int) -> None:
    x = penalty.prox(w, step)
    rng = np.random.default_rng(seed)

    def objective(z: np.ndarray[Any, Any]) -> float:
        return 0.5 * float(((z - w) ** 2).sum()) + step * penalty.value(z)

    at_x = objective(x)
    slack = tolerance(penalty, w) * max(1.0, float(np.abs(w).max())) * 10 + 1e-14 * abs(at_x)
    for scale in (1e-4, 1e-2, 1.0, 10.0):
        z = x + scale * rng.standard_normal(w.size)
        # A random point is outside every set: the prox brings it in.
        z = penalty.prox(z, step) if not np.isfinite(penalty.value(z)) else z
        assert at_x <= objective(z) + slack
    for z in (w, np.zeros_like(w), 0.999 * x, np.where(np.abs(x) < 1e-6, 0.0, x)):
        assert at_x <= objective(z) + slack


# The twins of the latent group lasso stand in test_latent_group_lasso.
@over([p for p in EXACT if name(p) != "LatentGroupLasso"])
@given(w=VECTORS, step=STEPS)
def test_prox_equals_its_naive_twin(penalty: Any, w: np.ndarray[Any, Any], step: float) -> None:
    wanted = naive_prox(penalty, w, step)
    allowed = tolerance(penalty, w, TWIN_ACCURACY.get(name(penalty), 1e-12))
    assert np.abs(penalty.prox(w, step) - wanted).max() <= allowed


@over([p for p in EXACT if takes_any_size(p) and name(p) not in TWIN_ACCURACY])
@pytest.mark.parametrize("n", [1, 33, 5000])
def test_prox_equals_its_naive_twin_in_any_dimension(penalty: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    for w in (3 * rng.standard_normal(n), np.round(2 * rng.standard_normal(n)), rng.standard_normal(n) ** 9):
        wanted = naive_prox(penalty, w, 0.7)
        assert np.abs(penalty.prox(w, 0.7) - wanted).max() <= tolerance(penalty, w)


@over(EXACT)
@given(v=VECTORS, w=VECTORS, step=STEPS)
def test_prox_is_firmly_non_expansive(
    penalty: Any, v: np.ndarray[Any, Any], w: np.ndarray[Any, Any], step: float
) -> None:
    x, y = penalty.prox(v, step), penalty.prox(w, step)
    scale = max(1.0, float(np.abs(v).max()), float(np.abs(w).max()))
    assert (x - y) @ (x - y) <= (x - y) @ (v - w) + ACCURACY.get(name(penalty), 1e-12) * scale**2 * 10


@over(EVERY)
def test_value_at_the_prox_is_finite_and_zero_is_handled(penalty: Any) -> None:
    for w in (np.zeros(DIMENSION), np.full(DIMENSION, 2.0), -np.arange(DIMENSION, dtype=float)):
        assert np.isfinite(penalty.value(penalty.prox(w, 0.5)))


@over([p for p in EVERY if takes_any_size(p)])
def test_no_coordinates_and_one(penalty: Any) -> None:
    if name(penalty) in ("Simplex", "Translated"):
        with pytest.raises(ValueError, match="empty"):
            penalty.prox(np.zeros(0))
    else:
        assert penalty.prox(np.zeros(0)).shape == (0,)
        assert penalty.value(np.zeros(0)) == 0.0
    assert penalty.prox([2.0]).shape == (1,)


@over([p for p in EXACT if hasattr(p, "strength") and name(p) != "LatentGroupLasso"])
@pytest.mark.parametrize("strength", [0.0, 1e-300, 1e300])
@pytest.mark.parametrize("step", [1e-300, 1.0, 1e300])
def test_extreme_strengths(penalty: Any, strength: float, step: float) -> None:
    extreme = type(penalty)(**{**penalty.get_params(deep=False), "strength": strength})
    w = np.array([3.0, -1.0, 0.0, 3.0, 1e-5, -2.0])
    x = extreme.prox(w, step)
    assert np.isfinite(x).all()
    assert (np.abs(x) <= np.abs(w) * (1 + 1e-12)).all()
    if strength * step <= 1e-290:
        np.testing.assert_allclose(x, w, rtol=1e-12, atol=1e-12)
    elif strength * step >= 1e290:
        held = np.asarray(extreme.prox(np.ones(DIMENSION), step) < 0.5)
        # What is penalised at all is gone, in the penalty's own eyes: 0 is not better by any margin.
        zeroed = np.where(held, 0.0, x)
        objective = [0.5 * float(((z - w) ** 2).sum()) + min(step * extreme.value(z), 1e308) for z in (x, zeroed)]
        assert objective[0] <= objective[1] * (1 + 1e-12)


# Only a homogeneous penalty scales with its input.
@over([p for p in EXACT if p.homogeneous and hasattr(p, "strength") and name(p) != "LatentGroupLasso"])
def test_large_and_small_entries(penalty: Any) -> None:
    w = np.array([3.0, -1.0, 0.5, 2.0, 0.1, -2.0])
    for scale in (1e-150, 1e150):
        scaled = type(penalty)(**{**penalty.get_params(deep=False), "strength": penalty.strength * scale})
        np.testing.assert_allclose(scaled.prox(w * scale), penalty.prox(w) * scale, rtol=1e-9, atol=1e-12 * scale)


def test_the_selection_behind_newtons_steps() -> None:
    """Double the weights, so that Newton's passes drop one entry each, and selection solves the rest."""
    d = np.sqrt(2.0) ** np.arange(60)
    w = (1.0 - np.arange(60) / 60.0) * d
    penalty = SquaredL1(0.7, weights=d)
    for step in (0.01, 1.0, 30.0):
        x = naive_prox(penalty, w, step)
        np.testing.assert_allclose(penalty.prox(w, step), x, rtol=1e-9, atol=1e-9)
        assert 0 < np.count_nonzero(x) < 60
