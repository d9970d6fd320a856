r"""The proximal point method of `proximal_point` for several scores: the dual variable of an example is a vector.

theta is a matrix with one row per feature, and so is u = M theta_k + v. A row of the primal point is the prox of the
penalty's row at u_j, over M_j: entries thresholded (l1, with squared l2), or the whole row shrunk (sum over rows of l2
or l-inf norms). An example's step is one damped Newton step for its new scores, b = a - q (phi'(a) - s) / (1 + q L),
and its new derivatives are those at b. Losses must be smooth.

Without l1 and norms of rows (the penalty is squared l2, or none), the weights of a feature are u_j / (M_j + l2). A row
of data then costs one multiplication and one addition per entry and class, in loops that the compiler vectorises over
classes. As with one score, changes far below the mean of the previous pass are then postponed.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, check_room
from spom.core.jit import kernel
from spom.errors import DataError
from spom.solvers.linear.data import Examples, Rows, look_ahead_in
from spom.solvers.linear.lazy_multiclass import ENTRIES, LINF_ROWS, RowPenalty, shrink_largest
from spom.solvers.linear.problem import Problem, RowLoss, compiled_row_loss
from spom.solvers.linear.proximal_point import SMALL, Passes, first_scale, stride_of
from spom.solvers.linear.scores import loss_of_table

# On dense rows and tables with more weights than this, products of matrices are faster than loops.
SMALL_TABLE = 1000


class RowSteps(NamedTuple):
    """The data of a pass: u, 1 / (M + l2), the derivatives of the examples, L of the loss, and the intercept."""

    u: Annotated[Floats, "float64[:, ::1]"]
    inverse: Annotated[Floats, "float64[::1]"]
    slopes: Annotated[Floats, "float64[:, ::1]"]
    smoothness: Annotated[float, "float64"]
    intercept: Annotated[bool, "boolean"]


@kernel("boolean(RowPenalty)")
def has_no_threshold(penalty: RowPenalty) -> bool:
    """Tell whether the penalty is squared l2 alone, or none."""
    return penalty.kind == ENTRIES and penalty.strength == 0.0


@kernel("void(float64[:, ::1], int64, RowPenalty, float64[:, ::1])")
def row_point(u: Floats, j: int, penalty: RowPenalty, out: Floats) -> None:
    """Write the prox of the penalty's row at u_j to the first row of `out`."""
    cut = penalty.strength * penalty.weights[j] if penalty.weights.size else penalty.strength
    if penalty.kind == ENTRIES:
        for c in range(u.shape[1]):
            z = u[j, c]
            out[0, c] = z - min(max(z, -cut), cut)
        return
    norm = 0.0
    for c in range(u.shape[1]):
        out[0, c] = u[j, c]
        norm += u[j, c] * u[j, c]
    if penalty.kind == LINF_ROWS:
        shrink_largest(out, 0, cut)
        return
    norm = math.sqrt(norm)
    factor = (norm - cut) / norm if norm > cut else 0.0
    for c in range(u.shape[1]):
        out[0, c] *= factor


@kernel("float64(Examples, int64, RowPenalty, RowSteps, float64[::1], float64[:, ::1])")
def score_row(rows: Examples, i: int, penalty: RowPenalty, state: RowSteps, scores: Floats, row: Floats) -> float:
    """Compute `scores` of row i; return its squared norm over features with non-zero weights. `row` is scratch."""
    u, inverse, size, plain = state.u, state.inverse, scores.size, has_no_threshold(penalty)
    low, high = rows.indptr[i], rows.indptr[i + 1]
    shift = low if rows.dense else 0
    q = inverse[u.shape[0] - 1] if state.intercept else 0.0
    for c in range(size):
        scores[c] = u[u.shape[0] - 1, c] * q
    for k in range(low, high):
        j, x = rows.indices[k - shift], rows.data[k]
        scaled = x * inverse[j]
        if plain:
            q += x * scaled
            for c in range(size):
                scores[c] += scaled * u[j, c]
            continue
        row_point(u, j, penalty, row)
        some = False
        for c in range(size):
            some = some or row[0, c] != 0.0
            scores[c] += scaled * row[0, c]
        q += x * x * inverse[j] if some else 0.0
    return q


