"""A pass of proximal points in threads: each has its own part of the rows and its own u, and the changes are added.

Between two synchronisations, threads do not see each other's changes. So each takes its steps as if its own changes
were larger by a factor, the boost (Ma et al. 2015). Several threads that correct the same error correct it repeatedly:
the boost must grow with their number, or they oscillate. A small synchronisation exchanges the coordinates that occur
often, a full one (a few per pass) all of them. The result depends only on the number of threads: the same number
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.linear.data import in_threads, ranges

# For each full synchronisation of a pass, the number of small ones per thread before it; the later ones have more
# effect. More full ones would cost more time than the rounds they save. BOOST is the boost per thread.
SYNCS, BOOST = (1, 3), 0.65
# The share of the coordinates that count as frequent, and the number up to which all of them do.
SHARE, FEW = 1 / 32, 4096
Steps = Callable[[Ints, Floats, float], tuple[float, float]]


@kernel("void(float64[:, ::1], float64[::1], int64[::1], float64, float64[::1])")
def send(u: Floats, known: Floats, where: Ints, factor: float, news: Floats) -> None:
    """news = factor (u - known) at the places `where`; then u and `known` become known + news."""
    for k in range(where.size):
        news[k] = factor * (u[where[k], 0] - known[k])
        known[k] += news[k]
        u[where[k], 0] = known[k]


@kernel("void(float64[:, ::1], float64[::1], int64[::1], float64[::1])")
def receive(u: Floats, known: Floats, where: Ints, news: Floats) -> None:
    """Add the news of another thread to u and to `known`."""
    for k in range(where.size):
        known[k] += news[k]
        u[where[k], 0] = known[k]


@kernel("void(float64[:, :, ::1], float64[::1], float64[::1], float64, float64, boolean, int64, int64)")
def merge(
    copies: Floats, agreed: Floats, metric: Floats, cut: float, factor: float, last: bool, first: int, end: int
) -> None:
    """agreed <- agreed + factor (sum of the changes of the copies), for rare coordinates in a range; copies become it.

    The coordinates above the cut have been exchanged: all copies agree up to rounding. For the last merge, only
    the first copy is needed.
    """
    for j in range(first, end):
        now = copies[0, j, 0]
        if metric[j] <= cut:
            change = 0.0
            for k in range(copies.shape[0]):
                change += copies[k, j, 0] - agreed[j]
            now = agreed[j] + factor * change
            copies[0, j, 0] = now
        if not last:
            agreed[j] = now
            for k in range(1, copies.shape[0]):
                copies[k, j, 0] = now


def often(metric: Floats) -> float:
    """Return the metric above which coordinates count as frequent; below all metrics if there are few coordinates."""
    if metric.size <= FEW:
        return -1.0
    # The metric grows with a feature's mean square; a sample of it gives the cut.
    return float(np.quantile(metric[:: max(1, metric.size // FEW)], 1 - SHARE))


class _Thread:
    """One thread: its copy of u, the shared values of the frequent coordinates, and its own changes to them."""

    def __init__(self, u: Floats, where: Ints, shares: list[Ints]) -> None:
        self.u, self.where, self.shares = u, where, shares
        self.known = np.ascontiguousarray(u[where, 0])
        # Two, because a thread may send its next news while another still receives the last.
        self.news = np.empty((2, where.size))
        self.sent: list[Future[tuple[float, float]]] = []
        self.received: list[Future[None]] = []

    def work(self, number: int, steps: Steps, boost: float) -> tuple[float, float]:
        """Take the steps of one part of the rows, and return their sums of losses and changes."""
        if number:
            # This raises an earlier error of this or another thread.
            self.received[number - 1].result()
        found = steps(self.shares[number], self.u, boost)
        send(self.u, self.known, self.where, 1.0 / boost, self.news[number % 2])
        return found

    def receive(self, number: int, threads: list[_Thread]) -> None:
        """Wait for the news of the other threads and apply it."""
        for other in threads:
            other.sent[number].result()
            if other is not self:
                receive(self.u, self.known, self.where, other.news[number % 2])


def parallel_pass(steps: Steps, order: Ints, copies: Floats, metric: Floats, agreed: Floats) -> tuple[float, float]:
    """Run `steps(rows, u, boost)` in threads, and return the sums of its results; all start from copies of the same u.

    The first copy receives the sum of all changes. `agreed` is space for the u of the last full synchronisation.
    """
    total, moved, jobs = 0.0, 0.0, len(copies)
    cut, boost = often(metric), max(1.0, BOOST * jobs)
    where, ends = np.flatnonzero(metric > cut), ranges(len(metric), jobs)
    parts = [slice(first, end) for first, end in pairwise(ends.tolist())]
    in_threads(jobs, lambda k: np.copyto(agreed[parts[k]], copies[0, parts[k], 0]))
    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(jobs)]
        for full, part in enumerate(np.array_split(order, len(SYNCS))):
            pieces = [np.array_split(piece, jobs) for piece in np.array_split(part, jobs * SYNCS[full])]
            threads = [_Thread(copies[k], where, [piece[k] for piece in pieces]) for k in range(jobs)]
            for number in range(len(pieces)):
                for pool, thread in zip(pools, threads, strict=True):
                    thread.sent.append(pool.submit(thread.work, number, steps, boost))
                for pool, thread in zip(pools, threads, strict=True):
                    thread.received.append(pool.submit(thread.receive, number, threads))
            for thread in threads:
                thread.received[-1].result()
            shared = (copies, agreed, metric, cut, 1.0 / boost, full + 1 == len(SYNCS))
            for future in [pool.submit(merge, *shared, ends[k], ends[k + 1]) for k, pool in enumerate(pools)]:
                future.result()
            for losses, changes in (future.result() for thread in threads for future in thread.sent):
                total, moved = total + losses, moved + changes
    return total, moved
