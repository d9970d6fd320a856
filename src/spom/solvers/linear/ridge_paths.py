"""Passes of proximal points with squared l2 penalties over several parts of the rows, and scores of the other rows.

The choice of a strength makes some hundred short runs. With an `OnlineProximal` for each, a run on iris took .4 ms and
its pass .02 ms. Here one compiled call makes a pass of all parts, each with its own strength, and scores the rows that
they leave out. The next call goes on from there with other strengths, as a run that starts from the state of the one
before does.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, read_only
from spom.core.jit import kernel
from spom.errors import Diverged
from spom.solvers.linear.data import Examples, Rows, add_squares
from spom.solvers.linear.lazy_multiclass import ENTRIES, RowPenalty
from spom.solvers.linear.problem import Loss, RowLoss, compiled_loss, compiled_row_loss
from spom.solvers.linear.proximal_point import FEW, ROOM, SMALL, START, code_of, stride_of
from spom.solvers.linear.proximal_point_loops import (
    CHANGES,
    Anchored,
    DualSteps,
    close_pass,
    dual_pass,
    open_pass,
    rescaled,
    scale_metric,
    take_roots,
)
from spom.solvers.linear.proximal_point_multiclass import RowSteps, close_rows, open_rows, rows_dual_pass, rows_point
from spom.solvers.linear.scores import loss_of_rows, loss_of_table, row_score, table_row

# The numbers of a part: c of the metric, the objective of the last pass that was kept and its penalty, the least
# change of a derivative that is applied, and the number of passes.
SCALE, KEPT, OMEGA, LEAST, PASSES = range(5)


class Parts(NamedTuple):
    """Rows to learn from, those of part f from ends[f] to ends[f + 1] - 1, and rows to score, in the same way."""

    rows: Examples
    ends: Annotated[Ints, "int64[::1]"]
    apart: Examples
    starts: Annotated[Ints, "int64[::1]"]


class Points(NamedTuple):
    """The state of each part, its strength, and what all have in common; one score is a table of one column.

    Passes of part f are compared on the rows of `samples` from places[f] to places[f + 1] - 1.
    """

    anchor: Annotated[Floats, "float64[:, :, ::1]"]
    dual: Annotated[Floats, "float64[:, :, ::1]"]
    slopes: Annotated[Floats, "float64[:, :, ::1]"]
    metric: Annotated[Floats, "float64[:, ::1]"]
    numbers: Annotated[Floats, "float64[:, ::1]"]
    l2: Annotated[Floats, "float64[::1]"]
    samples: Annotated[Ints, "Array(int64, 1, 'C', readonly=True)"]
    places: Annotated[Ints, "int64[::1]"]
    smoothness: Annotated[float, "float64"]
    intercept: Annotated[bool, "boolean"]
    code: Annotated[int, "int64"]


@kernel("void(Parts, Points)")
def prepare(parts: Parts, points: Points) -> None:
    """Set metric and scale of each part, as the engines of one part do; the order is that of the rows."""
    for f in range(points.l2.size):
        low, high = parts.ends[f], parts.ends[f + 1]
        rows, metric, size = parts.rows, points.metric[f], high - low
        places, order = rows.indptr, rows.order[low:high]
        part = Examples(places, rows.indices, rows.data, rows.dense, rows.y, rows.weight, order)
        metric[:] = 0.0
        add_squares(part, metric)
        mass = max(rows.weight[low:high].sum(), 1e-300)
        for j in range(metric.size):
            metric[j] /= mass
        if points.intercept:
            metric[metric.size - 1] = 1.0
        total, squared = take_roots(metric, 0.0)
        features = total**2 / squared if squared > 0.0 else 1.0
        points.numbers[f, SCALE] = START * math.sqrt(1.0 + size / (FEW * features))
        scale_metric(metric, points.smoothness / size * total)
        points.numbers[f, KEPT] = math.inf


@kernel("UniTuple(Examples, 2)(Parts, Points, int64)")
def rows_of(parts: Parts, points: Points, f: int) -> tuple[Examples, Examples]:
    """Return the rows of part f in their order, and those on which its passes are compared."""
    low, high, rows = parts.ends[f], parts.ends[f + 1], parts.rows
    places, y, weight = rows.indptr[low : high + 1], rows.y[low:high], rows.weight[low:high]
    chosen = points.samples[points.places[f] : points.places[f + 1]]
    part = Examples(places, rows.indices, rows.data, rows.dense, y, weight, rows.order[low:high])
    return part, Examples(places, rows.indices, rows.data, rows.dense, y, weight, chosen)


# --- several scores -----------------------------------------------------------------------------------------


@kernel("float64(float64[:, ::1])")
def squared_norm(theta: Floats) -> float:
    """Return the sum of the squares of all rows but the last, that of the intercept."""
    total = 0.0
    for j in range(theta.shape[0] - 1):
        for c in range(theta.shape[1]):
            total += theta[j, c] * theta[j, c]
    return total


@kernel("void(Examples, Examples, RowLoss, Points, int64)")
def table_pass(rows: Examples, sample: Examples, loss: RowLoss, points: Points, f: int) -> None:
    """Make a pass over the rows of part f, and keep it if the objective does not rise."""
    anchor, dual, numbers, l2 = points.anchor[f], points.dual[f], points.numbers[f], points.l2[f]
    metric = numbers[SCALE] * points.metric[f]
    bias = metric.size - 1
    inverse = 1.0 / (metric + l2)
    inverse[bias] = 1.0 / metric[bias]
    u, point = np.empty_like(anchor), np.empty_like(anchor)
    open_rows(anchor, dual, metric, u)
    state = RowSteps(u, inverse, points.slopes[f], points.smoothness, points.intercept)
    plain = RowPenalty(ENTRIES, 0.0, l2, np.empty(0))
    _, moved = rows_dual_pass(rows, loss, plain, state, numbers[LEAST])
    numbers[LEAST] = SMALL * moved / rows.y.size
    rows_point(plain, state, point)
    close_rows(anchor, metric, u)
    dual[:] = u
    omega, some = 0.5 * l2 * squared_norm(point), sample.order.size < rows.order.size
    value = loss_of_table(sample, loss, point) + omega
    good = value <= numbers[KEPT] * (1.0 + (ROOM if some else 0.0))
    if not good and some:
        before = loss_of_table(rows, loss, anchor) + 0.5 * l2 * squared_norm(anchor)
        good = loss_of_table(rows, loss, point) + omega <= before
    numbers[SCALE], numbers[KEPT] = rescaled(numbers[SCALE], numbers[KEPT], value, good)
    if good:
        anchor[:] = point


@kernel("boolean(Parts, RowLoss, Points, float64[:, ::1])")
def table_passes(parts: Parts, loss: RowLoss, points: Points, scores: Floats) -> bool:
    """Make a pass of each part, and write the scores of the rows apart; return whether they are finite."""
    apart, watch = parts.apart, 0.0
    for f in range(points.l2.size):
        part, sample = rows_of(parts, points, f)
        table_pass(part, sample, loss, points, f)
        for i in range(parts.starts[f], parts.starts[f + 1]):
            table_row(apart, i, points.anchor[f], scores[i])
            for c in range(scores.shape[1]):
                watch += 0.0 * scores[i, c]
    return watch == 0.0


# --- one score ----------------------------------------------------------------------------------------------


@kernel("void(Examples, Examples, Loss, Points, int64)")
def vector_pass(rows: Examples, sample: Examples, loss: Loss, points: Points, f: int) -> None:
    """Make a pass over the rows of part f, and keep it if the objective does not rise."""
    size, numbers, l2, some = (
        points.metric.shape[1],
        points.numbers[f],
        points.l2[f],
        sample.order.size < rows.order.size,
    )
    anchor, dual = points.anchor[f].reshape(size), points.dual[f].reshape(size)
    slopes = points.slopes[f].reshape(points.slopes.shape[1])
    bias = points.intercept
    if numbers[PASSES] == 1.0:
        # The first pass is always kept, and its loss is only needed now.
        numbers[KEPT] += loss_of_rows(sample, loss, anchor, bias)
    u, point, steps = np.empty((size, 2)), np.empty(size), np.array([numbers[LEAST], 0.0])
    state = Anchored(anchor, dual, points.metric[f], numbers[SCALE], 0.0, l2, size - bias)
    open_pass(u, state)
    dual_pass(rows, loss, DualSteps(u, slopes, steps, 0.0, 1.0, bias, points.code))
    omega = close_pass(u, state, point, 0, size)
    numbers[LEAST] = SMALL * steps[CHANGES] / rows.y.size
    value = omega + (loss_of_rows(sample, loss, point, bias) if numbers[PASSES] > 0.0 else 0.0)
    good = value <= numbers[KEPT] * (1.0 + (ROOM if some else 0.0))
    if not good and some:
        before = loss_of_rows(rows, loss, anchor, bias) + numbers[OMEGA]
        good = loss_of_rows(rows, loss, point, bias) + omega <= before
    numbers[SCALE], numbers[KEPT] = rescaled(numbers[SCALE], numbers[KEPT], value, good)
    numbers[PASSES] += 1.0
    if good:
        anchor[:] = point
        numbers[OMEGA] = omega


@kernel("boolean(Parts, Loss, Points, float64[:, ::1])")
def vector_passes(parts: Parts, loss: Loss, points: Points, scores: Floats) -> bool:
    """Make a pass of each part, and write the scores of the rows apart; return whether they are finite."""
    size, watch = points.metric.shape[1], 0.0
    for f in range(points.l2.size):
        part, sample = rows_of(parts, points, f)
        vector_pass(part, sample, loss, points, f)
        for i in range(parts.starts[f], parts.starts[f + 1]):
            scores[i, 0] = row_score(parts.apart, i, points.anchor[f].reshape(size), points.intercept)
            watch += 0.0 * scores[i, 0]
    return watch == 0.0


class RidgePaths:
    """Runs on parts of the rows, one pass after another: see the top of this file.

    `rows` has the rows of all parts, those of part f from ends[f] on, with weights of mean one in each part. `apart`
    has the rows to score, those of part f from starts[f] on.
    """

    def __init__(
        self,
        rows: Rows,
        ends: Ints,
        apart: Rows,
        starts: Ints,
        loss: Any,
        outputs: int | None,
        *,
        intercept: bool,
        seed: int,
    ) -> None:
        several = outputs is not None
        sizes, width = np.diff(ends), outputs or 1
        # Tables always have a row for the intercept, and vectors only with one, as in the engines of one part.
        shape = (sizes.size, rows.columns + (1 if several else intercept), width)
        exponent, constant = loss.hoelder
        samples = [np.arange(0, n, stride_of(n, several)) for n in sizes.tolist()]
        self._points = Points(
            np.zeros(shape),
            np.zeros(shape),
            np.zeros((sizes.size, int(sizes.max()), width)),
            np.zeros(shape[:2]),
            np.zeros((sizes.size, PASSES + 1)),
            np.zeros(sizes.size),
            read_only(np.concatenate(samples)),
            np.append(0, np.cumsum([sample.size for sample in samples])),
            float(constant) if exponent > 0 else 1.0,
            intercept,
            code_of(loss),
        )
        self._passes: Any = table_passes if several else vector_passes
        self._loss = compiled_row_loss(loss) if several else compiled_loss(loss)
        self._rows, self._ends, self._apart = rows, ends, (apart.examples(starts), starts)
        self._scores = np.empty((len(apart), width))
        self._sizes = sizes.tolist()
        self._random = {n: np.random.default_rng(seed) for n in self._sizes}
        prepare(self._parts(np.arange(len(rows))), self._points)

    def _parts(self, order: Ints) -> Parts:
        return Parts(self._rows.examples(order), self._ends, *self._apart)

    def scores(self, l2: Floats, passes: int = 1) -> Floats:
        """Make passes with the strength l2[f] for part f, and return the scores of the rows apart."""
        self._points.l2[:] = l2
        for _ in range(passes):
            orders = {n: random.permutation(n) for n, random in self._random.items()}
            order = np.concatenate([orders[n] for n in self._sizes])
            finite = self._passes(self._parts(order), self._loss, self._points, self._scores)
            if not finite:
                raise Diverged("the weights became infinite: scale X")
        return self._scores.copy() if self._scores.shape[1] > 1 else self._scores[:, 0].copy()
