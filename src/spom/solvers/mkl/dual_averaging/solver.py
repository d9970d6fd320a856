"""Dual averaging over kernels: one set of coefficients for all of them, and exact zeros."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, check_positive, check_restored, restore_random
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import DataError
from spom.solvers import examples
from spom.solvers.mkl.dual_averaging.rounds import (
    NORM,
    SCALE,
    SIZE,
    SPREAD,
    SQUARE,
    STEPS,
    TOTAL,
    Dual,
    Work,
    bring_up_double,
    bring_up_single,
    rounds_double,
    rounds_single,
)
from spom.solvers.mkl.errors import Rule, errors_of
from spom.solvers.mkl.explicit import Weights
from spom.solvers.mkl.gram_rows import active_of
from spom.solvers.mkl.problem import KernelProblem, parts_of, reach
from spom.solvers.mkl.solver import KernelSolver
from spom.solvers.mkl.store import AT, CLOCK, WANTED, Store

# Scores of kernels that are on are recomputed from scratch after this many passes; until then, rounding is far smaller.
FRESH = 64
# Pass k has the weight k (k+1) (k+2), so the last fourth of the passes has most of it. On three folds of the
# handwritten words the mean of the last two passes, of the last fourth and of the last half are within .2 points of
# each other, and .3 to .6 above the last iterate.
POWER = 3
# The size of excluded blocks: any norm divided by it is negligible.
NEVER = 1e300


class DualAverage:
    """alpha, V, T and upper bounds of block norms, each over the number of rounds, averaged with weights k (k+1) (k+2).

    The mean of the sums of steps, each divided by its number of rounds, is again such a mean. So the prox of its block
    norms gives a model with exact zeros. Averaging removes the noise of the last rounds, which the last iterate has in
    full. The scores alpha K_m are only kept for the kernels that are on in the average.
    """

    def __init__(self, problem: KernelProblem, features: int) -> None:
        k = problem.n_labels
        self.problem = problem
        self.alpha = np.zeros((k, problem.n_tokens))
        self.V, self.T = np.zeros((features, k)), np.zeros((k, k))
        self.bounds = np.zeros(problem.n_blocks + 1)
        self.scores: dict[int, Floats] = {}

    def add(self, passes: int, dual: Any, bounds: Floats, F: Any, rounds: float) -> None:
        """Count one more pass: `F[m]` must be up to date for the kernels in `scores`."""
        c = (POWER + 1.0) / (passes + POWER)
        for own, new in ((self.alpha, dual.alpha), (self.V, dual.V), (self.T, dual.T), (self.bounds, bounds)):
            own += c * (new / rounds - own)
        for m, own in self.scores.items():
            own += c * (F[m] / rounds - own)

    def squares(self, m: int) -> float:
        """Return the exact norm(G_m)^2 of the average, and set bounds[m] to its root."""
        grams = self.problem.grams
        if m < len(grams):
            if m not in self.scores:
                self.scores[m] = np.ascontiguousarray(grams[m].dot(np.ascontiguousarray(self.alpha.T)).T)
            square = float(np.vdot(self.alpha, self.scores[m]))
        elif m < self.problem.n_blocks:
            part = self.V[self.problem.explicit_parts[m - len(grams)]]
            square = float(np.vdot(part, part))
        else:
            square = float(np.vdot(self.T, self.T))
        self.bounds[m] = np.sqrt(max(square, 0.0))
        return square

    def scales(self, prox: Any, beta: float, sizes: Floats, count: int) -> tuple[Floats, Floats]:
        """Return (scale, norm) of each block by `prox(norms, step)`; exact norms only for blocks that may be on."""
        exact = np.zeros(count, dtype=bool)
        root = np.sqrt(sizes)
        while True:
            norms = prox(self.bounds[:count] / root[:count] / beta, 1.0 / beta)
            new = np.flatnonzero((norms > 0.0) & ~exact)
            if new.size == 0:
                break
            for m in new.tolist():
                self.squares(m)
            exact[new] = True
        own = self.bounds[:count] * root[:count]
        scale = np.divide(norms, own, out=np.zeros(count), where=(norms > 0.0) & (own > 0.0))
        self.scores = {m: f for m, f in self.scores.items() if norms[m] > 0.0}
        return scale, np.where(scale > 0.0, norms, 0.0)


@register(
    "solver",
    "dual-averaging-kernels",
    examples=lambda: [DualAveragingKernels(examples.two_kernels(), epochs=3, random_state=0)],
    cost="one Gram row for each wrong token and kernel that is on",
)
class DualAveragingKernels(KernelSolver):
    r"""theta_t = argmin over theta of -<G_t, theta> + t Omega(theta) + (beta_t / 2) norm(theta)^2.

    G_t is the sum of all negative subgradients so far. In the space of each kernel it is a sum over training tokens
    with the *same* coefficients, so one array of them serves all kernels. Each block is theta_m = scale_m G_m, and the
    scales follow from the prox of the penalty on the vector of block norms. Zeros are exact, and a kernel that is off
    can come back. Kernels that are off need no scores, and their Gram rows are only read when a bound on their norm
    no longer proves that they are off (see `rounds.py`).

    Blocks are scaled: a kernel is divided by the mean of its diagonal, an explicit block by the mean squared length of
    its rows that are not empty. Averaged over all rows, a feature of few tokens would get a length far above 1 on these
    tokens, and decide alone. beta_t = sqrt(sum of squared norms of the steps, of the block where they are largest) /
    limit, as in AdaGrad with a single rate. `limit` is roughly the norm that the solution may have: sqrt(number of
    tokens), which is enough to fit tokens that have nothing in common, or less if the penalty would cost more than the
    loss at zero.

    Iterating yields a `State` after each pass; `theta` has the coefficients (tokens, labels), `internal["scale"]` the
    factors that multiply them in each block, and `internal["transition"]` the transitions: see `parts`. `block_norms`
    are those of the scaled blocks and, last, of the transitions.

    Parameters in addition to those of `KernelSolver`
    -----------------------------------------
    step : `"auto"`, or `limit` as a number.
    output : `"average"` of the dual variables over passes (see `DualAverage`), or the `"last"` iterate.
    choosing : after this many passes, the blocks that are off stay off, and the others are learnt from zero in the
        remaining passes. The steps of a block that goes off later stay in the shared coefficients for many passes.
    scale : whether blocks are scaled. `radius` bounds the scaled theta, and the average is projected too.

    Examples
    --------
    >>> from spom.kernels import Gaussian, Linear, build
    >>> from spom.penalties import SparseMKL
    >>> from spom.solvers.iterate import last
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> problem = KernelProblem.of(build([Linear(), Gaussian(1.0)], X), y)
    >>> state = last(DualAveragingKernels(problem, penalty=SparseMKL(0.01), epochs=5, random_state=0))
    >>> state.block_norms.round(1)
    array([0. , 4.5, 0. ])
    """

    method = "dual averaging"
    outputs = ("average", "last")

    def __init__(
        self, problem: KernelProblem, *, step: Any = "auto", scale: bool = True, choosing: int = 0, **shared: Any
    ) -> None:
        super().__init__(problem, **shared)
        self.choosing = choosing
        # The size is 1 for a block that is zero, and for the transitions.
        sizes = [*problem.mean_squares(present=True), 1.0]
        self.sizes = np.array([size if scale and size > 0.0 else 1.0 for size in sizes])
        self.limit = self._limit() if isinstance(step, str) and step == "auto" else check_positive(step, "step")

    def _default_strength(self) -> float:
        return 1.0 / (2.0 * max(1, self.problem.n_sequences))

    def _limit(self) -> float:
        """Return sqrt(tokens), or the norm of a block whose penalty equals the loss at zero, if that is less."""
        p = self.problem
        tokens = p.n_tokens if not p.weight.size else float(p.weight @ np.diff(p.offsets))
        each = np.log(max(2, p.n_labels)) if self.loss == "log" else max(self.cost, 1e-300)
        start = each * tokens / max(1, p.n_sequences)
        return min(float(np.sqrt(max(p.n_tokens, 1))), reach(self.penalty, self.count, start))

    # --- the iterator -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[State]:
        p = self.problem
        store, rng = Store(p, self.slots), np.random.default_rng(self.random_state)
        self._begin(store)
        done, seconds = 0, 0.0
        if self.start is not None:
            done, seconds = self._resume(self.start, rng), self.start.seconds
        rule = self._rule(self.limit)
        work = Work(
            errors_of(store.longest, p.n_labels),
            Weights(self._dual.V, np.zeros(store.features, dtype=np.int64), np.zeros((0, p.n_labels))),
            np.zeros(self.count),
            active_of(p.n_blocks),
            np.zeros(max(1, len(store.dense) * store.longest), dtype=np.int64),
        )
        for epoch in range(done, self.epochs):
            begin = time.perf_counter()
            if epoch == self.choosing > 0:
                self._begin_again(store.features)
            loss = self._pass(self._order(rng), store, rule, work)
            self._settle(store, epoch + 1 - (self.choosing if epoch >= self.choosing else 0))
            seconds += time.perf_counter() - begin
            yield self._state(epoch + 1, loss, seconds, rng)

    def _begin(self, store: Store) -> None:
        p = self.problem
        n, k, M = p.n_tokens, p.n_labels, len(p.grams)
        self._F = np.zeros((M, k, n), dtype=store.dtype)
        table = np.zeros((5, p.n_blocks + 1))
        table[SIZE] = self.sizes
        self._dual = Dual(
            alpha=np.zeros((k, n)),
            V=np.zeros((store.features, k)),
            T=np.zeros((k, k)),
            copies=np.zeros((M, k, n)),
            changed=np.zeros(n, dtype=np.int64),
            known=np.zeros(M, dtype=np.int64),
            spread=np.zeros((M, k)),
            table=table,
            sums=np.zeros(2),
            counts=np.zeros(8, dtype=np.int64),
        )
        self._average = DualAverage(p, store.features)

    def _begin_again(self, features: int) -> None:
        """Restart from zero, without the blocks that are off; keep all blocks if all are off."""
        dual, off = self._dual, self.scale[:-1] == 0.0
        sizes = dual.table[SIZE].copy()
        if not off.all():
            # With norms divided by NEVER, any prox makes them zero.
            sizes[:-1][off] = NEVER
        for array in dual:
            array[...] = 0
        dual.table[SIZE] = sizes
        self._F[...] = 0.0
        self._average = DualAverage(self.problem, features)

    def _pass(self, order: Any, store: Store, rule: Rule, work: Work) -> float:
        """Make one pass, computing missing rows and kernels on demand; return the sum of losses."""
        dual, total = self._dual, 0.0
        rounds = rounds_single if self._F.dtype == np.float32 else rounds_double
        dual.counts[AT] = 0
        while True:
            total += rounds(order, np.ones(order.size), self._F, store.rows, store.data, dual, rule, work)
            wanted = int(dual.counts[WANTED])
            if wanted == 0:
                return total
            if wanted < 0:
                self._renew(-1 - wanted)
                continue
            store.supply(order, dual.counts, work.wanted, lambda tokens: self._scores(store.dense, tokens))

    def _scores(self, kernels: list[int], tokens: Ints) -> Floats:
        """Return scores of these tokens by these kernels."""
        scores = np.zeros((self.problem.n_labels, tokens.size))
        for m in kernels:
            if self._dual.table[SCALE, m]:
                scores += self._dual.table[SCALE, m] * self._F[m][:, tokens]
        return scores

    def _renew(self, m: int) -> None:
        """Compute the scores of kernel m and its norm from scratch."""
        dual = self._dual
        self._F[m] = self.problem.grams[m].dot(np.ascontiguousarray(dual.alpha.T)).T
        dual.copies[m], dual.known[m] = dual.alpha, dual.counts[CLOCK]
        dual.table[SQUARE, m], dual.table[SPREAD, m] = max(0.0, float(np.vdot(dual.alpha, self._F[m]))), 0.0
        dual.spread[m] = 0.0

    def _settle(self, store: Store, passes: int) -> None:
        """Compute exact norms of the blocks that are on, then update the average."""
        dual, M = self._dual, len(self.problem.grams)
        table, kept = dual.table, self._average.scores
        on = np.flatnonzero(table[SCALE, :M])
        bring_up = bring_up_single if self._F.dtype == np.float32 else bring_up_double
        for m in sorted({*on.tolist(), *kept}):
            if passes % FRESH == 0 or (store.computed and table[SPREAD, m] > 0.0 and m in store.dense):
                self._renew(m)
            else:
                bring_up(self._F, store.rows, store.data.grams, dual, m)
        for m, part in enumerate(self.problem.explicit_parts, M):
            table[SQUARE, m] = float(np.vdot(dual.V[part], dual.V[part]))
        table[SQUARE, -1] = float(np.vdot(dual.T, dual.T))
        if self.output == "average" and dual.sums[TOTAL] > 0.0:
            bounds = np.sqrt(np.maximum(table[SQUARE] + table[SPREAD], 0.0))
            self._average.add(passes, dual, bounds, self._F, float(dual.sums[TOTAL]))
        self.scale, self.block_norms = self._scales()

    def _scales(self) -> tuple[Floats, Floats]:
        """Return (scale, norm) of each block and of the transitions of the result."""
        dual = self._dual
        if self.output == "last" or dual.sums[STEPS] <= 0.0:
            return dual.table[SCALE].copy(), dual.table[NORM].copy()
        beta = float(np.sqrt(dual.sums[STEPS])) / self.limit / float(dual.sums[TOTAL])
        scale, norms = np.zeros(self.sizes.size), np.zeros(self.sizes.size)
        found = self._average.scales(self.penalty.prox, beta, dual.table[SIZE], self.count)
        scale[: self.count], norms[: self.count] = found
        if self.problem.transitions and not self.learnt:
            scale[-1] = 1.0 / (beta + self.strength)
            norms[-1] = scale[-1] * np.linalg.norm(self._average.T)
        size = float(np.linalg.norm(norms))
        inside = self.radius / size if size > self.radius else 1.0
        return inside * scale, inside * norms

    # --- what comes out ---------------------------------------------------------------------------------

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients by kernel, token and label, explicit weights, transitions) after the last pass."""
        source: Any = self._dual if self.output == "last" else self._average
        return parts_of(self.problem, source.alpha.T, self.scale[:-1], self.scale[-1] * source.T)

    def _state(self, epoch: int, loss: float, seconds: float, rng: np.random.Generator) -> State:
        dual, average = self._dual, self._average
        source: Any = dual if self.output == "last" else average
        internal: dict[str, Any] = {**self._saved(), "scales": self.scale}
        internal |= {f"average.scores.{m}": scores for m, scores in average.scores.items()}
        internal |= {"scale": self.scale[:-1], "transition": self.scale[-1] * source.T}
        if self.copies:
            internal = {name: array.copy() for name, array in internal.items()}
        internal["settings"] = self._settings()
        done = epoch * self.problem.n_sequences
        return State(
            k=epoch,
            theta=np.ascontiguousarray(source.alpha.T),
            step=self.limit,
            loss=loss / max(1, self.problem.n_sequences),
            block_norms=self.block_norms.copy(),
            counters=Counters(gradients=done, proxes=done, examples=done),
            seconds=seconds,
            internal=internal,
            random=dict(rng.bit_generator.state),
        )

    def _saved(self) -> Arrays:
        """Return the arrays that a run resumes from, except the scores of the average."""
        found = {f"dual.{name}": array for name, array in self._dual._asdict().items()}
        found |= {f"average.{name}": vars(self._average)[name] for name in ("alpha", "V", "T", "bounds")}
        return {**found, "scores": self._F}

    def _resume(self, state: State, rng: np.random.Generator) -> int:
        kept, own, blocks = state.internal, self._saved(), self.problem.n_blocks + 1
        self._check_settings(state)
        like = own | {"scales": np.zeros(blocks), "block_norms": np.zeros(blocks)}
        # The scores of a kernel in the average have their own number type, float32 or float64.
        shape, prefix = self._F.shape[1:], "average.scores."
        known = {f"{prefix}{m}" for m in range(self._F.shape[0])}
        scores = {name: a for name, a in kept.items() if name.startswith(prefix)}
        if not known.issuperset(scores) or any(a.dtype.kind != "f" for a in scores.values()):
            raise DataError("the saved state has scores of kernels that this run does not have")
        like |= {name: np.zeros(shape, dtype=a.dtype) for name, a in scores.items()}
        check_restored(kept | {"block_norms": np.asarray(state.block_norms)}, like)
        for name, array in own.items():
            array[...] = kept[name]
        self._average.scores = {int(name.removeprefix(prefix)): a.copy() for name, a in scores.items()}
        self.scale, self.block_norms = kept["scales"].copy(), np.array(state.block_norms)
        restore_random(rng, state.random)
        return state.k
