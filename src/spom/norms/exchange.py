"""The l1 ball and the simplex in the l1 norm: argmin of z.x + L/2 norm1(x - u)^2 over the set, in linear time.

Inside the ball only the best coordinate moves. At its boundary weight is exchanged: a unit moves from the
active coordinate with the largest gain g_i = sign(u_i) z_i to the best one, for a gain of
(g_i + max abs(z)) / 2 per unit of distance. With s = radius - norm1(u) and R the weight that is removed,
the distance is t = 2R + s, where R >= -s if u is outside. The simplex is the same with g = z: the best
coordinate is that of the smallest z, and negative entries of u are raised to zero first.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.norms.crossing import crossing
from spom.norms.l1 import peak

_SET = "UniTuple(float64, 3)(float64[::1], float64[::1], float64, float64, float64, float64[::1])"
_DUAL = "void(float64[::1], float64[::1], float64[::1], float64, float64, float64[::1])"


@kernel("Tuple((float64, float64))(float64[::1], float64[::1], float64, float64)")
def _remove(z: Floats, x: Floats, bar: float, left: float) -> tuple[float, float]:
    """Set x to zero where its gain is above `bar`, and shrink it by a total of `left` where it is equal."""
    removed, smallest = 0.0, np.inf
    for i in range(x.size):
        gain = z[i] if x[i] > 0.0 else -z[i]
        if gain < bar or x[i] == 0.0:
            continue
        weight = abs(x[i])
        move = weight
        if gain == bar:
            move = min(left, weight)
            left -= move
            if move == 0.0:
                continue
        smallest = min(smallest, gain)
        removed += move
        if move == weight:
            x[i] = 0.0
        else:
            x[i] += -move if x[i] > 0.0 else move
    return removed, smallest


@kernel("UniTuple(float64, 4)(float64[::1], float64[::1], float64, float64, float64, float64)")
def _exchange(
    z: Floats, x: Floats, best: float, s: float, slope: float, offset: float
) -> tuple[float, float, float, float]:
    """Remove R from x, best gains first; return (R, last gain, smallest gain removed, whether there was a crossing)."""
    keys = np.empty(x.size)
    weights = np.empty(x.size)
    n = 0
    for i in range(x.size):
        keys[n] = z[i] if x[i] > 0.0 else -z[i]
        weights[n] = abs(x[i])
        n += x[i] != 0.0
    floor = max(-s, 0.0)
    bar, before = crossing(keys, weights, n, slope, offset, floor)
    if bar != bar:
        removed, smallest = _remove(z, x, -np.inf, 0.0)
        return removed, -best, smallest, 0.0
    R = max(slope * bar + offset, before, floor)
    _, smallest = _remove(z, x, bar, R - before)
    return R, bar, smallest, 1.0


@kernel(_SET)
def l1_ball_greedy(u: Floats, z: Floats, radius: float, L: float, t: float, x: Floats) -> tuple[float, float, float]:
    """Write x and return (distance, mu, nu): the prox for L > 0, the local conjugate at t for L = 0.

    mu is the dual norm of p, and nu the multiplier of the constraint.
    """
    top, im = peak(z)
    toward = -1.0 if z[im] > 0.0 else 1.0
    size = 0.0
    for i in range(u.size):
        size += abs(u[i])
        x[i] = u[i]
    s = radius - size
    free = top / L if L > 0.0 else t
    if s >= 0.0 and free <= s:
        if top > 0.0:
            x[im] += toward * free
        return (free if top > 0.0 else 0.0), top, 0.0
    slope = 0.25 / L if L > 0.0 else 0.0
    offset = 0.5 * ((0.5 * top / L if L > 0.0 else t) - s)
    R, bar, smallest, found = _exchange(z, x, top, s, slope, offset)
    x[im] += toward * (R + s)
    distance = 2.0 * R + s
    # The slope of the minimum in t: L t at the prox, the last gain at a given t, 0 if no weight is left.
    mu = 0.5 * (bar + top) if found > 0.0 else 0.0
    if L > 0.0:
        mu = L * distance
    nu = max(top - mu, 0.0)
    if R + s <= 0.0 and smallest < np.inf:
        nu = max(nu, mu - smallest)
    return distance, mu, nu


@kernel(_SET)
def simplex_greedy(u: Floats, z: Floats, radius: float, L: float, t: float, x: Floats) -> tuple[float, float, float]:
    """Solve as `l1_ball_greedy`, for the set of x >= 0 that sum to radius."""
    im, size, raised = 0, 0.0, 0.0
    for i in range(u.size):
        x[i] = max(u[i], 0.0)
        size += x[i]
        raised += x[i] - u[i]
        if z[i] < z[im]:
            im = i
    s = radius - size
    top = -z[im]
    slope = 0.25 / L if L > 0.0 else 0.0
    offset = 0.5 * ((0.5 * top / L if L > 0.0 else t) - s - raised)
    R, bar, smallest, found = _exchange(z, x, top, s, slope, offset)
    x[im] += R + s
    distance = 2.0 * R + s + raised
    # The slope of the minimum in t: L t at the prox, the last gain at a given t, 0 if no weight is left.
    mu = 0.5 * (bar + top) if found > 0.0 else 0.0
    if L > 0.0:
        mu = L * distance
    nu = top - mu
    if R + s <= 0.0 and smallest < np.inf:
        nu = max(nu, mu - smallest)
    return distance, mu, nu


@kernel(_DUAL)
def simplex_dual(u: Floats, z: Floats, x: Floats, mu: float, nu: float, p: Floats) -> None:
    """Write p with dual norm mu, in -mu subdifferential norm1 at x - u, and with p - z - nu normal to x >= 0."""
    for i in range(u.size):
        if x[i] != u[i]:
            p[i] = mu if x[i] < u[i] else -mu
        elif u[i] > 0.0:
            p[i] = z[i] + nu
        else:
            p[i] = min(z[i] + nu, 0.0)
