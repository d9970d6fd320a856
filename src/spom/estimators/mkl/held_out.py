"""Scores of rows by machines that did not learn from them, for the calibration of a kernel classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from spom.core.arrays import Floats, Ints
from spom.estimators.checking import encode
from spom.estimators.training.streams import some

# The number of parts, and how many held-out scores are enough. A single number is fitted to them: more than a few
# hundred change it by a few percent. Not tuned.
FOLDS, ENOUGH = 5, 1000


def held_out_scores(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Ints, Floats]:
    """Return (scores, numbers of classes, weights) of rows of a fitted classifier's data, each by a fit without it.

    Parts are held out until there are `ENOUGH` rows. There are no rows if a class has fewer than two.
    """
    labels = np.asarray(y)
    count = int(np.unique(labels, return_counts=True)[1].min())
    weight = np.ones(labels.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    scores: list[Floats] = []
    rows: list[Ints] = []
    # The parts learn with the kernels that the model kept, which were chosen on all rows.
    kept = None if model.pruning_ is None else model.pruning_.selection.kept.tolist()
    if kept is not None and model._is_precomputed():
        X = [X[m] for m in kept]
    if count >= 2:
        for train, test in StratifiedKFold(min(FOLDS, count), shuffle=True, random_state=0).split(labels, labels):
            machine = clone(model).set_params(probability=False, callbacks=None, verbose=0, prune=None)
            if kept is not None and not model._is_precomputed():
                machine.set_params(kernels=[model.blocks_[m] for m in kept])
            vars(machine).pop("_skl_callbacks", None)
            machine.fit(_part(model, X, train, train), labels[train], weight[train])
            scores.append(machine._scores(_part(model, X, test, train)))
            rows.append(test)
            if sum(part.size for part in rows) >= ENOUGH:
                break
    if not rows:
        return np.zeros((0, model.classes_.size)), np.zeros(0, dtype=np.int64), np.zeros(0)
    at = np.concatenate(rows)
    return np.concatenate(scores), encode(labels[at], model.classes_), weight[at]


def _part(model: Any, X: Any, rows: Ints, columns: Ints) -> Any:
    """Return some rows of X; for Gram matrices only the columns of training rows."""
    if model._is_precomputed():
        return [gram[rows][:, columns] for gram in X]
    return some(X, rows)
