"""Training with kernels, for classifiers and taggers: the form of the Gram matrices, the solver, and its history."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.mkl.model import KernelModel, model_of
from spom.estimators.training import Arrays, Learner, Trainer
from spom.kernels.base import Kernel
from spom.kernels.building import build, computed
from spom.kernels.features import Features, Nystroem
from spom.kernels.function import Function
from spom.kernels.gram import DenseGram, Gram, SparseGram
from spom.kernels.memory import plan
from spom.penalties.base import block_weights
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem, needed_bytes, parts_of

SOLVERS = ("online", "frank-wolfe")
UPDATES = ("dual-averaging", "forward-backward")
log = logging.getLogger("spom.kernels")


@dataclass
class KernelFit:
    """The result of `fit_kernels`: the model, the transitions, and the course of the run."""

    model: KernelModel
    transitions: Floats
    explicit_weights: list[Floats]
    block_norms: Floats
    block_weights: Floats
    history: list[dict[str, Any]]
    converged: bool
    message: str


def as_kernels(given: Any) -> list[Kernel]:
    """Return a list of kernels from objects, registered names, names of scikit-learn's pairwise kernels, and callables.

    >>> as_kernels(["gaussian", "laplacian"])
    [Gaussian(), Laplacian()]
    """
    from spom.core import registry

    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    if not listed:
        raise ValueError("kernels must have at least one kernel")
    names = {entry.name for entry in registry.entries("kernel")}
    found: list[Kernel] = []
    for kernel in listed:
        if isinstance(kernel, Kernel):
            found.append(kernel)
        elif isinstance(kernel, str) and kernel in names:
            found.append(registry.make("kernel", kernel))
        elif isinstance(kernel, str) or (callable(kernel) and not isinstance(kernel, type)):
            found.append(Function(kernel))
        else:
            raise ValueError(f"a kernel must be an instance, a name or a function of two matrices, not {kernel!r}")
    return found


@dataclass
class Blocks:
    """Gram matrices and explicit features of the kernels, in the order of the given kernels."""

    kernels: list[Kernel]
    grams: list[Gram]
    features: list[Features]
    explicit: list[ExplicitBlock]
    order: list[int]
    slots: int | None
    message: str

    def some(self, kept: Ints) -> Blocks:
        """Return these Gram matrices alone, in the same order; for blocks without explicit features."""
        at = kept.tolist()
        kernels = [self.kernels[m] for m in at] if self.kernels else []
        return replace(self, kernels=kernels, grams=[self.grams[m] for m in at], order=[self.order[m] for m in at])

    def part(self, X: Any, rows: Ints, columns: Ints) -> list[Any]:
        """Return K(x_i, x_j) of each block for i in `rows`, j in `columns`; X has the examples if there are kernels."""
        found = [self.block(m, X, rows, columns) for m in range(len(self.grams))]
        for block in self.explicit:
            values = block.matrix()
            found.append(np.asarray(values[rows] @ values[columns].T))
        return found

    def block(self, m: int, X: Any, rows: Ints, columns: Ints) -> Any:
        """Return K(x_i, x_j) of Gram matrix m."""
        gram = self.grams[m]
        if isinstance(gram, DenseGram):
            return gram.values[np.ix_(rows, columns)]
        if self.kernels:
            return self.kernels[m].block(X[rows], X[columns])
        return gram.matrix[rows][:, columns]  # type: ignore[attr-defined]  # a sparse matrix was given


@dataclass(frozen=True)
class Making:
    """Options for making blocks: the available memory, other needs for it, and who is notified."""

    memory: Any
    labels: int
    dtype: Any = np.float32
    longest: int = 1
    n_jobs: int = 1
    averaged: bool = True
    verbose: int = 0
    label: str = ""

    @classmethod
    def of(cls, estimator: Any, labels: int, *, averaged: bool = True) -> Making:
        """Take `memory`, `precision`, `n_jobs` and `verbose` from an estimator."""
        from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types

        return cls(
            estimator.memory,
            labels,
            dtype=np.float32 if estimator.precision == "single" else np.float64,
            n_jobs=int(effective_n_jobs(estimator.n_jobs)),
            averaged=averaged,
            verbose=estimator.verbose,
            label=type(estimator).__name__,
        )


def blocks_of(given: Sequence[Kernel], X: Any, making: Making) -> Blocks:
    """Fit the kernels to the data and build what fits into memory: whole matrices, a cache of rows, or features."""
    n, dtype = X.shape[0], making.dtype
    maps: list[Features] = [f for f in given if isinstance(f, Features)]
    kernels = [kernel.fitted(X) for kernel in given if not isinstance(kernel, Features)]
    order = [m for m, kernel in enumerate(given) if not isinstance(kernel, Features)]
    grams: list[Gram] = []
    slots, message = None, ""
    if kernels:
        size = np.dtype(dtype).itemsize
        reserve = needed_bytes(n, making.labels, len(given), size, making.averaged)
        chosen = plan(kernels, n, memory=making.memory, itemsize=size, reserve=reserve, at_once=making.longest)
        message = chosen.message
        tell(message, making.verbose, making.label)
        if chosen.form == "kept":
            grams = build(kernels, X, dtype=dtype, n_jobs=making.n_jobs)
        elif chosen.form == "rows":
            grams, slots = computed(kernels, X, dtype), chosen.slots
        else:
            maps = [k if isinstance(k, Features) else Nystroem(k, chosen.components) for k in given]
            kernels, order = [], []
    maps = [f.fitted(X) for f in maps]
    explicit = [ExplicitBlock.of_dense(f.transform(X)) for f in maps]
    order = order + [m for m in range(len(given)) if m not in order]
    return Blocks(kernels, grams, maps, explicit, order, slots, message)


def tell(message: str, verbose: int, label: str) -> None:
    """Log a message, and print it if `verbose` is set."""
    log.info(message)
    if verbose and sys.stderr.isatty():
        print(f"{label}: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Options:
    """Options for learning; `chosen` replaces `"auto"`."""

    solver: str = "auto"
    update: str = "auto"
    loss: str = "hinge"
    penalty: Any = None
    transitions: str = "fixed"
    step: Any = "auto"
    epochs: int = 20
    output: str = "auto"
    tol: float = 1e-2
    cost: float = 1.0
    seed: int = 0
    choosing: int = 0

    def chosen(self) -> Options:
        """Replace `"auto"`: dual averaging for the hinge loss, which has few errors, else forward-backward steps."""
        solver = "online" if self.solver == "auto" else self.solver
        if solver not in SOLVERS:
            raise Unsupported(f"solver must be one of auto, {', '.join(SOLVERS)}; it is {solver!r}")
        if self.update not in ("auto", *UPDATES):
            raise Unsupported(f"update must be one of auto, {', '.join(UPDATES)}; it is {self.update!r}")
        if solver == "frank-wolfe" and self.loss != "hinge":
            raise Unsupported(f"solver='frank-wolfe' takes loss='hinge', not {self.loss!r}; solver='online' takes all")
        numbered = isinstance(self.step, str) and self.step == "auto"
        plain = "dual-averaging" if self.loss == "hinge" and numbered else "forward-backward"
        update = plain if self.update == "auto" else self.update
        auto = "average" if update == "dual-averaging" else "last"
        return replace(self, solver=solver, update=update, output=auto if self.output == "auto" else self.output)

    def make(self, problem: KernelProblem, slots: int | None, start: State | None) -> Any:
        """Return the solver."""
        shared: dict[str, Any] = {"transitions": self.transitions, "cost": self.cost, "random_state": self.seed}
        if self.solver == "frank-wolfe":
            from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL

            return FrankWolfeMKL(problem, self.penalty, tol=self.tol, start=start, **shared)
        shared |= {"loss": self.loss, "penalty": self.penalty, "step": self.step, "epochs": self.epochs}
        shared |= {"output": self.output, "slots": slots, "copies": False, "start": start}
        if self.update == "dual-averaging":
            from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels

            return DualAveragingKernels(problem, choosing=self.choosing, **shared)
        return OnlineKernels(problem, screen=True, **shared)


def fit_kernels(
    blocks: Blocks,
    problem: KernelProblem,
    X: Any,
    trainer: Trainer,
    options: Options,
    dev: Callable[[KernelFit], float] | None = None,
    among: int | None = None,
) -> KernelFit:
    """Run a solver on a problem whose blocks are `blocks` (and perhaps more explicit ones at its end).

    `dev` scores the current model on development data. `among` is the number of given blocks, if some were dropped.
    """
    options = options.chosen()
    solver, penalty, tol = options.solver, options.penalty, options.tol

    def make(start: State | None) -> Any:
        return options.make(problem, blocks.slots, start)

    # The blocks of the problem are kernels first; users see their own order, with zeros for the others.
    more = problem.n_blocks - len(blocks.order)
    count = max([among or 0, *(m + 1 for m in blocks.order)])
    places = [*blocks.order, *range(count, count + more)]

    def in_order(norms: Any) -> Floats:
        found = np.zeros(count + more)
        found[places] = norms[: len(places)]
        return found

    def found(model: Arrays) -> KernelFit:
        A, V, T = learner.parts(model)
        norms = in_order(model["norms"])
        ends = np.cumsum([block.n_features for block in problem.explicit])
        parts = [np.ascontiguousarray(part) for part in np.split(V, ends[:-1])] if ends.size else []
        own_maps = len(blocks.features)
        kept = model_of(blocks.kernels, A, X, blocks.features, parts[:own_maps])
        kept.kept = np.asarray([blocks.order[m] for m in kept.kept], dtype=np.int64)
        weights = block_weights(norms, penalty)
        return KernelFit(kept, T.copy(), parts[own_maps:], norms, weights, trainer.history, False, blocks.message)

    def entry(state: State) -> dict[str, Any]:
        return _entry(state, penalty, problem, in_order(state.block_norms))

    learner = KernelLearner(make, options.epochs if solver == "online" else None, entry)
    if dev is not None:
        learner.scores, learner.dev = True, lambda model: dev(found(model))
    fit = found(trainer.run(learner).model)
    fit.converged = _settled(trainer.history, tol) if solver == "online" else bool(learner.solver.converged)
    if fit.converged and solver != "online" and not trainer.over:
        trainer.stopped = "converged"
    return fit


class KernelLearner(Learner):
    """Passes of a solver with kernels: the model is theta, the norms of the blocks, and the other input of `parts`."""

    dev: Callable[[Arrays], float]

    def __init__(
        self, make: Callable[[State | None], Any], epochs: int | None, entry: Callable[[State], dict[str, Any]]
    ) -> None:
        self.make, self.epochs, self._entry = make, epochs, entry
        self.solver: Any = None

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the solver."""
        self.solver = self.make(start)
        found: Iterable[State] = self.solver
        return found

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        return self._entry(state)

    def model(self, state: State) -> Arrays:
        """Return the model of a state."""
        more: Arrays = {name: state.internal[name].copy() for name in ("scale", "transition") if name in state.internal}
        return {"theta": state.theta.copy(), "norms": np.asarray(state.block_norms).copy(), **more}

    def score(self, model: Arrays) -> float:
        """Return the score on development data."""
        return self.dev(model)

    def parts(self, model: Arrays) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients of each kernel, weights of explicit blocks, transitions)."""
        if "scale" in model:
            return parts_of(self.solver.problem, model["theta"], model["scale"], model["transition"])
        found: tuple[Floats, Floats, Floats] = self.solver.parts(model["theta"])
        return found


def _entry(state: State, penalty: Any, problem: KernelProblem, norms: Floats) -> dict[str, Any]:
    """Return an entry of the history; `norms` are in the users' order, without the transitions."""
    tokens = state.counters.examples * problem.n_tokens / max(1, problem.n_sequences)
    found = {
        "epoch": state.k,
        "objective": state.objective,
        "loss": state.loss,
        "blocks_kept": int(np.count_nonzero(norms)),
        "per_second": tokens / max(state.seconds, 1e-9),
        "block_norms": norms.tolist(),
        "block_weights": block_weights(norms, penalty).tolist(),
    }
    if "relative_gap" in state.internal:
        found["gap"] = float(state.internal["relative_gap"])
    return found


