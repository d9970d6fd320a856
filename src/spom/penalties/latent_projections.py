"""The Euclidean prox of the latent group lasso by cyclic projections: the baseline of the literature.

The prox at u is u - y, with y the projection of u onto the intersection of the balls norm(y_m) <= s, l1 balls for
q = inf and l2 balls for q = 2. Projecting onto one ball after the other finds a point of the intersection,
not the nearest one; two repairs are known:

- anchored (Bauschke 1996, used by Villa et al. 2014): y <- u/(n+1) + n/(n+1) P_M ... P_1 y. Error about 1/n.
- Dykstra: remember what each ball took away, and give it back before its next turn.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


class Balls(NamedTuple):
    """A ball for each group of coordinates: their members, one radius for all, and l1 or l2."""

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
    # Newton on sum max(abs(v) - tau, 0) = radius: tau grows to the root, in a few passes.
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
    """Write the projection of u to y; returns (cycles, last distance).

    Stops when the l2 distance of y from `target`, or from the last y where that is empty, is at most tol.
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