@kernel("UniTuple(float64, 2)(Examples, RowLoss, RowPenalty, RowSteps, float64)")
def rows_dual_pass(
    rows: Examples, loss: RowLoss, penalty: RowPenalty, state: RowSteps, least: float
) -> tuple[float, float]:
    """Take one step per row of data; return the sum of the losses met, and that of the changes of derivatives.

    `least` is the smallest change that is applied.
    """
    total = moved = 0.0
    indices, data, u, slopes = rows.indices, rows.data, state.u, state.slopes
    bias, size, plain = u.shape[0] - 1, u.shape[1], has_no_threshold(penalty)
    scores, new, row = np.empty(size), np.empty(size), np.empty((1, size))
    for place in range(rows.order.size):
        i = rows.order[place]
        look_ahead_in(rows, place, u)
        low, high = rows.indptr[i], rows.indptr[i + 1]
        shift = low if rows.dense else 0
        q = score_row(rows, i, penalty, state, scores, row)
        share = rows.weight[i] / rows.y.size
        q *= share
        label = int(rows.y[i])
        total += rows.weight[i] * loss.row(label, scores, loss.reals, new)
        slope = 1.0 + q * state.smoothness
        damped = q / slope
        for c in range(size):
            # Both are the same number, with different rounding: each keeps the bits of earlier versions.
            if plain:
                scores[c] -= damped * (new[c] - slopes[i, c])
            else:
                scores[c] -= q * (new[c] - slopes[i, c]) / slope
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


@kernel("void(float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1])")
def open_rows(anchor: Floats, dual: Floats, metric: Floats, u: Floats) -> None:
    """u = M anchor + dual. Rows are short, on which numpy is slow."""
    for j in range(metric.size):
        for c in range(u.shape[1]):
            u[j, c] = metric[j] * anchor[j, c] + dual[j, c]


@kernel("void(float64[:, ::1], float64[::1], float64[:, ::1])")
def close_rows(anchor: Floats, metric: Floats, u: Floats) -> None:
    """u becomes v = u - M anchor."""
    for j in range(metric.size):
        for c in range(u.shape[1]):
            u[j, c] -= metric[j] * anchor[j, c]


@kernel("void(RowPenalty, RowSteps, float64[:, ::1])")
def rows_point(penalty: RowPenalty, state: RowSteps, out: Floats) -> None:
    """Compute the primal point of all rows; an intercept, the last one, has no penalty."""
    u, inverse = state.u, state.inverse
    row = np.empty((1, u.shape[1]))
    bias, plain = u.shape[0] - 1, has_no_threshold(penalty)
    for j in range(bias):
        if plain:
            for c in range(u.shape[1]):
                out[j, c] = u[j, c] * inverse[j]
            continue
        row_point(u, j, penalty, row)
        for c in range(u.shape[1]):
            out[j, c] = row[0, c] * inverse[j]
    for c in range(u.shape[1]):
        out[bias, c] = u[bias, c] * inverse[bias] if state.intercept else 0.0


