"""The l-inf penalty and the l-inf ball in the l-inf norm: exact, in linear time.

Within distance t of u and within r of zero, coordinate i moves as far as it can against z_i. With a = abs(z) and
v_i = -sign(z_i) u_i, it moves to y_i = min(v_i + t, r), where r >= norm_inf(u) - t. So

    gain(t, r) = sum_i a_i min(v_i + t, r),

and coordinates with v_i > r - t are held at r. For the ball r is its radius. For strength * norm_inf the best
r - t is the point s with a weight of `strength` above it, for all t with r >= norm_inf(u) - t. So as t grows,
r = norm_inf(u) - t first and r = t + s then, and both slopes are sums above a threshold.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.norms.crossing import crossing
from spom.norms.l1 import peak

_GREEDY = "UniTuple(float64, 3)(float64[::1], float64[::1], float64, float64, float64, float64[::1], float64[::1])"


@kernel("Tuple((int64, float64))(float64[::1], float64[::1], float64[::1], float64[::1])")
def _pieces(u: Floats, z: Floats, keys: Floats, weights: Floats) -> tuple[int, float]:
    """Write v and a of the coordinates with z != 0; return (their number, the sum of a)."""
    n, total = 0, 0.0
    for i in range(u.size):
        keys[n] = -u[i] if z[i] > 0.0 else u[i]
        weights[n] = abs(z[i])
        total += abs(z[i])
        n += z[i] != 0.0
    return n, total


@kernel("void(float64[::1], float64[::1], float64, float64, float64[::1])")
def _point(u: Floats, z: Floats, t: float, r: float, x: Floats) -> None:
    """Write x: each coordinate moves as far against z as t and r allow, or stays as near to u as r allows if z = 0."""
    for i in range(u.size):
        if z[i] > 0.0:
            x[i] = -min(t - u[i], r)
        elif z[i] < 0.0:
            x[i] = min(u[i] + t, r)
        else:
            x[i] = min(max(u[i], -r), r)


@kernel("UniTuple(float64, 3)(float64[::1], float64[::1], float64, float64)")
def _masses(u: Floats, z: Floats, s: float, tie: float) -> tuple[float, float, float]:
    """Return the weights of the coordinates that move freely, that are held at r, and that are tied (v == tie)."""
    free, held, either = 0.0, 0.0, 0.0
    for i in range(u.size):
        a = abs(z[i])
        v = -u[i] if z[i] > 0.0 else u[i]
        if v == tie:
            either += a
        elif v > s:
            held += a
        else:
            free += a
    return free, held, either


@kernel("void(float64[::1], float64[::1], float64, float64, float64, float64, float64[::1])")
def _dual(u: Floats, z: Floats, s: float, tie: float, share: float, extra: float, p: Floats) -> None:
    """Write p: z on the free coordinates, share * z on the tied ones, 0 on those held; add `extra` at the peak of u."""
    for i in range(u.size):
        v = -u[i] if z[i] > 0.0 else u[i]
        if v == tie:
            p[i] = share * z[i]
        else:
            p[i] = 0.0 if v > s else z[i]
    _, at = peak(u)
    p[at] += extra if u[at] > 0.0 else -extra


@kernel(_GREEDY)
def linf_ball_greedy(
    u: Floats, z: Floats, radius: float, L: float, t: float, x: Floats, p: Floats
) -> tuple[float, float, float]:
    """Write x and p, return (distance, mu, multiplier): the prox for L > 0, the local conjugate at t for L = 0."""
    top, _ = peak(u)
    nearest = max(top - radius, 0.0)
    tie = np.nan
    if L > 0.0:
        keys, weights = np.empty(u.size), np.empty(u.size)
        n, total = _pieces(u, z, keys, weights)
        bar, before = crossing(keys, weights, n, L, total - L * radius, 0.0)
        t = (total - before) / L
        if t > radius - bar:
            t, tie = radius - bar, bar
        if t < nearest:
            t, tie = nearest, np.nan
    _point(u, z, t, radius, x)
    free, _, either = _masses(u, z, radius - t, tie)
    mu = L * t if L > 0.0 else free
    rest = max(mu - free, 0.0)
    share = min(rest / either, 1.0) if either > 0.0 else 0.0
    extra = max(rest - share * either, 0.0) if t == nearest else 0.0
    _dual(u, z, radius - t, tie, share, extra, p)
    return t, mu, 0.0


@kernel(_GREEDY)
def linf_greedy(
    u: Floats, z: Floats, strength: float, L: float, t: float, x: Floats, p: Floats
) -> tuple[float, float, float]:
    """Solve as `linf_ball_greedy`, for strength * norm_inf."""
    top, _ = peak(u)
    keys, weights = np.empty(u.size), np.empty(u.size)
    n, total = _pieces(u, z, keys, weights)
    s, _ = crossing(keys, weights, n, 0.0, strength, 0.0)
    bounded = s == s
    turn = 0.5 * (top - s) if bounded else top
    tie = np.nan
    if L > 0.0:
        n, total = _pieces(u, z, keys, weights)
        bar, before = crossing(keys, weights, n, 0.25 * L, 0.5 * (total + strength) - 0.25 * L * top, 0.0)
        t = (total + strength - 2.0 * before) / L
        if t > 0.5 * (top - bar):
            t, tie = 0.5 * (top - bar), bar
        if not t < turn:
            t = max(turn, (total - strength) / L if bounded else 0.0)
            tie = s
    elif t >= turn and bounded:
        tie = s
    early = t < turn
    r = top - t if early else (t + s if bounded else 0.0)
    r = max(r, 0.0)
    _point(u, z, t, r, x)
    # At x = 0, if the strength exceeds the total weight, every coordinate is held.
    threshold = r - t if early or bounded else -np.inf
    free, held, either = _masses(u, z, threshold, tie)
    if L > 0.0:
        mu = L * t
    elif early:
        mu = free - held + strength
    else:
        mu = total - strength if bounded else 0.0
    share = 0.0
    if either > 0.0:
        share = min(max(0.5 * ((mu - strength - free + held) / either + 1.0), 0.0), 1.0)
    extra = strength - held - (1.0 - share) * either
    if t > turn:
        extra = 0.0
    elif not bounded and not early:
        extra = mu
    _dual(u, z, threshold, tie, share, max(extra, 0.0), p)
    return t, mu, r
