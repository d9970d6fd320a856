"""The waiting time before the first result: importing, loading, compiling, one sentence per call.

CPU seconds of new processes, children included; medians of five, except that cold fits are run once. Modules are
compiled to bytecode beforehand on both sides, as an installation does; calls in one process are medians of CPU time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import judged

_DATA = """
import random
random.seed(0)
words = [f"w{i}" for i in range(200)]
X = [[[random.choice(words), "T"] for _ in range(24)] for _ in range(100)]
y = [["B" if w[-1] in "13579" else "O" for w, _ in x] for x in X]
"""
_TAGGER = _DATA + "from spom import SequenceTagger\nSequenceTagger(verbose=0).fit(X, y)\n"
_SGD = """
import numpy as np
from sklearn.linear_model import SGDClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 20))
SGDClassifier().fit(X, X[:, 0] > 0)
"""
_PARSER = """
from spom import DependencyParser
from spom.data import Treebank
words = [{"form": f"w{i}", "upos": "NOUN", "head": i, "deprel": "root" if i == 0 else "dep"} for i in range(21)]
trees = Treebank.from_sentences([words] * 20)
DependencyParser(verbose=0).fit(trees)
"""
_MKL = """
import numpy as np
from spom import MKLClassifier
X = np.random.default_rng(0).normal(size=(60, 4))
MKLClassifier().fit(X, X[:, 0] > 0)
"""
_BYTECODE = tempfile.TemporaryDirectory()


def cpu_seconds(command: list[str], **environment: str) -> float:
    """Return the CPU seconds of a process and of those that it starts."""
    before = os.times()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    given = {**kept, "PYTHONPYCACHEPREFIX": _BYTECODE.name, **environment}
    subprocess.run(command, env=given, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def typical(code: str, times: int = 5) -> float:
    cpu_seconds([sys.executable, "-c", code])
    return statistics.median(cpu_seconds([sys.executable, "-c", code]) for _ in range(times))


def predict_seconds(folder: Path) -> float:
    """Time `spom predict` of 100 sentences."""
    scope: dict[str, object] = {}
    exec(_DATA, scope)
    pairs = zip(scope["X"], scope["y"], strict=True)  # type: ignore[call-overload]
    text = "".join("".join(f"{w} {p} {t}\n" for (w, p), t in zip(*pair, strict=True)) + "\n" for pair in pairs)
    (folder / "a.txt").write_text(text)
    spom = [sys.executable, "-m", "spom"]
    model = str(folder / "a.spom")
    cpu_seconds([*spom, "train", "tagger", "--train", str(folder / "a.txt"), "--model", model])
    command = [*spom, "predict", "--model", model, str(folder / "a.txt"), "-o", str(folder / "b.txt")]
    cpu_seconds(command)
    return statistics.median(cpu_seconds(command) for _ in range(5))


def sentence_seconds() -> float:
    """Time one sentence of 24 tokens per call."""
    from spom import SequenceTagger

    scope: dict[str, object] = {}
    exec(_DATA, scope)
    X: list[list[list[str]]] = scope["X"]  # type: ignore[assignment]
    tagger = SequenceTagger(verbose=0).fit(X, scope["y"])
    return call_seconds(tagger.predict, [[x] for x in X * 10])


def tree_seconds() -> float:
    """Time one sentence of 21 words per call."""
    from spom import DependencyParser

    scope: dict[str, object] = {}
    exec(_PARSER, scope)
    trees: Any = scope["trees"]
    parser = DependencyParser(verbose=0).fit(trees)
    return call_seconds(parser.predict, [trees[k : k + 1] for k in range(len(trees))] * 30)


def call_seconds(function: Callable[[Any], Any], inputs: list[Any]) -> float:
    """Return the median CPU seconds of a call."""
    taken = []
    for given in inputs:
        begin = time.thread_time()
        function(given)
        taken.append(time.thread_time() - begin)
    return float(np.median(taken))


Figures = list[tuple[str, float, float, str]]


def cold() -> Figures:
    """Time first fits with an empty cache of compiled code."""
    rows: Figures = []
    # Compile the bytecode of the compiler, which would otherwise count in the fits below.
    cpu_seconds([sys.executable, "-c", "from spom.core.compiled import worker; worker.set_up()"])
    with tempfile.TemporaryDirectory() as folder:
        for name, code, floor in (("tagger", _TAGGER, 15.0), ("parser", _PARSER, 25.0), ("MKL", _MKL, 15.0)):
            cpu_seconds([sys.executable, "-c", code])
            taken = cpu_seconds([sys.executable, "-c", code], NUMBA_CACHE_DIR=f"{folder}/{name}")
            rows.append((f"cold first fit from source, {name}", taken, floor, "CPU s"))
    return rows


def warm() -> Figures:
    """Time new processes with everything compiled."""
    cpu_seconds([sys.executable, "-c", _TAGGER])
    ratio = typical(_TAGGER) / typical(_SGD)
    rows: Figures = [("import and first tagger fit, over SGDClassifier's", ratio, 1.0, "times")]
    with tempfile.TemporaryDirectory() as folder:
        rows.append(("spom predict of 100 sentences", predict_seconds(Path(folder)), 0.5, "CPU s"))
    return rows


def calls() -> Figures:
    """Time one sentence per call in a running process."""
    tagger = ("one sentence of 24 tokens per call, tagger", 1e6 * sentence_seconds(), 100.0, "us")
    return [tagger, ("one sentence of 21 words per call, parser", 1e3 * tree_seconds(), 0.7, "ms")]


PARTS: dict[str, Callable[[], Figures]] = {"cold": cold, "warm": warm, "calls": calls}


def main(part: str | None = None) -> None:
    """Print each figure next to its floor."""
    rows = [row for name, figures in PARTS.items() if part in (None, name) for row in figures()]
    for name, figure, floor, unit in rows:
        print(f"  {name:52s} {figure:8.2f} {unit:6s} floor {floor:6.1f} {judged(name, figure <= floor)}")
