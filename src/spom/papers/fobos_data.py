"""Landsat with all products of features and MNIST with Gaussian features, as in the FOBOS paper, and FOBOS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.data import load
from spom.losses import MulticlassLogistic

LOSS = MulticlassLogistic()


@dataclass(frozen=True)
class Split:
    """Features (standardised on the training part, single precision) and classes from 0."""

    X: Any
    y: Ints
    X_test: Any
    y_test: Ints
    classes: int

    def error(self, theta: Floats) -> float:
        """Return the test error of weights with the intercepts in their last row."""
        scores = self.X_test @ theta[:-1].astype(np.float32) + theta[-1]
        return float(np.mean(scores.argmax(axis=1) != self.y_test))

    def scores(self, theta: Floats, rows: Any = slice(None)) -> Floats:
        """Return the scores of training examples."""
        return np.asarray(self.X[rows] @ theta[:-1].astype(np.float32) + theta[-1], dtype=np.float64)

    def gradient(self, theta: Floats, rows: Any = slice(None)) -> Floats:
        """Return the mean gradient of the logistic loss of these training examples."""
        slopes = np.asarray(LOSS.derivative(self.y[rows], self.scores(theta, rows)))
        slopes /= len(slopes)
        own = self.X[rows].T @ slopes.astype(np.float32)
        return np.vstack([own.astype(np.float64), slopes.sum(axis=0)])

    def objective(self, theta: Floats, penalty: Any) -> float:
        """Return the mean logistic loss plus the penalty."""
        loss = float(np.mean(LOSS.value(self.y, self.scores(theta))))
        return loss + float(penalty.value(np.ascontiguousarray(theta[:-1])))

    def top(self, penalty: Any) -> float:
        """Return the least strength that keeps all weights at zero, for `penalty` with strength one."""
        slope = self.gradient(np.zeros((self.X.shape[1] + 1, self.classes)))[:-1]
        return float(penalty.max_strength(np.ascontiguousarray(slope)))

    def held_out(self, share: float, seed: int) -> Split:
        """Split the training part into a training and a development part."""
        order = np.random.default_rng([seed, 4]).permutation(len(self.y))
        cut = round(share * len(order))
        dev, train = np.sort(order[:cut]), np.sort(order[cut:])
        return Split(self.X[train], self.y[train], self.X[dev], self.y[dev], self.classes)


def fobos(
    split: Split, penalty: Any, eta0: float, rounds: int, *, part: float = 1.0, start: Any = None, seed: int = 0
) -> Iterator[Floats]:
    """W <- prox(W - eta g), eta = eta0 / sqrt(t), g the mean gradient of `part` of the examples, drawn each round."""
    n = len(split.y)
    batch, random = max(1, round(part * n)), np.random.default_rng([seed, 7])
    theta = np.zeros((split.X.shape[1] + 1, split.classes)) if start is None else start.copy()
    for t in range(1, rounds + 1):
        rows = slice(None) if batch == n else random.choice(n, batch, replace=False)
        eta = eta0 / np.sqrt(t)
        theta = theta - eta * split.gradient(theta, rows)
        theta[:-1] = penalty.prox(np.ascontiguousarray(theta[:-1]), eta)
        yield theta


def row_share(theta: Floats) -> float:
    """Return the share of features with a nonzero weight, excluding the intercept."""
    return float(np.mean(np.any(theta[:-1] != 0.0, axis=1)))


def landsat(examples: int, seed: int) -> Split:
    """Return `examples` training examples, drawn with the seed; 36 features become their 1296 products."""
    data = load("landsat")
    X, y = data.part("train")
    test, y_test = data.part("test")
    chosen = np.random.default_rng([seed, 2]).choice(len(y), examples, replace=False)
    classes = np.asarray(data.classes)
    return _standardised(
        _products(X[chosen]),
        np.searchsorted(classes, y[chosen]),
        _products(test),
        np.searchsorted(classes, y_test),
        classes.size,
    )


def _products(X: Floats) -> Any:
    return (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)


def mnist(examples: int, tests: int, width: float, seed: int) -> Split:
    """Feature j of image z is exp(-1/2 norm(z - z_j)^2 / width^2), z_j the training images drawn; pixels 0 to 1."""
    data = load("mnist")
    X, y = data.part("train")
    test, y_test = data.part("test")
    random = np.random.default_rng([seed, 3])
    chosen, asked = random.choice(len(y), examples, replace=False), random.choice(len(y_test), tests, replace=False)
    images, others = X[chosen].astype(np.float32), test[asked].astype(np.float32)
    features = (_gaussian(part, images, width) for part in (images, others))
    return _standardised(next(features), y[chosen], next(features), y_test[asked], 10)


def _gaussian(X: Any, Z: Any, width: float) -> Any:
    squares = X @ Z.T
    squares *= -2.0
    squares += (X**2).sum(axis=1)[:, None]
    squares += (Z**2).sum(axis=1)
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5 / width**2
    return np.exp(squares, out=squares)


def _standardised(X: Any, y: Any, X_test: Any, y_test: Any, classes: int) -> Split:
    mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    parts = []
    for part in (X, X_test):
        part -= mean
        part /= spread
        parts.append(np.ascontiguousarray(part, dtype=np.float32))
    return Split(parts[0], y.astype(np.int64), parts[1], y_test.astype(np.int64), classes)
