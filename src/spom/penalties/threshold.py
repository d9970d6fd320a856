"""The common equation behind the l1 ball, the simplex, l-inf and the squared l1 norm, solved in linear time.

All of them shrink magnitudes u by a common threshold tau. With m = max u, depths delta = m - u, weights
a > 0 and sigma = m - tau, the equation is

    alpha * sum_i a_i max(sigma - delta_i, 0) = alpha * r + beta * (m - sigma)

(l1 ball and simplex of radius r: alpha 1, beta 0; lambda/2 norm1^2: r 0, alpha / beta = lambda). Solving for
sigma, the distance below the largest entry, instead of tau keeps every digit of a result that is tiny
compared to the input. Newton's method on this piecewise linear equation decreases monotonically and ends at
the exact active set. If it has not ended after a few passes, selection with random pivots takes over
(Duchi et al. 2008), so the expected time is linear for any input.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel

_NEWTON_PASSES = 24


@kernel("UniTuple(float64, 2)(float64[::1], boolean)", fastmath={"reassoc", "nsz"})
def total_and_peak(w: Floats, absolute: bool) -> tuple[float, float]:
    """Return (sum, max) of the magnitudes, or of the signed entries; the maximum of no entries is 0."""
    if w.size == 0:
        return 0.0, 0.0
    total = 0.0
    peak = abs(w[0]) if absolute else w[0]
    if absolute:
        for i in range(w.size):
            u = abs(w[i])
            total += u
            peak = u if u > peak else peak
    else:
        for i in range(w.size):
            u = w[i]
            total += u
            peak = u if u > peak else peak
    return total, peak


@kernel("Tuple((float64, int64))(float64[::1], boolean, float64, float64)", fastmath={"reassoc"})
def _near_peak(w: Floats, absolute: bool, peak: float, sigma: float) -> tuple[float, int]:
    """Return (sum, count) of the depths below sigma, without a branch in the loop."""
    total = 0.0
    count = 0
    if absolute:
        for i in range(w.size):
            depth = peak - abs(w[i])
            near = depth < sigma
            total += depth if near else 0.0
            count += near
    else:
        for i in range(w.size):
            depth = peak - w[i]
            near = depth < sigma
            total += depth if near else 0.0
            count += near
    return total, count


@kernel("float64(float64[::1], float64[::1], float64, float64, float64, float64, float64)")
def _select(depth: Floats, a: Floats, s: float, k: float, target: float, alpha: float, beta: float) -> float:
    """Find the root by selection, given sums s, k of entries known to be active; reorder `depth` and `a`.

    A depth v is active if the root lies below it: alpha * sum a (v - depth) over depths < v is less
    than target - beta * v. A random pivot decides about half of the candidates in each pass.
    """
    low, high = 0, depth.size
    seed = np.uint64(0x9E3779B97F4A7C15)
    while low < high:
        seed ^= seed << np.uint64(13)
        seed ^= seed >> np.uint64(7)
        seed ^= seed << np.uint64(17)
        pivot = depth[low + np.int64(seed % np.uint64(high - low))]
        # Three-way partition: [low, i) less than the pivot, [i, j) equal, [j, high) greater.
        i, c, j = low, low, high
        ds = 0.0
        dk = 0.0
        while c < j:
            x, y = depth[c], a[c]
            if x < pivot:
                ds += y * x
                dk += y
                depth[c], a[c] = depth[i], a[i]
                depth[i], a[i] = x, y
                i += 1
                c += 1
            elif x > pivot:
                j -= 1
                depth[c], a[c] = depth[j], a[j]
                depth[j], a[j] = x, y
            else:
                c += 1
        if alpha * ((k + dk) * pivot - (s + ds)) < target - beta * pivot:
            for e in range(i, j):
                ds += a[e] * depth[e]
                dk += a[e]
            s += ds
            k += dk
            low = j
        else:
            high = i
    return (target + alpha * s) / (alpha * k + beta)


@kernel("float64(float64[::1], float64[::1], float64, float64, float64, float64)")
def solve_depths(depth: Floats, a: Floats, sigma: float, target: float, alpha: float, beta: float) -> float:
    """Run Newton's method from the right, dropping inactive entries for good; `depth` and `a` are overwritten.

    `target` is alpha * r + beta * m; sigma starts at or above the root.
    """
    n = depth.size
    settled = -1  # the number of entries from which the current sigma was computed
    for _ in range(_NEWTON_PASSES):
        kept = 0
        s = 0.0
        k = 0.0
        for i in range(n):
            x, y = depth[i], a[i]
            if x < sigma:
                depth[kept] = x
                a[kept] = y
                kept += 1
                s += y * x
                k += y
        if kept == settled or k == 0.0:
            return sigma
        n = settled = kept
        sigma = (target + alpha * s) / (alpha * k + beta)
    return _select(depth[:n], a[:n], 0.0, 0.0, target, alpha, beta)


@kernel("float64(float64[::1], boolean, float64, float64, float64, float64, float64)")
def solve(w: Floats, absolute: bool, total: float, peak: float, r: float, alpha: float, beta: float) -> float:
    """Solve for sigma with unit weights: the result at entry i is sign(w_i) max(sigma - (peak - abs(w_i)), 0).

    `total` and `peak` are those of `total_and_peak`. Whole passes over `w` run at memory speed;
    once few entries remain they are gathered.
    """
    n = w.size
    target = alpha * r + beta * peak
    count = n
    sigma = (target + alpha * (n * peak - total)) / (alpha * n + beta)
    # Small vectors stay in the cache: pass over them until the end, without gathering.
    for _ in range(12 if n > 4096 else _NEWTON_PASSES):
        if count < n // 16 and n > 256:
            break
        s, near = _near_peak(w, absolute, peak, sigma)
        if near == 0:
            return sigma
        sigma = (target + alpha * s) / (alpha * near + beta)
        if near == count:
            return sigma
        count = near
    depth = np.empty(count)
    kept = 0
    for i in range(n):
        x = peak - (abs(w[i]) if absolute else w[i])
        # Rounding may admit one more entry than was counted.
        if x < sigma and kept < count:
            depth[kept] = x
            kept += 1
    return solve_depths(depth[:kept], np.ones(kept), sigma, target, alpha, beta)


@kernel("void(float64[::1], float64, float64, float64[::1])")
def shrink(w: Floats, peak: float, sigma: float, out: Floats) -> None:
    """sign(w) max(abs(w) - tau, 0) with tau = peak - sigma, in whichever form keeps more digits."""
    tau = peak - sigma
    if tau < sigma:
        tau = max(tau, 0.0)
        for i in range(w.size):
            out[i] = w[i] - min(max(w[i], -tau), tau)
        return
    for i in range(w.size):
        magnitude = max(sigma - (peak - abs(w[i])), 0.0)
        out[i] = magnitude if w[i] > 0.0 else 0.0 - magnitude


@kernel("float64(float64[::1])", fastmath={"reassoc"})
def _sum_of_squares(w: Floats) -> float:
    s = 0.0
    for i in range(w.size):
        s += w[i] * w[i]
    return s


@kernel("float64(float64[::1])")
def norm2(w: Floats) -> float:
    """Return the Euclidean norm; scale first where the squares would leave the range of floats."""
    s = _sum_of_squares(w)
    if 1e-280 < s < 1e300 or np.isnan(s):
        return float(np.sqrt(s))
    peak = 0.0
    for i in range(w.size):
        peak = max(peak, abs(w[i]))
    if peak == 0.0:
        return 0.0
    s = 0.0
    for i in range(w.size):
        s += (w[i] / peak) ** 2
    return float(peak * np.sqrt(s))
