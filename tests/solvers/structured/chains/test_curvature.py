"""The Hessian of a random field times a vector: against differences of gradients, and with labels sampled."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spom.solvers.structured.chains.batch.block import Preconditioner, fill_block
from spom.solvers.structured.chains.batch.curvature import Curvature, Slots, choose_slots
from spom.solvers.structured.chains.data import as_tokens
from spom.solvers.structured.chains.field import Field


def some_field(values: bool, scale: float) -> tuple[Any, ...]:
    """Draw sentences (one of them empty), weights, and masks of the weights that may move."""
    rng, n, k, p = np.random.default_rng(0), 40, 4, 12
    x = rng.normal(size=3 * n) if values else []
    rows = SimpleNamespace(
        indptr=np.arange(0, 3 * n + 1, 3), indices=rng.integers(0, p, 3 * n), values=x, offsets=[0, 7, 8, 8, 20, n]
    )
    W, chain = scale * rng.normal(size=(p, k)), scale * rng.normal(size=(k + 2, k))
    on, steps = rng.random((p, k)) < 0.7, rng.random((k + 2, k)) < 0.8
    return as_tokens(rows, p), rng.integers(0, k, n), W, chain, on, steps


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("forbidden", [False, True])
def test_it_is_the_derivative_of_the_gradient(values: bool, forbidden: bool) -> None:
    tokens, y, W, chain, on, steps = some_field(values, 1.0)
    never = np.zeros_like(chain)
    if forbidden:
        never[1, 2] = -np.inf
        steps[1, 2] = False
    v = np.random.default_rng(1).normal(size=int(on.sum() + steps.sum()))
    d, e, h = np.zeros_like(W), np.zeros_like(chain), 1e-5
    d[on], e[steps] = v[: on.sum()], v[on.sum() :]
    field = Field(tokens, y, never)
    up, down = field.at(W + h * d, chain + h * e), field.at(W - h * d, chain - h * e)
    g = (up.gradient - down.gradient)[on], (up.chain_gradient - down.chain_gradient)[steps]
    H = Curvature(tokens, (W, chain + never), on, steps)
    np.testing.assert_allclose(H(v), np.concatenate(g) / (2.0 * h), atol=1e-5)


def test_with_labels_sampled_it_stays_symmetric_and_positive() -> None:
    tokens, _, W, chain, on, steps = some_field(False, 4.0)
    H = Curvature(tokens, (W, chain), on, steps, 0.02)
    assert H.chains.at[-1] < tokens.total * 4
    full = np.stack([H(row) for row in np.eye(int(on.sum() + steps.sum()))])
    np.testing.assert_allclose(full, full.T, atol=1e-10)
    assert np.linalg.eigvalsh(full).min() > -1e-9


def test_sampled_labels_have_nearly_their_share_of_all_tokens() -> None:
    """Check that for each label the kept masses sum to the exact probabilities, up to `light`."""
    tokens, _, W, chain, _, _ = some_field(False, 2.0)
    k, n, light = 4, tokens.total, 0.2
    kept = []
    for cut in (0.0, light):
        sizes = np.zeros(n + 1, dtype=np.int64), np.zeros(n * k, dtype=np.int64), np.zeros(n * k), np.zeros(n * k)
        choose_slots(tokens, W, chain, np.empty((k + 2, k)), cut, Slots(*sizes))
        kept.append((int(sizes[0][-1]), np.bincount(sizes[1], weights=sizes[2], minlength=k), sizes[2]))
    (most, exact, _), (few, sampled, masses) = kept
    assert few < 0.9 * most == 0.9 * n * k
    assert masses[:few].min() >= light * (1.0 - 1e-12)
    assert exact.sum() == pytest.approx(n)
    np.testing.assert_allclose(sampled, exact, atol=light)


def test_runs_give_the_products_of_whole_sentences() -> None:
    tokens, _, W, chain, on, steps = some_field(True, 4.0)
    H = Curvature(tokens, (W, chain), on, steps, 0.1)
    filled = np.diff(tokens.offsets) > 0
    whole = np.stack([tokens.offsets[:-1][filled], tokens.offsets[1:][filled]], axis=1)
    assert H.chains.runs.shape[0] > 1
    assert np.diff(H.chains.runs).sum() < tokens.total
    v = np.random.default_rng(2).normal(size=int(on.sum() + steps.sum()))
    found = H(v)
    H.chains = H.chains._replace(runs=whole)
    np.testing.assert_allclose(H(v), found, atol=1e-12)


def marginals_by_enumeration(tokens: Any, W: np.ndarray, chain: np.ndarray, values: bool) -> list[Any]:
    """Return for each sentence its feature matrix and the probability of every sequence."""
    out, (p, k) = [], W.shape
    for f, to in itertools.pairwise(tokens.offsets.tolist()):
        X = np.zeros((to - f, p))
        for t in range(f, to):
            for e in range(tokens.indptr[t], tokens.indptr[t + 1]):
                X[t - f, tokens.indices[e]] += tokens.values[e] if values else 1.0
        paths = list(itertools.product(range(k), repeat=to - f))
        scores = np.zeros(len(paths))
        for r, path in enumerate(paths):
            if path:
                scores[r] = sum(X[t] @ W[:, a] for t, a in enumerate(path)) + chain[k, path[0]] + chain[k + 1, path[-1]]
                scores[r] += sum(chain[a, b] for a, b in itertools.pairwise(path))
        weights = np.exp(scores - scores.max())
        out.append((X, paths, weights / weights.sum()))
    return out


@pytest.mark.parametrize("values", [False, True])
def test_the_block_has_the_covariances_of_neighbours(values: bool) -> None:
    """sum over windows of Cov(f_{t-1}, f_t, 2 c_t) / 2, and what the ends lack, by the list of all sequences."""
    rng, n, k, p = np.random.default_rng(3), 9, 3, 5
    x = rng.normal(size=2 * n) if values else []
    rows = SimpleNamespace(
        indptr=np.arange(0, 2 * n + 1, 2), indices=rng.integers(0, p, 2 * n), values=x, offsets=[0, 5, 5, 6, n]
    )
    tokens = as_tokens(rows, p)
    W, chain = rng.normal(size=(p, k)), rng.normal(size=(k + 2, k))
    steps = np.zeros((k + 2, k), dtype=bool)
    steps[:k] = True
    size = p * k + k * k
    expected = np.zeros((size, size))
    for X, paths, q in marginals_by_enumeration(tokens, W, chain, values):
        for t in range(X.shape[0]):
            one = np.zeros((len(paths), size))
            both = np.zeros((len(paths), size))
            other = np.zeros((len(paths), size))
            for r, path in enumerate(paths):
                one[r, : p * k].reshape(p, k)[:, path[t]] = X[t]
                if t:
                    other[r, : p * k].reshape(p, k)[:, path[t - 1]] = X[t - 1]
                    both[r, p * k + path[t - 1] * k + path[t]] = 1.0

            def cov(u: np.ndarray, v: np.ndarray, q: np.ndarray = q) -> np.ndarray:
                return (u * q[:, None]).T @ v - np.outer(q @ u, q @ v)

            near = 0.5 * cov(other, one) + cov(both, one) + cov(both, other)
            expected += cov(one, one) + near + near.T + 2.0 * cov(both, both)
    H = Curvature(tokens, (W, chain), np.ones((p, k), dtype=bool), steps)
    found = np.zeros((size, size))
    step_place = np.full((k + 2, k), -1)
    step_place[:k] = np.arange(p * k, size).reshape(k, k)
    fill_block(tokens.offsets, H.chains, np.arange(p * k), step_place, 0.0, found)
    np.testing.assert_allclose(np.tril(found), np.tril(expected), atol=1e-6)
    np.testing.assert_allclose(np.triu(found, 1), 0.0)


def test_the_diagonal_is_that_of_single_tokens_and_steps() -> None:
    tokens, _, W, chain, on, steps = some_field(True, 1.0)
    H = Curvature(tokens, (W, chain), on, steps)
    c, z, seen = H.chains, H.chains.probability, np.zeros(int(on.sum()))
    for slot in range(z.size):
        for e in range(c.entry_at[slot], c.entry_at[slot + 1]):
            seen[c.entries[e]] += z[slot] * (1.0 - z[slot]) * c.values[e] ** 2
    diagonal = H.diagonal()
    np.testing.assert_allclose(diagonal[: on.sum()], seen)
    assert diagonal.size == on.sum() + steps.sum()
    assert (diagonal > 0.0).all()


def test_the_preconditioner_is_near_the_inverse() -> None:
    tokens, _, W, chain, on, steps = some_field(False, 0.5)
    H = Curvature(tokens, (W, chain), on, steps)
    size = int(on.sum() + steps.sum())
    inverse = Preconditioner(H, np.full(size, 1.0))
    full = np.stack([H(row) for row in np.eye(size)]) + 1.5 * np.eye(size)
    guess = np.stack([inverse(row) for row in np.eye(size)])
    np.testing.assert_allclose(guess, guess.T, atol=1e-10)
    values = np.linalg.eigvals(guess @ full).real
    assert values.min() > 0.2
    assert values.max() < 3.0
