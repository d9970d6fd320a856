r"""Proximal points by dual coordinate steps: what `step="auto"` runs on data that are in memory.

The outer iteration is the proximal point method in a diagonal metric M, one pass over the data each:

    theta_{k+1} ~ argmin  (1/N) sum_i phi(y_i, x_i . w) + Omega(w) + 1/2 norm_M(w - theta_k)^2.

The inner problem has a dual with one number a_i for each example, its loss's derivative. With
v = -(1/N) sum_i a_i x_i and Omega = l1 norm1 + l2/2 norm2^2 its primal point is

    w_j = soft(M_j theta_kj + v_j, l1) / (M_j + l2),

so only u = M theta_k + v is kept: a row of data costs what its non-zeros cost, no coordinate has to be caught
up with later, and those below the threshold are exactly zero at all times. A step on example i minimises the
dual along x_i, which is an implicit step: a = a_i solves a = phi'(y_i, x_i . w - q (a - a_i)), with q the
squared norm of x_i over the coordinates that are not zero. In the first pass a_i starts from zero and this is
dual averaging; later ones replace the example's old derivative by its new one, which removes the noise that
keeps a plain stochastic step from the optimum (Shalev-Shwartz and Zhang 2013; Lin, Mairal and Harchaoui 2015).

There is no step size. M_j = c L / N sqrt(s_j) sum_l sqrt(s_l), with s_j the mean square of feature j and L the
loss's smoothness, makes the mean of L/N norm_{1/M}(x_i)^2 one for c = 1. c starts at 1/2, falls by a fifth after
a pass that lowered the objective on a fixed sample of rows, and doubles after one that raised it, which is then
taken back: any c > 0 converges, and the sample only decides how fast.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.rows import ROWS, Rows
from spom.solvers.scores import LOSS, loss_arguments, mean_loss

SMOOTH, LINEAR, HINGE, OTHER = 0, 1, 2, 3
_CODES = {"Logistic": SMOOTH, "Squared": LINEAR, "Hinge": HINGE}
# The scale c of the metric: where it starts, how it falls and rises, and its limits.
START, DOWN, UP, LEAST, MOST = 0.5, 0.8, 2.0, 0.02, 8.0
# A sample's optimum is not the optimum: near it, this much of a rise on the sample is no sign of a bad pass.
ROOM = 2e-3
# Threads: how often they meet in a pass, and how much larger each thinks its own changes are.
MEETINGS, BOOST = 8, 1.2


@kernel(f"float64(float64, float64, float64, float64, int64, {LOSS})")
def implicit_slope(
    y: float, a: float, q: float, old: float, code: int, value: Any, derivative: Any, reals: Floats
) -> float:
    """The new derivative s = phi'(y, a - q (s - old)) of an example whose score is a and whose old one was s."""
    if code == 1:
        return (a - y + q * old) / (1.0 + q)
    if code == 2:
        if q == 0.0:
            return -y if y * a < 1.0 else 0.0
        # In terms of p = -y s in [0, 1]: the margin becomes y a + q (p - p_old), and p is clipped where it is 1.
        p = -y * old + (1.0 - y * a) / q
        return -y * min(1.0, max(0.0, p))
    b = a
    if code == 0:
        s = 0.0
        for _ in range(3):
            m = y * b
            e = math.exp(-abs(m))
            p = (e if m > 0.0 else 1.0) / (1.0 + e)
            s = -y * p
            b -= (b - a + q * (s - old)) / (1.0 + q * p * (1.0 - p))
        return s
    # h(b) = b - a + q (phi'(b) - old) rises with slope >= 1: its root lies between a and a - h(a).
    h = q * (derivative(y, a, reals) - old)
    low, high = (a - h, a) if h > 0.0 else (a, a - h)
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
    f"float64({ROWS}, float64, float64, float64[:, ::1], float64[::1], boolean, int64, {LOSS})", fastmath={"reassoc"}
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
    intercept: bool,
    code: int,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """One step on each row in `order`; row j of u is (u_j, 1 / (M_j + l2)). Returns the sum of the losses met."""
    total = 0.0
    bias = u.shape[0] - 1
    share = 1.0 / y.size
    for place in range(order.size):
        i = order[place]
        low, high = indptr[i], indptr[i + 1]
        shift = low if dense else 0
        a = 0.0
        q = 0.0
        for k in range(low, high):
            j = indices[k - shift]
            z = u[j, 0]
            x = data[k]
            over = z - min(max(z, -l1), l1)
            scaled = x * u[j, 1]
            a += scaled * over
            if over != 0.0:
                q += x * scaled
        if intercept:
            a += u[bias, 0] * u[bias, 1]
            q += u[bias, 1]
        c = weight[i] * share
        s = implicit_slope(y[i], a, q * c * boost, slopes[i], code, value, derivative, reals)
        total += weight[i] * value(y[i], a, reals)
        change = c * (s - slopes[i])
        slopes[i] = s
        change *= boost
        for k in range(low, high):
            u[indices[k - shift], 0] -= change * data[k]
        if intercept:
            u[bias, 0] -= change
    return total


@kernel("void(float64[:, ::1], float64, float64, float64[::1])")
def primal_point(u: Floats, l1: float, l2: float, out: Floats) -> None:
    """w_j = soft(u_j, l1) / (M_j + l2); the last entry, where out is longer, has no penalty."""
    for j in range(out.size):
        z = u[j, 0]
        out[j] = (z - min(max(z, -l1), l1)) * u[j, 1]


