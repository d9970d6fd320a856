"""Labels of sentences: to numbers and back, and scores of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, check_room
from spom.data.columns import Columns
from spom.data.treebank import Treebank
from spom.errors import DataError, Unsupported
from spom.metrics.phrases import PhraseScores, has_phrases, score_codes

Names = NDArray[Any]


def split_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """(sentences, labels): the last column of `Columns` where y is left out, the column y where it names one.

    A `Treebank` is its columns, and its labels are the parts of speech where y is left out.
    """
    if isinstance(X, Treebank):
        X, y = X.columns, "upos" if y is None else y
    if isinstance(X, Columns) and (y is None or isinstance(y, (str, int, np.integer))):
        at = X.column(-1 if y is None else y if isinstance(y, str) else int(y))
        if X.n_columns < 2:
            raise DataError("the columns have no labels: there must be a column for words and one for labels", X.source)
        return X.select([c for c in range(X.n_columns) if c != at]), X.select([at])
    if y is None:
        raise ValueError("y is missing: give the labels of each sentence, or columns whose last one has them")
    return (X if isinstance(X, Columns) or hasattr(X, "indptr") else list(X)), y


def label_names(y: Any) -> list[str]:
    """The distinct labels as text, in order of first occurrence; whether they fit the sentences is checked later."""
    if isinstance(y, Columns):
        return [str(label) for label in y.distinct(0)[1].tolist()]
    return [
        str(label)
        for label in dict.fromkeys(chain.from_iterable(y if isinstance(y, list) else []))
        if label is not None
    ]


def check_labels_fit(labels: int, features: int) -> None:
    """An error with the estimate where the tables of so many labels and features need more memory than there is.

    Pairs of labels have sums, squares, scores, what is forbidden and the best chain; features sums and squares.
    """
    todo = "take fewer labels, or split them"
    check_room(labels + 2, labels, 6, f"the tables of {labels:,} labels by {labels:,} labels", todo)
    check_room(features, labels, 2, f"the weights of {labels:,} labels and {features:,} features", todo)


def label_codes(y: Any, offsets: Ints, *, unknown: bool = False) -> tuple[Ints, Names]:
    """(a number for each token, the sorted labels they stand for); labels must fit the sentences.

    With `unknown` a label may be None, and its number is -1.

    >>> label_codes([["N", None, "D"]], np.array([0, 3]), unknown=True)
    (array([ 1, -1,  0]), array(['D', 'N'], dtype='<U1'))
    """
    if isinstance(y, Columns):
        numbers, strings = y.distinct(0)
        _same_lengths(np.diff(y.offsets), offsets)
        return _sorted(numbers.astype(np.int64), np.asarray(strings.tolist(), dtype=np.str_))
    sentences = list(y)
    for i, labels in enumerate(sentences):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise DataError(f"y, sentence {i}: expected a list of labels, found {labels!r}")
    _same_lengths(np.array([len(labels) for labels in sentences], dtype=np.int64), offsets)
    flat = list(chain.from_iterable(sentences))
    if unknown and None in flat:
        return _some_codes(flat, offsets)
    seen = {label: code for code, label in enumerate(dict.fromkeys(flat))}
    if any(label is None or label != label for label in seen):
        _check_present(flat, offsets)
    codes = np.fromiter(map(seen.__getitem__, flat), dtype=np.int64, count=len(flat))
    return _sorted(codes, np.array(list(seen)) if seen else np.empty(0, dtype=np.str_))


def _some_codes(flat: list[Any], offsets: Ints) -> tuple[Ints, Names]:
    """The numbers of labels of which some are None, which is -1."""
    known = np.array([label is not None for label in flat], dtype=bool)
    labels = [label for label in flat if label is not None]
    if not labels:
        raise DataError("no label is known: y has nothing but None")
    _check_present(["" if label is None else label for label in flat], offsets)
    found = np.full(known.size, -1, dtype=np.int64)
    found[known], names = label_codes([labels], np.array([0, len(labels)]))
    return found, names


def _check_present(flat: list[Any], offsets: Ints) -> None:
    for t, label in enumerate(flat):
        if label is None or label != label:
            i = int(np.searchsorted(offsets, t, side="right")) - 1
            raise DataError(f"sentence {i}, token {t - int(offsets[i])} has no label: it is {label!r}")


def _same_lengths(found: Ints, offsets: Ints) -> None:
    expected = np.diff(offsets)
    if found.size != expected.size:
        raise DataError(f"X has {expected.size} sentences and y has {found.size}: there must be labels for each")
    bad = np.flatnonzero(found != expected)
    if bad.size:
        i = int(bad[0])
        raise DataError(f"sentence {i} has {expected[i]} tokens and {found[i]} labels: there must be one for each")


def _sorted(codes: Ints, labels: Names) -> tuple[Ints, Names]:
    order = np.argsort(labels, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return (rank[codes] if codes.size else codes.astype(np.int64)), labels[order]


def recode(codes: Ints, labels: Names, classes: Names, offsets: Ints) -> Ints:
    """The numbers of labels among `classes`; an error names the first that is not there."""
    known = {label: c for c, label in enumerate(classes.tolist())}
    place = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.int64)
    found = np.where(codes < 0, -1, place[codes]) if codes.size else codes
    unknown = np.flatnonzero((found < 0) & (codes >= 0))
    if unknown.size:
        t = int(unknown[0])
        i = int(np.searchsorted(offsets, t, side="right")) - 1
        where, label = f"sentence {i}, token {t - int(offsets[i])}", labels.tolist()[codes[t]]
        what = f"has the label {label!r}, which is not among the classes: announce new labels with classes="
        raise DataError(f"{where} {what}")
    return found


def in_sentences(codes: Ints, classes: Names, offsets: Ints) -> list[list[Any]]:
    """Lists of labels, one a sentence."""
    flat = classes.astype(object)[codes].tolist() if codes.size else []
    return [flat[a:b] for a, b in pairwise(offsets.tolist())]


def evaluate(gold: Ints, labels: Names, found: Ints, classes: Names, offsets: Ints) -> PhraseScores:
    """Counts of phrases and accuracy; a gold label that training did not see counts as wrong, with one warning."""
    names = [str(label) for label in classes.tolist()]
    place = {label: c for c, label in enumerate(names)}
    unseen = [str(label) for label in labels.tolist() if str(label) not in place]
    if unseen:
        shown = ", ".join(unseen[:5]) + (", ..." if len(unseen) > 5 else "")
        warnings.warn(f"labels that were not seen in training count as wrong: {shown}", stacklevel=3)
    for label in unseen:
        place[label] = len(place)
    codes = np.array([place[str(label)] for label in labels.tolist()], dtype=np.int64)
    gold = codes[gold] if gold.size else gold
    return score_codes(gold, found, offsets, [*names, *unseen])


def metric(scoring: str, classes: Sequence[Any]) -> str:
    """`"auto"` is the F1 of phrases where labels are those of a scheme such as BIO, else the accuracy of tokens."""
    if scoring not in ("auto", "f1", "accuracy"):
        raise Unsupported(f"there is no scoring {scoring!r} for taggers; there are: auto, f1, accuracy")
    if scoring != "auto":
        return scoring
    return "f1" if has_phrases([str(label) for label in classes]) else "accuracy"
