"""The cost of a tagger's epoch as sentences, templates and labels grow."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table
from spom.data import read_conll
from spom.features import Templates
from spom.penalties import L1
from spom.solvers.structured.chains import OnlineChain


def epoch_seconds(rows: Any, y: Any, labels: int, blocks: Any) -> float:
    """Return the CPU seconds of an epoch, the least of two after a first one."""
    solver = OnlineChain(rows, y, labels, blocks=blocks, penalty=L1(3e-5), epochs=3, random_state=0)
    found = []
    for _ in range(3):
        begin = time.process_time()
        solver.one_pass()
        found.append(time.process_time() - begin)
    return min(found[1:])


def exponent(x: list[float], seconds: list[float]) -> float:
    """Return the slope of a line in log-log scale."""
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0])


def scaling(folder: Path) -> None:
    """Measure three curves: tokens, templates, labels."""
    table = Table("An epoch of the default tagger as the problem grows: exponent of the cost (seconds of the largest)")
    train = read_conll(folder / "train.txt.gz")
    codes, names = train.distinct(2)
    k = len(names)
    curves: dict[str, tuple[list[float], list[float]]] = {}

    sizes = [1000, 2000, 4000, 8000]
    templates = Templates("chunking")
    whole = templates.fit(train)
    found = [epoch_seconds(whole[:n], codes[: train.offsets[n]], k, templates.blocks) for n in sizes]
    curves["tokens"] = ([float(train.offsets[n]) for n in sizes], found)

    counts = [3, 6, 12, 19]
    part = train[:4000]
    found = []
    for count in counts:
        some = Templates([template.text for template in Templates("chunking").templates[:count]])
        rows = some.fit(part)
        found.append(epoch_seconds(rows, codes[: train.offsets[4000]], k, some.blocks))
    curves["templates"] = ([float(count) for count in counts], found)

    # More labels: each label of the data is split at random.
    few = Templates(["w[0]"])
    rows, y = few.fit(train[:1000]), codes[: train.offsets[1000]]
    splits = [32, 64, 128, 256]
    rng, found = np.random.default_rng(0), []
    for labels in splits:
        found.append(epoch_seconds(rows, rng.integers(0, labels, y.size), labels, few.blocks))
    curves["labels"] = ([float(labels) for labels in splits], found)

    # More tokens bring more features, and the table outgrows the cache: an exponent a little above 1 is still linear.
    for name, limit, text in (("tokens", 1.2, "linear"), ("templates", 1.1, "linear"), ("labels", 2.2, "quadratic")):
        slope = exponent(*curves[name])
        shown = f"{name}, exponent (largest: {curves[name][1][-1]:.2f} s)"
        table.add(shown, slope, float("nan"), f"at most {text}", slope <= limit)
    print(f"  plot: {plot(curves)}")


def plot(curves: dict[str, tuple[list[float], list[float]]]) -> str:
    """Plot the three curves as SVG, and return its path; SPOM_PLOTS names the folder."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return "(install matplotlib)"
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
    for axis, (name, (x, seconds)) in zip(axes, curves.items(), strict=True):
        axis.loglog(x, seconds, "o-")
        axis.set_xlabel(name)
        axis.set_title(f"exponent {exponent(x, seconds):.2f}")
    axes[0].set_ylabel("seconds an epoch")
    figure.tight_layout()
    path = Path(os.environ.get("SPOM_PLOTS", tempfile.gettempdir())) / "tagging-scaling.svg"
    figure.savefig(path)
    return str(path)
