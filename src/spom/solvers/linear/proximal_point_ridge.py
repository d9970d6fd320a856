r"""Proximal points of several scores with a squared l2 penalty, or with none: no threshold, so no prox of a row.

The method is that of `proximal_point_multiclass`. Without a threshold the weights of a feature are u_j / (M_j + l2),
and a row of data costs one multiplication and one addition for each of its entries and classes, in loops that the
compiler vectorises over classes. As with one score, changes far below the mean of the pass before are left for later.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, kernel
from spom.solvers.linear.data import Rows
from spom.solvers.linear.proximal_point import SMALL
from spom.solvers.linear.proximal_point_multiclass import ProximalPointRows


class RowEntries(NamedTuple):
    """The rows of a pass, in order; see `data`."""

    indptr: Annotated[Ints, "Array(int64, 1, 'C', readonly=True)"]
    indices: Annotated[Any, "Array(int32, 1, 'C', readonly=True)"]
    data: Annotated[Floats, "Array(float64, 1, 'C', readonly=True)"]
    dense: Annotated[bool, "boolean"]
    y: Annotated[Floats, "Array(float64, 1, 'C', readonly=True)"]
    weight: Annotated[Floats, "Array(float64, 1, 'C', readonly=True)"]
    order: Annotated[Ints, "Array(int64, 1, 'C', readonly=True)"]


class RidgeState(NamedTuple):
    """u, 1 / (M + l2), the derivatives of all examples, and the least change that is worth an update."""

    u: Annotated[Floats, "float64[:, ::1]"]
    inverse: Annotated[Floats, "float64[::1]"]
    slopes: Annotated[Floats, "float64[:, ::1]"]
    intercept: Annotated[bool, "boolean"]
    smoothness: Annotated[float, "float64"]
    least: Annotated[float, "float64"]


@kernel(f"UniTuple(float64, 2)(RowEntries, RidgeState, FunctionType({DERIVATIVE_ROW}), float64[::1])")
def ridge_dual_pass(rows: RowEntries, state: RidgeState, loss: Any, reals: Floats) -> tuple[float, float]:
    """One step on each row in order. Returns the sum of the losses met, and that of the changes of derivatives."""
    total = moved = 0.0
    indices, data, u, slopes = rows.indices, rows.data, state.u, state.slopes
    bias, size = u.shape[0] - 1, u.shape[1]
    first = state.inverse[bias] if state.intercept else 0.0
    scores, new = np.empty(size), np.empty(size)
    for place in range(rows.order.size):
        i = rows.order[place]
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
        total += rows.weight[i] * loss(label, scores, reals, new)
        damped = q / (1.0 + q * state.smoothness)
        for c in range(size):
            scores[c] -= damped * (new[c] - slopes[i, c])
        loss(label, scores, reals, new)
        change = 0.0
        for c in range(size):
            change += abs(new[c] - slopes[i, c])
        moved += change
        if change <= state.least:
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

    def _steps(self, rows: Rows, order: Ints, u: Floats, inverse: Floats) -> float:
        entries = RowEntries(*(_read_only(a) for a in rows.arguments(order)))
        state = RidgeState(u, inverse, self.slopes, bool(self.intercept), self.smoothness, self.least)
        total, moved = ridge_dual_pass(entries, state, self.row, self.reals)
        self.least = SMALL * moved / max(1, order.size)
        return float(total)

    def _point(self, u: Floats, inverse: Floats) -> Floats:
        point = u * inverse[:, None]
        if not self.intercept:
            point[-1] = 0.0
        return np.asarray(point)

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to resume."""
        return {**super().pack(), "least": np.array(self.least)}

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Resume from a saved run, or start from a point alone."""
        super().unpack(theta, internal)
        self.least = float(internal.get("least", np.array(0.0)))


def _read_only(part: Any) -> Any:
    """A view that cannot be written to: the types of a bundle must fit exactly. Flags stay what they are."""
    if isinstance(part, np.ndarray) and part.flags.writeable:
        part = part.view()
        part.flags.writeable = False
    return part
