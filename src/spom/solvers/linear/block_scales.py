r"""Penalties that look at block norms alone, on sparse rows: each block is a scale times a vector.

The prox of such a penalty (sparse MKL, the group lasso, lq and elastic-net MKL) multiplies each block by a number that
depends on the norms of all blocks (Prop. 1 of SPOM). So w_m = a_m v_m is kept with its norm: a row touches the
coordinates it has, the prox touches the M norms and scales, and nothing else moves. A block that the prox puts to
zero gets a new stamp, and what was written under an old one counts as zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.penalties import Penalty
from spom.penalties.groups import Groups
from spom.solvers.linear.data import ROWS, Rows
from spom.solvers.linear.lazy_vector import FIRST
from spom.solvers.linear.scores import LOSS, loss_arguments
from spom.solvers.pointers import pointer
from spom.solvers.steps import AdaGrad, Step

# Rows of the table of blocks: scale, squared norm, its largest value since it was last summed up.
SCALE, SQUARED, PEAK = range(3)


@kernel("void(float64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, float64[:, ::1])")
def renew(v: Floats, marks: Ints, stamps: Ints, ptr: Ints, members: Ints, m: int, table: Floats) -> None:
    """Put the scale of a block into its vector, and sum its squared norm up again."""
    total = 0.0
    for e in range(ptr[m], ptr[m + 1]):
        j = members[e]
        v[j] = v[j] * table[0, m] if marks[j] == stamps[m] else 0.0
        marks[j] = stamps[m]
        total += v[j] * v[j]
    table[0, m] = 1.0
    table[1, m] = total
    table[2, m] = total


@kernel(
    f"float64({ROWS}, float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    f"float64[:, ::1], float64[::1], int64, float64, boolean, FunctionType({PROX}), float64[::1], int64[::1], {LOSS})"
)
def block_rounds(
    indptr: Ints,
    indices: Any,
    data: Floats,
    dense: bool,
    y: Floats,
    weight: Floats,
    order: Ints,
    steps: Floats,
    v: Floats,
    marks: Ints,
    blocks: Ints,
    stamps: Ints,
    ptr: Ints,
    members: Ints,
    table: Floats,
    sums: Floats,
    mode: int,
    delta: float,
    intercept: bool,
    prox: Any,
    prox_reals: Floats,
    prox_ints: Ints,
    value: Any,
    derivative: Any,
    reals: Floats,
) -> float:
    """One round for each row; `sums` has squared gradients, largest distance, and the intercept."""
    total = 0.0
    count = table.shape[1] - 1
    norms = np.empty(count)
    dots = np.zeros(count + 1)
    squares = np.zeros(count + 1)
    for t in range(order.size):
        i = order[t]
        shift = indptr[i] if dense else 0
        score = sums[2] if intercept else 0.0
        size = 1.0 if intercept else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            m = blocks[j]
            if marks[j] == stamps[m]:
                score += data[k] * table[0, m] * v[j]
                dots[m] += data[k] * table[0, m] * v[j]
            squares[m] += data[k] * data[k]
            size += data[k] * data[k]
        total += weight[i] * value(y[i], score, reals)
        s = weight[i] * derivative(y[i], score, reals)
        eta = steps[t]
        if mode != 0:
            distance = sums[2] * sums[2] if intercept else 0.0
            for m in range(count + 1):
                distance += table[1, m]
            sums[0] += s * s * size
            if sums[1] == 0.0:
                sums[1] = delta / math.sqrt(1.0 + size - (1.0 if intercept else 0.0))
            sums[1] = max(sums[1], math.sqrt(distance))
            root = math.sqrt(sums[0])
            if root == 0.0:
                root = math.inf
            eta = eta / (delta + root) if mode == 1 else eta * sums[1] / root
        if intercept:
            sums[2] -= eta * s
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k - shift]
            m = blocks[j]
            old = v[j] if marks[j] == stamps[m] else 0.0
            v[j] = old - eta * s * data[k] / table[0, m]
            marks[j] = stamps[m]
        for k in range(indptr[i], indptr[i + 1]):
            m = blocks[indices[k - shift]]
            if squares[m] > 0.0:
                table[1, m] += eta * s * (eta * s * squares[m] - 2.0 * dots[m])
                table[2, m] = max(table[2, m], table[1, m])
                # Where most of a norm was lost its rounding errors were not.
                if m < count and table[1, m] < 1e-4 * table[2, m]:
                    renew(v, marks, stamps, ptr, members, m, table)
                squares[m] = 0.0
                dots[m] = 0.0
        for m in range(count):
            norms[m] = math.sqrt(max(table[1, m], 0.0))
        prox(norms, eta, prox_reals, prox_ints, norms)
        for m in range(count):
            before = math.sqrt(max(table[1, m], 0.0))
            if norms[m] == 0.0:
                if before > 0.0:
                    stamps[m] += 1
                table[0, m] = 1.0
                table[1, m] = 0.0
                table[2, m] = 0.0
            elif before > 0.0:
                table[0, m] *= norms[m] / before
                table[1, m] = norms[m] * norms[m]
                if table[0, m] < 1e-120:
                    renew(v, marks, stamps, ptr, members, m, table)
    return total


class BlockScales:
    """The engine: vectors and scales of blocks; see the module's text."""

    name = "forward-backward, block scales"
    batch = 1

    def __init__(
        self, loss: Any, groups: Groups, norms: Penalty, shape: tuple[int, ...], intercept: bool, step: Step
    ) -> None:
        self.loss, self.step, self.intercept = loss_arguments(loss), step, intercept
        features = shape[0] - intercept
        self.ptr = groups.ptr
        self.members = np.arange(features) if groups.block else groups.indices
        # Coordinates in no group are one more block, the last, which no prox sees.
        self.blocks = np.full(features, groups.count, dtype=np.int64)
        self.blocks[self.members] = np.repeat(np.arange(groups.count), np.diff(groups.ptr))
        kernel, reals, ints = norms.compiled((groups.count,))
        self.prox = (pointer(kernel), reals, ints)
        self.delta = step.delta if isinstance(step, AdaGrad) else FIRST
        self.v, self.marks = np.zeros(features), np.zeros(features, dtype=np.int64)
        self.stamps = np.zeros(groups.count + 1, dtype=np.int64)
        self.table = np.zeros((3, groups.count + 1))
        self.table[SCALE] = 1.0
        self.sums = np.zeros(3)
        self.rounds = 0

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Rounds over the rows in `order`; the sum of the losses met on the way."""
        arguments = (
            *(*rows.arguments(order), steps, self.v, self.marks, self.blocks, self.stamps, self.ptr, self.members),
            *(self.table, self.sums, self.step.mode, self.delta, self.intercept, *self.prox, *self.loss),
        )
        total = float(block_rounds(*arguments))
        self.rounds += steps.size
        self._settle()
        return total

    def _settle(self) -> None:
        """Scales of one and norms summed up afresh, so that a saved run goes on from the same bits."""
        valid = self.marks == self.stamps[self.blocks]
        self.v *= self.table[SCALE][self.blocks] * valid
        self.marks[:] = 0
        self.stamps[:] = 0
        self.table[SCALE] = 1.0
        squared = np.bincount(self.blocks, weights=self.v**2, minlength=self.table.shape[1])
        self.table[SQUARED] = squared
        self.table[PEAK] = squared

    def theta(self) -> Floats:
        """The iterate."""
        return np.append(self.v, self.sums[2]) if self.intercept else self.v.copy()

    def pack(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a saved run needs to go on."""
        return {"sums": self.sums.copy(), "rounds": np.array(self.rounds)}

    def unpack(self, theta: Floats, internal: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a saved run, or from a point alone."""
        self.v[:] = theta[: self.v.size]
        if "sums" in internal:
            self.sums, self.rounds = internal["sums"].copy(), int(internal["rounds"])
        if self.intercept:
            self.sums[2] = theta[-1]
        self._settle()
