"""Taggers against CRFsuite: chunks of CoNLL-2000 and parts of speech of EWT, from the raw file to the model.

Parts: `chunking` (default settings), `sparse` (few weights; runs CRFsuite's lbfgs with l1 for some minutes unless
SPOM_BENCH_QUICK is set), `prune`, `upos`, `speed`, `scaling`. Seconds are CPU seconds of one thread without compiling.
Scores are means over seeds. Settings were chosen on a tenth of CoNLL-2000's training sentences and on EWT's dev set;
the test sets are only measured here.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table, data_folder
from benchmarks.tagging_peers import Peer, chunking_features, plain_conll, pos_features, run
from spom import SequenceTagger
from spom.data import read_conll, read_conllu
from spom.features.ready import SETS
from spom.metrics.phrases import phrase_scores
from spom.penalties import L1

SEEDS = 5
# The set "pos" with affixes of the word in lower case.
UPOS = [name.replace("w.prefix", "w.lower.prefix").replace("w.suffix", "w.lower.suffix") for name in SETS["pos"]]


def fit(path: Path, seed: int, templates: Any = "chunking", labels: Any = None, **params: Any) -> tuple[Any, float]:
    """Return (a tagger, CPU seconds including reading the file)."""
    begin = time.process_time()
    columns = read_conllu(path).columns if ".conllu" in path.name else read_conll(path)
    tagger = SequenceTagger(templates, random_state=seed, verbose=0, **params).fit(columns, labels)
    return tagger, time.process_time() - begin


def several(path: Path, test: Any, labels: Any = None, **params: Any) -> dict[str, float]:
    """Return means over seeds of score, seconds, weights and templates that are off."""
    found = []
    for seed in range(SEEDS):
        tagger, seconds = fit(path, seed, labels=labels, **params)
        off = len(tagger.blocks_) - len(tagger.selected_)
        found.append((tagger.score(test, labels), seconds, tagger.nonzeros_, off))
    names = ("score", "seconds", "weights", "off")
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True)) | {"least_off": min(row[3] for row in found)}


def warm(path: Path, **params: Any) -> None:
    """Compile everything that a fit needs."""
    columns = read_conllu(path).columns if ".conllu" in path.name else read_conll(path)
    tagger = SequenceTagger(**{"templates": ["w[0]"], "epochs": 1, "verbose": 0, **params})
    labels = "upos" if ".conllu" in path.name else None
    tagger.fit(columns[:200], labels).score(columns[:50], labels)


def peer(folder: Path, algorithm: str, params: dict[str, Any]) -> Peer:
    """Run CRFsuite on CoNLL-2000."""
    begin = time.process_time()
    train = plain_conll(folder / "train.txt.gz")
    reading = time.process_time() - begin
    sentences, gold = plain_conll(folder / "test.txt.gz")
    with tempfile.TemporaryDirectory() as place:
        model = str(Path(place) / "model")
        found = run(
            train, sentences, chunking_features, algorithm, params, model, lambda found: phrase_scores(gold, found).f1
        )
    found.features_seconds += reading
    return found


def chunking(folder: Path) -> None:
    """Compare default settings with passive-aggressive training."""
    table = Table("CoNLL-2000 chunking, default settings, from the raw file (CRFsuite: passive-aggressive, 10 passes)")
    warm(folder / "train.txt.gz")
    ours = several(folder / "train.txt.gz", read_conll(folder / "test.txt.gz"))
    other = peer(folder, "pa", {"max_iterations": 10})
    table.add("F1 of phrases", ours["score"], other.score, ">= .9370", ours["score"] >= 0.9370)
    ratio = other.seconds / ours["seconds"]
    table.add("seconds, features included", ours["seconds"], other.seconds, "ratio >= 5", ratio >= 5)
    table.add("weights of features", ours["weights"], other.weights)


def sparse(folder: Path) -> None:
    """Compare few weights with lbfgs with l1 and l2."""
    table = Table("CoNLL-2000, sparse models (CRFsuite: lbfgs, c1 .1, c2 .05)")
    train, test = folder / "train.txt.gz", read_conll(folder / "test.txt.gz")
    warm(train, max_weights=5)
    ours = several(train, test, penalty=L1(5e-5))
    small = several(train, test, penalty=L1(1.3e-4), epochs=10, loss="softmax-margin", max_weights=10000)
    quick = bool(os.environ.get("SPOM_BENCH_QUICK"))
    other = peer(folder, "lbfgs", {"c1": 0.1, "c2": 0.05, **({"max_iterations": 20} if quick else {})})
    table.add("F1 of phrases, L1(5e-5)", ours["score"], other.score, ">= .9385", ours["score"] >= 0.9385)
    table.add("  weights of features", ours["weights"], other.weights, "<= 62,000", ours["weights"] <= 62000)
    ratio = other.seconds / ours["seconds"]
    table.add("  seconds", ours["seconds"], other.seconds, "ratio >= 40 (stretch 100)", None if quick else ratio >= 40)
    table.add("F1, max_weights=10000", small["score"], other.score, "stretch >= .9367", small["score"] >= 0.9367)
    table.add("  weights of features", small["weights"], other.weights, "<= 10,000", small["weights"] <= 10000)
    table.add("  seconds", small["seconds"], other.seconds)
    if quick:
        print("  (CRFsuite was stopped after 20 passes: its time and its score are not those of the full run)")


def prune(folder: Path) -> None:
    """Measure what `prune="auto"` saves and costs against the whole model."""
    table = Table("CoNLL-2000, prune='auto' (ours) beside the whole model (as peer)")
    train, test = folder / "train.txt.gz", read_conll(folder / "test.txt.gz")
    warm(train, prune="auto")
    # In turns, so that other load on the machine affects both.
    rows: list[list[tuple[float, float, int, int]]] = [[], []]
    for seed in range(SEEDS):
        for which, params in enumerate(({"prune": "auto"}, {})):
            tagger, seconds = fit(train, seed, **params)
            rows[which].append((tagger.score(test), seconds, tagger.nonzeros_, len(tagger.selected_)))
    (ours, seconds, weights, kept), (full, whole, all_weights, blocks) = (np.mean(p, axis=0).tolist() for p in rows)
    larger = any(one[2] > other[2] for one, other in zip(*rows, strict=True))
    table.add("F1 of phrases", ours, full, "at most .002 below", ours >= full - 0.002)
    table.add("weights of features", weights, all_weights, "never more", not larger)
    table.add("templates", kept, blocks)
    table.add("seconds, comparisons included", seconds, whole)
    print(f"\n{fit(train, 0, prune='auto')[0].pruning_}")


def upos(folder: Path) -> None:
    """Run parts of speech."""
    table = Table("EWT, universal parts of speech (CRFsuite: lbfgs, c1 .5, c2 .01, 100 passes)")
    train, test = (folder / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "test"))
    warm(train, max_weights=5)
    known = read_conllu(test).columns
    soft: dict[str, Any] = {"templates": UPOS, "loss": "softmax-margin"}
    ours = several(train, known, "upos", **soft, penalty=L1(1e-5))
    small = several(train, known, "upos", **soft, penalty=L1(5e-5), epochs=8, max_weights=35000)
    begin = time.process_time()
    plain = [_words(path) for path in (train, test)]
    reading = time.process_time() - begin
    gold = plain[1][1]

    def accuracy(found: Any) -> float:
        right = [a == b for x, y in zip(found, gold, strict=True) for a, b in zip(x, y, strict=True)]
        return float(np.mean(right))

    params = {"c1": 0.5, "c2": 0.01, "max_iterations": 100}
    with tempfile.TemporaryDirectory() as place:
        model = str(Path(place) / "model")
        other = run(plain[0], plain[1][0], pos_features, "lbfgs", params, model, accuracy)
    peer_seconds = other.seconds + reading
    table.add("accuracy, L1(1e-5)", ours["score"], other.score, ">= .9520", ours["score"] >= 0.9520)
    table.add("  seconds", ours["seconds"], peer_seconds, "ratio >= 5", peer_seconds >= 5 * ours["seconds"])
    table.add("  weights of features", ours["weights"], other.weights)
    table.add("accuracy, max_weights=35000", small["score"], other.score, "stretch >= .9490", small["score"] >= 0.9490)
    table.add("  weights of features", small["weights"], other.weights, "<= 35,000", small["weights"] <= 35000)
    table.add("  seconds", small["seconds"], peer_seconds)


def _words(path: Path) -> tuple[Any, Any]:
    columns = read_conllu(path).columns
    return [[(w,) for w in words] for words in columns.strings("form")], columns.strings("upos")


def speed(folder: Path) -> None:
    """Measure tokens per second: ours from raw columns, CRFsuite from ready-made features."""
    table = Table("Tagging CoNLL-2000's test sentences, tokens/s (ours from columns, CRFsuite from ready features)")
    tagger, _ = fit(folder / "train.txt.gz", 0)
    pruned, _ = fit(folder / "train.txt.gz", 0, prune="auto")
    columns = read_conll(folder / "test.txt.gz")
    other = peer(folder, "pa", {"max_iterations": 3})
    times = {"all": [], "pruned": [], "peer": []}  # type: dict[str, list[float]]
    tasks = {"all": tagger, "pruned": pruned}
    for _ in range(7):
        for name, model in tasks.items():
            begin = time.process_time()
            model.predict(columns)
            times[name].append(time.process_time() - begin)
        begin = time.process_time()
        for x in other.test:
            other.tagger.tag(x)
        times["peer"].append(time.process_time() - begin)
    rates = {name: columns.n_tokens / min(found) for name, found in times.items()}
    ratio = rates["all"] / rates["peer"]
    table.add("all templates (ratio is peer / ours)", rates["all"], rates["peer"], "ours >= 4 times", ratio >= 4)
    table.add("templates that prune='auto' keeps", rates["pruned"], rates["peer"])


def main(part: str = "") -> None:
    """Run all parts, or one."""
    place = data_folder()
    if place is None:
        return
    # CoNLL-2000's test set has a label that is not in the training set; it counts as wrong.
    warnings.filterwarnings("ignore", message="labels that were not seen")
    parts = {"chunking": chunking, "prune": prune, "upos": upos, "speed": speed, "scaling": _scaling, "sparse": sparse}
    for name, function in parts.items():
        if part in ("", name):
            function(Path(place) / ("ewt" if name == "upos" else "conll2000"))


def _scaling(folder: Path) -> None:
    from benchmarks.tagging_scaling import scaling

    scaling(folder)


if __name__ == "__main__":
    main()
