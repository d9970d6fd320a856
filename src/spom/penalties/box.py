"""The box."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.balls import ConvexSet
from spom.penalties.base import NO_INTS
from spom.penalties.polyhedra import Polyhedron, between


@kernel(PROX)
def _project(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    # reals: one lower and one upper bound, or all lower bounds and then all upper ones.
    apart = reals.size // 2
    shared = apart == 1
    for i in range(w.size):
        low = reals[0 if shared else i]
        high = reals[apart + (0 if shared else i)]
        x = w[i]
        clipped = high if x > high else x
        out[i] = low if x < low else clipped


@register(
    "penalty",
    "box",
    formula=r"\iota\{l_i \le w_i \le u_i\}",
    cost="O(n)",
    examples=lambda: [Box(0.0, 1.0), Box(0.0, np.inf), Box([-1, 0, 0, -3, 1, 0], [1, 0, 2, -1, 4, 9])],
)
class Box(ConvexSet):
    """Omega(w) = 0 where lower <= w <= upper, else +inf; bounds are numbers or arrays, and may be infinite.

    >>> Box(0.0, float("inf")).prox([-1.0, 2.0])
    array([0., 2.])
    """

    separable = True
    _kernel = _project

    def __init__(self, lower: Any = 0.0, upper: Any = 1.0) -> None:
        self.lower = lower
        self.upper = upper
        self._check()

    def _check(self) -> None:
        low, high = np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)
        if low.size > 1 and high.size > 1 and low.shape != high.shape:
            raise ValueError(f"lower has shape {low.shape} and upper {high.shape}")
        if np.isnan(low).any() or np.isnan(high).any() or np.any(low > high):
            raise ValueError("lower must not be above upper, and neither may be NaN")
        if np.any(low == np.inf) or np.any(high == -np.inf):
            raise ValueError("lower must be below +inf and upper above -inf")

    def _bounds(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        try:
            low = np.broadcast_to(np.asarray(self.lower, dtype=np.float64), shape)
            high = np.broadcast_to(np.asarray(self.upper, dtype=np.float64), shape)
        except ValueError:
            raise ValueError(f"the bounds do not fit an array of shape {shape}") from None
        return low, high

    def _value(self, w: Floats) -> float:
        low, high = self._bounds(w.shape)
        return 0.0 if np.all((low <= w) & (w <= high)) else np.inf

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        if np.ndim(self.lower) == 0 and np.ndim(self.upper) == 0:
            return np.array([self.lower, self.upper], dtype=np.float64), NO_INTS
        low, high = self._bounds(shape)
        return np.concatenate([low.reshape(-1), high.reshape(-1)]), NO_INTS

    def polyhedron(self, p: int) -> Polyhedron:
        """Return the bounds."""
        return between(None, *self._bounds((p,)))

    def _conjugate_value(self, y: Floats) -> float:
        low, high = self._bounds(y.shape)
        # 0 times an infinite bound is 0 here: that side contributes nothing.
        down = np.where(y < 0, y, 0.0) * np.where(y < 0, low, 0.0)
        up = np.where(y > 0, y, 0.0) * np.where(y > 0, high, 0.0)
        return float((down + up).sum())
