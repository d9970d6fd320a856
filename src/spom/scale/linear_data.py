"""Rows of shards for linear models: counts of the first pass, scales of columns, and rows as solvers take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from spom.core.arrays import Floats
from spom.errors import DataError
from spom.estimators.checking import (
    check_classes,
    check_data,
    check_labels,
    check_same_length,
    check_targets,
    check_weights,
    class_weights,
    combined_weights,
    encode,
)
from spom.estimators.linear.scaling import Scaling, column_squares, from_mean_squares, from_moments, from_squares


@dataclass(frozen=True)
class Moments:
    """Of dense columns: weight, mean, sum of squared distances from the mean, weight of nonzero entries, first row.

    Of sparse columns: counts and squares.
    """

    mass: float
    first: Floats
    second: Floats
    filled: Floats
    row: Floats | None

    @classmethod
    def of(cls, X: Any, weight: Floats | None) -> Moments:
        """Return the moments of the columns of one shard."""
        if sparse.issparse(X):
            return cls(1.0, *column_squares(X), np.zeros(X.shape[1]), None)
        w = np.ones(X.shape[0]) if weight is None else weight
        mass = float(w.sum())
        mean = w @ X / max(mass, 1e-300)
        return cls(mass, mean, w @ (X - mean) ** 2, w @ (X != 0.0), X[0].copy())

    def widened(self, size: int) -> Moments:
        """Return the same moments with additional columns, which were all zero."""
        more = (0, max(0, size - self.first.size))
        first, second, filled = (np.pad(a, more) for a in (self.first, self.second, self.filled))
        return Moments(self.mass, first, second, filled, self.row)


@dataclass(frozen=True)
class Seen:
    """What the first pass finds in a shard; `labels` and `counts` are None for real targets."""

    rows: int
    mass: float
    features: int
    names: Any
    labels: NDArray[Any] | None
    counts: Floats | None
    moments: Moments | None


@dataclass(frozen=True)
class LinearLook:
    """The first pass over the rows of shards."""

    classifies: bool
    moments: bool

    def look(self, loaded: tuple[Any, Any, Any]) -> Seen:
        """Count the rows, features and labels of a shard, and sum up its columns."""
        checker = BaseEstimator()
        X = check_data(checker, loaded[0], reset=True)
        weight = check_weights(loaded[2], X)
        names, labels, counts = getattr(checker, "feature_names_in_", None), None, None
        y = check_labels(loaded[1]) if self.classifies else check_targets(loaded[1])
        check_same_length(X, y)
        if self.classifies:
            labels, index = np.unique(y, return_inverse=True)
            counts = np.bincount(index, weights=weight).astype(np.float64)
            if weight is not None:
                labels, counts = labels[counts > 0], counts[counts > 0]
        mass = float(X.shape[0]) if weight is None else float(weight.sum())
        moments = Moments.of(X, weight) if self.moments else None
        return Seen(X.shape[0], mass, X.shape[1], names, labels, counts, moments)


@dataclass(frozen=True)
class Preparation:
    """How rows are prepared for a solver: width, classes, weights of classes, scaling, and the loss's targets."""

    features: int
    classes: NDArray[Any] | None
    by_class: Floats | None
    scaling: Scaling | None
    target: str

    def prepare(self, loaded: tuple[Any, Any, Any]) -> tuple[Any, Any, Floats | None]:
        """Return (X, targets, weights) of a shard."""
        X = check_data(BaseEstimator(), loaded[0], reset=True)
        if sparse.issparse(X) and X.shape[1] < self.features:
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], self.features))
        if X.shape[1] != self.features:
            raise DataError(f"expected {self.features} features, as other shards have, found {X.shape[1]}")
        weight = check_weights(loaded[2], X)
        X = X if self.scaling is None else self.scaling.apply(X)
        if self.classes is None:
            return X, check_targets(loaded[1]), weight
        index = encode(check_labels(loaded[1]).astype(self.classes.dtype), self.classes)
        weight = combined_weights(weight, self.by_class, index)
        return X, index if self.target == "class" else np.where(index == 1, 1.0, -1.0), weight


def scaling_of(parts: Iterable[Moments], features: int, intercept: bool, real: bool) -> Scaling | None:
    """Return the scaling that `measured` gives for all rows, up to rounding, from the moments in shard order."""
    total: Moments | None = None
    for part in (part.widened(features) for part in parts):
        if total is None:
            total = part
        elif part.row is None:
            total = Moments(1.0, total.first + part.first, total.second + part.second, total.filled, None)
        else:
            mass = total.mass + part.mass
            gap = part.first - total.first
            mean = total.first + gap * (part.mass / mass)
            spread = total.second + part.second + gap**2 * (total.mass * part.mass / mass)
            total = Moments(mass, mean, spread, total.filled + part.filled, total.row)
    assert total is not None
    if total.row is None:
        return from_squares(total.first, total.second)
    spread, filled = np.sqrt(total.second / total.mass), np.ones(features) if real else total.filled / total.mass
    if intercept:
        return from_moments(total.first, spread, filled, total.row)
    return from_mean_squares(total.first**2 + spread**2, filled)


def classes_of(seen: list[Seen], given: Any) -> NDArray[Any]:
    """Return the sorted labels of all shards, or the given classes; if some shards have text, numbers count as text."""
    if given is not None:
        return check_classes(given)
    parts = [part.labels for part in seen if part.labels is not None]
    if len({part.dtype.kind in "US" for part in parts}) > 1:
        parts = [part.astype(np.str_) for part in parts]
    return check_classes(np.concatenate(parts))


def weights_of_classes(given: Any, classes: NDArray[Any], seen: list[Seen]) -> Floats | None:
    """Return the weight of each class; "balanced" counts the labels of all shards."""
    if not (isinstance(given, str) and given == "balanced"):
        return class_weights(given, classes, classes)
    counts = np.zeros(classes.size)
    for part in seen:
        assert part.labels is not None
        assert part.counts is not None
        counts[encode(part.labels.astype(classes.dtype), classes)] += part.counts
    return np.asarray(counts.sum() / (classes.size * np.maximum(counts, 1e-300)))


def one_width(estimator: Any, seen: list[Seen]) -> int:
    """Return the number of features, the same in all shards (sparse ones may be narrower); set what `fit` sets."""
    features = max(part.features for part in seen)
    names = next((part.names for part in seen if part.names is not None), None)
    for part in seen:
        if part.names is not None and names is not None and list(part.names) != list(names):
            raise DataError(f"shards have different columns: {list(names)[:5]}... and {list(part.names)[:5]}...")
    estimator.n_features_in_ = features
    if names is not None:
        estimator.feature_names_in_ = names
    return features


def fresh(estimator: Any) -> Any:
    """Return the estimator for workers: with its parameters only, silent, and with one thread."""
    params = estimator.get_params(deep=False)
    quiet: dict[str, Any] = {"verbose": 0, "callbacks": None, "n_jobs": 1, "random_state": None}
    return type(estimator)(**{**params, **{name: v for name, v in quiet.items() if name in params}})
