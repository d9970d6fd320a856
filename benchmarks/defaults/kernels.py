"""`MKLClassifier()` on tables against `SVC` on the best single kernel by cross-validation.

Columns are standardised for both, by their training rows; at most 2,000 rows are used for training. Ours has the
default kernels; the peer has the linear, quadratic and Gaussian ones of scikit-learn, with C 1, 10 or 100,
and three folds choose both. The size of a model is the number of kernel values that a prediction takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import spom
from benchmarks.defaults.rows import Row, is_stored, timed
from benchmarks.defaults.sets import SETS

TABLES = ("iris", "wine", "breast_cancer", "digits", "digits-few", "landsat", "letter", "pendigits", "mfeat", "adult")
MOST, MOST_TEST = 2000, 4000
PEER = "SVC, best kernel"


def peer() -> Any:
    """`SVC` on the best of three kernels and three C."""
    costs = [1.0, 10.0, 100.0]
    grid = [
        {"kernel": ["linear"], "C": costs},
        {"kernel": ["poly"], "degree": [2], "coef0": [1.0], "C": costs},
        {"kernel": ["rbf"], "C": costs},
    ]
    return GridSearchCV(SVC(), grid, cv=3)


def run(kind: str, sets: str = "", learner: str = "") -> Iterator[Row]:
    """Yield the rows of the tables and learners whose names start with these."""
    seeds = int(os.environ.get("SPOM_SEEDS", "3"))
    for name in TABLES:
        for seed in range(seeds) if name.startswith(sets) else ():
            split = SETS[name].load(seed)
            rows = np.random.default_rng(seed).permutation(split.X.shape[0])[:MOST]
            scaler = StandardScaler().fit(split.X[rows])
            X, y = scaler.transform(split.X[rows]), np.asarray(split.y)[rows]
            held, gold = scaler.transform(split.X_test[:MOST_TEST]), split.y_test[:MOST_TEST]
            for label in ("MKLClassifier", "MKLClassifier, pruned", PEER):
                ours = label != PEER
                if not label.startswith(learner) or is_stored(kind, name, label, seed, ours):
                    continue
                prune = "auto" if label.endswith("pruned") else None
                model = spom.MKLClassifier(random_state=seed, verbose=0, prune=prune) if ours else peer()
                fitted, seconds = timed(lambda model=model, X=X, y=y: model.fit(X, y))
                note = str(np.round(fitted.block_weights_, 3).tolist()) if ours else str(fitted.best_params_)
                size = int(
                    fitted.n_support_ * fitted.selected_.size if ours else fitted.best_estimator_.n_support_.sum()
                )
                found = Row(kind, name, label, seed, float(fitted.score(held, gold)), seconds, size, ours, note=note)
                print(f"  {name:<14} {label:<18} seed {seed}: {found.score:.4f} {seconds:.2f} s {note}", flush=True)
                yield found
