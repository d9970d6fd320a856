"""Runs to the optimum: the stopping rule, and the rounds of a batch solver for the trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from spom.core.state import State
from spom.estimators.training.trainer import Learner, shares

# Maximum number of rounds of a batch solver.
MOST = 50
# Without a certificate, a round that gains less than this share of the tolerance ends the run. Not tuned.
STALLED = 0.01
# The meaning of `tol=None` for a batch solver.
TOLERANCE = 1e-3


class Goal:
    """Stop if the gap is at most `tol` times the objective; without a gap, if a round gains too little."""

    def __init__(self, tol: float | None) -> None:
        self.tol = TOLERANCE if tol is None else float(tol)
        self._before = np.inf

    def __call__(self, state: State) -> bool:
        """Return whether to stop at this state."""
        gap = float(state.internal["gap"]) if "gap" in state.internal else np.nan
        gained, self._before = self._before - state.objective, state.objective
        enough = gap <= self.tol * abs(state.objective)
        stalled = gained <= (STALLED * self.tol if np.isnan(gap) else 1e-13) * abs(state.objective)
        return bool(enough or stalled or state.k >= MOST)


class BatchLearner(Learner):
    """Rounds of a batch solver that `make` builds, from the start or from a state."""

    def __init__(self, make: Callable[[State | None], Any], goal: Goal) -> None:
        self.make, self.rule, self.epochs = make, goal, None
        self.solver = make(None)

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the solver, from the start or from a state."""
        if start is not None:
            self.solver = self.make(start)
        return self.solver  # type: ignore[no-any-return]  # solvers of chains and of trees are iterables of states

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        found = {"epoch": state.k, "objective": state.objective, "loss": state.loss}
        return {**found, "gap": float(state.internal["gap"]), **shares(state.block_norms)}
