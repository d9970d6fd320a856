r"""Mirror descent with the p-norm map, for one score per example: keeps the dual vector and the sum in its q-norm.

With v the dual vector and S = sum of abs(v_j)^q, q = p / (p - 1), the weights are

    w_j = sign(v_j) abs(v_j)^(q-1) S^((2-q)/q),

so a step on a sparse row changes a few v_j and adds the change of their powers to S, in time linear in its non-zeros.
With l1 the step thresholds all of v (SMIDAS), which changes S everywhere: a round then takes time linear in v's length.
"""

from __future__ import annotations

import math

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import kernel
from spom.solvers.linear.data import Examples, Rows
from spom.solvers.linear.problem import Loss, Problem, Rounds, compiled_loss

# S is recomputed after this many rounds, before its rounding errors accumulate.
FRESH = 1000
# Columns of the table: v_j and abs(v_j)^(q-1). The separate numbers are S and the intercept.
DUAL, POWER = range(2)
SUM, INTERCEPT = range(2)


@kernel("float64(float64[:, ::1], float64)")
def power_sum(table: Floats, q: float) -> float:
    """Return the sum of abs(v)^q, and write abs(v)^(q-1) to its column."""
    total = 0.0
    for j in range(table.shape[0]):
        size = abs(table[j, DUAL])
        table[j, POWER] = size ** (q - 1.0) if size > 0.0 else 0.0
        total += table[j, POWER] * size
    return total


@kernel("float64(Examples, Rounds, Loss, float64[:, ::1], float64[::1], float64, float64)")
def p_norm_rounds(
    rows: Examples, rounds: Rounds, loss: Loss, table: Floats, numbers: Floats, q: float, l1: float
) -> float:
    """Run one round per row, and return the sum of the losses before each step."""
    total = 0.0
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    for t in range(rows.order.size):
        i = rows.order[t]
        shift = indptr[i] if rows.dense else 0
        score = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            score += data[k] * math.copysign(table[j, POWER], table[j, DUAL])
        score *= numbers[SUM] ** ((2.0 - q) / q) if numbers[SUM] > 0.0 else 0.0
        if rounds.intercept:
            score += numbers[INTERCEPT]
        total += rows.weight[i] * loss.value(rows.y[i], score, loss.reals)
        change = rounds.steps[t] * rows.weight[i] * loss.derivative(rows.y[i], score, loss.reals)
        if rounds.intercept:
            numbers[INTERCEPT] -= change
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            numbers[SUM] -= table[j, POWER] * abs(table[j, DUAL])
            table[j, DUAL] -= change * data[k]
            if l1 == 0.0:
                size = abs(table[j, DUAL])
                table[j, POWER] = size ** (q - 1.0) if size > 0.0 else 0.0
                numbers[SUM] += table[j, POWER] * size
        if l1 > 0.0:
            cut = rounds.steps[t] * l1
            for j in range(table.shape[0]):
                v = table[j, DUAL]
                table[j, DUAL] = v - min(max(v, -cut), cut)
        if l1 > 0.0 or t % FRESH == FRESH - 1:
            numbers[SUM] = power_sum(table, q)
    return total


class PNormVector:
    """The engine: the dual vector with its powers, their sum, and the intercept, which uses the Euclidean map."""

    name = "mirror descent, p-norm"

    def __init__(self, problem: Problem, l1: float) -> None:
        self.problem, self.l1, self.loss = problem, l1, compiled_loss(problem.loss)
        p = float(problem.mirror.exponent(problem.features))
        self.q = p / (p - 1.0)
        self.table = np.zeros((problem.features, 2))
        self.numbers = np.zeros(2)

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        self.numbers[SUM] = power_sum(self.table, self.q)
        state = (self.table, self.numbers, self.q, self.l1)
        return float(p_norm_rounds(rows.examples(order), self.problem.rounds(steps), self.loss, *state))

    def theta(self) -> Floats:
        """Return the weights: the map's primal point of the dual vector."""
        w: Floats = self.problem.mirror.to_primal(np.ascontiguousarray(self.table[:, DUAL]))
        return np.append(w, self.numbers[INTERCEPT]) if self.problem.intercept else w

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {"dual": self.table[:, DUAL].copy()}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        w = np.ascontiguousarray(theta[: self.problem.features])
        self.table[:, DUAL] = internal["dual"] if "dual" in internal else self.problem.mirror.to_dual(w)
        if self.problem.intercept:
            self.numbers[INTERCEPT] = theta[-1]
