"""`SequenceTagger()` on every tagging problem, from columns and from CRFsuite's features, each also pruned.

Scores are on test parts, one row for each of three seeds (`SPOM_SEEDS=1` for one), next to CRFsuite's stored results
(`results/crfsuite.json`, made by `python -m benchmarks.defaults.crfsuite`). Seconds are CPU seconds from Python lists
to the model; compiled code is loaded before the clock starts.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from typing import Any

from benchmarks.defaults.crfsuite import FEATURES, RESULTS
from benchmarks.defaults.rows import Row, is_stored, timed
from benchmarks.defaults.sentence_sets import tagging, taggings
from spom import SequenceTagger

PEER = "CRFsuite, grid"
# A name, the form of the sentences, and the parameters.
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": ("columns", {}),
    "columns, pruned": ("columns", {"prune": "auto"}),
    "dicts": ("dicts", {}),
    "dicts, pruned": ("dicts", {"prune": "auto"}),
}


def run(kind: str, sets: str = "", learner: str = "") -> Iterator[Row]:
    """Yield the rows of the sets and learners whose names start with these."""
    warnings.filterwarnings("ignore", message="labels that were not seen")
    seeds = int(os.environ.get("SPOM_SEEDS", "3"))
    warm = [[("a",), ("b",)]] * 80, [["X", "Y"]] * 80
    SequenceTagger(verbose=0, prune="auto").fit(*warm).score(*warm)
    peers = json.loads(RESULTS.read_text())
    for name in taggings():
        if not name.startswith(sets):
            continue
        problem = tagging(name)
        if name in peers and PEER.startswith(learner):
            peer = peers[name]
            note = f"c1 {peer['c1']:g}, c2 {peer['c2']:g}"
            yield Row(kind, name, PEER, 0, peer["score"], peer["seconds"], peer["weights"], note=note)
        features = FEATURES[problem.kind]
        named = [([features(x) for x in X], y) for X, y in (problem.train, problem.test)]
        for label, (form, params) in LEARNERS.items():
            train, test = (problem.train, problem.test) if form == "columns" else named
            for seed in range(seeds) if label.startswith(learner) else ():
                if is_stored(kind, name, label, seed):
                    continue
                made = SequenceTagger(random_state=seed, verbose=0, **params)
                tagger, seconds = timed(lambda made=made, train=train: made.fit(*train))
                note = tagger.settings_ if tagger.pruning_ is None else "; ".join(tagger.pruning_.verdicts)
                found = Row(kind, name, label, seed, tagger.score(*test), seconds, tagger.nonzeros_, True, note=note)
                print(
                    f"  {name:<16} {label:<16} seed {seed}: {found.score:.4f} {seconds:6.2f} s {found.size}", flush=True
                )
                yield found
