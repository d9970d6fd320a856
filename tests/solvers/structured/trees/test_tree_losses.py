"""Losses of trees and their gradients against plain Python, where scores of right arcs may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.solvers.structured.structures import (
    Parts,
    augment_arcs,
    minus_gold_arcs,
    projective_best,
    projective_sums,
    tree_best,
    tree_difference,
    tree_sums,
)

NOTHING = np.empty((0, 0))


def drawn(seed: int) -> tuple[int, Any, list[int], list[int]]:
    """Return words, scores of which some are missing, the right heads from word 1 on, and other heads with a score."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 6))
    scores = draw.normal(size=(n + 1, n + 1)).astype(np.float32).astype(np.float64)
    gold = [int(draw.choice([h for h in range(n + 1) if h != m])) for m in range(1, n + 1)]
    scores[draw.random(scores.shape) < 0.4] = -np.inf
    scores[np.arange(n + 1), np.arange(n + 1)] = scores[:, 0] = -np.inf
    heads = []
    for m in range(1, n + 1):
        if (scores[:, m] == -np.inf).all():
            scores[0, m] = 0.5
        heads.append(int(draw.choice(np.flatnonzero(scores[:, m] > -np.inf))))
    return n, scores, gold, heads


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_minus_the_right_one(seed: int) -> None:
    n, scores, gold, heads = drawn(seed)
    change, loss = np.zeros((n + 1, n + 1)), 0.0
    for m, (right, other) in enumerate(zip(gold, heads, strict=True), 1):
        change[other, m] += 1.0
        loss += scores[other, m]
        if scores[right, m] > -np.inf:
            change[right, m] -= 1.0
            loss -= scores[right, m]
    out = Parts(np.full((n + 1, n + 1), 7.0), NOTHING)
    found = tree_difference(Parts(scores, NOTHING), np.array([-1, *gold]), np.array(heads), out)
    assert found == pytest.approx(loss, abs=1e-12)
    np.testing.assert_array_equal(out.unary, change)


@pytest.mark.parametrize("seed", range(12))
def test_the_right_tree_is_taken_from_a_sum(seed: int) -> None:
    n, scores, gold, _ = drawn(seed)
    shares = np.random.default_rng(seed).random((n + 1, n + 1))
    out, expected, total = Parts(shares.copy(), NOTHING), shares.copy(), 3.25
    for m, right in enumerate(gold, 1):
        if scores[right, m] > -np.inf:
            expected[right, m] -= 1.0
            total -= scores[right, m]
    found = minus_gold_arcs(Parts(scores, NOTHING), np.array([-1, *gold]), out, 3.25)
    assert found == pytest.approx(total, abs=1e-12)
    np.testing.assert_array_equal(out.unary, expected)


@pytest.mark.parametrize("seed", range(12))
def test_wrong_arcs_cost_something(seed: int) -> None:
    n, scores, gold, _ = drawn(seed)
    expected = scores.copy()
    for m, right in enumerate(gold, 1):
        others = np.arange(n + 1) != right
        expected[others, m] = scores[others, m].astype(np.float32) + np.float32(0.7)
    augment_arcs(Parts(scores, NOTHING), np.array([-1, *gold]), 0.7)
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("decode", [tree_best, projective_best, tree_sums, projective_sums])
def test_there_is_no_loss_where_there_is_no_tree(decode: Any) -> None:
    crossing, cycle = np.full((5, 5), -np.inf), np.full((3, 3), -np.inf)
    crossing[[3, 4, 4, 0], [1, 2, 3, 4]] = [1.5, -1.0, 2.0, 0.25]
    cycle[[1, 2], [2, 1]] = 1.0
    for scores, gold in ((crossing, [-1, 3, 4, 4, 0]), (cycle, [-1, 2, 0])):
        out = Parts(np.full(scores.shape, 7.0), NOTHING)
        assert decode(Parts(scores, NOTHING), np.array(gold), np.empty(0), out) == 0.0
        # The crossing tree is found by those that search all trees: it is the right one.
        assert not out.unary[:, 1:].any()
