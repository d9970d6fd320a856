"""The path of weights over strengths."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spom.plot.axes import NEUTRAL, axes


def path(model: Any, X: Any, y: Any, count: int = 30, ax: Any = None) -> Any:
    """Draw the weights of a proximal estimator for `count` strengths from the one at which all are zero down.

    `model` is a `ProximalClassifier` or `ProximalRegressor` with a penalty that has a strength; it is not changed.
    """
    from sklearn.base import clone

    start = clone(model).fit(X, y)
    penalty = start.penalty_
    top = penalty.max_strength(_gradient_at_zero(start, X, y))
    strengths = np.geomspace(top, top / 1000.0, count)
    weights = []
    for strength in strengths:
        fitted = clone(model).set_params(penalty=type(penalty)(**{**penalty.get_params(), "strength": strength}))
        with warnings.catch_warnings():
            # At the first strength all weights are zero on purpose.
            warnings.simplefilter("ignore", UserWarning)
            weights.append(np.asarray(fitted.fit(X, y).coef_).reshape(-1))
    ax = axes(ax)
    ax.plot(strengths, np.array(weights), linewidth=1.0)
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.axhline(0.0, color=NEUTRAL, linewidth=0.8)
    ax.set_xlabel("strength")
    ax.set_ylabel("weight")
    return ax


def _gradient_at_zero(fitted: Any, X: Any, y: Any) -> Any:
    """The gradient of the mean loss at zero weights, as the penalty sees it."""
    from spom.solvers import LinearSmooth

    loss = fitted.loss_
    if hasattr(fitted, "classes_"):
        codes = np.searchsorted(fitted.classes_, y)
        target = codes if loss.target == "class" else np.where(codes == 1, 1.0, -1.0)
    else:
        target = np.asarray(y, dtype=np.float64)
    outputs = fitted.classes_.size if hasattr(fitted, "classes_") and loss.target == "class" else None
    smooth = LinearSmooth(X, target, loss) if outputs is None else LinearSmooth(X, target, loss, outputs=outputs)
    return smooth.gradient(np.zeros(smooth.shape))
