"""SPOM with kernels: structured predictors and the weights of their kernels, learnt online (Martins et al. 2011)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, check_restored, restore_random
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.penalties import ElasticNetMKL, GroupLasso, SparseMKL
from spom.solvers import examples
from spom.solvers.mkl.errors import Rule
from spom.solvers.mkl.online.coefficients import SQUARED
from spom.solvers.mkl.online.steps import step_for
from spom.solvers.mkl.online.workspace import Workspace
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.mkl.solver import KernelSolver

# A block is held at zero if its gradient is below this fraction of the threshold.
HOLD = 0.8


class Progress(NamedTuple):
    """The progress of a run: passes, rounds, seconds."""

    epochs: int
    rounds: int
    seconds: float


def thresholds(penalty: Any, norms: Floats) -> Floats:
    """Return the largest norm that the gradient of a zero block may have: the penalty's slope in that block.

    >>> thresholds(SparseMKL(0.5), np.array([1.0, 3.0, 0.0]))
    array([2., 2., 2.])
    """
    own = getattr(penalty, "weights", None)
    d = np.ones(norms.size) if own is None else np.asarray(own, dtype=np.float64)
    if isinstance(penalty, SparseMKL):
        return penalty.strength * d * float(d @ norms)
    if isinstance(penalty, GroupLasso):
        return penalty.strength * d
    if isinstance(penalty, ElasticNetMKL):
        return penalty.strength * penalty.l1_ratio * float(norms.sum()) * d
    return np.zeros(norms.size)


@register(
    "solver",
    "online-kernels",
    examples=lambda: [OnlineKernels(examples.two_kernels(), epochs=3, random_state=0)],
    cost="one Gram row per kernel and wrong token",
)
class OnlineKernels(KernelSolver):
    r"""min over theta of Omega(theta) + (1/N) sum_i L(theta; x_i, y_i), one sequence at a time, with kernels.

    A round decodes one sequence with its current scores, takes a step along the wrong parts, and shrinks the norms of
    the blocks by the prox of the penalty. Each kernel's block is kept as coefficients of training tokens and a scale,
    together with its scores of all training tokens, which only change by a row of the Gram matrix per wrong token.

    Iterating yields a `State` after each pass: `theta` is the flat concatenation of the coefficients (kernels, tokens,
    labels), the weights of explicit blocks (features, labels) and the transitions (labels, labels): see `parts`.
    `block_norms` are those of the blocks and, last, of the transitions.

    Parameters in addition to those of `KernelSolver`
    -----------------------------------------
    step : `"auto"`, `"paper"`, a number, a name or a rule of `spom.solvers.steps`: see `spom.solvers.mkl.online.steps`.
    output : `"last"` iterate, or the `"average"` of the iterates of all rounds.
    screen : after the passes 2, 4, 8, ..., hold blocks at zero whose mean gradient in that pass is clearly too small
        for the penalty to make them non-zero, and release them when it is not. Useless kernels then cost nothing. A
        round's proximal step seldom achieves this by itself, as each wrong sequence fills all blocks again.
    objective : compute the objective in each state (one more pass of decoding).

    Examples
    --------
    >>> from spom.kernels import Gaussian, Linear, build
    >>> from spom.solvers.iterate import last
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> problem = KernelProblem.of(build([Linear(), Gaussian(1.0)], X), y)
    >>> state = last(OnlineKernels(problem, penalty=SparseMKL(0.01), epochs=5, random_state=0))
    >>> bool(state.block_norms[1] > state.block_norms[0])
    True
    """

    method = "by label"
    outputs = ("last", "average")

    def __init__(
        self,
        problem: KernelProblem,
        *,
        step: Any = "auto",
        objective: bool = False,
        screen: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(problem, **shared)
        self.objective, self.screen = objective, screen
        self.step = step_for(step, self)

    def _default_strength(self) -> float:
        return 1e-3

    # --- the iterator -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[State]:
        problem = self.problem
        work = Workspace(problem, self.output == "average", self.slots, self.screen)
        rng = np.random.default_rng(self.random_state)
        done = Progress(0, 0, 0.0) if self.start is None else self._resume(self.start, work, rng)
        rule = self._rule()
        for epoch in range(done.epochs, self.epochs):
            begin = time.perf_counter()
            order = self._order(rng)
            steps = self.step.sizes(done.rounds + 1, order.size, max(1, order.size))
            work.model.gradients[...] = 0.0
            loss = work.run(order, steps, rule)
            work.settle()
            if self.screen and epoch & (epoch + 1) == 0 and 0 < epoch < self.epochs - 1:
                work.freeze(self._held(work, rng))
            objective = self._objective(work, rule) if self.objective else np.nan
            seconds = done.seconds + time.perf_counter() - begin
            done = Progress(epoch + 1, done.rounds + order.size, seconds)
            step = float(steps[-1]) if steps.size else np.nan
            yield self._state(work, done, loss / max(1, problem.n_sequences), objective, step, rng)

    def _held(self, work: Workspace, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Return which blocks to hold at zero in the next passes."""
        norms = np.sqrt(work.model.table[SQUARED])
        edge = thresholds(self.penalty, norms if self.learnt else norms[:-1])
        edge = edge[: self.problem.n_blocks]
        size = work.gradient_norms(rng)
        held = np.where(work.model.frozen, size <= edge, size < HOLD * edge)
        # The block with the largest gradient is never held.
        return np.asarray(held & (size < size.max(initial=0.0)))

    def _objective(self, work: Workspace, rule: Rule) -> float:
        """Return the objective; rounds with step zero add up the losses and only change counters."""
        counts, table = work.model.counts.copy(), work.model.table.copy()
        order = np.arange(self.problem.n_sequences)
        loss = work.run(order, np.zeros(order.size), rule)
        work.model.counts[:], work.model.table[:] = counts, table
        return loss / max(1, order.size) + self.penalty_value(np.sqrt(work.model.table[SQUARED]))

    def penalty_value(self, norms: Floats) -> float:
        """Omega, from the norms of the blocks and, last, of the transitions."""
        if not self.problem.transitions:
            return float(self.penalty.value(norms[:-1])) if norms.size > 1 else 0.0
        if self.learnt:
            return float(self.penalty.value(norms))
        own = 0.5 * self.strength * float(norms[-1]) ** 2
        return own + (float(self.penalty.value(norms[:-1])) if norms.size > 1 else 0.0)

    # --- states -----------------------------------------------------------------------------------------

    def _state(
        self, work: Workspace, done: Progress, loss: float, objective: float, step: float, rng: np.random.Generator
    ) -> State:
        model = work.model
        current = work.theta.copy() if self.copies else work.theta
        internal: dict[str, np.ndarray[Any, Any]] = {
            "scores": work.F.copy() if self.copies else work.F,
            "counts": model.counts.copy(),
            "frozen": model.frozen.copy(),
            # Files also store the number of rounds in the mean, which is the same.
            "rounds": np.full(2, done.rounds),
            "settings": self._settings(),
        }
        norms = np.sqrt(model.table[SQUARED])
        theta = current
        if model.averaged:
            internal["current"] = current
            sums = (model.sums, model.weights.sums, model.tsums)
            internal["sums"] = np.concatenate([part.reshape(-1) for part in sums])
            theta = internal["sums"] / max(1, done.rounds)
            # This takes a product with each Gram matrix, so only the last state has it; earlier ones report the last
            # iterate.
            norms = self._norms(theta) if done.epochs == self.epochs else norms
        return State(
            k=done.epochs,
            theta=theta,
            step=step,
            objective=objective,
            loss=loss,
            block_norms=norms,
            counters=Counters(gradients=done.rounds, proxes=done.rounds, examples=done.rounds),
            seconds=done.seconds,
            internal=internal,
            random=dict(rng.bit_generator.state),
        )

    def _resume(self, state: State, work: Workspace, rng: np.random.Generator) -> Progress:
        internal, model = state.internal, work.model
        self._check_settings(state)
        like = {"current": work.theta, "scores": work.F, "counts": model.counts, "frozen": model.frozen}
        like |= {"rounds": np.zeros(2, dtype=np.int64)} | ({"sums": work.theta} if model.averaged else {})
        internal = check_restored({"current": state.theta, **internal}, like)
        work.theta[...] = internal["current"]
        if model.averaged:
            A, model.weights.sums[...], model.tsums[...] = self.parts(internal["sums"])
            model.sums[...] = A.transpose(0, 2, 1)
        work.F[...] = internal["scores"]
        model.counts[...] = internal["counts"]
        model.frozen[...] = internal["frozen"]
        # Any non-zero block is on, so the norms are recomputed from the restored arrays.
        model.table[SQUARED] = 1.0
        work.settle()
        restore_random(rng, state.random)
        return Progress(state.k, int(internal["rounds"][0]), state.seconds)

    def parts(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients by block, token and label, explicit weights, transitions) of a theta, as views."""
        p = self.problem
        features = sum(block.n_features for block in p.explicit)
        shapes = ((len(p.grams), p.n_labels, p.n_tokens), (features, p.n_labels), (p.n_labels, p.n_labels))
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        pieces = np.split(theta, ends[:-1])
        A, V, T = (piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True))
        return A.transpose(0, 2, 1), V, T

    def _norms(self, theta: Floats) -> Floats:
        """Return the block norms of any coefficients, by products with the Gram matrices."""
        A, V, T = self.parts(theta)
        squares = [float(np.vdot(a, gram.dot(a))) for a, gram in zip(A, self.problem.grams, strict=True)]
        squares += [float(np.vdot(V[part], V[part])) for part in self.problem.explicit_parts]
        return np.sqrt(np.maximum([*squares, float(np.vdot(T, T))], 0.0))
