"""The parameters that both online solvers with kernels take, and how a state names its run."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.state import State
from spom.errors import DataError, Unsupported
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.structured.structures import HINGE, LOG, PERCEPTRON

LOSSES = {"hinge": HINGE, "log": LOG, "perceptron": PERCEPTRON}
# Expected labels of the log loss that are this close to the gold ones are left as they are.
TOLERANCE = 1e-3


def check_choices(loss: str, transitions: str, output: str, outputs: tuple[str, ...], epochs: int) -> None:
    """An error that names the choices there are.

    >>> check_choices("hinge", "fixed", "last", ("last",), 0)
    Traceback (most recent call last):
    ValueError: epochs must be a whole number >= 1; it is 0
    """
    given = {"loss": (loss, tuple(LOSSES)), "output": (output, outputs)}
    for name, (choice, choices) in given.items():
        if choice not in choices:
            raise Unsupported(f"{name} must be one of {', '.join(choices)}; it is {choice!r}")
    if transitions not in ("fixed", "learnt"):
        raise Unsupported(f"transitions must be 'fixed' or 'learnt'; it is {transitions!r}")
    if not isinstance(epochs, (int, np.integer)) or isinstance(epochs, bool) or epochs < 1:
        raise ValueError(f"epochs must be a whole number >= 1; it is {epochs!r}")


def settings_of(method: str, problem: KernelProblem, loss: str, output: str) -> Any:
    """The run that a state is of, as bytes: a state of another run is refused."""
    p, features = problem, [block.n_features for block in problem.explicit]
    words = (method, p.n_tokens, p.n_labels, len(p.grams), features, p.transitions, loss, output)
    return np.frombuffer(repr(words).encode(), dtype=np.uint8).copy()


def check_settings(state: State, settings: Any) -> None:
    """An error where the state is of another run."""
    found = state.internal.get("settings", np.zeros(0, dtype=np.uint8)).tobytes()
    if found != settings.tobytes():
        text = found.decode(errors="replace")
        raise DataError(f"the state to start from is of another run: {text or 'no kernels'}")
