"""Weighted sums of Gram matrices, and products of each of them with the same dual variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.errors import Unsupported
from spom.kernels.gram import BLOCK_BYTES, DenseGram, FeatureGram, Gram
from spom.solvers.mkl.problem import KernelProblem

# The sum of the kernels is kept in full; more tokens than this need the online solver.
MOST_TOKENS = 40_000


class Mixture:
    """sum_m scales[m] K_m as one matrix times one number, and the products A K_m.

    If only one kernel has weight, its own matrix is used; else the sum takes as much memory as one kernel.
    """

    def __init__(self, problem: KernelProblem) -> None:
        self.grams: list[Gram] = [*problem.grams, *(FeatureGram(block.matrix()) for block in problem.explicit)]
        n = problem.n_tokens
        if n > MOST_TOKENS:
            raise Unsupported(
                f"solver='frank-wolfe' keeps the sum of the kernels, here {n} x {n}, and takes at most {MOST_TOKENS} "
                "tokens: take solver='online', or fewer tokens"
            )
        stored = [g.dtype for g in self.grams if isinstance(g, DenseGram)]
        self.dtype: Any = (
            np.dtype(np.float32) if stored and all(d == np.float32 for d in stored) else np.dtype(np.float64)
        )
        self._sum: Any = None

    def combine(self, scales: Floats) -> tuple[Any, float]:
        """Return (K, c) with c K the weighted sum; the next call overwrites K."""
        used = np.flatnonzero(scales)
        only = self.grams[used[0]] if used.size == 1 else None
        if isinstance(only, DenseGram) and only.dtype == self.dtype:
            return only.values, float(scales[used[0]])
        n = self.grams[0].n if self.grams else 0
        if self._sum is None:
            self._sum = np.empty((n, n), dtype=self.dtype)
        step = max(1, BLOCK_BYTES // max(1, 8 * n))
        for start in range(0, n, step):
            some = slice(start, min(start + step, n))
            self._rows(some, used, scales, self._sum[some])
        return self._sum, 1.0

    def _rows(self, some: slice, used: Any, scales: Floats, out: Any) -> None:
        """Write some rows of the sum into `out`; they are a few megabytes, which stay in the cache."""
        out[:] = 0.0
        for m in used:
            gram = self.grams[m]
            values = gram.values[some] if isinstance(gram, DenseGram) else gram.rows(np.arange(some.start, some.stop))
            out += values * values.dtype.type(scales[m])

    def products(self, A: Floats) -> list[Floats]:
        """Return A K_m for each m, as (labels, tokens), computed in the precision of the Gram matrix."""
        return [self._product(gram, A) for gram in self.grams]

    @staticmethod
    def _product(gram: Gram, A: Floats) -> Floats:
        if isinstance(gram, DenseGram):
            return np.asarray(A.astype(gram.dtype) @ gram.values, dtype=np.float64)
        return np.ascontiguousarray(gram.dot(np.ascontiguousarray(A.T)).T)
