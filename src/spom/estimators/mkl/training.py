"""Training with kernels, for classifiers and taggers: the form of the Gram matrices, the solver, and its history."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.callbacks import Callbacks
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.mkl.model import KernelModel, model_of
from spom.kernels.base import Kernel
from spom.kernels.building import build, computed
from spom.kernels.features import Features, Nystroem
from spom.kernels.function import Function
from spom.kernels.gram import DenseGram, Gram, SparseGram
from spom.kernels.memory import plan
from spom.solvers.iterate import checkpoint as checkpointed
from spom.solvers.iterate import progress, saved
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.online.workspace import needed_bytes
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem

SOLVERS = ("online", "frank-wolfe")
log = logging.getLogger("spom.kernels")


@dataclass
class KernelFit:
    """What `fit_kernels` gives: the model, the transitions, and how the run went."""

    model: KernelModel
    transitions: Floats
    explicit_weights: list[Floats]
    block_norms: Floats
    block_weights: Floats
    history: list[dict[str, Any]]
    converged: bool
    message: str
    state: State | None = field(default=None, repr=False)


def as_kernels(given: Any) -> list[Kernel]:
    """A list of kernels from objects, registered names, names of scikit-learn's pairwise kernels, and callables.

    >>> as_kernels(["gaussian", "laplacian"])
    [Gaussian(), Function(function='laplacian')]
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
    """Gram matrices and explicit features of the kernels, in the order of the kernels that were given."""

    kernels: list[Kernel]
    grams: list[Gram]
    features: list[Features]
    explicit: list[ExplicitBlock]
    order: list[int]
    slots: int | None
    message: str


def blocks_of(
    given: Sequence[Kernel],
    X: Any,
    *,
    memory: Any,
    labels: int,
    longest: int,
    dtype: Any,
    n_jobs: int,
    averaged: bool,
    verbose: int,
    label: str,
) -> Blocks:
    """Fit the kernels to the data and make what the budget allows: whole matrices, a cache of rows, or features."""
    n = X.shape[0]
    maps: list[Features] = [f for f in given if isinstance(f, Features)]
    kernels = [kernel.fitted(X) for kernel in given if not isinstance(kernel, Features)]
    order = [m for m, kernel in enumerate(given) if not isinstance(kernel, Features)]
    grams: list[Gram] = []
    slots, message = None, ""
    if kernels:
        size = np.dtype(dtype).itemsize
        reserve = needed_bytes(n, labels, len(given), size, averaged)
        chosen = plan(kernels, n, memory=memory, itemsize=size, reserve=reserve, at_once=longest)
        message = chosen.message
        tell(message, verbose, label)
        if chosen.form == "kept":
            grams = build(kernels, X, dtype=dtype, n_jobs=n_jobs)
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
    """Log a message, and show it to somebody who is looking on."""
    log.info(message)
    if verbose and sys.stderr.isatty():
        print(f"{label}: {message}", file=sys.stderr)


def block_weights(norms: Floats, penalty: Any) -> Floats:
    """beta_m, proportional to norm(theta_m)^(2 - q) with the q of the penalty (1 but for `LqMKL`), summing to one.

    >>> block_weights(np.array([3.0, 1.0]), None)
    array([0.75, 0.25])
    """
    q = min(float(getattr(penalty, "q", 1.0)), 2.0)
    powers = np.where(norms > 0, np.power(np.maximum(norms, 1e-300), 2.0 - q), 0.0)
    total = float(powers.sum())
    return np.asarray(powers / total) if total > 0 else powers


