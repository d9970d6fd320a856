"""The command: the time for its help, for opening a large model, for tagging a file and for learning from one.

`python -m benchmarks command:help`, `command:load`, `command:predict`, `command:train` run one part. Tagging is timed
from the raw file to the written one, in this process once compiled code is loaded, and as a process of its own, with
Python's start and all imports. The peer is python-crfsuite, whose tagger either gets ready-made features as
`ItemSequence`, or makes them in Python from tokens in memory. Times are CPU seconds, so that other load on the
machine does not count, unless a row says wall.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import tagging_peers
from benchmarks.common import Table, data_folder, measure
from spom.cli.main import main as spom

TIMES = 10


def process(*words: str) -> tuple[float, float, str]:
    """Return wall and CPU seconds of the command in a process of its own, and its output."""
    return run([sys.executable, "-m", "spom", *words])


def run(command: list[str]) -> tuple[float, float, str]:
    """Return wall and CPU seconds of any command, and its output."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu, done.stdout


def help_times() -> None:
    """Time `--help` of the command and of one subcommand."""
    table = Table("time to the help, a process each (seconds; peer: Python doing nothing)")
    for words in (["--help"], ["train", "tagger", "--help"]):
        ours = np.min([process(*words)[:2] for _ in range(9)], axis=0)
        idle = np.min([run([sys.executable, "-c", "pass"])[:2] for _ in range(9)], axis=0)
        reached = bool(ours[1] < 0.3) if words == ["--help"] else None
        table.add(f"spom {' '.join(words)}", ours[1], idle[1], "under 0.3" if reached is not None else "", reached)
        table.add(f"spom {' '.join(words)}, wall", ours[0], idle[0])


def load_times(folder: Path) -> None:
    """Time loading a model of 500 MB for one prediction, against pickle, which reads all of it."""
    import pickle

    from scipy import sparse

    import spom as library

    rng = np.random.default_rng(0)
    features = 62_500_000
    start = sparse.csr_matrix(([1.0, -1.0], ([0, 1], [0, 1])), shape=(2, features))
    model = library.OnlineClassifier(epochs=1, random_state=0, verbose=0).fit(start, [0, 1])
    model.coef_ = rng.standard_normal((1, features))
    model._resume = None
    row = sparse.csr_matrix((np.ones(30), (np.zeros(30, dtype=int), np.arange(30) * 2_000_003)), shape=(1, features))
    path, pickled = folder / "large.spom", folder / "large.pickle"
    model.save(path)
    with open(pickled, "wb") as file:
        pickle.dump(model, file, protocol=5)
    expected = model.predict(row)
    del model

    def ours() -> object:
        return library.load_model(path).predict(row)

    def theirs() -> object:
        with open(pickled, "rb") as file:
            return pickle.load(file).predict(row)

    mine, other = measure(ours, 5, wall=True), measure(theirs, 2, wall=True)
    assert mine.result == other.result == expected
    table = Table(
        f"a model of {path.stat().st_size / 1e6:.0f} MB: open it and predict once (wall seconds; peer: pickle)"
    )
    table.add("load_model", mine.seconds, other.seconds, "under 0.2", mine.seconds < 0.2)
    whole = measure(lambda: library.load_model(path, verify=True), 2, wall=True)
    table.add("load_model(verify=True): every array's sha256", whole.seconds)


def predict_times(folder: Path, data: Path) -> None:
    """Time CoNLL-2000's test sentences, and ten times as many, from the raw file to the written file."""
    model, out = folder / "chunker.spom", folder / "tagged.txt"
    spom(["train", "tagger", "--train", str(data / "train.txt.gz"), "--model", str(model), "--quiet"])
    raw = gzip.decompress((data / "test.txt.gz").read_bytes())
    files = {"test": folder / "test.txt", f"test, {TIMES} times": folder / "long.txt"}
    for path, times in zip(files.values(), (1, TIMES), strict=True):
        path.write_bytes(raw * times)
    train = tagging_peers.plain_conll(data / "train.txt.gz")
    test = tagging_peers.plain_conll(data / "test.txt.gz")[0]
    tokens = sum(map(len, test))
    peer = tagging_peers.run(
        train, test, tagging_peers.chunking_features, "ap", {"max_iterations": 10}, str(folder / "crf"), lambda _: 0.0
    )
    ready = measure(lambda: [peer.tagger.tag(x) for x in peer.test], 5).seconds / tokens
    made = measure(lambda: [peer.tagger.tag(tagging_peers.chunking_features(s)) for s in test], 2).seconds / tokens
    table = Table("tagging CoNLL-2000, microseconds a token (peer: python-crfsuite, model in memory)")
    for name, path in files.items():
        count = tokens * (TIMES if path.name == "long.txt" else 1)
        words = ["predict", "--model", str(model), str(path), "-o", str(out)]
        ours = measure(lambda words=words: spom(words), 5).seconds / count * 1e6
        table.add(
            f"{name}: raw file to written file / features ready",
            ours,
            ready * 1e6,
            "at least as fast",
            ours <= ready * 1e6,
        )
        table.add(f"{name}: the same / features made in Python", ours, made * 1e6, "5 times", made * 1e6 >= 5 * ours)
        alone = min(process(*words)[1] for _ in range(3)) / count * 1e6
        table.add(f"{name}: a process of its own, start included", alone, ready * 1e6)
    print(f"  ({1e6 / ours:,.0f} tokens/s from file to file; python-crfsuite {1 / ready:,.0f} with features ready)")


def train_times(folder: Path, data: Path) -> None:
    """Time learning from file to model, as a process, and python-crfsuite from its Python strings."""
    words = ["train", "tagger", "--train", str(data / "train.txt.gz"), "--dev", str(data / "test.txt.gz")]
    words += ["--model", str(folder / "model.spom"), "--json"]
    process("train", "tagger", "--train", str(data / "test.txt.gz"), "--model", str(folder / "w.spom"), "--epochs", "1")
    wall, cpu, printed = process(*words)
    found = json.loads(printed)
    train = tagging_peers.plain_conll(data / "train.txt.gz")
    test = tagging_peers.plain_conll(data / "test.txt.gz")

    def f1(labels: list[list[str]]) -> float:
        from spom.metrics.phrases import phrase_scores

        return phrase_scores(test[1], labels).f1

    begin = time.process_time()
    features, path = tagging_peers.chunking_features, folder / "crf"
    peer = tagging_peers.run(train, test[0], features, "ap", {"max_iterations": 10}, str(path), f1)
    theirs = time.process_time() - begin
    table = Table(
        "learning CoNLL-2000 from the file to the model (peer: CRFsuite's perceptron, 10 passes, from tokens)"
    )
    table.add("spom train tagger: a process, with its start and dev scores", cpu, theirs)
    table.add("the same, wall", wall)
    table.add("F1 of phrases (here a ratio below one is better)", found["f1"], peer.score)
    table.add("size of the model, MB", found["bytes"] / 1e6, path.stat().st_size / 1e6)


def main(part: str = "") -> None:
    """Run all parts, or one of help, load, predict, train."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if part in ("", "help"):
            help_times()
        if part in ("", "load"):
            load_times(folder)
        found = data_folder() if part in ("", "predict", "train") else None
        if found is not None:
            data = Path(found) / "conll2000"
            if part in ("", "predict"):
                predict_times(folder, data)
            if part in ("", "train"):
                train_times(folder, data)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
