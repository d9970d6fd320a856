r"""The problem shared by the solvers for kernels.

    min over theta of Omega(theta) + (1/N) sum_i L(theta; x_i, y_i)

with theta = (theta_0, theta_1, ..., theta_M): theta_0 scores pairs of neighbouring labels, if there are
transitions, and theta_m scores a label at a token, in the space of a kernel or by explicit features:

    score(x, y) = sum_t sum_m <theta_m[y_t], phi_m(x_t)>  +  sum_t theta_0[y_t, y_(t+1)].

N is the number of sequences. A multiclass problem has sequences of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.registry import make
from spom.errors import DataError, Unsupported
from spom.kernels.gram import Gram, as_gram

NO_FLOATS: Floats = np.zeros(0)


@dataclass(frozen=True)
class ExplicitBlock:
    """Rows of one block: row t has the features indices[indptr[t]:indptr[t + 1]]; without values, all are 1.

    Rows that have all features have no indices: see `ExplicitBlock.of_dense`.
    """

    indptr: Ints
    indices: Any
    n_features: int
    values: Any = field(default_factory=lambda: NO_FLOATS)

    @classmethod
    def of_dense(cls, X: Any) -> ExplicitBlock:
        """Return a block whose rows are those of a dense matrix."""
        n, features = X.shape
        indptr = np.arange(n + 1, dtype=np.int64) * features
        return cls(indptr, np.zeros(0, dtype=np.int32), features, np.ascontiguousarray(X).reshape(-1))

    @classmethod
    def of_matrix(cls, X: Any) -> ExplicitBlock:
        """Return a block from a dense array or a scipy sparse matrix."""
        if not hasattr(X, "tocsr"):
            return cls.of_dense(np.asarray(X))
        matrix = X.tocsr()
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.shape[1], matrix.data)

    @property
    def dense(self) -> bool:
        """Whether each row has all features."""
        return bool(self.indices.size == 0 and self.indptr[-1] > 0)

    def matrix(self) -> Any:
        """Return the rows as a scipy CSR matrix, or as an array if they are dense."""
        from scipy import sparse

        rows = self.indptr.size - 1
        if self.dense:
            return self.values.reshape(rows, self.n_features)
        values = self.values if self.values.size else np.ones(self.indices.size)
        return sparse.csr_matrix((values, self.indices, self.indptr), shape=(rows, self.n_features))


@dataclass(frozen=True)
class KernelProblem:
    """Tokens in sequences with their labels, one Gram matrix over all tokens per kernel, and explicit blocks.

    `offsets` has the first token of each sequence, and ends with the number of tokens. `weight` has a weight for
    each sequence's loss, and is empty if all are 1. Create a problem with `KernelProblem.of`, which checks it.

    >>> problem = KernelProblem.of([np.eye(3)], y=[0, 1, 1], n_labels=2)
    >>> problem.n_sequences, problem.n_blocks
    (3, 1)
    """

    grams: tuple[Gram, ...]
    offsets: Ints
    y: Ints
    n_labels: int
    transitions: bool = False
    explicit: tuple[ExplicitBlock, ...] = ()
    weight: Floats = field(default_factory=lambda: NO_FLOATS)

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sequences."""
        return int(self.y.size)

    @property
    def n_sequences(self) -> int:
        """N of the objective."""
        return int(self.offsets.size - 1)

    @property
    def n_blocks(self) -> int:
        """M: kernels, then explicit blocks; the transitions are not counted."""
        return len(self.grams) + len(self.explicit)

    @cached_property
    def explicit_parts(self) -> list[slice]:
        """The places of the weights of each explicit block."""
        ends = np.cumsum([0, *(block.n_features for block in self.explicit)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def mean_squares(self, present: bool = False) -> list[float]:
        """Return the mean squared length of a token in each block; with `present`, of tokens with a feature of it.

        >>> KernelProblem.of([np.diag([1.0, 3.0]), np.zeros((2, 2))], y=[0, 1]).mean_squares()
        [2.0, 0.0]
        """
        sizes = [float(gram.diagonal().mean()) if gram.n else 0.0 for gram in self.grams]
        for block in self.explicit:
            values = block.values
            square = float(np.vdot(values, values)) if values.size else float(block.indptr[-1])
            tokens = int(np.count_nonzero(np.diff(block.indptr))) if present else self.n_tokens
            sizes.append(square / max(1, tokens))
        return sizes

    @classmethod
    def of(
        cls,
        grams: Sequence[Any],
        y: ArrayLike,
        n_labels: int | None = None,
        offsets: ArrayLike | None = None,
        transitions: bool | None = None,
        explicit: Sequence[ExplicitBlock] = (),
        weight: ArrayLike | None = None,
        check: bool = True,
    ) -> KernelProblem:
        """Return a checked problem, from Gram matrices as arrays, scipy sparse matrices or `Gram` objects.

        Without `offsets`, each token is a sequence of its own, and by default there are no transitions.
        """
        labels = np.ascontiguousarray(y, dtype=np.int64)
        if labels.ndim != 1 or (labels.size and labels.min() < 0):
            raise DataError("y must be a vector of label indices from 0")
        count = int(labels.max(initial=-1)) + 1
        k = count if n_labels is None else int(n_labels)
        if count > k:
            raise DataError(f"y has the label index {count - 1}, but there are only {k} labels")
        given = None if offsets is None else np.ascontiguousarray(offsets, dtype=np.int64)
        bounds = np.arange(labels.size + 1, dtype=np.int64) if given is None else given
        if bounds.size < 1 or bounds[0] != 0 or bounds[-1] != labels.size or (np.diff(bounds) < 0).any():
            raise DataError(f"offsets must rise from 0 to the number of tokens, {labels.size}")
        found = tuple(as_gram(g, f"the Gram matrix of kernel {m}", check=check) for m, g in enumerate(grams))
        for m, gram in enumerate(found):
            if gram.n != labels.size:
                raise DataError(f"the Gram matrix of kernel {m} is for {gram.n} tokens, but y has {labels.size}")
        for m, block in enumerate(explicit):
            if block.indptr.size - 1 != labels.size:
                raise DataError(f"explicit block {m} has {block.indptr.size - 1} rows, but y has {labels.size} labels")
        chain = (given is not None) if transitions is None else bool(transitions)
        w = NO_FLOATS if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        if w.size not in (0, bounds.size - 1) or not np.isfinite(w).all() or (w < 0).any():
            raise DataError(f"weight must have one finite number >= 0 for each of the {bounds.size - 1} sequences")
        return cls(found, bounds, labels, k, chain, tuple(explicit), w)


def parts_of(problem: KernelProblem, coef: Floats, scale: Floats, transition: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (coefficients of each kernel, weights of explicit blocks, transitions).

    theta_m = scale[m] sum_t coef[t] phi_m(x_t).
    """
    kernels, explicit = np.split(scale, [len(problem.grams)])
    rows = [s * np.asarray(block.matrix().T @ coef) for s, block in zip(explicit, problem.explicit, strict=True)]
    weights = np.concatenate(rows) if rows else np.zeros((0, problem.n_labels))
    return kernels[:, None, None] * coef, weights, transition.copy()


# --- the penalty as a function of the vector of block norms ----------------------------------------------------


def on_norms(penalty: Any, count: int) -> Any:
    """Return h with Omega(theta) = h(norm(theta_1), ..., norm(theta_count)); raise `Unsupported` without one.

    >>> from spom.penalties import SparseMKL
    >>> on_norms(SparseMKL(2.0), 2).value([1.0, 2.0])
    9.0
    """
    given = make("penalty", penalty) if isinstance(penalty, str) else penalty
    found = given.on_rows(count)
    if found is None:
        what = "SparseMKL, GroupLasso, LqMKL, ElasticNetMKL, SquaredL2, L2, Zero"
        raise Unsupported(f"blocks of kernels take a penalty of their norms ({what}, ...), not {penalty!r}")
    return found


def reach(h: Any, count: int, value: float) -> float:
    """Return the largest norm of a single block whose penalty is at most `value`; inf if there is none.

    >>> from spom.penalties import SparseMKL
    >>> round(reach(SparseMKL(0.5, groups=1), 3, 4.0), 6)
    4.0
    """
    if count == 0:
        return np.inf
    units = np.eye(count) if count <= 64 else np.eye(count)[:64]
    unit: Floats = units[int(np.argmin([h.value(e) for e in units]))]
    low, high = 0.0, 1.0
    while h.value(high * unit) < value:
        low, high = high, 4.0 * high
        if high > 1e12:
            return np.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if h.value(middle * unit) <= value else (low, middle)
    return high


def chosen_penalty(given: Any, count: int, total: float) -> Any:
    """Return the penalty that `penalty=` stands for, for `count` blocks and examples of this total weight N.

    `"auto"` is `SparseMKL(1 / (2 N))`, i.e. C = 1 / (strength N) = 2. On handwritten words C = 4 is .6 points
    worse, and C was not varied elsewhere. Any other name gets the strength at which the penalty of a single block of
    norm 2 sqrt(N) is 1, the hinge loss at zero. None is no penalty.

    >>> from spom.penalties import GroupLasso
    >>> chosen_penalty("auto", 2, 100.0), chosen_penalty("group-lasso", 2, 100.0), chosen_penalty(None, 2, 100.0)
    (SparseMKL(strength=0.005), GroupLasso(strength=0.05), Zero())
    """
    if given is None:
        return make("penalty", "zero")
    if not isinstance(given, str):
        return given
    found = make("penalty", "sparse-mkl" if given == "auto" else given)
    if hasattr(found, "strength"):
        found.strength = 1.0
        unit = np.zeros(count)
        unit[:1] = 2.0 * np.sqrt(total)
        value = float(on_norms(found, count).value(unit))
        found.strength = 1.0 / value if value > 0.0 else 1.0
    return found


def needed_bytes(tokens: int, labels: int, blocks: int, itemsize: int, averaged: bool = False) -> int:
    """Return the memory of scores and coefficients, and of a copy of them in each state."""
    return tokens * labels * blocks * (2 * itemsize + (24 if averaged else 16))
