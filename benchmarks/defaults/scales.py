"""A common scale for all columns of few dense rows, chosen with one table left out at a time.

`python -m benchmarks.defaults.scales measure` learns from 20 to 600 of the *training* rows of ten tables (and of pairs
of their classes), with standardised columns and with one scale for all columns. It scores up to 2,000 other training
rows (test rows are not used). The losses of both on held-out rows go to `results/scales.json`, together with the
scores. If columns are not alike (`scaling.common`), there is nothing to choose. `... choose` then tries every rule of
`RULES`: by how many standard errors, and by what fraction of the log-loss, one scale must be better. For each table,
the rule with the largest mean gain on the *other* tables is chosen and tested on it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import spom
from benchmarks.defaults.leave_one_out import _problem
from benchmarks.defaults.sets import SETS
from spom.estimators.linear.scaling import Scaling, common, measured
from spom.estimators.linear.strength import Choice, Examples, choose
from spom.penalties import SquaredL2

RESULTS = Path(__file__).parent / "results" / "scales.json"
SEEDS, MOST = 3, 2000
# Tables, a pair of classes or all of them, and the numbers of training rows.
CUTS: list[tuple[str, tuple[Any, Any] | None, tuple[int, ...]]] = [
    ("iris", None, (20, 50)),
    ("wine", None, (20, 60)),
    ("breast_cancer", None, (40, 100)),
    ("adult", None, (60, 200)),
    ("mfeat", None, (40, 80)),
    ("digits", None, (60, 100, 200, 500)),
    ("digits", (3, 8), (20, 60)),
    ("letter", None, (200, 500)),
    ("letter", (5.0, 6.0), (40, 200)),
    ("pendigits", None, (60, 200, 600)),
    ("pendigits", (1.0, 7.0), (20, 60)),
    ("landsat", None, (60, 150, 500)),
    ("landsat", (4.0, 7.0), (40, 200)),
    ("mnist-5000", None, (60, 200)),
    ("mnist-5000", (4, 9), (20, 40, 200)),
]
RULES = list(product((-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, np.inf), (0.0, 0.02, 0.05, 0.1)))
Rows = tuple[Any, Any]


def cut(name: str, labels: tuple[Any, Any] | None, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Return (training rows, the same fraction of each class; other training rows)."""
    split = SETS[name].load(0)
    X, y = split.X, np.asarray(split.y)
    if labels is not None:
        X, y = X[np.isin(y, labels)], y[np.isin(y, labels)]
    rng = np.random.default_rng(1000 + seed)
    order = rng.permutation(y.size)
    order = order[np.argsort(y[order], kind="stable")]
    chosen = order[np.linspace(0, y.size - 1, rows).astype(np.int64)]
    rest = rng.permutation(np.setdiff1d(np.arange(y.size), chosen))[:MOST]
    return (X[chosen], y[chosen]), (X[rest], y[rest])


def learnt(scaling: Scaling, train: Rows, apart: Rows, seed: int) -> tuple[float, Choice]:
    """Return the score on the separate rows, and the choice made on held-out rows."""
    X, y = scaling.apply(train[0]), train[1]
    target, outputs, losses = _problem("classification", y)
    choice = choose(Examples(X, target, None, outputs, True), losses, SquaredL2(1.0), seed)
    model = spom.OnlineClassifier(choice.loss, choice.penalty, scale=False, random_state=seed, verbose=0).fit(X, y)
    return float(model.score(scaling.apply(apart[0]), apart[1])), choice


def one(name: str, labels: tuple[Any, Any] | None, rows: int, seed: int) -> dict[str, float]:
    """Return scores with standardised columns and with one scale; the gain in log-loss, its error, and its share."""
    train, apart = cut(name, labels, rows, seed)
    plain, other = measured(train[0], None, True), common(train[0], None)
    if other is None or plain is None:
        return {}
    (score, choice), (rival, found) = (learnt(s, train, apart, seed) for s in (plain, other))
    assert choice.best is not None
    assert found.best is not None
    gap = choice.best.losses - found.best.losses
    error, share = gap.std() / np.sqrt(gap.size), gap.mean() / choice.best.losses.mean()
    values = {"score": score, "one scale": rival, "gain": gap.mean(), "error": error, "share": share}
    return {key: round(float(value), 6) for key, value in values.items()}


def measure() -> None:
    """Measure all cuts that are not measured yet."""
    for seed, (name, labels, sizes) in product(range(SEEDS), CUTS):
        for rows in sizes:
            done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            pair = "" if labels is None else f" {labels[0]:g} {labels[1]:g}"
            key = f"{name}{pair}, {rows} rows, seed {seed}"
            if key in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[key] = {"table": name, **one(name, labels, rows, seed)}
            RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, ", "},\n ") + "\n")
            print(key, done[key], flush=True)


def gains(errors: float, share: float) -> tuple[dict[str, float], float]:
    """Return (a rule's gain on each table, as means over cuts and seeds; the worst mean over seeds of a cut)."""
    cuts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, found in json.loads(RESULTS.read_text()).items():
        takes = "gain" in found and found["gain"] > errors * found["error"] and found["share"] > share
        cuts[found["table"], key.rsplit(",", 1)[0]].append(found["one scale"] - found["score"] if takes else 0.0)
    tables: dict[str, list[float]] = defaultdict(list)
    for (name, _), values in cuts.items():
        tables[name].append(float(np.mean(values)))
    return {name: float(np.mean(values)) for name, values in tables.items()}, min(map(min, tables.values()))


def show() -> None:
    """Print the rule that each left-out table gets, and the rules on all tables."""
    found = {rule: gains(*rule) for rule in RULES}
    tables, own = list(found[RULES[0]][0]), []
    for name in tables:
        best = max(RULES, key=lambda rule: np.mean([v for k, v in found[rule][0].items() if k != name]))
        own.append(found[best][0][name])
        print(f"  without {name:<14} {best!s:<14} {own[-1]:+.4f}")
    print(f"  mean on tables that were left out: {np.mean(own):+.4f}")
    for rule in RULES:
        values = list(found[rule][0].values())
        least = min(np.mean(np.delete(values, i)) for i in range(len(values)))
        print(
            f"  {rule!s:<14} mean {np.mean(values):+.4f}, without any table >= {least:+.4f}, cut {found[rule][1]:+.4f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure()
    else:
        show()
