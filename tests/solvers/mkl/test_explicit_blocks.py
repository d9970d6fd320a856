"""Inner products, scores and steps of explicit blocks, dense and sparse in one table, against plain numpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spom.solvers.mkl.errors import errors_of, wrong_tokens
from spom.solvers.mkl.explicit import Explicit, Weights, Wrong, add_explicit, add_to_weights, explicit_along, within

LENGTHS = [3, 1, 0, 4]


class Blocks:
    """Two sparse blocks with a dense one between them, of a few sequences: `rows` as loops take them, `X` as arrays."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        n = sum(LENGTHS)
        self.offsets = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(np.square(LENGTHS))]).astype(np.int64)
        self.X = [draw.normal(size=(n, d)) for d in (5, 3, 4)]
        ptr, indices, values, shapes = np.zeros((3, n + 1), dtype=np.int64), [], [], []
        for e, X in enumerate(self.X):
            dense = e == 1
            if not dense:
                X[draw.random(X.shape) < 0.4] = 0.0
            ptr[e, 0] = len(values)
            # The values up to here that have no index: those of dense blocks.
            shapes.append([len(values) - len(indices), self.feature(e).start, int(dense), X.shape[1]])
            for i, row in enumerate(X):
                places = range(row.size) if dense else np.flatnonzero(row)
                values += [row[j] for j in places]
                indices += [] if dense else list(places)
                ptr[e, i + 1] = len(values)
        self.rows = Explicit(ptr, np.array(indices, np.int32), np.array(values), np.array(shapes, np.int64))
        self.draw = draw

    def feature(self, e: int) -> slice:
        """Return the places of the features of block e among all."""
        return slice(sum(X.shape[1] for X in self.X[:e]), sum(X.shape[1] for X in self.X[: e + 1]))


@pytest.mark.parametrize("e", [0, 1, 2])
def test_inner_products_within_sequences(e: int) -> None:
    blocks = Blocks(e)
    spare, out = np.zeros(blocks.X[e].shape[1]), np.full(int(blocks.starts[-1]), np.nan)
    within(blocks.rows, e, blocks.offsets, blocks.starts, spare, out)
    parts = [(X @ X.T).reshape(-1) for a, b in pairwise(blocks.offsets.tolist()) for X in [blocks.X[e][a:b]]]
    np.testing.assert_allclose(out, np.concatenate(parts), atol=1e-12)
    assert not spare.any()


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("e", [0, 1, 2])
def test_scores_and_steps_of_weights(e: int, averaged: bool) -> None:
    blocks, k, stamp, (c, sigma) = Blocks(10 + e), 3, 5, (-0.7, 1.9)
    draw, d = blocks.draw, sum(X.shape[1] for X in blocks.X)
    V, sums = draw.normal(size=(d, k)), draw.normal(size=(d, k))
    # Weights without the stamp are of an older time, and count as zero.
    marks = np.where(draw.random(d) < 0.5, stamp, 4)
    X, own = blocks.X[e], blocks.feature(e)
    now = np.where((marks == stamp)[:, None], V, 0.0)[own]
    weights = Weights(V, marks, sums if averaged else np.zeros((0, k)))
    a, b = 4, 8
    unary = draw.normal(size=(b - a, k))
    expected = unary + 0.3 * X[a:b] @ now
    add_explicit(blocks.rows, e, weights, stamp, 0.3, a, b, unary)
    np.testing.assert_allclose(unary, expected, atol=1e-12)
    errors = errors_of(b - a, k)
    errors.D[:] = 0.0
    errors.D[[0, 2, 3]] = [[0.5, -0.5, 0.0], [1.0, 0.0, -1.0], [0.2, 0.3, -0.5]]
    count = wrong_tokens(b - a, 0.0, errors)
    assert count == 3
    wrong, D = Wrong(errors, a, count), errors.D[: b - a]
    gradient = X[a:b].T @ D
    assert explicit_along(blocks.rows, e, weights, stamp, wrong) == pytest.approx((now * gradient).sum(), abs=1e-12)
    others: Any = [V.copy(), sums.copy()]
    add_to_weights(blocks.rows, e, weights, stamp, wrong, c, sigma)
    touched = (X[a:b][[0, 2, 3]] != 0.0).any(axis=0)
    after = np.where(touched[:, None], now + c * gradient, others[0][own])
    np.testing.assert_allclose(V[own], after, atol=1e-12)
    assert (marks[own] == stamp).tolist() == (touched | (np.abs(now).sum(axis=1) > 0.0)).tolist()
    np.testing.assert_allclose(sums[own], others[1][own] - sigma * c * gradient * averaged, atol=1e-12)
    elsewhere = np.setdiff1d(np.arange(d), np.arange(d)[own])
    np.testing.assert_array_equal(V[elsewhere], others[0][elsewhere])
    np.testing.assert_array_equal(sums[elsewhere], others[1][elsewhere])
