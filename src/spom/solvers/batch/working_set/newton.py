"""Newton steps on the rows that are not zero, with conjugate gradients in the metric of the Gram matrix.

Where no entry crosses zero the objective is smooth, with the Hessian

    D -> X^T S (J_i (X D)_i) + weight_j (I - u_j u_j^T) d_j / norm(w_j) + ridge_j d_j,   J_i = diag(p_i) - p_i p_i^T

for the multiclass logistic loss (J_i = I for the squared loss). A product with it takes two products with X, which is
cheap against a proximal step, and the Gram matrix is a good preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dposv

from spom.core.arrays import Floats
from spom.losses import MulticlassLogistic
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.working_set.blocks import PenalisedBlocks
from spom.solvers.batch.working_set.gram import Quadratic
from spom.solvers.batch.working_set.models import line_search

# Up to this many variables, the Hessian is computed and factored.
SMALL = 300
Operator = Callable[[Floats], Floats]


def dense_hessian(X: Any, ones: bool, smooth: LinearSmooth, scores: Floats) -> Floats:
    """Return the Hessian of the mean loss in the entries of W, as an array (rows, classes, rows, classes)."""
    K = scores.shape[1]
    A = X.toarray() if sparse.issparse(X) else X
    A = np.column_stack([A, np.ones(A.shape[0])]) if ones else A
    H = np.zeros((A.shape[1], K, A.shape[1], K))
    if not isinstance(smooth.loss, MulticlassLogistic):
        H[:, np.arange(K), :, np.arange(K)] = A.T @ (smooth.weights[:, None] * A)
        return H
    p = np.ascontiguousarray(smooth.loss.probability(scores).T)
    for k in range(K):
        for m in range(k + 1):
            h = smooth.weights * (p[k] * (1.0 - p[k]) if k == m else -p[k] * p[m])
            H[:, k, :, m] = H[:, m, :, k] = A.T @ (h[:, None] * A)
    return H


def curvature_product(smooth: LinearSmooth, scores: Floats) -> Operator:
    """Return the map Z -> S_i J_i z_i, for each row z_i of scores."""
    weights = smooth.weights[:, None]
    if not isinstance(smooth.loss, MulticlassLogistic):
        return lambda Z: weights * Z
    p = smooth.loss.probability(scores)
    weighted = weights * p

    def product(Z: Floats) -> Floats:
        inside = np.einsum("ij,ij->i", p, Z)
        out: Floats = weighted * (Z - inside[:, None])
        return out

    return product


class Manifold:
    """The smooth problem on the entries of W that are not zero, at W."""

    def __init__(self, inner: Any, blocks: PenalisedBlocks, W: Floats, G: Floats, scores: Floats, L: float) -> None:
        self.on = np.flatnonzero(W.any(axis=1) | blocks.free)
        self.at, b = W[self.on], blocks.restrict(self.on)
        self.intercept = inner.ones and self.on.size > 0 and self.on[-1] == W.shape[0] - 1
        columns = self.on[:-1] if self.intercept else self.on
        self.X = inner.X[:, columns]
        self.smooth, self.scores = inner.smooth, scores
        self.curve = curvature_product(inner.smooth, scores)
        norms = np.sqrt(np.einsum("ij,ij->i", self.at, self.at))
        self.pull = np.divide(b.weights, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]
        self.unit = np.divide(self.at, norms[:, None], out=np.zeros_like(self.at), where=norms[:, None] > 0)
        self.ridge = b.ridge[:, None]
        self.signed = b.l1[:, None] > 0.0
        self.mask = (self.at != 0.0) | ~self.signed
        self.slope = self.mask * (
            G[self.on] + self.pull * self.at + self.ridge * self.at + b.l1[:, None] * np.sign(self.at)
        )
        metric = L * inner.Q[np.ix_(self.on, self.on)]
        metric[np.diag_indices(self.on.size)] += (self.pull + self.ridge)[:, 0] + 1e-10 * np.trace(metric)
        self.factor = cho_factor(metric, lower=True)

    def hessian(self, D: Floats) -> Floats:
        """Return the product of the Hessian with D."""
        W = D[:-1] if self.intercept else D
        U = self.curve(np.asarray(self.X @ W + D[-1] if self.intercept else self.X @ W))
        g = np.asarray(self.X.T @ U)
        if self.intercept:
            g = np.vstack([g, U.sum(axis=0)])
        along = np.einsum("ij,ij->i", self.unit, D)[:, None]
        return np.asarray(self.mask * (g + self.pull * (D - self.unit * along) + self.ridge * D))

    def precondition(self, R: Floats) -> Floats:
        """Apply the inverse of the metric to each column; it is the same for all classes."""
        return np.asarray(self.mask * cho_solve(self.factor, R, check_finite=False))

    def direction(self) -> Floats:
        """Return a Newton step: exact if the Hessian is small, else by conjugate gradients."""
        exact = self._exact() if self.slope.size <= SMALL else None
        return self._inexact() if exact is None else exact

    def _exact(self) -> Floats | None:
        s, K = self.slope.shape
        H = dense_hessian(self.X, self.intercept, self.smooth, self.scores)
        rows = np.arange(s)
        turned = np.eye(K) - self.unit[:, :, None] * self.unit[:, None, :]
        H[rows, :, rows, :] += self.pull[:, :, None] * turned + self.ridge[:, :, None] * np.eye(K)
        on = np.flatnonzero(self.mask.reshape(-1))
        flat = H.reshape(s * K, s * K)[np.ix_(on, on)]
        # An unpenalised row has a flat direction: the scores of all classes move together.
        flat[np.diag_indices(on.size)] += 1e-12 * np.trace(flat)
        _, step, failed = dposv(flat, -self.slope.reshape(-1)[on], lower=1)
        if failed:
            return None
        D = np.zeros(s * K)
        D[on] = step
        return D.reshape(s, K)

    def _inexact(self) -> Floats:
        """Return the step after at most 60 preconditioned conjugate gradients, or at a fifth of the residual."""
        D, R = np.zeros_like(self.slope), -self.slope
        Z = self.precondition(R)
        P, rz = Z, float(np.vdot(R, Z))
        stop = 0.2**2 * rz
        for _ in range(60):
            if rz <= stop or rz <= 0.0:
                break
            HP = self.hessian(P)
            curvature = float(np.vdot(P, HP))
            if curvature <= 0.0:
                break
            a = rz / curvature
            D, R = D + a * P, R - a * HP
            Z = self.precondition(R)
            rz, before = float(np.vdot(R, Z)), rz
            P = Z + (rz / before) * P
        return np.asarray(D)


def newton_step(
    inner: Any,
    blocks: PenalisedBlocks,
    W: Floats,
    scores: Floats,
    L: float,
    objective: Callable[[Floats, Floats], float],
) -> tuple[Floats, Floats] | None:
    """Return (W, scores) after one Newton step with a line search; None if no step lowers the objective."""
    try:
        here = Manifold(inner, blocks, W, inner.gradient(scores), scores, L)
    except LinAlgError:
        return None
    if here.on.size == 0:
        return None
    D, before = here.direction(), objective(W, scores)
    for t in (1.0, 0.5, 0.25, 0.1):
        new = here.at + t * D
        # An l1-penalised entry that would cross zero stops there.
        new[here.signed & (new * here.at < 0.0)] = 0.0
        trial = W.copy()
        trial[here.on] = new
        moved = inner.scores(trial)
        if objective(trial, moved) < before:
            return trial, moved
    return None


def prox_newton_step(
    inner: Any, blocks: PenalisedBlocks, W: Floats, scores: Floats, precision: float
) -> tuple[Floats, Floats] | None:
    """Return (W, scores) after a step on the penalised quadratic model with the whole Hessian; None if stuck.

    It suits few variables: the model is a `Quadratic`, solved to residuals of `precision`.
    """
    flat = blocks.flat(W.shape[1])
    H = dense_hessian(inner.X, inner.ones, inner.smooth, scores).reshape(W.size, W.size)
    H[np.diag_indices(W.size)] += 1e-12 * np.trace(H)
    w, slope = W.reshape(-1), inner.gradient(scores).reshape(-1)
    new = w.copy()
    Quadratic(H, flat).solve(new, slope.copy(), precision)
    d = new - w
    moved = inner.scores(d.reshape(W.shape))
    t = line_search(inner.smooth, flat, w, d, scores, moved, slope)
    if t == 0.0:
        return None
    return (new if t == 1.0 else w + t * d).reshape(W.shape), scores + t * moved
