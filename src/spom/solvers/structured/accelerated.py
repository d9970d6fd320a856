"""Accelerated proximal gradient for penalties of blocks: FISTA with backtracking and adaptive restart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.solvers.structured.structures import block_norms

# After an accepted step, the bound on the curvature is multiplied by this to follow the problem. Not tuned.
RELAX = 0.9


class Smooth(NamedTuple):
    """The value and the gradient of the loss, and the prox of the penalty."""

    loss: Callable[[Floats], tuple[float, Floats]]
    prox: Callable[[Floats, float], Floats]


def accelerate(problem: Smooth, start: Floats, curvature: float, rounds: int) -> tuple[Floats, float]:
    """Return theta after some rounds from `start`, and the last bound on the curvature.

    >>> import numpy as np
    >>> square = Smooth(lambda w: (0.5 * float((w - 3.0) @ (w - 3.0)), w - 3.0), lambda w, step: w)
    >>> accelerate(square, np.zeros(2), 0.1, 30)[0].round(6)
    array([3., 3.])
    """
    x, y, t = start, start, 1.0
    for _ in range(rounds):
        f_y, g = problem.loss(y)
        while True:
            after = problem.prox(y - g / curvature, 1.0 / curvature)
            d = after - y
            bound = f_y + float(np.vdot(g, d)) + 0.5 * curvature * float(np.vdot(d, d))
            if problem.loss(after)[0] <= bound + 1e-12 * (1.0 + abs(f_y)):
                break
            curvature *= 2.0
        if float(np.vdot(y - after, after - x)) > 0.0:
            t, y = 1.0, after
        else:
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            y, t = after + (t - 1.0) / grown * (after - x), grown
        x, curvature = after, RELAX * curvature
    return x, curvature


def prox_of_blocks(rows: Floats, starts: Ints, norms: Any, step: float) -> Floats:
    """Scale the rows of each block to the norm that the prox of a penalty of block norms gives it.

    >>> import numpy as np
    >>> from spom.penalties import GroupLasso
    >>> prox_of_blocks(np.array([3.0, 4.0, 1.0]), np.array([0, 2, 3]), GroupLasso(2.0).on_norms(2), 1.0)
    array([1.8, 2.4, 0. ])
    """
    before = block_norms(rows, starts)
    scale = np.divide(norms.prox(before, step), before, out=np.zeros_like(before), where=before > 0.0)
    each = np.repeat(scale, np.diff(starts))
    return np.asarray(rows * (each[:, None] if rows.ndim > 1 else each))
