"""Rows of a matrix of weights, one per feature: several classes or several targets at once.

With c the curvature of the loss, the Hessian is at most c X^T S X for each column of scores. Proximal
gradient in that metric instead of the Euclidean one needs few gradients. Each step is a problem

    minimise <G, D> + L/2 tr(D^T Q D) + sum_j Omega(w_j + d_j),   Q = c X^T S X on the working set

that coordinate descent over rows solves on the Gram matrix alone. It is extrapolated as in FISTA. For the squared
loss L = 1 is exact, and one step is enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.losses import Squared
from spom.solvers.batch.datafit import LinearSmooth, Point
from spom.solvers.batch.proximal_gradient import SLACK
from spom.solvers.batch.working_set.blocks import PenalisedBlocks, Terms, choose, prox_step
from spom.solvers.batch.working_set.models import Inner
from spom.solvers.batch.working_set.newton import newton_step, prox_newton_step

# With up to ALL features, the set is all of them. A Gram matrix has at most LARGEST rows.
ALL, LARGEST = 1500, 4000
# The minimum number of rows that a set grows by.
FIRST = 100
# Problems whose whole Hessian costs at most this many multiplications take Newton steps with it.
SMALL = 50_000_000
# A Gram matrix of at most this many multiplications is recomputed whenever the curvature has changed.
CHEAP = 300_000_000
# A model with the whole Hessian is solved to this fraction of the largest violation.
PRECISION = 1e-3
# Proximal steps per round, and the number of steps after which each round ends with a Newton step.
STEPS, NEWTON_AFTER = 2, 4


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64, Terms, int64[::1], int64, float64)")
def row_epochs(Q: Floats, W: Floats, G: Floats, L: float, terms: Terms, which: Ints, epochs: int, tol: float) -> float:
    """Make up to `epochs` passes over the rows `which`, keep G up to date, and return the last largest residual."""
    m, K = W.shape
    weights, l1, ridge = terms.weights, terms.l1, terms.ridge
    moved, largest = np.empty(K), 0.0
    for _ in range(epochs):
        largest = 0.0
        for j in which:
            constant = L * Q[j, j]
            if constant <= 0.0:
                continue
            prox_step(W[j], G[j], 1.0 / constant, weights[j], l1[j], ridge[j], moved)
            squares = 0.0
            for k in range(K):
                moved[k] -= W[j, k]
                squares += moved[k] * moved[k]
            if squares == 0.0:
                continue
            for k in range(K):
                W[j, k] += moved[k]
            for i in range(m):
                q = L * Q[j, i]
                for k in range(K):
                    G[i, k] += q * moved[k]
            largest = max(largest, np.sqrt(squares) * constant)
        if largest <= tol:
            break
    return largest


class _Set:
    """The problem on some rows: their columns of X, and the metric Q."""

    def __init__(self, smooth: LinearSmooth, rows: Ints) -> None:
        self.smooth, self.rows = smooth, rows
        p = smooth.X.shape[1]
        columns = rows[rows < p]
        self.X = smooth.X if columns.size == p else smooth.X[:, columns]
        if not sparse.issparse(self.X):
            self.X = np.ascontiguousarray(self.X)
        self.ones = bool((rows >= p).any())  # the intercept is the last row, so its column is last too
        self.weigh(np.full(self.X.shape[0], smooth.curvature()))
        self.bound = True  # the metric bounds the Hessian at every point, not only at the current one

    def weigh(self, h: Floats) -> None:
        """Q = X^T diag(S h) X, for curvatures h of the examples."""
        root = np.sqrt(self.smooth.weights * h)
        if sparse.issparse(self.X):
            scaled = sparse.diags_array(root) @ self.X
            Q = (scaled.T @ scaled).toarray()
        elif (root == root[0]).all():
            Q = root[0] ** 2 * (self.X.T @ self.X)
        else:
            scaled = root[:, None] * self.X
            Q = scaled.T @ scaled
        if self.ones:
            edge = np.asarray(self.X.T @ root**2).reshape(-1, 1)
            Q = np.block([[Q, edge], [edge.T, np.full((1, 1), float(root @ root))]])
        self.Q = np.ascontiguousarray(Q)

    def follow(self, scores: Floats) -> bool:
        """Use the curvatures at these scores if a new Gram matrix is cheap, and tell whether it was done.

        The largest eigenvalue of diag(p) - p p^T is at most 2 max p (1 - p), by its row sums.
        """
        if isinstance(self.smooth.loss, Squared) or self.Q.size * scores.shape[0] > CHEAP:
            return False
        p = self.smooth.loss.probability(scores)
        h = 2.0 * (p * (1.0 - p)).max(axis=1)
        self.weigh(np.maximum(h, 1e-3 * h.max()))
        self.bound = False
        return True

    def scores(self, W: Floats) -> Floats:
        """X W + b."""
        return np.asarray(self.X @ W[:-1] + W[-1] if self.ones else self.X @ W)

    def gradient(self, scores: Floats) -> Floats:
        """Return the gradient of the loss in these rows."""
        alpha = self.smooth.dual_at(scores)
        g = self.X.T @ alpha
        return np.ascontiguousarray(np.vstack([g, alpha.sum(axis=0)]) if self.ones else g)


def metric_step(inner: _Set, blocks: PenalisedBlocks, Y: Floats, G: Floats, L: float) -> tuple[Floats, Floats]:
    """Return the minimiser W of the model at Y, to a few per cent, and the model's gradient there."""
    W, slope = Y.copy(), G.copy()
    every = np.arange(blocks.count)
    fixed = (inner.Q, W, slope, L, blocks.terms)
    start = row_epochs(*fixed, every, 1, 0.0)
    exact = isinstance(inner.smooth.loss, Squared)
    tol = (1e-6 if exact else 0.1) * start
    for _ in range(100 if exact else 8):
        active = np.flatnonzero(W.any(axis=1) | blocks.free)
        row_epochs(*fixed, active, 5, 0.3 * tol)
        if row_epochs(*fixed, every, 1, 0.0) <= tol:
            break
    return W, slope


