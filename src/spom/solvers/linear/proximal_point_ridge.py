r"""Proximal points of several scores with a squared l2 penalty, or with none: no threshold, so no prox of a row.

The method is that of `proximal_point_multiclass`. Without a threshold the weights of a feature are u_j / (M_j + l2),
and a row of data costs one multiplication and one addition for each of its entries and classes, in loops that the
compiler vectorises over classes. As with one score, changes far below the mean of the pass before are left for later.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Arrays, Floats
from spom.core.jit import kernel
from spom.solvers.linear.data import Examples, look_ahead_in
from spom.solvers.linear.problem import RowLoss
from spom.solvers.linear.proximal_point import SMALL
from spom.solvers.linear.proximal_point_multiclass import ProximalPointRows, RowSteps


@kernel("UniTuple(float64, 2)(Examples, RowLoss, RowSteps, float64)")
def ridge_dual_pass(rows: Examples, loss: RowLoss, state: RowSteps, least: float) -> tuple[float, float]:
    """One step on each row in order. Returns the sum of the losses met, and that of the changes of derivatives.

    `least` is the least change that is worth an update.
    """
    total = moved = 0.0
    indices, data, u, slopes = rows.indices, rows.data, state.u, state.slopes
    bias, size = u.shape[0] - 1, u.shape[1]
    first = state.inverse[bias] if state.intercept else 0.0
    scores, new = np.empty(size), np.empty(size)
    for place in range(rows.order.size):
        i = rows.order[place]
        look_ahead_in(rows, place, u)
        low, high = rows.indptr[i], rows.indptr[i + 1]
        shift = low if rows.dense else 0
        q = first
        for c in range(size):
            scores[c] = u[bias, c] * first
        for k in range(low, high):
            j = indices[k - shift]
            scaled = data[k] * state.inverse[j]
            q += data[k] * scaled
            for c in range(size):
                scores[c] += scaled * u[j, c]
        share = rows.weight[i] / rows.y.size
        q *= share
        label = int(rows.y[i])
        total += rows.weight[i] * loss.row(label, scores, loss.reals, new)
        damped = q / (1.0 + q * state.smoothness)
        for c in range(size):
            scores[c] -= damped * (new[c] - slopes[i, c])
        loss.row(label, scores, loss.reals, new)
        change = 0.0
        for c in range(size):
            change += abs(new[c] - slopes[i, c])
        moved += change
        if change <= least:
            continue
        for c in range(size):
            scores[c] = share * (new[c] - slopes[i, c])
            slopes[i, c] = new[c]
        for k in range(low, high):
            j, x = indices[k - shift], data[k]
            for c in range(size):
                u[j, c] -= x * scores[c]
        if state.intercept:
            for c in range(size):
                u[bias, c] -= scores[c]
    return total, moved


class ProximalPointRidge(ProximalPointRows):
    """The engine of `step="auto"` for smooth losses of several scores where the penalty is l2/2 norm2^2."""

    name = "proximal-point, ridge"
    least = 0.0

    def _steps(self, rows: Examples, state: RowSteps) -> float:
        total, moved = ridge_dual_pass(rows, self.row_loss, state, self.least)
        self.least = SMALL * moved / max(1, rows.order.size)
        return float(total)

    def _point(self, state: RowSteps) -> Floats:
        point = state.u * state.inverse[:, None]
        if not self.intercept:
            point[-1] = 0.0
        return np.asarray(point)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {**super().pack(), "least": np.array(self.least)}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        super().unpack(theta, internal)
        self.least = float(internal.get("least", np.array(0.0)))
