"""The p-norm mirror maps, for which the cost of irrelevant features is logarithmic in their number."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, as_finite
from spom.core.jit import kernel
from spom.core.registry import register
from spom.mirror.base import MAP, MirrorMap


@kernel("void(float64[::1], float64, float64[::1])")
def p_norm_gradient(x: Floats, p: float, out: Floats) -> None:
    """Compute the gradient of 1/2 norm_p^2: sign(x) abs(x)^(p-1) norm_p(x)^(2-p).

    With m the largest absolute entry and r = abs(x)/m this is m sign(x) r^(p-1) (sum r^p)^((2-p)/p), in which no
    power can overflow.
    """
    m = 0.0
    for i in range(x.size):
        m = max(m, abs(x[i]))
    if m == 0.0 or p == 2.0:
        for i in range(x.size):
            out[i] = x[i]
        return
    total = 0.0
    for i in range(x.size):
        total += (abs(x[i]) / m) ** p
    # Do not multiply the power of the sum by m first: their product alone could be out of the range of floats.
    scale = total ** ((2.0 - p) / p)
    for i in range(x.size):
        size = ((abs(x[i]) / m) ** (p - 1.0) * scale) * m
        out[i] = size if x[i] >= 0.0 else -size


@kernel(MAP)
def p_norm_dual(x: Floats, reals: Floats, out: Floats) -> None:
    """Compute the gradient for p = reals[0]."""
    p_norm_gradient(x, reals[0], out)


@kernel(MAP)
def p_norm_primal(x: Floats, reals: Floats, out: Floats) -> None:
    """Compute the inverse of the gradient, which is the gradient with q = p / (p - 1)."""
    p_norm_gradient(x, reals[0] / (reals[0] - 1.0), out)


@register(
    "mirror",
    "p-norm",
    examples=lambda: [PNorm(), PNorm(1.05), PNorm(1.5), PNorm(2.0)],
    formula=r"\tfrac12 \|w\|_p^2",
    cost="O(d)",
)
class PNorm(MirrorMap):
    r"""Psi(w) = 1/2 norm_p(w)^2, with 1 < p <= 2.

    (p - 1)-strongly convex in the p-norm; gradients are measured in the q-norm, q = p / (p - 1).
    `p="auto"` is 1 + 1 / log(d), d the number of coordinates, and at most 2: for a sparse solution, the
    bounds of mirror descent then grow with log(d), and those of gradient descent with d.

    With `L1` the composite step is a soft threshold in the dual (SMIDAS), and with a `Box` whose limits
    are zero or infinite a projection in the dual. For p = 2 the map is `Euclidean` and takes every penalty.

    >>> from spom.penalties import L1
    >>> PNorm(1.5).to_dual([3.0, 4.0]).round(6)
    array([4.093012, 4.726204])
    >>> PNorm(1.5).to_primal(PNorm(1.5).to_dual([3.0, 4.0])).round(12)
    array([3., 4.])
    >>> PNorm(1.5).step([0.0, 0.0], [1.0, 0.1], eta=1.0, penalty=L1(0.2)).round(6)
    array([-0.8,  0. ])
    """

    pairs = "Zero, L1, and Box with limits that are zero or infinite"
    _dual_kernel = p_norm_dual
    _primal_kernel = p_norm_primal

    def __init__(self, p: float | Literal["auto"] = "auto") -> None:
        self.p = p
        self._check()

    def _check(self) -> None:
        number = isinstance(self.p, (int, float, np.integer, np.floating)) and not isinstance(self.p, bool)
        if self.p != "auto" and not (number and 1.0 < float(self.p) <= 2.0):
            raise ValueError(f'p must be a number with 1 < p <= 2, or "auto"; it is {self.p!r}')

    def exponent(self, dimension: int | None = None) -> float:
        """Return the p in use for vectors of this dimension."""
        if self.p != "auto":
            return float(self.p)
        if dimension is None:
            raise ValueError('p="auto" depends on the dimension: give it')
        return 1.0 + 1.0 / max(1.0, math.log(max(dimension, 1)))

    def modulus(self, dimension: int | None = None) -> float:
        """p - 1."""
        return self.exponent(dimension) - 1.0

    def norm(self, w: ArrayLike) -> float:
        """norm_p."""
        a = as_finite(w)
        return _norm(a, self.exponent(a.size))

    def dual_norm(self, v: ArrayLike) -> float:
        """norm_q with q = p / (p - 1)."""
        a = as_finite(v, "v")
        p = self.exponent(a.size)
        return _norm(a, p / (p - 1.0))

    def _reals(self, dimension: int) -> Floats:
        return np.array([self.exponent(dimension)])

    def _value(self, w: Floats) -> float:
        n = np.float64(_norm(w, self.exponent(w.size)))
        return float(0.5 * n * n)

    def _divergence(self, w: Floats, u: Floats) -> float:
        # D(c w, c u) = c^2 D(w, u): at scale one only the result can overflow.
        c = max(float(np.abs(w).max(initial=0.0)), float(np.abs(u).max(initial=0.0)))
        if c == 0.0:
            return 0.0
        a, b = w / c, u / c
        p = self.exponent(w.size)
        if p == 2.0:
            unit = 0.5 * float(np.vdot(a - b, a - b))
        else:
            # <u, to_dual(u)> = 2 Psi(u).
            unit = max(0.0, self._value(a) + self._value(b) - float(np.vdot(a, self.to_dual(b))))
        return float(np.float64(unit) * c * c)

    def _prox(self, penalty: Any, dual: Floats, step: float) -> Floats:
        if self.exponent(dual.size) == 2.0:
            found: Floats = penalty.prox(dual, step)
            return found
        # Psi's derivative has the sign of w and is 0 where w is 0, so for these penalties the threshold or the
        # clipping may be done in the dual.
        if type(penalty).__name__ in ("Zero", "L1") or _is_orthant(penalty):
            return self.to_primal(penalty.prox(dual, step))
        raise self._unsupported(penalty)


def _is_orthant(penalty: Any) -> bool:
    """Tell whether this is a box with limits that are all 0 or infinite, so that it depends on signs alone."""
    if type(penalty).__name__ != "Box":
        return False
    limits = np.concatenate([np.ravel(penalty.lower), np.ravel(penalty.upper)]).astype(np.float64)
    return bool(np.all((limits == 0.0) | np.isinf(limits)))


def _norm(w: Floats, p: float) -> float:
    m = float(np.abs(w).max(initial=0.0))
    if m == 0.0:
        return 0.0
    with np.errstate(over="ignore", under="ignore"):
        return float(m * np.float64(np.sum((np.abs(w) / m) ** p)) ** (1.0 / p))
