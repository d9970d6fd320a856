"""A tagger for the trainer: what an epoch of chains is called, weighs and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.state import State
from spom.estimators.training import Arrays, Learner
from spom.solvers.structured.chains.data import padded
from spom.solvers.structured.chains.dispatch import penalty_value, summarised
from spom.solvers.structured.chains.solver import OnlineChain
from spom.solvers.structured.chains.sparse.engine import PairEngine

# Weights of features, a table or, for many labels, a CSR matrix; and weights of the chain.
Weights = tuple[Any, Floats]

NONE: Floats = np.zeros(0)


class Certifying:
    """The gap of each epoch's weights, and the end of the run where it is at most `tol` times the objective."""

    def __init__(self, gap: Callable[[Weights], float], tol: float) -> None:
        self.gap, self.tol, self.last = gap, tol, np.nan

    def entry(self, weights: Weights, found: dict[str, Any]) -> dict[str, Any]:
        """The entry of an epoch with its gap; the gap of an epoch that was loaded is not asked for again."""
        self.last = self.gap(weights) / max(abs(found["objective"]), 1e-300)
        return {**found, "gap": self.last * max(abs(found["objective"]), 1e-300)}

    def __call__(self, state: State) -> bool:
        """Whether to stop."""
        return bool(self.last <= self.tol)


class ChainLearner(Learner):
    """Passes of an `OnlineChain`: the model is the weights of features (`W`) and of the chain (`chain`).

    `make` gives the solver, from its beginning or from a state; `dev` scores weights.
    """

    def __init__(
        self,
        make: Callable[[State | None], OnlineChain],
        epochs: int,
        dev: Callable[[Weights], float] | None = None,
        certifying: Certifying | None = None,
    ) -> None:
        self.make, self.epochs, self.dev, self.scores = make, epochs, dev, dev is not None
        self.rule = self.certifying = certifying
        self._made: OnlineChain | None = None
        self._weights: Weights | None = None

    @property
    def solver(self) -> OnlineChain:
        """The solver of this run."""
        if self._made is None:
            self._made = self.make(None)
        return self._made

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """One state for each pass; without theta, which would be a copy of all weights."""
        if start is not None:
            self._made = self.make(start)
        return self._states()

    def _states(self) -> Iterator[State]:
        for epoch in self.solver.passes():
            self._weights = None
            yield State(k=epoch.epoch, theta=NONE, loss=epoch.loss)

    def entry(self, state: State) -> dict[str, Any]:
        """The objective is the mean of the losses met in the epoch plus the penalty at its end."""
        solver = self.solver
        if self.scores or self.certifying is not None:
            self._weights = solver.weights()
        found = solver.engine.summary() if self._weights is None else summarised(*self._weights, solver.blocks.starts)
        total = found.norms.sum()
        entry = {
            "epoch": state.k,
            "objective": state.loss + penalty_value(solver.penalty, found, solver.transitions),
            "loss": state.loss,
            "blocks_kept": int(np.count_nonzero(found.norms)),
            "nonzeros": found.nonzeros,
            "per_second": state.k * solver.tokens.total / max(solver.seconds, 1e-9),
            "block_weights": found.norms / total if total > 0 else found.norms,
        }
        return (
            entry if self._weights is None or self.certifying is None else self.certifying.entry(self._weights, entry)
        )

    def model(self, state: State) -> Arrays:
        """The weights now."""
        W, chain = self.solver.weights() if self._weights is None else self._weights
        return {"W": W.data if isinstance(self.solver.engine, PairEngine) else W, "chain": chain}

    def weights_of(self, model: Arrays) -> Weights:
        """What `model` gave, as weights."""
        engine, W = self.solver.engine, model["W"]
        return engine.matrix(W) if isinstance(engine, PairEngine) else W, model["chain"]

    def like(self, state: State | None) -> Arrays:
        """Empty tables of the right shape."""
        k, engine = self.solver.labels, self.solver.engine
        dense = (self.solver.blocks.total, padded(k))
        shape = engine.table.sums.shape if isinstance(engine, PairEngine) else dense
        return {"W": np.zeros(shape, dtype=np.float32), "chain": np.zeros((k + 2, k))}

    def score(self, model: Arrays) -> float:
        """The score on development sentences."""
        assert self.dev is not None
        return self.dev(self.weights_of(model))

    def snapshot(self, state: State, copy: bool = True) -> State:
        """The tables of the solver; the weights follow from them."""
        solver = self.solver
        internal: Arrays = {f"engine.{n}": a.copy() if copy else a for n, a in solver.engine.pack().items()}
        return State(
            k=solver.rounds,
            theta=NONE,
            loss=state.loss,
            seconds=solver.seconds,
            internal={**internal, "epoch": np.array(solver.done)},
            random=dict(solver.random.bit_generator.state),
        )
