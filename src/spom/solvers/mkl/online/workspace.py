"""The arrays that the rounds with kernels write: cached scores, coefficients, weights, and their scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.solvers.mkl.errors import Rule, errors_of
from spom.solvers.mkl.explicit import Weights
from spom.solvers.mkl.gram_rows import active_of
from spom.solvers.mkl.online.coefficients import PEAK, SCALE, SIGMA, SQUARED, Model, rescale
from spom.solvers.mkl.online.rounds import Work, rounds_double, rounds_single
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.mkl.store import AT, WANTED, Store

# The number of rows of each Gram matrix from which the blocks' gradients are estimated.
SAMPLE = 256


class Workspace:
    """The arrays of a run: scores and coefficients, (blocks, labels, tokens), small relative to the Gram matrices.

    `store` is the problem as the loops read it, `model` is written by them, and `F` has the scores.
    """

    def __init__(
        self, problem: KernelProblem, averaged: bool, slots: int | None = None, screened: bool = False
    ) -> None:
        self.problem, self.store = problem, Store(problem, slots)
        n, k, M, features = problem.n_tokens, problem.n_labels, len(problem.grams), self.store.features
        self.F = np.zeros((M, k, n), dtype=self.store.dtype)
        # A state's theta: coefficients by label, like the scores, then explicit weights, then transitions.
        self.theta = np.zeros(M * n * k + features * k + k * k)
        kernels, explicit, chain = np.split(self.theta, [M * n * k, M * n * k + features * k])
        shapes = ((M, k, n), (features, k), (k, k)) if averaged else ((M, 0, n), (0, k), (0, 0))
        sums, vsums, tsums = (np.zeros(shape) for shape in shapes)
        table = np.zeros((4, problem.n_blocks + 1))
        table[SCALE] = 1.0
        self.model = Model(
            A=kernels.reshape(M, k, n),
            amarks=np.zeros((M, n), dtype=np.int64),
            sums=sums,
            fmarks=np.zeros((M, k), dtype=np.int64),
            weights=Weights(explicit.reshape(features, k), np.zeros(features, dtype=np.int64), vsums),
            T=chain.reshape(k, k),
            tsums=tsums,
            stamps=np.zeros(problem.n_blocks, dtype=np.int64),
            table=table,
            frozen=np.zeros(problem.n_blocks, dtype=np.bool_),
            gradients=np.zeros((n, k) if screened else (0, k)),
            counts=np.zeros(7, dtype=np.int64),
            averaged=averaged,
        )

    # --- running ---------------------------------------------------------------------------------------

    def run(self, order: Ints, steps: Floats, rule: Rule) -> float:
        """Run rounds in this order, computing missing rows on demand; return the sum of losses."""
        store, counts, blocks, total = self.store, self.model.counts, self.problem.n_blocks, 0.0
        loop = rounds_single if store.dtype == np.float32 else rounds_double
        work = Work(
            errors_of(store.longest, self.problem.n_labels),
            np.zeros(blocks + rule.learnt),
            np.zeros(blocks + 1),
            active_of(blocks),
            np.zeros(max(1, len(store.dense) * store.longest), dtype=np.int64),
        )
        counts[AT] = 0
        while True:
            total += loop(order, steps, self.F, store.rows, store.data, self.model, rule, work)
            if counts[WANTED] == 0:
                return float(total)
            store.supply(order, counts, work.wanted, self._scores)

    def _scores(self, tokens: Ints) -> Floats:
        """Return scores of these tokens by the dense kernels."""
        model, scores = self.model, np.zeros((self.problem.n_labels, tokens.size))
        for m in self.store.dense:
            fresh = model.fmarks[m] == model.stamps[m]
            scores[fresh] += model.table[SCALE, m] * self.F[m][fresh][:, tokens]
        return scores

    # --- between passes --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Set scales to 1, clear stale entries and recompute norms, so that a saved run resumes from the same bits."""
        model, table, M = self.model, self.model.table, len(self.problem.grams)
        scale, sigma, off = table[SCALE], table[SIGMA], table[SQUARED] == 0.0
        for m in range(M):
            stale = (model.amarks[m] != model.stamps[m]) | off[m]
            if stale.any():
                model.A[m][:, stale] = 0.0
            self.F[m][(model.fmarks[m] != model.stamps[m]) | off[m]] = 0.0
            if model.averaged and sigma[m]:
                model.sums[m] += sigma[m] * model.A[m]
            table[SQUARED, m] = max(0.0, rescale(model.A[m], self.F[m], scale[m]))
        V, marks, vsums = model.weights
        for m, part in enumerate(self.problem.explicit_parts, M):
            V[part][(marks[part] != model.stamps[m]) | off[m]] = 0.0
            if model.averaged:
                vsums[part] += sigma[m] * V[part]
            V[part] *= scale[m]
            table[SQUARED, m] = float(np.vdot(V[part], V[part]))
        if model.averaged:
            model.tsums[:] += sigma[-1] * model.T
        model.T[:] *= scale[-1]
        table[SQUARED, -1] = float(np.vdot(model.T, model.T))
        table[PEAK], table[SCALE], table[SIGMA] = table[SQUARED], 1.0, 0.0
        for old in (model.fmarks, model.amarks, marks, model.stamps):
            old[...] = 0

    def gradient_norms(self, rng: np.random.Generator) -> Floats:
        """Return the norm of each block of the last pass's mean gradient, from a sample of the wrong tokens' rows."""
        wrong = np.flatnonzero(self.model.gradients.any(axis=1))
        some = rng.permutation(wrong)[:SAMPLE]
        D = self.model.gradients / max(1, self.problem.n_sequences)
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
        """Switch these blocks off until they are released; only between passes."""
        model, M, parts = self.model, len(self.problem.grams), self.problem.explicit_parts
        for m in np.flatnonzero(off & ~model.frozen).tolist():
            if m < M:
                model.A[m], self.F[m] = 0.0, 0.0
            else:
                model.weights.V[parts[m - M]] = 0.0
            model.table[SQUARED, m] = 0.0
        model.frozen[:] = off
