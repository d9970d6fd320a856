"""The seam `residual` for independent classes, against scikit-learn's log loss, scipy's softmax and a plain maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from spom.core.jit import kernel
from spom.solvers.structured.structures import (
    HINGE,
    LOG,
    PERCEPTRON,
    SOFTMAX_MARGIN,
    Loss,
    Parts,
    Structure,
    residual,
    structure,
)


@kernel("float64(Structure, Loss, Parts, int64[::1], float64[::1], Parts)")
def run(kind: Structure, loss: Loss, scores: Parts, gold: Any, scratch: Any, out: Parts) -> float:
    return residual(kind, loss, scores, gold, scratch, out)


COST = 0.7


@pytest.fixture(name="problem")
def _problem() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 4)), rng.integers(0, 4, 9)


def found(problem: tuple[Any, Any], code: int) -> tuple[float, Any]:
    scores, gold = problem
    none, out = np.zeros((0, 4)), np.full_like(scores, np.nan)
    loss = Loss(code, COST)
    value = run(structure("classes", loss), loss, Parts(scores.copy(), none), gold, np.zeros(0), Parts(out, none))
    return value, out


@pytest.mark.parametrize(("code", "cost"), [(LOG, 0.0), (SOFTMAX_MARGIN, COST)])
def test_sums_are_those_of_the_softmax(problem: tuple[Any, Any], code: int, cost: float) -> None:
    scores, gold = problem
    right = np.eye(4)[gold]
    expected = softmax(scores + cost * (1.0 - right), axis=1)
    value, out = found(problem, code)
    np.testing.assert_allclose(out, expected - right, atol=1e-12)
    np.testing.assert_allclose(value, log_loss(gold, expected, labels=range(4), normalize=False), rtol=1e-10)


@pytest.mark.parametrize(("code", "cost"), [(PERCEPTRON, 0.0), (HINGE, COST)])
def test_the_best_classes_are_counted(problem: tuple[Any, Any], code: int, cost: float) -> None:
    scores, gold = problem
    right = np.eye(4)[gold]
    augmented = scores + cost * (1.0 - right)
    value, out = found(problem, code)
    np.testing.assert_array_equal(out, np.eye(4)[augmented.argmax(axis=1)] - right)
    np.testing.assert_allclose(value, (augmented.max(axis=1) - scores[np.arange(9), gold]).sum(), rtol=1e-12)
