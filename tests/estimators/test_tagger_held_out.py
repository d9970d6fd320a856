"""`prune="auto"`: templates go where held-out sentences say so."""

from __future__ import annotations

import numpy as np
import pytest

from spom import SequenceTagger, load_model
from spom.estimators import pruning as shared
from spom.estimators.tagger import pruning
from spom.estimators.tagger.pruning import Smaller
from spom.penalties import L1, GroupLasso
from spom.solvers.structured.chains.data import Tokens

RNG = np.random.default_rng(0)
WORDS = np.array(["the", "a", "dog", "cat", "runs", "sleeps", "red", "old"])
LABEL = {"the": "D", "a": "D", "dog": "N", "cat": "N", "runs": "V", "sleeps": "V", "red": "A", "old": "A"}
X = [[(str(w), f"x{RNG.integers(30)}") for w in RNG.choice(WORDS, size=6)] for _ in range(600)]
# A tenth of the labels is noise, so that the templates of noise have something to fit.
Y = [[LABEL[w] if RNG.random() < 0.9 else str(RNG.choice(list("DNVA"))) for w, _ in s] for s in X]
TEMPLATES = ["w[0]", "w.lower[0]", "w[-1]|w[1]", "pos[0]", "pos[-1]|pos[0]", "pos[1]|w[1]"]


def fit(templates: list[str], **params: object) -> SequenceTagger:
    return SequenceTagger(templates, random_state=0, verbose=0, **params).fit(X, Y)


def test_templates_of_noise_go_and_the_model_is_smaller(tmp_path: object) -> None:
    full, pruned = fit(TEMPLATES), fit(TEMPLATES, prune="auto")
    assert {"pos[-1]|pos[0]", "pos[1]|w[1]"} & set(pruned.pruning_.dropped)
    assert {"w[0]", "w.lower[0]"} & set(pruned.pruning_.kept)
    assert pruned.nonzeros_ < full.nonzeros_
    full.save(f"{tmp_path}/full")
    pruned.save(f"{tmp_path}/pruned")
    assert load_model(f"{tmp_path}/pruned").pruning_.startswith(str(len(pruned.pruning_.dropped)))
    clean = [[LABEL[w] for w, _ in s] for s in X]
    assert pruned.score(X, clean) >= full.score(X, clean) - 0.002
    text = str(pruned.pruning_)
    assert "at a risk of .025" in text
    assert ": taken" in text
    assert "dropped" in text


def test_the_order_of_templates_does_not_matter() -> None:
    first, second = fit(TEMPLATES, prune="auto").pruning_, fit(TEMPLATES[::-1], prune="auto").pruning_
    assert set(first.kept) == set(second.kept)
    evidence = dict(zip(second.names, second.selection.evidence, strict=True))
    for name, value in zip(first.names, first.selection.evidence, strict=True):
        assert value == pytest.approx(evidence[name], rel=0.05, abs=0.01)


def test_templates_that_are_needed_stay() -> None:
    t = fit(["w[0]", "w[-1]"], prune="auto")
    assert "w[0]" in t.pruning_.kept


def test_few_sentences_keep_everything() -> None:
    t = SequenceTagger(TEMPLATES, prune="auto", random_state=0, verbose=0).fit(X[:20], Y[:20])
    assert t.pruning_.dropped == ()
    assert "too few to compare on" in str(t.pruning_)


def test_the_penalty_stays_as_it_is() -> None:
    assert fit(TEMPLATES, prune="auto").penalty_.strength == fit(TEMPLATES).penalty_.strength
    assert fit(TEMPLATES, prune="auto", penalty=L1(1e-4)).penalty_.strength == 1e-4


def test_under_a_penalty_of_templates_single_weights_are_not_chosen() -> None:
    pruned = fit(TEMPLATES, prune="auto", penalty=GroupLasso(1e-4)).pruning_
    assert pruned.chosen.share == 1.0
    assert len(pruned.verdicts) == 1
    assert "of their weights" not in str(pruned)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_weights_that_are_kept_are_the_largest(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_candidates", lambda trial, some: [Smaller(np.arange(len(trial.blocks)), share)])
    monkeypatch.setattr(shared, "FALL", 1.0)
    full, pruned = fit(TEMPLATES), fit(TEMPLATES, prune="auto")
    limited = fit(TEMPLATES, max_weights=int(share * full.nonzeros_))
    assert pruned.nonzeros_ <= share * full.nonzeros_
    np.testing.assert_array_equal(pruned.weights_, limited.weights_)


def test_weights_that_matter_least_can_go_without_learning_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_candidates", lambda t, some: [Smaller(np.arange(len(t.blocks)), 0.8, False)])
    monkeypatch.setattr(shared, "FALL", 1.0)
    full, pruned = fit(TEMPLATES), fit(TEMPLATES, prune="auto")
    assert not pruned.pruning_.chosen.again
    assert 0.7 * full.nonzeros_ < pruned.nonzeros_ <= 0.8 * full.nonzeros_


def test_the_weights_that_matter_most_are_found_as_by_a_loop() -> None:
    rng = np.random.default_rng(2)
    W = np.where(rng.random((30, 4)) < 0.5, rng.standard_normal((30, 4)), 0.0).astype(np.float32)
    rows = [rng.choice(30, size=5, replace=False) for _ in range(40)]
    indices = np.concatenate(rows).astype(np.int32)
    tokens = Tokens(np.arange(0, 201, 5), indices, np.zeros(0), np.array([0, 40]))
    matters = []
    for i in range(30):
        seen = sum(int(i in row) for row in rows)
        matters += [(abs(float(W[i, j])) * seen**0.5, i, j) for j in range(4) if W[i, j] != 0.0]
    wanted = np.zeros_like(W)
    for _, i, j in sorted(matters, reverse=True)[: int(0.6 * len(matters))]:
        wanted[i, j] = W[i, j]
    np.testing.assert_array_equal(pruning.without_small(W, tokens, 0.6), wanted)


def test_the_fall_and_its_error_are_those_of_resampled_sentences() -> None:
    rng = np.random.default_rng(1)
    wanted = rng.integers(1, 9, 400)
    full = np.stack([wanted, wanted, rng.binomial(wanted, 0.9)], axis=1)
    smaller = np.stack([wanted, rng.integers(1, 9, 400), rng.binomial(wanted, 0.8)], axis=1)
    falls = []
    for _ in range(2000):
        some = rng.integers(400, size=400)
        falls.append(shared.paired_fall(full[some], smaller[some])[0])
    fall, error = shared.paired_fall(full, smaller)
    assert fall == pytest.approx(np.mean(falls), abs=3 * error / np.sqrt(2000) + 1e-3)
    assert error == pytest.approx(np.std(falls), rel=0.1)


def test_one_template_can_have_fewer_weights() -> None:
    full, pruned = fit(["w[0]|pos[0]"]), fit(["w[0]|pos[0]"], prune="auto")
    assert pruned.pruning_.dropped == ()
    assert pruned.nonzeros_ <= full.nonzeros_


def test_weights_that_are_all_equal_can_be_compared() -> None:
    warm = [[("a",), ("b",)]] * 80, [["X", "Y"]] * 80
    assert SequenceTagger(verbose=0, prune="auto", random_state=0).fit(*warm).score(*warm) == 1.0
