"""The Hessian of a random field times a vector: against differences of gradients, and with labels sampled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spom.solvers.structured.chains.batch.curvature import Curvature, Slots, choose_slots
from spom.solvers.structured.chains.data import as_tokens
from spom.solvers.structured.chains.field import Field


def some_field(values: bool, scale: float) -> tuple[Any, ...]:
    """Sentences (one of them empty), weights, and the part of the weights that may move."""
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
    """For each label the kept masses sum to the exact probabilities, but for at most `light`."""
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
