"""A Dask cluster of real processes for tests: small workers that are quick to start, and ways to lose them."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def local_cluster(workers: int) -> Iterator[tuple[Any, Any]]:
    """(cluster, client) on this machine, with one thread per worker and no dashboard."""
    distributed = pytest.importorskip("distributed")
    import dask

    settings = {
        **{"distributed.worker.daemon": True, "distributed.scheduler.allowed-failures": 2},
        # A busy machine takes longer than 15 seconds to start a process again; the cluster would give it up.
        "distributed.deploy.lost-worker-timeout": "300s",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def kill(client: Any, but: int = 0, number: int | None = None) -> None:
    """End some worker processes as a lost machine would: all but `but`, or `number` of them."""
    pids = sorted(client.run(os.getpid).values())
    gone = pids[: number if number is not None else len(pids) - but]
    for pid in gone:
        os.kill(pid, signal.SIGKILL)
