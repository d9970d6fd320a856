"""Every registered kernel: blocks agree with a naive loop, diagonals with blocks; Gram matrices and budgets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from spom.core import registry
from spom.errors import DataError, Unsupported
from spom.kernels import (
    BSpline,
    Function,
    Gaussian,
    KernelProduct,
    KernelSum,
    Laplacian,
    Linear,
    Normalized,
    Nystroem,
    Polynomial,
    Precomputed,
    RandomFourier,
    RowGram,
    as_gram,
    build,
)
from spom.kernels.memory import parse_memory, plan

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((9, 4)), RNG.standard_normal((6, 4))
X[3] = 0.0
EVERY = [pytest.param(k, id=repr(k)) for entry in registry.entries("kernel") for k in entry.examples()]


def rows(kernel: Any, many: Any) -> Any:
    return np.arange(3)[:: 1 if len(many) == 9 else -1] if kernel.takes == "indices" else many


def naive(kernel: Any, x: Any, z: Any) -> float:
    """Compute the formula for two vectors."""
    if isinstance(kernel, Linear | Polynomial) and kernel.normalize:
        plain = clone(kernel).set_params(normalize=False)
        scale = math.sqrt(naive(plain, x, x) * naive(plain, z, z))
        return naive(plain, x, z) / scale if scale else 0.0
    match kernel:
        case Linear():
            return float(sum(a * b for a, b in zip(x, z, strict=True)))
        case Polynomial():
            return float((kernel.scale * sum(a * b for a, b in zip(x, z, strict=True)) + kernel.bias) ** kernel.degree)
        case Gaussian():
            return math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * kernel.variance))
        case Laplacian():
            widths = np.broadcast_to(kernel.width, len(x))
            return math.exp(-sum(abs(a - b) / w for a, b, w in zip(x, z, widths, strict=True)))
        case BSpline():
            return max(0.0, 1.0 - math.dist(x, z) / kernel.width)
        case Precomputed():
            return float(np.asarray(kernel.matrix)[x, z])
        case KernelSum():
            weights = kernel.weights or [1.0] * len(kernel.kernels)
            return sum(w * naive(k, x, z) for w, k in zip(weights, kernel.kernels, strict=True))
        case KernelProduct():
            return math.prod(naive(k, x, z) for k in kernel.kernels)
        case Normalized():
            scale = math.sqrt(naive(kernel.kernel, x, x) * naive(kernel.kernel, z, z))
            return naive(kernel.kernel, x, z) / scale if scale else 0.0
        case Nystroem():
            left, right = (np.array([naive(kernel.kernel, v, m) for m in kernel.landmarks_]) for v in (x, z))
            whole = np.array([[naive(kernel.kernel, a, b) for b in kernel.landmarks_] for a in kernel.landmarks_])
            return float(left @ np.linalg.pinv(whole, rcond=1e-7, hermitian=True) @ right)
        case RandomFourier():
            each = zip(kernel.map_.T, kernel.shift_, strict=True)
            return 2.0 / 6 * sum(math.cos(w @ x + b) * math.cos(w @ z + b) for w, b in each)
        case Function(function="laplacian"):
            return math.exp(-kernel.params["gamma"] * sum(abs(a - b) for a, b in zip(x, z, strict=True)))
        case Function(function="sigmoid"):
            return math.tanh(kernel.params["coef0"])
    raise AssertionError(f"write the formula of {kernel!r} down here")


def dense(K: Any) -> Any:
    return K.toarray() if sparse.issparse(K) else np.asarray(K)


@pytest.mark.parametrize("kernel", EVERY)
def test_blocks_agree_with_the_formula(kernel: Any) -> None:
    A, B = rows(kernel, X), rows(kernel, Z)
    K = kernel.block(A, B)
    assert sparse.issparse(K) == kernel.sparse
    expected = [[naive(kernel, x, z) for z in B] for x in A]
    np.testing.assert_allclose(dense(K), expected, atol=1e-12)
    out = np.empty((len(A), len(B)))
    assert kernel.block(A, B, out=out) is out
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("kernel", EVERY)
def test_gram_matrices_are_symmetric_and_positive(kernel: Any) -> None:
    A = rows(kernel, X)
    K = dense(kernel.block(A))
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(A), np.diagonal(K), atol=1e-12)
    if kernel.positive:
        assert np.linalg.eigvalsh(K).min() > -1e-9 * max(1.0, np.abs(K).max())


@pytest.mark.parametrize("kernel", EVERY)
def test_kernels_take_all_forms_of_data(kernel: Any) -> None:
    if kernel.takes == "indices":
        return
    K = dense(kernel.block(X, Z))
    single = kernel.block(X.astype(np.float32), Z.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(dense(single), K, rtol=1e-3, atol=1e-3)
    if "vectors" not in kernel.get_params():
        listed = kernel.block(sparse.csr_matrix(X), sparse.csr_array(Z))
        np.testing.assert_allclose(dense(listed), K, atol=1e-10)
    assert dense(kernel.block(X[:0], Z)).shape == (0, 6)
    assert repr(clone(kernel)) == repr(kernel)
    with pytest.raises(ValueError, match="4 features and Z has 3"):
        kernel.block(X, Z[:, :3])
    with pytest.raises(ValueError, match="must be finite"):
        kernel.block(np.where(X == 0, np.nan, X), Z)


def test_numbers_are_taken_from_data() -> None:
    spread = float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert Gaussian().fitted(X).variance == pytest.approx(0.5 * spread)
    many = RNG.standard_normal((300, 5))
    for zeros in (0.5, 0.9):
        K = BSpline(zeros=zeros).fitted(many).block(many)
        assert 1.0 - K.nnz / 300**2 == pytest.approx(zeros, abs=0.02)
    for kernel in (Gaussian(), BSpline()):
        with pytest.raises(ValueError, match=r"fitted\(X\)"):
            kernel.block(X)
    assert (Linear() + Gaussian()).fitted(X).kernels[1].variance == pytest.approx(0.5 * spread)


def test_functions_and_names_of_scikit_learn() -> None:
    mine = Function(lambda A, B: (A @ B.T) ** 2)
    np.testing.assert_allclose(mine.block(X, Z), Polynomial(2).block(X, Z))
    pairs = Function(lambda a, b: float(a @ b), vectors=True)
    np.testing.assert_allclose(pairs.block(X, Z), Linear().block(X, Z))
    np.testing.assert_allclose(pairs.diagonal(X), Linear().diagonal(X))
    with pytest.raises(Unsupported, match="available: additive_chi2"):
        Function("no-such").block(X)
    with pytest.raises(ValueError, match=r"must be \(9, 6\)"):
        Function(lambda A, B: A).block(X, Z)


def test_arithmetic() -> None:
    K = 2.0 * (Linear() + Gaussian(1.0)) / 4.0
    np.testing.assert_allclose(K.block(X, Z), 0.5 * (Linear().block(X, Z) + Gaussian(1.0).block(X, Z)))
    product = BSpline(3.0) * Gaussian(1.0)
    assert sparse.issparse(product.block(X))
    assert Linear().normalized().normalize
    with pytest.raises(ValueError, match="weight 0"):
        KernelSum([Linear()], [-1.0])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_built_together_equals_one_by_one(n_jobs: int, dtype: Any) -> None:
    kernels = [Linear(True), BSpline(2.0), Gaussian(0.7), Function("laplacian"), Polynomial(3, 1.0)]
    grams = build(kernels, X, dtype=dtype, n_jobs=n_jobs)
    rows_only = [RowGram(kernel, X, dtype) for kernel in kernels]
    a = RNG.standard_normal((9, 2))
    a[4] = 0.0
    for kernel, gram, computed in zip(kernels, grams, rows_only, strict=True):
        K = dense(kernel.block(X))
        for form in (gram, computed):
            assert form.dtype == dtype
            np.testing.assert_allclose(form.rows([2, 0]), K[[2, 0]], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(form.diagonal(), np.diagonal(K), rtol=1e-5)
            np.testing.assert_allclose(form.dot(a), K @ a, rtol=1e-4, atol=1e-4)


def test_features_stand_in_for_a_kernel() -> None:
    many = RNG.standard_normal((200, 3))
    K = Gaussian(2.0).block(many)
    exact = Nystroem(Gaussian(2.0), 200).fit(many).transform(many)
    np.testing.assert_allclose(exact @ exact.T, K, atol=1e-4)
    few = Nystroem(Gaussian(2.0), 40).fit(many).transform(many)
    assert np.abs(few @ few.T - K).mean() < 0.02
    fourier = RandomFourier(2.0, 4000).fit(many).transform(many)
    assert np.abs(fourier @ fourier.T - K).mean() < 0.02


def test_memory_decides_the_form() -> None:
    assert parse_memory("1.5 GiB") == int(1.5 * 2**30)
    assert parse_memory(10**6) == parse_memory("1MB") == 10**6
    forms = [plan([Gaussian(1.0)], 1000, memory=m, itemsize=4).form for m in ("5MB", "1MB", "80KB")]
    assert forms == ["kept", "rows", "features"]
    assert plan([BSpline(1.0)], 1000, memory="1MB", itemsize=4).form == "kept"
    with pytest.raises(DataError, match="too small: 6 rows of 1000 entries"):
        plan([Gaussian(1.0), Linear()], 1000, memory="10KB", itemsize=4, at_once=3)
    for bad in ("much", "-1GB", True, "0"):
        with pytest.raises(ValueError, match="memory must be"):
            parse_memory(bad)


def test_bad_matrices_have_one_clear_error() -> None:
    with pytest.raises(DataError, match="must be square"):
        as_gram(np.ones((2, 3)))
    with pytest.raises(DataError, match="must be symmetric"):
        as_gram(np.array([[1.0, 0.5], [0.1, 1.0]]))
    with pytest.raises(DataError, match="its smallest eigenvalue is"):
        as_gram(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]]))
    with pytest.raises(DataError, match="must be finite"):
        as_gram(np.array([[np.inf]]))
    with pytest.raises(DataError, match="out of range"):
        Precomputed(np.eye(2)).block([2])
    assert as_gram(np.eye(2, dtype=int)).dtype == np.float64


def test_the_widths_of_a_laplacian_kernel_make_units_and_constant_features_irrelevant():
    A = np.column_stack([X, np.full(9, 7.0)])
    units = np.array([1e-3, 1.0, 50.0, 1e4, 3.0])
    K = Laplacian().fitted(A).block(A)
    np.testing.assert_allclose(Laplacian().fitted(A * units).block(A * units), K, rtol=1e-10)
    np.testing.assert_allclose(K, Laplacian(4.0).block(X / X.std(axis=0)), rtol=1e-10)
    np.testing.assert_allclose(Laplacian().fitted(A).block(sparse.csr_array(A)), K, rtol=1e-12)
    assert Laplacian().fitted(np.ones((3, 2))).width == 1.0
    with pytest.raises(ValueError, match="2 widths; the data have 4 features"):
        Laplacian([1.0, 2.0]).block(X)
    with pytest.raises(ValueError, match="no width yet"):
        Laplacian().block(X)
    with pytest.raises(ValueError, match="width"):
        Laplacian([1.0, 0.0])


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0])
@pytest.mark.parametrize("kernel", [k for k in (p.values[0] for p in EVERY) if k.has_width], ids=repr)
def test_another_width_is_a_power_of_the_kernel(kernel: Any, factor: float) -> None:
    wide, power = kernel.widened(factor)
    scaled = [[naive(kernel, x / factor, z / factor) for z in Z] for x in X]
    np.testing.assert_allclose(wide.block(X, Z), scaled, rtol=1e-12)
    np.testing.assert_allclose(kernel.block(X, Z) ** power, scaled, rtol=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian()], ids=repr)
def test_a_width_that_is_not_known_cannot_be_changed(kernel: Any) -> None:
    with pytest.raises(ValueError, match="take it from data with fitted"):
        kernel.widened(2.0)
