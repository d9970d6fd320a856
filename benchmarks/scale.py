"""Shards, streams and clusters against the limit of this machine, which is measured in the same run.

The limit is the gain of two independent runs at once, in separate processes, over one after the other. A share is the
gain of two workers over that limit, in which the time of one worker cancels out: the seconds of two runs at once over
those of two consecutive runs with two workers. The latter are measured around the former in each turn, so that a change
of the machine's speed affects both; reported are medians of turns. BLAS has one thread everywhere. `python -m
benchmarks scale`, or a part: `scale:stream`. Parts: tagger, parser, predict, batch, quality, stream, dask, model (the
source of docs/guide/scale-model.rst).
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.common import Table, data_folder
from spom import DependencyParser, OnlineClassifier, ProximalClassifier, SequenceTagger
from spom.data import read_conll, read_conllu
from spom.data.columns import joined
from spom.data.conllu import join_treebanks
from spom.penalties import L1, SquaredL2
from spom.scale import Shards, Stream, fit, predict
from spom.scale.executor import Processes

TURNS = int(os.environ.get("SPOM_TURNS", "3"))
REPEAT = int(os.environ.get("SPOM_REPEAT", "10"))
Run = Callable[[int], Any]


@functools.cache
def data(name: str) -> Any:
    """Return a file of the folder of data sets."""
    path = Path(os.environ["SPOM_DATA"]) / name
    return read_conllu(path) if "conllu" in name else read_conll(path)


def seconds(work: Callable[[], Any]) -> float:
    """Return wall seconds, because several workers are compared with one."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


# --- the limit ----------------------------------------------------------------------------------------------------


@functools.cache
def made(name: str) -> Run:
    """Return the work of a part: run(n_jobs)."""
    return WORK[name]()


_gate: Any = None


def _open(gate: Any) -> None:
    global _gate
    _gate = gate
    threadpool_limits(1)


def alone(name: str) -> float:
    """Time one run with one worker in this process, started at the same time as that of the other process."""
    run = made(name)
    _gate.wait()
    return seconds(lambda: run(1))


class Pair:
    """Two processes that do the same work at once, as two users of this machine would."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pool = context.Pool(2, _open, (context.Barrier(2),))

    def at_once(self, name: str) -> float:
        """Return the seconds until both are done."""
        return max(self.pool.map(alone, [name, name], chunksize=1))


def compare(table: Table, pair: Pair, name: str, floor: float) -> None:
    """Compare two workers with one, and with the limit, in turns."""
    run, shares, gains, limits = made(name), [], [], []
    run(2)
    pair.at_once(name)
    for _ in range(TURNS):
        before, both, after = seconds(lambda: run(2)), pair.at_once(name), seconds(lambda: run(2))
        one = seconds(lambda: run(1))
        gains.append(2.0 * one / (before + after))
        limits.append(2.0 * one / both)
        shares.append(both / (before + after))
    gain, limit, share = map(statistics.median, (gains, limits, shares))
    what = f"{name}: gain of two, limit, share"
    table.add(f"{what} {share:.2f}", gain, limit, f"share >= {floor}", share >= floor, "x")


# --- work ---------------------------------------------------------------------------------------------------------


def tagger() -> Run:
    shards = Shards.arrays(joined([data("conll2000/train.txt.gz")] * REPEAT), None, 8)
    return lambda n: fit(SequenceTagger(random_state=0, verbose=0, epochs=2), shards, n_jobs=n)


def parser() -> Run:
    shards = Shards.arrays(data("ewt/en_ewt-ud-train.conllu.gz"), None, 8)
    return lambda n: fit(DependencyParser(verbose=0), shards, n_jobs=n)


def predict_tagger() -> Run:
    model = SequenceTagger(random_state=0, verbose=0, epochs=2).fit(data("conll2000/train.txt.gz"))
    test = data("conll2000/test.txt.gz")
    shards = Shards.arrays(joined([test] * 10).select([0, 1]), None, 16)
    return lambda n: predict(model, shards, n_jobs=n)


def predict_parser() -> Run:
    model = DependencyParser(verbose=0, epochs=1, label_epochs=1, n_jobs=1).fit(data("ewt/en_ewt-ud-train.conllu.gz"))
    test = data("ewt/en_ewt-ud-test.conllu.gz").without_trees()
    shards = Shards.arrays(join_treebanks([test] * 10), None, 16)
    return lambda n: predict(model, shards, n_jobs=n)


@functools.cache
def zipf(rows: int = 400_000, columns: int = 50_000, per_row: int = 30) -> tuple[Any, Any]:
    """Draw sparse rows whose features follow Zipf's law."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, columns + 1)
    indices = rng.choice(columns, size=rows * per_row, p=share / share.sum())
    X = sparse.csr_matrix(
        (np.ones(rows * per_row), indices, np.arange(0, rows * per_row + 1, per_row)), (rows, columns)
    )
    X.sum_duplicates()
    w = rng.standard_normal(columns)
    return X, np.where(X @ w + rng.standard_normal(rows) > 0, 1, 0)


def batch() -> Run:
    shards = Shards.arrays(*zipf(), 4)

    def run(n: int) -> Any:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit(ProximalClassifier(penalty=SquaredL2(1e-4), verbose=0, tol=1e-9, max_iter=30), shards, n_jobs=n)

    return run


WORK: dict[str, Callable[[], Run]] = {
    "tagger": tagger,
    "parser": parser,
    "predict: tagger": predict_tagger,
    "predict: parser": predict_parser,
    "batch": batch,
}
FLOORS = {"tagger": 0.85, "parser": 0.85, "predict: tagger": 0.9, "predict: parser": 0.9, "batch": 0.85}


