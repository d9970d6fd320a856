r"""Mirror descent with the p-norm map, one score an example: the dual vector is kept, and the sum behind its q-norm.

With v the dual vector and S = sum of abs(v_j)^q, q = p / (p - 1), the weights are

    w_j = sign(v_j) abs(v_j)^(q-1) S^((2-q)/q),

so that a step on a sparse row changes a few v_j and adds the change of their powers to S: the row costs what it has.
With l1 the step thresholds all of v (SMIDAS), which changes S everywhere: then a round costs what v is long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.linear.data import ROWS, Rows
from spom.solvers.linear.scores import LOSS, loss_arguments

# S is summed up again after this many rounds, before its rounding errors add up.
FRESH = 1000


@kernel("float64(float64[:, ::1], float64)")
def power_sum(table: Floats, q: float) -> float:
    """Sum of abs(v)^q, and abs(v)^(q-1) into the second column."""
    total = 0.0
    for j in range(table.shape[0]):
        size = abs(table[j, 0])
        table[j, 1] = size ** (q - 1.0) if size > 0.0 else 0.0
        total += table[j, 1] * size
    return total


@kernel(f"float64({ROWS}, float64[::1], float64[:, ::1], float64[::1], float64, float64, boolean, {LOSS})")
def p_norm_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    steps: Floats,
    table: Floats,
    numbers: Floats,
    q: float,
    l1: float,
    intercept: bool,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """One round for each row; row j of the table is v_j and abs(v_j)^(q-1), `numbers` are S and the intercept."""
    total = 0.0
    for t in range(order.size):
        i = order[t]
        shift = indptr[i] if dense else 0
        score = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            score += data[k] * math.copysign(table[j, 1], table[j, 0])
        score *= numbers[0] ** ((2.0 - q) / q) if numbers[0] > 0.0 else 0.0
        if intercept:
            score += numbers[1]
        total += weight[i] * value(y[i], score, reals)
        change = steps[t] * weight[i] * derivative(y[i], score, reals)
        if intercept:
            numbers[1] -= change
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            numbers[0] -= table[j, 1] * abs(table[j, 0])
            table[j, 0] -= change * data[k]
            if l1 == 0.0:
                size = abs(table[j, 0])
                table[j, 1] = size ** (q - 1.0) if size > 0.0 else 0.0
                numbers[0] += table[j, 1] * size
        if l1 > 0.0:
            cut = steps[t] * l1
            for j in range(table.shape[0]):
                v = table[j, 0]
                table[j, 0] = v - min(max(v, -cut), cut)
        if l1 > 0.0 or t % FRESH == FRESH - 1:
            numbers[0] = power_sum(table, q)
    return total


class PNormVector:
    """The engine: the dual vector with its powers, their sum, and the intercept, which has the Euclidean map."""

    name = "mirror descent, p-norm"
    batch = 1

    def __init__(self, loss: Any, mirror: Any, l1: float, features: int, intercept: bool) -> None:
        self.loss, self.mirror, self.l1 = loss_arguments(loss), mirror, l1
        self.features, self.intercept = features, intercept
        p = float(mirror.exponent(features))
        self.q = p / (p - 1.0)
        self.table = np.zeros((features, 2))
        self.numbers = np.zeros(2)
        self.rounds = 0

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        self.numbers[0] = power_sum(self.table, self.q)
        rest = (steps, self.table, self.numbers, self.q, self.l1, self.intercept, *self.loss)
        total = float(p_norm_rounds(*(*rows.arguments(order), *rest)))
        self.rounds += steps.size
        return total

    def theta(self) -> Floats:
        """The weights: the map's primal point of the dual vector."""
        w: Floats = self.mirror.to_primal(np.ascontiguousarray(self.table[:, 0]))
        return np.append(w, self.numbers[1]) if self.intercept else w

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to go on."""
        return {"dual": self.table[:, 0].copy(), "rounds": np.array(self.rounds)}

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a saved run, or from a point alone."""
        w = np.ascontiguousarray(theta[: self.features])
        self.table[:, 0] = internal["dual"] if "dual" in internal else self.mirror.to_dual(w)
        if self.intercept:
            self.numbers[1] = theta[-1]
        if "rounds" in internal:
            self.rounds = int(internal["rounds"])
