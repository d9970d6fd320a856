"""The pairs with an exact greedy solution, as methods: l1 with l1, its ball and the simplex; l-inf with its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.norms.base import NORMS, Conjugate, ProxResult, Question, finish
from spom.norms.exchange import l1_ball_greedy, simplex_dual, simplex_greedy
from spom.norms.l1 import l1_dual, l1_greedy, peak
from spom.norms.linf import linf_ball_greedy, linf_greedy

# How far below the least possible distance a local conjugate may be asked for: rounding.
_SLACK = 1e-12


def too_near(t: float, nearest: float) -> ValueError:
    """The error for a local conjugate whose ball does not meet the penalty's domain."""
    return ValueError(
        f"t = {t:.6g} is too small: the penalty is +inf within that distance of u; "
        f"the nearest point where it is finite is at {nearest:.6g}"
    )


def _check_distance(t: float, nearest: float) -> None:
    if t < nearest * (1 - _SLACK):
        raise too_near(t, nearest)


class L1Greedy:
    """strength * norm1 in the l1 norm; strength 0 is no penalty."""

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def _conjugate(self, q: Floats) -> tuple[Floats, float]:
        top = float(np.abs(q).max(initial=0.0))
        return (q if top <= self.strength else q * (self.strength / top)), 0.0

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """The general prox for L > 0; for L = 0 the local conjugate at t."""
        x, p = np.empty_like(u), np.empty_like(u)
        units, gain = l1_greedy(u, z, self.strength, 1.0 / L if L > 0 else 0.0, 0.0 if L > 0 else t, x)
        l1_dual(u, z, x, L * units if L > 0 else gain, self.strength, p)
        value = self.strength * float(np.abs(x).sum())
        return finish(Question(NORMS["l1"], self._conjugate, u, z, L, t), x, p, value, units)


class L1BallGreedy:
    """The l1 ball in the l1 norm."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def _conjugate(self, q: Floats) -> tuple[Floats, float]:
        return q, self.radius * float(np.abs(q).max(initial=0.0))

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """The general prox for L > 0; for L = 0 the local conjugate at t."""
        if L == 0:
            _check_distance(t, max(float(np.abs(u).sum()) - self.radius, 0.0))
        x, p = np.empty_like(u), np.empty_like(u)
        reached, mu, nu = l1_ball_greedy(u, z, self.radius, L, t, x)
        l1_dual(u, z, x, mu, nu, p)
        return finish(Question(NORMS["l1"], self._conjugate, u, z, L, t), x, p, 0.0, reached)


class SimplexGreedy:
    """The simplex in the l1 norm."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def _conjugate(self, q: Floats) -> tuple[Floats, float]:
        return q, self.radius * float(q.max())

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """The general prox for L > 0; for L = 0 the local conjugate at t."""
        if L == 0:
            positive = np.maximum(u, 0.0)
            _check_distance(t, abs(self.radius - float(positive.sum())) + float((positive - u).sum()))
        x, p = np.empty_like(u), np.empty_like(u)
        reached, mu, nu = simplex_greedy(u, z, self.radius, L, t, x)
        simplex_dual(u, z, x, mu, nu, p)
        return finish(Question(NORMS["l1"], self._conjugate, u, z, L, t), x, p, 0.0, reached)


class LInfGreedy:
    """strength * norm_inf, or the l-inf ball of that radius, in the l-inf norm."""

    def __init__(self, size: float, ball: bool) -> None:
        self.size, self.ball = size, ball
        self._kernel: Any = linf_ball_greedy if ball else linf_greedy

    def _conjugate(self, q: Floats) -> tuple[Floats, float]:
        total = float(np.abs(q).sum())
        if self.ball:
            return q, self.size * total
        return (q if total <= self.size else q * (self.size / total)), 0.0

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """The general prox for L > 0; for L = 0 the local conjugate at t."""
        if L == 0 and self.ball:
            _check_distance(t, max(peak(u)[0] - self.size, 0.0))
        x, p = np.empty_like(u), np.empty_like(u)
        reached = self._kernel(u, z, self.size, L, t, x, p)[0]
        if L == 0:
            reached = float(np.abs(x - u).max(initial=0.0))
        value = 0.0 if self.ball else self.size * float(np.abs(x).max(initial=0.0))
        conjugate: Conjugate = self._conjugate
        return finish(Question(NORMS["linf"], conjugate, u, z, L, t), x, p, value, reached)
