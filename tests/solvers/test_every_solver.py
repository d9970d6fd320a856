"""What every registered solver must do: yield states, and the same ones each time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from spom.core import registry
from spom.core.state import State

SOLVERS = registry.entries("solver")


def first_states(solver: Any) -> list[State]:
    return list(itertools.islice(iter(solver), 3))


@pytest.mark.parametrize("entry", SOLVERS, ids=lambda entry: entry.name)
class TestEverySolver:
    def test_yields_states_that_do_not_share_memory(self, entry: registry.Entry) -> None:
        for solver in entry.examples():
            states = first_states(solver)
            assert states
            assert all(isinstance(state, State) and np.isfinite(state.theta).all() for state in states)
            assert [state.k for state in states] == sorted({state.k for state in states})
            kept = states[0].theta.copy()
            first_states(solver)
            np.testing.assert_array_equal(states[0].theta, kept)

    def test_gives_the_same_bits_again(self, entry: registry.Entry) -> None:
        for one, two in zip(entry.examples(), entry.examples(), strict=True):
            for a, b in zip(first_states(one), first_states(two), strict=True):
                np.testing.assert_array_equal(a.theta, b.theta)
