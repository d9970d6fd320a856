"""A dependency tree as arcs above its words."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.plot.axes import NEUTRAL, POSITIVE, axes


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
