"""How a fitted estimator shows itself in a notebook: what it was learnt with, which blocks it kept, and its scores."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from spom.solvers.iterate import History

# Blocks that are listed; nobody reads more of them beside a diagram.
MOST = 8


class Shown:
    """A mixin: scikit-learn's diagram, and below it a table once the estimator is fitted."""

    def _html_repr(self) -> str:
        drawn = str(super()._html_repr())  # type: ignore[misc]  # scikit-learn's mixin has it
        return drawn + summary_html(self)


def summary_html(estimator: Any) -> str:
    """The table of a fitted estimator as HTML; empty before `fit`.

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
    """(name, HTML) of what there is to tell of a fitted estimator."""
    if not _is_fitted(estimator):
        return []
    found: list[tuple[str, str]] = []
    settings = getattr(estimator, "settings_", None) or getattr(estimator, "penalty_", None)
    if settings is not None:
        found.append(("learnt with", html.escape(str(settings))))
    entries = history_entries(getattr(estimator, "history_", None))
    scored = [entry for entry in entries if _known(entry.get("dev"))]
    if scored:
        best = max(scored, key=lambda entry: float(entry["dev"]))
        at = f" in epoch {best['epoch']}" if "epoch" in best else ""
        found.append(("score on development data", f"{float(best['dev']):.4f}{at} of {len(entries)}"))
    elif entries and _known(entries[-1].get("loss")):
        found.append(("loss in the last epoch", f"{float(entries[-1]['loss']):.4g}"))
    if hasattr(estimator, "block_weights_"):
        found += _blocks(estimator)
    return found


def _is_fitted(estimator: Any) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))


def _blocks(estimator: Any) -> list[tuple[str, str]]:
    """How many blocks are kept, and the largest of them with bars."""
    weights = np.asarray(estimator.block_weights_, dtype=np.float64)
    kept = int(np.count_nonzero(weights))
    order = [m for m in np.argsort(-weights, kind="stable")[:MOST].tolist() if weights[m] > 0.0]
    most = float(weights[order[0]]) if order else 1.0
    bars = [
        f"<tr><td>{html.escape(_name(estimator, m))}</td><td style='text-align:right'>{100 * weights[m]:.1f} %</td>"
        f"<td style='width:10em'><div style='background:#2b6cb0;height:.7em;width:{100 * weights[m] / most:.0f}%'>"
        "</div></td></tr>"
        for m in order
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


def _name(estimator: Any, m: int) -> str:
    block = estimator.blocks_[m]
    if isinstance(block, str):
        return block
    if not hasattr(estimator, "coef_"):
        return f"kernel {block}" if isinstance(block, int) else repr(block)
    names = getattr(estimator, "feature_names_in_", None)
    own = [int(j) for j in np.atleast_1d(np.asarray(block))]
    text = ", ".join(str(names[j]) if names is not None else f"x{j}" for j in own[:3])
    return text + (", ..." if len(own) > 3 else "")


def _known(value: Any) -> bool:
    return value is not None and bool(np.isfinite(float(value)))


def history_entries(history: Any) -> list[dict[str, Any]]:
    """One dict per epoch, whichever form a history has.

    >>> history_entries({"k": [1, 2], "loss": [3.0, 2.0]})
    [{'k': 1, 'loss': 3.0}, {'k': 2, 'loss': 2.0}]
    """
    if isinstance(history, list):
        return history
    columns = history.as_dict() if isinstance(history, History) else history if isinstance(history, dict) else {}
    listed = {name: list(column) for name, column in columns.items() if isinstance(column, (list, np.ndarray))}
    count = max((len(column) for column in listed.values()), default=0)
    return [{name: column[i] for name, column in listed.items() if i < len(column)} for i in range(count)]
