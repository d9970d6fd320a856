"""Kernels with a stated error: knockoffs of the targets, and the threshold of `spom.solvers.knockoffs`.

With A the targets less their mean (a column for each class), Z_m^2 is the sum over columns of a' K_m a: the squared
norm of the gradient of kernel m at zero. A knockoff of a kernel has its rows permuted; a' K a of that is the same with
the entries of a permuted, so that a matrix product gives c of them. Where rows are independent of each other and kernel
m tells nothing about the targets, Z_m is as likely the largest as each of its c knockoffs. There are 2 / rate of them,
so that even one kernel alone can stand out. Before the threshold each kernel's lead is divided by the spread of its own
c + 1 values, as a narrow kernel differs from its knockoffs by less than a wide one.

What is promised is about kernels that are independent of the targets, each by itself; one that only repeats another
kernel has a connection with the targets, and counts as a discovery.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.solvers.knockoffs import Stated, leads, stated

# Rows that kernels are judged by, at most.
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
    """The kernels to keep, of `count`, so that the expected share of noise among them is at most `rate`.

    `block(m, rows)` gives K_m(x_i, x_j) for i and j in `rows`; `targets` has a row for each example, whose weight is
    in it, and columns that sum to zero over the examples.
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
    """The lead of the first over the others, in units of the distance between the quartiles of all."""
    spread = float(np.subtract(*np.percentile(sizes, [75.0, 25.0])))
    # Values that differ by rounding alone say nothing.
    if spread <= 1e-6 * float(sizes.max(initial=0.0)):
        return 0.0
    return float(leads(sizes[:1], sizes[None, 1:])[0]) / spread
