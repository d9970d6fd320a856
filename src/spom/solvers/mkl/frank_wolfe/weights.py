"""Kernel weights that follow the norms of the blocks, in steps whose lengths adapt to each block."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats
from spom.solvers.mkl.frank_wolfe.penalties import LEAST, BlockPenalty, PlainSum, SquaredSum

# How long a step may be, in multiples of the one that never increases the objective, and how its length changes.
SHORTEST, LONGEST, FASTER, SLOWER = 0.3, 12.0, 1.4, 0.5
# A block that comes back starts with this share of the largest.
RETURN = 0.02


class Weights:
    """Scales s of the blocks, moved towards the best ones for the present norms.

    In the logarithm a full step takes a share to its target: that is the alternation between the machine and its
    kernel, which never increases the objective but is slow where two kernels are nearly as good. A block takes longer
    steps as long as it keeps its direction, and shorter ones when it turns. A block with next to no share that wants
    less is switched off, and comes back when its gradient exceeds the slope of the penalty.
    """

    def __init__(self, blocks: BlockPenalty) -> None:
        self.blocks = blocks
        self.scales = blocks.start()
        self.pace = np.ones(blocks.count)
        self.before = np.zeros(blocks.count)
        self.moving = not isinstance(blocks, PlainSum) and (blocks.count > 1 or not isinstance(blocks, SquaredSum))
        self._usual = float(blocks.shares(self.scales).max())

    def update(self, norms: Floats) -> bool:
        """New scales, given norm(v_m) / N; whether they changed."""
        if not self.moving:
            return False
        share = self.blocks.shares(self.scales)
        b = self.scales * norms
        target, slopes = self.blocks.target(b), self.blocks.slopes(b)
        on = (share > 0.0) & (target > 0.0)
        way = np.zeros(share.size)
        way[on] = np.log(target[on] / share[on])
        turned = way * self.before < 0.0
        kept = way * self.before > 0.0
        self.pace[kept] = np.minimum(self.pace[kept] * FASTER, LONGEST)
        self.pace[turned] = np.maximum(self.pace[turned] * SLOWER, SHORTEST)
        self.before = way
        new = np.where(on, share * np.exp(np.clip(self.pace * way, -3.0, 3.0)), 0.0)
        new[(new < LEAST * max(self._usual, float(new.max()))) & (norms < slopes)] = 0.0
        back = (new == 0.0) & (norms > slopes * (1.0 + 1e-9))
        new[back] = RETURN * (float(new.max()) or self._usual)
        self.pace[new == 0.0] = 1.0
        if not new.any() and isinstance(self.blocks, SquaredSum):
            return False
        self.scales = self.blocks.normalised(new)
        return True
