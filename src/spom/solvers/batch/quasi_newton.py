"""L-BFGS on the whole data, for penalties that are smooth themselves: l2/2 norm2(w)^2."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import Unsupported
from spom.penalties import SquaredL2
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import certificate

# The number of remembered pairs of steps and gradient changes: 5 to 20 took 60 to 50 rounds on trec and ag_news.
# Large problems remember fewer, to hold at most this many numbers in memory.
PAIRS, LEAST_PAIRS, NUMBERS = 10, 4, 40_000_000
# The conditions of Armijo and (weak) Wolfe on a step, with the usual constants, and the maximum number of trials per
# step.
DECREASE, CURVATURE, TRIALS = 1e-4, 0.9, 40


@register(
    "solver",
    "quasi-newton",
    examples=lambda: [QuasiNewton(examples.least_squares(), SquaredL2(0.1))],
    cost="one gradient per round",
)
class QuasiNewton:
    """x <- x - t H g, where H approximates the inverse Hessian from the last steps (L-BFGS; Nocedal 1980).

    Minimises f + l2/2 norm2(w)^2 for a smooth convex `LinearSmooth` f; the intercept is not penalised. The step t meets
    the conditions of Armijo and Wolfe; trials cost no product with X. Iterating yields one `State` per round, without
    end, with `internal["gap"]` and `internal["residual"]` every `check_every` rounds, as in `BatchProximal`. `start` is
    a theta to start from.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import SquaredL2
    >>> from spom.solvers.iterate import halt, last, small
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> last(halt(QuasiNewton(f, SquaredL2(1.0)), small("gap", 1e-12))).theta.round(6)
    array([ 0.75 ,  0.15 , -0.375])
    """

    def __init__(
        self, smooth: LinearSmooth, penalty: Any, *, check_every: int = 10, start: Floats | None = None
    ) -> None:
        smooth.curvature()  # a loss with kinks is rejected before any work
        if not is_smooth(penalty):
            raise Unsupported(f"QuasiNewton needs a smooth penalty such as SquaredL2; {penalty!r} has kinks")
        if check_every < 1:
            raise ValueError(f"check_every must be at least 1; it is {check_every!r}")
        self.smooth, self.penalty, self.check_every, self.start = smooth, penalty, check_every, start

    def __iter__(self) -> Iterator[State]:
        run = _Run(self)
        begin = time.perf_counter()
        while True:
            run.round()
            yield run.state(time.perf_counter() - begin)


def is_smooth(penalty: Any) -> bool:
    """Tell whether the penalty is l2/2 norm2(w)^2 with l2 > 0.

    >>> from spom.penalties import L1, SquaredL2
    >>> is_smooth(SquaredL2(0.1)), is_smooth(L1(0.1))
    (True, False)
    """
    found = penalty.elastic()
    return found is not None and found.l1 == 0.0 and found.l2 > 0.0


class _Run:
    """The variables of one run: x with its scores and gradient, and the remembered pairs."""

    def __init__(self, solver: QuasiNewton) -> None:
        self.solver, smooth = solver, solver.smooth
        self.x = np.zeros(smooth.shape) if solver.start is None else np.array(solver.start, dtype=np.float64)
        if self.x.shape != smooth.shape:
            raise ValueError(f"start must have shape {smooth.shape}; it has {self.x.shape}")
        self.l2 = float(solver.penalty.elastic().l2)
        pairs = min(PAIRS, max(LEAST_PAIRS, NUMBERS // (2 * max(1, self.x.size))))
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=pairs)
        self.scores = smooth.scores(self.x)
        self.loss, self.g = smooth.value_at(self.scores), self._gradient()
        self.k, self.gradients, self.values, self.step = 0, 1, 1, math.nan

    def _gradient(self) -> Floats:
        smooth, part = self.solver.smooth, self.solver.smooth.penalised
        g = smooth.gradient_at(self.scores)
        g[part] += self.l2 * self.x[part]
        return g

    def round(self) -> None:
        """Take a step along the direction of the remembered pairs, or along the gradient if that fails."""
        self.k += 1
        if not np.any(self.g):
            return
        if not self._moved(self._direction()) and self.pairs:
            self.pairs.clear()
            self._moved(self._direction())

    def _moved(self, d: Floats) -> bool:
        slope = float(np.vdot(self.g, d))
        if not slope < 0.0:
            return False
        along = _Line(self, d)
        t = along.search(slope)
        if t == 0.0:
            return False
        s, before = t * d, self.g
        self.x, self.scores, self.step = self.x + s, self.scores + t * along.scores, t
        self.loss, self.g = self.solver.smooth.value_at(self.scores), self._gradient()
        self.gradients, self.values = self.gradients + 1, self.values + along.trials
        y = self.g - before
        curve = float(np.vdot(s, y))
        if curve > 1e-12 * float(np.vdot(y, y)) ** 0.5 * float(np.vdot(s, s)) ** 0.5:
            self.pairs.append((s, y, curve))
        return True

    def _direction(self) -> Floats:
        """- H g, by the two loops over the pairs."""
        d, factors = -self.g, []
        for s, y, curve in reversed(self.pairs):
            a = float(np.vdot(s, d)) / curve
            d -= a * y
            factors.append(a)
        if self.pairs:
            d *= 1.0 / self.curvature()
        else:
            d *= min(1.0, 1.0 / max(float(np.linalg.norm(self.g)), 1e-300))
        for (s, y, curve), a in zip(self.pairs, reversed(factors), strict=True):
            d += (a - float(np.vdot(y, d)) / curve) * s
        return d

    def curvature(self) -> float:
        """Return the curvature along the last step; 1 before the first step."""
        if not self.pairs:
            return 1.0
        _, y, curve = self.pairs[-1]
        return float(np.vdot(y, y)) / curve

    def state(self, seconds: float) -> State:
        """Return a snapshot; the certificate is computed every `check_every` rounds."""
        solver, gap, residual = self.solver, math.nan, math.nan
        if self.k % solver.check_every == 0 or self.k == 1:
            found = certificate(solver.smooth, solver.penalty, self.x, self.curvature())
            gap, residual = found.gap, found.residual
        return State(
            k=self.k,
            theta=self.x.copy(),
            step=self.step,
            objective=self.loss + float(solver.penalty.value(self.x[solver.smooth.penalised])),
            loss=self.loss,
            counters=Counters(gradients=self.gradients, values=self.values),
            seconds=seconds,
            internal={"gap": np.array(gap), "residual": np.array(residual)},
        )


class _Line:
    """The objective along x + t d: scores and squared norm are formulas in t, so a trial needs no product with X."""

    def __init__(self, run: _Run, d: Floats) -> None:
        self.run, self.smooth, self.trials = run, run.solver.smooth, 0
        part = self.smooth.penalised
        self.scores = self.smooth.scores(d)
        w, v = run.x[part], d[part]
        self.squares = float(np.vdot(w, w)), float(np.vdot(w, v)), float(np.vdot(v, v))

    def at(self, t: float) -> tuple[float, float]:
        """Return (value, slope) at t."""
        self.trials += 1
        scores = self.run.scores + t * self.scores
        ww, wv, vv = self.squares
        value = self.smooth.value_at(scores) + 0.5 * self.run.l2 * (ww + 2.0 * t * wv + t * t * vv)
        slope = float(np.vdot(self.smooth.dual_at(scores), self.scores)) + self.run.l2 * (wv + t * vv)
        return value, slope

    def search(self, slope: float) -> float:
        """Return a step that lowers the objective enough and is not too short; 0 if rounding ends the search."""
        first = self.run.loss + 0.5 * self.run.l2 * self.squares[0]
        rounding = 4.0 * float(np.finfo(np.float64).eps) * abs(first)
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(TRIALS):
            value, now = self.at(t)
            if not value <= first + DECREASE * t * slope + rounding:
                high = t
            elif now < CURVATURE * slope:
                low = t
            else:
                return t
            t = 2.0 * low if math.isinf(high) else 0.5 * (low + high)
        return low
