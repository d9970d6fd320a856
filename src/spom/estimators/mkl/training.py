"""Training with kernels, for classifiers and taggers: the form of the Gram matrices, the solver, and its history."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.state import State
from spom.errors import DataError, Unsupported
from spom.estimators.mkl.model import KernelModel
from spom.estimators.training import Arrays, Learner, Trainer
from spom.kernels.base import Kernel
from spom.kernels.building import build, computed
from spom.kernels.features import Features, Nystroem
from spom.kernels.function import Function
from spom.kernels.gram import DenseGram, Gram, SparseGram, as_gram
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
    message: str
    history: list[dict[str, Any]] = field(default_factory=list)
    converged: bool = False


def as_kernels(given: Any) -> list[Kernel]:
    """Return a list of kernels from objects, registered names, names of scikit-learn's pairwise kernels, and callables.

    >>> as_kernels(["gaussian", "laplacian"])
    [Gaussian(), Laplacian()]
    """
    from spom.core import registry

    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    if not listed:
        raise ValueError("kernels must contain at least one kernel")
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

    def model(self, A: Floats, X: Any, weights: list[Floats]) -> KernelModel:
        """Return the model with the kernels that have weight, and the training rows that carry some of it."""
        kept = np.flatnonzero([a.any() for a in A])
        columns = np.flatnonzero(A[kept].any(axis=(0, 2)))
        support = None if X is None else X[columns]
        chosen = [self.kernels[m] for m in kept.tolist()] if self.kernels else []
        coef = np.ascontiguousarray(A[kept][:, columns])
        places = np.array(self.order, dtype=np.int64)[kept]
        return KernelModel(places, chosen, coef, support, columns, self.features, weights)


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
            _check_sizes(kernels, grams)
        elif chosen.form == "rows":
            grams, slots = computed(kernels, X, dtype), chosen.slots
        else:
            maps = [k if isinstance(k, Features) else Nystroem(k, chosen.components) for k in given]
            kernels, order = [], []
    maps = [f.fitted(X) for f in maps]
    explicit = [ExplicitBlock.of_dense(f.transform(X)) for f in maps]
    order = order + [m for m in range(len(given)) if m not in order]
    return Blocks(kernels, grams, maps, explicit, order, slots, message)


def _check_sizes(kernels: Sequence[Kernel], grams: Sequence[Gram]) -> None:
    """Raise a `DataError` if K(x, x) is zero or negative on average and K is not zero: no weight is right for it.

    Differences of rows, as in `"additive_chi2"`, are such kernels.
    """
    for kernel, gram in zip(kernels, grams, strict=True):
        size, values = float(gram.diagonal().mean()), getattr(gram, "values", None)
        most = 0.0 if values is None else max(float(values.max()), -float(values.min()))
        if size < 0.0 or size < 1e-9 * most:
            what = f"{kernel!r} is not positive semidefinite: the mean of K(x, x) is {size:g}"
            raise DataError(f"{what}; add a constant, or take its exponential, as 'chi2' does for 'additive_chi2'")


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
            raise Unsupported(f"solver='frank-wolfe' needs loss='hinge', not {self.loss!r}; use solver='online'")
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
    among: int = 0,
) -> KernelFit:
    """Run a solver on a problem whose blocks are `blocks` (and perhaps more explicit ones at its end).

    `options` are the result of `Options.chosen`. `dev` scores the current model on development data. `among` is the
    number of given blocks, if some were dropped.
    """
    learner = KernelLearner(blocks, problem, X, options, dev, among)
    fit = learner.fit(trainer.run(learner).model)
    fit.history, online = trainer.history, options.solver == "online"
    fit.converged = _settled(fit.history, options.tol) if online else bool(learner.solver.converged)
    if fit.converged and not online and not trainer.over:
        trainer.stopped = "converged"
    return fit


class KernelLearner(Learner):
    """Passes of a solver with kernels: the model is theta, the norms of the blocks, and the other input of `parts`.

    The blocks of the problem are kernels first; users see their own order, with zeros for dropped ones.
    """

    dev: Any
    solver: Any

    def __init__(
        self,
        blocks: Blocks,
        problem: KernelProblem,
        X: Any,
        options: Options,
        dev: Callable[[KernelFit], float] | None,
        among: int,
    ) -> None:
        self.blocks, self.problem, self.X, self.options = blocks, problem, X, options
        self.dev, self.scores, self.solver = dev, dev is not None, None
        self.epochs = options.epochs if options.solver == "online" else None
        count = max([among, *(m + 1 for m in blocks.order)])
        self.count = count + problem.n_blocks - len(blocks.order)
        self.places = [*blocks.order, *range(count, self.count)]

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the solver."""
        self.solver = self.options.make(self.problem, self.blocks.slots, start)
        found: Iterable[State] = self.solver
        return found

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`; norms are in the users' order, without the transitions."""
        norms, p = self._in_order(state.block_norms), self.problem
        tokens = state.counters.examples * p.n_tokens / max(1, p.n_sequences)
        found = {
            "epoch": state.k,
            "objective": state.objective,
            "loss": state.loss,
            "blocks_kept": int(np.count_nonzero(norms)),
            "per_second": tokens / max(state.seconds, 1e-9),
            "block_norms": norms.tolist(),
            "block_weights": block_weights(norms, self.options.penalty).tolist(),
        }
        if "relative_gap" in state.internal:
            found["gap"] = float(state.internal["relative_gap"])
        return found

    def model(self, state: State) -> Arrays:
        """Return the model of a state."""
        more: Arrays = {name: state.internal[name].copy() for name in ("scale", "transition") if name in state.internal}
        return {"theta": state.theta.copy(), "norms": np.asarray(state.block_norms).copy(), **more}

    def score(self, model: Arrays) -> float:
        """Return the score on development data."""
        return float(self.dev(self.fit(model)))

    def fit(self, model: Arrays) -> KernelFit:
        """Return the result with this model."""
        A, V, T = self._parts(model)
        norms, own = self._in_order(model["norms"]), len(self.blocks.features)
        parts = [np.ascontiguousarray(V[part]) for part in self.problem.explicit_parts]
        kept = self.blocks.model(A, self.X, parts[:own])
        weights = block_weights(norms, self.options.penalty)
        return KernelFit(kept, T.copy(), parts[own:], norms, weights, self.blocks.message)

    def _in_order(self, norms: Any) -> Floats:
        found = np.zeros(self.count)
        found[self.places] = norms[: len(self.places)]
        return found

    def _parts(self, model: Arrays) -> tuple[Floats, Floats, Floats]:
        """Return (coefficients of each kernel, weights of explicit blocks, transitions)."""
        if "scale" in model:
            return parts_of(self.problem, model["theta"], model["scale"], model["transition"])
        found: tuple[Floats, Floats, Floats] = self.solver.parts(model["theta"])
        return found


def _settled(history: list[dict[str, Any]], tol: float) -> bool:
    """Return whether the loss during the last pass hardly changed from that of the pass before."""
    if len(history) < 2:
        return False
    before, after = history[-2]["loss"], history[-1]["loss"]
    return bool(abs(before - after) <= tol * max(1.0, before))


def grams_of(given: Sequence[Any]) -> Blocks:
    """Return precomputed Gram matrices as blocks."""
    grams = [as_gram(gram, f"Gram matrix {m}", among=len(given)) for m, gram in enumerate(_one_array(given))]
    for m, gram in enumerate(grams):
        if not isinstance(gram, (DenseGram, SparseGram)):
            what = f"Gram matrix {m} must be a dense or sparse matrix because kernels='precomputed', found"
            raise Unsupported(f"{what} {type(gram).__name__}; with rows and kernels instead, leave 'precomputed' out")
    return Blocks([], grams, [], [], [*range(len(grams))], None, f"{len(grams)} precomputed Gram matrices")


def _one_array(given: Sequence[Any]) -> Sequence[Any]:
    """Return dense matrices of one shape and type as parts of one array, which solvers do not copy again."""
    first = given[0] if len(given) > 1 else None
    if not isinstance(first, np.ndarray) or first.dtype not in (np.float32, np.float64) or first.ndim != 2:
        return given
    if not all(isinstance(a, np.ndarray) and a.shape == first.shape and a.dtype == first.dtype for a in given):
        return given
    return list(np.stack(given))
