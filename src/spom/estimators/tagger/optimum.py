"""Taggers at the optimum of a random field: the batch solver, certificates, and paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from spom.core.arrays import Arrays, Floats, Ints, is_sparse
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.tagger.inputs import Task, Weights
from spom.estimators.training.goal import BatchLearner, Goal
from spom.penalties.base import with_strength
from spom.solvers.batch.path import check_grid, warn_of_zeros
from spom.solvers.structured.chains.batch import BatchChain
from spom.solvers.structured.chains.field import Field
from spom.solvers.structured.chains.gap import field_gap, has_bound
from spom.solvers.structured.structures import block_norms


class FieldLearner(BatchLearner):
    """Rounds of a `BatchChain` for the trainer: the model is the weights of features (`W`) and of the chain."""

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`, with the number of non-zero weights of features."""
        return {**super().entry(state), "nonzeros": int(np.count_nonzero(self.solver.W))}

    def model(self, state: State) -> Arrays:
        """Return the current weights."""
        W, chain = self.solver.weights()
        return {"W": W, "chain": chain}


def check_options_of_batch(tagger: Any) -> None:
    """Raise an error for settings that the batch solver does not support."""
    if tagger.loss not in ("auto", "log"):
        raise Unsupported(f"solver='batch' minimises the log loss; loss is {tagger.loss!r}")
    if tagger.update == "select" or tagger.max_weights is not None:
        raise Unsupported(
            "solver='batch' goes to the optimum of the penalty: leave update='select' and max_weights out"
        )


def batch_solver(tagger: Any, task: Task, start: Any, penalty: Any = None) -> BatchChain:
    """Return the batch solver for a task; `penalty` replaces that of the tagger."""
    if task.weight is not None or (task.y.size and task.y.min() < 0):
        raise Unsupported("solver='batch' takes no sample weights and no unknown labels: use solver='online'")
    return BatchChain(
        task.tokens,
        task.y,
        tagger.classes_.size,
        blocks=task.blocks,
        penalty=tagger.penalty_ if penalty is None else penalty,
        transitions=tagger.transitions,
        constraints=tagger._allowed.while_learning,
        start=start,
    )


def gap_of(tagger: Any, task: Task, weights: Weights) -> float:
    """Return the duality gap of a task under the log loss; NaN if none is known.

    With unknown labels the loss is not convex; with many labels some weights are fixed; the chain may have no penalty.
    """
    W, chain = weights
    known = tagger.update != "select" and task.weight is None and task.y.min() >= 0
    if not known or is_sparse(W) or not has_bound(tagger.penalty_, len(task.blocks), tagger.transitions):
        return np.nan
    found = Field(task.tokens, task.y, tagger._learning_forbidden(), exact=False).at(W, chain)
    plain = np.asarray(W[:, : chain.shape[1]], dtype=np.float64)
    try:
        return max(field_gap(found, (plain, chain), task.blocks.starts, tagger.penalty_, tagger.transitions).gap, 0.0)
    except Unsupported:
        return np.nan


class Certifying:
    """The gap of each epoch's weights; the run ends when it is at most `tol` times the objective."""

    def __init__(self, gap: Callable[[Weights], float], tol: float) -> None:
        self.gap, self.tol, self.last = gap, tol, np.nan

    def entry(self, weights: Weights | None, found: dict[str, Any]) -> dict[str, Any]:
        """Return the entry of an epoch with its gap."""
        assert weights is not None
        self.last = self.gap(weights) / max(abs(found["objective"]), 1e-300)
        return {**found, "gap": self.last * max(abs(found["objective"]), 1e-300)}

    def __call__(self, state: State) -> bool:
        """Return whether to stop."""
        return bool(self.last <= self.tol)


@dataclass(frozen=True)
class TaggerPath:
    """A path, strongest penalty first: entry i of each array is for `strengths[i]`.

    `weights[i]` is the weights of features (sparse, one row per feature) and of the chain; `kept[i]` the templates with
    non-zero weights; `screened[i]` the number of weights known to be zero.
    """

    strengths: Floats
    objectives: Floats
    gaps: Floats
    nonzeros: Ints
    screened: Ints
    kept: list[Ints]
    weights: list[tuple[Any, Floats]]


def solve_path(tagger: Any, task: Task, strengths: Any, count: int, ratio: float) -> TaggerPath:
    """Solve the problem for each strength, with a warm start from the previous solution."""
    if "strength" not in tagger.penalty_.get_params(deep=False):
        raise Unsupported(f"{tagger.penalty_!r} has no strength to make a path of")
    grid = strengths_of(batch_solver(tagger, task, None), count, ratio) if strengths is None else check_grid(strengths)
    start: Any = None
    rows: list[tuple[float, float, int, int]] = []
    kept, weights = [], []
    for strength in grid:
        penalty, rule = with_strength(tagger.penalty_, float(strength)), Goal(tagger.tol)
        solver = batch_solver(tagger, task, start, penalty)
        for state in solver:
            if rule(state):
                break
        start = W, chain = solver.W, solver.chain
        gap, screened = float(state.internal["gap"]), int(state.internal["screened"])
        rows.append((state.objective, gap, int(np.count_nonzero(W)), screened))
        kept.append(np.flatnonzero(block_norms(W, solver.blocks.starts)))
        weights.append((csr_matrix(W), chain.copy()))
    objectives, gaps, nonzeros, screened_ = (np.array(column) for column in zip(*rows, strict=True))
    warn_of_zeros(nonzeros, grid)
    return TaggerPath(grid, objectives, gaps, nonzeros, screened_, kept, weights)


def strengths_of(solver: BatchChain, count: int, ratio: float) -> Floats:
    """Return `count` strengths, falling from the smallest that gives zero weights to `ratio` of it."""
    if count < 1 or not 0.0 < ratio <= 1.0:
        raise ValueError(f"a path needs n_strengths >= 1 and ratio in (0, 1]; they are {count!r} and {ratio!r}")
    parts = solver.parts_at_zero()
    most = max(
        float(part.norms.max_strength(block_norms(part.gradient, part.starts)))
        if part.norms is not None
        else float(solver.penalty.max_strength(part.gradient))
        for part in parts
        if part.norms is not None or part.elastic.l1 > 0.0
    )
    if not np.isfinite(most):
        raise Unsupported("no finite strength of this penalty gives zero weights: give strengths= yourself")
    return np.geomspace(most, ratio * most, count)
