"""Selection of kernels with a bounded error: knockoffs of the targets, and the threshold of `spom.solvers.knockoffs`.

With A the targets minus their mean (a column per class), Z_m^2 is the sum over columns a of a' K_m a: the squared norm
of the gradient of kernel m at zero. A knockoff of a kernel has its rows permuted. Its a' K a equals that of K with the
entries of a permuted, so one matrix product gives c of them. If rows are independent of each other and kernel m carries
no information about the targets, Z_m is as likely to be the largest as each of its c knockoffs. There are 2 / rate
knockoffs, so even a single kernel can stand out. Before the threshold, each kernel's lead is divided by the spread of
its own c + 1 values, because a narrow kernel differs less from its knockoffs than a wide one.

The guarantee is about kernels that are independent of the targets, each by itself. A kernel that only repeats another
one is related to the targets, and counts as a discovery.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.solvers.knockoffs import Stated, leads, stated

# The maximum number of rows for judging kernels.
MOST = 2000


@dataclass(frozen=True)
class KernelSelection(Stated):
    """The kernels `kept`; `evidence` is the lead of each over its knockoffs, in units of their spread."""

    kept: Ints
    evidence: Floats
    rows: int
    seconds: float


def select_kernels(
    block: Callable[[int, Ints], Any], count: int, targets: Floats, rate: float, seed: int = 0
) -> KernelSelection:
    """Select kernels out of `count`, with an expected share of noise among them of at most `rate`.

    `block(m, rows)` gives K_m(x_i, x_j) for i and j in `rows`. `targets` has a row per example, multiplied by its
    weight, and columns that sum to zero over the examples.
    """
    begin, random = time.perf_counter(), np.random.default_rng(seed)
    copies = int(np.ceil(round(2.0 / rate, 9)))
    rows = np.sort(random.permutation(targets.shape[0])[:MOST])
    A = targets[rows] - targets[rows].mean(axis=0)
    evidence = np.zeros(count)
    for m in range(count):
        orders = [np.arange(rows.size), *(random.permutation(rows.size) for _ in range(copies))]
        every = np.concatenate([A[order] for order in orders], axis=1)
        K = block(m, rows)
        squares = (every * np.asarray(K @ every.astype(K.dtype))).sum(axis=0).reshape(1 + copies, -1).sum(axis=1)
        evidence[m] = _lead(np.sqrt(np.maximum(squares, 0.0)))
    promise = stated(evidence, rate, copies)
    return KernelSelection(
        kept=promise.found, evidence=evidence, rows=rows.size, seconds=time.perf_counter() - begin, **vars(promise)
    )


def _lead(sizes: Floats) -> float:
    """Return the lead of the first over the others, in units of the interquartile range of all."""
    spread = float(np.subtract(*np.percentile(sizes, [75.0, 25.0])))
    # Differences by rounding alone carry no information.
    if spread <= 1e-6 * float(sizes.max(initial=0.0)):
        return 0.0
    return float(leads(sizes[:1], sizes[None, 1:])[0]) / spread
