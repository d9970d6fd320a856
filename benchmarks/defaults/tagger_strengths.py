"""The constants of `SequenceTagger`'s default strength, chosen with one data set left out at a time.

`python -m benchmarks.defaults.tagger_strengths measure [SET ...]` learns with several strengths from the training part
of each tagging problem, from a quarter of it, and from its first 20, 60 and 200 sentences, and scores the development
part (`Tagging.split`; test parts are not used). `... choose` tries every rule of `RULES`, strength =
c / (sentences + few), on these curves, by interpolation in the logarithm of c. For each set, it chooses the rule with
the fewest weights among those whose mean score on the *other* sets is at most `TIE` below the best.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.defaults.crfsuite import FEATURES
from benchmarks.defaults.sentence_sets import tagging, taggings
from spom import SequenceTagger
from spom.penalties import L1

RESULTS = Path(__file__).parent / "results" / "tagger_strengths.json"
# Strengths times sentences: for large parts, and for the first sentences.
LARGE = {"phrases": (0.2, 0.4, 0.8, 1.6), "labels": (0.05, 0.1, 0.2, 0.4)}
SMALL = {"phrases": (0.05, 0.2, 0.4, 0.8), "labels": (0.0125, 0.05, 0.1, 0.2)}
FIRST = (20, 60, 200)
# With fewer sentences a quarter carries little information, and with fewer development sentences nothing does.
LEAST, JUDGES = 100, 50
TIE = 0.0005


class Rule(NamedTuple):
    """The strength is c / (sentences + few)."""

    c: float
    few: float


RULES = {
    "phrases": [Rule(*values) for values in product((0.2, 0.3, 0.4, 0.6, 0.8), (0.0, 100.0, 300.0, 1000.0))],
    "labels": [Rule(*values) for values in product((0.05, 0.1, 0.2, 0.3, 0.4), (0.0, 100.0, 300.0, 1000.0))],
}
BEFORE = {"phrases": Rule(0.2, 0.0), "labels": Rule(0.05, 0.0)}


def curve(train: Any, dev: Any, grid: tuple[float, ...]) -> dict[str, Any]:
    """Measure score and weights for each c."""
    n, scores, sizes = len(train[1]), [], []
    for c in grid:
        tagger = SequenceTagger(penalty=L1(c / n), random_state=0, verbose=0).fit(*train)
        scores.append(round(float(tagger.score(*dev)), 6))
        sizes.append(int(tagger.nonzeros_))
    return {"sentences": n, "c": list(grid), "scores": scores, "weights": sizes}


def curves(name: str) -> list[dict[str, Any]]:
    """Measure the curves of a set: from columns and dicts, on all sentences and a quarter, and on the first ones."""
    problem = tagging(name)
    kind, features = "labels" if problem.kind == "upos" else "phrases", FEATURES[problem.kind]
    (X, y), (held, gold) = problem.split()
    found = []
    for form in ("columns", "dicts"):
        train, dev = (X, held) if form == "columns" else ([features(x) for x in X], [features(x) for x in held])
        for step in (1, 4) if len(y) >= 4 * LEAST else (1,):
            part = curve((train[::step], y[::step]), (dev, gold), LARGE[kind])
            found.append({"kind": kind, "form": form, **part})
    for n in FIRST if len(y) > 2 * FIRST[-1] else ():
        part = curve((X[:n], y[:n]), (held[:1000], gold[:1000]), SMALL[kind])
        found.append({"kind": kind, "form": "columns", **part})
    return found


def measure(names: list[str]) -> None:
    """Measure all sets, or the named ones, that are not measured yet."""
    for name in names or list(taggings()):
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name not in done and len(tagging(name).split()[1][1]) >= JUDGES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[name] = curves(name)
            RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, {", "},\n {") + "\n")
            print(name, flush=True)


def at(rule: Rule, found: dict[str, Any]) -> tuple[float, float]:
    """Return (score, logarithm of weights) on a curve at the strength of a rule."""
    n, grid = found["sentences"], np.log(found["c"])
    place = np.log(rule.c * n / (n + rule.few))
    weights = np.interp(place, grid, np.log(np.maximum(found["weights"], 1)))
    return float(np.interp(place, grid, found["scores"])), float(weights)


def gains(kind: str) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return (sets, changes of score, changes of log weights) relative to the previous rule, a row per set."""
    tables: dict[str, list[Any]] = defaultdict(list)
    for name, entries in json.loads(RESULTS.read_text()).items():
        for found in entries:
            if found["kind"] == kind:
                old = np.array(at(BEFORE[kind], found))
                tables[name].append([np.array(at(rule, found)) - old for rule in RULES[kind]])
    means = np.array([np.mean(rows, axis=0) for rows in tables.values()])
    return list(tables), means[:, :, 0], means[:, :, 1]


def chosen(score: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]) -> int:
    """Return the index of the rule with the fewest weights among those that are as good as the best."""
    mean = score.mean(axis=0)
    return int(min(np.flatnonzero(mean >= mean.max() - TIE), key=lambda k: float(weights[:, k].mean())))


def show(kind: str) -> None:
    """Print the rule that each left-out set gets, and the choice on all sets."""
    names, score, weights = gains(kind)
    picks = [chosen(np.delete(score, i, axis=0), np.delete(weights, i, axis=0)) for i in range(len(names))]
    print(f"{kind}: {len(names)} sets; chosen without a set: {Counter(RULES[kind][k] for k in picks)}")
    own = [score[i, k] for i, k in enumerate(picks)]
    less = np.exp(np.mean([weights[i, k] for i, k in enumerate(picks)]))
    print(f"  on the sets left out: {np.mean(own):+.4f}, worst {min(own):+.4f}, weights times {less:.2f}")
    for k in {chosen(score, weights), int(score.mean(axis=0).argmax())}:
        size = np.exp(weights[:, k].mean())
        print(f"  on all: {RULES[kind][k]} {score[:, k].mean():+.4f}, worst {score[:, k].min():+.4f}, times {size:.2f}")


def main(arguments: list[str]) -> None:
    """Run `measure [SET ...]` or `choose`."""
    if arguments[:1] == ["measure"]:
        measure(arguments[1:])
    else:
        for kind in RULES:
            show(kind)


if __name__ == "__main__":
    main(sys.argv[1:])
