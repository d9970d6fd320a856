r"""Implicit dual averaging: the first pass of the proximal point method, for streams, which have no second pass.

With N the weight of all examples so far, G = sum of a_i x_i over them, a_i the derivative of example i's loss at the
score that its own step led to, and s_j the mean square of feature j:

    w_j = -soft(G_j, N l1) / (M_j + N l2),     M_j = c_N L sqrt(s_j) sum_l sqrt(s_l),

with c_N as in `first_scale`. No step size is needed, and nothing is kept of an example after its step. In the long run
c_N grows with the square root of time, as dual averaging needs to converge (Xiao 2010).

A run that starts from weights v, learnt from k examples, has M_j v_j - G_j in place of -G_j and c_(k + N) in place of
c_N: the weights stay near v, and steps are as small as those of a stream after k examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.errors import DataError
from spom.solvers.linear.data import Rows, add_squares
from spom.solvers.linear.problem import undo
from spom.solvers.linear.proximal_point import SMALL, ProximalPoint, first_scale
from spom.solvers.linear.proximal_point_loops import INVERSE, U

SAMPLE = 4


class StreamingPoint(ProximalPoint):
    """The engine of `step="auto"` on a stream of blocks; see the module docstring."""

    name = "implicit dual averaging"

    def __init__(self, loss: Any, l1: float, l2: float, features: int, intercept: bool, jobs: int = 1) -> None:
        super().__init__(loss, l1, l2, features, intercept, jobs)
        self.strengths = (l1, l2)
        self.squares = np.zeros(self.size)
        self.seen = 0.0
        # Kept up to date while the engine stays between small blocks: sums over the features of sqrt(squares) and of
        # squares, and the entries since these were last recomputed; c and M for the last block, over its rows.
        self.sums = (0.0, 0.0, 0)
        self.last = (0.0, 0.0, 0.0, 1)
        self.late = False
        # The weights to start from (none: zero), and the number of examples that they were learnt from.
        self.start, self.earlier = np.zeros(0), 0.0
        self._fresh = np.zeros(0)

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Take one step on each row of a block; return the sum of the losses."""
        mass = float(rows.weight[order].sum())
        # After the first block, every fourth row gives sufficient mean squares, and saves a fifth of the time of a
        # pass.
        squares = rows.squares(order if self.seen == 0.0 else order[::SAMPLE]) * mass
        self.squares[: self.features] += squares
        if self.intercept:
            self.squares[-1] += mass
        self.late, self.sums = False, (0.0, 0.0, 0)
        before, self.seen = self.seen, self.seen + mass
        n = len(rows)
        metric, c = self._measure()
        # The loop works with means over the block, this engine with sums, so everything is divided by n.
        self.metric = metric / n
        self.l1, self.l2 = (strength * self.seen / n for strength in self.strengths)
        # `dual` holds minus the sum of gradients.
        self.anchor, self.slopes = self.start if self.start.size else np.zeros(self.size), np.zeros(n)
        self.dual = self.dual / n
        total, _ = self._loop(rows, order, c)
        self.dual *= n
        self.passes += 1 if before == 0.0 else 0
        return total

    # --- small blocks --------------------------------------------------------------------------------

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Take the steps of a small block; sums over features are updated, not recomputed. See `Staying`."""
        if self.jobs > 1 or self.seen == 0.0:
            return None
        n, mass = len(rows), float(rows.weight[order].sum())
        touched = np.unique(rows.indices).astype(np.int64)
        self._add_squares(rows, order[::SAMPLE], touched, mass)
        self.seen += mass
        self.l1, self.l2 = (strength * self.seen / n for strength in self.strengths)
        roots, squared, _ = self.sums
        c = first_scale(self.earlier + self.seen, roots / math.sqrt(self.seen), squared / self.seen)
        # The smallest square is only needed for features without a measured one.
        least = 0.0 if self.squares[touched].all() else float(self.squares[self.squares > 0].min())
        self.last, self.late = (c, self.smoothness * roots / self.seen, least, n), True
        where = np.append(touched, self.features) if self.intercept else touched
        u = self._u[0]
        u[where, INVERSE], held = self._inverse(where), self._held(where)
        u[where, U] = self.dual[where] / n + held
        self.slopes = np.zeros(n)
        total, moved = self._steps(rows, order, u, 1.0)
        self.least = SMALL * moved / max(1, order.size)
        self.dual[where] = (u[where, U] - held) * n
        return total

    def _add_squares(self, rows: Rows, chosen: Ints, touched: Ints, mass: float) -> None:
        """Add the mean squares of the chosen rows to those of the features, and keep the sums over features."""
        if self.sums[2] == 0 or self.sums[2] > self.size:
            # Recomputed after a number of entries, so that rounding errors do not accumulate.
            self.sums = (float(np.sqrt(self.squares).sum()), float(self.squares.sum()), 1)
        if self._fresh.size == 0:
            self._fresh = np.zeros(self.features)
        add_squares(rows.examples(np.ascontiguousarray(chosen)), self._fresh)
        new = self._fresh[touched] / max(float(rows.weight[chosen].sum()), 1e-300) * mass
        self._fresh[touched] = 0.0
        where = touched
        if self.intercept:
            where, new = np.append(touched, self.features), np.append(new, mass)
        before = self.squares[where]
        self.squares[where] += new
        roots = float((np.sqrt(self.squares[where]) - np.sqrt(before)).sum())
        self.sums = (self.sums[0] + roots, self.sums[1] + float(new.sum()), self.sums[2] + rows.data.size)

    def _last_metric(self, where: Any) -> Floats:
        """Return M of some coordinates, per row of the last block."""
        c, factor, least, n = self.last
        return np.asarray(c * factor * np.sqrt(np.maximum(self.squares[where], 0.5 * least)) / n)

    def _inverse(self, where: Any) -> Floats:
        """Return 1 / (M + N l2) of some coordinates, per row of the last block; an intercept has no penalty."""
        metric = self._last_metric(where)
        l2 = np.full(metric.size, self.l2)
        if self.intercept:
            l2[-1] = 0.0
        return np.asarray(1.0 / np.maximum(metric + l2, 1e-300))

    def _held(self, where: Any) -> Floats | float:
        """Return M v of some coordinates, per row of the last block."""
        return self._last_metric(where) * self.start[where] if self.start.size else 0.0

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """Remember the touched coordinates; see `Staying`."""
        names = ("seen", "sums", "last", "late", "l1", "l2", "least")
        return undo(self, {"dual": self.dual, "squares": self.squares}, touched, names)

    def _measure(self) -> tuple[Floats, float]:
        """Return M for c = 1, and c; a feature that was never met counts as if it had occurred half a time."""
        mean = self.squares / max(self.seen, 1e-300)
        met = np.sqrt(mean[mean > 0])
        least = float(met.min()) if met.size else 1.0
        root = np.maximum(np.sqrt(mean), math.sqrt(0.5) * least)
        return self.smoothness * root * float(met.sum() or 1.0), first_scale(
            self.earlier + self.seen, float(met.sum()), float(met @ met)
        )

    def theta(self) -> Floats:
        """-soft(G, N l1) / (M + N l2)."""
        if not self.late:
            return self._spare.copy()
        z = self.dual / self.last[3] + self._held(slice(None))
        cut = np.full(z.size, self.l1)
        if self.intercept:
            cut[-1] = 0.0
        # A feature that was never met has no gradient, so its metric matters little.
        over = z - np.clip(z, -cut, cut)
        return np.asarray(np.where(over != 0.0, over * self._inverse(slice(None)), 0.0))

    def point(self) -> Floats:
        """Return the weights that follow from the sums alone: for example the summed sums of shards."""
        metric, c = self._measure()
        l1, l2 = (np.full(self.size, strength * self.seen) for strength in self.strengths)
        l1[self.features :] = l2[self.features :] = 0.0
        total = self.dual + c * metric * self.start if self.start.size else self.dual
        size = np.maximum(np.abs(total) - l1, 0.0)
        return np.asarray(np.copysign(size, total) / (c * metric + l2) + 0.0)

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        scalars = np.array([self.seen, self.least, self.earlier])
        packed = {"dual": self.dual.copy(), "squares": self.squares.copy(), "scalars": scalars, "start": self.start}
        return {**packed, "late": np.array(self.sums, dtype=np.float64)} if self.late else packed

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone; the caller then sets `earlier`."""
        self._spare = theta.astype(np.float64).copy()
        self.start = internal["start"].copy() if "start" in internal else self._spare.copy()
        if self.start.size not in (0, self.size):
            raise DataError(f"the saved state has weights to start from of {self.start.size} features: it is damaged")
        if "squares" in internal:
            self.dual, self.squares = internal["dual"].copy(), internal["squares"].copy()
            self.seen, self.least, self.earlier = (float(x) for x in internal["scalars"])
        if "late" in internal:
            roots, squared, entries = (float(x) for x in internal["late"])
            self.sums = (roots, squared, int(entries))
