"""Two classes of texts, as frequent as each other or one of them rare: losses, and scales of the columns.

`python -m benchmarks.defaults.two_classes measure` cuts problems from the *training* rows of five families of texts,
learns from some of the rows, and stores accuracy and average precision on others in `results/two_classes.json` (test
rows are not used). A column is divided by a power of its root mean square in any case, or by its root if held-out rows
say so, as `OnlineClassifier()` does. Without `measure` the script prints means over families, and the worst problem.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

import spom
from benchmarks.defaults.sets import TEXTS, VECTORIZERS
from spom.losses import Logistic, PowerHinge

RESULTS = Path(__file__).parent / "results" / "two_classes.json"
SEEDS, MOST, LEAST = 2, 5000, 8
FORMS, SIZES, SHARES = ("tfidf", "binary", "counts"), (300, 1000, 4000), (0.01, 0.03, 0.1, 0.25)
FAMILIES = {
    **{"polarity": "polarity", "sst5": "polarity", "ag_news": "ag_news"},
    **{"trec": "trec", "genres": "genres", "languages": "languages"},
}
# Learners by name: the power of the size of columns (None: the default), and the estimator.
LEARNERS: dict[str, tuple[float | None, Any]] = {
    "OnlineClassifier": (None, lambda: spom.OnlineClassifier(random_state=0, verbose=0)),
    "ProximalClassifier": (None, lambda: spom.ProximalClassifier(verbose=0)),
    "logistic loss": (0.0, lambda: spom.OnlineClassifier(Logistic(), scale=False, random_state=0, verbose=0)),
    "squared hinge": (0.0, lambda: spom.OnlineClassifier(PowerHinge(2.0), scale=False, random_state=0, verbose=0)),
    **{
        f"power {power}": (power, lambda: spom.OnlineClassifier(scale=False, random_state=0, verbose=0))
        for power in (0.0, 0.25, 0.5, 0.75)
    },
    "SGDClassifier": (0.0, lambda: SGDClassifier(random_state=0)),
    "LogisticRegression": (0.0, LogisticRegression),
    "LinearSVC": (0.0, lambda: LinearSVC(random_state=0)),
}
Rows = tuple[list[str], Any]


def cuts(name: str, labels: Any, seed: int) -> Iterator[tuple[str, Any, float, int]]:
    """Yield (kind, the class of each row: True, False or None, the share of True, the number of rows to learn)."""
    random, classes = np.random.default_rng([seed, len(name)]), np.unique(labels)
    graded = [((0, 1), (3, 4))] if name == "sst5" else [((a,), (b,)) for a, b in combinations(classes, 2)]
    for place in random.permutation(len(graded))[:2]:
        one, other = (np.isin(labels, [type(classes[0])(label) for label in part]) for part in graded[place])
        for rows in SIZES:
            yield "frequent", np.where(one, True, np.where(other, False, None)), 0.5, rows
    for share in SHARES:
        yield "rare", labels == random.choice(classes), share, int(random.choice(SIZES[1:]))


def parts(texts: list[str], positive: Any, share: float, rows: int, seed: int) -> tuple[Rows, Rows] | None:
    """Return (texts to learn from, others to score), both with this share of positive ones; None if there are few."""
    random = np.random.default_rng(seed)
    two = [random.permutation(np.flatnonzero(positive == label)) for label in (True, False)]
    rows = int(min(rows, 0.6 * two[0].size / share, 0.6 * two[1].size / (1.0 - share)))
    counts = [round(share * rows), rows - round(share * rows)]
    if counts[0] < LEAST:
        return None
    rest = min(MOST, (two[0].size - counts[0]) / share, (two[1].size - counts[1]) / (1.0 - share))
    left = [int(share * rest), int((1.0 - share) * rest)]
    chosen = random.permutation(np.concatenate([of[:n] for of, n in zip(two, counts, strict=True)]))
    apart = np.concatenate([of[n : n + m] for of, n, m in zip(two, counts, left, strict=True)])
    learn, score = (([texts[i] for i in part], positive[part].astype(bool)) for part in (chosen, apart))
    return learn, score


def one(form: str, learn: Rows, score: Rows) -> dict[str, list[float]]:
    """Return [accuracy, average precision] of each learner; nothing if rows outnumber words."""
    made, found = VECTORIZERS[form](), {}
    X, held = made.fit_transform(learn[0]).astype(np.float64), made.transform(score[0]).astype(np.float64)
    size = np.sqrt(np.asarray(X.multiply(X).mean(axis=0))).reshape(-1)
    for learner, (power, make) in LEARNERS.items() if X.shape[1] >= X.shape[0] else ():
        scale = sparse.diags(size ** -(power or 0.0), format="csr")
        scores = make().fit(X @ scale, learn[1]).decision_function(held @ scale)
        values = float(np.mean((scores > 0) == score[1])), float(average_precision_score(score[1], scores))
        found[learner] = [round(value, 5) for value in values]
    return found


def measure() -> None:
    """Measure all problems."""
    warnings.simplefilter("ignore")
    done: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        texts, labels, _, _ = TEXTS[name](0)
        for seed in range(SEEDS):
            for place, (kind, positive, share, rows) in enumerate(cuts(name, np.asarray(labels), seed)):
                cut = parts(texts, positive, share, rows, 100 * seed + place)
                for form in FORMS if cut else ():
                    assert cut is not None
                    key = f"{name}, {form}, {kind} {place}, {share:g} of {len(cut[0][0])} rows, seed {seed}"
                    found = one(form, *cut)
                    if found:
                        done[key] = {"family": family, "kind": kind, **found}
                        print(key, found["OnlineClassifier"], flush=True)
    RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, ", "},\n ") + "\n")


def show() -> None:
    """Print the means over families for both kinds of problems, as differences to `OnlineClassifier()`."""
    every = list(json.loads(RESULTS.read_text()).values())
    for kind in ("frequent", "rare"):
        problems = [problem for problem in every if problem["kind"] == kind]
        families = sorted({problem["family"] for problem in problems})
        print(
            f"\n{kind}: {len(problems)} problems; accuracy, average precision, worst accuracy, below by more than .005"
        )
        for learner in LEARNERS:
            gaps: dict[str, list[Any]] = defaultdict(list)
            for problem in problems:
                gaps[problem["family"]].append(np.subtract(problem[learner], problem["OnlineClassifier"]))
            means = {family: np.mean(gaps[family], axis=0) for family in families}
            accuracy, precision = np.mean(list(means.values()), axis=0)
            all_gaps = np.concatenate(list(gaps.values()))[:, 0]
            own = ", ".join(f"{family} {means[family][0]:+.4f}" for family in families)
            text = f"{accuracy:+.4f} {precision:+.4f} {all_gaps.min():+.4f} {(all_gaps < -0.005).sum():4d}"
            print(f"  {learner:<20} {text}   {own}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure()
    else:
        show()
