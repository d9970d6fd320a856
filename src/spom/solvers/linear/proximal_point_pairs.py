r"""The proximal point method of `proximal_point_multiclass` with an l1 penalty, for tables too large for memory.

Of the table u = M theta_k + v, a pass holds the pairs of a feature and a class that may have a weight: those that occur
together in the training rows, and those with abs(u) > l1. v = -(1/N) sum_i a_i x_i is recomputed before each pass, so
a pair is found one pass after it has crossed the threshold, and the optimum is that of the whole table. theta is a
CSR matrix. If the derivatives a_i of all rows would also take too much memory, a row keeps those that are not small,
and one number for the others, which are taken as proportional to the frequencies of the classes.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from spom.core.arrays import Arrays, Floats, Ints, check_range
from spom.core.jit import kernel
from spom.losses import MulticlassLogistic
from spom.solvers.linear.data import Examples, Rows, look_ahead
from spom.solvers.linear.lazy_multiclass import ENTRIES, RowPenalty
from spom.solvers.linear.problem import Problem, RowLoss
from spom.solvers.linear.proximal_point_multiclass import ProximalPointRows
from spom.solvers.linear.scores import table_loss

# Tables and derivatives of all rows with more entries than this, an eighth of a gigabyte, are not stored in full.
LARGE = 1 << 24
# The minimum room per row for derivatives. Those above 2 / KEPT are kept, and a row has fewer than KEPT of them.
KEPT = 64
# The number of table entries that are processed at a time.
PART = 1 << 20


class Pairs(NamedTuple):
    """Pairs by feature: those of feature j are at places indptr[j] to indptr[j + 1] - 1; the intercept is separate."""

    indptr: Annotated[Ints, "int64[::1]"]
    classes: Annotated[Any, "int32[::1]"]
    u: Annotated[Floats, "float64[::1]"]
    bias: Annotated[Floats, "float64[::1]"]
    inverse: Annotated[Floats, "float64[::1]"]
    l1: Annotated[float, "float64"]
    intercept: Annotated[bool, "boolean"]


class Slopes(NamedTuple):
    """Derivatives of the rows: `values` at the classes `places` (up to the first -1), rest * prior at all others."""

    places: Annotated[Any, "int32[:, ::1]"]
    values: Annotated[Floats, "float64[:, ::1]"]
    rest: Annotated[Floats, "float64[::1]"]
    prior: Annotated[Floats, "float64[::1]"]
    bound: Annotated[float, "float64"]
    smoothness: Annotated[float, "float64"]


@kernel("void(Slopes, int64, float64[::1])")
def read_slopes(slopes: Slopes, i: int, out: Floats) -> None:
    """Write the derivatives of row i to `out`."""
    rest = slopes.rest[i]
    for c in range(out.size):
        out[c] = rest * slopes.prior[c]
    for s in range(slopes.places.shape[1]):
        c = slopes.places[i, s]
        if c < 0:
            break
        out[c] = slopes.values[i, s]


@kernel("void(Slopes, int64, float64[::1])")
def write_slopes(slopes: Slopes, i: int, new: Floats) -> None:
    """Store the derivatives of row i above the bound; `new` becomes the stored ones, with the rest approximated."""
    count = 0
    rest = mass = 0.0
    for c in range(new.size):
        if abs(new[c]) > slopes.bound:
            slopes.places[i, count] = c
            slopes.values[i, count] = new[c]
            count += 1
        else:
            rest += new[c]
            mass += slopes.prior[c]
    if count < slopes.places.shape[1]:
        slopes.places[i, count] = -1
    slopes.rest[i] = rest / mass if mass > 0.0 else 0.0
    if count < new.size:
        read_slopes(slopes, i, new)


@kernel("float64(Examples, RowLoss, Pairs, Slopes)")
def pairs_dual_pass(rows: Examples, loss: RowLoss, pairs: Pairs, slopes: Slopes) -> float:
    """Take one step per row of data, and return the sum of the losses met."""
    total = 0.0
    indptr, indices, data, order = rows.indptr, rows.indices, rows.data, rows.order
    starts, classes, u, inverse, l1 = pairs.indptr, pairs.classes, pairs.u, pairs.inverse, pairs.l1
    size = pairs.bias.size
    scores, new, old = np.empty(size), np.empty(size), np.empty(size)
    first = inverse[inverse.size - 1] if pairs.intercept else 0.0
    for place in range(order.size):
        i = order[place]
        look_ahead(rows, place)
        q = first
        for c in range(size):
            scores[c] = pairs.bias[c] * first
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            scaled = data[k] * inverse[j]
            some = 0.0
            for m in range(starts[j], starts[j + 1]):
                z = u[m] - min(max(u[m], -l1), l1)
                scores[classes[m]] += scaled * z
                some += abs(z)
            if some > 0.0:
                q += data[k] * scaled
        share = rows.weight[i] / rows.y.size
        q *= share
        label = int(rows.y[i])
        total += rows.weight[i] * loss.row(label, scores, loss.reals, new)
        read_slopes(slopes, i, old)
        damped = q / (1.0 + q * slopes.smoothness)
        for c in range(size):
            scores[c] -= damped * (new[c] - old[c])
        loss.row(label, scores, loss.reals, new)
        write_slopes(slopes, i, new)
        for c in range(size):
            old[c] = share * (new[c] - old[c])
        for k in range(indptr[i], indptr[i + 1]):
            for m in range(starts[indices[k]], starts[indices[k] + 1]):
                u[m] -= data[k] * old[classes[m]]
        if pairs.intercept:
            for c in range(size):
                pairs.bias[c] -= old[c]
    return total


class Columns(NamedTuple):
    """X by columns, the weights of its rows over their number, their classes, and theta and the metric."""

    indptr: Annotated[Ints, "int64[::1]"]
    rows: Annotated[Any, "int32[::1]"]
    data: Annotated[Floats, "float64[::1]"]
    y: Annotated[Floats, "Array(float64, 1, 'C', readonly=True)"]
    share: Annotated[Floats, "float64[::1]"]
    places: Annotated[Ints, "int64[::1]"]
    classes: Annotated[Any, "int32[::1]"]
    theta: Annotated[Floats, "float64[::1]"]
    metric: Annotated[Floats, "float64[::1]"]


@kernel("int64(Columns, Slopes, float64, int64[::1], int32[::1], float64[::1])")
def find_pairs(x: Columns, slopes: Slopes, l1: float, ends: Ints, classes: Any, u: Floats) -> int:
    """Find the pairs of the features from ends[0] on, `ends.size` - 1 of them, and their u; return their number.

    `ends` is set to the ends of the pairs of each feature.
    """
    size, low, count = slopes.prior.size, ends[0], 0
    row, seen = np.empty(size), np.zeros(size, np.bool_)
    for j in range(low, low + ends.size - 1):
        rest = 0.0
        row[:] = 0.0
        for k in range(x.indptr[j], x.indptr[j + 1]):
            i = x.rows[k]
            part = x.data[k] * x.share[i]
            rest += part * slopes.rest[i]
            for s in range(slopes.places.shape[1]):
                c = slopes.places[i, s]
                if c < 0:
                    break
                # Kept derivatives replace the share of the rest at their class.
                row[c] -= part * (slopes.values[i, s] - slopes.rest[i] * slopes.prior[c])
            seen[int(x.y[i])] = True
        for k in range(x.places[j], x.places[j + 1]):
            row[x.classes[k]] += x.metric[j] * x.theta[k]
        for c in range(size):
            row[c] -= rest * slopes.prior[c]
            if seen[c] or abs(row[c]) > l1:
                classes[count], u[count] = c, row[c]
                count += 1
            seen[c] = False
        ends[j - low + 1] = count
    return count


def by_pairs(problem: Problem, penalty: RowPenalty, rows: Rows) -> bool:
    """Return whether to use this engine: an l1 penalty, sparse rows, and a large table."""
    large = problem.features * problem.shape[1] > LARGE
    return large and penalty.kind == ENTRIES and penalty.strength > 0.0 and not rows.dense


@kernel("void(Slopes, float64[::1], float64[::1])")
def sum_slopes(slopes: Slopes, share: Floats, out: Floats) -> None:
    """out = -sum_i share_i a_i, which is v of the intercept."""
    row = np.empty(out.size)
    out[:] = 0.0
    for i in range(share.size):
        read_slopes(slopes, i, row)
        for c in range(out.size):
            out[c] -= share[i] * row[c]


class ProximalPointPairs(ProximalPointRows):
    """The engine of `step="auto"` for smooth losses of several scores, an l1 penalty and large tables."""

    name = "proximal-point, pairs"
    anchor: Any

    def __init__(self, problem: Problem, penalty: RowPenalty, rows: Rows) -> None:
        n, k = len(rows), problem.shape[1]
        # Derivatives of probabilities sum to at most 2 in absolute value: fewer than `width` are above 2 / width.
        few = n * k > LARGE and isinstance(problem.loss, MulticlassLogistic)
        self.width = min(k, max(KEPT, LARGE // n)) if few else k
        self.bound = 2.0 / self.width if self.width < k else -1.0
        counts = np.bincount(rows.y.astype(np.int64), weights=rows.weight, minlength=k) + 1.0
        self.prior = counts / counts.sum()
        self._columns: Any = None
        super().__init__(problem, penalty)

    def _make_weights(self) -> None:
        self.anchor = sparse.csr_matrix(self.shape)

    def _make_slopes(self, n: int) -> None:
        self.slopes, self.rest = np.zeros((n, self.width)), np.zeros(n)
        self.places = np.full((n, self.width), -1, dtype=np.int32)

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Make one pass over the rows in `order`; return the sum of the losses."""
        metric, inverse = self._metric(rows)
        slopes = Slopes(self.places, self.slopes, self.rest, self.prior, self.bound, self.smoothness)
        pairs = self._pairs(rows, slopes, metric, inverse)
        total = float(pairs_dual_pass(rows.examples(order), self.row_loss, pairs, slopes))
        self._judge(rows, self._weights(pairs), steps.size)
        return total

    def _pairs(self, rows: Rows, slopes: Slopes, metric: Floats, inverse: Floats) -> Pairs:
        """Return the pairs of a pass, and their u."""
        if self._columns is None:
            by_column = rows.matrix().tocsc()
            self._columns = by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32), by_column.data
        share, size = rows.weight / len(rows), self.prior.size
        table, y = self.anchor, rows.examples(self._sample).y
        theta = table.indptr.astype(np.int64), table.indices, table.data
        x = Columns._make((*self._columns, y, share, *theta, metric))
        part = max(1, PART // size)
        classes, u = np.empty(part * size, dtype=np.int32), np.empty(part * size)
        found: list[tuple[Any, Any, Any]] = []
        for low in range(0, self.features, part):
            ends = np.full(min(part, self.features - low) + 1, low, dtype=np.int64)
            count = find_pairs(x, slopes, self.row_penalty.strength, ends, classes, u)
            found.append((np.diff(ends[1:], prepend=0), classes[:count].copy(), u[:count].copy()))
        lengths, kept, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        bias = np.zeros(size)
        if self.intercept:
            sum_slopes(slopes, share, bias)
            bias += metric[-1] * self.anchor[-1].toarray()[0]
        starts = np.append(0, np.cumsum(lengths))
        return Pairs(starts, kept, values, bias, inverse, self.row_penalty.strength, self.intercept)

    def _weights(self, pairs: Pairs) -> Any:
        """Return the primal point: the weights of the pairs that are not zero."""
        cut = pairs.l1
        weights = pairs.u - np.clip(pairs.u, -cut, cut)
        weights *= np.repeat(pairs.inverse[:-1], np.diff(pairs.indptr))
        indptr = pairs.indptr
        if self.intercept:
            weights = np.append(weights, pairs.bias * pairs.inverse[-1])
            indptr = np.append(indptr, indptr[-1] + pairs.bias.size)
        classes = np.append(pairs.classes, np.arange(weights.size - pairs.u.size, dtype=np.int32))
        found = sparse.csr_matrix((weights, classes, indptr), self.shape)
        found.eliminate_zeros()
        return found

    def _value(self, rows: Rows, order: Ints, point: Any) -> float:
        omega = float(self.penalty.value(point[: self.features].data))
        return table_loss(rows, order, point, self.intercept, self.loss) + omega

    # --- what a state holds --------------------------------------------------------------------------

    def theta(self) -> Any:
        """Return the point of the last pass that was kept, as a CSR matrix."""
        return self.anchor

    def _kept(self) -> Arrays:
        return {"places": self.places.copy(), "rest": self.rest.copy()}

    def _take(self, theta: Any, internal: Arrays) -> None:
        table = sparse.csr_matrix(theta)
        self.anchor = sparse.csr_matrix((table.data, table.indices.astype(np.int32), table.indptr), self.shape)
        if "slopes" in internal:
            self.places = check_range(internal["places"].copy(), -1, self.prior.size, "places")
            self.rest = internal["rest"].copy()
