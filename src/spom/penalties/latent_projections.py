"""The Euclidean prox of the latent group lasso by cyclic projections.

The prox at u is u - y, with y the projection of u onto the intersection of the balls norm(y_m) <= s: l1 balls for
q = inf and l2 balls for q = 2. Projecting onto one ball after the other finds a point of the intersection,
but not the nearest one. There are two known remedies:

- anchored (Bauschke 1996, used by Villa et al. 2014): y <- u/(n+1) + n/(n+1) P_M ... P_1 y. Error about 1/n.
- Dykstra: store what each projection removed, and add it back before the next one. The error falls geometrically.

The removed parts add up to the prox, one per group: z_1 + ... + z_M = u - y. So the sum of their norms is an
upper bound of the latent norm, and the duality gap needs no linear program.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

# After every TRIAL cycles the rate of Dykstra's method decides whether to continue; its ratio has settled by then.
TRIAL = 30


class Balls(NamedTuple):
    """A ball for each group of coordinates: their members, a common radius, and l1 or l2."""

    ptr: Annotated[Ints, "int64[::1]"]
    indices: Annotated[Ints, "int64[::1]"]
    radius: Annotated[float, "float64"]
    l1: Annotated[bool, "boolean"]


@kernel("void(float64[::1], int64, float64, boolean)")
def _project(v: Floats, n: int, radius: float, l1: bool) -> None:
    """Project the first n entries of v onto the l1 or the l2 ball, in place."""
    total = 0.0
    for i in range(n):
        total += abs(v[i]) if l1 else v[i] * v[i]
    if not l1:
        norm = np.sqrt(total)
        if norm > radius:
            for i in range(n):
                v[i] *= radius / norm
        return
    if total <= radius:
        return
    # Newton's method on sum max(abs(v) - tau, 0) = radius: tau increases to the root, in a few passes.
    tau, count = 0.0, n
    while True:
        rest, kept = 0.0, 0
        for i in range(n):
            if abs(v[i]) > tau:
                rest += abs(v[i])
                kept += 1
        better = (rest - radius) / kept if kept > 0 else tau
        if (kept == count and tau > 0.0) or better <= tau:
            break
        tau, count = better, kept
    for i in range(n):
        a = abs(v[i]) - tau
        v[i] = 0.0 if a <= 0.0 else (a if v[i] > 0.0 else -a)


@kernel("Tuple((int64, float64))(float64[::1], Balls, boolean, int64, float64, float64[::1], float64[::1])")
def cyclic_projections(
    u: Floats, balls: Balls, dykstra: bool, limit: int, tol: float, target: Floats, y: Floats
) -> tuple[int, float]:
    """Write the projection of u to y; return (cycles, last distance).

    Stop when the l2 distance of y from `target`, or from the last y if `target` is empty, is at most tol.
    """
    ptr, indices, radius, l1 = balls
    p, count = u.size, ptr.size - 1
    longest = 0
    for m in range(count):
        longest = max(longest, ptr[m + 1] - ptr[m])
    v = np.empty(longest)
    given = np.zeros(indices.size if dykstra else 0)
    last = u.copy()
    y[:] = u
    distance = np.inf
    for cycle in range(1, limit + 1):
        for m in range(count):
            first, n = ptr[m], ptr[m + 1] - ptr[m]
            for e in range(n):
                v[e] = y[indices[first + e]] + (given[first + e] if dykstra else 0.0)
                if dykstra:
                    given[first + e] = v[e]
            _project(v, n, radius, l1)
            for e in range(n):
                y[indices[first + e]] = v[e]
                if dykstra:
                    given[first + e] -= v[e]
        distance = 0.0
        for i in range(p):
            if not dykstra:
                y[i] = u[i] / (cycle + 1) + y[i] * (cycle / (cycle + 1))
            difference = y[i] - (target[i] if target.size else last[i])
            distance += difference * difference
            last[i] = y[i]
        distance = np.sqrt(distance)
        if distance <= tol:
            return cycle, distance
    return limit, distance


@kernel("Tuple((int64, float64))(float64[::1], Balls, int64, float64, float64[::1], float64[::1])")
def dykstra(u: Floats, balls: Balls, limit: int, tol: float, x: Floats, weights: Floats) -> tuple[int, float]:
    """Write the prox of radius * norm to x and the norm of each group's part to `weights`; return (cycles, error).

    Stop when the estimated distance to the prox is at most tol: the last move times r / (1 - r) for the ratio r of
    the last two moves, which settles once the set of active groups does. Give up early if `limit` would not be enough.
    """
    ptr, indices, radius, l1 = balls
    count, y, parts = ptr.size - 1, u.copy(), np.zeros(indices.size)
    longest = 0
    for m in range(count):
        longest = max(longest, ptr[m + 1] - ptr[m])
    v = np.empty(longest)
    cycle, error, before = 0, np.inf, np.inf
    while cycle < limit and error > tol:
        cycle += 1
        moved = 0.0
        for m in range(count):
            first, n = ptr[m], ptr[m + 1] - ptr[m]
            for e in range(n):
                v[e] = y[indices[first + e]] + parts[first + e]
            _project(v, n, radius, l1)
            for e in range(n):
                i = indices[first + e]
                taken = y[i] + parts[first + e] - v[e]
                moved += (taken - parts[first + e]) ** 2
                parts[first + e], y[i] = taken, v[e]
        moved = np.sqrt(moved)
        # Near rounding the ratio is meaningless: a move that small ends the iteration.
        ratio = min(moved / before, 0.999) if 0.0 < before < np.inf else 0.999
        error, before = moved * ratio / (1.0 - ratio), moved
        # At this rate it would not converge within the limit: leave it to another method.
        if cycle % TRIAL == 0 and error > tol and cycle + np.log(tol / moved) / np.log(ratio) > limit:
            break
    x[:] = 0.0
    for m in range(count):
        size = 0.0
        for e in range(ptr[m], ptr[m + 1]):
            x[indices[e]] += parts[e]
            size = max(size, abs(parts[e])) if l1 else size + parts[e] * parts[e]
        weights[m] = size if l1 else np.sqrt(size)
    return cycle, error
