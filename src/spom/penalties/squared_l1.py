"""The squared l1 norm, also weighted (Martins et al. 2011, Alg. 2 and 4, by selection instead of sorting)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST, NO_INTS, Strength
from spom.penalties.groups import check_weights
from spom.penalties.threshold import shrink, solve, solve_depths, total_and_peak


@kernel("UniTuple(float64, 2)(float64)")
def balance(t: float) -> tuple[float, float]:
    """Return (alpha, beta) with alpha / beta = t, both at most 1, so neither overflows."""
    return (1.0, 1.0 / t) if t > 1.0 else (t, 1.0)


@kernel("void(float64[::1], float64[::1], float64, float64[::1])")
def shrink_weighted(u: Floats, d: Floats, t: float, out: Floats) -> None:
    """Write argmin over x >= 0 of 1/2 norm(x - u)^2 + t/2 (sum d x)^2, for magnitudes u >= 0; d = 0 keeps its entry."""
    n = u.size
    alpha, beta = balance(t)
    depth = np.empty(n)
    a = np.empty(n)
    peak = 0.0
    for i in range(n):
        if d[i] * d[i] > 0.0:
            peak = max(peak, u[i] / d[i])
    kept = 0
    s = 0.0
    k = 0.0
    for i in range(n):
        if d[i] * d[i] > 0.0:
            depth[kept] = peak - u[i] / d[i]
            a[kept] = d[i] * d[i]
            s += a[kept] * depth[kept]
            k += a[kept]
            kept += 1
    if kept == 0 or peak == 0.0 or t == 0.0:
        out[:] = u
        return
    target = beta * peak
    sigma = (target + alpha * s) / (alpha * k + beta)
    sigma = solve_depths(depth[:kept], a[:kept], sigma, target, alpha, beta)
    tau = max(peak - sigma, 0.0)
    for i in range(n):
        if d[i] * d[i] == 0.0:
            out[i] = u[i]
        elif tau < sigma:
            out[i] = max(u[i] - tau * d[i], 0.0)
        else:
            out[i] = d[i] * max(sigma - (peak - u[i] / d[i]), 0.0)


@kernel("void(float64[::1], float64, float64[::1])")
def shrink_plain(w: Floats, t: float, out: Floats) -> None:
    """argmin over x of 1/2 norm(x - w)^2 + t/2 norm1(x)^2."""
    total, peak = total_and_peak(w, True)
    if peak == 0.0 or t == 0.0:
        out[:] = w
        return
    alpha, beta = balance(t)
    shrink(w, peak, solve(w, True, total, peak, 0.0, alpha, beta), out)


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    t = min(step * reals[0], LARGEST)
    if reals.size == 1:
        shrink_plain(w, t, out)
        return
    signs = np.sign(w)
    shrink_weighted(np.abs(w), reals[1:], t, out)
    for i in range(w.size):
        out[i] *= signs[i]


@register(
    "penalty",
    "squared-l1",
    formula=r"\tfrac{s}{2} \Big(\sum_i d_i |w_i|\Big)^2",
    cost="expected O(n)",
    examples=lambda: [SquaredL1(0.5), SquaredL1(0.0), SquaredL1(2.0, weights=[1.0, 0.0, 2.0, 0.5, 1.0, 3.0])],
)
class SquaredL1(Strength):
    """Omega(w) = s/2 (sum d abs(w))^2 with weights d >= 0; the prox is a soft threshold at tau d.

    The threshold tau = step s sum d abs(x) depends on the result x, and is found by selection. Unlike the prox of the
    norm itself, this one never sets all entries to zero.

    >>> SquaredL1(1.0).prox([3.0, 1.0, -0.5])
    array([1.5, 0. , 0. ])
    """

    follows_l1 = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, weights: Any = None) -> None:
        self.weights = weights
        super().__init__(strength)

    def _weights(self, size: int) -> Floats | None:
        return None if self.weights is None else check_weights(np.ravel(self.weights), size, "coordinates")

    def _value(self, w: Floats) -> float:
        flat = np.abs(w.reshape(-1))
        d = self._weights(flat.size)
        norm = float(flat.sum() if d is None else d @ flat)
        return 0.5 * self.strength * norm * norm

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        d = self._weights(int(np.prod(shape)))
        return super()._packed(shape) if d is None else (np.append(float(self.strength), d), NO_INTS)

    def _conjugate_value(self, y: Floats) -> float:
        u = np.abs(y.reshape(-1))
        d = self._weights(u.size)
        d = np.ones(u.size) if d is None else d
        if np.any(u[d == 0] > 0) or (self.strength == 0 and u.any()):
            return np.inf
        peak = float(np.max(u[d > 0] / d[d > 0], initial=0.0))
        return 0.5 * peak * peak / self.strength if peak else 0.0
