"""Any penalty in the Euclidean norm: the prox at u - z / L with step 1 / L, and its local conjugate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from spom.core.arrays import Floats
from spom.errors import Unsupported
from spom.norms.base import NORMS, ProxResult, Question, conjugate_of, finish, too_near

# The local conjugate searches for L within this range, in powers of ten around a first guess.
_DECADES = 40


class EuclideanProx:
    """The method for the Euclidean norm: p = L (u - x), and norm(p) = L t."""

    def __init__(self, penalty: Any) -> None:
        if not getattr(penalty, "exact", True):
            raise Unsupported(
                f"{type(penalty).__name__} has no exact Euclidean prox here (its `exact` is False), so its general "
                "prox would not be one"
            )
        self.penalty = penalty

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        if L == 0:
            return self._local(u, z, t)
        x = self.penalty.prox(u - z / L, 1.0 / L)
        return self._result(u, z, x, L * (u - x), L, t)

    def _result(self, u: Floats, z: Floats, x: Floats, p: Floats, L: float, t: float) -> ProxResult:
        value = float(self.penalty.value(x))
        reached = float(np.linalg.norm(x - u))
        return finish(Question(NORMS["l2"], conjugate_of(self.penalty), u, z, L, t), x, p, value, reached)

    def _local(self, u: Floats, z: Floats, t: float) -> ProxResult:
        """Return the prox whose distance is t: distances decrease as L grows."""

        def point(log_l: float) -> Floats:
            L = 10.0**log_l
            found: Floats = self.penalty.prox(u - z / L, 1.0 / L)
            return found

        def excess(log_l: float) -> float:
            return float(np.linalg.norm(point(log_l) - u)) - t

        guess = np.log10(max(float(np.linalg.norm(z)), 1e-12) / t) if t > 0 else 0.0
        low, high = guess, guess
        while excess(high) > 0:
            high += 1.0
            if high > guess + _DECADES:
                nearest = excess(high) + t
                if nearest > t * (1 + 1e-9) + 1e-12:
                    raise too_near(t, nearest)
                break
        while excess(low) < 0:
            low -= 1.0
            if low < guess - _DECADES / 2:
                # Even with almost no weight on the distance to u, the point stays inside: the ball does not bind.
                x = point(low)
                return self._result(u, z, x, np.zeros_like(u), 0.0, t)
        root = low if low == high else float(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))
        x = point(root)
        return self._result(u, z, x, 10.0**root * (u - x), 0.0, t)
