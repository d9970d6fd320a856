from __future__ import annotations

import numpy as np
import pytest

from spom.errors import Unsupported
from spom.solvers import steps
from spom.solvers.steps import as_step


def test_rules_give_their_formulas_from_any_round_on():
    t = np.arange(5.0, 9.0)
    for rule, expected in (
        (steps.Constant(0.3), np.full(4, 0.3)),
        (steps.InverseSqrt(0.3), 0.3 / np.sqrt(t)),
        (steps.StronglyConvex(2.0), 1 / (2 * t)),
        (as_step(lambda k: 1 / k**2), 1 / t**2),
        (steps.AdaGrad(0.4), np.full(4, 0.4)),
    ):
        np.testing.assert_allclose(rule.sizes(5, 4, 3), expected)
    epochs = steps.InverseSqrtEpoch(1.0).sizes(1, 7, 3)
    np.testing.assert_allclose(epochs, 1 / np.sqrt([1, 1, 1, 2, 2, 2, 3]))


def test_names_numbers_and_objects():
    assert as_step(0.5).eta0 == 0.5
    assert isinstance(as_step("auto"), steps.Auto)
    assert isinstance(as_step("adagrad"), steps.AdaGrad)
    rule = steps.InverseSqrt(2.0)
    assert as_step(rule) is rule
    rule.set_params(eta0=3.0)
    assert rule.get_params() == {"eta0": 3.0}
    for bad in ("quick", None, [1.0], True):
        with pytest.raises(Unsupported):
            as_step(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_numbers(bad):
    for make in (steps.Constant, steps.InverseSqrt, steps.StronglyConvex, steps.AdaGrad):
        with pytest.raises(ValueError, match="must be finite"):
            make(bad)
    with pytest.raises(ValueError, match="at t = 3"):
        as_step(lambda t: bad if t == 3 else 1.0).sizes(1, 5, 5)


def test_theory_is_resolved_by_a_solver_only():
    with pytest.raises(Unsupported, match="depends on the data"):
        steps.Theory().sizes(1, 1, 1)
