r"""Rounds that update all of theta: any penalty, any projection, any mirror map, one score or many.

One round: the gradient g of a batch; theta <- theta - eta g; J proximal steps; a projection. With a penalty and
a projection that are compiled and the Euclidean map the whole loop is compiled; otherwise each round is a few
calls. Adaptive steps divide by sqrt(sum of squared gradients), one sum for each coordinate where the penalty is
l1 and squared l2, so that the prox in that metric is exact, and a single one for all where it ties coordinates.
The parameter-free step multiplies by the largest distance from the start so far: distance over gradients
(Ivgi, Hinder and Carmon 2023).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import DERIVATIVE_ROW, PROX, kernel
from spom.losses import Logistic, MulticlassLogistic
from spom.solvers.linear.data import ROWS
from spom.solvers.linear.scores import LOSS, loss_arguments
from spom.solvers.pointers import pointer

# Losses of one score and of many, of which one is in use: pointers, and the numbers of the one in use.
LOSSES = f"{LOSS}, FunctionType({DERIVATIVE_ROW})"
PROX_POINTER = f"FunctionType({PROX}), float64[::1], int64[::1]"


def both_losses(loss: Any) -> tuple[Any, ...]:
    """The pointers that `batch_gradient` takes: the loss in use, and a stand-in of the other kind."""
    if loss.target == "class":
        row, reals = loss.compiled()
        value, derivative, _ = loss_arguments(Logistic())
        return value, derivative, reals, pointer(row)
    row, _ = MulticlassLogistic().compiled()
    return *loss_arguments(loss), pointer(row)


@kernel(f"float64({ROWS}, int64, int64, float64[:, ::1], float64[:, ::1], boolean, {LOSSES})")
def batch_gradient(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    first: int,
    past: int,
    theta: Floats,
    grad: Floats,
    intercept: bool,
    value: Any,
    derivative: Any,
    reals: Floats,
    row: Any,
) -> float:
    """`grad` becomes the mean gradient of rows order[first:past] at theta; returns the sum of their losses."""
    total = 0.0
    columns = theta.shape[1]
    bias = theta.shape[0] - 1
    scores = np.empty(columns)
    slopes = np.empty(columns)
    grad[:, :] = 0.0
    for place in range(first, past):
        i = order[place]
        shift = indptr[i] if dense else 0
        for c in range(columns):
            scores[c] = theta[bias, c] if intercept else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            x = data[k]
            for c in range(columns):
                scores[c] += x * theta[j, c]
        if columns == 1:
            total += weight[i] * value(y[i], scores[0], reals)
            slopes[0] = derivative(y[i], scores[0], reals)
        else:
            total += weight[i] * row(int(y[i]), scores, reals, slopes)
        share = weight[i] / (past - first)
        for c in range(columns):
            slopes[c] *= share
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            x = data[k]
            for c in range(columns):
                grad[j, c] += x * slopes[c]
        if intercept:
            for c in range(columns):
                grad[bias, c] += slopes[c]
    return total


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64, int64, float64, float64)")
def single_step(
    theta: Floats, grad: Floats, start: Floats, sums: Floats, eta: float, mode: int, delta: float, norm: float
) -> float:
    """theta <- theta - s grad with one s for all, which is returned; sums: squared gradients, largest distance."""
    step = eta
    if mode != 0:
        squares = 0.0
        distance = 0.0
        for j in range(theta.shape[0]):
            for c in range(theta.shape[1]):
                squares += grad[j, c] * grad[j, c]
                distance += (theta[j, c] - start[j, c]) ** 2
        sums[0] += squares
        if sums[1] == 0.0:
            sums[1] = delta / max(norm, 1e-300)
        sums[1] = max(sums[1], math.sqrt(distance))
        root = math.sqrt(sums[0])
        if root == 0.0:
            return 0.0
        step = eta / (delta + root) if mode == 1 else eta * sums[1] / root
    for j in range(theta.shape[0]):
        for c in range(theta.shape[1]):
            theta[j, c] -= step * grad[j, c]
    return step


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, float64, int64, float64, "
    "float64, float64)"
)
def diagonal_step(
    theta: Floats,
    grad: Floats,
    squares: Floats,
    largest: Floats,
    features: int,
    eta: float,
    mode: int,
    delta: float,
    l1: float,
    l2: float,
) -> None:
    """The step and the exact prox of l1 and squared l2 in the metric of each coordinate's squared gradients."""
    for j in range(theta.shape[0]):
        for c in range(theta.shape[1]):
            g = grad[j, c]
            w = theta[j, c]
            if g != 0.0:
                squares[j, c] += g * g
                largest[j, c] = max(largest[j, c], abs(w))
            root = math.sqrt(squares[j, c])
            if root == 0.0:
                continue
            step = eta / (delta + root) if mode == 1 else eta * largest[j, c] / root
            w -= step * g
            if j < features:
                size = abs(w) - step * l1
                w = 0.0 if size <= 0.0 else math.copysign(size, w) / (1.0 + step * l2)
            theta[j, c] = w


