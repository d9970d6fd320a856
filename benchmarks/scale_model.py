"""The time of a pass on many machines, from the cost of a tagger's shard here: compute, bytes, latency, merging.

With P shards on W machines of one worker each, a pass takes

    S / s + ceil(log2 W) S / v + u + P l + max(c ceil(P / W) + a, c + P a),    a = R / v + m,

c: seconds of compute per shard; S, R: bytes of the state and of the result of a shard; s, v: bytes per second from the
driver to a worker, through the scheduler, and from a worker to another or to the driver; u: seconds that a worker takes
to unpack the state; m: seconds that the driver takes to merge a result; l: seconds of the scheduler per task. The
state goes to one worker and from there to others, each of which passes it on. Results arrive at the driver one after
another, while other shards are computed.

Fewer shards are measured than are in the table: a shard is assumed to cost the same among 100.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from spom import SequenceTagger
from spom.data import read_conll
from spom.data.columns import joined
from spom.scale import Shards, fit

FILE = Path(__file__).with_name("scale_model.json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "scale-model.rst"
# The shards and passes that are measured, and the shards of the table.
MEASURED, COPIES, EPOCHS, SHARDS = 8, 2, 4, 100
MACHINES = (1, 2, 4, 8, 16, 32, 64, 100)
# Bytes per second of a network of 10 Gbit/s, used if the connections of this machine are faster.
NETWORK = 1.25e9


def predicted(cost: dict[str, float], workers: int, shards: int, network: float = math.inf) -> float:
    """Return the seconds of a pass on so many machines, by the formula of this module.

    >>> cost = {"compute": 2.0, "state": 2e9, "result": 5e8, "down": 1e9, "up": 1e9}
    >>> cost |= {"unpack": 0.0, "merging": 0.5, "task": 0.0}
    >>> predicted(cost, 1, 4), predicted(cost, 4, 4)
    (11.0, 12.0)
    """
    down, up, compute = min(cost["down"], network), min(cost["up"], network), cost["compute"]
    state = cost["state"] / down + math.ceil(math.log2(workers)) * cost["state"] / up
    arrival = cost["result"] / up + cost["merging"]
    busy = max(compute * math.ceil(shards / workers) + arrival, compute + shards * arrival)
    return float(state + cost["unpack"] + shards * cost["task"] + busy)


def measure() -> None:
    """Fit a tagger on one worker and on two, and store the cost of a pass."""
    train = read_conll(Path(os.environ["SPOM_DATA"]) / "conll2000/train.txt.gz")
    shards = Shards.arrays(joined([train] * COPIES), None, MEASURED)
    found: dict[str, Any] = {"sentences": len(train) * COPIES // MEASURED, "load": os.getloadavg()[0]}
    for workers in (1, 2):
        found[str(workers)] = _passes(shards, workers)
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def _passes(shards: Shards, workers: int) -> dict[str, float]:
    """Return median costs of a shard in the passes after the first, and the speed of this cluster."""
    from distributed import Client, LocalCluster, wait

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        # Dask recommends scattering large values, but this measures what `spom.scale` does.
        warnings.filterwarnings("ignore", message="Sending large graph")
        # About the sizes of a state and of a result.
        state, result = np.ones(100_000_000, dtype=np.uint8), np.ones(36_000_000, dtype=np.uint8)
        down, up = [], []
        for _ in range(5):
            down.append(_seconds(lambda: wait(client.submit(len, state, pure=False))))
            there = client.submit(np.copy, result, pure=False)
            wait(there)
            up.append(_seconds(lambda f=there: client.gather(f, direct=True)))  # type: ignore[misc]
        calls = _seconds(lambda: client.gather([client.submit(abs, k, pure=False) for k in range(500)]))
        model = fit(SequenceTagger(random_state=0, verbose=0, epochs=EPOCHS), shards, client=client)
    passes = [entry for entry in model.shard_report_ if entry["phase"] == "learn"][1:]
    each = {name: statistics.median(entry[name] for entry in passes) for name in passes[0] if name != "phase"}
    return {
        **{"compute": each["compute"] / MEASURED, "state": each["sent"], "seconds": each["seconds"]},
        **{"result": (each["bytes"] - each["sent"]) / MEASURED, "task": calls / 500},
        **{"merging": max(0.0, each["seconds"] - each["waited"]) / MEASURED, "unpack": each["transfer"] / workers},
        **{"down": state.nbytes / statistics.median(down), "up": result.nbytes / statistics.median(up)},
    }


def _seconds(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def best(cost: dict[str, float], shards: int = SHARDS, network: float = NETWORK) -> int:
    """Return the least number of machines whose pass takes at most 1 % longer than the fastest."""
    times = [predicted(cost, w, shards, network) for w in range(1, shards + 1)]
    return next(w for w, now in enumerate(times, 1) if now <= 1.01 * min(times))


def page(found: dict[str, Any]) -> str:
    """Return the part of the guide with the measurements."""
    one, two = found["1"], found["2"]
    lines = [
        f"Measured on one machine of two cores (load {found['load']:.1f}), a tagger on {MEASURED} shards of "
        f"{found['sentences']:,} sentences (CoNLL-2000, {COPIES} times), medians of {EPOCHS - 1} passes",
        f"with one worker: {one['compute']:.2f} s of compute and {one['result'] / 1e6:,.0f} MB of results for a shard, "
        f"{one['state'] / 1e6:,.0f} MB of state, {one['unpack']:.2f} s to unpack it,",
        f"{1e3 * one['merging']:.0f} ms to merge a shard,",
        f"{1e3 * one['task']:.1f} ms for a task; {one['down'] / 1e6:,.0f} MB/s from the driver to a worker through the "
        f"scheduler, {one['up'] / 1e6:,.0f} MB/s back.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - shards",
        "     - workers",
        "     - seconds of a pass, by the model",
        "     - measured",
    ]
    for workers, cost in ((1, one), (2, two)):
        lines += _row(MEASURED, workers, predicted(one, workers, MEASURED), f"{cost['seconds']:.2f}")
    for workers in MACHINES:
        lines += _row(SHARDS, workers, predicted(one, workers, SHARDS, NETWORK), "")
    at = best(one)
    gain = predicted(one, 1, SHARDS, NETWORK) / predicted(one, at, SHARDS, NETWORK)
    return "\n".join([
        *lines,
        "",
        f"A shard took {one['compute']:.2f} s of compute with one worker and {two['compute']:.2f} with two, "
        "which share memory and caches. " + _checked(one, two),
        "",
        f"The rows of {SHARDS} shards were not measured. They assume shards and a state as large as those measured (new"
        " text would bring new",
        f"features), and connections as fast as here, at most {NETWORK / 1e6:,.0f} MB/s. By this model more than {at} "
        f"machines do not help: a pass is {gain:.1f} times as fast as on one. The",
        "remaining time goes into sending states, and into results, which one driver merges one by one.",
        "",
    ])  # fmt: skip


def _checked(one: dict[str, float], two: dict[str, float]) -> str:
    """Return a text on the errors of the model against the measurements."""
    gaps = [abs(predicted(one, w, MEASURED) / cost["seconds"] - 1.0) for w, cost in ((1, one), (2, two))]
    return (
        f"The model is off by {gaps[0]:.0%} for one worker, by {gaps[1]:.0%} for two;\n"
        f"the rows of {SHARDS} shards are at least as uncertain."
    )


def _row(shards: int, workers: int, model: float, measured: str) -> list[str]:
    return [f"   * - {shards}", f"     - {workers}", f"     - {model:.2f}", f"     - {measured}".rstrip()]


def write_page() -> str:
    """Write the page from the stored measurements, and return its text."""
    text = page(json.loads(FILE.read_text()))
    PAGE.write_text(".. Written by `python -m benchmarks scale:model` from benchmarks/scale_model.json.\n\n" + text)
    return text
