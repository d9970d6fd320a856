"""Shards: two threads against one, against the limit of the machine in the same run; scores against one machine.

The limit is what two independent runs at once gain over one after the other, in threads that share nothing but memory.
Parts: tagger, parser, predict, batch, quality, dask.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from spom import DependencyParser, ProximalClassifier, SequenceTagger
from spom.data import read_conll, read_conllu
from spom.data.columns import joined
from spom.penalties import SquaredL2
from spom.scale import Shards, fit, predict

TURNS = 3
FLOORS = {"tagger": 0.85, "parser": 0.85, "predict": 0.9, "batch": 0.85, "dask": 0.85}


def data(name: str) -> Any:
    """A file of the folder of data sets."""
    folder = Path(os.environ["SPOM_DATA"])
    path = folder / name
    return read_conllu(path) if "conllu" in name else read_conll(path)


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def at_once(work: Callable[[], Any]) -> float:
    """The seconds of two of these runs at the same time."""

    def both() -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return seconds(both)


def compare(name: str, run: Callable[[int], Any]) -> None:
    """`run(n_jobs)` with one and two threads, and the limit; medians of ratios within one turn."""
    gains, limits = [], []
    run(2)
    for _ in range(TURNS):
        one = seconds(lambda: run(1))
        two = seconds(lambda: run(2))
        limits.append(2.0 * one / at_once(lambda: run(1)))
        gains.append(one / two)
    gain, limit = statistics.median(gains), statistics.median(limits)
    share = statistics.median(g / limit for g, limit in zip(gains, limits, strict=True))
    floor = FLOORS[name]
    verdict = "ok" if share >= floor else "MISSED"
    print(f"  {name}: two threads {gain:.2f}x, limit {limit:.2f}x, share {share:.2f} (floor {floor}) {verdict}")


def tagger() -> None:
    train = data("conll2000/train.txt.gz")
    shards = Shards.arrays(joined([train] * int(os.environ.get("SPOM_REPEAT", "10"))), None, 8)
    compare("tagger", lambda n: fit(SequenceTagger(random_state=0, verbose=0, epochs=2), shards, n_jobs=n))


def parser() -> None:
    shards = Shards.arrays(data("ewt/en_ewt-ud-train.conllu.gz"), None, 8)
    compare("parser", lambda n: fit(DependencyParser(verbose=0, epochs=2, label_epochs=1), shards, n_jobs=n))


def predict_part() -> None:
    train, test = data("conll2000/train.txt.gz"), data("conll2000/test.txt.gz")
    model = SequenceTagger(random_state=0, verbose=0, epochs=2).fit(train)
    shards = Shards.arrays(joined([test] * 10).select([0, 1]), None, 16)
    compare("predict", lambda n: predict(model, shards, n_jobs=n))


def zipf(rows: int = 200_000, columns: int = 50_000, per_row: int = 30) -> tuple[Any, Any]:
    """Sparse rows whose features follow Zipf's law."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, columns + 1)
    indices = rng.choice(columns, size=rows * per_row, p=share / share.sum())
    X = sparse.csr_matrix(
        (np.ones(rows * per_row), indices, np.arange(0, rows * per_row + 1, per_row)), (rows, columns)
    )
    X.sum_duplicates()
    w = rng.standard_normal(columns)
    return X, np.where(X @ w + rng.standard_normal(rows) > 0, 1, 0)


def batch() -> None:
    X, y = zipf()
    shards = Shards.arrays(X, y, 4)
    made = lambda: ProximalClassifier(penalty=SquaredL2(1e-4), verbose=0, tol=1e-4, max_iter=30)  # noqa: E731
    compare("batch", lambda n: fit(made(), shards, n_jobs=n))
    whole = ProximalClassifier(penalty=SquaredL2(1e-2), verbose=0, tol=1e-9).fit(X, y)
    parts = fit(ProximalClassifier(penalty=SquaredL2(1e-2), verbose=0, tol=1e-7), shards, n_jobs=2)
    print(
        f"  batch: objective of shards minus that of one machine {parts.objective_ - whole.objective_:.1e} (floor 1e-8)"
    )


def quality() -> None:
    """8 shards against one machine on test sets: at most twice the passes."""
    train, test = data("conll2000/train.txt.gz"), data("conll2000/test.txt.gz")
    whole = SequenceTagger(random_state=0, verbose=0).fit(train).score(test)
    for passes in (6, 12):
        parts = fit(SequenceTagger(random_state=0, verbose=0, epochs=passes), Shards.arrays(train, None, 8)).score(test)
        print(f"  CoNLL-2000 F1: one machine, 6 passes {whole:.4f}; 8 shards, {passes} passes {parts:.4f}", flush=True)
    bank, held = data("ewt/en_ewt-ud-train.conllu.gz"), data("ewt/en_ewt-ud-test.conllu.gz")
    one = DependencyParser(verbose=0, labels=False).fit(bank).evaluate(held).uas
    for passes in (6, 12):
        model = DependencyParser(verbose=0, labels=False, epochs=passes)
        two = fit(model, Shards.arrays(bank, None, 8)).evaluate(held).uas
        print(f"  EWT UAS: one machine, 6 passes {one:.4f}; 8 shards, {passes} passes {two:.4f}", flush=True)


def dask() -> None:
    """A cluster of two workers against two processes of this machine."""
    from distributed import Client, LocalCluster

    shards = Shards.arrays(data("conll2000/train.txt.gz"), None, 8)
    run = lambda client: fit(SequenceTagger(random_state=0, verbose=0, epochs=4), shards, client=client, n_jobs=2)  # noqa: E731
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        run(client)
        ratios = [seconds(lambda: run("processes")) / seconds(lambda: run(client)) for _ in range(TURNS)]
    share = statistics.median(ratios)
    verdict = "ok" if share >= FLOORS["dask"] else "MISSED"
    print(f"  dask: two processes / two workers {share:.2f} (floor {FLOORS['dask']}) {verdict}")


PARTS = {"tagger": tagger, "parser": parser, "predict": predict_part, "batch": batch, "quality": quality, "dask": dask}


def main(part: str = "") -> None:
    for name in [part] if part else PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
