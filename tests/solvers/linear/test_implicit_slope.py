"""The derivative of one example after an implicit step solves its equation, also for a row without entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.losses import Hinge, PowerHinge, Squared
from spom.solvers.linear.problem import compiled_loss
from spom.solvers.linear.proximal_point import code_of
from spom.solvers.linear.proximal_point_loops import HINGE, OTHER, SQUARED, SQUARED_HINGE, implicit_slope

LOSSES = [
    *[(Hinge(), HINGE), (Squared(), SQUARED), (PowerHinge(2.0), SQUARED_HINGE)],
    *[(PowerHinge(2.0), OTHER), (Squared(), OTHER)],
]


@pytest.mark.parametrize(("loss", "code"), LOSSES)
@pytest.mark.parametrize("q", [0.0, 0.3, 2.0])
def test_the_slope_solves_its_equation(loss: Any, code: int, q: float) -> None:
    """Check that s = phi'(y, a - q (s - old)), where any number between the slopes at a kink of phi is a derivative."""
    for y, a, old in ((1.0, 0.4, -0.5), (1.0, 3.0, 0.0), (-1.0, 0.4, 0.25), (-1.0, -2.5, 1.0)):
        s = float(implicit_slope(y, a, q, old, code, compiled_loss(loss)))
        at = a - q * (s - old)
        left, right = (float(loss.derivative([y], [at + shift])[0]) for shift in (-1e-7, 1e-7))
        assert min(left, right) - 1e-6 <= s <= max(left, right) + 1e-6
        if q == 0.0:
            assert s == pytest.approx(float(loss.derivative(np.array([y]), np.array([a]))[0]))


def test_the_squared_hinge_has_a_form_of_its_own() -> None:
    codes = [code_of(loss) for loss in (PowerHinge(2.0), PowerHinge(2), PowerHinge(1.5), PowerHinge(1.0))]
    assert codes == [SQUARED_HINGE, SQUARED_HINGE, OTHER, OTHER]


def test_a_margin_of_exactly_one_has_no_slope() -> None:
    for y in (1.0, -1.0):
        assert implicit_slope(y, y, 0.0, 0.3, HINGE, compiled_loss(Hinge())) == 0.0
