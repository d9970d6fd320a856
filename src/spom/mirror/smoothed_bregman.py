"""The mirror map of the smoothed linearised Bregman iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, check_positive
from spom.core.jit import kernel
from spom.core.registry import register
from spom.mirror.base import MAP, MirrorMap


@kernel(MAP)
def bregman_dual(x: Floats, reals: Floats, out: Floats) -> None:
    """x + strength * clip(x / eps, -1, 1); reals are (strength, eps)."""
    strength, eps = reals[0], reals[1]
    for i in range(x.size):
        w = x[i]
        out[i] = w + strength * (w / eps) if abs(w) <= eps else w + (strength if w > 0.0 else -strength)


@kernel(MAP)
def bregman_primal(x: Floats, reals: Floats, out: Floats) -> None:
    """Compute the inverse: x eps / (strength + eps) near zero, else x shrunk by strength."""
    strength, eps = reals[0], reals[1]
    limit = strength + eps
    inner = eps / limit
    for i in range(x.size):
        v = x[i]
        out[i] = v * inner if abs(v) <= limit else v - (strength if v > 0.0 else -strength)


@register(
    "mirror",
    "smoothed-bregman",
    examples=lambda: [SmoothedBregman(), SmoothedBregman(0.5, 1e-3), SmoothedBregman(0.0, 1.0)],
    formula=r"\lambda \sum_i F_\epsilon(w_i) + \tfrac12 \|w\|_2^2",
    cost="O(d)",
)
class SmoothedBregman(MirrorMap):
    r"""Psi(w) = strength * sum of F(w_i) + 1/2 norm2(w)^2, F the absolute value smoothed near 0.

    F(x) = x^2 / (2 eps) where abs(x) <= eps, and abs(x) - eps/2 beyond.

    1-strongly convex in the Euclidean norm. Mirror descent with it, a squared loss and no penalty is the
    online smoothed linearised Bregman iteration. The map shrinks small weights by eps / (strength + eps)
    but sets none to exactly zero; a penalty in the composite step does, and every separable one has a
    closed form.

    >>> psi = SmoothedBregman(strength=1.0, eps=0.1)
    >>> psi.to_dual([0.05, 2.0])
    array([0.55, 3.  ])
    >>> psi.to_primal([0.55, 3.0])
    array([0.05, 2.  ])
    """

    pairs = "every separable convex penalty (Zero, L1, SquaredL2, ElasticNet, Power, Box, ...)"
    _dual_kernel = bregman_dual
    _primal_kernel = bregman_primal

    def __init__(self, strength: float = 1.0, eps: float = 0.01) -> None:
        self.strength = strength
        self.eps = eps
        self._check()

    def _check(self) -> None:
        check_positive(self.strength, "strength")
        check_positive(self.eps, "eps", zero=False)
        if not np.isfinite(float(self.strength) + float(self.eps)):
            raise ValueError("strength + eps must be finite")

    def _reals(self, dimension: int) -> Floats:
        return np.array([self.strength, self.eps], dtype=np.float64)

    def _value(self, w: Floats) -> float:
        size, eps = np.abs(w), self.eps
        inner = np.minimum(size, eps)
        huber = np.where(size <= eps, 0.5 * inner * (inner / eps), size - 0.5 * eps)
        return float(self.strength * huber.sum() + 0.5 * np.vdot(w, w))

    def _divergence(self, w: Floats, u: Floats) -> float:
        return float(self.strength * self._huber_divergence(w, u).sum() + 0.5 * np.vdot(w - u, w - u))

    def _huber_divergence(self, w: Floats, u: Floats) -> Floats:
        """F(w) - F(u) - (w - u) F'(u), case by case, to avoid cancellation."""
        eps = self.eps
        w_in, u_in = np.abs(w) <= eps, np.abs(u) <= eps
        # Change signs so that the point outside is positive: u, or else w.
        turn = np.sign(np.where(u_in, w, u))
        x, z = turn * w, turn * u
        near = np.clip(z, -eps, eps)
        cases = [
            (w_in & u_in, 0.5 * (w - u) * ((w - u) / eps)),
            (w_in & ~u_in, 0.5 * (eps - x) * ((eps - x) / eps)),
            (~w_in & u_in, (eps - near) / eps * (x - 0.5 * (eps + near))),
            (~w_in & ~u_in, 2.0 * np.maximum(-x, 0.0)),
        ]
        return np.asarray(np.select([c for c, _ in cases], [v for _, v in cases]))

    def _prox(self, penalty: Any, dual: Floats, step: float) -> Floats:
        if not (penalty.separable and penalty.convex) or not getattr(penalty, "exact", True):
            raise self._unsupported(penalty)
        # Where abs(w) > eps, Psi' = w + strength sign(w), and the solution is the penalty's prox of the dual
        # shrunk by strength. Where abs(w) <= eps, Psi' = w (1 + strength / eps), and it is a scaled prox. The
        # minimiser is unique, so it is the one of the three candidates that lies in its own region.
        inner = self.eps / (self.strength + self.eps)
        result: Floats = penalty.prox(dual * inner, step * inner)
        above = penalty.prox(dual - self.strength, step)
        below = penalty.prox(dual + self.strength, step)
        np.copyto(result, above, where=above > self.eps)
        np.copyto(result, below, where=below < -self.eps)
        return result