def _settled(history: list[dict[str, Any]], tol: float) -> bool:
    """Return whether the loss during the last pass hardly changed from that of the pass before."""
    if len(history) < 2:
        return False
    before, after = history[-2]["loss"], history[-1]["loss"]
    return bool(abs(before - after) <= tol * max(1.0, before))


def grams_of(given: Sequence[Any], names: str = "Gram matrix") -> Blocks:
    """Return precomputed Gram matrices as blocks."""
    from spom.kernels.gram import as_gram

    grams = [as_gram(gram, f"{names} {m}", among=len(given)) for m, gram in enumerate(_one_array(given))]
    single = [g for g in grams if isinstance(g, (DenseGram, SparseGram))]
    return Blocks([], list(single), [], [], list(range(len(single))), None, f"{len(single)} precomputed Gram matrices")


def _one_array(given: Sequence[Any]) -> Sequence[Any]:
    """Return dense matrices of one shape and type as parts of one array, which solvers do not copy again."""
    first = given[0] if len(given) > 1 else None
    if not isinstance(first, np.ndarray) or first.dtype not in (np.float32, np.float64) or first.ndim != 2:
        return given
    if not all(isinstance(a, np.ndarray) and a.shape == first.shape and a.dtype == first.dtype for a in given):
        return given
    return list(np.stack(given))
