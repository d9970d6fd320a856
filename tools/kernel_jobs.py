"""Write `src/spom/core/compiled/jobs.json`: the kernels that each step of a job calls, as seen in small runs.

    python tools/kernel_jobs.py

Each step runs in a process of its own. Run it again after kernels were added, renamed or removed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/spom/core/compiled/jobs.json"

_BEFORE = """
import contextlib, io, json, os, sys
import numpy as np, scipy.sparse
from spom.core.compiled import running
from spom.cli.main import main
called, ready = [], running.ready
def noted(kernel):
    called.append(kernel.name)
    return ready(kernel)
running.ready = noted
def path(name): return os.path.join(sys.argv[1], name)
def command(*words):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([str(word) for word in words]) == 0, words
rng = np.random.default_rng(0)
words = ["dog", "cat", "house", "tree", "river", "cloud"]
"""
_AFTER = """
print(json.dumps(list(dict.fromkeys(called))))
"""
_TOKENS = """
from spom import SequenceTagger, load_model as load
X = [[[w, w[0]] for w in rng.choice(words, 5)] for _ in range(40)]
y = [["B" if w[0] < "d" else "O" for w, _ in x] for x in X]
"""
_SAVED = """
text = "".join("".join(f"{w} {p} {t}\\n" for (w, p), t in zip(*pair)) + "\\n" for pair in zip(X, y))
open(path("a.txt"), "w").write(text)
SequenceTagger().fit(X, y).save(path("tagger.spom"))
"""
_TREES = """
rows = []
for _ in range(40):
    n = int(rng.integers(3, 7))
    for i, w in enumerate(rng.choice(words, n)):
        rows.append("\\t".join([str(i + 1), w, w, "NOUN", "NN", "_", str(i), "root" if i == 0 else "dep", "_", "_"]))
    rows.append("")
open(path("a.conllu"), "w").write("\\n".join(rows) + "\\n")
from spom import DependencyParser, load_model as load
from spom.data import read_conllu
data = read_conllu(path("a.conllu"))
"""
_TRAIN = """
command("train", "{0}", "--train", path("a.{1}"), "--dev", path("a.{1}"), "--model", path("{0}.spom"))
"""
_PREDICT = 'command("predict", "--model", path("{0}.spom"), path("a.{1}"), "-o", path("b.{1}"))'
_EVALUATE = 'command("evaluate", "--model", path("{0}.spom"), path("a.{1}"))'
_ROWS = """
from spom import MKLClassifier, OnlineClassifier, OnlineRegressor, ProximalClassifier, ProximalRegressor
X = rng.normal(size=(60, 4))
Z, two, three = scipy.sparse.csr_matrix(X), X[:, 0] > 0, rng.integers(3, size=60)
"""
_FITS = _ROWS + "for form in (X, Z): {}{}().fit(form, {}).predict(form)"
_TARGETS = (("Classifier", "two"), ("Classifier", "three"), ("Regressor", "X[:, 0]"))
_COMMANDS = (_TRAIN, _PREDICT, _EVALUATE)
# The steps of each job. Those that share most with others come last, because an earlier one is preferred.
_JOBS = {
    "tagger": (
        _TOKENS + _SAVED,
        _TOKENS + "load(path('tagger.spom')).predict(X)",
        _TOKENS + "load(path('tagger.spom')).predict_marginals(X)",
        *(code.format("tagger", "txt") for code in _COMMANDS),
    ),
    "parser": (
        _TREES + "DependencyParser().fit(data).save(path('parser.spom'))",
        _TREES + "load(path('parser.spom')).predict(data)",
        *(code.format("parser", "conllu") for code in _COMMANDS),
    ),
    "mkl": tuple(_ROWS + f"MKLClassifier().fit(X, {y}).predict(X)" for y in ("two", "three")),
    "classifier": tuple(_FITS.format("Online", *step) for step in _TARGETS),
    "proximal": tuple(_FITS.format("Proximal", *step) for step in _TARGETS),
    "pipeline": (
        _TREES + 'command("train", "pipeline", "--train", path("a.conllu"), "--model", path("pipeline.spom"))',
        'open(path("a.raw"), "w").write("dog cat house."); '
        'command("predict", "--model", path("pipeline.spom"), path("a.raw"), "-o", path("b.raw"))',
    ),
    "demo": ('command("demo", "--page", path("page.html"))',),
}


def main() -> None:
    """Run the jobs and write the list."""
    found: dict[str, list[list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for job, steps in _JOBS.items():
            found[job] = []
            for code in steps:
                command = [sys.executable, "-c", _BEFORE + code + _AFTER, folder]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[job].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{job}: {[len(step) for step in found[job]]} kernels")
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
