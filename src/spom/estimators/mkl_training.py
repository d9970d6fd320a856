"""Training with kernels, for classifiers and taggers: the form of the Gram matrices, the solver, and its history."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.callbacks import Callbacks
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.mkl_model import KernelModel, model_of
from spom.kernels.base import Kernel
from spom.kernels.building import build, computed
from spom.kernels.features import Features, Nystroem
from spom.kernels.function import Function
from spom.kernels.gram import DenseGram, Gram, SparseGram
from spom.kernels.memory import plan
from spom.solvers.iterate import progress
from spom.solvers.mkl.online import OnlineKernels
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem
from spom.solvers.mkl.workspace import needed_bytes

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
    seed: int = 0,
    callbacks: Any = None,
    verbose: int = 0,
    label: str = "kernels",
) -> KernelFit:
    """Run a solver on a problem whose blocks are `blocks` (and perhaps more explicit ones at its end)."""
    if solver not in SOLVERS:
        raise Unsupported(f"solver must be one of {', '.join(SOLVERS)}; it is {solver!r}")
    if solver == "online":
        run: Any = OnlineKernels(
            problem,
            loss=loss,
            penalty=penalty,
            transitions=transitions,
            step=step,
            epochs=epochs,
            output=output,
            slots=blocks.slots,
            random_state=seed,
        )
    else:
        if loss != "hinge":
            raise Unsupported(f"solver='frank-wolfe' takes loss='hinge', not {loss!r}; solver='online' takes all")
        from spom.solvers.mkl.frank_wolfe import FrankWolfeMKL

        run = FrankWolfeMKL(problem, penalty, transitions=transitions, tol=tol, random_state=seed)
    history: list[dict[str, Any]] = []
    state: State | None = None
    total = epochs if solver == "online" else None
    states = progress(run, total=total, label=label) if verbose else run
    # The blocks of the problem are kernels first; users see the order in which they gave them.
    places = np.argsort([*blocks.order, *range(len(blocks.order), problem.n_blocks)])
    watching = Callbacks(callbacks, label)
    try:
        for state in states:
            history.append(_entry(state, penalty, places))
            if watching.epoch(history[-1]):
                break
    except BaseException as error:
        watching.end("interrupted" if isinstance(error, KeyboardInterrupt) else "error")
        raise
    if state is None or state.block_norms is None:
        raise ValueError("the solver had nothing to do: there are no sequences")
    A, V, T = run.parts(state.theta) if solver == "online" else run.parts()
    ends = np.cumsum([block.n_features for block in problem.explicit])
    parts = [np.ascontiguousarray(part) for part in np.split(V, ends[:-1])] if ends.size else []
    own = len(blocks.features)
    converged = _settled(history, tol) if solver == "online" else bool(run.converged)
    watching.end("converged" if converged and solver != "online" else "end")
    norms = state.block_norms[places]
    model = model_of(blocks.kernels, A, X, blocks.features, parts[:own])
    if blocks.kernels:
        model.kept = np.asarray([blocks.order[m] for m in model.kept], dtype=np.int64)
    weights = block_weights(norms, penalty)
    return KernelFit(model, T.copy(), parts[own:], norms, weights, history, converged, blocks.message, state)


def _entry(state: State, penalty: Any, places: Any) -> dict[str, Any]:
    """An entry of the history; norms are in the users' order, without that of the transitions."""
    norms = state.block_norms[places] if state.block_norms is not None else np.zeros(0)
    found = {
        "epoch": state.k,
        "loss": state.loss,
        "objective": state.objective,
        "block_norms": norms.tolist(),
        "block_weights": block_weights(norms, penalty).tolist(),
        "blocks_kept": int(np.count_nonzero(norms)),
        "seconds": state.seconds,
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
