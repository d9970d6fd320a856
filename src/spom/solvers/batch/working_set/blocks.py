"""The penalties that working sets take, in one form: soft threshold, then block threshold, then shrink.

Omega(w) = l1 norm1(w) + sum_b weight_b norm2(w_b) + ridge/2 norm2(w)^2
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties import Penalty


class Terms(NamedTuple):
    """The starts of the blocks, and the weight, l1 and ridge of each, as loops take them."""

    ptr: Annotated[Ints, "int64[::1]"]
    weights: Annotated[Floats, "float64[::1]"]
    l1: Annotated[Floats, "float64[::1]"]
    ridge: Annotated[Floats, "float64[::1]"]


@dataclass(frozen=True)
class PenalisedBlocks:
    """Block b is the coordinates `order[ptr[b]:ptr[b + 1]]`; every coordinate is in one block, and no block is empty.

    Each block has its own `weights`, `l1` and `ridge`. An unpenalised coordinate (an intercept, or one in no group) is
    a block of its own with zeros.
    """

    ptr: Ints
    order: Ints
    weights: Floats
    l1: Floats
    ridge: Floats

    @property
    def count(self) -> int:
        """The number of blocks."""
        return self.weights.size

    @cached_property
    def terms(self) -> Terms:
        """The penalty as loops take it."""
        return Terms(self.ptr, self.weights, self.l1, self.ridge)

    @cached_property
    def single(self) -> bool:
        """Whether each block is one coordinate."""
        return self.order.size == self.count

    @cached_property
    def free(self) -> Any:
        """A mask of the blocks that have no threshold, and so are never zero."""
        return self.weights + self.l1 == 0.0

    @cached_property
    def grouped(self) -> bool:
        """Whether some block has a weight; that term is not a sum over coordinates."""
        return bool(self.weights.any())

    @cached_property
    def in_order(self) -> bool:
        """Whether the blocks have the coordinates in their order."""
        return np.array_equal(self.order, np.arange(self.order.size))

    @cached_property
    def _l1(self) -> Any:
        return self.spread(self.l1)

    @cached_property
    def _ridge(self) -> Any:
        return self.spread(self.ridge)

    @cached_property
    def _flats(self) -> dict[int, PenalisedBlocks]:
        return {}

    def flat(self, columns: int) -> PenalisedBlocks:
        """Return blocks of rows as blocks of `columns` entries of the flattened matrix."""
        if columns not in self._flats:
            size = self.count * columns
            ptr, order = np.arange(0, size + 1, columns, dtype=np.int64), np.arange(size, dtype=np.int64)
            self._flats[columns] = PenalisedBlocks(ptr, order, self.weights, self.l1, self.ridge)
        return self._flats[columns]

    def arranged(self, values: Floats) -> Floats:
        """Return numbers (or rows) of coordinates in the order of the blocks, as a view if it is theirs."""
        return values if self.in_order else np.asarray(values[self.order])

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each block of `values`, one per coordinate in the order of the blocks."""
        return values if self.single else np.add.reduceat(values, self.ptr[:-1])

    def spread(self, values: Any) -> Any:
        """Repeat each block's value for each of its coordinates."""
        return values if self.single else np.repeat(values, np.diff(self.ptr))

    def value(self, w: Floats) -> float:
        """Omega(w), for w in the order of the blocks, or a matrix whose rows are the blocks."""
        if w.ndim == 2:
            squares = np.einsum("ij,ij->i", w, w)
            total = float(self.weights @ np.sqrt(squares)) + 0.5 * float(self.ridge @ squares)
            return total + float(self.l1 @ np.abs(w).sum(axis=1))
        total = float(self.weights @ np.sqrt(self.sums(w * w))) if self.grouped else 0.0
        return total + float(self.l1 @ self.sums(np.abs(w))) + 0.5 * float(self.ridge @ self.sums(w * w))

    def violations(self, w: Floats, g: Floats) -> Floats:
        """Return the distance of -g_b from the subdifferential of Omega at w_b, per block b; w and g as in `value`."""
        if w.ndim == 2:
            return self.flat(w.shape[1]).violations(w.reshape(-1), g.reshape(-1))
        l1 = self._l1
        slope = g + self._ridge * w
        norms = np.sqrt(self.sums(w * w))
        if self.grouped:
            # The block term is smooth where the block is not zero.
            pull = np.divide(self.weights, norms, out=np.zeros_like(norms), where=norms > 0)
            slope = slope + self.spread(pull) * w
        left = np.where(w != 0.0, slope + l1 * np.sign(w), np.maximum(np.abs(slope) - l1, 0.0))
        distance = np.sqrt(self.sums(left * left))
        found: Floats = np.where(norms > 0, distance, np.maximum(distance - self.weights, 0.0))
        return found

    def used(self, w: Floats) -> Any:
        """Return a mask of the blocks that are not zero, or can never be; w as in `value`."""
        return (w.any(axis=1) if w.ndim == 2 else self.sums(np.abs(w)) > 0.0) | self.free

    def restrict(self, chosen: Ints) -> PenalisedBlocks:
        """Return the chosen blocks; `order` still holds coordinates of the whole vector."""
        if self.single:
            ptr, order = np.arange(chosen.size + 1, dtype=np.int64), self.order[chosen]
        else:
            sizes = np.diff(self.ptr)[chosen]
            ptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
            within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], sizes)
            order = self.order[np.repeat(self.ptr[:-1][chosen], sizes) + within]
        return PenalisedBlocks(ptr, order, self.weights[chosen], self.l1[chosen], self.ridge[chosen])

    def with_free(self, coordinate: int) -> PenalisedBlocks:
        """Return the blocks with one more, unpenalised, for this coordinate alone."""
        return PenalisedBlocks(
            np.append(self.ptr, self.ptr[-1] + 1),
            np.append(self.order, coordinate),
            np.append(self.weights, 0.0),
            np.append(self.l1, 0.0),
            np.append(self.ridge, 0.0),
        )


