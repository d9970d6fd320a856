"""The base of all estimators: `save`, and the summary in a notebook."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spom.models.loading import save_model
from spom.plot import block_name
from spom.solvers.iterate import History


class Saving:
    """The base of all estimators: `save(path)`, and the display in a notebook.

    The estimator has `model_state` and `from_model_state` (see `spom.models.loading`).
    """

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file; `spom.load_model(path)` reads it."""
        check_is_fitted(self)
        save_model(self, path, self._training())

    def _training(self) -> dict[str, Any]:
        """Return a summary of the run for the header, with results that the same seed reproduces to the bit."""
        return {}

    def _html_repr(self) -> str:
        drawn = str(super()._html_repr())  # type: ignore[misc]  # scikit-learn's mixin has it
        return drawn + summary_html(self)


# The maximum number of blocks listed.
MOST = 8


def summary_html(estimator: Any) -> str:
    """Return the table of a fitted estimator as HTML; empty before `fit`.

    >>> from spom import OnlineClassifier
    >>> summary_html(OnlineClassifier())
    ''
    """
    rows = summary(estimator)
    if not rows:
        return ""
    cells = [f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{value}</td></tr>" for name, value in rows]
    return f"<table class='spom-summary'>{''.join(cells)}</table>"


def summary(estimator: Any) -> list[tuple[str, str]]:
    """Return (name, HTML) of each line of a fitted estimator's summary."""
    if not any(name.endswith("_") and not name.startswith("_") for name in vars(estimator)):
        return []
    found: list[tuple[str, str]] = []
    settings = getattr(estimator, "settings_", None) or getattr(estimator, "penalty_", None)
    if settings is not None:
        found.append(("learnt with", html.escape(str(settings))))
    entries = history_entries(getattr(estimator, "history_", None))
    scored = [entry for entry in entries if known(entry.get("dev"))]
    if scored:
        best = max(scored, key=lambda entry: float(entry["dev"]))
        at = f" in epoch {best['epoch']}" if "epoch" in best else ""
        found.append(("score on development data", f"{float(best['dev']):.4f}{at} of {len(entries)}"))
    elif entries and known(entries[-1].get("loss")):
        found.append(("loss in the last epoch", f"{float(entries[-1]['loss']):.4g}"))
    if hasattr(estimator, "block_weights_"):
        found += _blocks(estimator)
    return found


def _blocks(estimator: Any) -> list[tuple[str, str]]:
    """Return the number of kept blocks, and the largest of them with bars."""
    weights = np.asarray(estimator.block_weights_, dtype=np.float64)
    kept = int(np.count_nonzero(weights))
    order = [m for m in np.argsort(-weights, kind="stable")[:MOST].tolist() if weights[m] > 0.0]
    most = float(weights[order[0]]) if order else 1.0
    bars = [
        f"<tr><td>{html.escape(name)}</td><td style='text-align:right'>{100 * weights[m]:.1f} %</td>"
        f"<td style='width:10em'><div style='background:#2b6cb0;height:.7em;width:{100 * weights[m] / most:.0f}%'>"
        "</div></td></tr>"
        for m, name in ((m, block_name(estimator, m)) for m in order)
    ]
    more = f"<tr><td>{kept - len(order):,} more</td></tr>" if kept > len(order) else ""
    return [
        (f"{_kind(estimator)} kept", f"{kept:,} of {weights.size:,}"),
        ("largest", f"<table>{''.join(bars)}{more}</table>"),
    ]


def _kind(estimator: Any) -> str:
    if hasattr(estimator, "coef_"):
        return "features"
    kernels = getattr(estimator, "kernels", None) is not None or not hasattr(estimator, "templates")
    return "kernels" if kernels else "templates"


def known(value: Any) -> bool:
    """Tell whether a number was computed."""
    return value is not None and bool(np.isfinite(float(value)))


def history_entries(history: Any) -> list[dict[str, Any]]:
    """Return one dict per epoch, from a list of them, the `History` of a solver, or a dict of columns.

    >>> history_entries({"k": [1, 2], "loss": [3.0, 2.0]})
    [{'k': 1, 'loss': 3.0}, {'k': 2, 'loss': 2.0}]
    """
    if history is None or isinstance(history, list):
        return [dict(entry) for entry in history or []]
    columns = history
    if isinstance(history, History):
        # In a `History` k counts examples; there is one entry per epoch.
        norms = list(history.block_norms)
        kept = [None if row is None else int(np.count_nonzero(row)) for row in norms]
        counts = {"k": list(range(1, len(history) + 1)), "block_norms": norms, "blocks_kept": kept}
        columns = {**history.as_dict(), **counts}
    listed = {name: column for name, column in columns.items() if isinstance(column, (list, np.ndarray))}
    count = max((len(column) for column in listed.values()), default=0)
    return [{name: column[i] for name, column in listed.items() if i < len(column)} for i in range(count)]
