"""Data as the FOBOS paper describes them, and baselines that several experiments need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.solvers.linear.data import as_rows
from spom.solvers.linear.scores import mean_loss


def half_sparse(n: int, d: int, seed: int, flipped: float = 0.1) -> tuple[Floats, Floats]:
    """Draw Gaussian inputs, and labels from a Gaussian weight vector that is half zero, a part of them flipped.

    >>> X, y = half_sparse(5, 3, seed=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((5, 3), [-1.0, 1.0])
    """
    rng = np.random.default_rng([seed, 1])
    truth = rng.standard_normal(d) * (rng.random(d) < 0.5)
    X = rng.standard_normal((n, d))
    y = np.where(X @ truth >= 0, 1.0, -1.0)
    return X, np.where(rng.random(n) < flipped, -y, y)


def pegasos(
    data: tuple[Floats, Floats],
    loss: Any,
    strength: float,
    *,
    scale: float = 1.0,
    radius: float = np.inf,
    epochs: int = 1,
    every: int = 100,
    seed: int = 0,
) -> Iterator[tuple[int, Floats]]:
    """w <- P((1 - c/t) w - c/(strength t) g), g the loss's derivative times x, P the projection onto a ball.

    Yields (rounds, w). This is Pegasos for any loss of one score; with c = 1 and the hinge loss it is that of
    Shalev-Shwartz, Singer and Srebro (2007), and `spom.solvers.Pegasos`. The order of examples is that of our solvers.
    """
    X, y = data
    random = np.random.default_rng(seed)
    w, t = np.zeros(X.shape[1]), 0
    for _ in range(epochs):
        for i in random.permutation(len(y)):
            t += 1
            slope = float(loss.derivative(y[i], float(X[i] @ w)))
            w *= 1.0 - scale / t
            w -= (scale / (strength * t) * slope) * X[i]
            size = float(np.sqrt(w @ w))
            if size > radius:
                w *= radius / size
            if t % every == 0:
                yield t, w.copy()


def objective(X: Any, y: Floats, loss: Any, penalty: Any, w: Floats) -> float:
    """Return the mean loss plus the penalty at w."""
    rows = as_rows(X, y, None, loss.target)
    return mean_loss(rows, np.arange(len(y)), w, False, loss) + float(penalty.value(w))
