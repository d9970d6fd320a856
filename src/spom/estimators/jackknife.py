"""Predictions for the training data, each by a model learnt without it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types
from sklearn.base import clone

from spom.estimators.training.streams import joined_parts, some


def jackknife(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    folds: int = 5,
    n_jobs: int | None = 1,
    predict: str | Callable[..., Any] = "predict",
) -> Any:
    """f_k(x_i) for i in part k, where f_k is learnt from all parts but k: the training input for a second stage.

    Parts are contiguous, so a document is rarely in two of them. `estimator` is cloned, never changed.
    X and y are lists, arrays, `Columns` or a `Treebank`; `predict` is the name of a method or a function of (fitted
    estimator, part of X). The result has the order and the type of its return value. `n_jobs` parts are learnt in
    parallel, in threads; -1 is one per core, as in joblib.

    >>> from sklearn.dummy import DummyRegressor
    >>> jackknife(DummyRegressor(), np.zeros((4, 1)), np.array([0.0, 0.0, 2.0, 2.0]), folds=2)
    array([2., 2., 0., 0.])
    """
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    if folds < 2 or count < 2:
        raise ValueError(f"jackknife needs at least 2 folds and 2 examples; there are {folds} and {count}")
    cuts = np.linspace(0, count, min(folds, count) + 1).astype(np.int64)
    everything = np.arange(count)

    def part(k: int) -> Any:
        inside = everything[cuts[k] : cuts[k + 1]]
        rest = np.concatenate([everything[: cuts[k]], everything[cuts[k + 1] :]])
        model = clone(estimator)
        model.fit(some(X, rest)) if y is None else model.fit(some(X, rest), some(y, rest))
        method = getattr(model, predict) if isinstance(predict, str) else lambda some: predict(model, some)
        return method(some(X, inside))

    with ThreadPoolExecutor(int(effective_n_jobs(n_jobs))) as pool:
        return joined_parts(list(pool.map(part, range(cuts.size - 1))))
