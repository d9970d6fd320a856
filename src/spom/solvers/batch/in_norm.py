"""Proximal gradient steps in a norm for linear models with intercepts: `GeneralProximal` on the weights alone.

For each w the best intercept is known (one Newton iteration per output, or a mean). The loss with that intercept is
still smooth and convex in w. Its gradient is that of the loss at this intercept, and its Lipschitz constant no larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.registry import register
from spom.core.state import State
from spom.errors import Unsupported
from spom.losses import Squared
from spom.penalties import L1
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import best_intercept, certificate
from spom.solvers.batch.general_proximal import GeneralProximal

CHECK_EVERY = 10


class Profiled:
    """f(w) = min over b of smooth(w, b), for w a single vector.

    >>> smooth = LinearSmooth(np.eye(2), np.array([1.0, 3.0]), Squared(), fit_intercept=True)
    >>> Profiled(smooth).theta(np.zeros(2))
    array([0., 0., 2.])
    """

    def __init__(self, smooth: LinearSmooth) -> None:
        self.smooth = smooth
        self.X, self.weights = smooth.X, smooth.weights
        self.shape = (smooth.X.shape[1] * (smooth.outputs or 1),)
        self.penalised = slice(0, self.shape[0])

    def _at(self, w: Floats) -> tuple[Floats, Any, Floats]:
        """Return (scores with the best intercept, that intercept, derivatives there)."""
        smooth = self.smooth
        W = w if smooth.outputs is None else w.reshape(-1, smooth.outputs)
        scores: Floats = np.asarray(smooth.X @ W)
        alpha = smooth.dual_at(scores)
        if not smooth.fit_intercept:
            return scores, 0.0, alpha
        if isinstance(smooth.loss, Squared):
            b: Any = -alpha.sum(axis=0)
            alpha = smooth.dual_at(scores + b)
        else:
            b, alpha = best_intercept(smooth, alpha, scores)
        return scores + b, b, alpha

    def value(self, w: Floats) -> float:
        """f(w)."""
        return self.smooth.value_at(self._at(w)[0])

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        """Return f(w) and its gradient, which is that of the loss at the best intercept."""
        scores, _, alpha = self._at(w)
        return self.smooth.value_at(scores), np.ascontiguousarray((self.X.T @ alpha).reshape(-1))

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient of f at w."""
        return self.value_and_gradient(w)[1]

    def curvature(self) -> float:
        """Return the curvature of the loss."""
        return self.smooth.curvature()

    def lipschitz(self, norm: str = "l2") -> float:
        """Return the Lipschitz constant of the loss, an upper bound on that of f."""
        return self.smooth.lipschitz(norm)

    def theta(self, w: Floats) -> Floats:
        """Return w with its best intercept, in the shape of the loss's theta."""
        out = np.empty(self.smooth.shape)
        W = w if self.smooth.outputs is None else w.reshape(-1, self.smooth.outputs)
        if not self.smooth.fit_intercept:
            out[:] = W
            return out
        out[:-1], out[-1] = W, self._at(w)[1]
        return out


@register(
    "solver",
    "gpm",
    examples=lambda: [InNorm(examples.least_squares(intercept=True), L1(0.1), norm) for norm in ("l1", "linf")],
    cost="one gradient and one prox in the norm per round",
)
class InNorm:
    """Minimise smooth(w, b) + penalty(w) by proximal gradient steps in a norm; iterating yields states.

    `norm` is "l1", "linf", "l2" or an `AtomicNorm`; `accelerated` takes accGPM, which restarts when the objective
    grows. With several outputs the norm is that of all weights as one vector, and the penalty must act on single
    weights. Every ten rounds `internal["gap"]` and `internal["residual"]` are those of `BatchProximal`.

    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import halt, last, small
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> last(halt(InNorm(f, L1(0.3)), small("gap", 1e-7))).theta.round(3)
    array([ 2.1,  0. , -0.6])
    """

    def __init__(
        self, smooth: LinearSmooth, penalty: Any, norm: Any = "l1", accelerated: bool = False, *, start: Any = None
    ) -> None:
        if smooth.outputs is not None and penalty.elastic() is None:
            raise Unsupported(
                f"solver='gpm' with several classes takes penalties of single weights such as L1; {penalty!r} is none: "
                "use solver='fista'"
            )
        self.smooth, self.penalty, self.norm, self.accelerated = smooth, penalty, norm, accelerated
        self.start = start

    def __iter__(self) -> Iterator[State]:
        flat = Profiled(self.smooth)
        start = None if self.start is None else self.smooth.split(np.asarray(self.start))[0].reshape(-1)
        options: dict[str, Any] = {"start": start, "restart": self.accelerated}
        end: State | None = None
        for state in GeneralProximal(flat, self.penalty, self.norm, self.accelerated, **options):
            end = self._state(flat, state, state.k % CHECK_EVERY == 0 or state.k == 1)
            yield end
        while end is not None:  # the run ends by itself at an optimum, but the certificate is still missing
            end = self._state(flat, replace(end, theta=self.smooth.split(end.theta)[0].reshape(-1), k=end.k + 1), True)
            yield end

    def _state(self, flat: Profiled, state: State, check: bool) -> State:
        theta = flat.theta(state.theta)
        gap = residual = math.nan
        if check:
            found = certificate(self.smooth, self.penalty, theta, 1.0 / state.step)
            gap, residual = found.gap, found.residual
        return replace(state, theta=theta, internal={"gap": np.array(gap), "residual": np.array(residual)})
