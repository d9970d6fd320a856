"""The margin and the strength of `SequenceTagger` for labels that are no phrases, one treebank left out at a time.

`python -m benchmarks.defaults.tagger_margins measure [SET ...]` learns with several margins (`cost`) and strengths from
20, 200, 1,000 and 3,000 training sentences of each treebank, and from 20 of 3 to 11 words, and scores 600 development
sentences (`Tagging.split`; test parts are not used). `... choose` tries every rule of `RULES`, margin = 1 + 9 m /
(sentences + m) and strength = c / (sentences + few), by interpolation in logarithms. For each treebank, it chooses the
rule with the fewest weights among those whose mean score on the *other* treebanks is at most `TIE` below the best.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.defaults.crfsuite import FEATURES
from benchmarks.defaults.sentence_sets import tagging, treebanks
from spom import SequenceTagger
from spom.penalties import L1

RESULTS = Path(__file__).parent / "results" / "tagger_margins.json"
# Name: sentences, cuts, seeds for each cut.
SIZES = {"short": (20, 3, 2), "20": (20, 3, 2), "200": (200, 1, 2), "1000": (1000, 1, 1), "3000": (3000, 1, 1)}
SHORT = range(3, 12)
JUDGES = 600
# Smaller than for strengths alone: .0005 is half of the gain from 1,000 sentences.
TIE = 0.0002
MARGINS, TIMES = (1.0, 3.0, 10.0, 30.0), (1, 2, 4, 8, 16)
# With more sentences only the likely part of the grid: margins and multiples of the earlier strength.
LARGE = {1.0: (1, 2), 3.0: (1, 2, 4), 10.0: (2, 4, 8)}


class Rule(NamedTuple):
    """The margin is 1 + 9 m / (sentences + m), the strength c / (sentences + few)."""

    m: float
    c: float
    few: float


RULES = [Rule(*values) for values in product((0, 50, 100, 200, 400, 800), (0.2, 0.3, 0.4, 0.6), (50, 100, 200, 400))]


def before(n: int) -> float:
    """Return the earlier strength; its margin was 1."""
    return 0.4 / (n + 1000)


def grid(n: int) -> list[tuple[float, int]]:
    """Return the pairs of a margin and a multiple of the earlier strength."""
    if n >= 1000:
        return [(margin, times) for margin, some in LARGE.items() for times in some]
    return list(product(MARGINS, TIMES))


def measured(name: str) -> dict[str, Any]:
    """Return score and weights for each form of the sentences, size, margin and multiple of the earlier strength."""
    problem = tagging(name)
    (X, y), (held, gold) = problem.split()
    found: dict[str, Any] = {}
    for form, (size, (n, cuts, seeds)) in product(("dicts", "columns"), SIZES.items()):
        features = FEATURES[problem.kind] if form == "dicts" else list
        dev, rows = ([features(x) for x in held[:JUDGES]], gold[:JUDGES]), {}
        every = [i for i, labels in enumerate(y) if size != "short" or len(labels) in SHORT]
        for k in range(cuts):
            ids = every[k * n : k * n + n]
            if len(ids) < 0.75 * n:
                continue
            train = [features(X[i]) for i in ids], [y[i] for i in ids]
            for (margin, times), seed in product(grid(n), range(seeds)):
                penalty = L1(times * before(len(ids)))
                tagger = SequenceTagger(penalty=penalty, cost=margin, random_state=k + 10 * seed, verbose=0)
                score = tagger.fit(*train).score(*dev)
                rows.setdefault(f"{margin} {times}", []).append((score, tagger.nonzeros_))
        if rows:
            found[f"{form} {size}"] = {key: np.mean(values, axis=0).round(5).tolist() for key, values in rows.items()}
    return found


def measure(names: list[str]) -> None:
    """Measure all treebanks, or the named ones, that are not measured yet."""
    for name in names or [name for name in treebanks() if len(tagging(name).split()[0][1]) >= 60]:
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[name] = measured(name)
            RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, ", "},\n ") + "\n")
            print(name, flush=True)


def at(margin: float, strength: float, n: int, found: dict[str, list[float]]) -> tuple[float, float]:
    """Return (score, logarithm of weights) by interpolation, first along strengths, then along margins."""
    margins = sorted({float(key.split()[0]) for key in found})
    values = []
    for one in margins:
        times = sorted(int(key.split()[1]) for key in found if float(key.split()[0]) == one)
        scores, weights = zip(*(found[f"{one} {t}"] for t in times), strict=True)
        place, known = np.log(strength / before(n)), np.log(times)
        values.append((np.interp(place, known, scores), np.interp(place, known, np.log(weights))))
    along = [np.interp(np.log(margin), np.log(margins), column) for column in zip(*values, strict=True)]
    return float(along[0]), float(along[1])


def gains() -> tuple[list[str], np.ndarray[Any, Any]]:
    """Return the treebanks, and the changes of (score, log weights): one for each treebank, rule and size."""
    done, rows = json.loads(RESULTS.read_text()), []
    for found in done.values():
        own = []
        for rule in RULES:
            change: dict[str, list[Any]] = {size: [] for size in SIZES}
            for key, values in found.items():
                size = key.split()[1]
                n = SIZES[size][0]
                margin, strength = 1.0 + 9.0 * rule.m / (n + rule.m), rule.c / (n + rule.few)
                old = np.array(at(1.0, before(n), n, values))
                change[size].append(np.array(at(margin, strength, n, values)) - old)
            own.append([np.mean(values, axis=0) if values else (np.nan, np.nan) for values in change.values()])
        rows.append(own)
    return list(done), np.array(rows)


def chosen(changes: np.ndarray[Any, Any]) -> int:
    """Return the index of the rule with the fewest weights among those that are as good as the best."""
    mean = np.nanmean(np.nanmean(changes, axis=2), axis=0)
    good = np.flatnonzero(mean[:, 0] >= mean[:, 0].max() - TIE)
    return int(min(good, key=lambda k: float(mean[k, 1])))


def choose() -> None:
    """Print the rule that each left-out treebank gets, its gain there, and the choice on all treebanks."""
    names, changes = gains()
    picks = [chosen(np.delete(changes, i, axis=0)) for i in range(len(names))]
    print(f"{len(names)} treebanks; chosen without one: {Counter(RULES[k] for k in picks)}")
    own = np.array([changes[i, k] for i, k in enumerate(picks)])
    found = chosen(changes)
    for what, values in (("left out", own), (f"on all: {RULES[found]}", changes[:, found])):
        print(what)
        for j, size in enumerate(SIZES):
            score, weights = values[:, j, 0], np.exp(np.nanmean(values[:, j, 1]))
            print(f"  {size}: {np.nanmean(score):+.4f}, worst {np.nanmin(score):+.4f}, weights times {weights:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        choose()
