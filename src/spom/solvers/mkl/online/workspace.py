"""The arrays that the rounds with kernels read and write: Gram rows, cached scores, coefficients, weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import DataError
from spom.kernels.building import row_maker
from spom.kernels.gram import Reals, RowGram, SparseGram
from spom.kernels.memory import show_bytes
from spom.solvers.mkl.online.coefficients import rescale
from spom.solvers.mkl.online.pieces import within
from spom.solvers.mkl.online.rounds import AT, CLOCK, DENSE, EXPLICIT, PEAK, READ, SCALE, SIGMA, SPARSE, SQUARED, WANTED
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.mkl.store import columns_within, joined, pairs_within, stacked

# Rows that are computed together, where rows are computed.
BATCH = 128
# Rows of each Gram matrix that a look at the blocks' gradients takes.
SAMPLE = 256


def needed_bytes(tokens: int, labels: int, blocks: int, itemsize: int, averaged: bool = False) -> int:
    """What a run needs beside the Gram matrices: scores and coefficients, and a copy of them in each state."""
    return tokens * labels * blocks * (2 * itemsize + (24 if averaged else 16))


class Workspace:
    """Everything but the Gram matrices is small: scores and coefficients, (blocks, tokens, labels).

    `slots` is the number of rows of computed Gram matrices that are kept, least recently used ones going first.
    """

    def __init__(
        self, problem: KernelProblem, averaged: bool, slots: int | None = None, screened: bool = False
    ) -> None:
        self.problem, self.averaged = problem, averaged
        self.longest = int(np.diff(problem.offsets).max(initial=1))
        n, k, M = problem.n_tokens, problem.n_labels, len(problem.grams)
        blocks = problem.n_blocks
        single = bool(problem.grams) and all(gram.dtype == np.float32 for gram in problem.grams)
        self.dtype: Any = np.float32 if single else np.float64
        self._place_kernels(slots)
        self._place_explicit()
        self.F = np.zeros((M, k, n), dtype=self.dtype)
        self.fmarks = np.zeros((M, k), dtype=np.int64)
        # Coefficients by label, as the scores, explicit weights and transitions, one after another: a state's theta.
        self.theta = np.zeros(M * n * k + self.features * k + k * k)
        kernels, explicit, chain = np.split(self.theta, [M * n * k, M * n * k + self.features * k])
        self.A, self.amarks = kernels.reshape(M, k, n), np.zeros((M, n), dtype=np.int64)
        self.V, self.vmarks = explicit.reshape(self.features, k), np.zeros(self.features, dtype=np.int64)
        self.T = chain.reshape(k, k)
        shapes = ((M, k, n), (self.features, k), (k, k)) if averaged else ((M, 0, n), (0, k), (0, 0))
        self.sums, self.vsums, self.tsums = (np.zeros(shape) for shape in shapes)
        self.stamps = np.zeros(blocks, dtype=np.int64)
        self.table = np.zeros((4, blocks + 1))
        self.table[SCALE] = 1.0
        self.counts = np.zeros(7, dtype=np.int64)
        self.frozen = np.zeros(blocks, dtype=np.bool_)
        self.gradients = np.zeros((n, k) if screened else (0, k))
        self.local, self.starts = self._within_sequences()
        self.wanted = np.zeros(max(1, len(self.dense) * self.longest), dtype=np.int64)

    # --- places ----------------------------------------------------------------------------------------

    def _place_kernels(self, slots: int | None) -> None:
        grams, n = self.problem.grams, self.problem.n_tokens
        sparse = [m for m, gram in enumerate(grams) if isinstance(gram, SparseGram)]
        self.dense = [m for m, gram in enumerate(grams) if not isinstance(gram, SparseGram)]
        self.kinds = np.full(self.problem.n_blocks, EXPLICIT, dtype=np.int64)
        self.places = np.zeros(self.problem.n_blocks, dtype=np.int64)
        self.kinds[self.dense], self.places[self.dense] = DENSE, np.arange(len(self.dense))
        self.kinds[sparse], self.places[sparse] = SPARSE, np.arange(len(sparse))
        self.computed = any(isinstance(grams[m], RowGram) for m in self.dense)
        if self.computed:
            count = n * len(self.dense) if slots is None else min(slots, n * len(self.dense))
            if count < self.longest * len(self.dense):
                raise DataError(
                    f"the cache holds {count} rows of Gram matrices ({show_bytes(count * n * 4)}), and the longest "
                    f"sequence needs {self.longest * len(self.dense)} at the same time: give more memory"
                )
            self.store = np.empty((count, n), dtype=self.dtype)
            self.slots = np.full((len(self.dense), n), -1, dtype=np.int64)
            self.owner = np.full(count, -1, dtype=np.int64)
            self.make_rows = row_maker([grams[m] for m in self.dense])
        else:
            self.store = stacked([grams[m] for m in self.dense], n, self.dtype)
            self.slots = np.arange(len(self.dense) * n, dtype=np.int64).reshape(len(self.dense), n)
        # Rows that are all there do not age.
        self.ages = np.zeros(self.store.shape[0] if self.computed else 0, dtype=np.int64)
        matrices = [grams[m].matrix for m in sparse]  # type: ignore[attr-defined]  # the sparse ones have it
        ends = np.cumsum([0, *(matrix.nnz for matrix in matrices)])
        pointers = [matrix.indptr.astype(np.int64) + end for matrix, end in zip(matrices, ends, strict=False)]
        self.sparse_ptr = np.array(pointers, dtype=np.int64).reshape(len(sparse), n + 1)
        self.sparse_indices = joined([matrix.indices for matrix in matrices], np.int32)
        self.sparse_values = joined([matrix.data for matrix in matrices], self.dtype)

    def _place_explicit(self) -> None:
        blocks, n = self.problem.explicit, self.problem.n_tokens
        self.places[self.kinds == EXPLICIT] = np.arange(len(blocks))
        self.ptr = np.zeros((len(blocks), n + 1), dtype=np.int64)
        # For each block: where its indices begin, its first feature, whether rows are dense, how many features.
        self.shapes = np.zeros((len(blocks), 4), dtype=np.int64)
        indices, values = [], []
        at, feature, skipped = 0, 0, 0
        for e, block in enumerate(blocks):
            size = int(block.indptr[-1])
            self.ptr[e] = block.indptr + at
            dense = block.indices.size == 0 and size > 0
            skipped += size if dense else 0
            self.shapes[e] = (skipped, feature, dense, block.n_features)
            if not dense:
                indices.append(block.indices)
            values.append(block.values if block.values.size else np.ones(size, dtype=self.dtype))
            at, feature = at + size, feature + block.n_features
        self.indices, self.values, self.features = joined(indices, np.int32), joined(values, self.dtype), feature

    def _within_sequences(self) -> tuple[Floats, Ints]:
        """K_m(a, b) for tokens of the same sequence, and where each sequence's square begins."""
        offsets = self.problem.offsets
        lengths = np.diff(offsets)
        starts = np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64)
        local = np.zeros((self.problem.n_blocks, int(starts[-1])))
        rows = np.repeat(np.arange(offsets[-1]), np.repeat(lengths, lengths))
        columns = columns_within(offsets, lengths)
        for m, gram in enumerate(self.problem.grams):
            local[m] = pairs_within(gram, rows, columns, offsets)
        for e in range(len(self.problem.explicit)):
            out = local[len(self.problem.grams) + e]
            shift, _, dense, features = (int(x) for x in self.shapes[e])
            within(self.ptr[e], self.indices, self.values, shift, dense, offsets, starts, np.zeros(features), out)
        return local, starts

    # --- running ---------------------------------------------------------------------------------------

    def run(self, loop: Any, order: Ints, steps: Floats, fixed: tuple[Any, ...], prox: tuple[Any, ...]) -> float:
        """`order` as rounds; rows that are wanted and not there are computed on the way. The sum of losses."""
        problem, total = self.problem, 0.0
        self.counts[AT] = 0
        while True:
            total += loop(
                *(order, steps, problem.offsets, problem.y, problem.weight, problem.transitions, *fixed),
                *(self.kinds, self.places, self.F, self.fmarks, self.A, self.amarks, self.stamps, self.sums),
                *(self.averaged, self.store, self.slots, self.ages, self.sparse_ptr, self.sparse_indices),
                *(self.sparse_values, self.ptr, self.indices, self.values, self.shapes, self.V, self.vmarks),
                *(self.vsums, self.T, self.tsums, self.local, self.starts, self.table, *prox),
                *(self.frozen, self.gradients, self.wanted, self.counts),
            )
            if self.counts[WANTED] == 0:
                return float(total)
            self._fetch(order)

    def _fetch(self, order: Ints) -> None:
        """Compute the rows that are wanted, and with them those of the next sequences that look wrong as well."""
        n = self.problem.n_tokens
        wanted = self.wanted[: self.counts[WANTED]]
        rows = [np.unique(wanted % n), self._likely(order)]
        which = np.unique(wanted // n)
        room = self.store.shape[0] // (2 * which.size)
        chosen = np.unique(np.concatenate([rows[0], rows[1][: max(0, min(BATCH, room) - rows[0].size)]]))
        chosen = chosen[(self.slots[which][:, chosen] < 0).any(axis=0)]
        clock = int(self.counts[CLOCK])

        def keep(d: int, block: Reals) -> None:
            free = np.argpartition(self.ages, min(chosen.size, self.ages.size - 1))[: chosen.size]
            gone = self.owner[free]
            self.slots.reshape(-1)[gone[gone >= 0]] = -1
            # A row that is there already moves to a new place.
            old = self.slots[d, chosen]
            self.owner[old[old >= 0]] = -1
            self.ages[old[old >= 0]] = 0
            self.store[free] = block
            self.slots[d, chosen], self.owner[free], self.ages[free] = free, d * n + chosen, clock

        self.make_rows(chosen, which.tolist(), keep)

    def _likely(self, order: Ints) -> Ints:
        """Tokens of the next sequences whose rows are missing and whose gold label is not ahead by one."""
        at = int(self.counts[AT])
        offsets = self.problem.offsets
        some = order[at : at + max(1, 8 * BATCH // self.longest)]
        tokens = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in some])
        tokens = tokens[(self.slots[:, tokens] < 0).any(axis=0)]
        scores = np.zeros((self.problem.n_labels, tokens.size))
        for m in self.dense:
            fresh = self.fmarks[m] == self.stamps[m]
            scores[fresh] += self.table[SCALE, m] * self.F[m][fresh][:, tokens]
        gold = self.problem.y[tokens]
        right = scores[gold, np.arange(tokens.size)].copy()
        scores[gold, np.arange(tokens.size)] = -np.inf
        return np.asarray(tokens[right - scores.max(axis=0) < 1.0])

    # --- between passes --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Scales of one, nothing stale, and norms summed up afresh: a saved run goes on from the same bits."""
        M, scale, sigma = len(self.problem.grams), self.table[SCALE], self.table[SIGMA]
        for m in range(M):
            stale = (self.amarks[m] != self.stamps[m]) | (self.table[SQUARED, m] == 0.0)
            if stale.any():
                self.A[m][:, stale] = 0.0
            self.F[m][(self.fmarks[m] != self.stamps[m]) | (self.table[SQUARED, m] == 0.0)] = 0.0
            if self.averaged and sigma[m]:
                self.sums[m] += sigma[m] * self.A[m]
            self.table[SQUARED, m] = max(0.0, rescale(self.A[m], self.F[m], scale[m]))
        for e in range(len(self.problem.explicit)):
            m, low = M + e, self.shapes[e, 1]
            part = slice(low, low + self.shapes[e, 3])
            self.V[part][(self.vmarks[part] != self.stamps[m]) | (self.table[SQUARED, m] == 0.0)] = 0.0
            if self.averaged:
                self.vsums[part] += sigma[m] * self.V[part]
            self.V[part] *= scale[m]
            self.table[SQUARED, m] = float(np.vdot(self.V[part], self.V[part]))
        if self.averaged:
            self.tsums += sigma[-1] * self.T
        self.T *= scale[-1]
        self.table[SQUARED, -1] = float(np.vdot(self.T, self.T))
        self.table[PEAK], self.table[SCALE], self.table[SIGMA] = self.table[SQUARED], 1.0, 0.0
        for marks in (self.fmarks, self.amarks, self.vmarks, self.stamps):
            marks[...] = 0

    def gradient_norms(self, rng: np.random.Generator) -> Floats:
        """norm of each block of the mean gradient of the last pass, from a sample of the rows of the wrong tokens."""
        wrong = np.flatnonzero(self.gradients.any(axis=1))
        some = rng.permutation(wrong)[:SAMPLE]
        D = self.gradients / max(1, self.problem.n_sequences)
        share = wrong.size / max(1, some.size)
        squares = []
        for gram in self.problem.grams:
            rows = gram.rows(some)
            squares.append(share * float(np.vdot(D[some], rows @ D.astype(rows.dtype))))
        for block in self.problem.explicit:
            g = block.matrix().T @ D
            squares.append(float(np.vdot(g, g)))
        return np.sqrt(np.maximum(squares, 0.0))

    def freeze(self, off: Any) -> None:
        """Switch these blocks off, until they are let go; between passes only."""
        M = len(self.problem.grams)
        for m in np.flatnonzero(off & ~self.frozen).tolist():
            if m < M:
                self.A[m], self.F[m] = 0.0, 0.0
            else:
                low = self.shapes[m - M, 1]
                self.V[low : low + self.shapes[m - M, 3]] = 0.0
            self.table[SQUARED, m] = 0.0
        self.frozen[:] = off

    def rescore(self) -> None:
        """The scores from the coefficients, from scratch."""
        for m, gram in enumerate(self.problem.grams):
            self.F[m] = gram.dot(self.A[m].T).T

    @property
    def rows_read(self) -> int:
        """Rows of Gram matrices that were read so far."""
        return int(self.counts[READ])
