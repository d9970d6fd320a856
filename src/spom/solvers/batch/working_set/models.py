"""The problem on a working set: the columns of X that it needs, and the way it is solved there."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported
from spom.losses import Squared
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.working_set.blocks import PenalisedBlocks
from spom.solvers.batch.working_set.columns import DenseColumns, SparseColumns
from spom.solvers.batch.working_set.gram import Quadratic

# A dense Gram matrix of more columns than this is not made, nor a sparse X of more entries treated as dense.
LARGEST, DENSE = 700, 5_000_000
# Residuals of a subproblem are reduced to this part of the largest violation before it.
PRECISION = 1e-3


class Inner(Protocol):
    """Solves the problem on some blocks: `theta` changes in place, the new scores are returned."""

    first: int  # a good size of the first working set

    def solve(self, chosen: Ints, theta: Floats, scores: Floats, g: Floats, worst: float) -> Floats:
        """`g` is the gradient at theta, `worst` the largest violation there."""
        ...


def inner_for(smooth: LinearSmooth, blocks: PenalisedBlocks) -> Inner:
    """The method for this loss and kind of matrix: Gram matrices where X is dense, columns where it is not."""
    if sparse.issparse(smooth.X) and (smooth.X.shape[1] > LARGEST or np.prod(smooth.X.shape) > DENSE):
        return ColumnNewton(smooth, blocks)
    if isinstance(smooth.loss, Squared):
        return SquaredGram(smooth, blocks)
    return GramNewton(smooth, blocks)


class SquaredGram:
    """The squared loss: one quadratic, whose Gram matrix grows by the columns that are new."""

    first = 10

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks) -> None:
        self.smooth, self.blocks = smooth, blocks
        self.root = np.sqrt(smooth.weights)
        self.at = np.full(smooth.shape[0], -1, dtype=np.int64)  # the place of a coordinate in the cache
        self.size = 0
        self.rows = np.empty((64, smooth.X.shape[0]))
        self.gram = np.empty((64, 64))

    def solve(self, chosen: Ints, theta: Floats, scores: Floats, g: Floats, worst: float) -> Floats:
        """One quadratic problem, solved to a small part of the violation."""
        blocks = self.blocks.restrict(chosen)
        w, slope = theta[blocks.order], g[blocks.order]
        if w.size <= LARGEST:
            at = self._cached(blocks.order)
            Quadratic(self.gram[np.ix_(at, at)], blocks).solve(w, slope, PRECISION * worst)
        else:
            rows = dense_columns(self.smooth, blocks.order)
            DenseColumns(rows, blocks, self.smooth.weights).solve(w, slope, PRECISION * worst)
        theta[blocks.order] = w
        return self.smooth.scores(theta)

    def _cached(self, order: Ints) -> Ints:
        """The places of these coordinates in the Gram matrix, which grows by those that are new."""
        new = order[self.at[order] < 0]
        if new.size:
            old, end = self.size, self.size + new.size
            if end > self.gram.shape[0]:
                self._reserve(2 * end)
            self.rows[old:end] = dense_columns(self.smooth, new)
            self.rows[old:end] *= self.root
            self.gram[old:end, :end] = self.rows[old:end] @ self.rows[:end].T
            self.gram[:old, old:end] = self.gram[old:end, :old].T
            self.at[new] = np.arange(old, end)
            self.size = end
        return self.at[order]

    def _reserve(self, capacity: int) -> None:
        rows, gram, k = self.rows, self.gram, self.size
        self.rows, self.gram = np.empty((capacity, rows.shape[1])), np.empty((capacity, capacity))
        self.rows[:k], self.gram[:k, :k] = rows[:k], gram[:k, :k]


class GramNewton:
    """Another loss: Newton's method, one quadratic model per step, with the Gram matrix of the step's weights."""

    first = 10

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks) -> None:
        self.smooth, self.blocks = smooth, blocks

    def solve(self, chosen: Ints, theta: Floats, scores: Floats, g: Floats, worst: float) -> Floats:
        """Newton steps until the violations on the set are a small part of what they were."""
        blocks = self.blocks.restrict(chosen)
        w, slope = theta[blocks.order], g[blocks.order]
        rows = dense_columns(self.smooth, blocks.order)
        for _ in range(10):
            scaled = rows * np.sqrt(curvatures(self.smooth, scores))
            new, left = w.copy(), slope.copy()
            Quadratic(scaled @ scaled.T, blocks).solve(new, left, 0.1 * PRECISION * worst)
            t = line_search(self.smooth, blocks, w, new - w, scores, (new - w) @ rows, slope)
            if t == 0.0:
                break
            w, scores = (new if t == 1.0 else w + t * (new - w)), scores + t * ((new - w) @ rows)
            slope = rows @ self.smooth.dual_at(scores)
            if blocks.violations(w, slope).max(initial=0.0) <= PRECISION * worst * 10:
                break
        theta[blocks.order] = w
        return scores


class ColumnNewton:
    """A sparse matrix: one quadratic model per round, solved through the columns; the set is all that violates."""

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks) -> None:
        self.smooth, self.blocks = smooth, blocks
        self.X = sparse_columns(smooth)
        self.first = blocks.count

    def solve(self, chosen: Ints, theta: Floats, scores: Floats, g: Floats, worst: float) -> Floats:
        """One Newton step."""
        blocks = self.blocks.restrict(chosen)
        model = SparseColumns(self.X, blocks, curvatures(self.smooth, scores))
        w, slope = theta[blocks.order], g[blocks.order]
        new = w.copy()
        model.solve(new, slope, 0.3 * worst)
        moved = model.product(new - w)
        t = line_search(self.smooth, blocks, w, new - w, scores, moved, slope)
        theta[blocks.order] = new if t == 1.0 else w + t * (new - w)
        return scores + t * moved


def curvatures(smooth: LinearSmooth, scores: Floats) -> Floats:
    """The second derivative of the mean loss in each score."""
    if isinstance(smooth.loss, Squared):
        return smooth.weights
    p = np.abs(smooth.loss.derivative(smooth.y, scores))
    h: Floats = p * (1.0 - p) * smooth.weights
    return h


def line_search(
    smooth: LinearSmooth, blocks: PenalisedBlocks, w: Floats, d: Floats, scores: Floats, moved: Floats, slope: Floats
) -> float:
    """The largest t = 1, 1/2, ... by which the objective falls as much as its slope promises; 0 if none does."""
    omega = blocks.value(w)
    promised = float(slope @ d) + blocks.value(w + d) - omega
    if promised >= 0.0:
        return 0.0
    before, t = smooth.value_at(scores), 1.0
    while t > 1e-10:
        change = smooth.value_at(scores + t * moved) - before + blocks.value(w + t * d) - omega
        if change <= 0.01 * t * promised + 1e-15 * abs(before):
            return t
        t *= 0.5
    return 0.0


def dense_columns(smooth: LinearSmooth, order: Ints) -> Floats:
    """These columns of X, as rows; coordinate p is the column of ones of an intercept."""
    p = smooth.X.shape[1]
    inside = order < p
    part = smooth.X[:, order[inside]].T
    rows = np.ascontiguousarray(part.toarray() if sparse.issparse(part) else part)
    return rows if inside.all() else np.insert(rows, np.flatnonzero(~inside), 1.0, axis=0)


def sparse_columns(smooth: LinearSmooth) -> Any:
    """X in CSC form with 32-bit indices, and a column of ones for an intercept; the user's arrays stay as they are."""
    X = sparse.csc_matrix(smooth.X)
    if smooth.fit_intercept:
        X = sparse.hstack([X, np.ones((X.shape[0], 1))], format="csc")
    if X.nnz > np.iinfo(np.int32).max:
        raise Unsupported(f'a working set takes at most 2^31 - 1 non-zeros, X has {X.nnz}; solver="fista" takes more')
    if not X.has_canonical_format or not all(a.flags.writeable for a in (X.data, X.indices, X.indptr)):
        X = X.copy()
        X.sum_duplicates()
    X.indptr, X.indices = X.indptr.astype(np.int32, copy=False), X.indices.astype(np.int32, copy=False)
    return X
