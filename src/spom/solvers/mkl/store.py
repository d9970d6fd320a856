"""Gram matrices and explicit rows of a problem as the compiled loops read them; computed rows are cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import DataError
from spom.kernels.building import row_maker
from spom.kernels.gram import DenseGram, Gram, Reals, RowGram, SparseGram
from spom.kernels.memory import show_bytes
from spom.solvers.mkl.explicit import Explicit, within
from spom.solvers.mkl.gram_rows import DENSE, EXPLICIT, SPARSE, Grams
from spom.solvers.mkl.problem import KernelProblem

# The number of rows that are computed together: enough for BLAS, and few enough that most are used.
BATCH = 128
# Entries of `counts`, which rounds update: the place in the order, a clock of changes, missing rows (or
# -1 - a kernel that must be updated), wrong tokens, rows of Gram matrices that were read, tokens decoded,
# sequences with an error, kernels updated.
AT, CLOCK, WANTED, WRONG, READ, DECODED, FAULTY, RENEWED = range(8)


class Sequences(NamedTuple):
    """Tokens offsets[q] .. offsets[q + 1] are sequence q; `local` has K_m within it, row-major from starts[q] on."""

    offsets: Annotated[Ints, "int64[::1]"]
    gold: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]
    local: Annotated[Floats, "float64[:, ::1]"]
    starts: Annotated[Ints, "int64[::1]"]
    chain: Annotated[bool, "boolean"]


class Data(NamedTuple):
    """The whole problem except the dense Gram matrices."""

    sequences: Sequences
    grams: Grams
    explicit: Explicit


class Store:
    """`data` is the bundle, `rows` the rows of dense matrices, float32 if all Gram matrices are, else float64.

    `slots` is the number of rows of computed Gram matrices that are kept; the least recently used are dropped first.
    """

    def __init__(self, problem: KernelProblem, slots: int | None = None) -> None:
        self.problem = problem
        self.longest = int(np.diff(problem.offsets).max(initial=1))
        single = bool(problem.grams) and all(gram.dtype == np.float32 for gram in problem.grams)
        self.dtype: Any = np.dtype(np.float32 if single else np.float64)
        self.dense = [m for m, gram in enumerate(problem.grams) if not isinstance(gram, SparseGram)]
        self.computed = any(isinstance(problem.grams[m], RowGram) for m in self.dense)
        grams = self._grams(slots)
        explicit = self._explicit()
        self.features = sum(block.n_features for block in problem.explicit)
        local, starts = self._within_sequences(explicit)
        sequences = Sequences(problem.offsets, problem.y, problem.weight, local, starts, problem.transitions)
        self.data = Data(sequences, grams, explicit)

    def _grams(self, slots: int | None) -> Grams:
        grams, n = self.problem.grams, self.problem.n_tokens
        sparse = [m for m, gram in enumerate(grams) if isinstance(gram, SparseGram)]
        kinds = np.full(self.problem.n_blocks, EXPLICIT, dtype=np.int64)
        places = np.zeros(self.problem.n_blocks, dtype=np.int64)
        kinds[self.dense], places[self.dense] = DENSE, np.arange(len(self.dense))
        kinds[sparse], places[sparse] = SPARSE, np.arange(len(sparse))
        places[kinds == EXPLICIT] = np.arange(len(self.problem.explicit))
        matrices = [grams[m].matrix for m in sparse]  # type: ignore[attr-defined]  # the sparse ones have it
        ends = np.cumsum([0, *(matrix.nnz for matrix in matrices)])
        pointers = [matrix.indptr.astype(np.int64) + end for matrix, end in zip(matrices, ends, strict=False)]
        where = self._place_rows(slots)
        return Grams(
            kinds,
            places,
            where,
            # Rows that always stay in memory have no ages.
            np.zeros(self.rows.shape[0] if self.computed else 0, dtype=np.int64),
            np.array(pointers, dtype=np.int64).reshape(len(sparse), n + 1),
            joined([matrix.indices for matrix in matrices], np.int32),
            joined([matrix.data for matrix in matrices], np.float64),
        )

    def _place_rows(self, slots: int | None) -> Ints:
        """Return the place in `rows` of each row of a dense matrix."""
        grams, n, count = self.problem.grams, self.problem.n_tokens, len(self.dense)
        if not self.computed:
            self.rows = stacked([grams[m] for m in self.dense], n, self.dtype)
            return np.arange(count * n, dtype=np.int64).reshape(count, n)
        kept = n * count if slots is None else min(slots, n * count)
        if kept < self.longest * count:
            raise DataError(
                f"the cache holds {kept} rows of Gram matrices ({show_bytes(kept * n * 4)}), and the longest "
                f"sequence needs {self.longest * count} at the same time: give more memory"
            )
        self.rows = np.empty((kept, n), dtype=self.dtype)
        self.owner = np.full(kept, -1, dtype=np.int64)
        self.make_rows = row_maker([grams[m] for m in self.dense])
        return np.full((count, n), -1, dtype=np.int64)

    def _explicit(self) -> Explicit:
        blocks, n = self.problem.explicit, self.problem.n_tokens
        ptr = np.zeros((len(blocks), n + 1), dtype=np.int64)
        shapes = np.zeros((len(blocks), 4), dtype=np.int64)
        indices, values = [], []
        at, feature, skipped = 0, 0, 0
        for e, block in enumerate(blocks):
            size = int(block.indptr[-1])
            ptr[e] = block.indptr + at
            dense = block.indices.size == 0 and size > 0
            skipped += size if dense else 0
            shapes[e] = (skipped, feature, dense, block.n_features)
            if not dense:
                indices.append(block.indices)
            values.append(np.asarray(block.values if block.values.size else np.ones(size), dtype=self.dtype))
            at, feature = at + size, feature + block.n_features
        return Explicit(ptr, joined(indices, np.int32), joined(values, np.float64), shapes)

    def _within_sequences(self, explicit: Explicit) -> tuple[Floats, Ints]:
        """Return K_m(a, b) for tokens of the same sequence, and the start of each sequence's square."""
        offsets = self.problem.offsets
        lengths = np.diff(offsets)
        starts = np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64)
        local = np.zeros((self.problem.n_blocks, int(starts[-1])))
        rows = np.repeat(np.arange(offsets[-1]), np.repeat(lengths, lengths))
        columns = columns_within(offsets, lengths)
        for m, gram in enumerate(self.problem.grams):
            local[m] = pairs_within(gram, rows, columns, offsets)
        for e, block in enumerate(self.problem.explicit):
            within(explicit, e, offsets, starts, np.zeros(block.n_features), local[len(self.problem.grams) + e])
        return local, starts

    def supply(self, order: Ints, counts: Ints, wanted: Ints, scores: Callable[[Ints], Floats]) -> None:
        """Compute the rows that rounds have stopped for, and those of upcoming tokens that are likely to be wrong.

        `scores(tokens)` gives the scores of tokens, (labels, tokens).
        """
        tokens = self._missing(order[counts[AT] :])
        likely = tokens[_likely_wrong(scores(tokens), self.problem.y[tokens])]
        self._fetch(wanted[: counts[WANTED]], likely, int(counts[CLOCK]))

    def _fetch(self, wanted: Ints, likely: Ints, clock: int) -> None:
        """Compute the wanted rows (place times tokens plus token), and rows of tokens that are likely next."""
        grams, n = self.data.grams, self.problem.n_tokens
        rows, which = np.unique(wanted % n), np.unique(wanted // n)
        most = self.rows.shape[0] // (2 * which.size)
        chosen = np.unique(np.concatenate([rows, likely[: max(0, min(BATCH, most) - rows.size)]]))
        chosen = chosen[(grams.slots[which][:, chosen] < 0).any(axis=0)]

        def keep(d: int, block: Reals) -> None:
            free = np.argpartition(grams.ages, min(chosen.size, grams.ages.size - 1))[: chosen.size]
            gone = self.owner[free]
            grams.slots.reshape(-1)[gone[gone >= 0]] = -1
            # A row that is in the store moves to a new place.
            old = grams.slots[d, chosen]
            self.owner[old[old >= 0]] = -1
            grams.ages[old[old >= 0]] = 0
            self.rows[free] = block
            grams.slots[d, chosen], self.owner[free], grams.ages[free] = free, d * n + chosen, clock

        self.make_rows(chosen, which.tolist(), keep)

    def _missing(self, order: Ints) -> Ints:
        """Return tokens with missing rows among the first of these sequences, as many as may be of use."""
        offsets = self.problem.offsets
        some = order[: max(1, 8 * BATCH // self.longest)]
        tokens = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in some])
        return np.asarray(tokens[(self.data.grams.slots[:, tokens] < 0).any(axis=0)])


def _likely_wrong(scores: Floats, gold: Ints) -> Any:
    """Return a mask of tokens whose gold label's score does not exceed all others by 1; scores are (labels, tokens)."""
    tokens = np.arange(gold.size)
    right = scores[gold, tokens].copy()
    scores[gold, tokens] = -np.inf
    return right - scores.max(axis=0) < 1.0


def stacked(grams: list[Gram], n: int, dtype: Any) -> Reals:
    """Return the dense matrices stacked vertically, as a view if they are already stored that way."""
    arrays: list[Any] = [gram.values for gram in grams if isinstance(gram, DenseGram)]
    if not arrays:
        return np.empty((0, n), dtype=dtype)
    base: Any = arrays[0].base
    together = isinstance(base, np.ndarray) and base.shape == (len(arrays), n, n) and base.flags.c_contiguous
    if together and all(a.base is base and a.ctypes.data == base[m].ctypes.data for m, a in enumerate(arrays)):
        whole: Reals = base.reshape(-1, n)
        return whole
    if len(arrays) == 1:
        return np.ascontiguousarray(arrays[0], dtype=dtype)
    return np.concatenate([np.asarray(a, dtype=dtype) for a in arrays])


def joined(parts: list[Any], dtype: Any) -> Any:
    """Return the parts one after another, as one array of this type."""
    return np.ascontiguousarray(np.concatenate(parts), dtype=dtype) if parts else np.zeros(0, dtype=dtype)


def columns_within(offsets: Ints, lengths: Ints) -> Ints:
    """Return all tokens of the sequence, for each of its tokens in turn."""
    first = np.repeat(offsets[:-1], lengths**2)
    inside = np.arange(first.size) - np.repeat(np.concatenate([[0], np.cumsum(lengths**2)[:-1]]), lengths**2)
    return np.asarray(first + inside % np.maximum(np.repeat(lengths, lengths**2), 1), dtype=np.int64)


def pairs_within(gram: Gram, rows: Ints, columns: Ints, offsets: Ints) -> Floats:
    """Return K(row, column) for pairs of tokens of the same sequence."""
    if rows.size == gram.n:
        return gram.diagonal()
    if isinstance(gram, DenseGram):
        return np.asarray(gram.values[rows, columns], dtype=np.float64)
    if isinstance(gram, SparseGram):
        return np.asarray(gram.matrix[rows, columns], dtype=np.float64).reshape(-1)
    parts = []
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        some = np.arange(a, b)
        block = gram.kernel.block(gram.X[some]) if isinstance(gram, RowGram) else gram.rows(some)[:, some]
        dense = block.toarray() if hasattr(block, "toarray") else block
        parts.append(np.asarray(dense, dtype=np.float64).reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0)
