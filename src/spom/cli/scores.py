"""Scores of a model on a file with the right answers: flat numbers, a text for people, a confusion matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.cli.vectors import as_text
from spom.core.arrays import offsets_of
from spom.errors import DataError
from spom.metrics.confusion import confusion_counts


def check_labels(found: Iterable[str], known: Iterable[str], whose: str, path: str) -> None:
    """Raise a `DataError` if no label of a file is known: the file belongs to another task."""
    sets = set(found), set(known)
    if not sets[0] & sets[1]:
        shown = [", ".join(sorted(labels)[:5]) for labels in sets]
        raise DataError(f"the labels ({shown[0]}) are of another set than {whose} ({shown[1]}); see --label", path)


@dataclass(frozen=True)
class Scores:
    """Scores: `flat` numbers for `--json`, a `text` for people, and `confusion` labels and counts (rows are gold)."""

    flat: dict[str, Any]
    text: str
    confusion: dict[str, Any] | None = field(default=None)


# A confusion matrix of more labels than this is too large to read, and is not kept.
MANY_LABELS = 200


def vector_scores(model: Any, X: Any, y: NDArray[Any]) -> Scores:
    """Score a classifier or a regressor on rows X with the right answers y."""
    predicted = model.predict(X)
    return class_scores(y, predicted) if hasattr(model, "classes_") else real_scores(y, predicted)


def tag_scores(tagger: Any, X: Any, y: Any) -> Scores:
    """Score a tagger: accuracy by token and, if the labels encode phrases, conlleval's table."""
    import warnings

    from spom.estimators.tagger.inputs import label_codes
    from spom.metrics.phrases import has_phrases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tagger.evaluate(X, y)
    predicted = [label for sentence in tagger.predict(X) for label in sentence]
    sizes = np.diff(y.offsets) if hasattr(y, "offsets") else np.array([len(labels) for labels in y])
    codes, names = label_codes(y, offsets_of(sizes))
    classes = class_scores(np.asarray(names, dtype=np.str_)[codes], np.array(predicted, dtype=np.str_), "tokens")
    flat: dict[str, Any] = {"accuracy": found.accuracy}
    text = classes.text
    if has_phrases([*names.tolist(), *tagger.classes_.tolist()]):
        flat.update(precision=found.precision, recall=found.recall, f1=found.f1)
        text = str(found)
    flat.update(tokens=found.tokens, sentences=int(sizes.size))
    return Scores(flat, text, classes.confusion)


def pipeline_scores(pipeline: Any, gold: Any, raw: bool) -> Scores:
    """Compute the CoNLL 2018 measures of a pipeline, from the raw text of a treebank or from its words."""
    from spom.metrics.conll2018 import conll2018

    found = pipeline.evaluate(gold) if raw else conll2018(gold, pipeline.predict(gold.without_trees()))
    return Scores(found.flat(), str(found))


def tree_scores(gold: Any, found: Any) -> Scores:
    """Compute UAS and LAS over all words, as the CoNLL-18 evaluation counts them, and without punctuation."""
    from spom.metrics.attachment import attachment

    every, plain = attachment(gold, found), attachment(gold, found, punctuation=False)
    flat = {"uas": every.uas, "las": every.las, "tokens": every.words, "sentences": every.sentences}
    lines = [
        f"{'':22}  {'UAS':>7}  {'LAS':>7}  {'words':>8}",
        f"{'all words':22}  {100 * every.uas:7.2f}  {100 * every.las:7.2f}  {every.words:8d}",
        f"{'without punctuation':22}  {100 * plain.uas:7.2f}  {100 * plain.las:7.2f}  {plain.words:8d}",
    ]
    return Scores(flat, "\n".join(lines))


def class_scores(gold: NDArray[Any], predicted: NDArray[Any], unit: str = "rows") -> Scores:
    """Compute accuracy, and precision, recall and F1 of each class with their means.

    >>> class_scores(np.array([0, 0, 1]), np.array([0, 1, 1])).flat["macro_f1"]
    0.6666666666666666
    """
    if gold.dtype.kind != predicted.dtype.kind and "U" in (gold.dtype.kind, predicted.dtype.kind):
        gold, predicted = gold.astype(str), predicted.astype(str)
    values, counts = confusion_counts(gold, predicted)
    labels = as_text(np.array(values))
    right = np.diag(counts).astype(float)
    support, guessed = counts.sum(axis=1), counts.sum(axis=0)
    precision = np.divide(right, guessed, out=np.zeros_like(right), where=guessed > 0)
    recall = np.divide(right, support, out=np.zeros_like(right), where=support > 0)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(right), where=both > 0)
    total = int(support.sum())
    flat = {
        "accuracy": float(right.sum() / max(total, 1)),
        "macro_precision": float(precision.mean()),
        "macro_recall": float(recall.mean()),
        "macro_f1": float(f1.mean()),
        unit: total,
        "classes": len(labels),
    }
    width = max(12, *(len(label) for label in labels))
    lines = [f"{'':{width}}  precision  recall      F1  {unit:>6}"]
    for i, label in enumerate(labels):
        lines.append(f"{label:{width}}  {precision[i]:9.4f}  {recall[i]:6.4f}  {f1[i]:6.4f}  {support[i]:6d}")
    means = (flat["macro_precision"], flat["macro_recall"], flat["macro_f1"])
    lines.append(f"{'mean':{width}}  {means[0]:9.4f}  {means[1]:6.4f}  {means[2]:6.4f}  {total:6d}")
    lines.append(f"accuracy {flat['accuracy']:.4f} ({int(right.sum())} of {total})")
    kept = {"labels": labels, "counts": counts.tolist()} if len(labels) <= MANY_LABELS else None
    return Scores(flat, "\n".join(lines), kept)


def real_scores(gold: NDArray[Any], predicted: NDArray[Any]) -> Scores:
    """Compute R^2, the root mean squared error and the mean absolute error."""
    wrong = predicted - gold
    spread = float(((gold - gold.mean()) ** 2).sum())
    squares = float((wrong**2).sum())
    flat = {
        "r2": 1.0 - squares / spread if spread > 0 else float("nan"),
        "rmse": float(np.sqrt(squares / gold.size)),
        "mae": float(np.abs(wrong).mean()),
        "rows": int(gold.size),
    }
    text = f"R2 {flat['r2']:.4f}  RMSE {flat['rmse']:.6g}  mean absolute error {flat['mae']:.6g}  ({gold.size} rows)"
    return Scores(flat, text)
