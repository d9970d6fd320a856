"""Which labels are taken for which."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.plot.axes import axes


def confusion(model: Any, X: Any, y: Any, ax: Any = None) -> Any:
    """Draw how often each label (rows) was predicted as each (columns), on rows or sentences with their labels."""
    gold, found = _flat(y), _flat(model.predict(X))
    labels = sorted({*gold, *found}, key=str)
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([place[a] for a in gold], [place[b] for b in found]), 1)
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


def _flat(labels: Any) -> list[Any]:
    """Labels of rows, or of the tokens of sentences one after another."""
    if hasattr(labels, "strings"):
        labels = labels.strings(-1)
    found: list[Any] = []
    for label in labels:
        found += label if isinstance(label, (list, tuple)) else [label]
    return [label.item() if isinstance(label, np.generic) else label for label in found]
