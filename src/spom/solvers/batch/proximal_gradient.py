"""Proximal gradient on the whole data: ISTA, and FISTA with adaptive restart, both with backtracking."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats, check_positive, check_restored
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import DataError, ModelFileError, Unsupported
from spom.penalties import L1, GroupLasso
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth, Smooth
from spom.solvers.batch.duality import certificate

# Upper bound on the momentum of a saved state; it is below the number of rounds.
MOST_ROUNDS = 1e12
# Tolerance of the test of a step, relative to f: smaller differences are rounding.
SLACK = 64 * float(np.finfo(np.float64).eps)


@register(
    "solver",
    "batch-proximal",
    examples=lambda: [
        BatchProximal(examples.least_squares(), GroupLasso(0.05, 2)),
        BatchProximal(examples.least_squares(), L1(0.1), accelerated=False),
    ],
    cost="one gradient and one prox per round",
)
class BatchProximal:
    """x <- prox of Omega / L at y - gradient f(y) / L, with y = x (plain) or extrapolated (accelerated).

    Minimises f + Omega for a smooth convex f (`LinearSmooth`, or any `Smooth`) and any penalty with a prox.
    Iterating yields one `State` per round, without end; stop with the combinators of `solvers.iterate`. Every
    `check_every` rounds `internal["gap"]` is the duality gap at theta (NaN where none is known) and
    `internal["residual"]` is L norm(theta - prox step at theta); they are NaN in between.

    `accelerated` is FISTA (Beck and Teboulle 2009); with `restart` its momentum is dropped whenever it
    points uphill (O'Donoghue and Candes 2015). L is found by backtracking: it is doubled until the quadratic
    model at y is above f at x, and falls slowly in the plain method and at restarts; `L` gives a first guess.
    Without `backtracking` it is always `L`, by default the Lipschitz constant. `start` is a theta to start from, or
    a `State` of an earlier run to resume, with the same bits.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import halt, last, small
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> state = last(halt(BatchProximal(f, L1(0.3)), small("gap", 1e-12)))
    >>> state.theta.round(6)
    array([ 2.1,  0. , -0.6])
    """

    def __init__(
        self,
        smooth: Smooth,
        penalty: Any,
        *,
        accelerated: bool = True,
        restart: bool = True,
        backtracking: bool = True,
        L: float | None = None,
        check_every: int = 10,
        start: State | Floats | None = None,
    ) -> None:
        if isinstance(smooth, LinearSmooth):
            smooth.curvature()  # a loss with kinks is rejected before any work
        if not getattr(penalty, "convex", True):
            raise Unsupported(f"BatchProximal needs a convex penalty; {type(penalty).__name__} is not")
        if check_every < 1:
            raise ValueError(f"check_every must be at least 1; it is {check_every!r}")
        self.smooth, self.penalty = smooth, penalty
        self.accelerated, self.restart, self.backtracking = accelerated, restart, backtracking
        self.L = None if L is None else check_positive(L, "L", zero=False)
        self.check_every, self.start = check_every, start

    def __iter__(self) -> Iterator[State]:
        run = _Run(self)
        begin = time.perf_counter() - run.seconds
        while True:
            run.round()
            yield run.state(time.perf_counter() - begin)


class _Run:
    """The variables of one run: x and y with their images, the momentum's t, and L.

    f is a function of an image that is affine in theta: the scores of a linear model. One product with X serves several
    points.
    """

    top: float | None
    image: Callable[[Floats], Floats]
    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Floats]

    def __init__(self, solver: BatchProximal) -> None:
        self.solver, smooth = solver, solver.smooth
        if isinstance(smooth, LinearSmooth):
            self.image, self.value, self.gradient = smooth.scores, smooth.value_at, smooth.gradient_at
        else:
            self.image, self.value, self.gradient = (lambda theta: theta), smooth.value, smooth.gradient
        start, shape = solver.start, smooth.shape
        self.counters, self.seconds, self.k = Counters(), 0.0, 0
        if isinstance(start, State):
            self.counters, self.seconds, self.k = start.counters, start.seconds, start.k
        theta = start.theta if isinstance(start, State) else start
        self.x = np.zeros(shape) if theta is None else np.array(theta, dtype=np.float64)
        if self.x.shape != shape:
            raise DataError(f"start must have shape {shape}; it has {self.x.shape}")
        self.y, self.t = self.x, 1.0
        self.ax = self.ay = self.image(self.x)
        self.f_x, self.top = math.nan, None
        if isinstance(start, State) and "fista.y" in start.internal:
            like = {"fista.y": self.x, "fista.image_y": self.ax, "fista.image_x": self.ax, "fista.t_L": np.ones(2)}
            kept = check_restored(start.internal, like)
            self.y, self.ay, self.ax = kept["fista.y"], kept["fista.image_y"], kept["fista.image_x"]
            self.t, self.L = (float(v) for v in kept["fista.t_L"])
            if not (1.0 <= self.t <= MOST_ROUNDS and self.L > 0.0):
                raise ModelFileError(f"the saved state has a momentum of {self.t} and a curvature of {self.L}")
        else:
            fallback = self._first_guess if solver.backtracking else solver.smooth.lipschitz
            self.L = solver.L or fallback()

    def _first_guess(self) -> float:
        """Return the curvature along the gradient, which is cheap and at most the Lipschitz constant."""
        g = self.gradient(self.ax)
        length = float(np.linalg.norm(g))
        if length == 0.0:
            return 1.0
        h = 1e-3 * max(1.0, float(np.linalg.norm(self.x))) / length
        moved = self.gradient(self.image(self.x - h * g))
        self._count(gradients=2)
        return max(float(np.linalg.norm(moved - g)) / (h * length), 1e-12)

    def _count(self, gradients: int = 0, proxes: int = 0, values: int = 0) -> None:
        c = self.counters
        self.counters = Counters(c.gradients + gradients, c.proxes + proxes, c.values + values, c.examples)

    def round(self) -> None:
        """Take a proximal step from y, then extrapolate to the next y."""
        adaptive = self.solver.backtracking
        if adaptive and not self.solver.accelerated:
            self.L *= 0.9
        x, ax = self._step()
        extrapolate = self.solver.accelerated
        if extrapolate and self.solver.restart and float(np.vdot(self.y - x, x - self.x)) > 0.0:
            self.t, extrapolate = 1.0, False
            self.L *= 0.7 if adaptive else 1.0
        if extrapolate:
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.t**2))
            b = (self.t - 1.0) / t
            self.y, self.ay, self.t = x + b * (x - self.x), ax + b * (ax - self.ax), t
        else:
            self.y, self.ay = x, ax
        self.x, self.ax, self.k = x, ax, self.k + 1

    def _step(self) -> tuple[Floats, Floats]:
        """Return prox(y - g / L) and its image, with the first L for which the model is an upper bound there."""
        f_y, g = self.value(self.ay), self.gradient(self.ay)
        self._count(gradients=1, values=1)
        part, doublings = self.solver.smooth.penalised, 0
        while True:
            x = self.y - g / self.L
            x[part] = self.solver.penalty.prox(np.ascontiguousarray(x[part]), 1.0 / self.L)
            ax = self.image(x)
            f_x = self.value(ax)
            self._count(proxes=1, values=1)
            d = x - self.y
            bound = f_y + float(np.vdot(g, d)) + 0.5 * self.L * float(np.vdot(d, d))
            if not self.solver.backtracking or f_x <= bound + SLACK * (abs(f_x) + abs(f_y)):
                self.f_x = f_x
                return x, ax
            doublings += 1
            # Near the optimum the test compares rounding errors; an L above the Lipschitz constant is never needed.
            if doublings > 3 and self._lipschitz() <= self.L:
                self.f_x = f_x
                return x, ax
            self.L *= 2.0

    def _lipschitz(self) -> float:
        if self.top is None:
            self.top = float(self.solver.smooth.lipschitz("l2"))
        return self.top

    def state(self, seconds: float) -> State:
        """Return a snapshot; the certificate is computed every `check_every` rounds."""
        solver, gap, residual = self.solver, math.nan, math.nan
        if self.k % solver.check_every == 0 or self.k == 1:
            found = certificate(solver.smooth, solver.penalty, self.x, self.L)
            self._count(gradients=1, proxes=1)
            gap, residual = found.gap, found.residual
        omega = float(solver.penalty.value(self.x[solver.smooth.penalised]))
        internal = {
            "gap": np.array(gap),
            "residual": np.array(residual),
            "fista.y": self.y,
            "fista.image_x": self.ax,
            "fista.image_y": self.ay,
            "fista.t_L": np.array([self.t, self.L]),
        }
        return State(
            k=self.k,
            theta=self.x.copy(),
            step=1.0 / self.L,
            objective=self.f_x + omega,
            loss=self.f_x,
            counters=self.counters,
            seconds=seconds,
            internal=internal,
        )
