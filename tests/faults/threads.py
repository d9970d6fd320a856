"""`python -m tests.faults.threads 60`: sixteen threads predict with one model of each kind, and must agree with one.

Each thread predicts again and again for so many seconds, each time on another part of the data. Every answer is
compared with that of one thread: taggers, parsers, classifiers, kernels and the pipeline.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spom
from spom.data import Treebank
from tests.fuzz.models import cases

THREADS = 16
KINDS = ("two", "three", "sparse", "kernels", "kernels-sparse", "kernels-maps", "tagger", "tagger-dicts",
         "tagger-kernels", "parser", "parser-second", "parser-projective", "pipeline")  # fmt: skip


def parts(asked: Any) -> list[Any]:
    """Return the data, and cuts of it, so that threads are at different places."""
    if isinstance(asked, str):
        return [asked, *asked.split("\n\n")]
    if isinstance(asked, Treebank):
        return [asked, asked[:3], asked[2:]]
    return [asked, asked[:5], asked[3:9], asked[7:]]


def plain(found: Any) -> Any:
    """Return an answer in a form that can be compared."""
    if isinstance(found, Treebank):
        return found.heads.tolist(), found.relations.tolist(), list(found.columns.strings("upos"))
    return [np.asarray(one).tolist() for one in found]


def agree(models: dict[str, tuple[Any, Any]], seconds: float) -> Counter[str]:
    """Return how many answers of each kind were compared; raise an `AssertionError` if one differs."""
    alone = {name: [plain(model.predict(part)) for part in parts(asked)] for name, (model, asked) in models.items()}
    counts, wrong, end = Counter[str](), list[str](), time.monotonic() + seconds
    gate = threading.Barrier(THREADS)

    def work(number: int) -> None:
        own = Counter[str]()
        try:
            gate.wait()
            turn = number
            while time.monotonic() < end and not wrong:
                for name, (model, asked) in models.items():
                    at = turn % len(alone[name])
                    if plain(model.predict(parts(asked)[at])) != alone[name][at]:
                        wrong.append(f"{name}: part {at} in thread {number}")
                    own[name] += 1
                turn += 1
        except Exception as error:
            wrong.append(f"thread {number}: {error!r}")
        with lock:
            counts.update(own)

    lock = threading.Lock()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    return counts


def loaded(folder: Path, names: tuple[str, ...] = KINDS) -> dict[str, tuple[Any, Any]]:
    """Load models of these kinds from their files, with data."""
    found = {}
    for name in names:
        estimator, given, asked = cases()[name]
        estimator.fit(*given).save(folder / "model")
        found[name] = (spom.load_model(folder / "model"), asked)
        (folder / "model").unlink()
    return found


def run(seconds: float, report: Callable[[str], None] = print) -> None:
    """Run all kinds for so many seconds."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = agree(loaded(Path(folder)), seconds)
    report(f"{THREADS} threads, {seconds:g} s, {sum(counts.values())} answers, all those of one thread: {dict(counts)}")


if __name__ == "__main__":
    run(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
