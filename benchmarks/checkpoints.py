"""What `--checkpoint-every 1` costs: training with checkpoints after every epoch against training without.

Seconds of the training thread, which makes the copy that is written, and wall seconds, in which the writing thread
shows where the machine has no core left for it. Medians of the ratios of runs side by side; the floor is 1.03 for the
training thread. Epochs whose checkpoint would cost too much have none: the number that was written is printed, and so
is its size. The file is on the disk of the temporary folder.
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
    """Counts checkpoints, and keeps the size of the last."""

    def __init__(self) -> None:
        self.count = self.size = 0

    def on_checkpoint(self, path: Path) -> None:
        self.count, self.size = self.count + 1, path.stat().st_size


def tagger(folder: Path) -> Callable[..., Any]:
    """CoNLL-2000, all of it, with the defaults."""
    columns = read_conll(folder / "conll2000" / "train.txt.gz")
    return lambda seen, **more: spom.SequenceTagger(random_state=0, verbose=0, callbacks=seen).fit(columns, **more)


def parser(folder: Path) -> Callable[..., Any]:
    """EWT, all of it, with the defaults."""
    bank = read_conllu(folder / "ewt" / "en_ewt-ud-train.conllu.gz")
    return lambda seen, **more: spom.DependencyParser(verbose=0, callbacks=seen).fit(bank, **more)


def classifier(folder: Path) -> Callable[..., Any]:
    """The first 10,000 digits of MNIST, with the defaults."""
    X, y = load("mnist").part("train")
    X, y = X[:10_000], y[:10_000]
    return lambda seen, **more: spom.OnlineClassifier(random_state=0, verbose=0, callbacks=seen).fit(X, y, **more)


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """(of this thread, on the wall)."""
    gc.collect()
    own, wall = time.thread_time(), time.perf_counter()
    run()
    return time.thread_time() - own, time.perf_counter() - wall


def ratios(fit: Callable[..., Any], pairs: int, written: Written) -> tuple[float, float, float, float]:
    """(seconds without, seconds with, ratio of the training thread, ratio of the wall), medians of pairs."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        # As the command asks for them: not once more at the end, where they are removed.
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
