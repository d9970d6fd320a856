"""Compiled pieces that all online loops share: the loss of one score by pointer, and the mean loss of a model.

A call through a typed function pointer costs nothing that can be measured beside a row of a few entries, so
there is one loop for all losses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE, kernel
from spom.solvers.linear.data import ROWS, Rows
from spom.solvers.pointers import pointer

# A loss of one score in a loop: typed function pointers to its value and its derivative, and its numbers.
_POINTER = f"FunctionType({DERIVATIVE})"
LOSS = f"{_POINTER}, {_POINTER}, float64[::1]"


def loss_arguments(loss: Any) -> tuple[Any, ...]:
    """(value, derivative, reals) of a loss of one score; see `LOSS`."""
    value, derivative, reals = loss.compiled()
    return pointer(value), pointer(derivative), reals


@kernel(f"void({ROWS}, float64[::1], boolean, float64[::1])", fastmath={"reassoc"})
def row_scores(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    theta: Floats,
    intercept: bool,
    out: Floats,
) -> None:
    """The scores of the rows in `order`; with an intercept it is theta's last entry."""
    for place in range(order.size):
        i = order[place]
        low, count = indptr[i], indptr[i + 1] - indptr[i]
        start = 0 if dense else low
        a = theta[theta.size - 1] if intercept else 0.0
        for p in range(count):
            a += data[low + p] * theta[indices[start + p]]
        out[place] = a


def mean_loss(rows: Rows, order: Ints, theta: Floats, intercept: bool, loss: Any) -> float:
    """The weighted mean loss of the rows in `order`."""
    weight = rows.weight[order]
    mass = float(weight.sum())
    if mass == 0.0:
        return 0.0
    scores = np.empty(order.size)
    row_scores(*(*rows.arguments(order), theta, intercept, scores))
    return float(weight @ loss.value(rows.y[order], scores)) / mass