def speed(part: str) -> None:
    """Run all of `WORK` whose names start with `part`, and check for the same bits with one worker and two."""
    pair, table = Pair(), Table(f"two threads against one: {part}")
    for name in [name for name in WORK if name.startswith(part)]:
        compare(table, pair, name, FLOORS[name])
    pair.pool.terminate()
    if part in ("tagger", "parser"):
        weights = [m.weights_ if part == "tagger" else m.arcs_.weights for m in map(made(part), (1, 2))]
        table.add(f"{part}: weights that differ", float((weights[0] != weights[1]).sum()), reached=None)
        table.add(f"{part}: equal scores", 0.0, target="the same bits", reached=bool((weights[0] == weights[1]).all()))
    if part == "batch":
        X, y = zipf(100_000)
        whole = ProximalClassifier(penalty=SquaredL2(1e-2), verbose=0, tol=1e-9).fit(X, y)
        parts = fit(ProximalClassifier(penalty=SquaredL2(1e-2), verbose=0, tol=1e-7), Shards.arrays(X, y, 4), n_jobs=2)
        gap = abs(parts.objective_ - whole.objective_)
        table.add("batch: objective of shards minus that of one machine", gap, target="<= 1e-8", reached=gap <= 1e-8)


def quality() -> None:
    """Compare 8 shards with one machine on test sets, after at most twice the passes."""
    table = Table("8 shards (ours) against one machine (peer)")
    train, test = data("conll2000/train.txt.gz"), data("conll2000/test.txt.gz")
    bank, held = data("ewt/en_ewt-ud-train.conllu.gz"), data("ewt/en_ewt-ud-test.conllu.gz")
    begin = time.process_time()
    whole = SequenceTagger(random_state=0, verbose=0).fit(train)
    between = time.process_time()
    parts = fit(SequenceTagger(random_state=0, verbose=0), Shards.arrays(train, None, 8), n_jobs=1)
    cpu = (time.process_time() - between, between - begin)
    F1 = parts.score(test), whole.score(test)
    table.add("CoNLL-2000 F1, 6 passes and 6", *F1, "within .002", F1[0] >= F1[1] - 0.002)
    table.add("CoNLL-2000 CPU seconds, 6 passes and 6", *cpu, "at most twice", cpu[0] <= 2.0 * cpu[1])
    one = DependencyParser(verbose=0, labels=False).fit(bank).evaluate(held).uas
    model = DependencyParser(verbose=0, labels=False, epochs=12)
    two = fit(model, Shards.arrays(bank, None, 8)).evaluate(held).uas
    table.add("EWT UAS, 12 passes and 6", two, one, "within .002", two >= one - 0.002)


# --- streams ------------------------------------------------------------------------------------------------------


def resident() -> float:
    """Return the memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def streamed(gigabytes: float) -> tuple[list[float], float]:
    """Make one pass over so many gigabytes of rows; return the memory at each block, and the accuracy."""
    X, y = zipf(26_000)
    size, found = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes, []

    def blocks() -> Iterator[tuple[Any, Any]]:
        for _ in range(int(gigabytes * 1e9 / size)):
            found.append(resident())
            yield X.copy(), y

    model = OnlineClassifier(penalty=L1(1e-5), random_state=0, verbose=0)
    model.fit(Stream(blocks(), window=20_000, seed=0), classes=[0, 1])
    return found, model.score(X, y)


def stream() -> None:
    """Compare memory in the first and the last tenth of a pass, in a process of its own."""
    table = Table("one pass over a stream of 2 GB, shuffled in windows of 20,000 rows")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found, accuracy = pool.apply(streamed, (2.0,))
    tenth = len(found) // 10
    first, last = statistics.median(found[:tenth]), statistics.median(found[-tenth:])
    reached = abs(last - first) <= 0.05 * first
    table.add("MB in the last tenth (ours) and the first (peer)", last, first, "within 5 %", reached)
    table.add("accuracy", accuracy)


# --- clusters -----------------------------------------------------------------------------------------------------


class Staying(Processes):
    """Processes that persist between fits, like the workers of a cluster."""

    def close(self) -> None:
        """Do nothing: the processes are needed again."""


def dask() -> None:
    """Compare a cluster of two workers with two processes of this machine, all started beforehand."""
    from distributed import Client, LocalCluster

    shards = Shards.arrays(joined([data("conll2000/train.txt.gz")] * 2), None, 8)
    run = lambda client: fit(SequenceTagger(random_state=0, verbose=0, epochs=4), shards, client=client)  # noqa: E731
    local = Staying(2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for there in (local, client):
            run(there)
        turns = [(seconds(lambda: run(client)), seconds(lambda: run(local))) for _ in range(TURNS)]
    Processes.close(local)
    ratio = statistics.median(ours / peer for ours, peer in turns)
    ours, peer = (statistics.median(column) for column in zip(*turns, strict=True))
    table = Table("Dask with two workers (ours) against two processes (peer)")
    table.add(f"tagger: seconds, ratio {ratio:.2f}", ours, peer, "at most 1.15 times", ratio <= 1.15, " s")


def model() -> None:
    """Measure the cost of a round, and write the page on 100 machines from it."""
    from benchmarks import scale_model

    scale_model.measure()
    print(scale_model.write_page())


PARTS: dict[str, Callable[[], None]] = {
    **{part: functools.partial(speed, part) for part in ("tagger", "parser", "predict", "batch")},
    **{"quality": quality, "stream": stream, "dask": dask, "model": model},
}


def main(part: str = "") -> None:
    """Run all parts, or one."""
    if data_folder() is None:
        return
    threadpool_limits(1)
    load = os.getloadavg()
    print(f"  load of the last minutes {load[0]:.1f}, {load[1]:.1f}, {load[2]:.1f} on {os.cpu_count()} cores")
    for name in [part] if part else PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
