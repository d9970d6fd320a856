"""What `checkpoint_every=1` costs: training with a checkpoint after every epoch against training without.

Seconds of the training thread, which makes the copy that is written, and wall seconds, in which the writing thread
shows where the machine has no core left for it. Medians of the ratios of runs side by side; the floor is 1.03 for the
training thread. The file is on the disk of the temporary folder.
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


def tagger(folder: Path) -> Callable[..., Any]:
    """CoNLL-2000, all of it, with the defaults."""
    columns = read_conll(folder / "conll2000" / "train.txt.gz")
    return lambda **more: spom.SequenceTagger(random_state=0, verbose=0).fit(columns, **more)


def parser(folder: Path) -> Callable[..., Any]:
    """The first 2,000 sentences of EWT, with the defaults."""
    bank = read_conllu(folder / "ewt" / "en_ewt-ud-train.conllu.gz")[:2000]
    return lambda **more: spom.DependencyParser(verbose=0).fit(bank, **more)


def classifier(folder: Path) -> Callable[..., Any]:
    """Polarity of sentences, with the defaults."""
    data = load("polarity")
    return lambda **more: spom.OnlineClassifier(random_state=0, verbose=0).fit(data.X, data.y, **more)


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """(of this thread, on the wall)."""
    gc.collect()
    own, wall = time.thread_time(), time.perf_counter()
    run()
    return time.thread_time() - own, time.perf_counter() - wall


def ratios(fit: Callable[..., Any], pairs: int = PAIRS) -> tuple[float, float, float, float]:
    """(seconds without, seconds with, ratio of the training thread, ratio of the wall), medians of pairs."""
    own, wall, plain, kept = [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state"
        fit(checkpoint=path, checkpoint_every=1)
        for turn in range(pairs):
            order = [{}, {"checkpoint": path, "checkpoint_every": 1}]
            found = [seconds(lambda more=more: fit(**more)) for more in (order if turn % 2 else order[::-1])]
            (a, x), (b, y) = found if turn % 2 else found[::-1]
            plain.append(a)
            kept.append(b)
            own.append(b / a)
            wall.append(y / x)
    median = statistics.median
    return median(plain), median(kept), median(own), median(wall)


def main(part: str = "") -> None:
    """Print the table; fail where a floor is missed."""
    place = data_folder()
    if place is None:
        return
    table = Table(f"a checkpoint after every epoch: seconds of training with and without, medians of {PAIRS} pairs")
    for make in (tagger, classifier, parser):
        if part and make.__name__ != part:
            continue
        without, kept, own, wall = ratios(make(Path(place)))
        what = f"{make.__name__}: {own:.3f} of the time of the training thread, {wall:.3f} on the wall"
        table.add(what, kept, without, f"at most {FLOOR}", own <= FLOOR, " s")
    table.hold()
