"""The style of all figures: readable when printed in grey, at the width of a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from spom.papers.optional import matplotlib

# Colour, line and marker change together, and the colours differ in lightness, so curves stay distinct in grey.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#08306b", "linestyle": "-", "marker": "o"},
    {"color": "#d95f02", "linestyle": "--", "marker": "s"},
    {"color": "#1b9e77", "linestyle": "-.", "marker": "^"},
    {"color": "#9e9ac8", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "D"},
    {"color": "#525252", "linestyle": ":", "marker": "v"},
    {"color": "#c51b8a", "linestyle": (0, (3, 1)), "marker": "P"},
    {"color": "#a6761d", "linestyle": (0, (8, 2)), "marker": "X"},
)
PAPER: dict[str, Any] = {"color": "black", "marker": "*", "markersize": 9, "linestyle": "none", "label": "paper"}
_RC = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "legend.framealpha": 0.9,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "spom",
}


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib().rc_context(_RC):
        yield


def panels(rows: int, columns: int, width: float = 7.0, height: float | None = None) -> tuple[Any, Any]:
    """Return a figure and its axes, as an array of `rows` by `columns`; sizes are in inches."""
    with _style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, 2.5 * rows if height is None else height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False)


def picture(draw: Callable[[], Any], dpi: int = 150) -> bytes:
    """Return the figure that `draw` creates, as a PNG."""
    with _style():
        out = io.BytesIO()
        draw().savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


def line(axes: Any, x: Any, y: Any, label: str, style: int, marks: int = 8, **more: Any) -> None:
    """Draw a curve with a few markers, spread evenly along it."""
    look = {**STYLES[style % len(STYLES)], **more}
    every = (0.02 * (style % 5), 1.0 / marks) if len(x) > marks else 1
    axes.plot(x, y, label=label, markevery=every, **look)


def legend_below(figure: Any, axes: Any, columns: int = 4) -> None:
    """Draw one legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def legend_under(axes: Any, columns: int = 2) -> None:
    """Draw a legend for one panel, below it."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, frameon=False)


def whole_numbers(axis: Any) -> None:
    """Set ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def at_end(axes: Any, x: Any, y: Any, text: str) -> None:
    """Write text beside the end of a curve."""
    axes.annotate(text, (x[-1], y[-1]), xytext=(4, 0), textcoords="offset points", va="center", fontsize=6.5)
