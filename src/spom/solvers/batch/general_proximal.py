"""The proximal gradient method in any norm (GPM), and its acceleration without a second projection.

GPM:     x+ = argmin of <gradient at x, .> + L/2 norm(. - x)^2 + penalty
accGPM:  y = (1 - a) x + a w,  x+ = the same step from y,  w = argmin of an estimate of the objective built from
         p = -L (subgradient of 1/2 norm^2 at x+ - y), which the general prox returns.

(El Halabi et al. 2017.) With the Euclidean norm they are ISTA and FISTA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, as_finite, check_finite, check_positive, check_restored
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import Diverged, ModelFileError, SpomError, Unsupported
from spom.norms import GeneralProx, ProxResult, as_norm
from spom.norms.atomic import AtomicNorm
from spom.penalties import L1
from spom.solvers import examples
from spom.solvers.batch.general_prox_functions import ProxFunction, half_square_gradient

# Backtracking fails when L has grown by this factor in one round: the gradient cannot belong to the value.
_MOST_GROWTH = 2.0**60
# Values are compared with this tolerance for rounding, relative to their size.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Step:
    """One proximal step from y: its result, the gradient at y, the loss at x and the L used."""

    result: ProxResult
    gradient: Floats
    loss_x: float
    L: float


@register(
    "solver",
    "general-proximal",
    examples=lambda: [
        GeneralProximal(examples.least_squares(), L1(0.1), "l1"),
        GeneralProximal(examples.least_squares(), L1(0.1), "l2", accelerated=True),
    ],
    formula="",
    cost="one gradient and one general prox per round",
)
class GeneralProximal:
    """Minimise smooth(theta) + penalty(theta) by proximal gradient steps in a norm; iterating yields states.

    - `norm`: "l1", "l2", "linf" or an `AtomicNorm`; see `spom.norms.general_prox` for the pairs that work.
    - `accelerated`: accGPM instead of GPM.
    - `lipschitz`: the constant of the gradient in the norm; None computes it where it is needed. With `line_search`
      it is the start of backtracking (None: a small first guess), and later rounds may use a smaller one.
    - `tau`: 0 for the estimate without the penalty, which needs no second prox; 1 for the estimate with the penalty,
      which takes one more prox per round (Euclidean prox-function, or l1 from 0) and uses `strong_convexity` of the
      penalty.
    - `q`: the prox-function is 1/2 norm_q^2 around the start; None takes the best one for the norm.
    - `beta0`: weight of the prox-function; the default, infinity, is the limit in which the Euclidean case is FISTA.
    - `restart`: restart the estimate when the objective grows. Theorem 2 does not cover restarts.

    `state.internal["residual"]` is L norm(x+ - y), zero only at an optimum. A run ends by itself there.

    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import last, take
    >>> from spom.solvers.batch.datafit import LinearSmooth
    >>> smooth = LinearSmooth(np.eye(2), np.array([4.0, 1.0]), Squared())
    >>> last(take(GeneralProximal(smooth, L1(1.0), norm="l1"), 5)).theta
    array([2., 0.])
    """

    def __init__(
        self,
        smooth: Any,
        penalty: Any,
        norm: Any = "l1",
        accelerated: bool = False,
        *,
        start: ArrayLike | State | None = None,
        lipschitz: float | None = None,
        line_search: bool = True,
        tau: int = 0,
        q: float | None = None,
        beta0: float = np.inf,
        strong_convexity: float = 0.0,
        restart: bool = False,
    ) -> None:
        self.smooth, self.penalty, self.norm, self.accelerated = smooth, penalty, norm, accelerated
        self.start, self.lipschitz, self.line_search = start, lipschitz, line_search
        self.tau, self.q, self.beta0 = tau, q, beta0
        self.strong_convexity, self.restart = strong_convexity, restart
        self._check()

    def _check(self) -> None:
        if len(self.smooth.shape) != 1 or self.smooth.penalised != slice(0, self.smooth.shape[0]):
            raise Unsupported(
                "GeneralProximal works on one vector of weights without an intercept: centre X and y, or use "
                "BatchProximal, which takes intercepts and several outputs"
            )
        if self.tau not in (0, 1):
            raise ValueError(f"tau must be 0 or 1; it is {self.tau!r}")
        if not self.beta0 > 0:
            raise ValueError(f"beta0 must be > 0; it is {self.beta0!r}")
        check_positive(self.strong_convexity, "strong_convexity")
        if self.lipschitz is not None:
            check_positive(self.lipschitz, "lipschitz", zero=False)

    # --- running -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[State]:
        p = self.smooth.shape[0]
        self._norm = as_norm(self.norm)
        self._prox = GeneralProx(self.penalty, self._norm, p)
        # From the true constant on, the model is an upper bound: a failed test can only be rounding.
        self._cap = 0.0 if not self.line_search else self._constant_or_none()
        if isinstance(self.start, State):
            state = self.start
            check_restored({"theta": state.theta}, {"theta": np.zeros(p)})
            # Within these limits, its square and inverse are finite.
            if not 1e-150 < state.step < 1e150:
                raise ModelFileError(f"the saved state has a step of {state.step}: it is damaged")
        else:
            x0 = np.zeros(p) if self.start is None else as_finite(self.start, "start").copy()
            state = State(k=0, theta=x0, step=1.0 / self._first_lipschitz())
        return self._accelerated(state) if self.accelerated else self._plain(state)

    def _first_lipschitz(self) -> float:
        if self.lipschitz is not None:
            return float(self.lipschitz)
        if self.line_search:
            # In l-inf the constant is only a bound, often far too large, so backtracking starts far below it.
            small = 0.01 if self._norm.name == "linf" else 1.0
            return max(small * self._cap, 1e-300) if np.isfinite(self._cap) else 1.0
        return max(self._constant(), 1e-300)

    def _constant_or_none(self) -> float:
        try:
            return self._constant()
        except (SpomError, AttributeError, NotImplementedError):
            return np.inf

    def _constant(self) -> float:
        """Return the Lipschitz constant of the gradient in the norm."""
        if not isinstance(self._norm, AtomicNorm):
            return float(self.smooth.lipschitz(self._norm.name))
        if not hasattr(self.smooth, "curvature"):
            raise Unsupported("give lipschitz=, or line_search=True: the constant in an atomic norm is not known")
        # d'Hd is convex, so its maximum over the hull of the atoms is at an atom.
        images = self.smooth.X @ np.asarray(self._norm.atoms @ np.eye(self._norm.shape[1]))
        return float(self.smooth.curvature() * (self.smooth.weights @ np.asarray(images) ** 2).max())

    def _plain(self, state: State) -> Iterator[State]:
        x, L, counters = state.theta, 1.0 / state.step, state.counters
        k = state.k
        while True:
            step, counters = self._step(x, L, counters)
            x, L = step.result.x, step.L
            k += 1
            yield self._state(k, step, counters, {})
            if step.result.t == 0.0:
                return
            L = L * 0.5 if self.line_search else L

    def _step(self, y: Floats, L: float, counters: Counters) -> tuple[Step, Counters]:
        """Take a step from y with the first L, doubled per trial, for which the quadratic model is an upper bound."""
        at, first = self._at(y), L
        counters = replace(counters, gradients=counters.gradients + 1, values=counters.values + 1)
        while True:
            step, good = self._trial(y, *at, L)
            counters = replace(counters, proxes=counters.proxes + 1, values=counters.values + 1)
            if good:
                return step, counters
            L *= 2.0
            if L / first > _MOST_GROWTH:
                raise SpomError(
                    f"backtracking raised L from {first:.3g} to {L:.3g} without success: the gradient does not "
                    "belong to the value, or is not Lipschitz"
                )

    def _at(self, y: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient."""
        loss, gradient = self.smooth.value_and_gradient(y)
        return loss, check_finite(gradient, "the gradient of the loss")

    def _trial(self, y: Floats, loss: float, gradient: Floats, L: float) -> tuple[Step, bool]:
        """Return the step from y at L, and whether the quadratic model is an upper bound there."""
        result = self._prox(y, gradient, L)
        loss_x = float(self.smooth.value(result.x))
        model = loss + float(gradient @ (result.x - y)) + 0.5 * L * result.t**2
        good = self._cap <= L or loss_x <= model + _ROUNDING * max(abs(loss), abs(loss_x))
        return Step(result, gradient, loss_x, L), good

    def _state(self, k: int, step: Step, counters: Counters, extra: dict[str, Any]) -> State:
        result = step.result
        residual = {"residual": np.array(step.L * result.t)}
        objective = step.loss_x + result.value
        return State(k, result.x, 1.0 / step.L, objective, step.loss_x, None, counters, 0.0, {**residual, **extra})

    # --- acceleration --------------------------------------------------------------------------------

    def _accelerated(self, state: State) -> Iterator[State]:
        x, L, k, counters = state.theta, 1.0 / state.step, state.k, state.counters
        e = Estimate.of(self, state)
        last = state.objective
        while True:
            while True:
                alpha = e.alpha(1.0 / L)
                y = (1.0 - alpha) * x + alpha * e.w
                # y depends on L through alpha, so each trial of the line search needs its own gradient.
                step, good = self._trial(y, *self._at(y), L)
                done = counters.gradients + 1, counters.proxes + 1, counters.values + 2
                counters = replace(counters, gradients=done[0], proxes=done[1], values=done[2])
                if good:
                    break
                if L > 1e300:
                    what = "the gradient does not belong to the value, or is not Lipschitz"
                    raise SpomError(f"backtracking found no L: {what}")
                L *= 2.0
            e.add(alpha, step, self.tau, self.strong_convexity)
            x, k = step.result.x, k + 1
            found = self._state(k, step, counters, e.arrays())
            if self.restart and found.objective > last:
                e = Estimate(self, x)
                found = replace(found, internal={**found.internal, **e.arrays()})
            last = found.objective
            yield found
            if step.result.t == 0.0:
                return
            L = L * 0.5 if self.line_search else L