class _Fista:
    """Accelerated proximal gradient in the metric Q, with L <= 1 found by backtracking."""

    def __init__(self, inner: _Set, blocks: PenalisedBlocks, W: Floats, scores: Floats, L: float) -> None:
        self.inner, self.blocks, self.smooth = inner, blocks, inner.smooth
        self.W, self.A, self.Y, self.B, self.t, self.L = W, scores, W, scores, 1.0, L
        self.best = self.smooth.value_at(scores) + blocks.value(W)

    def round(self) -> None:
        """Take one step; momentum is dropped if the objective rose."""
        f_y, G = self.smooth.value_at(self.B), self.inner.gradient(self.B)
        while True:
            W, slope = metric_step(self.inner, self.blocks, self.Y, G, self.L)
            D, A = W - self.Y, self.inner.scores(W)
            f = self.smooth.value_at(A)
            bound = f_y + float(np.vdot(G, D)) + 0.5 * float(np.vdot(slope - G, D))
            top = 1.0 if self.inner.bound else np.inf
            if top <= self.L or f <= bound + SLACK * (abs(f) + abs(f_y)):
                break
            self.L = min(1.5 * self.L, top)
        objective = f + self.blocks.value(W)
        if objective > self.best and self.Y is not self.W:
            self.Y, self.B, self.t, self.L = self.W, self.A, 1.0, 0.8 * self.L
            return
        t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.t**2))
        b = (self.t - 1.0) / t
        self.Y, self.B, self.t = W + b * (W - self.W), A + b * (A - self.A), t
        if b == 0.0:
            self.Y, self.B = W, A
        self.W, self.A, self.best = W, A, objective

    def newton(self) -> None:
        """Take a Newton step on the rows that are not zero, and restart the momentum there."""

        def objective(W: Floats, scores: Floats) -> float:
            return self.smooth.value_at(scores) + self.blocks.value(W)

        found = newton_step(self.inner, self.blocks, self.W, self.A, self.L, objective)
        if found is not None:
            self.W, self.A = found
            self.best = objective(*found)
        if self.inner.follow(self.A):
            self.L = 0.7
        self.Y, self.B, self.t = self.W, self.A, 1.0

    def whole_newton(self, precision: float) -> bool:
        """Take a Newton step on all rows, for a small problem, and tell whether there was one."""
        found = prox_newton_step(self.inner, self.blocks, self.W, self.A, precision)
        if found is None:
            return False
        self.W, self.A = self.Y, self.B = found
        self.t, self.best = 1.0, self.smooth.value_at(self.A) + self.blocks.value(self.W)
        return True


class Rows(Inner):
    """The problem on rows: accelerated proximal gradient in a metric, and Newton steps. A narrow matrix is one set."""

    largest = LARGEST

    def __init__(self, smooth: LinearSmooth, blocks: PenalisedBlocks) -> None:
        self.smooth, self.blocks, self.rounds, self.steps, self.L = smooth, blocks, 0, 0, 0.3
        self.exact = isinstance(smooth.loss, Squared)
        self.run: _Fista | None = None

    def choose(self, used: Any, violations: Floats, first: int | None) -> Ints:
        """Return all rows of a narrow matrix; else those in use and at least as many more that violate most."""
        if used.size <= ALL:
            return np.arange(used.size)
        need = int(used.sum())
        return choose(used, violations, min(max(FIRST, need), max(0, LARGEST - need)))

    def solve(self, chosen: Ints, theta: Floats, here: Point, worst: float, whole: bool) -> Floats:
        """Take two proximal steps and a Newton step, or, for a small problem, one Newton step on all rows."""
        run = self.run
        if run is None or not np.array_equal(chosen, run.inner.rows):
            inner, L = _Set(self.smooth, chosen), 1.0 if self.exact else self.L
            run = self.run = _Fista(inner, self.blocks.restrict(chosen), theta[chosen], here.scores, L)
        if theta.size**2 * here.scores.shape[0] <= SMALL and run.whole_newton(PRECISION * worst):
            self.steps = 1
        else:
            self.steps = STEPS
            for _ in range(STEPS):
                run.round()
            if self.rounds + STEPS > NEWTON_AFTER:
                run.newton()
        self.rounds += self.steps
        theta[chosen], self.L = run.W, run.L
        return run.A
