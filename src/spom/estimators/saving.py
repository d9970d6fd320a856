"""What every estimator has, `save` and its page in a notebook, and what linear models write into a model file."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays as Arrays
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.errors import ModelFileError
from spom.losses.base import Loss
from spom.models.loading import save_model
from spom.plot import block_name
from spom.solvers.iterate import History

# What `fit` leaves behind in a linear model besides its weights and its history.
FITTED = (
    *("classes_", "feature_names_in_", "n_features_in_", "loss_", "penalty_", "mirror_", "intercept_"),
    *("calibration_", "converged_", "n_rounds_", "n_iter_", "objective_", "dual_gap_"),
    *("strength_", "strengths_", "best_score_", "cv_scores_"),
)


class Saving:
    """What every estimator has: `save(path)`, and how it is shown in a notebook.

    The estimator has `model_state` and `from_model_state` (see `spom.models.loading`).
    """

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file; `spom.load_model(path)` reads it."""
        check_is_fitted(self)
        save_model(self, path, self._training())

    def _training(self) -> dict[str, Any]:
        """A summary of the run for the header, of what the same seed makes again to the bit."""
        return {}

    def _html_repr(self) -> str:
        drawn = str(super()._html_repr())  # type: ignore[misc]  # scikit-learn's mixin has it
        return drawn + summary_html(self)


class SavingLinear(Saving):
    """The weights of a linear model, as an array or, where most are zero, as the places and values of the others."""

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """What `spom.models` writes; of the history the last entry is kept, without its time."""
        check_is_fitted(self)
        # Asked for first: a model in the middle of `partial_fit` calls makes its attributes when they are read.
        coef, held = self.coef_, vars(self)  # type: ignore[attr-defined]  # every linear model has it
        state = {name: held[name] for name in FITTED if name in held}
        arrays, state["coef"] = _packed(coef)
        state["history"] = _last(held.get("history_"))
        return state, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """The estimator again."""
        model = cls(**state["params"])
        names = [name for name in FITTED if name in state]
        vars(model).update({name: state[name] for name in names})
        coef = _unpacked(state["coef"], arrays)
        vars(model).update(coef_=coef, history_=_history(state["history"]), _resume=None)
        _check_fit(model, coef)
        return model

    def _training(self) -> dict[str, Any]:
        last = _last(getattr(self, "history_", None))
        kept = {name: last["last"][name] for name in ("objective", "loss") if _known(last["last"].get(name))}
        coef = self.coef_  # type: ignore[attr-defined]  # every linear model has it
        nonzero = coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef)
        selected = np.asarray(self.selected_).size  # type: ignore[attr-defined]  # every linear model has it
        return {**kept, "nonzeros": int(nonzero), "weights": int(np.prod(coef.shape)), "blocks_kept": int(selected)}


def _packed(coef: Any) -> tuple[Arrays, dict[str, Any]]:
    rows = coef if sparse.issparse(coef) else np.atleast_2d(coef)
    form = {"sparse": sparse.issparse(coef), "ndim": coef.ndim, "shape": list(rows.shape)}
    # An entry of a list takes 12 bytes with its place, one of an array 8.
    if not form["sparse"] and 3 * np.count_nonzero(rows) > 2 * rows.size:
        return {"coef": rows}, form
    listed = sparse.csr_matrix(rows)
    listed.eliminate_zeros()
    return {"coef.data": listed.data, "coef.indices": listed.indices, "coef.indptr": listed.indptr}, form


def _unpacked(form: dict[str, Any], arrays: Arrays) -> Any:
    shape = (int(form["shape"][0]), int(form["shape"][1]))
    if "coef" in arrays:
        rows: Any = check_shape(take(arrays, "coef", "f", 2), shape, "coef")
    else:
        data = take(arrays, "coef.data", "f")
        indices = check_shape(check_indices(take(arrays, "coef.indices", "i"), shape[1], "coef"), data.shape, "coef")
        indptr = check_shape(take(arrays, "coef.indptr", "i"), (shape[0] + 1,), "coef")
        rows = sparse.csr_matrix((data, indices, check_offsets(indptr, data.size, "coef")), shape=shape)
        rows = rows if form["sparse"] else rows.toarray()
    return rows if form["ndim"] == 2 else rows.reshape(-1)


def _check_fit(model: Any, coef: Any) -> None:
    """The weights fit the features and the classes."""
    held = vars(model)
    width, bias = coef.shape[-1], np.shape(held["intercept_"])
    rows = 1 if coef.ndim == 1 else coef.shape[0]
    classes = held.get("classes_")
    wanted = hasattr(model, "predict_log_proba")
    if (wanted or classes is not None) and (not isinstance(classes, np.ndarray) or classes.ndim != 1):
        raise ModelFileError("the classes are no list of labels: the file is damaged")
    if not isinstance(held.get("loss_"), Loss):
        raise ModelFileError("the loss is none: the file is damaged")
    intercept = np.asarray(held["intercept_"])
    if intercept.dtype.kind != "f" or not np.isfinite(intercept).all():
        raise ModelFileError("the intercept is not finite: the file is damaged")
    fits = classes is None or rows == (1 if len(classes) == 2 and rows == 1 else len(classes))
    if width != held["n_features_in_"] or bias not in ((), (1,), (rows,)) or not fits:
        raise ModelFileError("the weights do not fit the features and classes: the file is damaged")


def _last(history: Any) -> dict[str, Any]:
    """The last entry of a history, which is an object or a dict of columns."""
    if history is None:
        return {"object": False, "last": {}}
    columns = history if isinstance(history, dict) else history.as_dict()
    last = {name: column[-1] for name, column in columns.items() if len(column)}
    if "seconds" in last:
        last["seconds"] = float("nan")
    return {"object": not isinstance(history, dict), "last": last}


def _history(kept: dict[str, Any]) -> Any:
    columns = {name: [value] for name, value in kept["last"].items()}
    if not kept["object"]:
        return columns
    history = History()
    vars(history).update({name: column for name, column in columns.items() if name in vars(history)})
    return history


# Blocks that are listed, at most.
MOST = 8


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
    """(name, HTML) of each line of a fitted estimator's summary."""
    if not any(name.endswith("_") and not name.startswith("_") for name in vars(estimator)):
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


def _blocks(estimator: Any) -> list[tuple[str, str]]:
    """How many blocks are kept, and the largest of them with bars."""
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


def _known(value: Any) -> bool:
    return value is not None and bool(np.isfinite(float(value)))


def history_entries(history: Any) -> list[dict[str, Any]]:
    """One dict per epoch, from a list of them, the `History` of a solver, or a dict of columns.

    >>> history_entries({"k": [1, 2], "loss": [3.0, 2.0]})
    [{'k': 1, 'loss': 3.0}, {'k': 2, 'loss': 2.0}]
    """
    if history is None or isinstance(history, list):
        return [dict(entry) for entry in history or []]
    columns = history
    if isinstance(history, History):
        # Here k counts examples; there is one entry per epoch.
        norms = list(history.block_norms)
        kept = [None if row is None else int(np.count_nonzero(row)) for row in norms]
        counts = {"k": list(range(1, len(history) + 1)), "block_norms": norms, "blocks_kept": kept}
        columns = {**history.as_dict(), **counts}
    listed = {name: column for name, column in columns.items() if isinstance(column, (list, np.ndarray))}
    count = max((len(column) for column in listed.values()), default=0)
    return [{name: column[i] for name, column in listed.items() if i < len(column)} for i in range(count)]
