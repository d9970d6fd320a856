"""Landsat with all products of features and MNIST with Gaussian features, as the FOBOS paper has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.data import load


@dataclass(frozen=True)
class Split:
    """Features (standardised on the training part) and classes from 0."""

    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints
    classes: int

    def error(self, theta: Floats) -> float:
        """Test error of weights with the intercepts in their last row."""
        scores = self.X_test @ theta[:-1] + theta[-1]
        return float(np.mean(scores.argmax(axis=1) != self.y_test))


def row_share(theta: Floats) -> float:
    """The share of features with a non-zero weight, the intercept left out."""
    return float(np.mean(np.any(theta[:-1] != 0.0, axis=1)))


def landsat(examples: int, seed: int) -> Split:
    """`examples` of the training part, drawn with the seed; 36 features become their 1296 products."""
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


def mnist(examples: int, centres: int, tests: int, width: float, seed: int) -> Split:
    """Feature j of image z is exp(-1/2 norm(z - z_j)^2 / width^2), z_j the first of the images drawn; pixels 0 to 1."""
    data = load("mnist")
    X, y = data.part("train")
    test, y_test = data.part("test")
    random = np.random.default_rng([seed, 3])
    chosen, asked = random.choice(len(y), examples, replace=False), random.choice(len(y_test), tests, replace=False)
    images = X[chosen].astype(np.float64)
    middle = images[:centres]
    return _standardised(
        _gaussian(images, middle, width),
        y[chosen],
        _gaussian(test[asked].astype(np.float64), middle, width),
        y_test[asked],
        10,
    )


def _gaussian(X: Floats, Z: Floats, width: float) -> Floats:
    squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2.0 * (X @ Z.T)
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0.0) / width**2))


def _standardised(X: Floats, y: Any, X_test: Floats, y_test: Any, classes: int) -> Split:
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    parts = [np.ascontiguousarray((part - mean) / spread) for part in (X, X_test)]
    return Split(parts[0], y.astype(np.int64), parts[1], y_test.astype(np.int64), classes)
