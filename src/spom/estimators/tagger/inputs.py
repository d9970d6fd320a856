"""What a tagger takes as sentences, as rows of feature ids: columns under templates, named features, vectors."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from spom.core.arrays import Ints, is_sparse
from spom.data.columns import Columns
from spom.data.treebank import Treebank
from spom.errors import DataError, Unsupported
from spom.features.dicts import DictFeatures
from spom.features.matrices import MatrixFeatures
from spom.features.rows import Blocks, Rows
from spom.features.templates import Templates

KINDS: dict[str, Any] = {"templates": Templates, "named": DictFeatures, "matrix": MatrixFeatures}


def features_of(kind: str) -> Any:
    """The class of the features of a kind; None where there is no such kind. Kernels are loaded where they are used."""
    if kind != "kernels":
        return KINDS.get(kind)
    from spom.estimators.tagger.kernel_chain import KernelScores

    return KernelScores


class Features(Protocol):
    """What the three kinds share. `compact` numbers some features anew, in their order; `keep` those of some blocks."""

    kind: str

    @property
    def blocks(self) -> Blocks:
        """The features of each block."""
        ...

    def fit(self, X: Any) -> Rows:
        """Learn the features, and give the rows."""
        ...

    def transform(self, X: Any) -> Rows:
        """The rows of features that are known."""
        ...

    def keep(self, blocks: Any) -> Any:
        """The features of some blocks."""
        ...

    def compact(self, used: Any) -> Any:
        """Only the features `used`, sorted."""
        ...

    def name(self, feature: int) -> str:
        """A feature as text."""
        ...

    def arrays(self) -> dict[str, Any]:
        """Everything as arrays."""
        ...


class Source:
    """Features of one kind, and the sentences that they are taken of in any form that this kind allows."""

    def __init__(self, features: Features) -> None:
        self.features = features

    @property
    def blocks(self) -> Blocks:
        """The features of each block."""
        return self.features.blocks

    def fit(self, X: Any) -> Rows:
        """Learn the features, and give the rows."""
        return self.features.fit(self._form(X))

    def transform(self, X: Any) -> Rows:
        """The rows of features that are known."""
        return self.features.transform(self._form(X))

    def keep(self, blocks: Ints) -> Source:
        """The features of some blocks."""
        return Source(self.features.keep(blocks))

    def compact(self, used: Ints) -> Source:
        """Only the features `used`, sorted."""
        return Source(self.features.compact(used))

    def _form(self, X: Any) -> Any:
        if isinstance(X, str):
            raise DataError("X is a string; expected sentences: lists of tokens, or what read_conll gives")
        if isinstance(X, Treebank):
            X = X.columns
        if isinstance(X, (Columns, Rows)):
            if isinstance(X, Columns) is not (self.features.kind == "templates"):
                raise DataError(f"X is {type(X).__name__}, but the tagger was made for {self.features.kind} features")
            return X
        sentences = X if hasattr(X, "__len__") else list(X)
        return Columns.from_lists(sentences) if self.features.kind == "templates" else sentences


def as_columns(templates: Any, X: Any) -> Any:
    """Sentences of words or of tuples as `Columns`, where templates are to be chosen by them; else as they are."""
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


def make_source(templates: Any, X: Any) -> Source:
    """The kind that `templates=` and the sentences ask for; an object of the user's stays as it is, a copy learns."""
    if isinstance(templates, Blocks):
        return Source(MatrixFeatures(templates))
    if isinstance(templates, Templates):
        return Source(templates.fresh())
    if isinstance(templates, (DictFeatures, MatrixFeatures)):
        return Source(copy.copy(templates))
    if templates is not None:
        if not isinstance(templates, (str, Path, list, tuple)):
            raise Unsupported(f"templates must be 'auto', a name, a path or a list of templates; it is {templates!r}")
        return Source(Templates(templates))
    return Source(MatrixFeatures() if isinstance(X, Rows) or _vectors(X) else DictFeatures())


def _vectors(X: Iterable[Any]) -> bool:
    """Whether the sentences are matrices with one row for each token."""
    first = next(iter(X), None)
    return is_sparse(first) or (isinstance(first, np.ndarray) and first.ndim == 2)
