"""Multiple kernel learning by repeated calls of a support vector machine: the baselines of SPOM."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import kernel
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.decoders.viterbi import viterbi
from spom.errors import DataError, Unsupported
from spom.penalties import SparseMKL
from spom.solvers import examples
from spom.solvers.mkl.frank_wolfe.gram import Mixture
from spom.solvers.mkl.frank_wolfe.passes import (
    GRAMS,
    Dual,
    Numbers,
    Sequences,
    Visit,
    Work,
    augmented,
    distance,
    find_near,
    move,
    push,
    total_hinge,
    work_of,
)
from spom.solvers.mkl.frank_wolfe.penalties import SquaredSum, block_penalty
from spom.solvers.mkl.problem import KernelProblem, parts_of

METHODS = ("gauss-seidel", "simple")
# The number of trials of a line search, each shorter than the one before.
TRIALS = 4


class Pegasos(NamedTuple):
    """The steps before this pass, the largest squared norm of w, and [factor, squared norm of w]: w = factor (A, V)."""

    done: Annotated[int, "int64"]
    largest: Annotated[float, "float64"]
    state: Annotated[Floats, "float64[::1]"]


@kernel("Tuple((int64, float64))(Visit, int64[::1], float64[:, ::1], float64, int32[::1])")
def find_margin(visit: Visit, gold: Ints, steps: Floats, cost: float, both: Any) -> tuple[int, float]:
    """Return (wrong tokens, score of gold minus that of the labels found); write gold and found labels to `both`."""
    n, unary = gold.size, visit.unary
    wrong, margin = 0, 0.0
    for s in range(n):
        both[s], both[n + s] = gold[s], visit.found[s]
        if visit.found[s] != gold[s]:
            wrong += 1
            margin += unary[s, gold[s]] - unary[s, visit.found[s]] + cost
    if wrong == 0:
        return 0, 0.0
    for s in range(1, n):
        margin += steps[both[s - 1], both[s]] - steps[both[n + s - 1], both[n + s]]
    return wrong, margin


def _pegasos(
    order: Ints, sequences: Sequences, K: Any, numbers: Numbers, pegasos: Pegasos, dual: Dual, work: Work
) -> None:
    """w <- (1 - 1/t) w + (1/t) weight (right features - features found), then projected to the ball.

    This is Pegasos for 1/2 norm(w)^2 + mean loss.
    """
    offsets, gold, k = sequences.offsets, sequences.gold, dual.F.shape[0]
    factor, squared = pegasos.state[0], pegasos.state[1]
    none, steps = np.zeros(k), np.empty((k, k))
    both = np.empty(2 * work.found.size, dtype=np.int32)
    for place in range(order.size):
        i, t = order[place], pegasos.done + place + 1
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        near = work.square[: n * n].reshape(n, n)
        visit = Visit(near, work.unary[:n], work.change[:n], work.found[:n], numbers.pair)
        augmented(dual.F, factor, gold, begin, numbers.cost, visit.unary)
        for a in range(k):
            for b in range(k):
                steps[a, b] = factor * dual.T[a, b]
        viterbi(visit.unary, steps, none, none, visit.found)
        work.tally[0] += 1
        shrink = 1.0 - 1.0 / t
        squared *= shrink * shrink
        if t == 1 or factor < 1e-20:
            # The factor would become zero, or lose the small entries of A: move it into the arrays.
            for array in dual:
                array *= factor * shrink
            factor = 1.0
        else:
            factor *= shrink
        wrong, margin = find_margin(visit, gold[begin : begin + n], steps, numbers.cost, both)
        if wrong == 0:
            continue
        find_near(K, numbers.scale, begin, near)
        g = sequences.weight[i] / t
        squared += 2.0 * g * shrink * margin + g * g * distance(both, 0, n, near, numbers.pair)
        move(both, n, 0, g / factor, visit, dual)
        work.tally[2] += push(visit.change, begin, K, numbers.scale, dual.A, dual.F)
        if squared > pegasos.largest:
            factor *= math.sqrt(pegasos.largest / squared)
            squared = pegasos.largest
    pegasos.state[0], pegasos.state[1] = factor, squared


_REST = "Numbers, Pegasos, Dual, Work)"
pegasos_single = kernel(f"void(int64[::1], Sequences, {GRAMS[0]}, {_REST}")(_pegasos)
pegasos_double = kernel(f"void(int64[::1], Sequences, {GRAMS[1]}, {_REST}")(_pegasos)


@register(
    "solver",
    "wrapper-mkl",
    examples=lambda: [WrapperMKL(examples.two_kernels(), epochs=5, random_state=0)],
    cost="a run of Pegasos for each set of kernel weights",
)
class WrapperMKL:
    """min over kernel weights s of [min over w of 1/2 norm(w)^2 + mean hinge loss, with the kernel sum_m s_m K_m].

    The inner machine is structured Pegasos, with `first` passes in the first call and `later` passes in the others.
    Each call starts from the end of the previous one and continues its count of steps. Pegasos takes the step 1 / t;
    with `offset` = c its counter starts at c times the number of sequences, so the first steps are smaller. The kernel
    weights follow from its result:

    - `method="gauss-seidel"`: the weights become the best ones for the block norms (Kloft et al. 2010);
    - `method="simple"`: a step along the reduced gradient, until a weight reaches zero or the slope stops being
      downhill (SimpleMKL, Rakotomamonjy et al. 2008); each trial of the line search is a call of the machine.

    Iterating yields a `State` after each pass of Pegasos, trials included, with the objective of the penalised problem
    (the one of `FrankWolfeMKL`) at that point; `internal["call"]` counts the calls.

    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, -1.0], [4.0, -1.0]])
    >>> problem = KernelProblem.of([np.outer(x[:, 0], x[:, 0]), np.outer(x[:, 1], x[:, 1])], y=[0, 0, 1, 1])
    >>> solver = WrapperMKL(problem, SparseMKL(0.1), epochs=100, random_state=0).solve()
    >>> solver.beta.round(2)
    array([0., 1.])
    """

    def __init__(
        self,
        problem: KernelProblem,
        penalty: Any = None,
        method: str = "gauss-seidel",
        *,
        transitions: str = "fixed",
        epochs: int = 100,
        first: int = 20,
        later: int = 3,
        offset: float = 0.0,
        cost: float = 1.0,
        random_state: Any = None,
    ) -> None:
        if problem.n_sequences == 0 or problem.n_blocks == 0:
            raise DataError("the problem has no sequences or no kernels: there is nothing to learn from")
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
        if transitions not in ("fixed", "learnt"):
            raise ValueError(f"transitions must be 'fixed' or 'learnt'; it is {transitions!r}")
        self.problem, self.method, self.transitions = problem, method, transitions
        self.penalty = SparseMKL(1.0 / problem.n_sequences) if penalty is None else penalty
        self.learnt = transitions == "learnt" and problem.transitions
        self.blocks = block_penalty(self.penalty, problem.n_blocks + self.learnt)
        if method == "simple" and not (isinstance(self.blocks, SquaredSum) and self.blocks.ratio == 1.0):
            raise Unsupported(f"method='simple' has kernel weights on a simplex: it takes SparseMKL, not {penalty!r}")
        self.epochs, self.first, self.later = int(epochs), int(first), int(later)
        self.offset = check_positive(offset, "offset")
        self.cost, self.random_state = check_positive(cost, "cost", zero=False), random_state

    def solve(self) -> WrapperMKL:
        """Run to the end; returns itself."""
        for _ in self:
            pass
        return self

    def __iter__(self) -> Iterator[State]:
        self._begin()
        yield from self._call(self.blocks.start(), self.first)
        yield from self._gauss_seidel() if self.method == "gauss-seidel" else self._simple()

    # --- what is done with the machine -------------------------------------------------------------------------

    def _gauss_seidel(self) -> Iterator[State]:
        while self._passes < self.epochs:
            b = self._scales * self._norms
            yield from self._call(self.blocks.normalised(self.blocks.target(b)), self.later)

    def _simple(self) -> Iterator[State]:
        share, step = self.blocks.shares(self._scales), np.inf
        while self._passes < self.epochs:
            way, kept = self._descent(share), self._machine()
            slope = float(way @ self._gradient())
            # Steps at most double, and the first changes no share by more than 0.1.
            first = 0.1 / max(float(np.abs(way).max()), 1e-300)
            step = min(2.0 * step if np.isfinite(step) else first, _reach(share, way))
            for _ in range(TRIALS):
                trial = np.maximum(share + step * way, 0.0)
                yield from self._call(self.blocks.normalised(trial), self.later)
                # The slope at the trial says whether the lowest point was passed. Values of the objective do not,
                # because the machine of each trial had more passes than the one before.
                after = float(way @ self._gradient())
                if after <= 0.0:
                    share = trial / trial.sum()
                    break
                step *= min(max(slope / (slope - after), 0.1), 0.9)
                self._restore(kept)
            else:
                yield from self._call(self.blocks.normalised(share), self.later)

    def _machine(self) -> tuple[Any, ...]:
        return tuple(a.copy() for a in self._dual), self._numbers.copy(), self._each, self._norms, self._steps

    def _restore(self, kept: tuple[Any, ...]) -> None:
        """Restore the machine before a trial that went too far; its passes still count."""
        dual, numbers, self._each, self._norms, self._steps = kept
        for array, old in zip((*self._dual, self._numbers), (*dual, numbers), strict=True):
            array[:] = old

    def _gradient(self) -> Floats:
        """Return the derivative of the machine's optimum in each share: -norm(v_m)^2 / (2 strength d_m^2)."""
        return np.asarray(-0.5 * self._norms**2 / (self.blocks.strength * self.blocks.weights**2))

    def _descent(self, share: Floats) -> Floats:
        """Return the reduced gradient: the largest share offsets the changes of the others, which stay >= 0."""
        gradient, most = self._gradient(), int(share.argmax())
        way = gradient[most] - gradient
        way[(share <= 0.0) & (way < 0.0)] = 0.0
        way[most] = 0.0
        way[most] = -way.sum()
        return np.asarray(way)

    # --- the machine -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        p = self.problem
        k, n = p.n_labels, p.n_tokens
        self._clock = time.perf_counter()
        weight = p.weight if p.weight.size else np.ones(p.n_sequences)
        self._sequences = Sequences(p.offsets, p.y, weight)
        self._order = np.flatnonzero(np.diff(p.offsets) > 0)
        self._mixture = Mixture(p)
        self._dual = Dual(np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, k)), np.zeros((k, k)))
        self._each = [np.zeros((k, n))] * p.n_blocks
        self._numbers = np.array([1.0, 0.0])
        self._work = work_of(int(np.diff(p.offsets).max()), k)
        self._largest = self.cost * float(weight @ np.diff(p.offsets)) / p.n_sequences
        self._random = np.random.default_rng(self.random_state)
        self._passes = self._calls = 0
        self._steps = round(self.offset * p.n_sequences)

    def _take(self, scales: Floats) -> None:
        """Set the scales of the blocks, and with them the sum of the kernels, the scores and the norm."""
        p = self.problem
        self._scales = scales
        self.scale = np.ascontiguousarray(scales[:-1]) if self.learnt else scales
        fixed = 1.0 / self.blocks.strength if p.transitions else 0.0
        self._pair = float(scales[-1]) if self.learnt else fixed
        self._K = self._mixture.combine(self.scale)
        A, F, V, T = self._dual
        F[:] = sum(s * part for s, part in zip(self.scale, self._each, strict=True))
        T[:] = self._pair * V
        size = float(np.vdot(A, F)) + self._pair * float(np.vdot(V, V))
        self._numbers[1] = self._numbers[0] ** 2 * size

    def _call(self, scales: Floats, passes: int) -> Iterator[State]:
        """Run the machine with these kernel weights, from its current point."""
        self._take(scales)
        self._calls += 1
        for _ in range(min(passes, self.epochs - self._passes)):
            K, scale = self._K
            numbers, order = Numbers(scale, self._pair, self.cost), self._random.permutation(self._order)
            pegasos = pegasos_single if K.dtype == np.float32 else pegasos_double
            run = Pegasos(self._steps, self._largest, self._numbers)
            pegasos(order, self._sequences, K, numbers, run, self._dual, self._work)
            self._passes += 1
            self._steps += order.size
            self._look()
            yield self._state()

    def _look(self) -> None:
        """Compute the objective of the penalised problem here, and the norms for the kernel weights."""
        p = self.problem
        A, F, V, T = self._dual
        self._each = self._mixture.products(A)
        factor = float(self._numbers[0])
        squares = [float(np.vdot(A, part)) for part in self._each]
        pairs = factor * factor * float(np.vdot(V, V))
        own = factor * np.sqrt(np.maximum(squares, 0.0))
        self._norms = np.append(own, np.sqrt(pairs)) if self.learnt else own
        loss = total_hinge(self._sequences, self.cost, factor * F, factor * T)
        self.loss = float(loss) / p.n_sequences
        free = 0.0 if self.learnt else 0.5 * self._pair * pairs
        b = self._scales * self._norms
        self.block_norms = b if self.learnt else np.append(b, self._pair * np.sqrt(pairs))
        self.objective = self.loss + self.blocks.value(b) + free
        self.beta = self._scales / self._scales.sum()
        self.transition = factor * T

    @property
    def coef(self) -> Floats:
        """(tokens, labels): theta_m = scale[m] sum_t coef[t] phi_m(x_t)."""
        return np.ascontiguousarray(self._numbers[0] * self._dual[0].T)

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients of each kernel, weights of explicit blocks, transitions), as the online solver does."""
        return parts_of(self.problem, self.coef, self.scale, self.transition)

    def _state(self) -> State:
        return State(
            k=self._passes,
            theta=self.coef,
            objective=self.objective,
            loss=self.loss,
            block_norms=self.block_norms.copy(),
            counters=Counters(gradients=int(self._work.tally[0]), examples=self._passes * self.problem.n_sequences),
            seconds=time.perf_counter() - self._clock,
            internal={"beta": self.beta.copy(), "call": np.array(self._calls)},
        )


def _reach(share: Floats, way: Floats) -> float:
    """Return the step at which the first share becomes zero."""
    down = way < 0.0
    return float((-share[down] / way[down]).min()) if down.any() else 0.0
