"""Contents of a page from a fitted estimator in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spom.report.contents import Contents, Matrix
from spom.report.history import entries_of, epochs_of, paths_of
from spom.report.models import described
from spom.report.tables import FRACTIONS


def contents_of(estimator: Any, X: Any = None, y: Any = None, title: str | None = None, top: int = 12) -> Contents:
    """What a fitted estimator tells of itself and, with X and y, how it does on them.

    `top` features are shown for each label.

    >>> from sklearn.datasets import load_iris
    >>> from spom import OnlineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> contents = contents_of(OnlineClassifier(random_state=0).fit(X, y), X, y)
    >>> contents.block, contents.confusion.rows
    ('feature', ['0', '1', '2'])
    """
    check_is_fitted(estimator)
    found = described(estimator, top)
    entries = entries_of(getattr(estimator, "history_", None))
    scores: dict[str, float] = {}
    if found.nonzeros is not None:
        scores["nonzeros"] = found.nonzeros
    if found.kept is not None:
        scores["blocks_kept"] = found.kept
    score, confusion = "score", None
    if X is not None and y is not None:
        score, value, confusion = _scored(estimator, X, y)
        scores = {score: value, **scores}
    name = type(estimator).__name__
    return Contents(
        title=title or name,
        estimator=name if title else "",
        task=_task(estimator),
        block=found.block,
        score=FRACTIONS.get(score, score),
        scores=scores,
        facts={"Parameters": parameters(estimator)},
        epochs=epochs_of(entries),
        paths=paths_of(entries, [block.name for block in found.blocks]) if _all_listed(found) else None,
        blocks=found.blocks,
        block_count=found.count,
        features=found.features,
        confusion=confusion,
        transitions=found.transitions,
    )


def _all_listed(found: Any) -> bool:
    return found.count is None or found.count == len(found.blocks)


def parameters(estimator: Any) -> list[tuple[str, str]]:
    """The parameters that differ from their defaults first, then the others."""
    given = estimator.get_params(deep=False)
    default = type(estimator)().get_params(deep=False) if _has_defaults(estimator) else {}
    pairs = [(name, repr(value)) for name, value in given.items() if name != "callbacks"]
    return sorted(pairs, key=lambda pair: repr(default.get(pair[0])) == pair[1])


def _has_defaults(estimator: Any) -> bool:
    try:
        type(estimator)()
    except TypeError:
        return False
    return True


def _task(estimator: Any) -> str:
    return str(getattr(estimator, "_estimator_type", "") or "")


def _scored(estimator: Any, X: Any, y: Any) -> tuple[str, float, Matrix | None]:
    """(the name of the score, the score, a confusion matrix for labels)."""
    value = float(estimator.score(X, y))
    if not hasattr(estimator, "classes_"):
        return "r2", value, None
    return "accuracy", value, confusion_matrix(y, estimator.predict(X))


def confusion_matrix(gold: Any, predicted: Any) -> Matrix:
    """Counts of gold (rows) against predicted labels, over single labels or sequences of them.

    >>> confusion_matrix([["a", "b"], ["b"]], [["a", "a"], ["b"]]).values
    [[1, 0], [1, 1]]
    """
    a, b = _flat(gold), _flat(predicted)
    if len(a) != len(b):
        raise ValueError(f"there are {len(a)} gold labels and {len(b)} predicted ones")
    labels = sorted({*a, *b})
    index = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([index[x] for x in a], [index[x] for x in b]), 1)
    names = [str(label) for label in labels]
    return Matrix(names, names, counts.tolist())


def _flat(labels: Any) -> list[Any]:
    found = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if found and isinstance(found[0], (list, tuple, np.ndarray)):
        return [label for sequence in found for label in sequence]
    return found
