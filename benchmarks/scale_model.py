"""How long a pass takes on many machines, from what a round of a tagger costs here: compute, bytes, latency, merging.

With P shards on W machines of one worker each, a pass takes

    c ceil(P / W) / P + S (1 + ceil(log2(W + 1))) / v + R / v + m + P l,

c: seconds of compute of all shards; S, R: bytes of the state and of all results; v: bytes per second of a connection;
m: seconds that the driver packs, unpacks and merges; l: seconds that a task costs the scheduler. The state goes to one
worker and from there to others, each of which passes it on; results come to the driver one after another.
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

from spom import SequenceTagger
from spom.data import read_conll
from spom.data.columns import joined
from spom.scale import Shards, fit

FILE = Path(__file__).with_name("scale_model.json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "scale-model.rst"
SHARDS, COPIES, EPOCHS = 100, int(os.environ.get("SPOM_REPEAT", "4")), 3
MACHINES = (1, 2, 4, 8, 16, 32, 64, 100)
# Bytes per second of a network of 10 Gbit/s, where the connections of this machine are faster.
NETWORK = 1.25e9


def predicted(round_: dict[str, float], workers: int, speed: float | None = None) -> float:
    """The seconds of a pass on so many machines, by the formula of this module.

    >>> cost = {"shards": 4, "compute": 8.0, "state": 2e9, "results": 1e9, "speed": 1e9, "merging": 0.5, "task": 0.0}
    >>> predicted(cost, 1), predicted(cost, 4)
    (13.5, 11.5)
    """
    v, shards = speed or round_["speed"], round_["shards"]
    hops = 1 + math.ceil(math.log2(workers + 1))
    waves = math.ceil(shards / workers) / shards
    moved = (hops * round_["state"] + round_["results"]) / v
    return float(waves * round_["compute"] + moved + round_["merging"] + shards * round_["task"])


def measure() -> None:
    """Fit a tagger on one worker and on two, and store what a pass cost."""
    train = read_conll(Path(os.environ["SPOM_DATA"]) / "conll2000/train.txt.gz")
    shards = Shards.arrays(joined([train] * COPIES), None, SHARDS)
    found: dict[str, Any] = {"sentences": len(train) * COPIES, "copies": COPIES, "load": os.getloadavg()[0]}
    for workers in (1, 2):
        found[str(workers)] = _passes(shards, workers)
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def _passes(shards: Shards, workers: int) -> dict[str, float]:
    """Medians of what the passes after the first one cost, and how fast this cluster is."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        # Dask would rather have large values scattered; what is measured here is what `spom.scale` does.
        warnings.filterwarnings("ignore", message="Sending large graph")
        content = os.urandom(1 << 24)
        speeds = [_seconds(lambda: client.submit(len, content, pure=False).result()) for _ in range(3)]
        calls = _seconds(lambda: client.gather([client.submit(abs, k, pure=False) for k in range(500)]))
        model = fit(SequenceTagger(random_state=0, verbose=0, epochs=EPOCHS), shards, client=client)
    passes = [entry for entry in model.shard_report_ if entry["phase"] == "learn"][1:]
    rounds = {name: statistics.median(entry[name] for entry in passes) for name in passes[0] if name != "phase"}
    return {
        **{
            "shards": float(SHARDS),
            "compute": rounds["compute"],
            "state": rounds["sent"],
            "seconds": rounds["seconds"],
        },
        **{"results": rounds["bytes"] - rounds["sent"], "merging": max(0.0, rounds["seconds"] - rounds["waited"])},
        **{"speed": len(content) / statistics.median(speeds), "task": calls / 500},
    }


def _seconds(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def best(cost: dict[str, float], speed: float) -> int:
    """The number of machines from which on one more saves less than one part in a hundred, for good."""
    times = [predicted(cost, w, speed) for w in range(1, int(cost["shards"]) + 1)]
    return next(w for w, now in enumerate(times, 1) if now <= 1.01 * min(times))


def page(found: dict[str, Any]) -> str:
    """The part of the guide that tells of it."""
    one, two = found["1"], found["2"]
    speed = min(one["speed"], NETWORK)
    lines = [
        f"Measured on one machine: a tagger on {found['sentences']:,} sentences (CoNLL-2000, {found['copies']} times) "
        f"in {SHARDS} shards, a pass after the first:",
        f"{one['compute']:.1f} s of compute, {one['state'] / 1e6:,.0f} MB of state, {one['results'] / 1e6:,.0f} MB of "
        f"results, {one['merging']:.2f} s of merging, {1e3 * one['task']:.2f} ms a task,",
        f"{one['speed'] / 1e6:,.0f} MB/s between processes; load {found['load']:.1f}.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - workers",
        "     - seconds of a pass, by the model",
        "     - measured",
    ]
    for workers, cost in ((1, one), (2, two)):
        lines += [f"   * - {workers}", f"     - {predicted(one, workers):.2f}", f"     - {cost['seconds']:.2f}"]
    for workers in MACHINES[2:]:
        lines += [f"   * - {workers} machines", f"     - {predicted(one, workers, speed):.2f}", "     - "]
    at, few = best(one, speed), predicted(one, 1, speed)
    gain = few / predicted(one, at, speed)
    return "\n".join([
        *lines,
        "",
        f"Connections of machines are taken to carry {speed / 1e6:,.0f} MB/s. By this model adding machines "
        f"stops helping at {at}: a pass is {gain:.1f} times as fast",
        "as on one, and the rest is the state and the results on their way and the merging at the driver.",
        "",
    ])  # fmt: skip


def write_page() -> str:
    """Write the page from the stored measurements; its text."""
    text = page(json.loads(FILE.read_text()))
    PAGE.write_text(".. Written by `python -m benchmarks scale:model` from benchmarks/scale_model.json.\n\n" + text)
    return text
