"""Charts as plotly figures: plain dicts. Colours are CSS variables of the page, such as `var(--line-1)`, which the page
resolves when it draws, so that one figure serves the light and the dark style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from spom.report.contents import Block, Contents, Epoch, Matrix, Number, Paths
from spom.report.tables import filled

Figure = dict[str, Any]

# The number of lines with their own colours; the others are grey.
COLOURS = 8
# The maximum numbers of lines and of bars. For more blocks, only the table, which has its own bars, shows the shares.
MOST_LINES, MOST_BARS = 300, 20
# The cells of a matrix show their numbers up to this many labels.
MOST_LABELS_WITH_NUMBERS = 16

# The panels of the run, each with the columns of an epoch that it shows.
_PANELS: dict[str, tuple[str, ...]] = {
    "objective": ("objective", "loss"),
    "dev": ("dev",),
    "blocks": ("blocks_kept",),
    "nonzeros": ("nonzeros",),
}


def figures(contents: Contents) -> dict[str, Figure]:
    """Return every chart that the contents have data for, by the id of its place on the page."""
    found: dict[str, Figure] = {}
    titles = {
        "dev": f"{contents.score} on the dev data",
        "blocks": f"{contents.block.capitalize()}s kept",
        "nonzeros": "Weights that are not zero",
    }
    for name, columns in _PANELS.items():
        panel = _panel(contents.epochs, columns)
        if panel is not None:
            found[f"run-{name}"] = {"title": titles.get(name), **panel}
    if contents.paths is not None and len(contents.paths.epochs) > 1 and len(contents.paths.names) > 1:
        found["paths"] = _paths(contents.paths)
    if 0 < sum(b.kept for b in contents.blocks) <= MOST_BARS:
        found["shares"] = _shares(contents.blocks)
    if contents.confusion is not None:
        found["confusion"] = _confusion(contents.confusion)
    if contents.transitions is not None:
        found["transitions"] = _transitions(contents.transitions)
    return {name: {"width": 0, **figure} for name, figure in found.items()}


# --- along the run ------------------------------------------------------------------------------------


def _panel(epochs: Sequence[Epoch], columns: tuple[str, ...]) -> Figure | None:
    """Draw lines over the epochs, one per column and stage; on request the page uses `seconds` instead."""
    columns = tuple(c for c in columns if sum(getattr(e, c) is not None for e in epochs) > 1)
    if not columns:
        return None
    stages = list(dict.fromkeys(e.stage for e in epochs))
    # Each stage counts its own epochs: number them consecutively.
    at = [e.epoch for e in epochs] if len(stages) == 1 else list(range(1, len(epochs) + 1))
    data: list[Figure] = []
    legend: list[tuple[str, str]] = []
    for stage in stages:
        for column in columns:
            points = [(x, e) for x, e in zip(at, epochs, strict=True) if e.stage == stage]
            # Without a penalty the loss equals the objective: one line shows both.
            same = column == "loss" and all(e.loss == e.objective for _, e in points)
            if same or all(getattr(e, column) is None for _, e in points):
                continue
            name = ", ".join(part for part in (column.replace("_", " ") if len(columns) > 1 else "", stage) if part)
            colour = f"var(--line-{len(data) % COLOURS + 1})"
            data.append(_line(plain(name), points, column, colour))
            legend.append((name, colour))
    if columns == ("dev",):
        data.append(_best(epochs, at))
    layout = _layout(height=230)
    layout["xaxis"] |= {"title": {"text": "epoch"}, "rangemode": "tozero", "dtick": _every(at)}
    if columns == ("dev",) and all(e.dev is None or 0.0 <= e.dev <= 1.0 for e in epochs):
        layout["yaxis"] |= _percent([e.dev for e in epochs])
    if columns[0] in ("blocks_kept", "nonzeros"):
        layout["yaxis"] |= {"rangemode": "tozero", "tickformat": "~s"}
    figure = {"data": data, "layout": layout, "legend": legend if len(legend) > 1 else []}
    if "objective" in columns or "loss" in columns:
        figure["title"] = " and ".join(columns).capitalize()
    return {**figure, "label": _spoken(epochs, columns)}


def _line(name: str, points: list[tuple[int, Epoch]], column: str, colour: str) -> Figure:
    seconds = [e.seconds for _, e in points]
    return {
        **{"type": "scatter", "mode": "lines+markers", "name": name, "x": [x for x, _ in points]},
        "y": [getattr(e, column) for _, e in points],
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 5},
        "hovertemplate": "%{x}: %{y:.5~g}<extra>%{fullData.name}</extra>",
        "seconds": seconds if all(s is not None for s in seconds) else None,
    }


def _best(epochs: Sequence[Epoch], at: Sequence[int]) -> Figure:
    """Draw a ring around the best score, the first one if several are equal."""
    scored = [(e.dev, -x, x, e) for x, e in zip(at, epochs, strict=True) if e.dev is not None]
    value, _, x, best = max(scored, key=lambda one: one[:2])
    return {
        **{"type": "scatter", "mode": "markers", "name": "best", "x": [x], "y": [value]},
        "marker": {"color": "rgba(0,0,0,0)", "size": 13, "line": {"color": "var(--line-2)", "width": 2}},
        "hovertemplate": "best: %{y:.5~g}<extra></extra>",
        "seconds": None if best.seconds is None else [best.seconds],
    }


def _every(epochs: Sequence[int]) -> int:
    """Return the number of epochs between two ticks, for about ten ticks."""
    return max(1, round((epochs[-1] - min(0, epochs[0])) / 10))


def _percent(values: Sequence[Number]) -> Figure:
    """Return the tick format of shares in percent, with enough digits to distinguish two ticks.

    >>> _percent([0.99951, 0.99962])["tickformat"], _percent([0.5, 0.9])["tickformat"]
    ('.3~%', '.0~%')
    """
    known = [v for v in values if v is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low < 1e-6:
        # A single value: show a range of ten points around it, within 0 and 1.
        return {"tickformat": ".1~%", "range": [max(0.0, low - 0.05), min(1.005, low + 0.05)]}
    # With about five ticks, a step is at least a fifth of the range.
    digits = max(0, -math.floor(math.log10((high - low) / 10.0)) - 2)
    return {"tickformat": f".{digits}~%"}


def _spoken(epochs: Sequence[Epoch], columns: tuple[str, ...]) -> str:
    parts = []
    for c in columns:
        values = [v for e in epochs if e.stage == epochs[-1].stage and (v := getattr(e, c)) is not None]
        if not values:
            continue
        parts.append(f"{c.replace('_', ' ')} from {values[0]:.4g} to {values[-1]:.4g}")
    return f"Line chart over {len(epochs)} epochs: {'; '.join(parts)}."


# --- blocks -------------------------------------------------------------------------------------------


def _paths(paths: Paths) -> Figure:
    """Draw the lines with the highest ends in colours, and all others in grey, as one trace with gaps."""
    columns = [[weight or 0.0 for weight in column] for column in zip(*paths.weights, strict=True)]
    order = sorted(range(len(columns)), key=lambda m: (-columns[m][-1], -max(columns[m]), m))[:MOST_LINES]
    epochs = list(paths.epochs)
    grey: Figure = {
        **{"type": "scatter", "mode": "lines", "name": "others", "x": [], "y": [], "text": []},
        "line": {"color": "var(--faint)", "width": 1},
        "hovertemplate": "%{text}: %{y:.4~f}<extra>epoch %{x}</extra>",
    }
    for m in order[COLOURS:]:
        grey["x"] += [*epochs, None]
        grey["y"] += [*(row[m] for row in paths.weights), None]
        grey["text"] += [plain(paths.names[m])] * (len(epochs) + 1)
    data = [grey] if grey["x"] else []
    legend: list[tuple[str, str]] = []
    for i, m in reversed(list(enumerate(order[:COLOURS]))):
        name, colour = str(paths.names[m]), f"var(--line-{i + 1})"
        data.append(
            {
                **{"type": "scatter", "mode": "lines+markers", "name": plain(name), "x": epochs},
                "y": [row[m] for row in paths.weights],
                "line": {"color": colour, "width": 2.2},
                "marker": {"color": colour, "size": 5},
                "hovertemplate": "%{fullData.name}: %{y:.4~f}<extra>epoch %{x}</extra>",
            }
        )
        legend.insert(0, (name, colour))
    rest = len(paths.names) - min(len(order), COLOURS)
    legend += [(f"{rest} others", "var(--faint)")] if rest else []
    layout = _layout(height=380)
    layout["xaxis"] |= {"title": {"text": "epoch"}, "dtick": _every(epochs)}
    layout["yaxis"] |= {"title": {"text": "share of the norm"}, "rangemode": "tozero"}
    ends = ", ".join(f"{paths.names[m]} {paths.weights[-1][m] or 0.0:.3f}" for m in order[:3])
    label = (
        f"Line chart: the weights of {len(paths.names)} blocks over {len(epochs)} epochs. Largest at the end: {ends}."
    )
    return {"data": data, "layout": layout, "legend": legend, "label": label}


def _shares(blocks: Sequence[Block]) -> Figure:
    kept = sorted((b for b in blocks if b.kept), key=lambda b: (-b.weight, b.name))
    names = [b.name for b in kept]
    layout = _layout(height=90 + 22 * len(kept))
    layout["yaxis"] |= {**_named(names), "autorange": "reversed"}
    layout["xaxis"] |= {"title": {"text": "share of the norm"}, "rangemode": "tozero"}
    layout["xaxis"] |= {"tickformat": _percent([0.0, max(b.weight for b in kept)])["tickformat"]}
    bars = {
        **{"type": "bar", "orientation": "h", "x": [b.weight for b in kept], "y": list(range(len(kept)))},
        **{"customdata": [plain(n) for n in names], "hovertemplate": "%{customdata}: %{x:.2%}<extra></extra>"},
        "marker": {"color": "var(--line-1)"},
    }
    spoken = ", ".join(f"{b.name} {b.weight:.1%}" for b in kept[:5])
    return {"data": [bars], "layout": layout, "legend": [], "label": f"Bar chart of shares. The largest: {spoken}."}


# --- matrices -----------------------------------------------------------------------------------------


def _confusion(matrix: Matrix) -> Figure:
    """Draw a confusion matrix: colours are shares of a row, numbers are counts."""
    shares = [[v / (sum(row) or 1.0) for v in row] for row in filled(matrix)]
    errors = [
        [0.0 if column == label else share for column, share in zip(matrix.columns, row, strict=True)]
        for label, row in zip(matrix.rows, shares, strict=True)
    ]
    figure = _heat(matrix, shares, "gold", "predicted")
    trace = figure["data"][0]
    trace |= {"customdata": [list(r) for r in matrix.values], "zmin": 0.0}
    trace["hovertemplate"] = "gold %{y}, predicted %{x}<br>%{customdata} (%{z:.1%} of the row)<extra></extra>"
    trace["colorscale"] = [[0.0, "var(--heat-0)"], [0.15, "var(--heat-1)"], [1.0, "var(--heat-2)"]]
    if len(matrix.rows) <= MOST_LABELS_WITH_NUMBERS:
        trace |= {"text": [list(r) for r in matrix.values], "texttemplate": "%{text}"}
    # The page shows `errors` in place of z if the reader hides correct predictions.
    trace["errors"] = errors
    cells = _cells(matrix)
    right, total = sum(v for v, row, column in cells if row == column), sum(v for v, _, _ in cells)
    figure["label"] = f"Confusion matrix of {len(matrix.rows)} labels: {right:.0f} of {total:.0f} are right."
    return figure


def _transitions(matrix: Matrix) -> Figure:
    figure = _heat(matrix, [list(r) for r in matrix.values], "from", "to")
    trace, cells = figure["data"][0], _cells(matrix)
    limit = max((abs(v) for v, _, _ in cells), default=1.0) or 1.0
    trace |= {"zmin": -limit, "zmax": limit, "hovertemplate": "from %{y} to %{x}: %{z:.4~g}<extra></extra>"}
    trace["colorscale"] = [[0.0, "var(--minus)"], [0.5, "var(--middle)"], [1.0, "var(--plus)"]]
    if len(matrix.rows) <= MOST_LABELS_WITH_NUMBERS:
        trace |= {"texttemplate": "%{z:.2~f}"}
    figure["label"] = f"Transition scores between {len(matrix.rows)} labels."
    if cells:
        high, low = max(cells), min(cells)
        figure["label"] += (
            f" Highest: {high[1]} to {high[2]}, {high[0]:.3g}. Lowest: {low[1]} to {low[2]}, {low[0]:.3g}."
        )
    return figure


def _cells(matrix: Matrix) -> list[tuple[float, str, str]]:
    rows = zip(matrix.values, matrix.rows, strict=True)
    pairs = [(v, row, column) for values, row in rows for v, column in zip(values, matrix.columns, strict=True)]
    return [(v, row, column) for v, row, column in pairs if v is not None]


def _heat(matrix: Matrix, z: Sequence[Sequence[Number]], rows: str, columns: str) -> Figure:
    layout = _layout(height=130 + 24 * len(matrix.rows))
    turned = -60 if any(len(label) > 2 for label in matrix.columns) else 0
    layout["xaxis"] |= {**_named(matrix.columns), "title": {"text": columns, "standoff": 10}, "tickangle": turned}
    layout["yaxis"] |= {**_named(matrix.rows), "title": {"text": rows, "standoff": 10}, "autorange": "reversed"}
    trace = {
        **{"type": "heatmap", "z": z, "x": list(range(len(matrix.columns))), "y": list(range(len(matrix.rows)))},
        **{"xgap": 1, "ygap": 1, "showscale": False},
    }
    # Below this width the labels would overlap, so the chart scrolls instead.
    return {"data": [trace], "layout": layout, "legend": [], "label": "", "width": 150 + 22 * len(matrix.columns)}


def _named(labels: Sequence[str]) -> Figure:
    """Label numbered places of an axis, not named ones: two labels may look the same, or one like a date."""
    shown = [plain(label if len(label) <= 28 else label[:27] + "…") for label in labels]
    return {"tickvals": list(range(len(labels))), "ticktext": shown, "showgrid": False, "zeroline": False, "ticks": ""}


def plain(text: str) -> str:
    """Escape text for plotly, which would interpret tags and entities.

    >>> plain("a<b")
    'a&lt;b'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _layout(height: int) -> Figure:
    axis = {"gridcolor": "var(--grid)", "zerolinecolor": "var(--grid)", "linecolor": "var(--grid)", "fixedrange": True}
    return {
        **{"height": height, "showlegend": False, "dragmode": False, "hovermode": "closest"},
        **{"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"},
        "font": {"color": "var(--text)", "family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--line)", "font": {"color": "var(--text)"}},
        "margin": {"l": 56, "r": 14, "t": 8, "b": 44},
        "xaxis": {**axis, "automargin": True},
        "yaxis": {**axis, "automargin": True},
    }
