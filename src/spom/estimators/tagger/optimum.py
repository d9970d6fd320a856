"""Taggers at the optimum of a random field: rounds of the batch solver for the trainer, certificates, and paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.training.goal import BatchLearner, Goal
from spom.features.rows import Blocks
from spom.penalties.base import with_strength
from spom.solvers.batch.path import warn_of_zeros
from spom.solvers.structured.chains.batch import BatchChain
from spom.solvers.structured.chains.data import Tokens, padded
from spom.solvers.structured.chains.field import Field
from spom.solvers.structured.chains.gap import field_gap, has_bound
from spom.solvers.structured.structures import block_norms


class FieldLearner(BatchLearner):
    """Rounds of a `BatchChain` for the trainer: the model is the weights of features (`W`) and of the chain."""

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`, with the features' weights that are not zero."""
        return {**super().entry(state), "nonzeros": int(np.count_nonzero(self.solver.W))}

    def model(self, state: State) -> Arrays:
        """Return the weights now."""
        W, chain = self.solver.weights()
        return {"W": W, "chain": chain}

    def like(self, state: State | None) -> Arrays:
        """Return empty tables of the right shape."""
        k, features = self.solver.labels, self.solver.blocks.total
        return {"W": np.zeros((features, padded(k)), dtype=np.float32), "chain": np.zeros((k + 2, k))}


def check_options_of_batch(tagger: Any) -> None:
    """Raise for settings that the batch solver does not take."""
    if tagger.loss not in ("auto", "log"):
        raise Unsupported(f"solver='batch' minimises the log loss; loss is {tagger.loss!r}")
    if tagger.update == "select" or tagger.max_weights is not None:
        raise Unsupported(
            "solver='batch' goes to the optimum of the penalty: leave update='select' and max_weights out"
        )


def gap_at(tokens: Tokens, y: Ints, blocks: Blocks, weights: Any, tagger: Any) -> float:
    """Return the duality gap of the log loss at weights of a tagger's task: NaN where the chain has no penalty."""
    if not has_bound(tagger.penalty_, len(blocks), tagger.transitions):
        return np.nan
    W, chain = weights
    found = Field(tokens, y, tagger._learning_forbidden(), exact=False).at(W, chain)
    plain = np.asarray(W[:, : chain.shape[1]], dtype=np.float64)
    try:
        return max(field_gap(found, (plain, chain), blocks.starts, tagger.penalty_, tagger.transitions).gap, 0.0)
    except Unsupported:
        return np.nan


@dataclass(frozen=True)
class TaggerPath:
    """A path, strongest penalty first: entry i of each array is for `strengths[i]`.

    `weights[i]` is the weights of features (sparse, one row per feature) and of the chain; `kept[i]` the templates that
    are on; `screened[i]` how many weights are zero for sure.
    """

    strengths: Floats
    objectives: Floats
    gaps: Floats
    nonzeros: Ints
    screened: Ints
    kept: list[Ints]
    weights: list[tuple[Any, Floats]]


def solve_path(
    make: Callable[[Any, Any], BatchChain], penalty: Any, strengths: Floats, tol: float | None
) -> TaggerPath:
    """Solve the problem for each strength, from the solution of the one before."""
    start: Any = None
    rows: list[tuple[float, float, int, int]] = []
    kept, weights = [], []
    for strength in strengths:
        solver, rule = make(with_strength(penalty, float(strength)), start), Goal(tol)
        for state in solver:
            if rule(state):
                break
        W, chain = solver.W, solver.chain
        start = W, chain
        gap, screened = float(state.internal["gap"]), int(state.internal["screened"])
        rows.append((state.objective, gap, int(np.count_nonzero(W)), screened))
        kept.append(np.flatnonzero(block_norms(W, solver.blocks.starts)))
        weights.append((csr_matrix(W), chain.copy()))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    warn_of_zeros(columns[2], strengths)
    return TaggerPath(strengths, columns[0], columns[1], columns[2], columns[3], kept, weights)


def strengths_of(solver: BatchChain, count: int, ratio: float) -> Floats:
    """`count` strengths from the least that gives zero weights, falling to `ratio` of it."""
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
