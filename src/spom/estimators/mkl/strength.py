"""The strength of a kernel regressor's penalty, from held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.state import State
from spom.kernels.gram import DenseGram, FeatureGram, Gram
from spom.penalties.base import with_strength
from spom.solvers.iterate import last
from spom.solvers.mkl.problem import on_norms
from spom.solvers.mkl.regression import KernelRegression, product

# Multiples of `Path.size`, strong to weak: a wide and even grid, not tuned. The path ends where errors rise.
MULTIPLES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
# The number of parts of the rows; with more than `ENOUGH` held-out rows one part is enough.
FOLDS, ENOUGH = 5, 500
# The number of worse strengths in a row that ends the path.
PATIENCE = 2
# The tolerance and the maximum number of steps of the fits that are only compared.
TOLERANCE, STEPS = 1e-3, 300


@dataclass(frozen=True)
class Path:
    """A regression problem, and a penalty whose strength is to be chosen."""

    grams: list[Gram]
    y: Floats
    weight: Floats | None
    penalty: Any
    limits: dict[str, Any]

    def size(self) -> float:
        """Return the strength that `MULTIPLES` are multiples of.

        For penalties that can make all blocks zero it is the smallest strength that does. For others it is 1 if the
        penalty is norm^2 / 2 of one block, else the strength of equal cost at the norm where targets are fitted.
        """
        y = self.y - np.average(self.y, weights=self.weight)
        share = np.full(y.size, 1.0 / y.size) if self.weight is None else self.weight / self.weight.sum()
        slopes = np.sqrt([max(float((share * y) @ product(gram, share * y)), 0.0) for gram in self.grams])
        h = on_norms(with_strength(self.penalty, 1.0), len(self.grams))
        top = float(h.max_strength(slopes))
        if np.isfinite(top):
            return top if top > 0.0 else 1.0
        unit = np.zeros(len(self.grams))
        unit[0] = float(np.sqrt(share @ y**2)) or 1.0
        value = float(h.value(unit))
        return 0.5 * float(unit[0]) ** 2 / value if value > 0.0 else 1.0

    def errors(self, train: Ints, test: Ints) -> list[float]:
        """Return the mean squared error on `test` at each multiple, each fit with a warm start from the one before."""
        grams = [_part(gram, train) for gram in self.grams]
        weight = None if self.weight is None else self.weight[train]
        found: list[float] = []
        start: State | None = None
        size = self.size()
        for multiple in MULTIPLES:
            penalty = with_strength(self.penalty, multiple * size)
            limits = {"tol": max(TOLERANCE, self.limits["tol"]), "epochs": min(STEPS, self.limits["epochs"])}
            start = last(KernelRegression(grams, self.y[train], penalty, weight=weight, start=start, **limits))
            left = self.y[test] - self._values(start, train, test)
            own = None if self.weight is None else self.weight[test]
            found.append(float(np.average(left**2, weights=own)) if own is None or own.any() else 0.0)
            if len(found) - 1 - int(np.argmin(found)) >= PATIENCE:
                break
        return found

    def _values(self, state: State, train: Ints, test: Ints) -> Floats:
        whole = np.zeros((len(self.grams), self.y.size))
        whole[:, train] = state.theta.reshape(len(self.grams), -1)
        f = sum(product(gram, a) for gram, a in zip(self.grams, whole, strict=True) if a.any())
        return np.asarray(np.broadcast_to(f, self.y.shape))[test] + float(state.internal["intercept"])


def chosen_multiple(path: Path, random: Any) -> tuple[float, list[float]]:
    """Return (the multiple with the least error on held-out rows, the mean error of each multiple tried)."""
    n = path.y.size
    parts = np.array_split(random.permutation(n), FOLDS)
    if n >= ENOUGH * FOLDS:
        parts = parts[:1]
    every = [path.errors(np.setdiff1d(np.arange(n), test), np.sort(test)) for test in parts]
    longest = min(len(errors) for errors in every)
    mean = np.mean([errors[:longest] for errors in every], axis=0)
    return MULTIPLES[int(np.argmin(mean))], [float(e) for e in mean]


def _part(gram: Gram, rows: Ints) -> Gram:
    """Return the Gram matrix of some rows, dense ones in single precision, which is enough to compare strengths."""
    if isinstance(gram, DenseGram):
        return DenseGram(np.ascontiguousarray(gram.values[np.ix_(rows, rows)], dtype=np.float32))
    if isinstance(gram, FeatureGram):
        return FeatureGram(gram.features[rows])
    return _Part(gram, rows)


class _Part(Gram):
    """Some rows and columns of a Gram matrix, without a copy."""

    def __init__(self, gram: Gram, rows: Ints) -> None:
        self.gram, self.of, self.n = gram, rows, rows.size

    def diagonal(self) -> Floats:
        """K(x_i, x_i)."""
        return self.gram.diagonal()[self.of]

    def dot(self, A: Any) -> Floats:
        """K A."""
        whole = np.zeros((self.gram.n, *np.shape(A)[1:]))
        whole[self.of] = A
        return self.gram.dot(whole)[self.of]
