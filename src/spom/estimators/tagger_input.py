"""What a tagger takes as sentences, as rows of feature ids: columns under templates, named features, vectors."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from spom.core.arrays import Ints
from spom.data.columns import Columns
from spom.errors import DataError, Unsupported
from spom.features.rows import Blocks, Rows
from spom.features.templates import Templates

Arrays = dict[str, np.ndarray[Any, Any]]


class Input(Protocol):
    """One kind of sentences. `compact` numbers some features anew, in their order; `keep` those of some blocks."""

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

    def keep(self, blocks: Ints) -> Input:
        """The features of some blocks."""
        ...

    def compact(self, used: Ints) -> Input:
        """Only the features `used`, sorted."""
        ...

    def name(self, feature: int) -> str:
        """A feature as text."""
        ...

    def arrays(self) -> Arrays:
        """Everything as arrays."""
        ...


# --- columns and templates ------------------------------------------------------------------------------


def as_columns(X: Any) -> Columns:
    """Sentences as columns: `Columns` itself, or lists of words or of tuples of fields."""
    return X if isinstance(X, Columns) else Columns.from_lists(X)


class TemplateInput:
    """Columns of tokens, or lists of words or tuples, under templates."""

    kind = "templates"

    def __init__(self, templates: Templates) -> None:
        self.templates = templates

    @property
    def blocks(self) -> Blocks:
        """A block a template."""
        return self.templates.blocks

    def fit(self, X: Any) -> Rows:
        """The rows of all conjunctions that occur."""
        return self.templates.fit(as_columns(X))

    def transform(self, X: Any) -> Rows:
        """The rows of those that are known."""
        return self.templates.transform(as_columns(X))

    def keep(self, blocks: Ints) -> TemplateInput:
        """Some of the templates."""
        return TemplateInput(self.templates.keep(blocks))

    def compact(self, used: Ints) -> TemplateInput:
        """Some of the features."""
        return TemplateInput(self.templates.compact(used))

    def name(self, feature: int) -> str:
        """template=values."""
        return self.templates.name(feature)

    def arrays(self) -> Arrays:
        """The templates'."""
        return self.templates.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> TemplateInput:
        """What `arrays` gave."""
        return cls(Templates.from_arrays(arrays))


# --- feature dicts and lists of strings -----------------------------------------------------------------


def _parts(token: Any, where: str) -> Iterator[tuple[str, str, float]]:
    """(block, name, value) of each feature of a token: what sklearn-crfsuite takes."""
    if isinstance(token, dict):
        for key, value in token.items():
            if isinstance(value, str):
                yield str(key), f"{key}:{value}", 1.0
            elif isinstance(value, (bool, int, float, np.number, np.bool_)):
                yield str(key), str(key), float(value)
            else:
                raise DataError(f"{where}: feature {key!r} is {value!r}; expected text, a number or a boolean")
        return
    for name in token:
        if not isinstance(name, str):
            raise DataError(f"{where}: feature {name!r} is no text; a token is a dict, or a list of strings")
        ends = [at for at in (name.find("="), name.find(":")) if at > 0]
        yield (name[: min(ends)] if ends else name), name, 1.0


