"""Group structures: the accepted forms of `groups=`, and the single internal form.

- a list of index arrays, one per group;
- one integer label per coordinate (negative: in no group);
- a block size: consecutive blocks of that many coordinates, which must fill the array;
- `"rows"`: each row of a matrix is a group (each entry of a vector).

Indices, labels and blocks refer to coordinates of a vector, or to rows of a matrix: a group of rows has all of
their entries. A coordinate in no group is not penalised by the group term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, check_positive


@dataclass(frozen=True)
class Groups:
    """Groups of the entries of a flattened array.

    Group m is `indices[ptr[m]:ptr[m + 1]]`. If the groups are consecutive blocks that fill the array,
    `block` is their length and `indices` is empty, so kernels read memory in order.

    >>> resolve([[0, 2], [1]], (4,)).indices
    array([0, 2, 1])
    >>> resolve(2, (4,)).block
    2
    """

    ptr: Ints
    indices: Ints
    size: int
    block: int

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.ptr.size - 1

    def packed(self) -> Ints:
        """Return the input of the kernels: count, block, then ptr and indices unless the groups are blocks."""
        head = np.array([self.count, self.block], dtype=np.int64)
        return head if self.block else np.concatenate([head, self.ptr, self.indices])

    def members(self, m: int) -> Ints:
        """Return the entries of group m."""
        if self.block:
            return np.arange(m * self.block, (m + 1) * self.block)
        return self.indices[self.ptr[m] : self.ptr[m + 1]]


def resolve(groups: Any, shape: tuple[int, ...], *, overlap: bool = False) -> Groups:
    """Return the internal form of `groups=` for arrays of this shape; raise `ValueError` for groups that do not fit."""
    rows = shape[0]
    columns = 1 if len(shape) == 1 else shape[1]
    if groups is None:
        if len(shape) == 1:
            raise ValueError('groups= is missing: give index arrays, labels, a block size, or "rows"')
        groups = "rows"
    if isinstance(groups, str):
        if groups != "rows":
            raise ValueError(f'groups= must be index arrays, labels, a block size or "rows", not {groups!r}')
        return _blocks(1, rows, columns)
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        return _blocks(int(groups), rows, columns)
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype != object:
        return _labels(groups, rows, columns)
    parts = list(groups)
    if parts and all(isinstance(part, (int, np.integer)) for part in parts):
        return _labels(np.asarray(parts), rows, columns)
    return _index_arrays(parts, rows, columns, overlap)


def _blocks(block: int, rows: int, columns: int) -> Groups:
    if block < 1:
        raise ValueError(f"a block size must be at least 1; it is {block}")
    if rows % block:
        raise ValueError(f"blocks of {block} do not fill {rows} coordinates; give index arrays instead")
    size = rows * columns
    length = block * columns
    ptr = np.arange(0, size + 1, length, dtype=np.int64) if length else np.zeros(1, dtype=np.int64)
    return Groups(ptr, np.zeros(0, dtype=np.int64), size, max(length, 1))


def _labels(labels: np.ndarray[Any, Any], rows: int, columns: int) -> Groups:
    if labels.dtype.kind not in "iu":
        raise ValueError(f"group labels must be integers, not {labels.dtype}")
    if labels.size != rows:
        raise ValueError(f"there are {labels.size} group labels for {rows} coordinates; give one for each")
    order = np.argsort(labels, kind="stable")
    order = order[labels[order] >= 0]
    _, first = np.unique(labels[order], return_index=True)
    return _expand(np.append(first, order.size), order, rows, columns)


def _index_arrays(parts: list[Any], rows: int, columns: int, overlap: bool) -> Groups:
    arrays = [np.asarray(part) for part in parts]
    for m, part in enumerate(arrays):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise ValueError(f"group {m} must be a vector of integer indices")
        if part.size and (part.min() < 0 or part.max() >= rows):
            bad = part.min() if part.min() < 0 else part.max()
            raise ValueError(f"group {m} has index {bad}, out of range for {rows} coordinates")
    sizes = [part.size for part in arrays]
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices = np.concatenate(arrays).astype(np.int64) if sum(sizes) else np.zeros(0, dtype=np.int64)
    if overlap:
        for m, part in enumerate(arrays):
            if np.unique(part).size != part.size:
                raise ValueError(f"group {m} names an index twice")
    else:
        seen = np.bincount(indices, minlength=rows)
        if seen.size and seen.max() > 1:
            twice = int(np.argmax(seen > 1))
            raise ValueError(
                f"coordinate {twice} is in {seen[twice]} groups, and groups must not overlap here; "
                "see TreeGroupLasso and OverlappingGroupLasso"
            )
    return _expand(ptr, indices, rows, columns)


def _expand(ptr: ArrayLike, indices: Ints, rows: int, columns: int) -> Groups:
    """Expand rows to entries of the flattened matrix."""
    if columns != 1:
        indices = (indices[:, None] * columns + np.arange(columns)).reshape(-1)
    return Groups(np.asarray(ptr, dtype=np.int64) * columns, indices.astype(np.int64), rows * columns, 0)


def check_weights(weights: Any, count: int, what: str = "groups") -> Floats:
    """Return one finite weight >= 0 for each of `count` groups (or the items named by `what`); ones by default."""
    if weights is None:
        return np.ones(count)
    a = np.asarray(weights, dtype=np.float64)
    if a.shape != (count,):
        raise ValueError(f"weights has shape {a.shape}; there must be one for each of the {count} {what}")
    for m in np.flatnonzero(~(np.isfinite(a) & (a >= 0))):
        check_positive(a[m], f"weight {m}")
    return np.ascontiguousarray(a)
