"""The cost of `--checkpoint-every 1`: training with a checkpoint after every epoch against training without.

Seconds are those of the training thread, which copies the data to be written, and wall seconds, which include the
writing thread if no core is free. Reported are medians of the ratios of alternating runs; the floor is 1.03 for the
training thread. Epochs whose checkpoint would cost too much have none; the number of written checkpoints and their size
are printed. The file is on the disk of the temporary folder.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spom
from benchmarks.common import Table, data_folder
from spom.data import load, read_conll, read_conllu

FLOOR, PAIRS = 1.03, 9


class Written:
    """A counter of checkpoints that keeps the size of the last one."""

    def __init__(self) -> None:
        self.count = self.size = 0

    def on_checkpoint(self, path: Path) -> None:
        self.count, self.size = self.count + 1, path.stat().st_size


def tagger(folder: Path) -> Callable[..., Any]:
    """Return a fit of all of CoNLL-2000 with the defaults."""
    columns = read_conll(folder / "conll2000" / "train.txt.gz")
    return lambda seen, **more: spom.SequenceTagger(random_state=0, verbose=0, callbacks=seen).fit(columns, **more)


def parser(folder: Path) -> Callable[..., Any]:
    """Return a fit of all of EWT with the defaults."""
    bank = read_conllu(folder / "ewt" / "en_ewt-ud-train.conllu.gz")
    return lambda seen, **more: spom.DependencyParser(verbose=0, callbacks=seen).fit(bank, **more)


def classifier(folder: Path) -> Callable[..., Any]:
    """Return a fit of the first 10,000 digits of MNIST with the defaults."""
    X, y = load("mnist").part("train")
    X, y = X[:10_000], y[:10_000]
    return lambda seen, **more: spom.OnlineClassifier(random_state=0, verbose=0, callbacks=seen).fit(X, y, **more)


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Return (seconds of this thread, wall seconds)."""
    gc.collect()
    own, wall = time.thread_time(), time.perf_counter()
    run()
    return time.thread_time() - own, time.perf_counter() - wall


def ratios(fit: Callable[..., Any], pairs: int, written: Written) -> tuple[float, float, float, float]:
    """Return medians of pairs: (seconds without, seconds with, ratio in the training thread, wall ratio)."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        # As in the command: without a last checkpoint at the end, as it would be removed.
        kept = {"checkpoint": Path(name) / "state", "checkpoint_every": "1 or stop"}
        fit(Written(), **kept)
        for turn in range(pairs):
            if turn % 2:
                (a, x), (b, y) = seconds(lambda: fit(Written())), seconds(lambda: fit(written, **kept))
            else:
                (b, y), (a, x) = seconds(lambda: fit(written, **kept)), seconds(lambda: fit(Written()))
            found.append((a, b, b / a, y / x))
    a, b, own, wall = (statistics.median(column) for column in zip(*found, strict=True))
    return a, b, own, wall


def main(part: str = "") -> None:
    """Print the table."""
    place = data_folder()
    if place is None:
        return
    table = Table(f"a checkpoint after every epoch: seconds of training with and without, medians of {PAIRS} pairs")
    for make in (tagger, classifier, parser):
        if part and make.__name__ != part:
            continue
        written = Written()
        without, kept, own, wall = ratios(make(Path(place)), PAIRS, written)
        size = f"{written.count / PAIRS:.1f} of {written.size / 1e6:.0f} MB"
        what = f"{make.__name__}: {own:.3f} (wall {wall:.2f}), {size}"
        table.add(what, kept, without, f"at most {FLOOR}", own <= FLOOR, " s")