class ProximalPoint:
    """The engine of `step="auto"`: theta, the dual numbers and the metric of a run; see the module's text."""

    name = "proximal-point"

    def __init__(self, loss: Any, l1: float, l2: float, features: int, intercept: bool, jobs: int = 1) -> None:
        self.l1, self.l2, self.features, self.intercept = l1, l2, features, intercept
        self.jobs = jobs
        self.loss = loss_arguments(loss)
        ours = type(loss).__module__.startswith("spom.losses.")
        self.code = _CODES.get(type(loss).__name__, OTHER) if ours else OTHER
        exponent, constant = loss.hoelder
        # A loss that is not smooth has no L: its derivative moves by this much over a margin of one.
        self.smoothness = float(constant) if exponent > 0 else 1.0
        self.size = features + intercept
        self.anchor = np.zeros(self.size)
        self.dual = np.zeros(self.size)
        self.slopes = np.zeros(0)
        self.metric = np.zeros(0)
        self.scale, self.kept = START, math.inf
        self.passes = 0
        self._sample: Ints = np.zeros(0, dtype=np.int64)

    # --- the metric ----------------------------------------------------------------------------------

    def _prepare(self, rows: Rows) -> None:
        """The metric for c = 1, and the rows on which passes are compared."""
        squares = np.append(rows.squares(), 1.0) if self.intercept else rows.squares()
        root = np.sqrt(squares)
        total = float(root.sum())
        self.metric = self.smoothness / len(rows) * root * total
        # A feature that never occurs stays zero whatever its metric is; it must only not divide by zero.
        self.metric[root == 0.0] = 1.0
        if self.slopes.size != len(rows):
            self.slopes = np.zeros(len(rows))
        n = len(rows)
        step = max(1, n // max(1000, n // 10))
        self._sample = np.arange(0, n, step, dtype=np.int64)

    def _state(self, metric: Floats) -> Floats:
        """The interleaved array that the loop runs on: u and 1 / (M + l2)."""
        u = np.empty((self.size, 2))
        u[:, 0] = metric * self.anchor + self.dual
        u[:, 1] = 1.0 / (metric + self.l2)
        if self.intercept:
            u[-1, 1] = 1.0 / metric[-1]
        return u

    def _point(self, u: Floats) -> Floats:
        w = np.empty(self.size)
        primal_point(u[: self.features], self.l1, self.l2, w[: self.features])
        if self.intercept:
            w[-1] = u[-1, 0] * u[-1, 1]
        return w

    # --- a pass --------------------------------------------------------------------------------------

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """One pass over the rows in `order`; the sum of the losses met on the way."""
        if self.metric.size == 0:
            self._prepare(rows)
        metric = self.scale * self.metric
        u = self._state(metric)
        total = self._loop(rows, order, u)
        w = self._point(u)
        self.dual = u[:, 0] - metric * self.anchor
        self.passes += 1
        value = self._sampled(rows, w)
        if value <= self.kept * (1.0 + ROOM):
            if value < self.kept:
                self.scale = max(self.scale * DOWN, LEAST)
            self.kept, self.anchor = value, w
        else:
            self.scale = min(self.scale * UP, MOST)
        return total

    def _loop(self, rows: Rows, order: Ints, u: Floats) -> float:
        if self.jobs > 1:
            return self._parallel(rows, order, u)
        return self._steps(rows, order, u, 1.0)

    def _steps(self, rows: Rows, order: Ints, u: Floats, boost: float) -> float:
        arguments = (*rows.arguments(order), boost, self.l1, u, self.slopes, self.intercept, self.code, *self.loss)
        return float(dual_pass(*arguments))

    def _parallel(self, rows: Rows, order: Ints, u: Floats) -> float:
        """The same pass in threads: each on its own part of the rows and its own u, and the changes are added.

        Between two meetings the threads do not see each other, so that each takes its steps as if its own changes
        were `boost` times as large (Ma et al. 2015); with the meetings the boost can be small.
        """
        total = 0.0
        for part in np.array_split(order, MEETINGS):
            shares = [np.ascontiguousarray(s) for s in np.array_split(part, self.jobs)]
            copies = [u] + [u.copy() for _ in shares[1:]]
            before = u[:, 0].copy()
            with ThreadPoolExecutor(self.jobs) as pool:
                total += sum(pool.map(lambda s, c: self._steps(rows, s, c, BOOST), shares, copies))
            moved = sum(copy[:, 0] for copy in copies) - len(copies) * before
            u[:, 0] = before + moved / BOOST
        return total

    def _sampled(self, rows: Rows, w: Floats) -> float:
        v = w[: self.features]
        omega = self.l1 * float(np.abs(v).sum()) + 0.5 * self.l2 * float(v @ v)
        return mean_loss(rows, self._sample, w, self.intercept, self.loss) + omega

    # --- what a state holds --------------------------------------------------------------------------

    def theta(self) -> Floats:
        """The point of the last pass that was kept."""
        return self.anchor.copy()

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to go on."""
        return {
            "dual": self.dual.copy(),
            "slopes": self.slopes.copy(),
            "metric": self.metric.copy(),
            "sample": self._sample.copy(),
            "scalars": np.array([self.scale, self.kept, float(self.passes)]),
        }

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a saved run, or from a point alone."""
        self.anchor = theta.astype(np.float64).copy()
        if "slopes" not in internal:
            return
        self.dual, self.slopes = internal["dual"].copy(), internal["slopes"].copy()
        self.metric, self._sample = internal["metric"].copy(), internal["sample"].copy()
        self.scale, self.kept, passes = (float(x) for x in internal["scalars"])
        self.passes = int(passes)
