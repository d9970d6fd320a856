"""The loss of a sentence and its derivative: against enumeration, differences, and the decoders."""

from __future__ import annotations

import numpy as np
import pytest

from spom.decoders import Chain, ChainParts
from spom.decoders.quick_marginals import exponentials_32, quick_marginals
from spom.solvers.structured.chains.data import as_tokens, padded
from spom.solvers.structured.chains.predict import marginals, scores, tag
from spom.solvers.structured.chains.sentence import losses
from spom.solvers.structured.structures import LOSSES, Loss, Parts, residual, scratch_size, structure
from tests.solvers.structured.chains.naive_chains import dense, loss_and_gradient, problem

NAMES = ["hinge", "perceptron", "log", "softmax-margin"]


def call(name: str, unary: np.ndarray, chain: np.ndarray, y: np.ndarray, cost: float, kind: str = "quick-chain"):
    n, k = unary.shape
    out = Parts(np.full((n, k), np.nan), np.full((k + 2, k), np.nan))
    scores, scratch = Parts(unary.copy(), chain), np.empty(scratch_size(n, k))
    loss = Loss(LOSSES[name], cost)
    value = residual(structure(kind, loss), loss, scores, y, scratch, out)
    return value, out.unary, out.shared


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1.0, 40.0, 400.0])
@pytest.mark.parametrize("kind", ["chain", "quick-chain"])
def test_loss_and_derivative_against_all_sequences(name: str, size: float, kind: str) -> None:
    """Large scores leave the range of the quick sums, and the exact ones take over."""
    rng = np.random.default_rng(int(size))
    for n in (1, 2, 4):
        k = 3
        unary, chain = size * rng.standard_normal((n, k)), size * rng.standard_normal((k + 2, k))
        y = rng.integers(0, k, n)
        value, out, parts = call(name, unary, chain, y, 0.9, kind)
        # One feature a token: the weights are the unary scores.
        theta = np.concatenate([unary.ravel(), chain.ravel()])
        expected, gradient, _ = loss_and_gradient(name, theta, np.eye(n), y, k, 0.9)
        assert value == pytest.approx(max(expected, 0.0), rel=1e-5, abs=1e-5 * size)
        np.testing.assert_allclose(np.concatenate([out.ravel(), parts.ravel()]), gradient, atol=5e-6)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_is_that_of_the_value(name: str) -> None:
    rng = np.random.default_rng(5)
    n, k, h = 5, 4, 1e-3
    unary, chain, y = rng.standard_normal((n, k)), rng.standard_normal((k + 2, k)), rng.integers(0, k, n)
    _, out, parts = call(name, unary, chain, y, 1.0)
    for t in range(n):
        for a in range(k):
            step = np.zeros((n, k))
            step[t, a] = h
            slope = (call(name, unary + step, chain, y, 1.0)[0] - call(name, unary - step, chain, y, 1.0)[0]) / (2 * h)
            assert out[t, a] == pytest.approx(slope, abs=2e-3)
    for a in range(k + 2):
        for b in range(k):
            step = np.zeros((k + 2, k))
            step[a, b] = h
            slope = (call(name, unary, chain + step, y, 1.0)[0] - call(name, unary, chain - step, y, 1.0)[0]) / (2 * h)
            assert parts[a, b] == pytest.approx(slope, abs=2e-3)


@pytest.mark.parametrize("k", [1, 2, 5, 22])
def test_quick_marginals_are_those_of_the_decoder(k: int) -> None:
    rng = np.random.default_rng(k)
    for n in (1, 2, 30):
        unary, chain = 6 * rng.standard_normal((n, k)), 2 * rng.standard_normal((k + 2, k))
        if k == 5:
            chain[1, 2] = chain[3, 3] = chain[k, 0] = -np.inf
        nodes, steps, work = np.empty((n, k)), np.empty((k, k)), np.empty((2, n, k))
        total = quick_marginals(unary, chain, np.empty((k + 2, k)), work[0], work[1], nodes, steps)
        expected, log_partition = Chain().marginals(ChainParts(unary, chain[:k], chain[k], chain[k + 1]))
        assert total == pytest.approx(log_partition, rel=1e-6)
        np.testing.assert_allclose(nodes, expected.unary, atol=2e-6)
        np.testing.assert_allclose(steps, expected.transition, atol=2e-5)


def test_quick_marginals_say_where_they_cannot() -> None:
    k, work = 3, np.empty((2, 2, 3))
    places = np.empty((2, 3)), np.empty((3, 3))
    zero = np.zeros((k + 2, k))
    far = zero.copy()
    far[0, 0] = 31.0
    wide = np.array([[0.0, 90.0, 0.0], [0.0, 0.0, 0.0]])
    for unary, chain in ((np.zeros((2, k)), far), (wide, zero), (np.full((2, k), -np.inf), zero)):
        assert quick_marginals(unary, chain, np.empty((k + 2, k)), *work, *places) == -np.inf


def test_exponentials() -> None:
    x = np.append(-np.linspace(0, 80, 4001), -np.inf)
    out = np.empty(x.size)
    exponentials_32(x + 3.0, 3.0, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-5)
    assert out[-1] == 0.0


def test_many_sentences_at_once_are_tagged_as_one_by_one() -> None:
    p = problem(2, sentences=25, values=True)
    rng = np.random.default_rng(0)
    k, tokens = p.k, as_tokens(p.rows, p.features)
    W = np.zeros((p.features, padded(k)), dtype=np.float32)
    W[:, :k] = rng.standard_normal((p.features, k))
    chain = rng.standard_normal((k + 2, k))
    chain[0, 1] = -np.inf
    found, probability, unary = tag(tokens, W, chain), marginals(tokens, W, chain), scores(tokens, W, k)
    for i in range(len(tokens)):
        a, b = tokens.offsets[i : i + 2]
        one = ChainParts(dense(p, i) @ W[:, :k], chain[:k], chain[k], chain[k + 1])
        np.testing.assert_array_equal(found[a:b], Chain().best(one))
        np.testing.assert_allclose(probability[a:b], Chain().marginals(one)[0].unary, atol=1e-5)
        np.testing.assert_allclose(unary[a:b], one.unary, atol=1e-5)
    part = tokens.part([3, 0, 7])
    np.testing.assert_array_equal(
        tag(part, W, chain), np.concatenate([found[slice(*tokens.offsets[i : i + 2])] for i in (3, 0, 7)])
    )


def test_the_sum_of_losses() -> None:
    p = problem(4, sentences=9)
    rng = np.random.default_rng(1)
    W = np.zeros((p.features, padded(p.k)), dtype=np.float32)
    W[:, : p.k] = rng.standard_normal((p.features, p.k))
    chain = rng.standard_normal((p.k + 2, p.k))
    theta = np.concatenate([W[:, : p.k].ravel(), chain.ravel()])
    spans = [(i, *p.rows.offsets[i : i + 2]) for i in range(9)]
    for name in NAMES:
        expected = sum(loss_and_gradient(name, theta, dense(p, i), p.y[a:b], p.k, 0.6)[0] for i, a, b in spans if b > a)
        tokens, loss = as_tokens(p.rows, p.features), Loss(LOSSES[name], 0.6)
        found = losses(tokens, p.y, np.arange(9), (W, chain), loss)[:, 0]
        assert found.sum() == pytest.approx(expected, rel=1e-5)
