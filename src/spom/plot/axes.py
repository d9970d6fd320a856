"""Axes to draw on, with a clear error where matplotlib is missing."""

from __future__ import annotations

from typing import Any

from spom.errors import Unsupported

POSITIVE, NEGATIVE, NEUTRAL = "#2b6cb0", "#c05621", "#718096"


def axes(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise Unsupported("plots need the package matplotlib (pip install spom[report])") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def horizontal_bars(ax: Any, names: list[str], values: list[float]) -> Any:
    """Bars from the top down, blue to the right and brown to the left."""
    colours = [POSITIVE if v >= 0 else NEGATIVE for v in values]
    ax.barh(range(len(names)), values, color=colours)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color=NEUTRAL, linewidth=0.8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