def fit_kernels(
    blocks: Blocks,
    problem: KernelProblem,
    X: Any,
    *,
    solver: str,
    loss: str,
    penalty: Any,
    transitions: str = "fixed",
    step: Any = "auto",
    epochs: int = 20,
    output: str = "last",
    tol: float = 1e-2,
    cost: float = 1.0,
    seed: int = 0,
    callbacks: Callbacks | None = None,
    verbose: int = 0,
    label: str = "kernels",
    checkpoint: Path | None = None,
    checkpoint_every: int | float | str = "60s",
    resume: bool = False,
) -> KernelFit:
    """Run a solver on a problem whose blocks are `blocks` (and perhaps more explicit ones at its end)."""
    if solver not in SOLVERS:
        raise Unsupported(f"solver must be one of {', '.join(SOLVERS)}; it is {solver!r}")
    if solver == "frank-wolfe" and loss != "hinge":
        raise Unsupported(f"solver='frank-wolfe' takes loss='hinge', not {loss!r}; solver='online' takes all")
    start = saved(checkpoint) if resume and checkpoint is not None else None
    shared: dict[str, Any] = {"transitions": transitions, "cost": cost, "random_state": seed, "start": start}
    if solver == "online":
        own = {"loss": loss, "step": step, "epochs": epochs, "output": output, "slots": blocks.slots, "screen": True}
        run: Any = OnlineKernels(problem, penalty=penalty, copies=False, **own, **shared)
    else:
        from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL

        run = FrankWolfeMKL(problem, penalty, tol=tol, **shared)
    states: Iterable[State] = run
    if checkpoint is not None:
        states = checkpointed(states, checkpoint, checkpoint_every)
    if verbose:
        states = progress(states, total=epochs if solver == "online" else None, label=label)
    # The blocks of the problem are kernels first; users see the order in which they gave them.
    places = np.argsort([*blocks.order, *range(len(blocks.order), problem.n_blocks)])

    def entry(state: State) -> dict[str, Any]:
        return _entry(state, penalty, problem, places)

    state, history = _passes(states, entry, callbacks or Callbacks(log=False), start)
    A, V, T = run.parts(state.theta) if solver == "online" else run.parts()
    ends = np.cumsum([block.n_features for block in problem.explicit])
    parts = [np.ascontiguousarray(part) for part in np.split(V, ends[:-1])] if ends.size else []
    own_maps = len(blocks.features)
    converged = _settled(history, tol) if solver == "online" else bool(run.converged)
    norms = np.asarray(state.block_norms)[places]
    model = model_of(blocks.kernels, A, X, blocks.features, parts[:own_maps])
    if blocks.kernels:
        model.kept = np.asarray([blocks.order[m] for m in model.kept], dtype=np.int64)
    weights = block_weights(norms, penalty)
    return KernelFit(model, T.copy(), parts[own_maps:], norms, weights, history, converged, blocks.message, state)


def _passes(
    states: Iterable[State], entry: Callable[[State], dict[str, Any]], callbacks: Callbacks, start: State | None
) -> tuple[State, list[dict[str, Any]]]:
    """The last state, and a dict for each."""
    history: list[dict[str, Any]] = []
    state = start
    for state in states:
        history.append(entry(state))
        if callbacks.epoch(history[-1]):
            break
    if state is None:
        raise ValueError("the solver had nothing to do: there are no sequences")
    return state, history or [entry(state)]


def _entry(state: State, penalty: Any, problem: KernelProblem, places: Any) -> dict[str, Any]:
    """An entry of the history; blocks are in the users' order, without the transitions."""
    norms = np.asarray(state.block_norms)[places]
    tokens = state.counters.examples * problem.n_tokens / max(1, problem.n_sequences)
    found = {
        "epoch": state.k,
        "objective": state.objective,
        "loss": state.loss,
        "blocks_kept": int(np.count_nonzero(norms)),
        "per_second": tokens / max(state.seconds, 1e-9),
        "seconds": state.seconds,
        "block_norms": norms.tolist(),
        "block_weights": block_weights(norms, penalty).tolist(),
    }
    if "relative_gap" in state.internal:
        found["gap"] = float(state.internal["relative_gap"])
    return found


def _settled(history: list[dict[str, Any]], tol: float) -> bool:
    """Whether the loss met on the way hardly changed in the last pass."""
    if len(history) < 2:
        return False
    before, after = history[-2]["loss"], history[-1]["loss"]
    return bool(abs(before - after) <= tol * max(1.0, before))


def grams_of(given: Sequence[Any], names: str = "Gram matrix") -> Blocks:
    """Precomputed Gram matrices as blocks."""
    from spom.kernels.gram import as_gram

    grams = [as_gram(gram, f"{names} {m}") for m, gram in enumerate(given)]
    single = [g for g in grams if isinstance(g, (DenseGram, SparseGram))]
    return Blocks([], list(single), [], [], list(range(len(single))), None, f"{len(single)} precomputed Gram matrices")
