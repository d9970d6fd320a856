"""Contents of a page from a fitted estimator in memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from spom.estimators.saving import history_entries
from spom.estimators.tagger.defaults import metric
from spom.estimators.tagger.inputs import split_labels
from spom.metrics.attachment import attachment
from spom.metrics.confusion import confusion_counts
from spom.report.contents import Contents, Matrix, Sentence
from spom.report.history import epochs_of, paths_of
from spom.report.models import described
from spom.report.tables import FRACTIONS

# The fewest and most words of a sentence that is drawn, and the number of sentences to choose from.
SHORTEST, LONGEST, MOST_COMPARED = 6, 25, 500
# Columns of CoNLL-U.
FORM, UPOS, HEAD, DEPREL = 1, 3, 6, 7


def contents_of(estimator: Any, X: Any = None, y: Any = None, title: str | None = None, top: int = 12) -> Contents:
    """Return the summary of a fitted estimator and, with X and y, its scores on them.

    `top` features are shown per label.

    >>> from sklearn.datasets import load_iris
    >>> from spom import OnlineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> contents = contents_of(OnlineClassifier(random_state=0).fit(X, y), X, y)
    >>> contents.block, contents.confusion.rows
    ('feature', ['0', '1', '2'])
    """
    check_is_fitted(estimator)
    found = described(estimator, top)
    entries = history_entries(getattr(estimator, "history_", None))
    told = {} if X is None else _scored(estimator, X, y)
    scores = told.pop("scores", {})
    listed = found.block_count is None or found.block_count == len(found.blocks)
    name = type(estimator).__name__
    return replace(
        found,
        title=title or name,
        estimator=name if title else "",
        task=_task(estimator),
        score=FRACTIONS.get(next(iter(scores), ""), "Score"),
        scores={**scores, **found.scores},
        facts={"Parameters": parameters(estimator)},
        epochs=epochs_of(entries),
        paths=paths_of(entries, [block.name for block in found.blocks]) if listed else None,
        **told,
    )


def parameters(estimator: Any) -> list[tuple[str, str]]:
    """Return the parameters, first those that differ from their defaults."""
    given = estimator.get_params(deep=False)
    default = {}
    with suppress(TypeError):
        default = type(estimator)().get_params(deep=False)
    pairs = [(name, repr(value)) for name, value in given.items() if name != "callbacks"]
    return sorted(pairs, key=lambda pair: repr(default.get(pair[0])) == pair[1])


def _task(estimator: Any) -> str:
    if hasattr(estimator, "arcs_"):
        return "parser"
    if hasattr(estimator, "chain_"):
        return "tagger"
    return "classifier" if is_classifier(estimator) else "regressor" if is_regressor(estimator) else ""


# --- scores ---------------------------------------------------------------------------------------------


def _scored(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return the contents for an estimator on data; the score that is used for selection comes first."""
    if hasattr(estimator, "arcs_"):
        return _trees(estimator, X)
    if hasattr(estimator, "chain_"):
        return _sequences(estimator, X, y)
    if y is None:
        raise ValueError("to score the estimator, the page needs y as well as X")
    value = float(estimator.score(X, y))
    if not hasattr(estimator, "classes_"):
        return {"scores": {"r2": value}}
    return {"scores": {"accuracy": value}, "confusion": confusion_matrix(y, estimator.predict(X))}


def _sequences(tagger: Any, X: Any, y: Any) -> dict[str, Any]:
    X, y = split_labels(X, y)
    found = tagger.evaluate(X, y)
    scores = {"accuracy": float(found.accuracy)}
    if metric(tagger.scoring, tagger.classes_.tolist()) == "f1":
        scores = {name: float(getattr(found, name)) for name in ("f1", "precision", "recall", "accuracy")}
    return {"scores": scores, "confusion": confusion_matrix(y, tagger.predict(X))}


def _trees(parser: Any, bank: Any) -> dict[str, Any]:
    found = parser.predict(bank)
    counts = attachment(bank, found)
    scores = {"uas": counts.uas, "las": counts.las} if parser.labels_ is not None else {"uas": counts.uas}
    return {"scores": scores, "sentences": example_sentences(bank, found)}


def example_sentences(gold: Any, found: Any, most: int = 8) -> list[Sentence]:
    """Return sentences that are neither very short nor very long, those with the most wrong heads first."""
    fit = [i for i in range(len(gold)) if SHORTEST <= len(gold[i]) <= LONGEST] or list(range(len(gold)))
    ones = [compared(gold[i], found[i]) for i in fit[:MOST_COMPARED]]
    wrong = [sum(a != b for a, b in zip(one.heads, one.predicted_heads, strict=True)) for one in ones]
    return [ones[i] for i in sorted(range(len(ones)), key=lambda i: -wrong[i])[:most]]


def compared(words: Any, guess: Any) -> Sentence:
    """Return a gold sentence of a treebank with the predicted tree."""
    return Sentence(
        words=[word[FORM] for word in words],
        tags=[word[UPOS] for word in words],
        heads=[int(word[HEAD]) for word in words],
        relations=[word[DEPREL] for word in words],
        predicted_heads=[int(word[HEAD]) for word in guess],
        predicted_relations=[word[DEPREL] for word in guess],
    )


def confusion_matrix(gold: Any, predicted: Any) -> Matrix:
    """Count gold (rows) against predicted labels, given as single labels or sequences of them."""
    labels, counts = confusion_counts(gold, predicted)
    names = [str(label) for label in labels]
    return Matrix(names, names, counts.tolist())
