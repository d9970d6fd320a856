r"""Proximal points by dual coordinate steps: the method of `step="auto"` for data in memory.

The outer iteration is the proximal point method in a diagonal metric M, with one pass over the data per iteration:

    theta_{k+1} ~ argmin  (1/N) sum_i phi(y_i, x_i . w) + Omega(w) + 1/2 norm_M(w - theta_k)^2.

The inner problem has a dual with one number a_i per example, the derivative of its loss. With
v = -(1/N) sum_i a_i x_i and Omega = l1 norm1 + l2/2 norm2^2, its primal point is

    w_j = soft(M_j theta_kj + v_j, l1) / (M_j + l2),

so only u = M theta_k + v is kept. A row of data costs time for its non-zeros only, no coordinate needs to be caught
up with later, and those below the threshold are exactly zero at all times. A step on example i minimises the
dual along x_i, which is an implicit step: a = a_i solves a = phi'(y_i, x_i . w - q (a - a_i)), with q the
squared norm of x_i over the coordinates that are not zero. In the first pass a_i starts from zero, and this is
dual averaging. Later passes replace the example's old derivative by its new one. This removes the noise that
keeps a plain stochastic step from the optimum (Shalev-Shwartz and Zhang 2013; Lin, Mairal and Harchaoui 2015).

There is no step size. M_j = c L / N sqrt(s_j) sum_l sqrt(s_l), with s_j the mean square of feature j and L the
loss's smoothness, makes the mean of L/N norm_{1/M}(x_i)^2 equal to 1 for c = 1. c starts at 1/2, or above it if there
are many examples (`first_scale`). It falls by a fifth after a pass that lowered the objective on a fixed sample of
rows, and doubles after one that raised it, which is undone. Any c > 0 converges; the sample only decides how fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.errors import DataError
from spom.losses import PowerHinge
from spom.solvers.linear.data import Rows, in_threads, ranges
from spom.solvers.linear.problem import compiled_loss
from spom.solvers.linear.proximal_point_loops import (
    CHANGES,
    HINGE,
    LOGISTIC,
    OTHER,
    SQUARED,
    SQUARED_HINGE,
    Anchored,
    DualSteps,
    close_pass,
    dual_pass,
    open_pass,
    rescaled,
    scale_metric,
    take_roots,
)
from spom.solvers.linear.proximal_point_threads import parallel_pass
from spom.solvers.linear.scores import loss_of_rows

_CODES = {"Logistic": LOGISTIC, "Squared": SQUARED, "Hinge": HINGE}
# The scale c of the metric at the start.
START = 0.5
# A relative rise above this on the sample is checked on all rows, as the optimum of a sample is not the optimum.
ROOM = 1e-2
# Up to this many examples per feature, a first pass may take the largest steps.
FEW = 5.0
# The metric is measured on a sample of rows with about this many entries.
ENTRIES = 8e6
# A change of a derivative below this fraction of the mean change in the previous pass is skipped.
SMALL = 0.4


def first_scale(n: float, total: float, squared: float) -> float:
    """c = 1/2 sqrt(1 + n / (5 k)) for the first n examples, with k = (sum sqrt(s))^2 / sum(s) effective features.

    One pass leaves an error of about 1 / (n step) from the start, and of step * k from the noise. With many examples
    per feature the step must be smaller, and the best one falls with sqrt(k / n).
    """
    features = total**2 / squared if squared > 0 else 1.0
    return START * math.sqrt(1.0 + n / (FEW * features))


def stride_of(n: int, several: bool) -> int:
    """Return how many rows apart those are that compare passes, for one score or for several."""
    return max(1, n // (max(400, n // 25) if several else max(250, n // 40)))


def code_of(loss: Any) -> int:
    """Return the code of a loss of one score whose implicit step has a form of its own, or `OTHER`."""
    if type(loss) is PowerHinge and loss.q == 2.0:
        return SQUARED_HINGE
    ours = type(loss).__module__.startswith("spom.losses.")
    return _CODES.get(type(loss).__name__, OTHER) if ours else OTHER


class Passes:
    """The base of proximal points: a pass is kept if the objective does not rise, and scales the next pass's metric.

    `kept` is the objective on the sample after the last pass that was kept.
    """

    scale: float
    kept: float
    _sample: Ints

    def _keeps(self, rows: Rows, value: float, lower: Callable[[], bool]) -> bool:
        """Return whether to keep a pass that ended at `value` on the sample; `lower` compares it on all rows."""
        some = self._sample.size < len(rows)
        good = value <= self.kept * (1.0 + (ROOM if some else 0.0)) or (some and lower())
        self.scale, self.kept = rescaled(self.scale, self.kept, value, good)
        return good


class ProximalPoint(Passes):
    """The engine of `step="auto"`: theta, the dual numbers and the metric of a run; see the module docstring.

    With `exact` the passes are compared on all rows, as a run to the optimum needs.
    """

    name = "proximal-point"

    def __init__(
        self, loss: Any, l1: float, l2: float, features: int, intercept: bool, jobs: int = 1, exact: bool = False
    ) -> None:
        self.l1, self.l2, self.features, self.intercept = l1, l2, features, intercept
        self.jobs, self.exact = jobs, exact
        self.loss = compiled_loss(loss)
        self.code = code_of(loss)
        exponent, constant = loss.hoelder
        # A loss that is not smooth has no L; its derivative changes by this much over a margin of 1.
        self.smoothness = float(constant) if exponent > 0 else 1.0
        self.size = features + intercept
        self.anchor = np.zeros(self.size)
        self.dual = np.zeros(self.size)
        self.slopes = np.zeros(0)
        self.metric = np.zeros(0)
        self.scale, self.kept = START, math.inf
        self.passes, self.least, self._omega = 0, 0.0, 0.0
        self._sample: Ints = np.zeros(0, dtype=np.int64)
        self._lent = False
        # u_j and 1 / (M_j + l2) side by side: one place in memory per entry of a row; one copy per thread.
        self._u, self._spare = np.empty((jobs, self.size, 2)), np.zeros(self.size)

    # --- the metric ----------------------------------------------------------------------------------

    def _prepare(self, rows: Rows) -> None:
        """Set the metric for c = 1, and choose the rows on which passes are compared."""
        n = len(rows)
        self._sample = np.arange(0, n, 1 if self.exact else stride_of(n, False), dtype=np.int64)
        chosen = rows.sample(ENTRIES)
        squares, least = rows.squares(chosen, self.jobs), 0.0
        if chosen.size < n:
            # A feature that is not in the sample counts as if it occurred half a time.
            typical = float(rows.data[:1000] @ rows.data[:1000]) / max(1, rows.data[:1000].size)
            least = 0.5 * typical / chosen.size
        # In place: for very many features new arrays cost more than the roots.
        self.metric = np.append(squares, 1.0) if self.intercept else squares
        total, squared = take_roots(self.metric, least)
        if not math.isfinite(total):
            rows.check_finite(self.jobs)
        self.scale = first_scale(n, total, squared)
        scale_metric(self.metric, self.smoothness / n * total)
        if self.slopes.size != n:
            self.slopes = np.zeros(n)

    # --- a pass --------------------------------------------------------------------------------------

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Make one pass over the rows in `order`; return the sum of the losses."""
        if self._lent:
            self.dual, self.slopes, self._lent = self.dual.copy(), self.slopes.copy(), False
        if self.metric.size == 0:
            self._prepare(rows)
        elif self.slopes.shape[0] != len(rows) or self.metric.size != self.anchor.shape[0]:
            raise DataError(f"the saved state is for {self.slopes.shape[0]} rows, but there are {len(rows)}")
        elif self.passes == 1:
            # The first pass is always kept, and its loss is only needed now.
            self.kept += self._sampled(rows, self.anchor)
        w = self._spare
        total, omega = self._loop(rows, order, self.scale)
        self.passes += 1
        value = omega + (self._sampled(rows, w) if self.passes > 1 else 0.0)
        if self._keeps(rows, value, lambda: self._all(rows, w) + omega <= self._all(rows, self.anchor) + self._omega):
            self.anchor, self._spare, self._omega = w, self.anchor, omega
        return total

    def _all(self, rows: Rows, w: Floats) -> float:
        return float(loss_of_rows(rows.examples(np.arange(len(rows))), self.loss, w, self.intercept))

    def _loop(self, rows: Rows, order: Ints, scale: float) -> tuple[float, float]:
        """Take steps on the rows from the anchor to `_spare`; return the sum of the losses, and the penalty there."""
        state = Anchored(self.anchor, self.dual, self.metric, scale, self.l1, self.l2, self.features)
        in_threads(self.jobs, lambda k: open_pass(self._u[k], state))
        if self.jobs > 1:
            steps = (lambda *args: self._steps(rows, *args), order)
            total, moved = parallel_pass(*steps, self._u, self.metric, self._spare)
        else:
            total, moved = self._steps(rows, order, self._u[0], 1.0)
        if not math.isfinite(total):
            rows.check_finite(self.jobs)
        # The next pass postpones changes far below the mean change of this pass.
        self.least = SMALL * moved / max(1, order.size)
        ends = ranges(self.size, self.jobs)
        omega = in_threads(self.jobs, lambda k: close_pass(self._u[0], state, self._spare, ends[k], ends[k + 1]))
        return total, float(sum(omega))

    def _steps(self, rows: Rows, order: Ints, u: Floats, boost: float) -> tuple[float, float]:
        """Return the sum of the losses and that of the changes of derivatives."""
        numbers = np.array([self.least, 0.0])
        state = DualSteps(u, self.slopes, numbers, self.l1, boost, self.intercept, self.code)
        return float(dual_pass(rows.examples(order), self.loss, state)), float(numbers[CHANGES])

    def _sampled(self, rows: Rows, w: Floats) -> float:
        return float(loss_of_rows(rows.examples(self._sample), self.loss, w, self.intercept))

    # --- what a state holds --------------------------------------------------------------------------

    def theta(self) -> Floats:
        """Return the point of the last pass that was kept."""
        return self.anchor.copy()

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        # They are copied when the next pass begins, if there is one.
        self._lent = True
        return {
            "dual": self.dual,
            "slopes": self.slopes,
            # These two are never written to again.
            "metric": self.metric,
            "sample": self._sample,
            "scalars": np.array([self.scale, self.kept, float(self.passes), self.least, self._omega]),
        }

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self.anchor = theta.astype(np.float64).copy()
        if "slopes" not in internal:
            return
        self.dual, self.slopes = internal["dual"].copy(), internal["slopes"].copy()
        self.metric, self._sample = internal["metric"].copy(), internal["sample"].copy()
        self.scale, self.kept, passes, self.least, self._omega = (float(x) for x in internal["scalars"])
        self.passes = int(passes)
