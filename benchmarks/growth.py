"""Costs that should follow the non-zeros: `partial_fit` of one row, weights of many classes.

CPU seconds of one thread, ratios in one run, medians. Parts: `rows`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import Table
from spom import OnlineClassifier
from spom.penalties import L1

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "L1, proximal point": {"penalty": L1(1e-5)},
    "L1, forward-backward": {"penalty": L1(1e-5), "update": "forward-backward", "step": "sqrt"},
    "L1, adaptive steps": {"penalty": L1(1e-5), "update": "forward-backward"},
    "L1, dual averaging": {"penalty": L1(1e-5), "update": "dual-averaging"},
}


def call_seconds(model: Any, rows: list[Any]) -> float:
    """The median of a call of `partial_fit` with one row, after the first five."""
    taken = []
    for k, row in enumerate(rows):
        begin = time.thread_time()
        model.partial_fit(row, [k % 2], classes=[0, 1])
        taken.append(time.thread_time() - begin)
    return statistics.median(taken[5:])


def bench_rows(d: int = 1_000_000) -> None:
    """One row of 50 non-zeros per call, beside SGDClassifier."""
    from sklearn.linear_model import SGDClassifier

    table = Table(f"partial_fit of one row, {d:,} features, CPU milliseconds (peer: SGDClassifier)")
    random = np.random.default_rng(0)
    places = [np.sort(random.choice(d, 50, replace=False)) for _ in range(60)]
    rows = [sparse.csr_matrix((np.ones(50), p, [0, 50]), shape=(1, d)) for p in places]
    for name, settings in SETTINGS.items():
        peer = call_seconds(SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-5), rows)
        mine = call_seconds(OnlineClassifier(**settings, verbose=0), rows)
        table.add(name, 1e3 * mine, 1e3 * peer, "ratio > 1", mine < peer)


PARTS: dict[str, Callable[[], None]] = {"rows": bench_rows}


def main(part: str | None = None) -> None:
    for name, function in PARTS.items():
        if part in (None, name):
            function()
