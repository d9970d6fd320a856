"""Input and output of a tagger: sentences as rows of feature ids, labels as numbers, and parts of a model file.

Nothing here imports scikit-learn, which takes longer than tagging most files: the command line tags without it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, check_room, is_sparse, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.data.columns import Columns
from spom.data.treebank import Treebank
from spom.errors import DataError, ModelFileError, Unsupported
from spom.estimators.tagger.weights import check_sample_weight, weighted
from spom.estimators.training import digest
from spom.features.dicts import DictFeatures
from spom.features.matrices import MatrixFeatures
from spom.features.rows import Blocks, Rows
from spom.features.templates import Templates
from spom.solvers.structured.chains.data import Tokens, as_blocks, as_tokens, padded, restricted
from spom.solvers.structured.chains.predict import tag


def features_of(kind: str) -> Any:
    """Return the class of the features of a kind, None for an unknown kind. Kernels are imported on first use."""
    if kind != "kernels":
        return {"templates": Templates, "named": DictFeatures, "matrix": MatrixFeatures}.get(kind)
    from spom.estimators.tagger.kernels import KernelScores

    return KernelScores


class Features(Protocol):
    """Sentences as rows of feature ids: the interface of templates, dicts, vectors and kernels."""

    kind: str

    @property
    def blocks(self) -> Blocks:
        """The features of each block."""
        ...

    def fit(self, X: Any) -> Rows:
        """Learn the features, and return the rows."""
        ...

    def transform(self, X: Any) -> Rows:
        """Return the rows of known features."""
        ...

    def compact(self, used: Any) -> Any:
        """Return only the features `used` (sorted), renumbered in their order."""
        ...

    def name(self, feature: int) -> str:
        """Return a feature as text."""
        ...

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        ...


def as_columns(templates: Any, X: Any) -> Any:
    """Return sentences of words or tuples as `Columns` if templates are chosen from them; else unchanged."""
    if isinstance(X, Treebank):
        return X.columns
    if not (templates is None or templates == "auto") or isinstance(X, (str, Columns, Rows)):
        return X
    sentences = X if hasattr(X, "__len__") else list(X)
    for sentence in sentences:
        if is_sparse(sentence) or isinstance(sentence, np.ndarray):
            return sentences
        for token in sentence:
            return Columns.from_lists(sentences) if isinstance(token, (str, tuple)) else sentences
    return sentences


def make_features(templates: Any, X: Any) -> Features:
    """Return the features for `templates=` and these sentences; a given object is copied, not changed."""
    if isinstance(templates, Blocks):
        return MatrixFeatures(templates)
    if isinstance(templates, Templates):
        return templates.fresh()
    if isinstance(templates, (DictFeatures, MatrixFeatures)):
        return copy.copy(templates)
    if templates is not None:
        if not isinstance(templates, (str, Path, list, tuple)):
            raise Unsupported(f"templates must be 'auto', a name, a path or a list of templates; it is {templates!r}")
        return Templates(templates)
    return MatrixFeatures() if isinstance(X, Rows) or _vectors(X) else DictFeatures()


def _vectors(X: Iterable[Any]) -> bool:
    """Return whether the sentences are matrices with one row per token."""
    first = next(iter(X), None)
    return is_sparse(first) or (isinstance(first, np.ndarray) and first.ndim == 2)


# --- labels ------------------------------------------------------------------------------------------

Names = NDArray[Any]


def split_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Return (sentences, labels): without y the last column of `Columns`, else the column that y names.

    For a `Treebank` these are its columns, and without y its labels are the parts of speech.
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
    """Return the distinct labels as text, in order of first occurrence; `label_codes` checks their lengths."""
    if isinstance(y, Columns):
        return [str(label) for label in y.distinct(0)[1].tolist()]
    return [
        str(label)
        for label in dict.fromkeys(chain.from_iterable(y if isinstance(y, list) else []))
        if label is not None
    ]


def check_labels_fit(labels: int, features: int) -> None:
    """Raise an error if the tables of this many labels and features need more memory than available.

    Pairs of labels have sums, squares, scores, forbidden pairs and the best chain; features have sums and squares.
    """
    todo = "take fewer labels, or split them"
    check_room(labels + 2, labels, 6, f"the tables of {labels:,} labels by {labels:,} labels", todo)
    check_room(features, labels, 2, f"the weights of {labels:,} labels and {features:,} features", todo)


def label_codes(y: Any, offsets: Ints, *, unknown: bool = False) -> tuple[Ints, Names]:
    """Return (a number for each token, the sorted labels that the numbers index); labels must fit the sentences.

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
    """Return the numbers of labels; None is -1."""
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
    """Return the numbers of labels among `classes`; raise an error that names the first missing one."""
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
    """Return lists of labels, one per sentence."""
    flat = classes.astype(object)[codes].tolist() if codes.size else []
    return [flat[a:b] for a, b in pairwise(offsets.tolist())]


