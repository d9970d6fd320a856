"""The base of the online solvers with kernels: parameters, the rule of a round, and the run that a state belongs to."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spom.core.arrays import Ints, check_positive, check_radius
from spom.core.state import State
from spom.errors import DataError, Unsupported
from spom.penalties import SparseMKL
from spom.penalties.forms import compiled_prox
from spom.solvers.mkl.errors import Rule
from spom.solvers.mkl.problem import KernelProblem, on_norms
from spom.solvers.structured.structures import HINGE, LOG, PERCEPTRON, Loss, structure

LOSSES = {"hinge": HINGE, "log": LOG, "perceptron": PERCEPTRON}
# Expected labels of the log loss that are this close to the gold ones are not corrected.
TOLERANCE = 1e-3


class KernelSolver:
    """The parameters shared by both solvers; each documents its own.

    Parameters
    ----------
    problem : a `KernelProblem`.
    loss : `"hinge"` (the cost is the number of wrong tokens), `"log"` (a conditional random field) or `"perceptron"`.
    penalty : a function of block norms (`on_rows` of `spom.penalties.forms`): `SparseMKL` (default),
        `LqMKL`, `ElasticNetMKL`, `GroupLasso`, `SquaredL2` (the sum of the kernels), `L2`, `Zero`. Its groups are the
        blocks, whatever its own `groups`.
    transitions : `"fixed"` puts strength/2 norm(theta_0)^2 on the transitions in addition to the penalty (beta_0 = 1),
        `"learnt"` makes them one more block of it.
    radius : an upper bound on norm(theta); each round projects to it.
    slots : the number of rows kept of Gram matrices that are computed on demand; see `spom.kernels.memory`.
    copies : whether states own their arrays; if not, they are valid until the next pass begins.
    start : a state to resume, with the same bits.
    """

    method: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]]  # the first is the default

    def __init__(
        self,
        problem: KernelProblem,
        *,
        loss: str = "hinge",
        penalty: Any = None,
        transitions: str = "fixed",
        epochs: int = 20,
        output: str | None = None,
        cost: float = 1.0,
        radius: float = np.inf,
        shuffle: bool = True,
        slots: int | None = None,
        tolerance: float = TOLERANCE,
        random_state: Any = None,
        copies: bool = True,
        start: State | None = None,
    ) -> None:
        self.problem, self.loss, self.epochs = problem, loss, epochs
        self.output = self.outputs[0] if output is None else output
        self._check_choices(transitions)
        self.learnt = transitions == "learnt" and problem.transitions
        self.count = problem.n_blocks + self.learnt
        self.penalty = on_norms(SparseMKL(self._default_strength()) if penalty is None else penalty, self.count)
        self.strength = float(getattr(self.penalty, "strength", 0.0))
        self.cost, self.radius = check_positive(cost, "cost"), check_radius(radius)
        self.tolerance = check_positive(tolerance, "tolerance") if loss == "log" else 0.0
        self.shuffle, self.slots, self.copies = shuffle, slots, copies
        self.random_state, self.start = random_state, start

    def _default_strength(self) -> float:
        raise NotImplementedError  # implemented by each solver

    def _check_choices(self, transitions: str) -> None:
        """Raise an error that names the possible choices."""
        given = {"loss": (self.loss, tuple(LOSSES)), "output": (self.output, self.outputs)}
        for name, (choice, choices) in given.items():
            if choice not in choices:
                raise Unsupported(f"{name} must be one of {', '.join(choices)}; it is {choice!r}")
        if transitions not in ("fixed", "learnt"):
            raise Unsupported(f"transitions must be 'fixed' or 'learnt'; it is {transitions!r}")
        if not isinstance(self.epochs, (int, np.integer)) or isinstance(self.epochs, bool) or self.epochs < 1:
            raise ValueError(f"epochs must be a whole number >= 1; it is {self.epochs!r}")

    def _rule(self, limit: float = np.inf) -> Rule:
        loss, prox = Loss(LOSSES[self.loss], self.cost), compiled_prox(self.penalty, self.count)
        chain = structure("chain", loss)
        return Rule(chain, loss, self.tolerance, prox, self.learnt, self.strength, limit, self.radius)

    def _order(self, random: np.random.Generator) -> Ints:
        """Return the sequences of one pass."""
        n = self.problem.n_sequences
        return random.permutation(n) if self.shuffle else np.arange(n)

    def _settings(self) -> Any:
        """Return the settings of the run that a state belongs to, as bytes; a state of another run is rejected."""
        p, features = self.problem, [block.n_features for block in self.problem.explicit]
        words = (self.method, p.n_tokens, p.n_labels, len(p.grams), features, p.transitions, self.loss, self.output)
        return np.frombuffer(repr(words).encode(), dtype=np.uint8).copy()

    def _check_settings(self, state: State) -> None:
        """Raise an error if the state belongs to another run."""
        found = state.internal.get("settings", np.zeros(0, dtype=np.uint8)).tobytes()
        if found != self._settings().tobytes():
            text = found.decode(errors="replace")
            raise DataError(f"the state to start from is of another run: {text or 'no kernels'}")
