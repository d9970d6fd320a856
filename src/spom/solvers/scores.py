"""Compiled pieces that all online loops share: the loss of one score by pointer, and the mean loss of a model.

A call through a typed function pointer costs nothing that can be measured beside a row of a few entries, so
there is one loop for all losses.
"""

from __future__ import annotations

from typing import Any

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE, kernel
from spom.solvers.pointers import pointer
from spom.solvers.rows import ROWS, Rows

# A loss of one score in a loop: typed function pointers to its value and its derivative, and its numbers.
_POINTER = f"FunctionType({DERIVATIVE})"
LOSS = f"{_POINTER}, {_POINTER}, float64[::1]"


def loss_arguments(loss: Any) -> tuple[Any, ...]:
    """(value, derivative, reals) of a loss of one score; see `LOSS`."""
    value, derivative, reals = loss.compiled()
    return pointer(value), pointer(derivative), reals


@kernel(f"float64({ROWS}, float64[::1], boolean, {LOSS})", fastmath={"reassoc"})
def total_loss(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    theta: Floats,
    intercept: bool,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """The sum of weight times loss over the rows in `order`; with an intercept it is theta's last entry."""
    total = 0.0
    for place in range(order.size):
        i = order[place]
        low, high = indptr[i], indptr[i + 1]
        shift = low if dense else 0
        a = theta[theta.size - 1] if intercept else 0.0
        for k in range(low, high):
            a += data[k] * theta[indices[k - shift]]
        total += weight[i] * value(y[i], a, reals)
    return total


def mean_loss(rows: Rows, order: Ints, theta: Floats, intercept: bool, loss: tuple[Any, ...]) -> float:
    """The weighted mean loss of the rows in `order`."""
    mass = float(rows.weight[order].sum())
    arguments = (*rows.arguments(order), theta, intercept, *loss)
    return float(total_loss(*arguments)) / mass if mass > 0 else 0.0
