"""The best distance t: minimise L/2 t^2 + h(t) for a convex, piecewise linear h given by its tangents.

Each evaluation of h gives a cut. Between a cut on the left of the optimum and one on its right, the next t is
the minimum of the model with these two cuts: the point where a cut's slope equals -L t if that is on the cut's
own side of their crossing, else the crossing. h has finitely many pieces, so the search ends. It usually needs six to
nine evaluations, against some sixty for bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats

_LIMIT = 100
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Cut:
    """A tangent of h at t: the value, a slope in the subdifferential, the dual element p with norm -slope, a point."""

    t: float
    h: float
    slope: float
    p: Floats
    point: Any

    def at(self, t: float) -> float:
        """Return the value of the tangent at t."""
        return self.h + self.slope * (t - self.t)


def tangent_search(
    evaluate: Callable[[float], Cut], L: float, start: float, upper: float = np.inf
) -> tuple[Cut, Floats, int]:
    """Return (the cut at the best t, p with dual norm L t mixed from two cuts, the number of evaluations).

    `start` is the smallest t at which h is finite, `upper` an upper bound on the best t if one is known: slopes at
    the best t are between those at both, and programs near the best t are the cheapest. If `start` is the best t,
    the returned p has dual norm -slope, at most L t.
    """
    right: Cut | None = None
    count, t = 1, start
    left = evaluate(start if not start < upper < np.inf else upper)
    for share in (0.8, 0.4, 0.0):
        if L * left.t + left.slope < 0 or left.t == start:
            break
        # This cut is on the right of the best t, which is at least the t where this slope equals -L t: h is convex.
        right, count = left, count + 1
        t = max(start, -right.slope / L, share * right.t)
        left = evaluate(t)
        if t == -right.slope / L and left.h - right.at(t) <= _ROUNDING * max(1.0, abs(left.h)):
            return left, _mix(left, left, right, L), count
    if L * left.t + left.slope >= 0:
        return left, left.p, count
    while True:
        count += 1
        t = _next(left, right, L)
        cut = evaluate(t)
        ends = (left,) if right is None else (left, right)
        missed = cut.h - max(end.at(t) for end in ends)
        # The model is exact at t, up to the rounding of the programs.
        exact = missed <= _ROUNDING * max(1.0, abs(cut.h))
        if exact or any(t == end.t for end in ends) or count >= _LIMIT:
            return cut, _mix(cut, left, right, L), count
        if L * t + cut.slope < 0:
            left = cut
        else:
            right = cut


def _next(left: Cut, right: Cut | None, L: float) -> float:
    if right is None:
        return -left.slope / L
    crossing = (right.at(0.0) - left.at(0.0)) / (left.slope - right.slope)
    crossing = min(max(crossing, left.t), right.t)
    if -left.slope / L <= crossing:
        return -left.slope / L
    return max(-right.slope / L, crossing)


def _mix(cut: Cut, left: Cut, right: Cut | None, L: float) -> Floats:
    """Return the convex combination of the p of two cuts that touch h at cut.t, with slope -L t."""
    goal = -L * cut.t
    if cut.slope < goal:
        low, high = cut, right or cut
    else:
        low, high = left, cut
    if high.slope - low.slope <= 1e-15 * max(1.0, abs(goal)):
        return cut.p
    share = float(np.clip((goal - low.slope) / (high.slope - low.slope), 0.0, 1.0))
    mixed: Floats = (1.0 - share) * low.p + share * high.p
    return mixed
