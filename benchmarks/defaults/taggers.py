"""`SequenceTagger()` on every tagging, from columns and from the features that CRFsuite gets.

`python -m benchmarks.defaults.taggers [--prune] [SET ...]`

Test parts, means of three seeds (`SPOM_SEEDS=1` for one), beside CRFsuite's stored results (`results/crfsuite.json`);
with `--prune` each beside `prune="auto"`. Seconds are CPU seconds from Python lists to the model.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.defaults.crfsuite import FEATURES, RESULTS
from benchmarks.defaults.sentence_sets import tagging, taggings
from spom import SequenceTagger

SEEDS = int(os.environ.get("SPOM_SEEDS", "3"))


def fits(train: Any, test: Any, **params: Any) -> tuple[float, float, float]:
    """(score, seconds, weights), means over seeds."""
    found = []
    for seed in range(SEEDS):
        begin = time.process_time()
        tagger = SequenceTagger(random_state=seed, verbose=0, **params).fit(*train)
        seconds = time.process_time() - begin
        found.append((tagger.score(*test), seconds, tagger.nonzeros_))
    score, seconds, weights = np.mean(found, axis=0).tolist()
    return score, seconds, weights


def rows(names: list[str], prune: bool) -> Iterator[tuple[str, str, float, float, float]]:
    """(data set, method, score, CPU seconds, weights)."""
    peers = json.loads(RESULTS.read_text())
    for name in names or list(taggings()):
        problem = tagging(name)
        if name in peers:
            peer = peers[name]
            yield name, "CRFsuite, grid", peer["score"], peer["seconds"], peer["weights"]
        features = FEATURES[problem.kind]
        named = [([features(x) for x in X], y) for X, y in (problem.train, problem.test)]
        for form, (train, test) in {"columns": (problem.train, problem.test), "dicts": named}.items():
            yield name, f"SequenceTagger(), {form}", *fits(train, test)
            if prune:
                yield name, f"  prune='auto', {form}", *fits(train, test, prune="auto")


def main(names: list[str]) -> None:
    """Print the table."""
    warnings.filterwarnings("ignore", message="labels that were not seen")
    warm = [[("a",), ("b",)]] * 80, [["X", "Y"]] * 80
    SequenceTagger(verbose=0, prune="auto").fit(*warm).score(*warm)
    for name, method, score, seconds, weights in rows([n for n in names if n != "--prune"], "--prune" in names):
        print(f"{name:<18} {method:<26} {score:.4f} {seconds:7.2f} s {weights:>10,.0f} weights", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
