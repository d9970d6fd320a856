"""The number of passes of `SequenceTagger`, chosen with one data set left out at a time.

`python -m benchmarks.defaults.tagger_epochs measure [SET ...]` learns with 6, 12 and 20 passes from the training part
of each tagging problem, from columns and from CRFsuite's features, with two seeds, and scores the development part
(`Tagging.split`; test parts are not used). `... choose` takes, for each set, the fewest passes whose mean score
on the *other* sets of its kind is at most `TIE` below the best, and prints the resulting gain on the set itself.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults.crfsuite import FEATURES
from benchmarks.defaults.sentence_sets import tagging, taggings
from spom import SequenceTagger

RESULTS = Path(__file__).parent / "results" / "tagger_epochs.json"
PASSES, SEEDS = (6, 12, 20), 2
# With fewer sentences another rule applies; with more, a run is too long. Fewer development sentences are useless.
LEAST, MOST, JUDGES = 800, 8000, 50
# Differences up to this do not count: the next number of passes takes about half as long again.
TIE = 0.002


def measured(name: str) -> list[dict[str, Any]]:
    """Measure scores, weights and CPU seconds per number of passes, as means over seeds: from columns, from dicts."""
    problem, found = tagging(name), []
    kind, features = "labels" if problem.kind == "upos" else "phrases", FEATURES[problem.kind]
    (X, y), (held, gold) = problem.split()
    X, y = X[:MOST], y[:MOST]
    for form in ("columns", "dicts"):
        train, dev = (X, held) if form == "columns" else ([features(x) for x in X], [features(x) for x in held])
        rows = []
        for passes in PASSES:
            begin = time.process_time()
            made = [SequenceTagger(epochs=passes, random_state=s, verbose=0).fit(train, y) for s in range(SEEDS)]
            seconds = (time.process_time() - begin) / SEEDS
            score, size = (float(np.mean(x)) for x in ([t.score(dev, gold) for t in made], [t.nonzeros_ for t in made]))
            rows.append((round(score, 5), int(size), round(seconds, 1)))
        scores, weights, times = zip(*rows, strict=True)
        found.append({"kind": kind, "form": form, "scores": scores, "weights": weights, "seconds": times})
    return found


def measure(names: list[str]) -> None:
    """Measure all sets, or the named ones, that are not measured yet."""
    for name in names or list(taggings()):
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        train, dev = tagging(name).split()
        if name not in done and len(train[1]) >= LEAST and len(dev[1]) >= JUDGES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[name] = measured(name)
            RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, {", "},\n {") + "\n")
            print(name, flush=True)


def chosen(scores: np.ndarray[Any, Any]) -> int:
    """Return the index of the first number of passes that is as good as the best."""
    mean = scores.mean(axis=0)
    return int(np.flatnonzero(mean >= mean.max() - TIE)[0])


def show(kind: str) -> None:
    """Print the choice for each left-out set, and the means of all sets."""
    tables: dict[str, list[Any]] = defaultdict(list)
    for name, entries in json.loads(RESULTS.read_text()).items():
        tables[name] += [[e["scores"], e["weights"], e["seconds"]] for e in entries if e["kind"] == kind]
    values = np.array([np.mean(rows, axis=0) for rows in tables.values() if rows])
    scores = values[:, 0] - values[:, 0, :1]
    picks = [chosen(np.delete(scores, i, axis=0)) for i in range(len(scores))]
    own = [scores[i, k] for i, k in enumerate(picks)]
    print(f"{kind}: {len(scores)} sets; chosen without a set: {Counter(PASSES[k] for k in picks)}")
    print(f"  on the sets left out, beside {PASSES[0]} passes: {np.mean(own):+.4f}, worst {min(own):+.4f}")
    for k, passes in enumerate(PASSES):
        weights, seconds = (np.exp(np.log(values[:, j, k] / values[:, j, 0]).mean()) for j in (1, 2))
        print(f"  {passes} passes: {scores[:, k].mean():+.4f}, weights times {weights:.2f}, seconds {seconds:.2f}")


def main(arguments: list[str]) -> None:
    """Run `measure [SET ...]` or `choose`."""
    if arguments[:1] == ["measure"]:
        measure(arguments[1:])
    else:
        for kind in ("phrases", "labels"):
            show(kind)


if __name__ == "__main__":
    main(sys.argv[1:])