# --- from a model file --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaggerParts:
    """The features, the weights (one row per feature), the scores of the chain, and the labels."""

    features: Features
    weights: Any
    chain: Floats
    forbidden: Floats
    classes: Names

    @classmethod
    def of(cls, state: dict[str, Any], arrays: dict[str, Any]) -> TaggerParts:
        """Read and check the parts of a model file: compiled code does not check them."""
        classes, kind = np.asarray(state["classes_"]), state["kind"]
        made = features_of(kind)
        if made is None:
            raise ModelFileError(f"there are no features of the kind {kind!r} in this spom")
        features, k = made.from_arrays(under(arrays, "features.")), classes.size
        count = features.blocks.total
        values = take(arrays, "weights.values", "f")
        columns = check_shape(check_indices(take(arrays, "weights.labels", "i"), k, "weights"), values.shape, "weights")
        starts = check_shape(take(arrays, "weights.starts", "i"), (count + 1,), "weights")
        starts = check_offsets(starts, values.size, "weights")
        if "chain" not in arrays:
            from scipy.sparse import csr_matrix

            weights: Any = csr_matrix((values.astype(np.float32), columns, starts), shape=(count, k))
            chain, forbidden = np.zeros((k + 2, k)), np.zeros((k + 2, k))
            places = check_indices(take(arrays, "chain.places", "i"), chain.size, "chain")
            chain.reshape(-1)[places] = check_shape(take(arrays, "chain.values", "f"), places.shape, "chain")
            never = check_indices(take(arrays, "forbidden.places", "i"), chain.size, "forbidden")
            forbidden.reshape(-1)[never] = -np.inf
            return cls(features, weights, chain, forbidden, classes)
        weights = np.zeros((count, padded(k)), dtype=np.float32)
        weights[np.repeat(np.arange(count), np.diff(starts)), columns] = values
        chain = check_shape(take(arrays, "chain", "f", 2), (k + 2, k), "chain")
        forbidden = check_shape(take(arrays, "forbidden", "f", 2, finite=False), (k + 2, k), "forbidden")
        if not bool(((forbidden == 0.0) | (forbidden == -np.inf)).all()):
            raise ModelFileError("the array 'forbidden' has entries besides 0 and -inf: the file is damaged")
        return cls(features, weights, np.array(chain), np.array(forbidden), classes)

    def packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state and the arrays that `of` reads; with many labels only the non-zero scores of the chain."""
        rows, columns = self.weights.nonzero()
        arrays: dict[str, Any] = {f"features.{name}": a for name, a in self.features.arrays().items()}
        arrays["weights.values"] = np.asarray(self.weights[rows, columns]).reshape(-1)
        arrays["weights.labels"] = columns.astype(np.int32)
        arrays["weights.starts"] = np.searchsorted(rows, np.arange(self.weights.shape[0] + 1)).astype(np.int64)
        if is_sparse(self.weights):
            places = np.flatnonzero(self.chain)
            arrays |= {"chain.places": places, "chain.values": self.chain.reshape(-1)[places]}
            arrays["forbidden.places"] = np.flatnonzero(self.forbidden)
        else:
            arrays |= {"chain": self.chain, "forbidden": self.forbidden}
        return {"classes_": self.classes, "kind": self.features.kind}, arrays

    def codes(self, X: Any) -> Ints:
        """Return the number of the best label of each token."""
        tokens = as_tokens(self.features.transform(X), self.weights.shape[0])
        return tag(tokens, self.weights, np.asarray(self.chain + self.forbidden))


# --- training data ----------------------------------------------------------------------------------------------

# Weights of features (a table, or a CSR matrix for many labels) and of the chain.
Weights = tuple[Any, Floats]


@dataclass(frozen=True)
class Task:
    """Sentences with their labels, with all features or those of `ids`; `weight` has one number per sentence."""

    features: Features
    tokens: Tokens
    y: Ints
    blocks: Blocks
    ids: Ints | None = None
    weight: Floats | None = None

    def weighted(self, sample_weight: Any) -> Task:
        """Return the same task with weights of sentences or tokens."""
        if sample_weight is None:
            return self
        weights = check_sample_weight(sample_weight, self.tokens.offsets)
        tokens, y, weight = weighted(self.tokens, self.y, weights)
        return replace(self, tokens=tokens, y=y, weight=weight)

    def only(self, used: Ints) -> Task:
        """Return the same task with some of its features."""
        tokens, blocks = restricted(self.tokens, self.blocks, used)
        return replace(self, tokens=tokens, blocks=blocks, ids=used if self.ids is None else self.ids[used])

    def held_out(self, dev: Any) -> tuple[Tokens, tuple[Ints, Names]]:
        """Return development sentences with the same features, and their labels: numbers and names."""
        X, y = split_labels(*dev) if isinstance(dev, tuple) and len(dev) == 2 else split_labels(dev, None)
        every = as_blocks(self.features.blocks)
        tokens = as_tokens(self.features.transform(X), every.total)
        tokens = tokens if self.ids is None else restricted(tokens, every, self.ids)[0]
        return tokens, label_codes(y, tokens.offsets)

    def digest_of(self, dev: Any) -> str | None:
        """Return a hash of development sentences for the fingerprint of a checkpoint."""
        if dev is None:
            return None
        tokens, gold = self.held_out(dev)
        return digest(*tokens, *gold)
