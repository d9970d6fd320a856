"""A penalty of block norms from outside the package works with kernels: its form is all that a solver asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom import MKLClassifier
from spom.core.arrays import Floats
from spom.kernels import Gaussian, Linear
from spom.penalties import GroupLasso, Penalty
from spom.solvers.iterate import last
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from tests.solvers.mkl.test_online_kernels import wide


class Doubled(Penalty):
    """Twice a group lasso of the blocks, known to the package by nothing but its forms."""

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength

    def _value(self, w: Floats) -> float:
        raise NotImplementedError  # it is of blocks, which an estimator has

    def on_norms(self, count: int) -> Any:
        return GroupLasso(2.0 * self.strength).on_norms(count)


def test_a_new_penalty_learns_as_the_one_that_it_equals() -> None:
    problem, _ = wide()
    found = [
        last(DualAveragingKernels(problem, penalty=penalty, epochs=4, transitions="learnt", random_state=0))
        for penalty in (Doubled(0.1), GroupLasso(0.2))
    ]
    assert found[0].theta.tobytes() == found[1].theta.tobytes()
    assert found[0].internal["scale"].tobytes() == found[1].internal["scale"].tobytes()


def test_a_new_penalty_works_in_the_classifier() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = MKLClassifier([Linear(), Gaussian(1.0)], penalty=Doubled(1e-3), random_state=0).fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.85
    assert model.block_weights_[1] > 0.8
