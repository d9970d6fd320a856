"""The tables of docs/benchmarks.md: spom's defaults and other tools at their best known settings, in one run.

`python -m benchmarks --keep beside:PART` runs a part and stores its table. `python tools/readme.py` fills that page
and the README. Parts: `chunking`, `upos`, `landsat`, `thousand`, `shuffled`, `groups`, `spacy`. Seconds are CPU seconds
of one thread, without compiling.
Test sets are only scored. The settings of each tool are chosen by cross-validation on its training rows, or are those
that its documentation or an earlier comparison on development data found best, as the table says.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table, data_folder
from benchmarks.tagging import _words, warm
from benchmarks.tagging_peers import chunking_features, plain_conll, pos_features, run
from spom import MKLClassifier, SequenceTagger
from spom.data import load, read_conll, read_conllu
from spom.metrics.phrases import phrase_scores

SEEDS = 3
# lbfgs: the c1 and c2 found by a grid on held-out sentences for both sets, 100 passes.
CRFSUITE: dict[str, tuple[str, dict[str, Any]]] = {
    "averaged perceptron, 10 passes": ("ap", {"max_iterations": 10}),
    "passive-aggressive, 10 passes": ("pa", {"max_iterations": 10}),
    "arow, 10 passes": ("arow", {"max_iterations": 10}),
    "lbfgs, c1 .1, c2 .05, 100 passes": ("lbfgs", {"c1": 0.1, "c2": 0.05, "max_iterations": 100}),
}


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a task, and its CPU seconds."""
    begin = time.process_time()
    return task(), time.process_time() - begin


def taggers(table: Table, what: str, ours: Any, theirs: tuple[Any, Any, Any, Callable[[Any], float]]) -> None:
    """Compare our default tagger, over some seeds, with each algorithm of CRFsuite: score, seconds and weights."""
    train, test, labels = ours
    runs = [
        timed(lambda s=seed: SequenceTagger(random_state=s, verbose=0).fit(train(), labels)) for seed in range(SEEDS)
    ]
    score = float(np.mean([tagger.score(test, labels) for tagger, _ in runs]))
    seconds = float(np.mean([spent for _, spent in runs]))
    weights = float(np.mean([tagger.nonzeros_ for tagger, _ in runs]))
    sentences, held, features, judge = theirs
    for name, (algorithm, params) in CRFSUITE.items():
        with tempfile.TemporaryDirectory() as folder:
            peer = run(sentences, held, features, algorithm, params, str(Path(folder) / "model"), judge)
        table.add(f"{what}; CRFsuite, {name}", score, peer.score)
        table.add("  CPU seconds, features included", seconds, peer.seconds)
        table.add("  weights", weights, peer.weights)


def chunking(folder: Path) -> None:
    """Run CoNLL-2000."""
    path = folder / "conll2000" / "train.txt.gz"
    warm(path, templates="auto", epochs="auto")
    table = Table(
        "Chunks of CoNLL-2000",
        settings=f"Ours: `SequenceTagger()`, mean of {SEEDS} seeds. CRFsuite: the features of its chunking tutorial.",
    )
    sentences, gold = plain_conll(folder / "conll2000" / "test.txt.gz")
    peers = (plain_conll(path), sentences, chunking_features, lambda found: phrase_scores(gold, found).f1)
    taggers(table, "F1", (lambda: read_conll(path), read_conll(folder / "conll2000" / "test.txt.gz"), None), peers)


def upos(folder: Path) -> None:
    """Run EWT."""
    train, test = (folder / "ewt" / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "test"))
    warm(train, templates="auto", epochs="auto")
    table = Table(
        "Parts of speech of English EWT",
        settings=f"Ours: `SequenceTagger()`, mean of {SEEDS} seeds. CRFsuite: word, lower case, affixes to four, "
        "shape, neighbours to two, pairs of words.",
    )
    held, gold = _words(test)

    def accuracy(found: Any) -> float:
        return float(np.mean([a == b for x, y in zip(found, gold, strict=True) for a, b in zip(x, y, strict=True)]))

    ours = (lambda: read_conllu(train).columns, read_conllu(test).columns, "upos")
    taggers(table, "accuracy", ours, (_words(train), held, pos_features, accuracy))


def machines(X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, tuple[float, float]]:
    """Fit `SVC` on single kernels and their mean, C and width by five folds; return accuracy and CPU seconds."""
    from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    costs, width = [0.1, 1.0, 10.0, 100.0], 1.0 / X.shape[1]

    def mean(A: Any, B: Any) -> Any:
        parts = [linear_kernel(A, B) * width, polynomial_kernel(A, B, degree=2, gamma=width), rbf_kernel(A, B, width)]
        return sum(parts) / 3.0

    grids = {
        "SVC, linear": {"kernel": ["linear"], "C": costs},
        "SVC, quadratic": {"kernel": ["poly"], "degree": [2], "coef0": [1.0], "C": costs},
        "SVC, Gaussian": {"kernel": ["rbf"], "C": costs, "gamma": [width / 4, width, 4 * width]},
        "SVC, mean of the three": {"kernel": [mean], "C": costs},
    }
    found = {}
    for name, grid in grids.items():
        model, seconds = timed(lambda grid=grid: GridSearchCV(SVC(), grid, cv=5).fit(X, y))
        found[name] = (float(model.score(X_test, y_test)), seconds)
    return found


