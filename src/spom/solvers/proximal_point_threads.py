"""A pass of proximal points in threads: each on its own part of the rows and its own u, and the changes are added.

Between two meetings the threads do not see each other, so that each takes its steps as if its own changes were
`BOOST` times as large (Ma et al. 2015); with the meetings the boost can be small. Rare coordinates are taken along to
a few of the meetings only. The parts depend on the number of threads alone: the same number gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

# How often threads meet in a pass, how much larger each thinks its own changes are, and at which meetings rare
# coordinates take part: to move all of u costs more than the rounds between two meetings would save.
MEETINGS, BOOST, RARELY = 16, 1.2, 8
FEW_COORDINATES = 4096


@kernel("void(float64[:, ::1], float64[:, :, ::1], float64, int64[::1])")
def meet(u: Floats, copies: Floats, factor: float, where: Ints) -> None:
    """u <- u + factor (sum of the changes that each copy made) for the coordinates in `where`; the copies become u."""
    for j in where:
        before, change = u[j, 0], 0.0
        for k in range(copies.shape[0]):
            change += copies[k, j, 0] - before
        now = before + factor * change
        u[j, 0] = now
        for k in range(copies.shape[0]):
            copies[k, j, 0] = now


def often(metric: Floats) -> Ints:
    """The coordinates that occur most, about a 64th of them (or all, where they are few)."""
    if metric.size <= FEW_COORDINATES:
        return np.arange(metric.size)
    # The metric grows with a feature's mean square; a sample of it tells where the cut is.
    sample = metric[:: max(1, metric.size // FEW_COORDINATES)]
    return np.flatnonzero(metric > np.quantile(sample, 63 / 64))


def parallel_pass(
    steps: Callable[[Ints, Floats, float], tuple[float, float]], order: Ints, u: Floats, metric: Floats, jobs: int
) -> tuple[float, float]:
    """The sums over the threads of what `steps(rows, u, boost)` returns; `u` becomes where all of them have gone."""
    total = moved = 0.0
    copies = np.empty((jobs, *u.shape))
    some, every = (np.array_split(where, jobs) for where in (often(metric), np.arange(metric.size)))
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda copy: np.copyto(copy, u), copies))
        for number, part in enumerate(np.array_split(order, MEETINGS), 1):
            shares = [np.ascontiguousarray(share) for share in np.array_split(part, jobs)]
            for losses, changes in pool.map(lambda share, copy: steps(share, copy, BOOST), shares, copies):
                total, moved = total + losses, moved + changes
            where = some if number % RARELY else every
            list(pool.map(lambda part: meet(u, copies, 1.0 / BOOST, part), where))
    return total, moved
