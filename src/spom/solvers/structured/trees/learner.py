"""The base of learners of arcs and of relations: passes with states from which a run can be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from spom.core.arrays import Floats, Singles, check_restored, restore_random
from spom.core.state import Counters, State


class TreeLearner:
    """Weights and the sums of their mean over all rounds; iterating makes passes, without end."""

    weights: Singles
    sums: Singles
    random: np.random.Generator
    copies: bool
    rounds: Any = 0
    k = 0
    seconds = 0.0

    def epoch(self) -> State:
        """Make one pass over all sentences in a new random order."""
        raise NotImplementedError  # implemented by each learner

    def __iter__(self) -> Iterator[State]:
        while True:
            yield self.epoch()

    def _kept(self) -> dict[str, Any]:
        """Return the arrays that a saved run needs besides its weights; the next pass changes them."""
        raise NotImplementedError  # implemented by each learner

    def _saved(self, **measured: Any) -> State:
        """Return a state with copies of all arrays, unless `copies` is false."""
        theta, internal = self.weights, self._kept()
        if self.copies:
            theta, internal = theta.copy(), {name: a.copy() for name, a in internal.items()}
        return State(
            k=self.k,
            theta=cast("Floats", theta),
            counters=Counters(gradients=int(self.rounds), examples=int(self.rounds)),
            seconds=self.seconds,
            internal={**internal, "rounds": np.array(self.rounds)},
            random=dict(self.random.bit_generator.state),
            **measured,
        )

    def restore(self, state: State) -> None:
        """Resume from a state, with the same bits."""
        own = {"theta": self.weights, **self._kept()}
        todo = "resume with the data and templates that the state was made with"
        like = {**own, "rounds": np.array(self.rounds)}
        kept = check_restored({"theta": state.theta, **state.internal}, like, todo)
        for name, array in own.items():
            array[...] = kept[name]
        self.k, self.rounds, self.seconds = state.k, type(self.rounds)(kept["rounds"]), state.seconds
        restore_random(self.random, state.random)
