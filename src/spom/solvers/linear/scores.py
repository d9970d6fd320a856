"""Scores of rows, and the mean loss of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, is_sparse
from spom.core.jit import kernel
from spom.solvers.linear.data import Examples, Rows
from spom.solvers.linear.problem import Loss, RowLoss

# The number of scores that are computed at a time.
MANY_SCORES = 1 << 22


@kernel("float64(Examples, int64, float64[::1], boolean)", fastmath={"reassoc"})
def row_score(rows: Examples, i: int, theta: Floats, intercept: bool) -> float:
    """Return the score of row i; an intercept is theta's last entry."""
    low, count = rows.indptr[i], rows.indptr[i + 1] - rows.indptr[i]
    start = 0 if rows.dense else low
    a = theta[theta.size - 1] if intercept else 0.0
    for p in range(count):
        a += rows.data[low + p] * theta[rows.indices[start + p]]
    return float(a)


@kernel("void(Examples, float64[::1], boolean, float64[::1])")
def row_scores(rows: Examples, theta: Floats, intercept: bool, out: Floats) -> None:
    """Compute the scores of the rows."""
    for place in range(rows.order.size):
        out[place] = row_score(rows, rows.order[place], theta, intercept)


@kernel("float64(Examples, Loss, float64[::1], boolean)")
def loss_of_rows(rows: Examples, loss: Loss, theta: Floats, intercept: bool) -> float:
    """Return the weighted mean loss of the rows: at few rows much faster than `mean_loss`."""
    total = mass = 0.0
    for i in rows.order:
        total += rows.weight[i] * loss.value(rows.y[i], row_score(rows, i, theta, intercept), loss.reals)
        mass += rows.weight[i]
    return total / mass if mass > 0.0 else 0.0


@kernel("void(Examples, int64, float64[:, ::1], float64[::1])")
def table_row(rows: Examples, i: int, theta: Floats, out: Floats) -> None:
    """Compute the scores of row i; the last row of theta is the intercept, or zero."""
    low, high = rows.indptr[i], rows.indptr[i + 1]
    shift, size = low if rows.dense else 0, out.size
    for c in range(size):
        out[c] = theta[theta.shape[0] - 1, c]
    for k in range(low, high):
        j, x = rows.indices[k - shift], rows.data[k]
        for c in range(size):
            out[c] += x * theta[j, c]


@kernel("float64(Examples, RowLoss, float64[:, ::1])")
def loss_of_table(rows: Examples, loss: RowLoss, theta: Floats) -> float:
    """Return the weighted mean loss of the rows for several scores: at few rows much faster than `table_loss`."""
    scores = np.empty(theta.shape[1])
    total = mass = 0.0
    for i in rows.order:
        table_row(rows, i, theta, scores)
        total += rows.weight[i] * loss.row(int(rows.y[i]), scores, loss.reals, scores)
        mass += rows.weight[i]
    return total / max(mass, 1e-300)


def mean_loss(rows: Rows, order: Ints, theta: Floats, intercept: bool, loss: Any) -> float:
    """Return the weighted mean loss of the rows in `order`."""
    weight = rows.weight[order]
    mass = float(weight.sum())
    if mass == 0.0:
        return 0.0
    scores = np.empty(order.size)
    row_scores(rows.examples(order), theta, intercept, scores)
    return float(weight @ loss.value(rows.y[order], scores)) / mass


def table_scores(X: Any, theta: Any, intercept: bool) -> Floats:
    """Return X theta, one column per class; the intercepts are theta's last row. Either may be sparse."""
    d = X.shape[1]
    scores = X @ theta[:d]
    if is_sparse(scores):
        scores = scores.toarray()
    if not intercept:
        return np.asarray(scores)
    return np.asarray(scores + (theta[d].toarray()[0] if is_sparse(theta) else theta[d]))


def table_loss(rows: Rows, order: Ints, theta: Any, intercept: bool, loss: Any) -> float:
    """Return the weighted mean loss of the rows in `order`, for a table of several scores."""
    X, total = rows.matrix(), 0.0
    part = max(1, MANY_SCORES // theta.shape[1])
    for low in range(0, order.size, part):
        some = order[low : low + part]
        scores = np.ascontiguousarray(table_scores(X[some], theta, intercept))
        total += float(rows.weight[some] @ loss.value(rows.y[some].astype(np.int64), scores))
    return total / max(float(rows.weight[order].sum()), 1e-300)
