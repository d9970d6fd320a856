"""Selection of kernels: noise is left out at the promised rate, or what held-out rows do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spom
from spom import MKLClassifier, MKLRegressor
from spom.errors import Unsupported
from spom.kernels import Function, Gaussian, Linear, Nystroem
from spom.solvers.mkl.knockoffs import select_kernels

USEFUL, NOISE = 8, 16


def column(j: int) -> Function:
    """Return the linear kernel of one column."""
    return Function(lambda X, Z: np.outer(X[:, j], Z[:, j]))


def drawn(seed: int, n: int = 150) -> tuple[list[Any], np.ndarray]:
    """Gram matrices of which the first eight see a weak sign of the class in two of four columns, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    grams = []
    for m in range(USEFUL + NOISE):
        X = rng.standard_normal((n, 4))
        if m < USEFUL:
            X[:, :2] += 0.8 * np.stack([y == 1, y == 2], axis=1)
        grams.append(Gaussian(2.0 + 2.0 * (m % 3)).block(X))
    return grams, y


def centred(y: np.ndarray) -> np.ndarray:
    found = np.eye(3)[y]
    return found - found.mean(axis=0)


def test_the_promised_rate_is_held_and_useful_kernels_are_found() -> None:
    shares, found = [], []
    for seed in range(40):
        grams, y = drawn(seed)
        kept = select_kernels(lambda m, rows, g=grams: g[m][np.ix_(rows, rows)], len(grams), centred(y), 0.2, seed).kept
        shares.append((kept >= USEFUL).sum() / max(1, kept.size))
        found.append((kept < USEFUL).sum())
    # The mean of 40 shares has a standard error of about .02.
    assert np.mean(shares) <= 0.2 + 0.05
    assert np.mean(found) >= 0.8 * USEFUL


def test_a_kernel_alone_may_stand_out() -> None:
    grams, y = drawn(0)
    kept = select_kernels(lambda m, rows: grams[m][np.ix_(rows, rows)], 1, centred(y), 0.1).kept
    assert kept.tolist() == [0]


def test_a_constant_kernel_never_stands_out() -> None:
    kept = select_kernels(lambda m, rows: np.ones((rows.size, rows.size)), 3, centred(drawn(0)[1]), 0.5).kept
    assert kept.size == 0


def test_a_classifier_learns_with_what_is_kept_alone(tmp_path: Path) -> None:
    grams, y = drawn(1)
    model = MKLClassifier("precomputed", prune={"false_discovery_rate": 0.2}, random_state=0).fit(grams, y)
    found = model.pruning_.selection
    assert set(range(USEFUL)) - set(found.kept.tolist()) == set()
    assert set(model.selected_.tolist()) <= set(found.kept.tolist())
    assert model.block_norms_.shape == (USEFUL + NOISE,)
    alone = MKLClassifier("precomputed", random_state=0).fit([grams[m] for m in found.kept], y)
    some = [gram[:30] for gram in grams]
    np.testing.assert_array_equal(model.predict(some), alone.predict([some[m] for m in found.kept]))
    assert str(model.pruning_).startswith("false discovery rate at most 0.2; about ")
    assert f"of {USEFUL + NOISE} kernels dropped" in str(model.pruning_)
    model.save(tmp_path / "model.spom")
    again = spom.load_model(tmp_path / "model.spom")
    assert again.pruning_ is None
    np.testing.assert_array_equal(again.predict(some), model.predict(some))