def landsat(folder: Path) -> None:
    """Run Landsat: `MKLClassifier()` against machines with one kernel."""
    data = load("landsat")
    X = (data.X - data.X[data.train].mean(axis=0)) / data.X[data.train].std(axis=0)
    X_train, y_train, X_test, y_test = X[data.train], data.y[data.train], X[data.test], data.y[data.test]
    MKLClassifier(verbose=0).fit(X_train[:1100], y_train[:1100])
    table = Table(
        "Landsat, six classes",
        settings="Ours: `MKLClassifier()`, which chooses its strength. SVC: C, and the width of the Gaussian, by five "
        "folds. Columns standardised for both. Times include the choice.",
    )
    runs = [timed(lambda s=s: MKLClassifier(random_state=s, verbose=0).fit(X_train, y_train)) for s in range(SEEDS)]
    score, seconds = (
        float(np.mean(part)) for part in zip(*((m.score(X_test, y_test), t) for m, t in runs), strict=True)
    )
    for name, (theirs, spent) in machines(X_train, y_train, X_test, y_test).items():
        table.add(f"accuracy; {name}", score, theirs)
        table.add("  CPU seconds", seconds, spent)


def digits(draw: int, count: int, useful: int = 10) -> tuple[list[Any], Any]:
    """Return Gram matrices of 800 digits, and labels: `useful` of the kernels see the pixels, the others noise."""
    from sklearn.datasets import load_digits
    from sklearn.metrics.pairwise import rbf_kernel

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(draw)
    rows = rng.permutation(len(y))[:800]
    seeing = set(rng.choice(count, useful, replace=False).tolist())
    views = []
    for m, width in enumerate(np.geomspace(0.5, 50.0, count)):
        view = X[rows] / 16.0 if m in seeing else rng.standard_normal((800, X.shape[1])) / 4.0
        views.append(rbf_kernel(view, gamma=0.5 / width).astype(np.float32))
    return views, y[rows]


def thousand(folder: Path) -> None:
    """Run 1,000 kernels, of which 10 see the digits."""
    table = Table(
        "400 digits, 1,000 Gaussian kernels of which 10 see the digits and 990 noise",
        settings='Means of three draws. Ours: `MKLClassifier("precomputed")`. SVC: C 10; single kernel by three folds.',
    )
    rows = [_drawn(draw) for draw in range(3)]
    score, seconds, on = np.mean([row["ours"] for row in rows], axis=0).tolist()
    for name, count in (("SVC on the mean of all", 1000.0), ("SVC on the best single kernel", 1.0)):
        theirs, spent = np.mean([row[name] for row in rows], axis=0).tolist()
        table.add(f"accuracy; {name}", score, theirs)
        table.add("  CPU seconds", seconds, spent)
        table.add("  kernels in use", on, count)


def _drawn(draw: int) -> dict[str, tuple[float, ...]]:
    """Return accuracy and CPU seconds of each on one draw."""
    from sklearn.model_selection import cross_val_score
    from sklearn.svm import SVC

    views, y = digits(draw, 1000)
    inner, across, machine = (
        [v[:400, :400] for v in views],
        [v[400:, :400] for v in views],
        SVC(C=10.0, kernel="precomputed"),
    )
    y, gold = y[:400], y[400:]
    model, seconds = timed(lambda: MKLClassifier("precomputed", random_state=draw, verbose=0).fit(inner, y))
    found: dict[str, tuple[float, ...]] = {"ours": (model.score(across, gold), seconds, len(model.selected_))}

    def mean(parts: list[Any]) -> Any:
        return np.mean(parts, axis=0, dtype=np.float64)

    _, seconds = timed(lambda: machine.fit(mean(inner), y))
    found["SVC on the mean of all"] = (machine.score(mean(across), gold), seconds)

    def single() -> int:
        best = int(np.argmax([cross_val_score(machine, v, y, cv=3).mean() for v in inner]))
        machine.fit(inner[best], y)
        return best

    best, seconds = timed(single)
    found["SVC on the best single kernel"] = (machine.score(across[best], gold), seconds)
    return found


def shuffled(folder: Path) -> None:
    """Run a pass of OnlineClassifier against one of SGDClassifier."""
    from benchmarks.online import bench_shuffled

    bench_shuffled()


def groups(folder: Path) -> None:
    """Run group lasso against celer, skglm and adelie."""
    from benchmarks.group_lasso import groups as race

    race()


def spacy(folder: Path) -> None:
    """Run tags and trees against spaCy from scratch."""
    from benchmarks.spacy_peer import trees

    trees(folder)


def spacy_entities(folder: Path) -> None:
    """Run named entities against spaCy from scratch."""
    from benchmarks.spacy_peer import ENTITIES, entities

    entities(folder, ENTITIES)


PARTS = {f.__name__: f for f in (chunking, upos, landsat, thousand, shuffled, groups, spacy, spacy_entities)}


def main(part: str = "") -> None:
    """Run all parts, or one."""
    folder = data_folder()
    if folder is None:
        return
    warnings.filterwarnings("ignore", message="labels that were not seen")
    for name in [part] if part else PARTS:
        PARTS[name](Path(folder))
