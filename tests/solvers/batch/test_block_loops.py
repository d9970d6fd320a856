"""The compiled loops of working sets, one visit of a block after another, against plain arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from spom.solvers.batch.working_set.blocks import Terms, prox_step
from spom.solvers.batch.working_set.columns import (
    Csc,
    Dense,
    Model,
    column_constants,
    column_product,
    dense_pass,
    dense_product,
    sparse_pass,
)
from spom.solvers.batch.working_set.gram import add_curvature, gram_epochs
from spom.solvers.batch.working_set.multiclass import row_epochs

# Blocks of one, three, two and one coordinates; the last has no threshold.
PTR = np.array([0, 1, 4, 6, 7])
WEIGHTS = np.array([0.0, 0.6, 0.3, 0.0])
L1 = np.array([0.4, 0.0, 0.2, 0.0])
RIDGE = np.array([0.0, 0.5, 0.1, 0.3])
TERMS = Terms(PTR, WEIGHTS, L1, RIDGE)


def prox(z: Any, step: float, b: int) -> Any:
    """argmin 1/2 norm(x - z)^2 + step Omega_b(x), by three formulas one after another."""
    z = np.sign(z) * np.maximum(np.abs(z) - step * L1[b], 0.0)
    norm = float(np.linalg.norm(z))
    if norm > 0.0:
        z = z * max(0.0, 1.0 - step * WEIGHTS[b] / norm)
    return z / (1.0 + step * RIDGE[b])


@pytest.mark.parametrize("b", range(4))
def test_the_prox_of_a_block_is_a_minimum(b: int) -> None:
    random = np.random.default_rng(b)
    size = PTR[b + 1] - PTR[b]
    for scale in (0.1, 1.0, 3.0):
        w, slope, out = random.standard_normal(size) * scale, random.standard_normal(size), np.empty(size)
        prox_step(w, slope, 0.7, WEIGHTS[b], L1[b], RIDGE[b], out)
        z = w - 0.7 * slope
        np.testing.assert_allclose(out, prox(z, 0.7, b), atol=1e-14)

        def objective(x: Any, z: Any = z) -> float:
            omega = L1[b] * np.abs(x).sum() + WEIGHTS[b] * np.linalg.norm(x) + 0.5 * RIDGE[b] * x @ x
            return float(0.5 * (x - z) @ (x - z) + 0.7 * omega)

        found = minimize(objective, z, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
        assert objective(out) <= found.fun + 1e-9


def quadratic(seed: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(seed)
    X = random.standard_normal((9, 7))
    X[:, 3] = 0.0 if seed == 1 else X[:, 2]
    return X, X.T @ X, random.standard_normal(7) * 3.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_passes_over_a_gram_matrix(seed: int) -> None:
    _, Q, b = quadratic(seed)
    constants = np.array([max(np.linalg.eigvalsh(Q[p:q, p:q])[-1], 1e-9) for p, q in pairwise(PTR)])
    for epochs, tol in ((1, 0.0), (3, 0.0), (300, 0.5)):
        w = np.array([0.3, 0.0, -0.5, 1.0, 0.0, 0.0, -0.2])
        v, g = w.copy(), Q @ w - b
        largest = gram_epochs(Q, w, g, constants, TERMS, epochs, tol)
        done = 0
        for _ in range(epochs):
            residual, done = 0.0, done + 1
            for m in range(4):
                at = slice(PTR[m], PTR[m + 1])
                new = prox(v[at] - (Q @ v - b)[at] / constants[m], 1.0 / constants[m], m)
                residual = max(residual, float(np.linalg.norm(new - v[at])) * constants[m])
                v[at] = new
            if residual <= tol:
                break
        np.testing.assert_allclose(w, v, atol=1e-11)
        np.testing.assert_allclose(g, Q @ v - b, atol=1e-11)
        assert largest == pytest.approx(residual, rel=1e-7, abs=1e-13)
        assert done < 300


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("seed", [0, 1])
def test_passes_over_columns(kind: str, seed: int) -> None:
    """Visit some blocks, in some order, whose columns are at other places of the matrix."""
    X, _, g = quadratic(seed)
    X = np.where(np.abs(X) < 0.4, 0.0, X)
    random = np.random.default_rng(seed + 10)
    h = random.random(9) + 0.1
    h[4] = 0.0
    order = random.permutation(7)
    matrix = np.zeros_like(X)
    matrix[:, order] = X  # block coordinate j is column order[j]
    constants = random.random(4) * 20.0 + 20.0
    w = np.array([0.3, 0.0, -0.5, 1.0, 0.0, 0.0, -0.2])
    start, u, which = w.copy(), np.zeros(9), np.array([2, 0, 3, 1, 2])
    model = Model(h, u, w, g, constants)
    if kind == "sparse":
        A = sparse.csc_matrix(matrix)
        columns: Any = Csc(A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data, order)
        largest = sparse_pass(columns, model, TERMS, which)
    else:
        columns = Dense(np.ascontiguousarray(matrix.T), order)
        largest = dense_pass(columns, model, TERMS, which)
    v, residual = start.copy(), 0.0
    for m in which:
        at = slice(PTR[m], PTR[m + 1])
        slope = g + X.T @ (h * (X @ (v - start)))
        new = prox(v[at] - slope[at] / constants[m], 1.0 / constants[m], m)
        residual = max(residual, float(np.linalg.norm(new - v[at])) * constants[m])
        v[at] = new
    np.testing.assert_allclose(w, v, atol=1e-12)
    np.testing.assert_allclose(u, h * (X @ (v - start)), atol=1e-11)
    assert largest == pytest.approx(residual, rel=1e-9)
    d, out = random.standard_normal(7), np.ones(9)
    d[2] = 0.0
    (column_product if kind == "sparse" else dense_product)(columns, d, out)
    np.testing.assert_allclose(out, 1.0 + X @ d, atol=1e-12)


def test_constants_of_columns() -> None:
    """Check constants: for one column its own square; else the smaller of the trace and row sum times column sum."""
    X = np.zeros((5, 7))
    X[:, 0] = [1.0, -2.0, 0.0, 0.0, 3.0]  # one column: 1 * 1 + 2 * 4 + 5 * 9
    X[0, 1], X[1, 2], X[2, 3] = 2.0, -3.0, 1.0  # disjoint: the largest of 1 * 2 * 2, 2 * 3 * 3, 3, as a bound
    X[3, 4], X[3, 5], X[4, 5] = 1.0, -2.0, 0.5  # overlapping
    h = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    order = np.array([0, 3, 1, 2, 5, 4, 6])
    matrix = sparse.csc_matrix(X)
    columns = Csc(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data, order)
    work, L = np.zeros(5), np.full(4, np.nan)
    column_constants(columns, PTR, h, work, L)
    # Block 1: row sums 2, 3, 1; column sums 1 * 2, 2 * 3, 3 * 1; trace 4 + 18 + 3.
    # Block 2: row sums 3, 0.5; column sums 4 and 4 * 2 + 5 * 0.5 = 10.5; trace 4 + 16 + 5 * 0.25.
    np.testing.assert_allclose(L, [54.0, 18.0, 21.25, 1e-300])
    np.testing.assert_array_equal(work, np.zeros(5))


def test_curvature_of_norms() -> None:
    """Compare the Hessian and the gradient of sum_b weight_b norm2(w_b) with finite differences."""
    at = np.array([0.7, -1.0, 2.0, 0.5, -0.3, 0.0])
    block = np.array([0, 1, 1, 1, 3, 4])
    weights = np.array([0.5, 2.0, 9.0, 0.0, 1.5])

    def omega(x: Any) -> float:
        return float(sum(weights[b] * np.linalg.norm(x[block == b]) for b in (0, 1, 3)))

    H, slope = np.full((6, 6), 0.25), np.arange(6.0)
    add_curvature(H, slope, at, block, weights)
    eye, e = np.eye(6), 1e-4
    gradient = [(omega(at + e * eye[i]) - omega(at - e * eye[i])) / (2 * e) for i in range(6)]
    np.testing.assert_allclose(slope - np.arange(6.0), gradient, atol=1e-6)
    for i in range(6):
        for j in range(6):
            second = (
                omega(at + e * (eye[i] + eye[j])) - omega(at + e * (eye[i] - eye[j]))
                - omega(at - e * (eye[i] - eye[j])) + omega(at - e * (eye[i] + eye[j]))
            ) / (4 * e * e)  # fmt: skip
            assert H[i, j] - 0.25 == pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize("L", [1.0, 0.4])
def test_passes_over_rows_of_a_matrix(L: float) -> None:
    """Visit only some rows as blocks: one without a diagonal does not move, and the gradient of all rows is kept."""
    random = np.random.default_rng(3)
    X = random.standard_normal((12, 4))
    X[:, 2] = 0.0
    Q = X.T @ X
    for epochs, tol in ((1, 0.0), (4, 0.0), (60, 0.1)):
        W, B = random.standard_normal((4, 3)) * 0.2, random.standard_normal((4, 3)) * 6.0
        V, G = W.copy(), L * Q @ W - B
        which = np.array([3, 0, 2, 1]) if epochs == 1 else np.array([1, 3, 2])
        largest = row_epochs(Q, W, G, L, TERMS, which, epochs, tol)
        for _ in range(epochs):
            residual = 0.0
            for j in which:
                c = L * Q[j, j]
                if c > 0.0:
                    new = prox(V[j] - (L * Q @ V - B)[j] / c, 1.0 / c, j)
                    residual = max(residual, float(np.linalg.norm(new - V[j])) * c)
                    V[j] = new
            if residual <= tol:
                break
        np.testing.assert_allclose(W, V, atol=1e-11)
        np.testing.assert_allclose(G, L * Q @ V - B, atol=1e-11)
        assert largest == pytest.approx(residual, rel=1e-6, abs=1e-13)
