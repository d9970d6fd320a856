"""The pairs with an exact greedy solution: l1, its ball and the simplex in the l1 norm; l-inf and its ball in l-inf."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.norms.base import NORMS, ProxResult, Question, conjugate_of, finish, too_near
from spom.norms.exchange import l1_ball_greedy, simplex_dual, simplex_greedy
from spom.norms.l1 import l1_dual, l1_greedy, peak
from spom.norms.linf import linf_ball_greedy, linf_greedy
from spom.penalties.l1 import L1
from spom.penalties.l1_ball import L1Ball
from spom.penalties.linf import LInf
from spom.penalties.linf_ball import LInfBall
from spom.penalties.simplex import Simplex

# The relative amount by which t may be below the least possible distance, for rounding.
_SLACK = 1e-12


class Greedy:
    """A penalty in a norm, solved by a function that writes x and p and returns the distance."""

    def __init__(self, penalty: L1 | L1Ball | Simplex | LInf | LInfBall) -> None:
        self.penalty = penalty
        self._run: Any = next(run for kind, run in _RUNS if isinstance(penalty, kind))
        self._norm = NORMS["linf" if isinstance(penalty, (LInf, LInfBall)) else "l1"]

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        x, p = np.empty_like(u), np.empty_like(u)
        reached = self._run(self.penalty, u, z, L, t, x, p)
        value = 0.0 if self.penalty.indicator else self.penalty.value(x)
        return finish(Question(self._norm, conjugate_of(self.penalty), u, z, L, t), x, p, value, reached)


def _check_distance(L: float, t: float, nearest: float) -> None:
    if L == 0 and t < nearest * (1 - _SLACK):
        raise too_near(t, nearest)


def _l1(penalty: L1, u: Floats, z: Floats, L: float, t: float, x: Floats, p: Floats) -> float:
    units, gain = l1_greedy(u, z, penalty.strength, 1.0 / L if L > 0 else 0.0, 0.0 if L > 0 else t, x)
    l1_dual(u, z, x, L * units if L > 0 else gain, penalty.strength, p)
    return float(units)


def _l1_ball(ball: L1Ball, u: Floats, z: Floats, L: float, t: float, x: Floats, p: Floats) -> float:
    _check_distance(L, t, max(float(np.abs(u).sum()) - ball.radius, 0.0))
    reached, mu, nu = l1_ball_greedy(u, z, ball.radius, L, t, x)
    l1_dual(u, z, x, mu, nu, p)
    return float(reached)


def _simplex(simplex: Simplex, u: Floats, z: Floats, L: float, t: float, x: Floats, p: Floats) -> float:
    positive = np.maximum(u, 0.0)
    _check_distance(L, t, abs(simplex.radius - float(positive.sum())) + float((positive - u).sum()))
    reached, mu, nu = simplex_greedy(u, z, simplex.radius, L, t, x)
    simplex_dual(u, z, x, mu, nu, p)
    return float(reached)


def _linf(penalty: LInf, u: Floats, z: Floats, L: float, t: float, x: Floats, p: Floats) -> float:
    reached = linf_greedy(u, z, penalty.strength, L, t, x, p)[0]
    return float(reached if L > 0 else np.abs(x - u).max(initial=0.0))


def _linf_ball(ball: LInfBall, u: Floats, z: Floats, L: float, t: float, x: Floats, p: Floats) -> float:
    _check_distance(L, t, max(peak(u)[0] - ball.radius, 0.0))
    reached = linf_ball_greedy(u, z, ball.radius, L, t, x, p)[0]
    return float(reached if L > 0 else np.abs(x - u).max(initial=0.0))


_RUNS = ((L1, _l1), (L1Ball, _l1_ball), (Simplex, _simplex), (LInf, _linf), (LInfBall, _linf_ball))
