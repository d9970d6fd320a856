"""`MatrixFeatures`: one matrix per sentence, one row per token, dense or scipy sparse, to rows of feature ids."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from spom.core.arrays import Ints, checked_csr, offsets_of
from spom.core.container import check_indices, take
from spom.errors import DataError
from spom.features.rows import (
    NO_VALUES,
    Blocks,
    InBlocks,
    Rows,
    check_kind,
    cut_blocks,
    opening,
    read_blocks,
    read_spec,
    write_spec,
)

_VERSION = 1


class MatrixFeatures(InBlocks):
    """Feature j of token t is X[t, column j], where X is `Rows` or a list of matrices, one per sentence.

    `groups` says which columns belong together: one integer or name per column, a list of index arrays, a block size,
    or `Blocks`; by default all are one block. Ids are numbered block after block.

    >>> import numpy as np
    >>> features = MatrixFeatures(groups=["a", "b", "a"])
    >>> rows = features.fit([np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])])
    >>> features.blocks.names, rows.indices, rows.values
    (('a', 'b'), array([0, 2, 1], dtype=int32), array([1., 2., 3.]))
    """

    kind = "matrix"

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups
        self.width = -1
        # The column of each feature, and the feature of each column (-1 if it is not used).
        self._columns: Ints = np.empty(0, dtype=np.int64)
        self._place: Any = np.empty(0, dtype=np.int32)

    def fit(self, X: Any) -> Rows:
        """Take every column as a feature, and return the rows."""
        self.width = _width(X, self.groups.total if isinstance(self.groups, Blocks) else None)
        block, names = _grouped(self.groups, self.width)
        self._columns = np.argsort(block, kind="stable")[int((block < 0).sum()) :]
        sizes = np.bincount(block[block >= 0], minlength=len(names))
        self._blocks = Blocks(names, offsets_of(sizes))
        self._renumber()
        return self.transform(X)

    def transform(self, X: Any) -> Rows:
        """Return the nonzero entries in the columns that are used."""
        blocks = self.blocks
        check_kind(X, self.kind)
        rows = X if isinstance(X, Rows) else _stacked(X, self.width)
        low, high = int(rows.indices.min(initial=0)), int(rows.indices.max(initial=-1))
        if low < 0 or high >= self.width:
            raise DataError(f"a row has the feature {low if low < 0 else high}; expected 0 to {self.width - 1}")
        if blocks.total == self.width and bool((self._columns == np.arange(self.width)).all()):
            return rows
        ids = self._place[rows.indices]
        known = ids >= 0
        before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(known, dtype=np.int64)])
        return Rows(
            before[rows.indptr], ids[known], rows.values[known] if rows.values.size else NO_VALUES, rows.offsets
        )

    def name(self, feature: int) -> str:
        """Return the column of a feature."""
        return str(int(self._columns[feature]))

    def _like(self, ids: Ints, blocks: list[int]) -> Self:
        found = type(self)(self.groups)
        found.width, found._columns = self.width, self._columns[ids]
        found._blocks = cut_blocks(self.blocks, ids, blocks)
        found._renumber()
        return found

    def _renumber(self) -> None:
        self._place = np.full(self.width, -1, dtype=np.int32)
        self._place[self._columns] = np.arange(self._columns.size, dtype=np.int32)

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file; `spec` is JSON as UTF-8."""
        spec = {"version": _VERSION, "width": self.width, "blocks": list(self.blocks.names)}
        return {"spec": write_spec(spec), "starts": self.blocks.starts, "columns": self._columns}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> MatrixFeatures:
        """Rebuild the features from `arrays()`; damaged ones raise a `ModelFileError`."""
        with opening("features"):
            spec, found = read_spec(arrays, _VERSION), cls()
            found.width = int(spec["width"])
            columns = check_indices(take(arrays, "columns", "i"), found.width, "columns")
            found._columns = np.array(columns, dtype=np.int64)
            found._blocks = read_blocks(spec["blocks"], arrays, columns.size)
            found._renumber()
            return found


def _width(X: Any, given: int | None) -> int:
    if given is not None:
        return given
    if isinstance(X, Rows):
        return int(X.indices.max(initial=-1)) + 1
    widths = [np.shape(part)[1] for part in X if len(np.shape(part)) == 2]
    return int(widths[0]) if widths else 0


def _grouped(groups: Any, width: int) -> tuple[Ints, tuple[str, ...]]:
    """Return (the block of each column, -1 for none; the names of the blocks)."""
    if groups is None:
        return np.zeros(width, dtype=np.int64), ("features",)
    if isinstance(groups, Blocks):
        return groups.of(np.arange(width)), groups.names
    if isinstance(groups, (int, np.integer)):
        if groups < 1 or width % groups:
            raise ValueError(f"groups must be a block size that divides the {width} columns; it is {groups}")
        return np.arange(width) // groups, tuple(str(m) for m in range(width // int(groups)))
    parts = list(groups)
    if parts and np.ndim(parts[0]) == 1:
        block = np.full(width, -1, dtype=np.int64)
        for m, part in enumerate(parts):
            index = np.asarray(part, dtype=np.int64)
            if index.size and (index.min() < 0 or index.max() >= width or (block[index] >= 0).any()):
                raise ValueError(f"groups[{m}] must be columns from 0 to {width - 1} that no other group has")
            block[index] = m
        return block, tuple(str(m) for m in range(len(parts)))
    if len(parts) != width:
        raise ValueError(f"groups must have one entry for each of the {width} columns; it has {len(parts)}")
    titles: dict[str, int] = {}
    return np.array([titles.setdefault(str(g), len(titles)) for g in parts], dtype=np.int64), tuple(titles)


def _stacked(X: Any, width: int) -> Rows:
    """Return the matrices of all sentences as rows, without zeros."""
    from scipy import sparse

    parts = []
    for i, matrix in enumerate(X):
        if sparse.issparse(matrix) and matrix.ndim == 2:
            matrix = checked_csr(matrix, f"sentence {i}")
        part = sparse.csr_matrix(np.atleast_2d(matrix) if isinstance(matrix, list) else matrix, dtype=np.float64)
        if part.shape[1] != width and part.shape[0] and part.size + part.shape[1]:
            raise DataError(f"sentence {i} has {part.shape[1]} features per token; expected {width}")
        if not np.isfinite(part.data).all():
            raise DataError(f"sentence {i} has a value that is not finite")
        parts.append(part if part.shape[1] == width else sparse.csr_matrix((0, width)))
    offsets = offsets_of([part.shape[0] for part in parts])
    stacked = sparse.vstack(parts, format="csr") if parts else sparse.csr_matrix((0, width))
    stacked.eliminate_zeros()
    values = stacked.data if bool((stacked.data != 1.0).any()) else NO_VALUES
    return Rows(stacked.indptr.astype(np.int64), stacked.indices.astype(np.int32), values, offsets)
