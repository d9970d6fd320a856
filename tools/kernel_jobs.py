"""Write `src/spom/core/compiled/jobs.json`: the kernels that each job calls, seen in small runs of it.

    python tools/kernel_jobs.py

Each job runs in a process of its own. Run it again after kernels were added, renamed or removed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/spom/core/compiled/jobs.json"

_BEFORE = """
import contextlib, io, json, os, sys, tempfile
import numpy as np, scipy.sparse
from spom.core.jit import Kernel
from spom.cli.main import main
folder = tempfile.mkdtemp()
def path(name): return os.path.join(folder, name)
def command(*words):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([str(word) for word in words]) == 0, words
rng = np.random.default_rng(0)
words = ["dog", "cat", "house", "tree", "river", "cloud"]
"""
_AFTER = """
scopes = [vars(module) for name, module in sys.modules.items() if name.startswith("spom.")]
called = {v.name for scope in scopes for v in scope.values() if isinstance(v, Kernel) and v._address is not None}
print(json.dumps(sorted(called)))
"""
_JOBS = {
    "tagger": """
from spom import SequenceTagger
X = [[[w, w[0]] for w in rng.choice(words, 5)] for _ in range(40)]
y = [["B" if w[0] < "d" else "O" for w, _ in x] for x in X]
tagger = SequenceTagger().fit(X, y)
tagger.predict(X)
tagger.predict_marginals(X)
text = "".join("".join(f"{w} {p} {t}\\n" for (w, p), t in zip(*pair)) + "\\n" for pair in zip(X, y))
open(path("a.txt"), "w").write(text)
command("train", "tagger", "--train", path("a.txt"), "--dev", path("a.txt"), "--model", path("a.spom"))
command("predict", "--model", path("a.spom"), path("a.txt"), "-o", path("b.txt"))
command("evaluate", "--model", path("a.spom"), path("a.txt"))
""",
    "parser": """
from spom import DependencyParser
rows = []
for _ in range(40):
    n = int(rng.integers(3, 7))
    for i, w in enumerate(rng.choice(words, n)):
        rows.append("\\t".join([str(i + 1), w, w, "NOUN", "NN", "_", str(i), "root" if i == 0 else "dep", "_", "_"]))
    rows.append("")
open(path("a.conllu"), "w").write("\\n".join(rows) + "\\n")
command("train", "parser", "--train", path("a.conllu"), "--dev", path("a.conllu"), "--model", path("a.spom"))
command("predict", "--model", path("a.spom"), path("a.conllu"), "-o", path("b.conllu"))
command("evaluate", "--model", path("a.spom"), path("a.conllu"))
from spom.data import read_conllu
data = read_conllu(path("a.conllu"))
DependencyParser().fit(data).predict(data)
""",
    "mkl": """
from spom import MKLClassifier
X = rng.normal(size=(60, 4))
MKLClassifier().fit(X, X[:, 0] > 0).predict(X)
MKLClassifier().fit(X, rng.integers(3, size=60)).predict(X)
""",
    "classifier": """
from spom import OnlineClassifier, OnlineRegressor
X = rng.normal(size=(60, 4))
for form in (X, scipy.sparse.csr_matrix(X)):
    OnlineClassifier().fit(form, X[:, 0] > 0).predict(form)
    OnlineClassifier().fit(form, rng.integers(3, size=60)).predict(form)
    OnlineRegressor().fit(form, X[:, 0]).predict(form)
""",
    "proximal": """
from spom import ProximalClassifier, ProximalRegressor
X = rng.normal(size=(60, 4))
for form in (X, scipy.sparse.csr_matrix(X)):
    ProximalClassifier().fit(form, X[:, 0] > 0).predict(form)
    ProximalClassifier().fit(form, rng.integers(3, size=60)).predict(form)
    ProximalRegressor().fit(form, X[:, 0]).predict(form)
""",
}


def main() -> None:
    """Run the jobs and write the list."""
    found = {}
    for job, code in _JOBS.items():
        done = subprocess.run(
            [sys.executable, "-c", _BEFORE + code + _AFTER], stdout=subprocess.PIPE, text=True, check=True
        )
        found[job] = json.loads(done.stdout.splitlines()[-1])
        print(f"{job}: {len(found[job])} kernels")
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
