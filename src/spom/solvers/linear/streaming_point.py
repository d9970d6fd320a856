r"""Implicit dual averaging: the first pass of the proximal point method, for streams, which have no second one.

With N the weight of all examples so far, G = sum of a_i x_i over them, a_i the derivative of example i's loss at the
score that its own step led to, and s_j the mean square of feature j:

    w_j = -soft(G_j, N l1) / (M_j + N l2),     M_j = c_N L sqrt(s_j) sum_l sqrt(s_l),

with c_N as in `first_scale`. No number is needed, and nothing is kept of an example once it is gone. That c_N grows
with the square root of time in the end is what dual averaging needs to converge (Xiao 2010).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.solvers.linear.data import Rows
from spom.solvers.linear.problem import Arrays
from spom.solvers.linear.proximal_point import ProximalPoint, first_scale

SAMPLE = 4


class StreamingPoint(ProximalPoint):
    """The engine of `step="auto"` on a stream of blocks; see the module's text."""

    name = "implicit dual averaging"

    def __init__(self, loss: Any, l1: float, l2: float, features: int, intercept: bool, jobs: int = 1) -> None:
        super().__init__(loss, l1, l2, features, intercept, jobs)
        self.strengths = (l1, l2)
        self.squares = np.zeros(self.size)
        self.seen = 0.0

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """One step on each row of a block; the sum of the losses met on the way."""
        mass = float(rows.weight[order].sum())
        # After the first block every fourth row tells the mean squares well enough, for a fifth of the time of a pass.
        squares = rows.squares(order if self.seen == 0.0 else order[::SAMPLE]) * mass
        self.squares[: self.features] += squares
        if self.intercept:
            self.squares[-1] += mass
        before, self.seen = self.seen, self.seen + mass
        n = len(rows)
        metric, c = self._measure()
        # The loop counts in means over the block, this engine in sums: everything is divided by n.
        self.metric = metric / n
        self.l1, self.l2 = (strength * self.seen / n for strength in self.strengths)
        # The anchor is zero: `dual` holds minus the sum of gradients.
        self.anchor, self.slopes = np.zeros(self.size), np.zeros(n)
        self.dual = self.dual / n
        total, _ = self._loop(rows, order, c)
        self.dual *= n
        self.passes += 1 if before == 0.0 else 0
        return total

    def _measure(self) -> tuple[Floats, float]:
        """M for c = 1, and c; a feature that was never met is taken to occur half a time."""
        mean = self.squares / max(self.seen, 1e-300)
        met = np.sqrt(mean[mean > 0])
        least = float(met.min()) if met.size else 1.0
        root = np.maximum(np.sqrt(mean), math.sqrt(0.5) * least)
        return self.smoothness * root * float(met.sum() or 1.0), first_scale(
            self.seen, float(met.sum()), float(met @ met)
        )

    def theta(self) -> Floats:
        """-soft(G, N l1) / (M + N l2)."""
        return self._spare.copy()

    def point(self) -> Floats:
        """The weights that follow from the sums alone: those of shards that were added up, for example."""
        metric, c = self._measure()
        l1, l2 = (np.full(self.size, strength * self.seen) for strength in self.strengths)
        l1[self.features :] = l2[self.features :] = 0.0
        size = np.maximum(np.abs(self.dual) - l1, 0.0)
        return np.asarray(np.copysign(size, self.dual) / (c * metric + l2) + 0.0)

    def pack(self) -> Arrays:
        """What a saved run needs to resume."""
        scalars = np.array([self.seen, self.least])
        return {"dual": self.dual.copy(), "squares": self.squares.copy(), "scalars": scalars}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run; of a point alone only theta is taken, until the first block."""
        self._spare = theta.astype(np.float64).copy()
        if "squares" in internal:
            self.dual, self.squares = internal["dual"].copy(), internal["squares"].copy()
            self.seen, self.least = (float(x) for x in internal["scalars"])
