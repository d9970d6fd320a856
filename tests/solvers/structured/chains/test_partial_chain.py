"""Sentences with unknown labels and with weights: against the list of all sequences."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from spom.decoders.schemes import tag_constraints
from spom.errors import DataError
from spom.penalties import L1
from spom.solvers.structured.chains.solver import OnlineChain
from spom.solvers.structured.structures import LOSSES, Loss, Parts, agrees, residual, scratch_size, structure
from tests.solvers.structured.chains.naive_chains import parts

NAMES = ["hinge", "perceptron", "log", "softmax-margin"]


def enumerated(name: str, theta: np.ndarray, X: np.ndarray, y: np.ndarray, k: int, cost: float):
    """(loss, gradient): a log-sum or a maximum over all sequences, minus that over those with the known labels."""
    paths = np.array(list(itertools.product(range(k), repeat=len(y))))
    phi = np.array([parts(tuple(path), X, k) for path in paths])
    known = y >= 0
    wrong = (paths != y)[:, known].sum(axis=1)
    plain = phi @ theta
    scores = plain + (cost * wrong if name in ("hinge", "softmax-margin") else 0.0)

    def over(s: np.ndarray, phi: np.ndarray):
        if name in ("hinge", "perceptron"):
            return s.max(), phi[s.argmax()]
        p = np.exp(s - s.max())
        return s.max() + np.log(p.sum()), p @ phi / p.sum()

    high, low = over(scores, phi), over(plain[wrong == 0], phi[wrong == 0])
    return high[0] - low[0], high[1] - low[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1.0, 50.0, 400.0])
def test_loss_and_derivative_against_all_sequences(name: str, size: float) -> None:
    rng = np.random.default_rng(int(size))
    for n, unknown in [(1, [0]), (2, [1]), (4, [0, 2]), (4, [1, 2, 3]), (4, []), (4, [0, 1, 2, 3])]:
        k = 3
        unary, chain = size * rng.standard_normal((n, k)), size * rng.standard_normal((k + 2, k))
        y = rng.integers(0, k, n)
        y[unknown] = -1
        out = Parts(np.full((n, k), np.nan), np.full((k + 2, k), np.nan))
        loss = Loss(LOSSES[name], 0.9)
        scratch = np.empty(scratch_size(n, k))
        value = residual(structure("partial-chain", loss), loss, Parts(unary.copy(), chain), y, scratch, out)
        theta = np.concatenate([unary.ravel(), chain.ravel()])
        expected, gradient = enumerated(name, theta, np.eye(n), y, k, 0.9)
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-5 * size)
        np.testing.assert_allclose(np.concatenate([out.unary.ravel(), out.shared.ravel()]), gradient, atol=1e-5)


def two_sentences() -> tuple[SimpleNamespace, np.ndarray]:
    rows = SimpleNamespace(indptr=[0, 2, 3, 4, 6, 7], indices=[0, 1, 2, 1, 0, 2, 1], values=[], offsets=[0, 3, 5])
    return rows, np.array([0, -1, 1, -1, 0])


def dense(rows: SimpleNamespace, i: int) -> np.ndarray:
    a, b = rows.offsets[i], rows.offsets[i + 1]
    out = np.zeros((b - a, 3))
    for t in range(a, b):
        out[t - a, rows.indices[rows.indptr[t] : rows.indptr[t + 1]]] = 1.0
    return out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weight", [None, [1.5, 0.5], [2.0, 0.0]])
def test_steps_follow_the_gradient_times_the_weight(name: str, weight: list[float] | None) -> None:
    """Plain steps without a penalty, by the list of all sequences."""
    rows, y = two_sentences()
    shared = {"loss": name, "update": "forward-backward", "step": 0.3, "average": False, "epochs": 4}
    solver = OnlineChain(rows, y, 3, shuffle=False, skip=2.0, weight=weight, **shared)
    for _ in solver.passes():
        pass
    W, chain = solver.weights()
    theta = np.zeros(9 + 15)
    for _ in range(4):
        for i in range(2):
            gold = y[rows.offsets[i] : rows.offsets[i + 1]]
            _, gradient = enumerated(name, theta, dense(rows, i), gold, 3, 1.0)
            theta -= 0.3 * (1.0 if weight is None else weight[i]) * gradient
    np.testing.assert_allclose(np.concatenate([W[:, :3].ravel(), chain.ravel()]), theta, atol=2e-5)


def test_objective_has_weights_and_unknown_labels() -> None:
    rows, y = two_sentences()
    solver = OnlineChain(rows, y, 3, penalty=L1(0.01), epochs=2, weight=[3.0, 1.0], random_state=0)
    for _ in solver.passes():
        pass
    W, chain = solver.weights()
    theta = np.concatenate([W[:, :3].astype(float).ravel(), chain.ravel()])
    each = [
        enumerated("log", theta, dense(rows, i), y[rows.offsets[i] : rows.offsets[i + 1]], 3, 1.0)[0] for i in (0, 1)
    ]
    expected = 0.01 * np.abs(W).sum() + (1.5 * each[0] + 0.5 * each[1]) / 2
    assert solver.objective_now() == pytest.approx(expected, rel=1e-5)


def test_equal_weights_are_none() -> None:
    rows, y = two_sentences()
    made = [OnlineChain(rows, y, 3, epochs=2, random_state=0, weight=w) for w in (None, [7.0, 7.0])]
    for solver in made:
        for _ in solver.passes():
            pass
    np.testing.assert_array_equal(made[0].weights()[0], made[1].weights()[0])


def test_known_labels_must_agree_with_the_constraints() -> None:
    names = ["B-X", "I-X", "O"]
    rows = SimpleNamespace(indptr=[0, 1, 2], indices=[0, 1], values=[], offsets=[0, 2])
    with pytest.raises(DataError, match="sentence 0: the known labels break the constraints"):
        OnlineChain(rows, [-1, 1][::-1], 3, constraints=tag_constraints(names, "BIO"))
    OnlineChain(rows, [-1, 1], 3, constraints=tag_constraints(names, "BIO"))


def test_agrees_against_all_sequences() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        forbidden = np.where(rng.random((5, 3)) < 0.35, -np.inf, 0.0)
        y = rng.integers(-1, 3, rng.integers(1, 5))
        found = False
        for path in itertools.product(range(3), repeat=y.size):
            fits = all(b in (-1, a) for a, b in zip(path, y, strict=True))
            total = forbidden[3, path[0]] + forbidden[4, path[-1]]
            total += sum(forbidden[a, b] for a, b in itertools.pairwise(path))
            found |= fits and total == 0.0
        assert agrees(forbidden, y) == found
