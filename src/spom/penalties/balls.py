"""The base class of sets, and the norm balls."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.errors import Unsupported
from spom.penalties.base import NO_INTS, Penalty

# A projection reaches the boundary only up to rounding; points this far outside still count as inside.
SLACK = 1e-10


class ConvexSet(Penalty):
    """Omega(w) = 0 in a set, else +inf. `step` does not change a projection."""

    indicator = True
    semigroup = True

    def _max_strength(self, g: Floats) -> float:
        raise Unsupported(f"{type(self).__name__} is a set: it has no strength, so max_strength makes no sense")


class Sized(ConvexSet):
    """A set of a given radius."""

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = radius
        self._check()

    def _check(self) -> None:
        check_positive(self.radius, "radius")

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        return np.array([self.radius], dtype=np.float64), NO_INTS


class Ball(Sized):
    """Omega(w) = 0 where norm(w) <= radius, else +inf."""

    def _norm(self, w: Floats) -> float:
        raise NotImplementedError  # each ball has its norm

    def _value(self, w: Floats) -> float:
        return 0.0 if self._norm(w) <= self.radius * (1 + SLACK) else np.inf
