"""Scores of rows, and the mean loss of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, is_sparse
from spom.core.jit import kernel
from spom.solvers.linear.data import Examples, Rows

# The number of scores that are computed at a time.
MANY_SCORES = 1 << 22


@kernel("void(Examples, float64[::1], boolean, float64[::1])", fastmath={"reassoc"})
def row_scores(rows: Examples, theta: Floats, intercept: bool, out: Floats) -> None:
    """Compute the scores of the rows; an intercept is theta's last entry."""
    indptr, indices, data, order = rows.indptr, rows.indices, rows.data, rows.order
    for place in range(order.size):
        i = order[place]
        low, count = indptr[i], indptr[i + 1] - indptr[i]
        start = 0 if rows.dense else low
        a = theta[theta.size - 1] if intercept else 0.0
        for p in range(count):
            a += data[low + p] * theta[indices[start + p]]
        out[place] = a


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
