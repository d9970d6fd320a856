r"""Penalties of block norms alone, on sparse rows: each block is a scale times a vector.

The prox of such a penalty (sparse MKL, the group lasso, lq and elastic-net MKL) multiplies each block by a number that
depends on the norms of all blocks (Prop. 1 of SPOM). So w_m = a_m v_m is kept with its norm: a row changes only its own
coordinates, and the prox only the M norms and scales. When the prox makes a block zero, the block gets a new stamp, and
values written under an older stamp count as zero.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import kernel
from spom.penalties import Penalty
from spom.penalties.forms import Prox, compiled_prox
from spom.penalties.groups import Groups
from spom.solvers.linear.data import Examples, Rows
from spom.solvers.linear.full_update import DISTANCE, count_gradient
from spom.solvers.linear.problem import Loss, Problem, Rounds, compiled_loss
from spom.solvers.steps import DIAGONAL, PLAIN

# Rows of the table of blocks: scale, squared norm, the largest squared norm since it was last computed.
SCALE, SQUARED, PEAK = range(3)
# Shared by all blocks: the sums of `full_update`, followed by the intercept.
INTERCEPT = 2
# A squared norm is recomputed below this fraction of its peak. A scale below this size is moved into its vector.
LOST, TINY = 1e-4, 1e-120


class Scales(NamedTuple):
    """The state: vectors v with marks, the block of each coordinate, stamps and members of blocks, their table."""

    v: Annotated[Floats, "float64[::1]"]
    marks: Annotated[Ints, "int64[::1]"]
    blocks: Annotated[Ints, "int64[::1]"]
    stamps: Annotated[Ints, "int64[::1]"]
    ptr: Annotated[Ints, "int64[::1]"]
    members: Annotated[Ints, "int64[::1]"]
    table: Annotated[Floats, "float64[:, ::1]"]
    sums: Annotated[Floats, "float64[::1]"]


@kernel("void(Scales, int64)")
def renew(state: Scales, m: int) -> None:
    """Move the scale of a block into its vector, and recompute its squared norm."""
    total = 0.0
    v, table = state.v, state.table
    for e in range(state.ptr[m], state.ptr[m + 1]):
        j = state.members[e]
        v[j] = v[j] * table[SCALE, m] if state.marks[j] == state.stamps[m] else 0.0
        state.marks[j] = state.stamps[m]
        total += v[j] * v[j]
    table[SCALE, m] = 1.0
    table[SQUARED, m] = total
    table[PEAK, m] = total


@kernel("float64(Scales, Rounds, int64, float64, float64)")
def step_size(state: Scales, rounds: Rounds, t: int, slope: float, size: float) -> float:
    """Return the step of round t, for a row with this derivative and squared norm (an intercept adds 1)."""
    eta: float = rounds.steps[t]
    sums, table = state.sums, state.table
    if rounds.mode == PLAIN:
        return eta
    distance = sums[INTERCEPT] * sums[INTERCEPT] if rounds.intercept else 0.0
    for m in range(table.shape[1]):
        distance += table[SQUARED, m]
    first = rounds.delta / math.sqrt(1.0 + size - (1.0 if rounds.intercept else 0.0))
    root = count_gradient(sums, slope * slope * size, math.sqrt(distance), first)
    if root == 0.0:
        return 0.0
    return eta / (rounds.delta + root) if rounds.mode == DIAGONAL else eta * sums[DISTANCE] / root


@kernel("void(Examples, int64, Scales, float64, float64[::1], float64[::1])")
def move_row(rows: Examples, i: int, state: Scales, change: float, dots: Floats, squares: Floats) -> None:
    """w <- w - change x_i, with squared norms updated; `dots` and `squares` of the row's blocks are reset to zero."""
    v, table, blocks = state.v, state.table, state.blocks
    shift = rows.indptr[i] if rows.dense else 0
    count = table.shape[1] - 1
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        j = rows.indices[k - shift]
        m = blocks[j]
        old = v[j] if state.marks[j] == state.stamps[m] else 0.0
        v[j] = old - change * rows.data[k] / table[SCALE, m]
        state.marks[j] = state.stamps[m]
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        m = blocks[rows.indices[k - shift]]
        if squares[m] > 0.0:
            table[SQUARED, m] += change * (change * squares[m] - 2.0 * dots[m])
            table[PEAK, m] = max(table[PEAK, m], table[SQUARED, m])
            # If most of a norm cancelled, its rounding errors remain.
            if m < count and table[SQUARED, m] < LOST * table[PEAK, m]:
                renew(state, m)
            squares[m] = 0.0
            dots[m] = 0.0


