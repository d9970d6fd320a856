"""Compare the speed of everyday loops in this checkout with that in another one, side by side.

    git worktree add --detach ../before COMMIT
    python tools/compare.py ../before
    python tools/compare.py ../before tagger parser --rounds 9

Each job runs in a process of its own, here and there in turns, so that both have the same load; the first turn compiles
and does not count. Jobs use only public names, with the same settings on both sides. Ratios are medians over rounds of
CPU seconds there over CPU seconds here: above 1, this checkout is faster. Needs `SPOM_DATA`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
_BEFORE = """
import os, time, warnings
import numpy as np
from pathlib import Path
from scipy import sparse
warnings.simplefilter("ignore")
data = Path(os.environ["SPOM_DATA"])
rng = np.random.default_rng(0)
def timed(function, times=1):
    function()
    begin = time.process_time()
    for _ in range(times):
        function()
    print(time.process_time() - begin)
"""
_ROWS = """
columns = np.minimum(rng.zipf(1.3, 400_000) - 1, 99_999)
X = sparse.csr_matrix((np.ones(columns.size), columns, np.arange(0, columns.size + 1, 40)), shape=(10_000, 100_000))
X.sum_duplicates()
y = (X @ rng.normal(size=100_000) > 0).astype(int)
"""
_SENTENCES = """
from spom import SequenceTagger
from spom.data import read_conll
from spom.penalties import L1
sentences = read_conll(data / "conll2000" / "train.txt.gz")
"""
_TREES = """
from spom import DependencyParser
from spom.data import read_conllu
bank = read_conllu(data / "ewt" / "en_ewt-ud-train.conllu.gz")[:3000]
"""
JOBS = {
    "classifier": _ROWS
    + """
from spom import OnlineClassifier
from spom.penalties import L1
timed(lambda: OnlineClassifier(loss="logistic", penalty=L1(1e-5), epochs=100, random_state=0).fit(X, y))
""",
    "classifier, classes": _ROWS
    + """
from spom import OnlineClassifier
from spom.penalties import L1
labels = np.abs(X @ rng.normal(size=(100_000, 5))).argmax(axis=1)
timed(lambda: OnlineClassifier(loss="logistic", penalty=L1(1e-5), epochs=100, random_state=0).fit(X, labels))
""",
    "classifier, columns": """
from sklearn.datasets import load_digits
from spom import OnlineClassifier
from spom.penalties import L1
X, labels = load_digits(return_X_y=True)
timed(lambda: OnlineClassifier(loss="logistic", penalty=L1(1e-3), epochs=400, random_state=0).fit(X, labels))
""",
    "variance reduced": _ROWS
    + """
from spom.penalties import L1
from spom.solvers import VarianceReduced
from spom.solvers.iterate import last
timed(lambda: last(VarianceReduced(X, 2.0 * y - 1.0, penalty=L1(1e-3), tol=1e-6, random_state=0)), 5)
""",
    "working set": _ROWS
    + """
from spom import ProximalClassifier
from spom.penalties import L1
timed(lambda: ProximalClassifier(loss="logistic", penalty=L1(1e-4)).fit(X, y), 3)
""",
    "working set, classes": _ROWS
    + """
from spom import ProximalClassifier
from spom.penalties import GroupLasso
labels = np.abs(X @ rng.normal(size=(100_000, 5))).argmax(axis=1)
timed(lambda: ProximalClassifier(loss="logistic", penalty=GroupLasso(1e-3, groups="rows")).fit(X, labels))
""",
    "tagger, log loss": _SENTENCES
    + 'timed(lambda: SequenceTagger(templates="chunking", loss="log", penalty=L1(1e-5), epochs=3, random_state=0, '
    "verbose=0).fit(sentences))",
    "tagger, hinge": _SENTENCES
    + 'timed(lambda: SequenceTagger(templates="chunking", loss="hinge", penalty=L1(1e-5), epochs=3, random_state=0, '
    "verbose=0).fit(sentences))",
    "tagger, predict": _SENTENCES
    + 'tagger = SequenceTagger(templates="chunking", penalty=L1(1e-5), epochs=1, random_state=0, verbose=0)\n'
    "tagger.fit(sentences)\ntimed(lambda: tagger.predict(sentences), 10)",
    "parser": _TREES
    + "timed(lambda: DependencyParser(projective=True, epochs=2, label_epochs=2, random_state=0, verbose=0).fit(bank))",
    "parser, predict": _TREES
    + "parser = DependencyParser(projective=True, epochs=1, label_epochs=1, random_state=0, verbose=0).fit(bank)\n"
    "timed(lambda: parser.predict(bank), 3)",
    "reading CoNLL-U": _TREES + 'timed(lambda: read_conllu(data / "ewt" / "en_ewt-ud-dev.conllu.gz"), 10)',
}


def seconds(job: str, folder: Path) -> float:
    """Return the CPU seconds of a job with the sources of a folder."""
    given = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + JOBS[job]], env=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{job} failed in {folder}:\n{done.stderr[-1500:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print one line per job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("jobs", nargs="*", help=f"beginnings of names; all: {', '.join(JOBS)}")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for job in (name for name in JOBS if not given.jobs or any(name.startswith(wanted) for wanted in given.jobs)):
        pairs = [(seconds(job, given.other.resolve()), seconds(job, HERE)) for _ in range(given.rounds + 1)][1:]
        ratios = sorted(there / here for there, here in pairs)
        here = statistics.median(pair[1] for pair in pairs)
        print(
            f"{job:20} {here:8.3f} s here; there over here {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
