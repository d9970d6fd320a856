"""CRFsuite with its usual features, c1 and c2 from a small grid: `python -m benchmarks.defaults.crfsuite`.

Features are those of its users: for entities the dicts of sklearn-crfsuite's tutorial, for chunks those of CRFsuite's
own tutorial, for parts of speech words, affixes to four, shape and neighbours. The grid is searched on the development
part, with at most 2,500 training sentences, and the winner learns from all of them, with 100 passes of lbfgs each, as
sklearn-crfsuite's users do. Results are kept in `results/crfsuite.json`, one set at a time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults.sentence_sets import Tagging, tagging, taggings
from benchmarks.tagging_peers import chunking_features, pos_features
from spom.metrics.phrases import phrase_scores

GRID = [(0.1, 0.1), (0.5, 0.01), (0.1, 0.01), (0.0, 1.0)]
SMALL = 2500
RESULTS = Path(__file__).parent / "results" / "crfsuite.json"


def entity_features(sentence: Any) -> list[dict[str, Any]]:
    """Return the dicts of sklearn-crfsuite's tutorial, without parts of speech."""
    words = [token[0] for token in sentence]
    found = []
    for t, word in enumerate(words):
        row: dict[str, Any] = {
            "bias": 1.0,
            "word.lower()": word.lower(),
            "word[-3:]": word[-3:],
            "word[-2:]": word[-2:],
            "word.isupper()": word.isupper(),
            "word.istitle()": word.istitle(),
            "word.isdigit()": word.isdigit(),
        }
        for step, name in ((-1, "-1"), (1, "+1")):
            if 0 <= t + step < len(words):
                other = words[t + step]
                row[f"{name}:word.lower()"] = other.lower()
                row[f"{name}:word.istitle()"] = other.istitle()
                row[f"{name}:word.isupper()"] = other.isupper()
            else:
                row["BOS" if step < 0 else "EOS"] = True
        found.append(row)
    return found


FEATURES = {"entities": entity_features, "chunks": chunking_features, "upos": pos_features}


def score(kind: str, gold: list[list[str]], found: list[list[str]]) -> float:
    """Return F1 of phrases, or accuracy."""
    if kind != "upos":
        return phrase_scores(gold, found).f1
    right = [a == b for x, y in zip(gold, found, strict=True) for a, b in zip(x, y, strict=True)]
    return float(np.mean(right))


def learn(X: Any, y: Any, c1: float, c2: float, path: str) -> Any:
    """Train a tagger."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 100, "feature.possible_transitions": True})
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger


def one(problem: Tagging) -> dict[str, Any]:
    """Return score, CPU seconds of features and of the winner's training, those of the grid, size, grid's scores."""
    features, (train, dev) = FEATURES[problem.kind], problem.split()
    with tempfile.TemporaryDirectory() as place:
        path, tried = str(Path(place) / "model"), {}
        begin = time.process_time()
        some, held = [features(x) for x in train[0][:SMALL]], [features(x) for x in dev[0][:SMALL]]
        for c1, c2 in GRID:
            tagger = learn(some, train[1][:SMALL], c1, c2, path)
            tried[f"{c1:g} {c2:g}"] = score(problem.kind, dev[1][:SMALL], [tagger.tag(x) for x in held])
        c1, c2 = (float(x) for x in max(tried, key=lambda key: tried[key]).split())
        searched = time.process_time() - begin
        begin = time.process_time()
        X = [features(x) for x in problem.train[0]]
        tagger = learn(X, problem.train[1], c1, c2, path)
        seconds = time.process_time() - begin
        info, size = tagger.info(), Path(path).stat().st_size
        found = [tagger.tag(features(x)) for x in problem.test[0]]
        return {
            **{"score": score(problem.kind, problem.test[1], found), "seconds": seconds, "bytes": size},
            **{"weights": len(info.state_features) + len(info.transitions), "c1": c1, "c2": c2, "grid": tried},
            "grid_seconds": searched,
        }


def main(names: list[str]) -> None:
    """Run all problems, or the named ones, that are not in the results yet."""
    for name in names or list(taggings()):
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name in done:
            continue
        found = one(tagging(name))
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**done, name: found}, indent=1, sort_keys=True) + "\n")
        print(name, f"{found['score']:.4f} {found['seconds']:.1f} s c1 {found['c1']} c2 {found['c2']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