@pytest.mark.parametrize("params", [{"loss": "log", "epochs": 5}, {"penalty": "group-lasso"}, {"probability": True}])
def test_every_way_to_learn_takes_what_is_kept(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    kernels = [*(column(j) for j in range(6)), Gaussian(1.0)]
    model = MKLClassifier(kernels, prune={"false_discovery_rate": 0.3}, random_state=0, **params).fit(X, y)
    assert {0, 1} <= set(model.pruning_.selection.kept.tolist())
    assert set(model.selected_.tolist()) <= set(model.pruning_.selection.kept.tolist())
    assert model.score(X, y) > 0.85
    assert model.blocks_ == kernels
    assert len(model.explain(X[:1])[0].names) <= len(model.pruning_.kept)


def test_a_regressor_takes_a_rate() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    kernels = [column(j) for j in range(6)]
    weight = rng.uniform(0.5, 2.0, 150)
    model = MKLRegressor(kernels, prune={"false_discovery_rate": 0.2}, random_state=0)
    model.fit(X, 2.0 * X[:, 2] - X[:, 4] + 0.1 * rng.standard_normal(150), weight)
    assert {2, 4} <= set(model.pruning_.selection.kept.tolist())
    assert set(np.flatnonzero(model.block_weights_).tolist()) <= set(model.pruning_.selection.kept.tolist())
    assert model.score(X, 2.0 * X[:, 2] - X[:, 4]) > 0.95


def test_what_cannot_be_is_refused() -> None:
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 2, 60)
    with pytest.raises(ValueError, match=r"no kernels stand out at a false discovery rate of 0\.1: at least 1 would"):
        MKLClassifier([column(0), column(1)], prune={"false_discovery_rate": 0.1}, random_state=0).fit(X, y)
    for bad in ("some", 3, {"rate": 0.1}, {"false_discovery_rate": 1.5}):
        with pytest.raises(ValueError, match="prune"):
            MKLClassifier([Linear()], prune=bad).fit(X, y)
    with pytest.raises(Unsupported, match="explicit features"):
        MKLClassifier([Nystroem(Gaussian(), 5)], prune={"false_discovery_rate": 0.1}).fit(X, y)


# --- prune="auto" ------------------------------------------------------------------------------------------------


def test_fewer_kernels_that_do_as_well_on_held_out_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 5))
    y = (X[:, 0] > 0).astype(int)
    kernels = [column(j) for j in range(5)]
    model = MKLClassifier(kernels, prune="auto", random_state=0).fit(X[:300], y[:300])
    whole = MKLClassifier(kernels, random_state=0).fit(X[:300], y[:300])
    assert model.pruning_.selection.kept.tolist() == [0]
    assert model.selected_.tolist() == [0]
    assert model.n_support_ <= whole.n_support_
    assert model.score(X[300:], y[300:]) >= whole.score(X[300:], y[300:]) - 0.01
    told = str(model.pruning_)
    assert told.startswith("4 of 5 kernels dropped, from 300 rows in ")
    assert "1 of 5: score " in told
    assert ": taken" in told
    alone = MKLClassifier(kernels[:1], random_state=0).fit(X[:300], y[:300])
    np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))


def test_kernels_that_are_all_needed_are_all_kept() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 4))
    kernels = [column(j) for j in range(4)]
    model = MKLClassifier(kernels, prune="auto", random_state=0).fit(X, (X.sum(axis=1) > 0).astype(int))
    assert model.pruning_.selection.kept.tolist() == [0, 1, 2, 3]
    assert str(model.pruning_).count(": refused") == len(model.pruning_.selection.tried) > 0
    target = X @ [1.0, 2.0, 1.0, 2.0]
    regressor = MKLRegressor(kernels, prune="auto", random_state=0).fit(X, target)
    assert regressor.pruning_.selection.kept.tolist() == [0, 1, 2, 3]
    less = MKLRegressor(kernels, prune="auto", random_state=0).fit(X, 3.0 * X[:, 2], rng.uniform(0.5, 2.0, 300))
    assert less.pruning_.selection.kept.tolist() == [2]


def test_gram_matrices_and_few_rows() -> None:
    grams, y = drawn(4)
    model = MKLClassifier("precomputed", prune="auto", random_state=0).fit(grams, y)
    kept = model.pruning_.selection.kept
    assert 0 < kept.size <= USEFUL + NOISE
    alone = MKLClassifier("precomputed", random_state=0).fit([grams[m] for m in kept], y)
    some = [gram[:20] for gram in grams]
    np.testing.assert_array_equal(model.predict(some), alone.predict([some[m] for m in kept]))
    few = MKLClassifier([column(0), column(1)], prune="auto").fit(np.eye(4), [0, 1, 0, 1])
    assert "all are kept: 4 rows are too few to compare" in str(few.pruning_)
    assert "there is one kernel" in str(MKLClassifier([Linear()], prune="auto").fit(np.eye(4), [0, 1, 0, 1]).pruning_)


def test_a_class_with_a_single_row_is_learnt_in_every_part() -> None:
    X = np.random.default_rng(0).standard_normal((90, 3))
    model = MKLClassifier([column(0), column(1)], prune="auto", random_state=0).fit(X, ["rare", *["usual"] * 89])
    assert model.classes_.tolist() == ["rare", "usual"]
    assert model.pruning_.selection.rows == 90
