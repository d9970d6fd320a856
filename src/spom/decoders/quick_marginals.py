"""Marginals of a chain for gradients: forward-backward in linear space, with exponentials that vectorise.

It is accurate to six digits and takes a third of the time of `forward_backward`, which has full precision and accepts
any range of scores. It returns -inf where the scores differ too much for it: by over 80 at one token, or over 30 in the
chain.
"""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel


@kernel("void(float64[::1], float64, float64[::1])", fastmath={"contract"})
def exponentials_32(x: Floats, top: float, out: Floats) -> None:
    """exp(x - top) in single precision for -80 <= x - top <= 0, and 0 for -inf: Cody and Waite, then a polynomial."""
    one = np.float32(1.0)
    for i in range(x.size):
        v = np.float32(x[i] - top)
        z = max(v, np.float32(-85.0))
        n = np.floor(z * np.float32(1.4426950408889634) + np.float32(0.5))
        r = z - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
        # The Taylor series of exp(r), r in -0.35 .. 0.35, up to the seventh power.
        p = np.float32(1.0 / 5040.0) * r + np.float32(1.0 / 720.0)
        p = p * r + np.float32(1.0 / 120.0)
        p = p * r + np.float32(1.0 / 24.0)
        p = p * r + np.float32(1.0 / 6.0)
        p = p * r + np.float32(0.5)
        p = p * r + one
        p = p * r + one
        # 2^n, from the bits of its exponent.
        power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
        out[i] = np.float64(p * power) if v > np.float32(-1e30) else 0.0


@kernel("UniTuple(float64, 2)(float64[::1])")
def span(x: Floats) -> tuple[float, float]:
    """Return the largest entry, and the smallest that is not -inf."""
    high, low = -np.inf, np.inf
    for i in range(x.size):
        v = x[i]
        high = v if v > high else high
        low = v if v < low and v > -np.inf else low
    return high, low


@kernel(
    "float64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])",
    fastmath={"reassoc", "contract"},
)
def quick_forward(unary: Floats, chain: Floats, weight: Floats, share: Floats, total: Floats) -> float:
    """Return the log of the weight of all sequences without their ends; -inf where scores differ too much."""
    n, k = unary.shape
    top, low = span(chain.reshape(-1))
    if not (top - low <= 30.0):
        return -np.inf
    exponentials_32(chain.reshape(-1), top, weight.reshape(-1))
    logs = 2.0 * top
    for t in range(n):
        high, least = span(unary[t])
        if not (high - least <= 80.0):
            return -np.inf
        now, sums = share[t], total[t]
        exponentials_32(unary[t], high, now)
        if t == 0:
            before = weight[k]
            for y in range(k):
                sums[y] = before[y]
        else:
            for y in range(k):
                sums[y] = 0.0
            for p in range(k):
                s, row = share[t - 1, p], weight[p]
                for y in range(k):
                    sums[y] += s * row[y]
        mass = 0.0
        for y in range(k):
            now[y] *= sums[y]
            mass += now[y]
        if not mass > 0.0:
            return -np.inf
        for y in range(k):
            now[y] /= mass
        logs += high + math.log(mass) + (top if t > 0 else 0.0)
    return logs


@kernel(
    "float64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1],"
    " float64[:, ::1])",
    fastmath={"reassoc", "contract"},
)
def quick_marginals(
    unary: Floats, chain: Floats, weight: Floats, share: Floats, total: Floats, nodes: Floats, steps: Floats
) -> float:
    """Return the log partition, P(y_t) in `nodes` and expected steps in `steps`; -inf: use `forward_backward`.

    `weight` (k + 2, k), `share` and `total` (n, k) are work space.
    """
    n, k = unary.shape
    logs = quick_forward(unary, chain, weight, share, total)
    if logs == -np.inf:
        return logs
    mass = 0.0
    for y in range(k):
        nodes[n - 1, y] = share[n - 1, y] * weight[k + 1, y]
        mass += nodes[n - 1, y]
    if not mass > 0.0:
        return -np.inf
    for y in range(k):
        nodes[n - 1, y] /= mass
    steps[:] = 0.0
    for t in range(n - 1, 0, -1):
        ratio, before = total[t], nodes[t - 1]
        for y in range(k):
            ratio[y] = nodes[t, y] / ratio[y] if ratio[y] > 0.0 else 0.0
        for p in range(k):
            s, row, into = share[t - 1, p], weight[p], steps[p]
            dot = 0.0
            for y in range(k):
                dot += row[y] * ratio[y]
                into[y] += s * ratio[y]
            before[p] = s * dot
    for p in range(k):
        for y in range(k):
            steps[p, y] *= weight[p, y]
    return logs + math.log(mass)