@kernel("void(Scales, Prox, float64, float64[::1])")
def shrink_blocks(state: Scales, prox: Prox, eta: float, norms: Floats) -> None:
    """Apply the prox of the penalty to the norms, and scale each block to its new norm. `norms` is scratch."""
    table = state.table
    for m in range(norms.size):
        norms[m] = math.sqrt(max(table[SQUARED, m], 0.0))
    prox.function(norms, eta, prox.reals, prox.ints, norms)
    for m in range(norms.size):
        before = math.sqrt(max(table[SQUARED, m], 0.0))
        if norms[m] == 0.0:
            if before > 0.0:
                state.stamps[m] += 1
            table[SCALE, m] = 1.0
            table[SQUARED, m] = 0.0
            table[PEAK, m] = 0.0
        elif before > 0.0:
            table[SCALE, m] *= norms[m] / before
            table[SQUARED, m] = norms[m] * norms[m]
            if table[SCALE, m] < TINY:
                renew(state, m)


@kernel("float64(Examples, Rounds, Loss, Prox, Scales)")
def block_rounds(rows: Examples, rounds: Rounds, loss: Loss, prox: Prox, state: Scales) -> float:
    """Run one round per row, and return the sum of the losses before each step."""
    total = 0.0
    v, marks, blocks, stamps, table, sums = state.v, state.marks, state.blocks, state.stamps, state.table, state.sums
    count = table.shape[1] - 1
    norms = np.empty(count)
    dots = np.zeros(count + 1)
    squares = np.zeros(count + 1)
    for t in range(rows.order.size):
        i = rows.order[t]
        shift = rows.indptr[i] if rows.dense else 0
        score = sums[INTERCEPT] if rounds.intercept else 0.0
        size = 1.0 if rounds.intercept else 0.0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[k - shift]
            x = rows.data[k]
            m = blocks[j]
            if marks[j] == stamps[m]:
                score += x * table[SCALE, m] * v[j]
                dots[m] += x * table[SCALE, m] * v[j]
            squares[m] += x * x
            size += x * x
        total += rows.weight[i] * loss.value(rows.y[i], score, loss.reals)
        s = rows.weight[i] * loss.derivative(rows.y[i], score, loss.reals)
        eta = step_size(state, rounds, t, s, size)
        if rounds.intercept:
            sums[INTERCEPT] -= eta * s
        move_row(rows, i, state, eta * s, dots, squares)
        shrink_blocks(state, prox, eta, norms)
    return total


class BlockScales:
    """The engine: vectors and scales of blocks; see the module's text."""

    name = "forward-backward, block scales"

    def __init__(self, problem: Problem, groups: Groups, norms: Penalty) -> None:
        self.problem, self.loss = problem, compiled_loss(problem.loss)
        self.prox = compiled_prox(norms, groups.count)
        features, count = problem.features, groups.count
        members = np.arange(features) if groups.block else groups.indices
        # Coordinates in no group form one more block, the last, on which no prox acts.
        blocks = np.full(features, count, dtype=np.int64)
        blocks[members] = np.repeat(np.arange(count), np.diff(groups.ptr))
        marks, stamps = np.zeros(features, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
        table = np.zeros((3, count + 1))
        self.state = Scales(np.zeros(features), marks, blocks, stamps, groups.ptr, members, table, np.zeros(3))
        self._settle()

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`; return the sum of the losses."""
        total = float(block_rounds(rows.examples(order), self.problem.rounds(steps), self.loss, self.prox, self.state))
        self._settle()
        return total

    def _settle(self) -> None:
        """Set all scales to 1 and recompute the norms, so that a saved run resumes with the same bits."""
        s = self.state
        valid = s.marks == s.stamps[s.blocks]
        s.v[:] *= s.table[SCALE][s.blocks] * valid
        s.marks[:] = 0
        s.stamps[:] = 0
        s.table[SCALE] = 1.0
        s.table[SQUARED] = s.table[PEAK] = np.bincount(s.blocks, weights=s.v**2, minlength=s.table.shape[1])

    def theta(self) -> Floats:
        """Return the iterate."""
        s = self.state
        return np.append(s.v, s.sums[INTERCEPT]) if self.problem.intercept else s.v.copy()

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        return {"sums": self.state.sums.copy()}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        s = self.state
        s.v[:] = theta[: s.v.size]
        if "sums" in internal:
            s.sums[:] = internal["sums"]
        if self.problem.intercept:
            s.sums[INTERCEPT] = theta[-1]
        self._settle()
