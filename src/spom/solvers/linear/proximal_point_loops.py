"""The compiled loops of proximal points: the steps of a pass, what opens and closes it, and the metric.

The method is told in `proximal_point`; `u` has u_j and 1 / (M_j + l2) side by side.
"""

from __future__ import annotations

import math
from typing import Any

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.linear.data import ROWS
from spom.solvers.linear.scores import LOSS


@kernel(f"float64(float64, float64, float64, float64, int64, {LOSS})")
def implicit_slope(
    y: float, a: float, q: float, old: float, code: int, value: Any, derivative: Any, reals: Floats
) -> float:
    """s = phi'(y, a - q (s - old)): the new derivative of an example with score a, for losses but the logistic."""
    if code == 1:
        return (a - y + q * old) / (1.0 + q)
    if code == 2:
        if q == 0.0:
            return -y if y * a < 1.0 else 0.0
        # In terms of p = -y s in [0, 1]: the margin becomes y a + q (p - p_old), and is 1 where p is inside.
        p = -y * old + (1.0 - y * a) / q
        return -y * min(1.0, max(0.0, p))
    # h(b) = b - a + q (phi'(b) - old) rises with slope >= 1: its root lies between a and a - h(a).
    h = q * (derivative(y, a, reals) - old)
    low, high = (a - h, a) if h > 0.0 else (a, a - h)
    b = a
    for _ in range(40):
        b = 0.5 * (low + high)
        if high - low <= 1e-10 * (1.0 + abs(a)):
            break
        if b - a + q * (derivative(y, b, reals) - old) > 0.0:
            high = b
        else:
            low = b
    return old - (b - a) / q if q > 0.0 else derivative(y, a, reals)


@kernel(
    f"float64({ROWS}, float64, float64, float64[:, ::1], float64[::1], float64[::1], boolean, int64, {LOSS})",
    fastmath={"reassoc"},
)
def dual_pass(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    boost: float,
    l1: float,
    u: Floats,
    slopes: Floats,
    numbers: Floats,
    intercept: bool,
    code: int,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """One step on each row in `order`; `u` has u_j and 1 / (M_j + l2) side by side. Returns the sum of the losses met.

    The sum is NaN where a score was not finite, whatever the loss makes of that. `numbers` are the least change of a
    derivative that is worth an update, and the sum of all changes, which grows.
    """
    # Held here, because a write to memory in each row would make the loop read everything else again.
    total = moved = watch = 0.0
    least = numbers[0]
    bias = u.shape[0] - 1
    share = 1.0 / y.size
    for place in range(order.size):
        i = order[place]
        low, high = indptr[i], indptr[i + 1]
        start = 0 if dense else low
        count = high - low
        if not dense:
            # The places of the next row, so that they are there when it comes.
            following = order[min(place + 1, order.size - 1)]
            for p in range(indptr[following], indptr[following + 1]):
                prefetch(u, indices[p])
        a = 0.0
        q = 0.0
        for p in range(count):
            j = indices[start + p]
            z = u[j, 0]
            x = data[low + p]
            # Without a branch: whether a coordinate is above the threshold cannot be predicted.
            over = z - min(max(z, -l1), l1)
            scaled = x * u[j, 1]
            a += scaled * over
            q += x * scaled if over != 0.0 else 0.0
        if intercept:
            a += u[bias, 0] * u[bias, 1]
            q += u[bias, 1]
        watch += 0.0 * a
        c = weight[i] * share
        q *= c * boost
        old = slopes[i]
        if code == 0:
            # Written out, because this is where the time goes: two Newton steps for the new score, and the slope there.
            m = y[i] * a
            e = math.exp(-abs(m))
            total += weight[i] * (math.log1p(e) + max(-m, 0.0))
            r = (e if m > 0.0 else 1.0) / (1.0 + e)
            b = a + q * (y[i] * r + old) / (1.0 + q * r * (1.0 - r))
            m = y[i] * b
            e = math.exp(-abs(m))
            r = (e if m > 0.0 else 1.0) / (1.0 + e)
            b -= (b - a - q * (y[i] * r + old)) / (1.0 + q * r * (1.0 - r))
            m = y[i] * b
            e = math.exp(-abs(m))
            s = -y[i] * (e if m > 0.0 else 1.0) / (1.0 + e)
        else:
            total += weight[i] * value(y[i], a, reals)
            s = implicit_slope(y[i], a, q, old, code, value, derivative, reals)
        move = s - old
        moved += abs(move)
        if abs(move) <= least:
            continue
        change = boost * c * move
        slopes[i] = s
        for p in range(count):
            u[indices[start + p], 0] -= change * data[low + p]
        if intercept:
            u[bias, 0] -= change
    numbers[1] += moved
    return total + watch


@kernel("void(float64[:, ::1], float64[::1], float64[::1], float64[::1], float64, float64, int64)")
def open_pass(
    u: Floats,
    anchor: Floats,
    dual: Floats,
    metric: Floats,
    scale: float,
    l2: float,
    features: int,
) -> None:
    """u_j = M_j anchor_j + v_j and 1 / (M_j + l2); an intercept, the last entry, has no penalty."""
    for j in range(features):
        m = scale * metric[j]
        u[j, 0] = m * anchor[j] + dual[j]
        u[j, 1] = 1.0 / (m + l2)
    for j in range(features, metric.size):
        m = scale * metric[j]
        u[j, 0] = m * anchor[j] + dual[j]
        u[j, 1] = 1.0 / m


@kernel(
    "float64(float64[:, ::1], float64[::1], float64[::1], float64[::1], float64[::1], float64, float64, float64, "
    "int64, int64, int64)",
    fastmath={"reassoc"},
)
def close_pass(
    u: Floats,
    anchor: Floats,
    dual: Floats,
    metric: Floats,
    point: Floats,
    scale: float,
    l1: float,
    l2: float,
    features: int,
    first: int,
    end: int,
) -> float:
    """`point` becomes soft(u, l1) / (M + l2) and `dual` becomes v = u - M anchor, for coordinates in a range.

    Returns the penalty of that part of the point.
    """
    total = 0.0
    squares = 0.0
    for j in range(first, min(end, features)):
        z = u[j, 0]
        dual[j] = z - scale * metric[j] * anchor[j]
        w = (z - min(max(z, -l1), l1)) * u[j, 1]
        point[j] = w
        total += abs(w)
        squares += w * w
    for j in range(max(first, features), end):
        dual[j] = u[j, 0] - scale * metric[j] * anchor[j]
        point[j] = u[j, 0] * u[j, 1]
    return l1 * total + 0.5 * l2 * squares


@kernel("UniTuple(float64, 2)(float64[::1], float64)", fastmath={"reassoc"})
def take_roots(squares: Floats, least: float) -> tuple[float, float]:
    """The roots of the squares, at least `least`, in their place; returns the sum of the roots, and of the squares."""
    total, squared = 0.0, 0.0
    for j in range(squares.size):
        s = max(squares[j], least)
        squares[j] = math.sqrt(s)
        total += squares[j]
        squared += s
    return total, squared


@kernel("void(float64[::1], float64)")
def scale_metric(metric: Floats, factor: float) -> None:
    """factor times the roots; a feature that never occurs stays zero whatever its metric is, as long as that is not."""
    for j in range(metric.size):
        metric[j] = factor * metric[j] if metric[j] != 0.0 else 1.0