class ProximalPointRows(Passes):
    """The engine of `step="auto"` for smooth losses of several scores; see the module docstring."""

    name = "proximal-point, rows"

    def __init__(self, problem: Problem, penalty: RowPenalty) -> None:
        self.row_loss, self.loss, self.penalty = compiled_row_loss(problem.loss), problem.loss, problem.penalty
        self.row_penalty, self.intercept, self.features = penalty, problem.intercept, problem.features
        self.shape, self.exact = problem.shape, problem.exact
        self.plain, self.least = bool(has_no_threshold(penalty)), 0.0
        self.name = "proximal-point, ridge" if self.plain else self.name
        self.smoothness = float(problem.loss.hoelder[1])
        self.metric = np.zeros(0)
        self._make_weights()
        self._make_slopes(0)
        self.scale, self.kept, self.passes, self.rounds = 1.0, math.inf, 0, 0
        self._sample: Ints = np.zeros(0, dtype=np.int64)

    def _make_weights(self) -> None:
        self.anchor = np.zeros((self.features + 1, self.shape[1]))
        self.dual = np.zeros_like(self.anchor)

    def _make_slopes(self, n: int) -> None:
        k = self.shape[1]
        todo = "use update='forward-backward', or fewer classes"
        check_room(n, k, 1, f"a number for each of {n:,} rows and {k:,} classes", todo)
        self.slopes = np.zeros((n, k))

    def _prepare(self, rows: Rows) -> None:
        n = len(rows)
        self._sample = np.arange(0, n, 1 if self.exact else stride_of(n, True), dtype=np.int64)
        root = np.sqrt(np.append(rows.squares(np.arange(n)), 1.0 if self.intercept else 0.0))
        self.scale = first_scale(n, float(root.sum()), float(root @ root))
        self.metric = self.smoothness / n * root * float(root.sum())
        self.metric[root == 0.0] = 1.0
        if self.slopes.shape[0] != n:
            self._make_slopes(n)

    def _metric(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return M and 1 / (M + l2) of this pass; the last entry is the intercept's, which has no penalty."""
        if self.metric.size == 0:
            self._prepare(rows)
        elif self.slopes.shape[0] != len(rows) or self.metric.size != self.features + 1:
            raise DataError(f"the saved state is for {self.slopes.shape[0]} rows, but there are {len(rows)}")
        metric = self.scale * self.metric
        inverse = 1.0 / (metric + self.row_penalty.l2)
        inverse[-1] = 1.0 / metric[-1]
        return metric, inverse

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Make one pass over the rows in `order`; return the sum of the losses."""
        metric, inverse = self._metric(rows)
        u = np.empty_like(self.anchor)
        open_rows(self.anchor, self.dual, metric, u)
        state = RowSteps(u, inverse, self.slopes, self.smoothness, self.intercept)
        total = self._steps(rows.examples(order), state)
        point = self._point(state)
        # In place, because tables of many classes take most of the memory.
        close_rows(self.anchor, metric, u)
        self.dual = u
        self._judge(rows, point, steps.size)
        return total

    def _judge(self, rows: Rows, point: Any, rounds: int) -> None:
        """Keep or discard the point of a pass, and scale the metric for the next one."""
        value, everything = self._value(rows, self._sample, point), np.arange(len(rows))

        def lower() -> bool:
            return self._value(rows, everything, point) <= self._value(rows, everything, self.anchor)

        if self._keeps(rows, value, lower):
            self.anchor = point
        self.passes += 1
        self.rounds += rounds

    def _steps(self, rows: Examples, state: RowSteps) -> float:
        """Take one step on each row; return the sum of the losses."""
        total, moved = rows_dual_pass(rows, self.row_loss, self.row_penalty, state, self.least)
        self.least = SMALL * moved / max(1, rows.order.size) if self.plain else 0.0
        return float(total)

    def _point(self, state: RowSteps) -> Floats:
        """Return the primal point of u."""
        point = np.empty_like(state.u)
        rows_point(self.row_penalty, state, point)
        return point

    def _value(self, rows: Rows, order: Ints, point: Floats) -> float:
        """Return the objective on the rows in `order`."""
        w = np.ascontiguousarray(point[: self.features])
        if not rows.dense or w.size <= SMALL_TABLE:
            return float(loss_of_table(rows.examples(order), self.row_loss, point) + self.penalty.value(w))
        # `order` rises: where it has all rows, none needs to be picked.
        X = rows.matrix() if order.size == len(rows) else rows.matrix()[order]
        scores = X @ w + (point[-1] if self.intercept else 0.0)
        weight = rows.weight[order]
        values = self.loss.value(rows.y[order].astype(np.int64), np.ascontiguousarray(scores))
        return float(weight @ values) / max(float(weight.sum()), 1e-300) + float(self.penalty.value(w))

    # --- what a state holds --------------------------------------------------------------------------

    def theta(self) -> Floats:
        """Return the point of the last pass that was kept."""
        return self.anchor[: self.shape[0]].copy()

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        scalars = np.array([self.scale, self.kept, float(self.passes), float(self.rounds)])
        known = {"metric": self.metric, "sample": self._sample, "scalars": scalars}
        known |= {"least": np.array(self.least)} if self.plain else {}
        return {**self._kept(), "slopes": self.slopes.copy(), **known}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        self._take(theta, internal)
        if "slopes" not in internal:
            return
        self.slopes = internal["slopes"].copy()
        self.metric, self._sample = internal["metric"].copy(), internal["sample"].copy()
        self.scale, self.kept, passes, rounds = (float(x) for x in internal["scalars"])
        self.passes, self.rounds = int(passes), int(rounds)
        self.least = float(internal.get("least", np.array(0.0)))

    def _kept(self) -> Arrays:
        return {"dual": self.dual}

    def _take(self, theta: Any, internal: Arrays) -> None:
        self.anchor = np.zeros_like(self.anchor)
        self.anchor[: self.shape[0]] = theta
        if "slopes" in internal:
            self.dual = internal["dual"].copy()
