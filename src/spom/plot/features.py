"""The features that tell most, of a model and of one prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.errors import Unsupported
from spom.plot.axes import axes, horizontal_bars


def top_features(model: Any, label: Any = None, count: int = 15, ax: Any = None) -> Any:
    """Draw the largest weights by size, of one label or of the model."""
    rows = _weights(model, label, count)
    ax = axes(ax, height=0.6 + 0.25 * len(rows))
    horizontal_bars(ax, [name for name, _ in rows], [weight for _, weight in rows])
    ax.set_xlabel("weight")
    ax.set_title("largest weights" if label is None else f"what speaks for and against {label}")
    return ax


def contributions(explanation: Any, count: int = 12, ax: Any = None) -> Any:
    """Draw an explanation: the contribution of each feature to the lead of the winner."""
    rows = explanation.top(count)
    ax = axes(ax, height=0.6 + 0.25 * max(len(rows), 2))
    horizontal_bars(ax, [name for name, _ in rows], [value for _, value in rows])
    ax.set_xlabel("contribution")
    ax.set_title(explanation.title())
    return ax


def _weights(model: Any, label: Any, count: int) -> list[tuple[str, float]]:
    if hasattr(model, "features"):
        found = model.features(label, count)
        return [(name if label is not None else f"{name} ({of})", weight) for name, of, weight in found]
    if not hasattr(model, "coef_"):
        raise Unsupported(f"{type(model).__name__} has no weights of single features; see spom.plot.blocks")
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else np.atleast_2d(model.coef_)
    row, names = _row(model, coef, label), getattr(model, "feature_names_in_", None)
    order = np.argsort(-np.abs(row), kind="stable")[:count].tolist()
    return [(str(names[j]) if names is not None else f"x{j}", float(row[j])) for j in order if row[j]]


def _row(model: Any, coef: Any, label: Any) -> Any:
    """The weights of one label; the norms over labels where none is asked for."""
    if label is None:
        return coef[0] if coef.shape[0] == 1 else np.sqrt((coef**2).sum(axis=0))
    classes = [] if not hasattr(model, "classes_") else model.classes_.tolist()
    if label not in classes:
        raise ValueError(f"there is no label {label!r}; there are: {', '.join(map(str, classes))}")
    at = classes.index(label)
    return coef[at] if coef.shape[0] > 1 else (coef[0] if at == 1 else -coef[0])
