"""Plots of fitted estimators: each call returns matplotlib axes. Needs matplotlib (pip install spom[report])."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.errors import Unsupported
from spom.metrics.confusion import confusion_counts

__all__ = ["blocks", "blocks_over_epochs", "confusion", "contributions", "path", "top_features", "tree"]
POSITIVE, NEGATIVE, NEUTRAL = "#2b6cb0", "#c05621", "#718096"


def axes(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    """Return the given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise Unsupported("plots need the package matplotlib (pip install spom[report])") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def horizontal_bars(ax: Any, names: list[str], values: list[float]) -> Any:
    """Draw bars from top to bottom, positive values in blue to the right and negative ones in brown to the left."""
    colours = [POSITIVE if v >= 0 else NEGATIVE for v in values]
    ax.barh(range(len(names)), values, color=colours)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color=NEUTRAL, linewidth=0.8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def block_name(model: Any, m: int) -> str:
    """Return the displayed name of a block: its own name, its kernel, or its first features."""
    block = model.blocks_[m]
    if isinstance(block, str):
        return block
    if not hasattr(model, "coef_"):
        return f"kernel {block}" if isinstance(block, int) else repr(block)
    names = getattr(model, "feature_names_in_", None)
    own = [int(j) for j in np.atleast_1d(np.asarray(block))]
    text = ", ".join(str(names[j]) if names is not None else f"x{j}" for j in own[:3])
    return text + (", ..." if len(own) > 3 else "")


def blocks(model: Any, count: int = 20, ax: Any = None) -> Any:
    """Draw the weight of each block of a fitted model, the largest first."""
    weights = np.asarray(model.block_weights_)
    order = np.argsort(-weights, kind="stable")[:count].tolist()
    ax = axes(ax, height=0.6 + 0.25 * len(order))
    horizontal_bars(ax, [block_name(model, i) for i in order], weights[order].tolist())
    ax.set_xlabel("share of the block")
    ax.set_title(f"{int(np.count_nonzero(weights))} of {weights.size} blocks kept")
    return ax


def blocks_over_epochs(model: Any, count: int = 10, ax: Any = None) -> Any:
    """Draw the weights of the `count` largest blocks after each epoch."""
    history = getattr(model, "history_", None)
    entries = [entry for entry in history if "block_weights" in entry] if isinstance(history, list) else []
    if not entries:
        raise Unsupported("this model has no history of its blocks: taggers and parsers have one right after fit")
    table = np.array([entry["block_weights"] for entry in entries])
    ax = axes(ax)
    for i in np.argsort(-table[-1], kind="stable")[:count].tolist():
        ax.plot([entry["epoch"] for entry in entries], table[:, i], label=block_name(model, i), marker=".")
    ax.set_xlabel("epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel("share of the block")
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax


def top_features(model: Any, label: Any = None, count: int = 15, ax: Any = None) -> Any:
    """Draw the largest weights by absolute value, of one label or of the model."""
    rows = _weights(model, label, count)
    ax = axes(ax, height=0.6 + 0.25 * len(rows))
    horizontal_bars(ax, [name for name, _ in rows], [weight for _, weight in rows])
    ax.set_xlabel("weight")
    ax.set_title("largest weights" if label is None else f"largest weights of {label}")
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
    """Return the weights of one label; if none is given, the norms over labels, or the weights if there is one row."""
    if label is None:
        return coef[0] if coef.shape[0] == 1 else np.sqrt((coef**2).sum(axis=0))
    classes = [] if not hasattr(model, "classes_") else model.classes_.tolist()
    if label not in classes:
        raise ValueError(f"there is no label {label!r}; there are: {', '.join(map(str, classes))}")
    at = classes.index(label)
    return coef[at] if coef.shape[0] > 1 else (coef[0] if at == 1 else -coef[0])


def confusion(model: Any, X: Any, y: Any, ax: Any = None) -> Any:
    """Draw how often each label (rows) was predicted as each label (columns), for labelled rows or sentences."""
    labels, counts = confusion_counts(y, model.predict(X))
    side = 1.5 + 0.4 * len(labels)
    ax = axes(ax, side + 0.8, side)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
    if len(labels) <= 12:
        for i, j in np.argwhere(counts).tolist():
            ax.text(j, i, str(counts[i, j]), ha="center", va="center", color="white" if share[i, j] > 0.5 else "black")
    ax.set_xticks(range(len(labels)), labels, rotation=90)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_xlabel("predicted")
    ax.set_ylabel("right")
    return ax


def tree(bank: Any, sentence: int = 0, ax: Any = None) -> Any:
    """Draw one sentence of a treebank: words, arcs from heads, relations."""
    a, b = int(bank.offsets[sentence]), int(bank.offsets[sentence + 1])
    words = [fields[1] for fields in bank[sentence]]
    heads = bank.heads[a:b].tolist()
    relations = [bank.relation_names[r] for r in bank.relations[a:b]]
    ax = axes(ax, max(4.0, 0.9 * len(words)), 3.0)
    highest = 1.0
    for i, (head, relation) in enumerate(zip(heads, relations, strict=True), 1):
        if head <= 0:
            ax.annotate("", (i, 0.0), (i, 1.2), arrowprops={"arrowstyle": "->", "color": NEUTRAL})
            ax.text(i, 1.25, relation, ha="center", va="bottom", fontsize=8, color=NEUTRAL)
            continue
        width = abs(head - i)
        height = 0.5 + 0.45 * width
        highest = max(highest, height)
        angle = np.linspace(0.0, np.pi, 40)
        ax.plot((head + i) / 2 + width / 2 * np.cos(angle), height * np.sin(angle), color=POSITIVE, linewidth=1.0)
        ax.annotate("", (i, 0.0), (i, 0.12), arrowprops={"arrowstyle": "->", "color": POSITIVE})
        ax.text((head + i) / 2, height, relation, ha="center", va="bottom", fontsize=8)
    for i, word in enumerate(words, 1):
        ax.text(i, -0.1, word, ha="center", va="top")
    ax.set_xlim(0.3, len(words) + 0.7)
    ax.set_ylim(-0.6, max(highest, 1.4) + 0.4)
    ax.axis("off")
    return ax


def path(model: Any, X: Any, y: Any, count: int = 30, ax: Any = None) -> Any:
    """Draw the weights of a proximal estimator for `count` strengths, down from the one at which all are zero.

    `model` is a `ProximalClassifier` or `ProximalRegressor` with a penalty that has a strength; it is not changed.
    """
    from sklearn.base import clone

    found = clone(model).path(X, y, n_strengths=count)
    ax = axes(ax)
    ax.plot(found.strengths, found.coefs.reshape(count, -1), linewidth=1.0)
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.axhline(0.0, color=NEUTRAL, linewidth=0.8)
    ax.set_xlabel("strength")
    ax.set_ylabel("weight")
    return ax
