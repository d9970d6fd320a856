"""Small problems on which the registry shows solvers at work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


def signs() -> tuple[Any, Any]:
    """Rows and signs for linear solvers."""
    random = np.random.default_rng(0)
    X = random.standard_normal((30, 6))
    return X, np.where(X[:, 0] - X[:, 1] + 0.3 * random.standard_normal(30) > 0, 1.0, -1.0)


def two_kernels() -> Any:
    """Two kernels and two classes."""
    from spom.solvers.mkl.problem import KernelProblem

    X, y = signs()
    return KernelProblem.of([X @ X.T, (1.0 + X @ X.T) ** 2], (y > 0).astype(np.int64))


def two_sentences() -> tuple[Any, Any, int]:
    """(rows, labels, how many labels) of two sentences with a feature a token."""
    rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4, 5], indices=[0, 1, 0, 1, 0], values=[], offsets=[0, 2, 5])
    return rows, [0, 1, 0, 1, 1], 2
