"""The problem on a working set: the columns of X it needs, and how it is solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.losses import Squared
from spom.solvers.batch.datafit import LinearSmooth, Point
from spom.solvers.batch.working_set.blocks import PenalisedBlocks, choose
from spom.solvers.batch.working_set.columns import DenseColumns, SparseColumns, dense_product
from spom.solvers.batch.working_set.gram import Quadratic
from spom.solvers.batch.working_set.store import Store

# The most columns of a dense Gram matrix, and the most entries of a sparse X that is treated as dense.
LARGEST, DENSE = 700, 5_000_000
# Residuals of a subproblem are reduced to PRECISION times the largest violation before it. If no block outside the set
# violates, they are reduced to LAST times it, as this round may be the last.
PRECISION, LAST = 3e-3, 1e-4


class Inner:
    """A method for the problem on some blocks.

    `first` is a good size of the first set, `largest` the size from which a set is too large, and `steps` the number of
    steps of the last call.
    """

    first: int = 10
    largest: float = np.inf
    steps = 1

    def choose(self, used: Any, violations: Floats, first: int | None) -> Ints:
        """Return the next set: the blocks in use, and half as many more, but at least `first`."""
        return choose(used, violations, max(first or self.first, int(used.sum()) // 2))

    def solve(self, chosen: Ints, theta: Floats, here: Point, worst: float, whole: bool) -> Floats:
        """Change `theta` in place, and return the new scores.

        `here` is the point theta, `worst` the largest violation; `whole`: no other block violates.
        """
        raise NotImplementedError  # implemented by each method


def inner_for(smooth: LinearSmooth, blocks: PenalisedBlocks, store: Store | None) -> Inner:
    """Return the method for this loss and matrix: Gram matrices, or columns if X is sparse and large."""
    if smooth.outputs is not None:
        from spom.solvers.batch.working_set.multiclass import Rows

        return Rows(smooth, blocks)
    store = store or Store(smooth)
    if sparse.issparse(smooth.X) and (smooth.X.shape[1] > LARGEST or np.prod(smooth.X.shape) > DENSE):
        return ColumnNewton(smooth, blocks, store)
    if isinstance(smooth.loss, Squared):
        return SquaredGram(smooth, blocks, store)
    return GramNewton(smooth, blocks, store)


class SquaredGram(Inner):
    """The squared loss: one quadratic, whose Gram matrix is extended by new columns."""

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks, store: Store) -> None:
        self.smooth, self.blocks, self.store = smooth, blocks, store

    def solve(self, chosen: Ints, theta: Floats, here: Point, worst: float, whole: bool) -> Floats:
        """Solve one quadratic problem to a small part of the violation."""
        blocks, h, store = self.blocks.restrict(chosen), self.smooth.weights, self.store
        order, tol = blocks.order, (LAST if whole else PRECISION) * worst
        L = store.constants(chosen, blocks, self.blocks.count)
        w, slope = theta[order], here.gradient[order]
        if w.size <= LARGEST:
            Quadratic(store.gram(order), blocks, L).solve(w, slope, tol)
        else:
            DenseColumns(store.columns(order), blocks, h, L).solve(w, slope, tol)
        theta[order] = w
        scores = np.zeros(h.size)
        dense_product(store.columns(order), w, scores)
        return scores


class GramNewton(Inner):
    """Other losses: Newton's method, one quadratic model per step, with the Gram matrix of the step's weights."""

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks, store: Store) -> None:
        self.smooth, self.blocks, self.store = smooth, blocks, store

    def solve(self, chosen: Ints, theta: Floats, here: Point, worst: float, whole: bool) -> Floats:
        """Take Newton steps until the violations on the set are a small part of the initial ones."""
        blocks = self.blocks.restrict(chosen)
        w, slope, scores, tol = theta[blocks.order], here.gradient[blocks.order], here.scores, PRECISION * worst
        X = self.store.columns(blocks.order)
        rows = X.rows[X.at]
        for _ in range(10):
            scaled = rows * np.sqrt(curvatures(self.smooth, scores))
            new, left = w.copy(), slope.copy()
            Quadratic(scaled @ scaled.T, blocks).solve(new, left, 0.1 * tol)
            t = line_search(self.smooth, blocks, w, new - w, scores, (new - w) @ rows, slope)
            if t == 0.0:
                break
            w, scores = (new if t == 1.0 else w + t * (new - w)), scores + t * ((new - w) @ rows)
            slope = rows @ self.smooth.dual_at(scores)
            if blocks.violations(w, slope).max(initial=0.0) <= 10 * tol:
                break
        theta[blocks.order] = w
        return scores


class ColumnNewton(Inner):
    """A sparse matrix: one quadratic model per round, solved through the columns; the set is every violating block."""

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks, store: Store) -> None:
        self.smooth, self.blocks, self.X = smooth, blocks, store.csc
        self.first = blocks.count

    def solve(self, chosen: Ints, theta: Floats, here: Point, worst: float, whole: bool) -> Floats:
        """Take one Newton step."""
        blocks = self.blocks.restrict(chosen)
        model = SparseColumns(self.X, blocks, curvatures(self.smooth, here.scores))
        w, slope = theta[blocks.order], here.gradient[blocks.order]
        new = w.copy()
        model.solve(new, slope, 0.3 * worst)
        moved = model.product(new - w)
        t = line_search(self.smooth, blocks, w, new - w, here.scores, moved, slope)
        theta[blocks.order] = new if t == 1.0 else w + t * (new - w)
        return here.scores + t * moved


def curvatures(smooth: LinearSmooth, scores: Floats) -> Floats:
    """Return the second derivative of the mean loss in each score."""
    if isinstance(smooth.loss, Squared):
        return smooth.weights
    p = np.abs(smooth.loss.derivative(smooth.y, scores))
    h: Floats = p * (1.0 - p) * smooth.weights
    return h


def line_search(
    smooth: LinearSmooth, blocks: PenalisedBlocks, w: Floats, d: Floats, scores: Floats, moved: Floats, slope: Floats
) -> float:
    """Return the largest t = 1, 1/2, ... for which the objective decreases enough for its slope; 0 if there is none."""
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
