"""Linear classifiers and regressors with their defaults, and peers with a small grid on development rows.

`SPOM_SEEDS=1` takes one seed per set. Kernels are compiled before the clock starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import (
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import spom
from benchmarks.defaults.rows import Row, is_stored, timed
from benchmarks.defaults.sets import SETS, Split
from benchmarks.defaults.vw_peer import VowpalWabbit


def _scaled(model: Any, X: Any) -> Any:
    """Return the model, behind a scaler if the data are dense."""
    return model if sparse.issparse(X) else make_pipeline(StandardScaler(), model)


def _searched(model: Any, name: str, grid: Any, X: Any) -> Any:
    """Return a grid search on a fifth of the training rows, which refits on all of them."""
    scaled = _scaled(model, X)
    key = name if scaled is model else f"{type(model).__name__.lower()}__{name}"
    return GridSearchCV(scaled, {key: grid}, cv=ShuffleSplit(1, test_size=0.2, random_state=0))


Learner = Callable[[int, Any, Any], Any]
ALPHAS = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
CLASSIFIERS: dict[str, Learner] = {
    "OnlineClassifier": lambda seed, X, y: spom.OnlineClassifier(random_state=seed),
    "ProximalClassifier": lambda seed, X, y: spom.ProximalClassifier(),
    "SGDClassifier": lambda seed, X, y: SGDClassifier(random_state=seed),
    "LogisticRegression": lambda seed, X, y: LogisticRegression(),
    "LinearSVC": lambda seed, X, y: LinearSVC(random_state=seed),
    "scaler, SGD": lambda seed, X, y: _scaled(SGDClassifier(random_state=seed), X),
    "vw": lambda seed, X, y: VowpalWabbit(seed),
    "LogisticRegressionCV": lambda seed, X, y: LogisticRegressionCV(),
    "grid: SGDClassifier": lambda seed, X, y: _searched(SGDClassifier(random_state=seed), "alpha", ALPHAS, X),
    "grid: LinearSVC": lambda seed, X, y: _searched(LinearSVC(random_state=seed), "C", [0.01, 0.1, 1, 10], X),
    "grid: vw": lambda seed, X, y: VowpalWabbit(seed, (1, 3, 10)),
}
REGRESSORS: dict[str, Learner] = {
    "OnlineRegressor": lambda seed, X, y: spom.OnlineRegressor(random_state=seed),
    "ProximalRegressor": lambda seed, X, y: spom.ProximalRegressor(),
    "SGDRegressor": lambda seed, X, y: SGDRegressor(random_state=seed),
    "scaler, Ridge": lambda seed, X, y: _scaled(Ridge(), X),
    "Ridge": lambda seed, X, y: Ridge(),
    "Lasso": lambda seed, X, y: Lasso(),
    "grid: scaler, RidgeCV": lambda seed, X, y: _scaled(RidgeCV(np.geomspace(1e-3, 1e3, 13)), X),
}
LEARNERS = {"classification": CLASSIFIERS, "regression": REGRESSORS}
# These give the same result for every seed: on a set with a fixed test part, one run is enough.
FIXED = ("Proximal", "Logistic", "Ridge", "Lasso", "scaler, R", "grid: scaler, R")


def run(kind: str, sets: str = "", learner: str = "") -> Iterator[Row]:
    """Yield the rows of this kind; `sets` and `learner` are prefixes of names."""
    most = int(os.environ.get("SPOM_SEEDS", "10"))
    for name, data in SETS.items():
        if data.kind != kind or not name.startswith(sets):
            continue
        for seed in range(min(data.seeds, most)):
            split = data.load(seed)
            for label, make in LEARNERS[kind].items():
                ours = label.startswith(("Online", "Proximal"))
                if label.startswith(learner) and not is_stored(kind, name, label, seed, ours):
                    yield _row(kind, name, label, seed, make, split)


def _row(kind: str, name: str, label: str, seed: int, make: Learner, split: Split) -> Row:
    few = np.random.default_rng(seed).permutation(split.X.shape[0])[:200]
    if kind == "classification":
        few = np.append(few, np.unique(split.y, return_index=True)[1])
    timed(lambda: make(seed, split.X, split.y).fit(split.X[few], np.asarray(split.y)[few]))
    model, seconds = timed(lambda: make(seed, split.X, split.y).fit(split.X, split.y))
    score, seconds = float(model.score(split.X_test, split.y_test)), getattr(model, "seconds_", seconds)
    ours = type(model).__module__.startswith("spom")
    found = Row(kind, name, label, seed, score, seconds, _size(model), ours, split.counts, _note(model))
    print(
        f"  {name:<18} {label:<22} seed {seed}: {score:.4f} {seconds:7.3f} s {found.size:8d}  {found.note}", flush=True
    )
    return found


def _size(model: Any) -> int:
    """Return the number of non-zero weights."""
    if hasattr(model, "n_weights_"):
        return int(model.n_weights_)
    inner = getattr(model, "best_estimator_", model)
    inner = inner[-1] if hasattr(inner, "steps") else inner
    return int(np.count_nonzero(inner.coef_.toarray() if sparse.issparse(inner.coef_) else inner.coef_))


def _note(model: Any) -> str:
    return repr(model.penalty_) if hasattr(model, "penalty_") else ""
