"""`prune="auto"`: templates go where held-out sentences say so."""

from __future__ import annotations

import numpy as np
import pytest

from spom import SequenceTagger, load_model
from spom.penalties import L1

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
    assert "at a risk of .1" in text
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


def test_the_l1_penalty_becomes_stronger_only_where_it_was_not_given() -> None:
    chosen = fit(TEMPLATES, prune="auto")
    assert chosen.pruning_.factor == 2.0
    assert chosen.penalty_.strength == pytest.approx(2.0 * fit(TEMPLATES).penalty_.strength)
    assert "at 2 times the strength" in str(chosen.pruning_)
    given = fit(TEMPLATES, prune="auto", penalty=L1(1e-4))
    assert given.pruning_.factor == 1.0
    assert given.penalty_.strength == 1e-4
    assert "strength against" not in str(given.pruning_)


def test_one_template_can_have_fewer_weights() -> None:
    full, pruned = fit(["w[0]|pos[0]"]), fit(["w[0]|pos[0]"], prune="auto")
    assert pruned.pruning_.dropped == ()
    assert pruned.nonzeros_ <= full.nonzeros_