class Estimate:
    """e_k(x) = (B/sigma) d(x) + <V, x> + G penalty(x) + constant, and its minimiser w.

    beta is its modulus of convexity: B plus what a strongly convex penalty adds. For tau = 0 only S = V / B matters.
    """

    def __init__(self, solver: GeneralProximal, x0: Floats) -> None:
        self.penalty, self.d = solver.penalty, ProxFunction(solver._norm, x0, solver.q)
        self.beta = self.B = float(solver.beta0)
        self.S, self.G = np.zeros_like(x0), 0.0
        self.w = x0
        elastic = self.penalty.elastic()
        l1_from_zero = elastic is not None and elastic.l2 == 0.0 and not x0.any()
        if solver.tau == 1 and self.d.q != 2.0 and not l1_from_zero:
            raise Unsupported(
                "tau=1 needs the penalty's prox with respect to the prox-function: use q=2 (norms l2, linf), or L1 "
                "from a start at 0 in the l1 norm; tau=0 needs none"
            )

    @classmethod
    def of(cls, solver: GeneralProximal, state: State) -> Estimate:
        """Return the estimate saved in a state, or a new one around its theta."""
        if "estimate.x0" not in state.internal:
            return cls(solver, state.theta)
        kept = check_restored(state.internal, {f"estimate.{name}": state.theta for name in ("x0", "S", "w")})
        found = cls(solver, kept["estimate.x0"])
        found.S, found.w = kept["estimate.S"], kept["estimate.w"]
        scalars = np.asarray(state.internal.get("estimate.scalars"))
        # The first two are infinite if beta0 is. Otherwise they are small enough for products of them to be finite.
        good = scalars.shape == (3,) and scalars.dtype.kind == "f" and bool((scalars[:2] > 0).all() and scalars[2] >= 0)
        if not good or bool((scalars[np.isfinite(scalars)] > 1e100).any()):
            raise ModelFileError("the saved state has no numbers of an estimate: it is damaged")
        found.beta, found.B, found.G = (float(v) for v in scalars)
        return found

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that `of` restores an estimate from."""
        scalars = np.array([self.beta, self.B, self.G])
        x0 = self.d.x0
        return {"estimate.x0": x0, "estimate.S": self.S, "estimate.w": self.w, "estimate.scalars": scalars}

    def alpha(self, gamma: float) -> float:
        """Return the root of alpha^2 = (1 - alpha) beta gamma; 1 where beta is infinite."""
        if np.isinf(self.beta):
            return 1.0
        b = self.beta * gamma
        return float(2.0 * np.sqrt(b) / (np.sqrt(b + 4.0) + np.sqrt(b)))

    def add(self, alpha: float, step: Step, tau: int, mu: float) -> None:
        """e <- (1 - alpha) e + alpha (the lower bound of this step), and update its minimiser w."""
        # In the limit of an infinite beta0, alpha is 1 and (1 - alpha) B = alpha^2 / gamma is L.
        shrunk = step.L if np.isinf(self.B) else (1.0 - alpha) * self.B
        if not shrunk > 0.0:
            raise Diverged(f"the estimate has no curvature left (alpha {alpha}, L {step.L:g}): scale X")
        linear = step.gradient if tau == 1 else step.result.p
        self.S = self.S + (alpha / shrunk) * linear
        base = step.L if np.isinf(self.beta) else (1.0 - alpha) * self.beta
        self.G = (1.0 - alpha) * self.G + alpha * tau
        self.B, self.beta = shrunk, base + alpha * tau * mu
        self.w = self.d.argmin(self.S) if tau == 0 else self._composite()

    def _composite(self) -> Floats:
        """argmin of <S, x> + d(x) / sigma + (G / B) penalty(x)."""
        d, weight = self.d, self.G / self.B
        if d.q == 2.0:
            found: Floats = self.penalty.prox(d.x0 - d.sigma * self.S, d.sigma * weight)
            return found
        # Soft thresholding of the gradient gives the composite step of a p-norm map around 0.
        v = -d.sigma * self.S
        cut = d.sigma * weight * self.penalty.elastic().l1
        return half_square_gradient(np.sign(v) * np.maximum(np.abs(v) - cut, 0.0), d.dual_q)
