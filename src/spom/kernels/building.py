"""Gram matrices of several kernels on the same data, built in parallel blocks of rows.

Kernels of inner products share one matrix product per block. Dense matrices are consecutive in one array, which
is what the compiled loops of the solvers read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Ints
from spom.kernels.base import Kernel, products, squares
from spom.kernels.gram import DenseGram, Gram, Reals, RowGram, SparseGram

# The size of a block that stays in the cache while several kernels are computed from it.
CACHED_BYTES = 1 << 20


class SharedRows:
    """Blocks of rows of several kernels; kernels of inner products share the product."""

    def __init__(self, kernels: Sequence[Kernel], X: Any) -> None:
        self.kernels, self.X = list(kernels), X
        self.shared = sum(kernel.of_products for kernel in kernels)
        self.squares = squares(X) if self.shared else np.zeros(0)

    def visit(self, rows: Ints | slice, use: Callable[[int, Any], None], which: Sequence[int] | None = None) -> None:
        """Call `use(m, block)` for each kernel m (of `which`) with block = K_m(X[rows], X), which it may overwrite."""
        wanted = range(len(self.kernels)) if which is None else which
        left = sum(self.kernels[m].of_products for m in wanted)
        some = self.X[rows]
        P = products(some, self.X) if left else None
        for m in wanted:
            kernel = self.kernels[m]
            if kernel.of_products and P is not None:
                left -= 1
                # The last kernel may write into the product itself.
                use(m, kernel._of_products(P.copy() if left else P, self.squares[rows], self.squares))
            else:
                use(m, kernel._block(some, self.X))


def build(
    kernels: Sequence[Kernel],
    X: Any,
    *,
    dtype: Any = np.float32,
    n_jobs: int = 1,
) -> list[Gram]:
    """Return the whole Gram matrices of fitted kernels: dense ones as views of one array, sparse ones as CSR.

    >>> from spom.kernels import Linear, Gaussian
    >>> [gram.n for gram in build([Linear(), Gaussian(1.0)], np.eye(3))]
    [3, 3]
    """
    n = X.shape[0]
    dense = [m for m, kernel in enumerate(kernels) if not kernel.sparse]
    store = np.empty((len(dense), n, n), dtype=dtype)
    place = {m: store[d] for d, m in enumerate(dense)}
    step = max(16, CACHED_BYTES // max(1, X.dtype.itemsize * n))
    starts = list(range(0, n, step))
    parts: dict[int, list[Any]] = {m: [None] * len(starts) for m in range(len(kernels)) if m not in place}
    shared = SharedRows(kernels, X)

    def one(at: int) -> None:
        rows = slice(starts[at], min(n, starts[at] + step))

        def use(m: int, block: Any) -> None:
            if m in place:
                place[m][rows] = block.toarray() if scipy.sparse.issparse(block) else block
            else:
                parts[m][at] = block.astype(dtype, copy=False)

        shared.visit(rows, use)

    if n_jobs > 1:
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(one, range(len(starts))))
    else:
        for at in range(len(starts)):
            one(at)
    return [
        DenseGram(place[m]) if m in place else SparseGram(_stacked(parts[m], n, dtype)) for m in range(len(kernels))
    ]


def _stacked(parts: list[Any], n: int, dtype: Any) -> Any:
    if not parts:
        return scipy.sparse.csr_matrix((n, n), dtype=dtype)
    found = scipy.sparse.vstack(parts, format="csr")
    found.sort_indices()
    return found


def computed(kernels: Sequence[Kernel], X: Any, dtype: Any = np.float32) -> list[Gram]:
    """Return Gram matrices whose rows are computed on demand."""
    return [RowGram(kernel, X, dtype) for kernel in kernels]


def row_maker(grams: Sequence[Gram]) -> Callable[[Ints, Sequence[int], Callable[[int, Reals], None]], None]:
    """Return a function (rows, which, use) that computes rows of several matrices, with shared products if possible."""
    first = grams[0] if grams else None
    if isinstance(first, RowGram) and all(isinstance(g, RowGram) and g.X is first.X for g in grams):
        shared = SharedRows([g.kernel for g in grams if isinstance(g, RowGram)], first.X)

        def together(rows: Ints, which: Sequence[int], use: Callable[[int, Reals], None]) -> None:
            shared.visit(rows, lambda m, b: use(m, b.toarray() if scipy.sparse.issparse(b) else b), which)

        return together

    def alone(rows: Ints, which: Sequence[int], use: Callable[[int, Reals], None]) -> None:
        for m in which:
            use(m, grams[m].rows(rows))

    return alone