class NamedInput:
    """Tokens as feature dicts or lists of strings; a dict's key, or the text before `=` or `:`, is the block."""

    kind = "named"

    def __init__(self) -> None:
        self.names: list[str] = []
        self._blocks = Blocks((), np.zeros(1, dtype=np.int64))
        self._ids: dict[str, int] | None = None

    @property
    def blocks(self) -> Blocks:
        """A block a key."""
        return self._blocks

    def _set(self, names: list[str], blocks: Blocks) -> NamedInput:
        self.names, self._blocks, self._ids = names, blocks, None
        return self

    def _known(self) -> dict[str, int]:
        if self._ids is None:
            self._ids = {name: i for i, name in enumerate(self.names)}
        return self._ids

    def fit(self, X: Any) -> Rows:
        """All features that occur, numbered block after block."""
        seen: dict[str, int] = {}
        members: dict[str, list[int]] = {}

        def number(block: str, name: str) -> int:
            found = seen.get(name)
            if found is None:
                found = seen[name] = len(seen)
                members.setdefault(block, []).append(found)
            return found

        rows = _named_rows(X, number)
        order = np.array([i for ids in members.values() for i in ids], dtype=np.int64)
        place = np.empty(order.size, dtype=np.int32)
        place[order] = np.arange(order.size)
        texts = list(seen)
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in members.values()])]).astype(np.int64)
        self._set([texts[i] for i in order], Blocks(tuple(members), starts))
        return Rows(rows.indptr, place[rows.indices], rows.values, rows.offsets)

    def transform(self, X: Any) -> Rows:
        """The rows of known features."""
        known = self._known()
        return _named_rows(X, lambda _, name: known.get(name, -1))

    def keep(self, blocks: Ints) -> NamedInput:
        """The features of some blocks."""
        return self.compact(self._blocks.ids([int(m) for m in blocks]), drop=False)

    def compact(self, used: Ints, drop: bool = True) -> NamedInput:
        """Some of the features; blocks without any are dropped."""
        return NamedInput()._set([self.names[i] for i in used], _cut(self._blocks, used))

    def name(self, feature: int) -> str:
        """The text it came with."""
        return self.names[feature]

    def arrays(self) -> Arrays:
        """Texts as UTF-8."""
        return {**_texts("names", self.names), **_texts("blocks", self._blocks.names), "starts": self._blocks.starts}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> NamedInput:
        """What `arrays` gave."""
        blocks = Blocks(tuple(_from_texts("blocks", arrays)), np.asarray(arrays["starts"], dtype=np.int64))
        return cls()._set(_from_texts("names", arrays), blocks)


def _named_rows(X: Any, number: Any) -> Rows:
    indptr, indices, values, offsets = [0], [], [], [0]
    for i, sentence in enumerate(X):
        for t, token in enumerate(sentence):
            if isinstance(token, str):
                raise DataError(f"sentence {i}, token {t} is a string; expected a dict or a list of features")
            for block, name, value in _parts(token, f"sentence {i}, token {t}"):
                found = number(block, name)
                if found >= 0:
                    indices.append(found)
                    values.append(value)
            indptr.append(len(indices))
        offsets.append(len(indptr) - 1)
    x = np.array(values, dtype=np.float64)
    return Rows(
        np.array(indptr, dtype=np.int64),
        np.array(indices, dtype=np.int32),
        x[:0] if bool((x == 1.0).all()) else x,
        np.array(offsets, dtype=np.int64),
    )


def _texts(name: str, texts: Sequence[str]) -> Arrays:
    blobs = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(blob) for blob in blobs])]).astype(np.int64)
    return {f"{name}.text": np.frombuffer(b"".join(blobs), dtype=np.uint8), f"{name}.offsets": offsets}


def _from_texts(name: str, arrays: Arrays) -> list[str]:
    blob = np.asarray(arrays[f"{name}.text"]).tobytes()
    return [blob[a:b].decode() for a, b in pairwise(np.asarray(arrays[f"{name}.offsets"]).tolist())]


def _cut(blocks: Blocks, used: Ints) -> Blocks:
    """The blocks of some of the features, without those that have none left."""
    ends = np.searchsorted(used, blocks.starts)
    alive = np.flatnonzero(np.diff(ends) > 0)
    starts = np.concatenate([[0], np.cumsum(np.diff(ends)[alive])]).astype(np.int64)
    return Blocks(tuple(blocks.names[m] for m in alive), starts)


# --- vectors --------------------------------------------------------------------------------------------


