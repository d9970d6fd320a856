"""The Hessian of a random field times a vector: against differences of gradients, and with labels left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spom.solvers.structured.chains.batch import curvature
from spom.solvers.structured.chains.batch.curvature import Curvature
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
def test_it_is_the_derivative_of_the_gradient(values: bool, forbidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curvature, "LEAST", 0.0)
    monkeypatch.setattr(curvature, "SURE", 0.0)
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
    H = Curvature(tokens, W, chain + never, on, steps)
    np.testing.assert_allclose(H(v), np.concatenate(g) / (2.0 * h), atol=1e-5)


def test_with_labels_left_out_it_stays_symmetric_and_positive() -> None:
    tokens, _, W, chain, on, steps = some_field(False, 4.0)
    H = Curvature(tokens, W, chain, on, steps)
    assert H.chains.at[-1] < tokens.total * 4
    full = np.stack([H(row) for row in np.eye(int(on.sum() + steps.sum()))])
    np.testing.assert_allclose(full, full.T, atol=1e-10)
    assert np.linalg.eigvalsh(full).min() > -1e-9
