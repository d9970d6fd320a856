"""Sentences as rows of feature ids, and the blocks of the ids: the input of learners of chains."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, offsets_of
from spom.core.container import check_offsets, take
from spom.data.columns import Columns, gather
from spom.data.treebank import Treebank
from spom.errors import DataError, ModelFileError, SpomError, Unsupported

NO_VALUES: Floats = np.empty(0)


@dataclass(frozen=True)
class Rows:
    """x_t = sum of value times unit vector over the features of token t: CSR rows, cut into sentences.

    Token t has the features indices[indptr[t] : indptr[t + 1]], with the same part of `values`, which is empty if all
    are one. Sentence i has the tokens offsets[i] to offsets[i + 1] - 1. A slice or an array of indices gives the rows
    of those sentences.

    >>> rows = Rows(np.array([0, 2, 3, 5]), np.array([0, 3, 1, 0, 2], dtype=np.int32), NO_VALUES, np.array([0, 2, 3]))
    >>> len(rows), rows.n_tokens
    (2, 3)
    >>> rows[1:].to_csr(4).toarray()
    array([[1., 0., 1., 0.]])
    """

    indptr: Ints
    indices: NDArray[Any]
    values: Floats
    offsets: Ints

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.indptr.size) - 1

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    def __getitem__(self, index: Any) -> Rows:
        if isinstance(index, (int, np.integer)):
            index = [index]
        if isinstance(index, slice) and index.step in (None, 1):
            first, last, _ = index.indices(len(self))
            a, b = int(self.offsets[first]), int(self.offsets[max(first, last)])
            c, d = int(self.indptr[a]), int(self.indptr[b])
            offsets = self.offsets[first : max(first, last) + 1] - a
            return Rows(self.indptr[a : b + 1] - c, self.indices[c:d], self.values[c:d], offsets)
        chosen = np.arange(len(self))[index]
        tokens, offsets = gather(self.offsets, chosen)
        entries, indptr = gather(self.indptr, tokens)
        values = self.values[entries] if self.values.size else self.values
        return Rows(indptr, self.indices[entries], values, offsets)

    def to_csr(self, n_features: int) -> Any:
        """Return the rows of all tokens as a scipy matrix; the values of a repeated feature of a token are added."""
        from scipy import sparse

        values = self.values if self.values.size else np.ones(self.indices.size)
        return sparse.csr_matrix((values, self.indices, self.indptr), shape=(self.n_tokens, n_features))

    def __repr__(self) -> str:
        return f"Rows({len(self)} sentences, {self.n_tokens} tokens, {self.indices.size} features)"


def cut_blocks(blocks: Blocks, used: Ints, kept: Sequence[int]) -> Blocks:
    """Return some blocks with only the features `used` (sorted ids), renumbered in order."""
    sizes = np.diff(np.searchsorted(used, blocks.starts))[list(kept)]
    starts = offsets_of(sizes)
    return Blocks(tuple(blocks.names[m] for m in kept), starts)


@dataclass(frozen=True)
class Blocks:
    """Which features belong together: block m, called names[m], has the ids starts[m] to starts[m + 1] - 1.

    >>> blocks = Blocks(("w[0]", "pos[0]"), np.array([0, 3, 5]))
    >>> len(blocks), blocks.total, blocks.sizes, blocks.of([0, 3, 4])
    (2, 5, array([3, 2]), array([0, 1, 1]))
    """

    names: tuple[str, ...]
    starts: Ints = field(repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def total(self) -> int:
        """The number of features."""
        return int(self.starts[-1])

    @property
    def sizes(self) -> Ints:
        """The number of features of each block."""
        return np.diff(self.starts)

    def of(self, ids: Any) -> Ints:
        """Return the block of each feature id."""
        found: Ints = np.searchsorted(self.starts, np.asarray(ids), side="right") - 1
        return found

    def index(self, name: str) -> int:
        """Return the index of the block of that name."""
        if name not in self.names:
            raise KeyError(f"there is no block {name!r}; there are: {', '.join(self.names)}")
        return self.names.index(name)

    def ids(self, blocks: Sequence[int] | Ints) -> Ints:
        """Return the feature ids of some blocks, block after block."""
        parts = [np.arange(self.starts[m], self.starts[m + 1]) for m in blocks]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def check_kind(X: Any, kind: str) -> None:
    """Raise if the sentences have a form that features of this kind do not take."""
    if isinstance(X, str):
        raise DataError("X is a string; expected sentences: lists of tokens, or what read_conll gives")
    if isinstance(X, Rows if kind == "templates" else (Columns, Treebank)):
        raise DataError(f"X is {type(X).__name__}, but the features are of the kind {kind!r}")


@contextmanager
def opening(what: str) -> Iterator[None]:
    """Turn any error about the arrays that are read in this context into a `ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except (SpomError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"the {what} of the model are damaged: {error}") from None


def write_spec(spec: dict[str, Any]) -> Any:
    """Return a description as an array of UTF-8."""
    return np.frombuffer(json.dumps(spec).encode(), dtype=np.uint8)


def read_spec(arrays: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the description; raise if its version is newer than `version`."""
    spec: dict[str, Any] = json.loads(take(arrays, "spec", "u").tobytes())
    if not isinstance(spec, dict) or not isinstance(spec["version"], int):
        raise ModelFileError("the features of the model have no description that can be read")
    if spec["version"] > version:
        raise ModelFileError(f"features of version {spec['version']} need a newer spom")
    return spec


def read_blocks(names: Any, arrays: dict[str, Any], total: int) -> Blocks:
    """Return blocks of `total` features, given their names and `starts`."""
    starts = np.array(check_offsets(take(arrays, "starts", "i"), total, "starts"), dtype=np.int64)
    if not isinstance(names, list) or starts.size != len(names) + 1:
        raise ModelFileError("the blocks of the model have other names than starts: the file is damaged")
    return Blocks(tuple(str(name) for name in names), starts)


class InBlocks:
    """The methods that several kinds of features share: their blocks, and subsets of them."""

    _blocks: Blocks | None = None

    @property
    def blocks(self) -> Blocks:
        """The features of each block."""
        if self._blocks is None:
            raise Unsupported("these features are not known yet: call fit first")
        return self._blocks

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.blocks.total

    def keep(self, blocks: Sequence[int] | Ints) -> Self:
        """Return the features of some blocks, renumbered."""
        chosen = sorted({int(m) for m in blocks})
        return self._like(self.blocks.ids(chosen), chosen)

    def compact(self, used: Sequence[int] | Ints) -> Self:
        """Return only the features `used` (sorted ids): the k-th of them is feature k of the result."""
        ids = np.asarray(used, dtype=np.int64)
        return self._like(ids, np.unique(self.blocks.of(ids)).tolist())

    def _like(self, ids: Ints, blocks: list[int]) -> Self:
        """Return the same kind of features with only these ids of these blocks."""
        raise NotImplementedError  # every kind has its own

    def __repr__(self) -> str:
        size = "" if self._blocks is None else f"{self.n_features} features in {len(self.blocks)} blocks"
        return f"{type(self).__name__}({size})"