class MatrixInput:
    """A matrix a sentence (dense, or scipy's CSR): a row of features a token. Or `Rows`, ready as they are."""

    kind = "matrix"

    def __init__(self, blocks: Blocks | None = None) -> None:
        self._blocks = blocks
        self.width = 0
        self.used: Ints | None = None

    @property
    def blocks(self) -> Blocks:
        """Those that were given, or one of all features."""
        if self._blocks is None:
            size = self.width if self.used is None else self.used.size
            return Blocks(("features",), np.array([0, size], dtype=np.int64))
        return self._blocks

    def fit(self, X: Any) -> Rows:
        """All columns are features."""
        if self._blocks is not None:
            self.width = self._blocks.total
        elif isinstance(X, Rows):
            self.width = int(X.indices.max(initial=-1)) + 1
        else:
            self.width = int(np.shape(X[0])[1]) if len(X) and len(np.shape(X[0])) == 2 else 0
        return self.transform(X)

    def transform(self, X: Any) -> Rows:
        """The entries that are not zero, of the columns that are used."""
        rows = X if isinstance(X, Rows) else self._stacked(X)
        if self.used is None:
            return rows
        place = np.full(self.width, -1, dtype=np.int32)
        place[self.used] = np.arange(self.used.size)
        found = place[rows.indices]
        before = np.concatenate([[0], np.cumsum(found >= 0)])
        values = rows.values[found >= 0] if rows.values.size else rows.values
        return Rows(before[rows.indptr], found[found >= 0], values, rows.offsets)

    def _stacked(self, X: Any) -> Rows:
        parts = []
        for i, matrix in enumerate(X):
            part = sparse.csr_matrix(matrix, dtype=np.float64)
            if part.shape[1] != self.width and part.shape[0]:
                raise DataError(f"sentence {i} has {part.shape[1]} features a token; expected {self.width}")
            parts.append(part if part.shape[0] else sparse.csr_matrix((0, self.width)))
        offsets = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(np.int64)
        stacked = sparse.vstack(parts, format="csr") if parts else sparse.csr_matrix((0, self.width))
        return Rows(stacked.indptr.astype(np.int64), stacked.indices.astype(np.int32), stacked.data, offsets)

    def keep(self, blocks: Ints) -> MatrixInput:
        """The features of some blocks."""
        return self.compact(self.blocks.ids([int(m) for m in blocks]))

    def compact(self, used: Ints) -> MatrixInput:
        """Some of the columns."""
        found = MatrixInput(_cut(self.blocks, used))
        found.width, found.used = self.width, np.asarray(used if self.used is None else self.used[used])
        return found

    def name(self, feature: int) -> str:
        """The number of its column."""
        return str(feature if self.used is None else int(self.used[feature]))

    def arrays(self) -> Arrays:
        """The columns that are used."""
        used = np.arange(self.width) if self.used is None else self.used
        blocks = self.blocks
        width = np.array([self.width], dtype=np.int64)
        return {**_texts("blocks", blocks.names), "starts": blocks.starts, "used": used, "width": width}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> MatrixInput:
        """What `arrays` gave."""
        starts = np.asarray(arrays["starts"], dtype=np.int64)
        found = cls(Blocks(tuple(_from_texts("blocks", arrays)), starts))
        found.width, found.used = int(arrays["width"][0]), np.asarray(arrays["used"], dtype=np.int64)
        return found


INPUTS: dict[str, Any] = {"templates": TemplateInput, "named": NamedInput, "matrix": MatrixInput}


def make_input(templates: Any, X: Any) -> Input:
    """The kind that `templates=` and the sentences ask for."""
    if isinstance(templates, Blocks):
        return MatrixInput(templates)
    if isinstance(templates, Templates):
        # The user's own object stays as it is: a copy learns.
        return TemplateInput(copy.copy(templates))
    if templates is not None:
        if not isinstance(templates, (str, Path, list, tuple)):
            raise Unsupported(f"templates must be a name, a path, a list of templates or None; it is {templates!r}")
        return TemplateInput(Templates(templates))
    if isinstance(X, Columns):
        return TemplateInput(Templates(_default_set(X.n_columns)))
    if isinstance(X, Rows):
        return MatrixInput()
    return _by_first_token(X)


def _default_set(columns: int) -> str:
    return "chunking" if columns > 1 else "pos"


def _by_first_token(X: Iterable[Any]) -> Input:
    for sentence in X:
        if sparse.issparse(sentence) or (isinstance(sentence, np.ndarray) and sentence.ndim == 2):
            return MatrixInput()
        for token in sentence:
            if isinstance(token, str):
                return TemplateInput(Templates(_default_set(1)))
            if isinstance(token, tuple):
                return TemplateInput(Templates(_default_set(len(token))))
            return NamedInput()
    return NamedInput()
