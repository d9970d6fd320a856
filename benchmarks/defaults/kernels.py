"""`MKLClassifier()` and `MKLRegressor()` on tables against the best single kernel by cross-validation.

Columns are standardised for both, by their training rows; at most 2,000 rows are used for training (numbers: 1,000).
Ours have the default kernels. The peers, `SVC` and `KernelRidge`, have the linear, quadratic and Gaussian ones of
scikit-learn, the latter with three widths, and several strengths; three folds choose. The size of a model is the
number of kernel values that a prediction takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import spom
from benchmarks.defaults.rows import Row, is_stored, timed
from benchmarks.defaults.sets import SETS

MOST_TEST = 4000


def peer(columns: int) -> Any:
    """`SVC` on the best of three kernels, three widths of the Gaussian and three C; columns have variance one."""
    return GridSearchCV(SVC(), _grid(columns, {"C": [1.0, 10.0, 100.0]}), cv=3)


def ridge(columns: int) -> Any:
    """`KernelRidge` on standardised targets, on the best of the same kernels and five strengths."""
    grid = _grid(columns, {"alpha": [1e-3, 1e-2, 0.1, 1.0, 10.0]})
    return TransformedTargetRegressor(GridSearchCV(KernelRidge(), grid, cv=3), transformer=StandardScaler())


def _grid(columns: int, strengths: dict[str, list[float]]) -> list[dict[str, Any]]:
    scale = 1.0 / columns
    return [
        {"kernel": ["linear"], **strengths},
        {"kernel": ["poly"], "degree": [2], "coef0": [1.0], **strengths},
        {"kernel": ["rbf"], "gamma": [scale / 4, scale, 4 * scale], **strengths},
    ]


class Kind(NamedTuple):
    """An estimator, its peer, the sets, and the maximum number of training rows."""

    ours: type
    name: str
    peer: Callable[[int], Any]
    sets: tuple[str, ...]
    most: int


KINDS = {
    "kernels": Kind(
        spom.MKLClassifier,
        "SVC, best kernel",
        peer,
        ("iris", "wine", "breast_cancer", "digits", "digits-few", "landsat", "letter", "pendigits", "mfeat", "adult"),
        2000,
    ),
    "kernel-numbers": Kind(
        spom.MKLRegressor,
        "KernelRidge, best kernel",
        ridge,
        (
            *("diabetes", "diabetes-few", "cpu_act", "cpu_act-few", "houses", "adult-hours", "adult-age"),
            *("landsat-pixel", "mfeat-moment", "mfeat-moment-few"),
        ),
        1000,
    ),
}


def run(kind: str, sets: str = "", learner: str = "") -> Iterator[Row]:
    """Yield the rows of the tables and learners whose names start with these."""
    about = KINDS[kind]
    seeds, own = int(os.environ.get("SPOM_SEEDS", "3")), about.ours.__name__
    for name in about.sets:
        for seed in range(seeds) if name.startswith(sets) else ():
            split = SETS[name].load(seed)
            rows = np.random.default_rng(seed).permutation(split.X.shape[0])[: about.most]
            scaler = StandardScaler().fit(split.X[rows])
            X, y = scaler.transform(split.X[rows]), np.asarray(split.y)[rows]
            held, gold = scaler.transform(split.X_test[:MOST_TEST]), split.y_test[:MOST_TEST]
            for label in (own, f"{own}, pruned", about.name):
                ours = label != about.name
                if not label.startswith(learner) or is_stored(kind, name, label, seed, ours):
                    continue
                prune = "auto" if label.endswith("pruned") else None
                model = about.ours(random_state=seed, prune=prune) if ours else about.peer(X.shape[1])
                fitted, seconds = timed(lambda model=model, X=X, y=y: model.fit(X, y))
                found = Row(kind, name, label, seed, float(fitted.score(held, gold)), seconds, _size(fitted), ours)
                print(f"  {name:<14} {label:<24} seed {seed}: {found.score:.4f} {seconds:.2f} s", flush=True)
                yield found


def _size(model: Any) -> int:
    if isinstance(model, TransformedTargetRegressor):
        return int(model.regressor_.best_estimator_.dual_coef_.shape[0])
    if isinstance(model, GridSearchCV):
        return int(model.best_estimator_.n_support_.sum())
    return int(model.n_support_ * model.selected_.size)
