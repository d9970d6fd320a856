"""The compiled loops of proximal points: the steps of a pass, its start and end, and the metric.

`proximal_point` explains the method; `u` has u_j and 1 / (M_j + l2) side by side.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.core.prefetch import prefetch
from spom.solvers.linear.data import CONTENTS, Examples, look_ahead
from spom.solvers.linear.problem import Loss

# Losses whose implicit step has a closed or special form; OTHER is solved by bisection.
LOGISTIC, SQUARED, HINGE, SQUARED_HINGE, OTHER = range(5)
# The scale c of the metric: its factors of decrease and increase, and its limits.
DOWN, UP, LOWEST, MOST = 0.8, 2.0, 0.02, 8.0
# The columns of u, and the entries of `numbers`.
U, INVERSE = range(2)
LEAST_CHANGE, CHANGES = range(2)


class DualSteps(NamedTuple):
    """The data of a pass: u, the derivatives of the examples, two numbers, and the parameters of its steps.

    The numbers are the smallest change of a derivative that is applied, and the running sum of all changes.
    """

    u: Annotated[Floats, "float64[:, ::1]"]
    slopes: Annotated[Floats, "float64[::1]"]
    numbers: Annotated[Floats, "float64[::1]"]
    l1: Annotated[float, "float64"]
    boost: Annotated[float, "float64"]
    intercept: Annotated[bool, "boolean"]
    code: Annotated[int, "int64"]


class Anchored(NamedTuple):
    """The problem of a pass: its anchor, the dual vector v, the metric for c = 1, c, and the penalty."""

    anchor: Annotated[Floats, "float64[::1]"]
    dual: Annotated[Floats, "float64[::1]"]
    metric: Annotated[Floats, "float64[::1]"]
    scale: Annotated[float, "float64"]
    l1: Annotated[float, "float64"]
    l2: Annotated[float, "float64"]
    features: Annotated[int, "int64"]


@kernel("UniTuple(float64, 2)(float64, float64, float64, float64)", fastmath={"reassoc"})
def logistic_slope(y: float, a: float, q: float, old: float) -> tuple[float, float]:
    """Return the loss at the score a, and s = phi'(y, a - q (s - old)) by two Newton steps for the new score."""
    m = y * a
    e = math.exp(-abs(m))
    value = math.log1p(e) + max(-m, 0.0)
    r = (e if m > 0.0 else 1.0) / (1.0 + e)
    b = a + q * (y * r + old) / (1.0 + q * r * (1.0 - r))
    m = y * b
    e = math.exp(-abs(m))
    r = (e if m > 0.0 else 1.0) / (1.0 + e)
    b -= (b - a - q * (y * r + old)) / (1.0 + q * r * (1.0 - r))
    m = y * b
    e = math.exp(-abs(m))
    return value, -y * (e if m > 0.0 else 1.0) / (1.0 + e)


@kernel("float64(float64, float64, float64, float64, int64, Loss)")
def implicit_slope(y: float, a: float, q: float, old: float, code: int, loss: Loss) -> float:
    """s = phi'(y, a - q (s - old)): the new derivative of an example with score a, for all but the logistic loss."""
    if code == SQUARED:
        return (a - y + q * old) / (1.0 + q)
    if code == SQUARED_HINGE:
        # In terms of z = -y s / 2: z = max(0, 1 - y b) at the new score b = a - q (s - old).
        return -2.0 * y * max(0.0, (1.0 - y * (a + q * old)) / (1.0 + 2.0 * q))
    if code == HINGE:
        if q == 0.0:
            return -y if y * a < 1.0 else 0.0
        # In terms of p = -y s in [0, 1]: the margin becomes y a + q (p - p_old), and is 1 if p is in (0, 1).
        p = -y * old + (1.0 - y * a) / q
        return -y * min(1.0, max(0.0, p))
    # h(b) = b - a + q (phi'(b) - old) increases with slope >= 1: its root is between a and a - h(a).
    h = q * (loss.derivative(y, a, loss.reals) - old)
    low, high = (a - h, a) if h > 0.0 else (a, a - h)
    b = a
    for _ in range(40):
        b = 0.5 * (low + high)
        if high - low <= 1e-10 * (1.0 + abs(a)):
            break
        if b - a + q * (loss.derivative(y, b, loss.reals) - old) > 0.0:
            high = b
        else:
            low = b
    return old - (b - a) / q if q > 0.0 else loss.derivative(y, a, loss.reals)


@kernel("UniTuple(float64, 2)(float64[:, ::1], Array(float64, 1, 'C', readonly=True), float64)", fastmath={"reassoc"})
def dense_row(u: Floats, row: Floats, l1: float) -> tuple[float, float]:
    """Return the score of a dense row, and its squared norm over coordinates above the threshold."""
    a = q = 0.0
    for j in range(row.size):
        z, x = u[j, U], row[j]
        # No branch here: whether a coordinate is above the threshold cannot be predicted.
        over = z - min(max(z, -l1), l1)
        scaled = x * u[j, INVERSE]
        a += scaled * over
        q += x * scaled if over != 0.0 else 0.0
    return a, q