@kernel(
    "void(Array(int64, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True), "
    "Array(float64, 1, 'C', readonly=True), boolean, Array(int64, 1, 'C', readonly=True), int64, int64, "
    "float64[:, ::1], float64[:, ::1], float64, boolean)"
)
def first_reach(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    order: Ints,
    first: int,
    past: int,
    grad: Floats,
    largest: Floats,
    delta: float,
    intercept: bool,
) -> None:
    """A coordinate met for the first time may move its part of the score by delta."""
    columns = grad.shape[1]
    bias = grad.shape[0] - 1
    for place in range(first, past):
        i = order[place]
        shift = indptr[i] if dense else 0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            for c in range(columns):
                if largest[j, c] == 0.0 and grad[j, c] != 0.0 and data[k] != 0.0:
                    largest[j, c] = delta / abs(data[k])
    if intercept:
        for c in range(columns):
            if largest[bias, c] == 0.0 and grad[bias, c] != 0.0:
                largest[bias, c] = delta


@kernel(
    f"float64({ROWS}, int64, float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, :, ::1], "
    f"float64[::1], int64, float64, boolean, boolean, float64[::1], {PROX_POINTER}, {PROX_POINTER}, {LOSSES})"
)
def eager_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    batch: int,
    steps: Floats,
    theta: Floats,
    start: Floats,
    mean: Floats,
    memory: Floats,
    sums: Floats,
    mode: int,
    delta: float,
    intercept: bool,
    averages: bool,
    norms: Floats,
    prox: Any,
    prox_reals: Floats,
    prox_ints: Ints,
    project: Any,
    project_reals: Floats,
    project_ints: Ints,
    value: Any,
    derivative: Any,
    reals: Floats,
    row: Any,
) -> float:
    """Rounds of `batch` rows each; `memory` has squared gradients and largest values, or nothing for one step.

    `norms` is empty, or has the l1 and squared l2 strengths for `diagonal_step`.
    """
    total = 0.0
    grad = np.zeros(theta.shape)
    features = theta.shape[0] - 1
    flat = theta[:features].reshape(-1)
    for t in range(steps.size):
        first, past = t * batch, min((t + 1) * batch, order.size)
        if averages:
            mean += theta
        total += batch_gradient(
            indptr, indices, data, dense, y, weight, order, first, past, theta, grad, intercept, value, derivative,
            reals, row,
        )  # fmt: skip
        if norms.size == 2:
            if mode == 2:
                first_reach(indptr, indices, data, dense, order, first, past, grad, memory[1], delta, intercept)
            diagonal_step(theta, grad, memory[0], memory[1], features, steps[t], mode, delta, norms[0], norms[1])
        else:
            i = order[first]
            size = 1.0
            for k in range(indptr[i], indptr[i + 1]):
                size += data[k] * data[k]
            step = single_step(theta, grad, start, sums, steps[t], mode, delta, math.sqrt(size))
            prox(flat, step, prox_reals, prox_ints, flat)
        project(flat, 1.0, project_reals, project_ints, flat)
    return total
