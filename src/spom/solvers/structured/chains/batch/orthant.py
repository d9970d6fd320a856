r"""Quasi-Newton steps for a quadratic function with an l1 penalty,

    min over x of  g (x - x_0) + (x - x_0) H (x - x_0) / 2 + sum_j l1_j |x_j|,

in one orthant after another. The pseudo-gradient at x tells on which side of zero each weight is, or to which it goes.
A step of limited-memory BFGS is taken on that side, and weights that would cross zero stop there. H is a function that
multiplies by H; the approximate inverse is given in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats
from spom.core.jit import kernel

# The number of remembered pairs of steps. Not tuned.
MEMORY = 60
# Bounds on the scale of the approximate inverse, which follows from the last pair of steps. Not tuned.
SCALES = 0.05, 2.0


# Products of vectors are compiled, because threads of BLAS would mostly wait.
@kernel("float64(float64[::1], float64[::1])", fastmath={"reassoc", "contract"})
def dot(x: Floats, y: Floats) -> float:
    """x y."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@kernel(
    "UniTuple(float64, 2)(float64[::1], float64[::1], boolean[::1], float64[::1])", fastmath={"reassoc", "contract"}
)
def remove_pair(step: Floats, change: Floats, free: NDArray[np.bool_], r: Floats) -> tuple[float, float]:
    """r -= a y, a = s r / s y, with s, y the free part of a pair; return s y and a, zeros if s y is too small."""
    sy = ss = yy = sr = 0.0
    for i in range(r.size):
        s, y = (step[i], change[i]) if free[i] else (0.0, 0.0)
        sy += s * y
        ss += s * s
        yy += y * y
        sr += s * r[i]
    if not sy > 1e-10 * np.sqrt(yy) * np.sqrt(ss):
        return 0.0, 0.0
    a = sr / sy
    for i in range(r.size):
        r[i] -= a * change[i] if free[i] else 0.0
    return sy, a


@kernel(
    "void(float64[::1], float64[::1], boolean[::1], float64, float64, float64[::1])", fastmath={"reassoc", "contract"}
)
def return_pair(step: Floats, change: Floats, free: NDArray[np.bool_], sy: float, a: float, d: Floats) -> None:
    """d += (a - y d / s y) s; entries of d that are not free are zero."""
    yd = 0.0
    for i in range(d.size):
        yd += change[i] * d[i]
    part = a - yd / sy
    for i in range(d.size):
        d[i] += part * step[i] if free[i] else 0.0


class Orthant(NamedTuple):
    """The weights that may move, the side of zero that each is on, and the gradient in this orthant."""

    free: NDArray[np.bool_]
    side: Floats
    slope: Floats


def orthant(x: Floats, g: Floats, l1: Floats) -> Orthant:
    """Return the orthant that x is in or enters; weights without an l1 penalty have no side.

    >>> import numpy as np
    >>> orthant(np.array([2.0, 0.0, 0.0]), np.array([-1.0, 0.5, 3.0]), np.ones(3)).slope
    array([0., 0., 2.])
    """
    free = (x != 0.0) | (np.abs(g) > l1)
    side = np.where(l1 > 0.0, np.where(x != 0.0, np.sign(x), -np.sign(g)), 0.0)
    return Orthant(free, side, np.where(free, g + l1 * side, 0.0))


class Memory:
    """Limited-memory BFGS on top of an approximate inverse."""

    def __init__(self, guess: Callable[[Floats], Floats]) -> None:
        self.guess = guess
        self.pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)

    def direction(self, of: Orthant) -> Floats:
        """Return a descent direction in the free weights."""
        r, used, scale = of.slope.copy(), [], 1.0
        for step, change in reversed(self.pairs):
            sy, a = remove_pair(step, change, of.free, r)
            if sy > 0.0:
                used.append((step, change, sy, a))
        if used:
            y = used[0][1] * of.free
            scale = float(np.clip(used[0][2] / max(dot(y, self.guess(y)), 1e-300), *SCALES))
        d = scale * self.guess(r) * of.free
        for step, change, sy, a in reversed(used):
            return_pair(step, change, of.free, sy, a, d)
        return -d


def within(x: Floats, d: Floats, of: Orthant) -> Floats:
    """Return x + d, where weights that cross zero stop there and weights at zero go to their side or stay."""
    out = x + d
    out[(out * of.side < 0.0) | ~of.free] = 0.0
    return out


class Least(NamedTuple):
    """An approximate minimum: the point, the gradient without the penalty, and the decrease of the function."""

    x: Floats
    gradient: Floats
    gained: float


def least(
    x: Floats,
    g: Floats,
    l1: Floats,
    times: Callable[[Floats], Floats],
    memory: Memory,
    until: tuple[float, int],
) -> Least:
    """Iterate from x until no slope is above until[0], at most until[1] times; `memory` takes the pairs of steps.

    >>> import numpy as np
    >>> least(np.zeros(2), np.array([-3.0, 0.5]), np.ones(2), lambda v: 2.0 * v, Memory(lambda r: r), (1e-9, 9)).x
    array([1., 0.])
    """
    gained, (tolerance, most) = 0.0, until
    for _ in range(most):
        of = orthant(x, g, l1)
        if float(np.abs(of.slope).max(initial=0.0)) <= tolerance:
            break
        d, part = memory.direction(of), 1.0
        d[(x == 0.0) & (d * of.side < 0.0)] = 0.0
        if dot(of.slope, d) >= 0.0:
            if not memory.pairs:
                break
            memory.pairs.clear()
            continue
        while True:
            after = within(x, part * d, of)
            step = after - x
            change = times(step)
            fell = -dot(g, step) - 0.5 * dot(step, change) - dot(l1, np.abs(after) - np.abs(x))
            if fell >= -1e-4 * dot(of.slope, step) or part < 1e-3:
                break
            part *= 0.4
        memory.pairs.append((step, change))
        x, g, gained = after, g + change, gained + fell
    return Least(x, g, gained)