@kernel(
    "UniTuple(float64, 2)(float64[:, ::1], Array(int32, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), "
    "float64)",
    fastmath={"reassoc"},
)
def sparse_row(u: Floats, columns: Any, row: Floats, l1: float) -> tuple[float, float]:
    """Return the same for a sparse row with entries in these columns."""
    a = q = 0.0
    for p in range(row.size):
        j = columns[p]
        z, x = u[j, U], row[p]
        over = z - min(max(z, -l1), l1)
        scaled = x * u[j, INVERSE]
        a += scaled * over
        q += x * scaled if over != 0.0 else 0.0
    return a, q


@kernel("float64(Examples, Loss, DualSteps)", fastmath={"reassoc"})
def dual_pass(rows: Examples, loss: Loss, state: DualSteps) -> float:
    """Take one step on each row, and return the sum of the losses met.

    The sum is NaN if a score was not finite, whatever the loss of that score.
    """
    # Local variables, because a write to memory in each row would make the loop reload everything else.
    total = moved = watch = 0.0
    indptr, indices, data, dense, y, weight, order = rows
    u, slopes, numbers, l1, boost, intercept, code = state
    least = numbers[LEAST_CHANGE]
    bias = u.shape[0] - 1
    share = 1.0 / y.size
    for place in range(order.size):
        i = order[place]
        low, high = indptr[i], indptr[i + 1]
        count = high - low
        look_ahead(rows, place)
        prefetch(slopes, order[min(place + CONTENTS, order.size - 1)])
        if not dense:
            # Prefetch the coordinates of the next row.
            following = order[min(place + 1, order.size - 1)]
            for p in range(indptr[following], indptr[following + 1]):
                prefetch(u, indices[p])
        a, q = dense_row(u, data[low:high], l1) if dense else sparse_row(u, indices[low:high], data[low:high], l1)
        if intercept:
            a += u[bias, U] * u[bias, INVERSE]
            q += u[bias, INVERSE]
        watch += 0.0 * a
        c = weight[i] * share
        q *= c * boost
        old = slopes[i]
        if code == LOGISTIC:
            value, s = logistic_slope(y[i], a, q, old)
        else:
            value, s = loss.value(y[i], a, loss.reals), implicit_slope(y[i], a, q, old, code, loss)
        total += weight[i] * value
        moved += abs(s - old)
        if abs(s - old) <= least:
            continue
        change = boost * c * (s - old)
        slopes[i] = s
        if dense:
            for p in range(count):
                u[p, U] -= change * data[low + p]
        else:
            for p in range(count):
                u[indices[low + p], U] -= change * data[low + p]
        if intercept:
            u[bias, U] -= change
    numbers[CHANGES] += moved
    return total + watch


@kernel("void(float64[:, ::1], Anchored)")
def open_pass(u: Floats, state: Anchored) -> None:
    """u_j = M_j anchor_j + v_j and 1 / (M_j + l2); an intercept, the last entry, has no penalty."""
    anchor, dual, metric, scale = state.anchor, state.dual, state.metric, state.scale
    for j in range(state.features):
        m = scale * metric[j]
        u[j, U] = m * anchor[j] + dual[j]
        u[j, INVERSE] = 1.0 / (m + state.l2)
    for j in range(state.features, metric.size):
        m = scale * metric[j]
        u[j, U] = m * anchor[j] + dual[j]
        u[j, INVERSE] = 1.0 / m


@kernel("float64(float64[:, ::1], Anchored, float64[::1], int64, int64)", fastmath={"reassoc"})
def close_pass(u: Floats, state: Anchored, point: Floats, first: int, end: int) -> float:
    """Set `point` to soft(u, l1) / (M + l2) and `dual` to v = u - M anchor, for the coordinates first to end - 1.

    Return the penalty of that part of the point.
    """
    total = 0.0
    squares = 0.0
    anchor, dual, metric, scale, l1, l2, features = state
    for j in range(first, min(end, features)):
        z = u[j, U]
        dual[j] = z - scale * metric[j] * anchor[j]
        w = (z - min(max(z, -l1), l1)) * u[j, INVERSE]
        point[j] = w
        total += abs(w)
        squares += w * w
    for j in range(max(first, features), end):
        dual[j] = u[j, U] - scale * metric[j] * anchor[j]
        point[j] = u[j, U] * u[j, INVERSE]
    return l1 * total + 0.5 * l2 * squares


@kernel("UniTuple(float64, 2)(float64[::1], float64)", fastmath={"reassoc"})
def take_roots(squares: Floats, least: float) -> tuple[float, float]:
    """Replace squares, raised to at least `least`, by their roots; return the sums of the roots and the squares."""
    total, squared = 0.0, 0.0
    for j in range(squares.size):
        s = max(squares[j], least)
        squares[j] = math.sqrt(s)
        total += squares[j]
        squared += s
    return total, squared


@kernel("void(float64[::1], float64)")
def scale_metric(metric: Floats, factor: float) -> None:
    """Multiply the roots by the factor. A feature that never occurs stays zero under any metric but 0, and gets 1."""
    for j in range(metric.size):
        metric[j] = factor * metric[j] if metric[j] != 0.0 else 1.0


@kernel("UniTuple(float64, 2)(float64, float64, float64, boolean)")
def rescaled(scale: float, kept: float, value: float, good: bool) -> tuple[float, float]:
    """Return c and the objective to compare with after a pass that ended at `value` and was kept if `good`."""
    if good:
        scale *= DOWN if value < kept else 1.0
        kept = value
    else:
        scale *= UP
    return min(max(scale, LOWEST), MOST), kept
