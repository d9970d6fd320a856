"""What every prox takes, what it refuses, and what it leaves alone."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tests.penalties.cases import DIMENSION, EVERY, name, over

W = np.array([1.5, -0.25, 2.0, 0.0, -3.0, 1.0])


@over(EVERY)
def test_forms_of_the_same_input(penalty: Any) -> None:
    wanted = penalty.prox(W)
    read_only = W.copy()
    read_only.flags.writeable = False
    strided = np.repeat(W, 2)[::2]
    for form in (W.tolist(), tuple(W), read_only, strided, np.asfortranarray(W)):
        np.testing.assert_array_equal(penalty.prox(form), wanted)
        assert penalty.value(form) == penalty.value(W)
    np.testing.assert_array_equal(penalty.prox(W.astype(np.float32)), wanted)
    np.testing.assert_array_equal(penalty.prox([1, 0, 2, 0, -3, 1]), penalty.prox([1.0, 0.0, 2.0, 0.0, -3.0, 1.0]))


@over(EVERY)
def test_input_is_untouched_and_out_may_alias(penalty: Any) -> None:
    w = W.copy()
    wanted = penalty.prox(w, 0.5)
    np.testing.assert_array_equal(w, W)
    out = np.empty(DIMENSION)
    assert penalty.prox(w, 0.5, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    assert penalty.prox(w, 0.5, out=w) is w
    np.testing.assert_array_equal(w, wanted)
    # Overlapping memory that is not the same memory.
    room = np.empty(DIMENSION + 1)
    room[:DIMENSION] = W
    penalty.prox(room[:DIMENSION], 0.5, out=room[1:])
    np.testing.assert_array_equal(room[1:], wanted)


@over(EVERY)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_nothing_is_written(penalty: Any, bad: float) -> None:
    w = W.copy()
    w[2] = bad
    before = w.copy()
    with pytest.raises(ValueError, match="entry 2 is"):
        penalty.prox(w, 0.5, out=w)
    np.testing.assert_array_equal(w, before)
    with pytest.raises(ValueError, match="entry 2 is"):
        penalty.value(w)


@over(EVERY)
def test_bad_steps_and_shapes(penalty: Any) -> None:
    for step in (-1.0, np.nan, np.inf, "x", None):
        with pytest.raises(ValueError, match="step"):
            penalty.prox(W, step)
    with pytest.raises(ValueError, match="dimensions"):
        penalty.prox(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="out must be"):
        penalty.prox(W, 1.0, out=np.empty(DIMENSION + 1))


@over(EVERY)
def test_step_zero_keeps_what_is_allowed(penalty: Any) -> None:
    if name(penalty) == "Conjugate":
        with pytest.raises(ValueError, match="step"):
            penalty.prox(W, 0.0)
        return
    x = penalty.prox(W, 0.5)
    if np.isfinite(penalty.value(x)):
        np.testing.assert_allclose(penalty.prox(x, 0.0), x, atol=1e-10)


@over(EVERY)
def test_parameters_clone_and_pickle(penalty: Any) -> None:
    wanted = penalty.prox(W)
    for copy in (clone(penalty), pickle.loads(pickle.dumps(penalty)), clone(clone(penalty))):
        np.testing.assert_array_equal(copy.prox(W), wanted)
        assert repr(copy) == repr(penalty)
    if hasattr(penalty, "strength"):
        fresh = clone(penalty)
        fresh.set_params(strength=2 * penalty.strength)
        np.testing.assert_allclose(fresh.prox(W, 0.5), penalty.prox(W, 1.0), atol=1e-12)
        with pytest.raises(ValueError, match="strength"):
            fresh.set_params(strength=-1.0)
        assert fresh.strength == 2 * penalty.strength
    with pytest.raises(ValueError, match="no parameter"):
        penalty.set_params(nothing=1)


@over([p for p in EVERY if hasattr(p, "strength")])
@pytest.mark.parametrize("strength", [-1.0, np.nan, np.inf, "much"])
def test_bad_strengths(penalty: Any, strength: Any) -> None:
    with pytest.raises(ValueError, match="strength"):
        type(penalty)(**{**penalty.get_params(deep=False), "strength": strength})


# The parameters of the others have the shape of a vector.
@over([p for p in EVERY if name(p) not in ("Box", "Translated", "SquaredL1")])
def test_a_matrix_is_its_entries_or_its_rows(penalty: Any) -> None:
    """Check that a matrix with one column gives the same result as the vector."""
    column = W[:, None]
    np.testing.assert_allclose(penalty.prox(column)[:, 0], penalty.prox(W), atol=1e-12)
    assert penalty.value(column) == pytest.approx(penalty.value(W), rel=1e-12)
