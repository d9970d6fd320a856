"""Knockoff templates: they keep what they must, and the promised rate is held on planted noise."""

from __future__ import annotations

import numpy as np
import pytest

from spom import SequenceTagger
from spom.features.rows import Blocks
from spom.solvers.knockoffs import leads, stated, threshold
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.knockoffs import discover, with_knockoffs

USEFUL, NOISE, LEVELS = 12, 12, 4


def drawn(seed: int, sentences: int = 60) -> tuple[Tokens, np.ndarray, Blocks]:
    """Twelve blocks of which each shows the label through its own noise, and twelve that do not."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(3, 8, sentences))]).astype(np.int64)
    n = int(offsets[-1])
    y = rng.integers(0, 3, n)
    columns = []
    for m in range(USEFUL + NOISE):
        level = rng.integers(0, LEVELS, n)
        if m < USEFUL:
            level = np.where(rng.random(n) < 0.35, y, level)
        columns.append(level + LEVELS * m)
    indices = np.stack(columns, axis=1).astype(np.int32)
    indptr = np.arange(0, indices.size + 1, indices.shape[1], dtype=np.int64)
    starts = np.arange(0, LEVELS * (USEFUL + NOISE) + 1, LEVELS, dtype=np.int64)
    names = tuple(str(m) for m in range(USEFUL + NOISE))
    return Tokens(indptr, indices.ravel(), np.zeros(0), offsets), y, Blocks(names, starts)


def test_a_knockoff_has_the_same_features_on_other_tokens() -> None:
    tokens, _, blocks = drawn(0, sentences=5)
    both, names = with_knockoffs(tokens, blocks, np.random.default_rng(1))
    total, n = blocks.total, tokens.total
    table = both.indices.reshape(n, -1)
    real, other = table[:, : len(blocks)], table[:, len(blocks) :] - total
    np.testing.assert_array_equal(real.ravel(), tokens.indices)
    moved = np.sort(other, axis=1)
    for m in range(len(blocks)):
        assert sorted(moved[:, m].tolist()) == sorted(real[:, m].tolist())
    assert (moved != np.sort(real, axis=1)).any()
    assert names.names[len(blocks)] == "knockoff of 0"
    np.testing.assert_array_equal(np.diff(names.starts), np.tile(np.diff(blocks.starts), 2))


def test_the_threshold_is_the_least_that_reaches_the_rate() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        W, rate, c = rng.standard_normal(15) + 1.0, float(rng.uniform(0.1, 0.6)), int(rng.integers(1, 4))
        fine = [t for t in np.abs(W) if (1 + sum(-t >= W)) / c / max(1, sum(t <= W)) <= rate]
        assert threshold(W, rate, c)[0] == (min(fine) if fine else np.inf)


def test_the_rate_is_held_for_any_number_of_knockoffs() -> None:
    rng = np.random.default_rng(3)
    for copies in (1, 5, 20):
        shares, found = [], []
        for _ in range(400):
            sizes = rng.exponential(size=(30, 1 + copies))
            sizes[:15, 0] += 4.0
            kept = stated(leads(sizes[:, 0], sizes[:, 1:]), 0.2, copies).found
            shares.append((kept >= 15).sum() / max(1, kept.size))
            found.append((kept < 15).sum())
        # The standard error of the mean is below .01.
        assert np.mean(shares) <= 0.2 + 0.02
        assert np.mean(found) >= 8


def test_the_promised_rate_is_held_and_useful_blocks_are_found() -> None:
    shares, found = [], []
    for seed in range(25):
        tokens, y, blocks = drawn(seed)
        kept = discover(tokens, y, blocks, np.zeros((5, 3)), 0.2, random_state=seed).kept
        shares.append((kept >= USEFUL).sum() / max(1, kept.size))
        found.append((kept < USEFUL).sum())
    # The mean of 25 shares has a standard error of about .02.
    assert np.mean(shares) <= 0.2 + 0.05
    assert np.mean(found) >= 0.8 * USEFUL


def test_a_tagger_takes_a_rate_and_reports_it() -> None:
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(80):
        y = rng.integers(0, 2, 5)
        rows = [[f"{m}={v if rng.random() < 0.6 else rng.integers(0, 2)}" for m in range(12)] for v in y]
        X.append([{f"f{m}": row[m] for m in range(12)} | {"noise": str(rng.integers(0, 5))} for row in rows])
        Y.append(["ab"[v] for v in y])
    tagger = SequenceTagger(prune={"false_discovery_rate": 0.2}, random_state=0, verbose=0).fit(X, Y)
    assert tagger.pruning_ is not None
    assert "false discovery rate at most 0.2" in str(tagger.pruning_)
    assert tagger.selected_.size >= 8
    for bad in ({"rate": 0.1}, {"false_discovery_rate": 2.0}, {"false_discovery_rate": 0.1, "more": 1}):
        with pytest.raises(ValueError, match="prune as a dict"):
            SequenceTagger(prune=bad).fit(X, Y)
    with pytest.raises(ValueError, match=r"13 templates are too few .* at least 100 would"):
        SequenceTagger(prune={"false_discovery_rate": 0.01}, random_state=0, verbose=0).fit(X, Y)
