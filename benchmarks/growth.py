"""Costs that grow as they should: `partial_fit` of one row (`rows`), columns of different scales (`scales`).

CPU seconds of one thread, ratios in one run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import Table, measure
from spom import OnlineClassifier, ProximalClassifier
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


def forest(n: int = 14_000) -> tuple[Any, Any]:
    """54 columns as those of the forest cover data, metres and degrees beside 44 of zeros and ones; 7 classes."""
    random = np.random.default_rng(0)
    means, spread = (2800, 155, 14, 270, 46, 2350, 212, 223, 142, 1980), (280, 110, 7, 210, 58, 1550, 26, 20, 38, 1320)
    measured = np.asarray(means) + np.asarray(spread) * random.standard_normal((n, 10))
    areas = np.eye(4)[random.choice(4, n, p=[0.45, 0.05, 0.44, 0.06])]
    soils = np.eye(40)[random.choice(40, n, p=random.dirichlet(np.full(40, 0.3)))]
    X = np.column_stack([measured, areas, soils])
    standard = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    truth = 0.5 * random.standard_normal((54, 7)) * np.append(4.0, np.ones(53))[:, None]
    return X, (standard @ truth + random.gumbel(size=(n, 7))).argmax(axis=1)


def bench_scales() -> None:
    """Seven classes, columns of very different scales, default settings."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = Table("ProximalClassifier(), 14,000 x 54, 7 classes, badly scaled (peer: scaler and LogisticRegression)")
    X, y = forest()
    peer = measure(lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), repeats=3)
    mine = measure(lambda: ProximalClassifier(verbose=0).fit(X, y), repeats=3)
    fine = mine.result.converged_ and mine.seconds < 2.0
    table.add("CPU seconds to the duality gap", mine.seconds, peer.seconds, "converged, < 2 s", fine)
    table.add("accuracy on the training rows", mine.result.score(X, y), peer.result.score(X, y))


PARTS: dict[str, Callable[[], None]] = {"rows": bench_rows, "scales": bench_scales}


def main(part: str | None = None) -> None:
    for name, function in PARTS.items():
        if part in (None, name):
            function()
