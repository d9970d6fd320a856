r"""Structured support vector machines with several kernels, solved to the optimum with a certificate.

    P(theta) = h(norm(theta_1), ..., norm(theta_M)) + (1/N) sum_i L(theta; x_i, y_i),
    L = max over y of score(x_i, y) + cost(y, y_i) - score(x_i, y_i).

Its dual has a weight for each output of each sequence. With A the right labels minus the expected ones, and v_m the
element that A gives in the space of kernel m,

    D = (1/N) (expected cost) - h*(norm(v_1) / N, ..., norm(v_M) / N)   <=  min P  <=  P(theta).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive, check_restored, restore_random
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.core.warning import warn
from spom.errors import DataError
from spom.penalties import SparseMKL
from spom.solvers import examples
from spom.solvers.mkl.frank_wolfe.gram import Mixture
from spom.solvers.mkl.frank_wolfe.passes import (
    Dual,
    Numbers,
    Sequences,
    find_gaps,
    forget,
    hinge_on_ray,
    sweep_double,
    sweep_single,
    total_cost,
    work_of,
)
from spom.solvers.mkl.frank_wolfe.penalties import BlockPenalty, KernelWeights, block_penalty
from spom.solvers.mkl.frank_wolfe.pool import Pool
from spom.solvers.mkl.problem import KernelProblem, parts_of

# An output without weight is dropped after this many passes in which it was not the best.
PATIENCE = 10
# Every other pass is split into this many parts; each visits the sequences with the largest gaps at its start.
PARTS = 4
# The maximum number of lengths of theta tried for its certificate, and their upper bound as a multiple of its own.
LENGTHS, LONGEST = 10, 1e3
# The maximum number of passes between certificates while the kernel weights do not move.
RARELY = 10
# The kernel weights only move if their part of the gap exceeds this fraction of the rest: less is noise.
SHARE = 0.05


@register(
    "solver",
    "frank-wolfe-mkl",
    examples=lambda: [FrankWolfeMKL(examples.two_kernels(), max_epochs=5, random_state=0)],
    cost="one Gram row per changed token",
)
class FrankWolfeMKL:
    """minimise h(block norms) + mean structured hinge loss, by block-coordinate Frank-Wolfe on the dual.

    The problems of the sequences are solved in turn, each on the outputs found for it so far, with the kernel weights
    fixed during a pass. Then the kernel weights move towards the best ones for the block norms. Each round ends with a
    certificate: the objective at the current point minus the best value of the dual so far, an upper bound on the
    distance to the optimum.

    Iterating yields one `State` per round, whose `theta` is `coef` and `internal["gap"]` the gap; it ends when that is
    at most `tol` times the objective. With float32 Gram matrices the gap has an error below 1e-6 times the objective.

    Parameters
    ----------
    problem : a `KernelProblem`; sequences of length 1 make a multiclass problem.
    penalty : `SparseMKL` (default), `LqMKL` with q < 2, `ElasticNetMKL`, `GroupLasso`, or `SquaredL2` for the plain sum
        of the kernels. Its groups are the blocks, whatever its own `groups`. The paper's C is 1 / (strength N), N the
        number of sequences; by default C = 1.
    transitions : `"fixed"` puts strength/2 norm(theta_0)^2 on the transitions in addition to the penalty (beta_0 = 1),
        `"learnt"` makes them one more block of it, the last.
    tol : the relative gap at which to stop.
    max_epochs : the maximum number of passes over the sequences.
    passes : passes per round (default: 1, more with many kernels, 3 without kernel weights to learn).
    cost : the cost of a wrong token.
    start : a state to resume, with the same bits.

    Attributes
    ----------
    coef, scale : (tokens, labels) and (blocks): theta_m = scale[m] sum_t coef[t] phi_m(x_t); `parts()` multiplies out.
    transition : (labels, labels), the scores of pairs.
    beta : the weights of the penalty's blocks, which sum to 1.
    objective, bound, gap, converged : P(theta), the best D, their difference, and whether it is small enough.
    support : the tokens whose row of `coef` is not zero.

    Examples
    --------
    >>> from spom.penalties import SparseMKL
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, -1.0], [4.0, -1.0]])
    >>> problem = KernelProblem.of([np.outer(x[:, 0], x[:, 0]), np.outer(x[:, 1], x[:, 1])], y=[0, 0, 1, 1])
    >>> solver = FrankWolfeMKL(problem, SparseMKL(0.1), tol=1e-9).solve()
    >>> solver.converged, solver.beta.round(3)
    (True, array([0., 1.]))
    >>> round(solver.objective, 6)
    0.025
    """

    def __init__(
        self,
        problem: KernelProblem,
        penalty: Any = None,
        *,
        transitions: str = "fixed",
        tol: float = 1e-2,
        max_epochs: int = 1000,
        passes: int | None = None,
        cost: float = 1.0,
        random_state: Any = None,
        start: State | None = None,
    ) -> None:
        if problem.n_sequences == 0 or problem.n_labels < 1:
            raise DataError("the problem has no sequences: there is nothing to learn from")
        if problem.n_blocks == 0:
            raise DataError("the problem has no kernels")
        if transitions not in ("fixed", "learnt"):
            raise ValueError(f"transitions must be 'fixed' or 'learnt'; it is {transitions!r}")
        self.problem = problem
        self.penalty = SparseMKL(1.0 / problem.n_sequences) if penalty is None else penalty
        self.transitions = transitions
        self.tol, self.cost = check_positive(tol, "tol"), check_positive(cost, "cost", zero=False)
        self.max_epochs, self.passes = int(max_epochs), passes
        self.random_state, self.start = random_state, start
        self.learnt = transitions == "learnt" and problem.transitions
        self.blocks: BlockPenalty = block_penalty(self.penalty, problem.n_blocks + self.learnt)
        self.objective, self.bound, self.gap, self.converged = np.inf, -np.inf, np.inf, False
        self.loss, self._length = np.nan, 1.0

    # --- the run ---------------------------------------------------------------------------------------------

    def solve(self) -> FrankWolfeMKL:
        """Run to the end; returns itself."""
        for _ in self:
            pass
        return self

    def __iter__(self) -> Iterator[State]:
        self._begin()
        # A certificate costs a product with each kernel, and a pass as much as a few of them.
        passes = self.passes or (min(1 + self.problem.n_blocks // 4, 10) if self.weights.moving else 3)
        while not self.converged and self._epochs < self.max_epochs:
            # While the kernel weights do not move, frequent certificates are of little use.
            count = passes if self._moved or self.passes else max(passes, min(self._epochs // 4, RARELY))
            for _ in range(min(count, self.max_epochs - self._epochs)):
                self._pass()
            self._look()
            yield self._state()
        if not self.converged:
            warn(self._reason())

    def _begin(self) -> None:
        p = self.problem
        k, n = p.n_labels, p.n_tokens
        self._clock, self._before = time.perf_counter(), 0.0
        weight = p.weight if p.weight.size else np.ones(p.n_sequences)
        self._sequences = Sequences(p.offsets, p.y, weight)
        self._mixture = Mixture(p)
        self._pool = Pool(p.offsets, p.y, weight)
        self._visited = np.flatnonzero(self._pool.counts)
        self.weights = KernelWeights(self.blocks)
        self._dual = Dual(np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, k)), np.zeros((k, k)))
        self._work = work_of(int(np.diff(p.offsets).max()), k)
        self._tally = self._work.tally
        self._random = np.random.default_rng(self.random_state)
        self._epochs, self._moved = 0, True
        self.objective, self.bound, self.gap, self.converged = np.inf, -np.inf, np.inf, False
        if self.start is not None:
            self._resume(self.start)
        A = self._dual.A
        self._each = self._mixture.products(A) if A.any() else [np.zeros((k, n))] * p.n_blocks
        self._rescale()

    def _rescale(self) -> None:
        """Adopt the current kernel weights; the sum of the kernels is computed on demand."""
        p, scales = self.problem, self.weights.scales / self.problem.n_sequences
        if self.learnt:
            self._scale, self._pair = np.ascontiguousarray(scales[:-1]), float(scales[-1])
        else:
            self._scale = scales
            self._pair = 1.0 / (self.blocks.strength * p.n_sequences) if p.transitions else 0.0
        self._K: tuple[Any, float] | None = None
        self._refresh()

    def _refresh(self) -> None:
        """Compute the scores from the products of each kernel, without the rounding of the pass."""
        _, F, V, T = self._dual
        F[:] = 0.0
        for s, part in zip(self._scale, self._each, strict=True):
            if s:
                F += s * part
        T[:] = self._pair * V

    def _pass(self) -> None:
        p, pool = self.problem, self._pool
        if self._K is None:
            self._K = self._mixture.combine(self._scale)
        K, scale = self._K
        numbers = Numbers(scale, self._pair, self.cost)
        sweep = sweep_single if K.dtype == np.float32 else sweep_double
        for order in self._orders():
            pool.make_space()
            sweep(order, self._sequences, K, numbers, self._dual, pool.outputs(), self._work)
        forget(p.offsets, pool.outputs(), PATIENCE)
        self._epochs += 1

    def _orders(self) -> Iterator[Ints]:
        """Yield the visits of a pass: each sequence once, or, in every other pass, those with the largest gaps.

        Decoding all sequences to find these is cheap compared with the kernel rows that a visit reads.
        """
        p, visits = self.problem, self._visited.size
        if self._epochs % 2 == 0:
            yield self._random.permutation(self._visited)
            return
        gaps = np.zeros(p.n_sequences)
        for part in np.array_split(np.arange(visits), min(PARTS, visits)):
            find_gaps(self._sequences, self.cost, self._dual, self._pool.outputs(), gaps)
            most = np.argsort(-gaps[self._visited], kind="stable")[: part.size]
            yield self._random.permutation(self._visited[most])

    def _look(self) -> None:
        """Compute the certificate at these kernel weights, then update the weights."""
        p, N = self.problem, self.problem.n_sequences
        A, _, V, T = self._dual
        self._each = self._mixture.products(A)
        self._refresh()
        pairs = float(np.vdot(V, V))
        squares = [float(np.vdot(A, part)) for part in self._each]
        norms = np.sqrt(np.maximum([*squares, pairs] if self.learnt else squares, 0.0)) / N
        free = 0.5 * pairs / (N * N * self.blocks.strength) if p.transitions and not self.learnt else 0.0
        b = self.weights.scales * norms
        cost = self.cost * float(total_cost(self._sequences, self._pool.outputs())) / N
        self.bound = max(self.bound, dual_bound(self.blocks, cost, norms, free))
        loss = self._lengthen(b, free)
        t = self._length
        self.block_norms = t * (b if self.learnt else np.append(b, self._pair * np.sqrt(pairs)))
        self.scale, self.transition = t * self._scale, t * T
        # The weights that match the norms: at the optimum they are those of the pass, and zero for a zero block.
        best = self.blocks.normalised(self.blocks.target(b))
        self.beta = best / best.sum() if best.any() else best
        self.gap = max(self.objective - self.bound, 0.0)
        self.converged = bool(self.gap <= self.tol * self.objective)
        # The parts of the gap due to the kernel weights (Fenchel-Young), and to the machine at these weights.
        outer = self.blocks.value(b) + self.blocks.conjugate(norms) - float(b @ norms)
        inner = min(loss + float(b @ norms) + 2.0 * free - cost, self.gap)
        self._outer = outer / max(self.gap, 1e-300)
        self._moved = not self.converged and outer > SHARE * inner and self.weights.update(norms)
        if self._moved:
            self._rescale()

    def _reason(self) -> str:
        """Say why the run stopped before its gap was small enough, and what to do."""
        diagonal = [float(gram.diagonal().mean()) for gram in self._mixture.grams]
        part = "the weights of the kernels" if self._outer > 0.5 else "the machine at these weights of the kernels"
        gap, strength = self.gap / self.objective, self.blocks.strength
        return (
            f"{self._epochs} passes ended at a gap of {gap:.2g} times the objective, not {self.tol:g}; most of it is "
            f"due to {part}. The kernels' mean diagonals are {min(diagonal):.2g} to {max(diagonal):.2g}, and the "
            f"strength is {strength:.2g}: normalise the kernels, use a larger strength (a smaller C), a larger tol, "
            "or more max_epochs"
        )

    def _lengthen(self, b: Floats, free: float) -> float:
        """Find the length t that minimises the loss at t theta plus h(t b) + t^2 free; return the loss at t = 1.

        If the rows are separable and the kernels are large relative to the strength, the optimum has almost no loss,
        and most of the objective of a slightly too short theta is loss. The loss is convex in t: tangents bound it from
        below, and the next t minimises the sum with their maximum.
        """
        tangents, t = [(0.0, 0.0)], 1.0
        self.objective, first, omega, degree = np.inf, 0.0, self.blocks.value(b), float(self.blocks.degree)

        def rest(t: float) -> float:
            return float(omega * t**degree + t * t * free)

        def bound(t: float) -> float:
            return max(start + t * slope for start, slope in tangents) + rest(t)

        for k in range(LENGTHS):
            loss, slope = hinge_on_ray(self._sequences, self.cost, self._dual.F, self._dual.T, t)
            loss, slope = float(loss) / self.problem.n_sequences, float(slope) / self.problem.n_sequences
            first = loss if k == 0 else first
            value = loss + rest(t)
            if value < self.objective:
                self.objective, self.loss, self._length = value, loss, t
            tangents.append((loss - t * slope, slope))
            least, t = golden(bound, LONGEST)
            close = self.objective - least <= 0.1 * self.tol * self.objective
            if close or self.objective - self.bound <= self.tol * self.objective:
                break
        return first

    # --- what comes out --------------------------------------------------------------------------------------

    @property
    def coef(self) -> Floats:
        """(tokens, labels): theta_m = scale[m] sum_t coef[t] phi_m(x_t)."""
        return np.array(self._dual.A.T, order="C")

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients of each kernel, weights of explicit blocks, transitions), as the online solver does."""
        return parts_of(self.problem, self.coef, self.scale, self.transition)

    @property
    def support(self) -> Ints:
        """The tokens whose row of `coef` is not zero."""
        return np.flatnonzero(self._dual.A.any(axis=0))

    def _state(self) -> State:
        weights, pool = self.weights, self._pool.packed()
        numbers = np.array([self.gap, self.objective, self.bound, self.loss])
        internal = {
            "gap": np.array(self.gap),
            "relative_gap": np.array(self.gap / self.objective if self.objective > 0.0 else 0.0),
            "beta": self.beta.copy(),
            "epochs": np.array(self._epochs),
            "numbers": numbers,
            "pairs": self._dual.V.copy(),
            "tally": self._tally.copy(),
            "moved": np.array(self._moved),
            "scale": self.scale.copy(),
            "transition": self.transition.copy(),
            "scales": weights.scales.copy(),
            "pace": weights.pace.copy(),
            "before": weights.before.copy(),
            **{f"pool.{name}": a for name, a in pool.items()},
        }
        return State(
            k=self._epochs,
            theta=self.coef,
            objective=self.objective,
            loss=self.loss,
            block_norms=self.block_norms.copy(),
            counters=Counters(gradients=int(self._tally[0]), examples=self._epochs * self.problem.n_sequences),
            seconds=self._before + time.perf_counter() - self._clock,
            internal=internal,
            random=dict(self._random.bit_generator.state),
        )

    def _resume(self, state: State) -> None:
        """Resume from a state of a run on the same problem."""
        kept, weights, V = state.internal, self.weights, self._dual.V
        like = {"theta": self.coef, "pairs": V, "tally": self._tally, "scales": weights.scales}
        like |= {"pace": weights.pace, "before": weights.before, "epochs": np.array(0), "numbers": np.zeros(4)}
        like |= {"scale": np.zeros(self.problem.n_blocks), "transition": V, "beta": weights.scales}
        like |= {"moved": np.array(True)} if "moved" in kept else {}
        check_restored({**kept, "theta": state.theta}, like)
        self._dual.A[:], V[:] = state.theta.T, kept["pairs"]
        pool = {name: kept.get(f"pool.{name}", np.zeros(0)) for name in ("outputs", "weights", "ages", "counts")}
        self._pool.restore(self._pool.checked(pool, self.problem.n_labels))
        self.weights.scales, self.weights.pace = kept["scales"].copy(), kept["pace"].copy()
        self.weights.before = kept["before"].copy()
        self.gap, self.objective, self.bound, self.loss = (float(x) for x in kept["numbers"])
        if state.block_norms is not None:
            self.block_norms = state.block_norms.copy()
        self.scale, self.transition, self.beta = kept["scale"].copy(), kept["transition"].copy(), kept["beta"].copy()
        self.converged = bool(self.gap <= self.tol * self.objective)
        self._tally[:] = kept["tally"]
        self._epochs, self._before = int(kept["epochs"]), state.seconds
        self._moved = bool(kept.get("moved", True))
        restore_random(self._random, state.random)


def dual_bound(blocks: BlockPenalty, cost: float, norms: Floats, free: float) -> float:
    """Return the largest value of the dual on the line from zero, where all have their right output, to this point.

    s cost - h*(s norms) - s^2 free is concave in s. The best s is < 1 if the point itself is not feasible (a group
    lasso whose v is too long) or too far. `free` is the conjugate of the part with a fixed weight.
    """

    def value(s: float) -> float:
        return blocks.conjugate(s * norms) + s * s * free - s * cost

    return max(-golden(value, 1.0)[0], -value(1.0), 0.0)


def golden(value: Callable[[float], float], high: float) -> tuple[float, float]:
    """Return the least value of a convex function by golden section from 0 to `high`, and its argument."""
    ratio, low = 0.5 * (np.sqrt(5.0) - 1.0), 0.0
    best = np.inf, low
    for _ in range(60):
        width = ratio * (high - low)
        a, b = high - width, low + width
        at_a, at_b = value(a), value(b)
        best = min(best, (at_a, a), (at_b, b))
        low, high = (low, b) if at_a <= at_b else (a, high)
    return best
