"""When a run to the optimum is done."""

from __future__ import annotations

import numpy as np

from spom.core.state import State

# Rounds of a batch solver before it gives up.
MOST = 50
# Where there is no certificate, a round that gains less than this part of the tolerance ends the run. Not tuned.
STALLED = 0.01
# What `tol=None` is for a batch solver.
TOLERANCE = 1e-3


class Goal:
    """Stop where the gap is at most `tol` times the objective; without a gap, where a round gains too little."""

    def __init__(self, tol: float | None) -> None:
        self.tol = TOLERANCE if tol is None else float(tol)
        self._before = np.inf

    def __call__(self, state: State) -> bool:
        """Whether this state is good enough, or the last there is to be."""
        gap = float(state.internal["gap"]) if "gap" in state.internal else np.nan
        gained, self._before = self._before - state.objective, state.objective
        enough = gap <= self.tol * abs(state.objective)
        stalled = gained <= (STALLED * self.tol if np.isnan(gap) else 1e-13) * abs(state.objective)
        return bool(enough or stalled or state.k >= MOST)
