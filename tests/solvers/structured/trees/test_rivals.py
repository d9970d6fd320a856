"""Arcs that compete for a word, and the loss of their scores, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from spom.solvers.structured.trees.garrote import RIVALS, head_loss, rivals


@pytest.mark.parametrize("seed", range(12))
def test_rivals_are_the_gold_arc_and_the_best_ones_with_their_ties(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, count = 4, int(draw.integers(30, 60))
    modifiers, right = draw.integers(1, n + 1, count), draw.random(count) < 0.1
    scores = draw.integers(-4, 5, count).astype(np.float32)
    scores[draw.random(count) < 0.1] = -np.inf
    out = np.zeros(count + 3, dtype=bool)
    padded = np.concatenate([scores, np.full(3, 99.0, dtype=np.float32)])
    rivals(padded, np.append(modifiers, [1, 2, 3]), np.append(right, [False] * 3), count, n, out)
    for m in range(1, n + 1):
        own = sorted(scores[modifiers == m].tolist(), reverse=True)
        least = own[RIVALS - 1] if len(own) >= RIVALS else -np.inf
        np.testing.assert_array_equal(
            out[:count][modifiers == m], right[modifiers == m] | (scores[modifiers == m] >= least)
        )
    assert not out[count:].any()
    assert 0 < out.sum() < count


def test_the_loss_is_that_of_a_softmax_over_the_heads_of_each_word() -> None:
    draw = np.random.default_rng(0)
    words, count = np.array([0, 0, 0, 2, 2, 3, 3, 3, 1]), 5
    right = np.array([0, 1, 0, 0, 0, 1, 0, 0, 1], dtype=bool)
    for scale in (1.0, 300.0):
        scores = (scale * draw.normal(size=words.size)).astype(np.float32)
        out = np.full(words.size, 9.0, dtype=np.float32)
        found = head_loss(scores, words, right, count, out)
        loss, slope = 0.0, np.zeros(words.size)
        for w in range(count):
            own = words == w
            # A word without its gold arc teaches nothing; the last word has no arcs at all.
            if right[own].any():
                x = scores[own].astype(float)
                p = np.exp(x - x.max())
                p /= p.sum()
                loss -= np.log(max(float(p[right[own]][0]), 1e-300)) / count
                slope[own] = (p - right[own]) / count
        assert found == pytest.approx(loss, rel=1e-6)
        np.testing.assert_allclose(out, slope, atol=1e-7)
