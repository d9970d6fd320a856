"""The l1 penalty in the l1 norm: argmin of z.x + L/2 norm1(x - u)^2 + strength norm1(x), exact, in linear time.

Moving x_i from u_i to zero gains g_i = sign(u_i) z_i + strength per unit, for abs(u_i) units. From zero on, the
best coordinate gains g_inf = max(abs(z)) - strength per unit, without limit. A point at distance t takes the
best t units, and at the best t the slope of the gain equals L t. The support grows by at most one.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.norms.crossing import crossing

_GREEDY = "UniTuple(float64, 2)(float64[::1], float64[::1], float64, float64, float64, float64[::1])"
_DUAL = "void(float64[::1], float64[::1], float64[::1], float64, float64, float64[::1])"


@kernel("Tuple((float64, int64))(float64[::1])")
def peak(z: Floats) -> tuple[float, int]:
    """Return (largest magnitude, index of its first occurrence); (0, 0) for no entries."""
    best, at = 0.0, 0
    for i in range(z.size):
        a = abs(z[i])
        if a > best:
            best, at = a, i
    return best, at


@kernel(_GREEDY)
def l1_greedy(u: Floats, z: Floats, strength: float, slope: float, offset: float, x: Floats) -> tuple[float, float]:
    """Take units until their gain g has slope * g + offset <= units taken; return (units, last gain).

    The general prox has slope 1/L and offset 0; the local conjugate at t has slope 0 and offset t.
    """
    top, i0 = peak(z)
    endless = max(top - strength, 0.0)
    keys = np.empty(u.size)
    weights = np.empty(u.size)
    n = 0
    for i in range(u.size):
        x[i] = u[i]
        if u[i] != 0.0:
            g = (z[i] if u[i] > 0.0 else -z[i]) + strength
            keys[n] = g
            weights[n] = abs(u[i])
            n += g > endless
    key, before = crossing(keys, weights, n, slope, offset, 0.0)
    found = key == key
    bar = key if found else endless
    units = max(slope * bar + offset, before) if found else before
    left = units - before
    for i in range(u.size):
        if u[i] != 0.0:
            g = (z[i] if u[i] > 0.0 else -z[i]) + strength
            if g > bar:
                x[i] = 0.0
            elif found and g == bar:
                move = min(left, abs(u[i]))
                left -= move
                x[i] = 0.0 if move == abs(u[i]) else (u[i] - move if u[i] > 0.0 else u[i] + move)
    if not found and endless > 0.0 and slope * endless + offset > before:
        units = slope * endless + offset
        x[i0] += before - units if z[i0] > 0.0 else units - before
    return units, bar


@kernel(_DUAL)
def l1_dual(u: Floats, z: Floats, x: Floats, mu: float, nu: float, p: Floats) -> None:
    """Write p with dual norm mu, in -mu subdifferential norm1 at x - u and in z + nu subdifferential norm1 at x."""
    for i in range(u.size):
        if x[i] != u[i]:
            p[i] = mu if x[i] < u[i] else -mu
        elif u[i] != 0.0:
            p[i] = z[i] + (nu if u[i] > 0.0 else -nu)
        else:
            p[i] = max(abs(z[i]) - nu, 0.0) * (1.0 if z[i] > 0.0 else -1.0)
