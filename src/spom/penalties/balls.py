"""What the norm balls share."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.errors import Unsupported
from spom.penalties.base import NO_INTS, Penalty

# A projection lands on the boundary only up to rounding; this much outside still counts as inside.
SLACK = 1e-10


class Ball(Penalty):
    """Omega(w) = 0 where norm(w) <= radius, else +inf. `step` does not change a projection."""

    indicator = True
    semigroup = True

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = radius
        self._check()

    def _check(self) -> None:
        check_positive(self.radius, "radius")

    def _norm(self, w: Floats) -> float:
        raise NotImplementedError  # each ball has its norm

    def _value(self, w: Floats) -> float:
        return 0.0 if self._norm(w) <= self.radius * (1 + SLACK) else np.inf

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        return np.array([self.radius], dtype=np.float64), NO_INTS

    def _max_strength(self, g: Floats) -> float:
        return no_strength(self)


def no_strength(penalty: Penalty) -> float:
    """Raise an error: a set has no strength."""
    raise Unsupported(f"{type(penalty).__name__} is a set: it has no strength, so max_strength makes no sense")
