"""Coordinate descent on a quadratic model of the loss, through the columns of X, sparse or dense.

    minimise g^T d + 1/2 sum_i h_i (X d)_i^2 + Omega(w + d)

A visit to a block takes time linear in the entries of its columns; no Gram matrix is made. Every few passes the
iterates are extrapolated (Anderson acceleration, Bertrand and Massias 2021).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.batch.working_set.blocks import PenalisedBlocks, Terms, prox_step
from spom.solvers.batch.working_set.gram import above_zero

# Passes between two extrapolations, which is also the number of iterates that an extrapolation combines.
MEMORY = 5


class Csc(NamedTuple):
    """Some columns of a CSC matrix, in the order of the blocks."""

    indptr: Annotated[Any, "int32[::1]"]
    indices: Annotated[Any, "int32[::1]"]
    data: Annotated[Floats, "float64[::1]"]
    order: Annotated[Ints, "int64[::1]"]


class Model(NamedTuple):
    """The quadratic model: h, u = h * (X d), the point w, the gradient g at the start, and a constant L per block."""

    h: Annotated[Floats, "float64[::1]"]
    u: Annotated[Floats, "float64[::1]"]
    w: Annotated[Floats, "float64[::1]"]
    g: Annotated[Floats, "float64[::1]"]
    L: Annotated[Floats, "float64[::1]"]


@kernel("void(Csc, int64[::1], float64[::1], float64[::1], float64[::1])")
def column_constants(X: Csc, ptr: Ints, h: Floats, work: Floats, L: Floats) -> None:
    """Bound the largest eigenvalue of X_b^T diag(h) X_b for each block b; `work` is zeros, before and after.

    The bound is the smaller of the trace and the largest row sum times the largest column sum of
    abs(diag(h)^1/2 X_b). For one column the trace is exact.
    """
    indptr, indices, data, order = X
    for b in range(ptr.size - 1):
        trace, column, row = 0.0, 0.0, 0.0
        for c in range(ptr[b], ptr[b + 1]):
            total = 0.0
            for e in range(indptr[order[c]], indptr[order[c] + 1]):
                i = indices[e]
                x = abs(data[e])
                trace += h[i] * x * x
                if ptr[b + 1] - ptr[b] > 1:
                    total += h[i] * x
                    work[i] += x
                    row = max(row, work[i])
            column = max(column, total)
        if ptr[b + 1] - ptr[b] > 1:
            for c in range(ptr[b], ptr[b + 1]):
                for e in range(indptr[order[c]], indptr[order[c] + 1]):
                    work[indices[e]] = 0.0
            trace = min(trace, row * column)
        L[b] = max(trace, 1e-300)


@kernel("float64(Csc, Model, Terms, int64[::1])")
def sparse_pass(X: Csc, model: Model, terms: Terms, which: Ints) -> float:
    """Make one pass over the blocks `which`, keep u = h * (X d) up to date, and return the largest residual."""
    indptr, indices, data, order = X
    h, u, w, g, L = model
    ptr, weights, l1, ridge = terms
    largest = 0.0
    moved, slope = np.empty(w.size), np.empty(w.size)
    for b in which:
        first, end = ptr[b], ptr[b + 1]
        for j in range(first, end):
            total = g[j]
            for e in range(indptr[order[j]], indptr[order[j] + 1]):
                total += data[e] * u[indices[e]]
            slope[j] = total
        new = moved[first:end]
        prox_step(w[first:end], slope[first:end], 1.0 / L[b], weights[b], l1[b], ridge[b], new)
        squares = 0.0
        for j in range(first, end):
            delta = moved[j] - w[j]
            if delta != 0.0:
                squares += delta * delta
                w[j] = moved[j]
                for e in range(indptr[order[j]], indptr[order[j] + 1]):
                    i = indices[e]
                    u[i] += h[i] * delta * data[e]
        largest = max(largest, np.sqrt(squares) * L[b])
    return largest


class Dense(NamedTuple):
    """Some columns of a dense matrix: column j is row `at[j]` of `rows`."""

    rows: Annotated[Any, "float64[:, ::1]"]
    at: Annotated[Ints, "int64[::1]"]


@kernel("float64(Dense, Model, Terms, int64[::1])", fastmath={"reassoc"})
def dense_pass(X: Dense, model: Model, terms: Terms, which: Ints) -> float:
    """Do as `sparse_pass`, with the columns of X as the rows of a dense matrix."""
    rows, at = X
    h, u, w, g, L = model
    ptr, weights, l1, ridge = terms
    largest = 0.0
    n = u.size
    moved, slope = np.empty(w.size), np.empty(w.size)
    for b in which:
        first, end = ptr[b], ptr[b + 1]
        for j in range(first, end):
            total, column = 0.0, rows[at[j]]
            for i in range(n):
                total += column[i] * u[i]
            slope[j] = g[j] + total
        new = moved[first:end]
        prox_step(w[first:end], slope[first:end], 1.0 / L[b], weights[b], l1[b], ridge[b], new)
        squares = 0.0
        for j in range(first, end):
            delta = moved[j] - w[j]
            if delta != 0.0:
                squares += delta * delta
                w[j] = moved[j]
                column = rows[at[j]]
                for i in range(n):
                    u[i] += h[i] * delta * column[i]
        largest = max(largest, np.sqrt(squares) * L[b])
    return largest


@kernel("void(Dense, float64[::1], float64[::1])")
def dense_product(X: Dense, d: Floats, out: Floats) -> None:
    """out += sum of d_j times column j."""
    rows, at = X
    for j in range(at.size):
        if d[j] != 0.0:
            column = rows[at[j]]
            for i in range(out.size):
                out[i] += d[j] * column[i]


@kernel("void(Csc, float64[::1], float64[::1])")
def column_product(X: Csc, d: Floats, out: Floats) -> None:
    """out += sum of d_j times column order_j."""
    indptr, indices, data, order = X
    for j in range(order.size):
        if d[j] != 0.0:
            for e in range(indptr[order[j]], indptr[order[j] + 1]):
                out[indices[e]] += d[j] * data[e]


class _Columns:
    """A quadratic model on some blocks; it needs only their columns of X."""

    blocks: PenalisedBlocks
    h: Floats
    L: Floats

    def _pass(self, model: Model, which: Ints) -> float:
        """Make one pass over the blocks `which`, and return its largest residual."""
        raise NotImplementedError  # implemented by the sparse and the dense class

    def solve(self, w: Floats, g: Floats, tol: float, rounds: int = 10) -> None:
        """Minimise in place from w, where g is the gradient of the loss, to residuals of about `tol`.

        Each pass over all blocks is followed by passes over the blocks that are not zero.
        """
        b, start, u = self.blocks, w.copy(), np.zeros(self.h.size)
        every = np.arange(b.count)
        model = Model(self.h, u, w, g, self.L)
        for _ in range(rounds):
            if self._pass(model, every) <= tol:
                return
            active = np.flatnonzero((b.sums(np.abs(w)) > 0.0) | b.free)
            self._accelerate(model, active, start, 0.3 * tol)

    def _accelerate(self, model: Model, active: Ints, start: Floats, tol: float) -> None:
        """Make passes over the active blocks, with an extrapolation every few passes."""
        u, w, g = model.u, model.w, model.g
        seen_w, seen_u = np.empty((MEMORY + 1, w.size)), np.empty((MEMORY + 1, u.size))
        for _ in range(10):
            seen_w[0], seen_u[0] = w, u
            for k in range(1, MEMORY + 1):
                if self._pass(model, active) <= tol:
                    return
                seen_w[k], seen_u[k] = w, u
            c = extrapolation(seen_w)
            if c is None:
                continue
            new_w, new_u = c @ seen_w[1:], c @ seen_u[1:]
            if self._value(new_w, new_u, g, start) < self._value(w, u, g, start):
                w[:], u[:] = new_w, new_u

    def _value(self, w: Floats, u: Floats, g: Floats, start: Floats) -> float:
        """Return the model plus the penalty; u^2 / h is h (X d)^2."""
        quadratic = np.divide(u * u, self.h, out=np.zeros_like(u), where=self.h > 0.0)
        return float(g @ (w - start)) + 0.5 * float(quadratic.sum()) + self.blocks.value(w)


class SparseColumns(_Columns):
    """Columns of a CSC matrix with 32-bit indices, without a copy."""

    def __init__(self, X: Any, blocks: PenalisedBlocks, h: Floats) -> None:
        self.csc = Csc(X.indptr, X.indices, X.data, blocks.order)
        self.blocks, self.h, self.L = blocks, h, np.empty(blocks.count)
        column_constants(self.csc, blocks.ptr, h, np.zeros(h.size), self.L)

    def _pass(self, model: Model, which: Ints) -> float:
        return float(sparse_pass(self.csc, model, self.blocks.terms, which))

    def product(self, d: Floats) -> Floats:
        """X d, for d in the order of the blocks."""
        out = np.zeros(self.h.size)
        column_product(self.csc, d, out)
        return out


class DenseColumns(_Columns):
    """Columns of a dense matrix, with the largest eigenvalue L of each block's Gram matrix."""

    def __init__(self, X: Dense, blocks: PenalisedBlocks, h: Floats, L: Floats) -> None:
        self.X, self.blocks, self.h, self.L = X, blocks, h, above_zero(L)

    def _pass(self, model: Model, which: Ints) -> float:
        return float(dense_pass(self.X, model, self.blocks.terms, which))


def extrapolation(seen: Floats) -> Floats | None:
    """Return weights c that sum to 1 and minimise the norm of the combined last steps; None if these are dependent."""
    steps = np.diff(seen, axis=0)
    gram = steps @ steps.T
    try:
        z = np.linalg.solve(gram + 1e-14 * np.trace(gram) * np.eye(gram.shape[0]), np.ones(gram.shape[0]))
    except np.linalg.LinAlgError:
        return None
    total = float(z.sum())
    return np.asarray(z / total) if np.isfinite(total) and total != 0.0 else None