@kernel("void(float64[::1], float64[::1], float64, float64, float64, float64, float64[::1])")
def prox_step(w: Floats, slope: Floats, step: float, weight: float, l1: float, ridge: float, out: Floats) -> None:
    """out = prox by `step` of one block's penalty at w - step * slope: soft threshold, block threshold, shrink."""
    cut = l1 * step
    squares = 0.0
    for j in range(w.size):
        z = w[j] - step * slope[j]
        z = z - cut if z > cut else (z + cut if z < -cut else 0.0)
        out[j] = z
        squares += z * z
    scale = 1.0 / (1.0 + ridge * step)
    if weight > 0.0:
        norm = np.sqrt(squares)
        scale = 0.0 if norm <= weight * step else scale * (1.0 - weight * step / norm)
    for j in range(w.size):
        out[j] *= scale


def blocks_of(penalty: Penalty, size: int) -> PenalisedBlocks:
    """Return the block form of a penalty for vectors of this size."""
    found = _form(penalty, size)
    if found is None:
        raise _unsupported(penalty)
    return found


def _form(penalty: Penalty, size: int) -> PenalisedBlocks | None:
    elastic = penalty.elastic()
    if elastic is not None:
        singles, none = np.arange(size + 1, dtype=np.int64), np.zeros(size)
        return PenalisedBlocks(singles, singles[:-1], none, none + elastic.l1, none + elastic.l2)
    own = penalty.own_blocks((size,))
    form = None if own is None else block_strengths(own.penalty, own.groups.count)
    if own is None or form is None:
        return None
    groups = own.groups
    filled = np.flatnonzero(np.diff(groups.ptr) > 0)
    order = np.arange(size, dtype=np.int64) if groups.block else groups.indices
    ungrouped = np.ones(size, dtype=bool)
    ungrouped[order] = False
    free = np.flatnonzero(ungrouped)
    ptr = np.append(groups.ptr[filled], order.size + np.arange(free.size + 1))
    weights = np.concatenate([form.weights[filled], np.zeros(free.size)])
    ridge = np.append(np.full(filled.size, form.ridge), np.full(free.size, form.ridge))
    return PenalisedBlocks(ptr, np.concatenate([order, free]), weights, np.full(weights.size, form.l1), ridge)


class Strengths(NamedTuple):
    """l1 norm1(w) + sum_b weights_b norm2(w_b) + ridge/2 norm2(w)^2."""

    weights: Floats
    l1: float
    ridge: float


def block_strengths(penalty: Penalty, count: int) -> Strengths | None:
    """Return the strengths of a penalty with `count` blocks; None if it has no such form."""
    split = penalty.split(count)
    norms = None if split is None else split.norms.norm_sum(count)
    if split is None or norms is None or norms.order != 2.0:
        return None
    weights = norms.strength * (norms.weights if norms.weights.size else np.ones(count))
    return Strengths(weights, split.elastic.l1, split.elastic.l2 + norms.l2)


def row_blocks(penalty: Penalty, rows: int) -> PenalisedBlocks:
    """Return the penalty on rows of a matrix, as blocks of one row each."""
    form = block_strengths(penalty, rows)
    if form is None:
        raise _unsupported(penalty)
    singles = np.arange(rows + 1, dtype=np.int64)
    l1, ridge = np.full(rows, form.l1), np.full(rows, form.ridge)
    return PenalisedBlocks(singles, singles[:-1], form.weights, l1, ridge)


def _unsupported(penalty: Penalty) -> Unsupported:
    return Unsupported(
        "a working set needs a penalty that is separable by blocks (L1, ElasticNet, GroupLasso, SparseGroupLasso, "
        f'their sums; of a matrix with groups="rows"), not {penalty!r}; solver="fista" supports any penalty with a prox'
    )


def choose(used: Any, violations: Floats, more: int) -> Ints:
    """Return the blocks in use and up to `more` others that violate most, sorted."""
    count = int(used.sum()) + min(int(np.count_nonzero((violations > 0.0) & ~used)), more)
    rank = np.where(used, np.inf, violations)
    return np.sort(np.argpartition(-rank, count - 1)[:count]) if count else np.zeros(0, dtype=np.int64)
