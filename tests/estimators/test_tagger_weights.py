"""Taggers that learn from sentences with unknown labels, and with weights of sentences and tokens."""

from __future__ import annotations

import numpy as np
import pytest

from spom import SequenceTagger
from spom.errors import DataError, Unsupported
from spom.estimators.tagger.weights import levels, weighted
from spom.kernels import Linear
from spom.penalties import ElasticNet
from spom.solvers.structured.chains.data import as_tokens

WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "sees": "V", "hears": "V"}
SHAPE = ("D", "N", "V", "D", "N")


def sentences(count: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X = [[str(rng.choice([w for w, tag in WORDS.items() if tag == t])) for t in SHAPE] for _ in range(count)]
    return X, [list(SHAPE) for _ in X]


def same(one: SequenceTagger, other: SequenceTagger) -> bool:
    return np.array_equal(one.weights_, other.weights_) and np.array_equal(one.chain_, other.chain_)


@pytest.mark.parametrize("loss", ["log", "softmax-margin", "hinge", "perceptron"])
def test_half_of_the_labels_are_enough(loss: str) -> None:
    """Learn from labels of which some are unknown in one sentence and known in another."""
    X, y = sentences(60)
    rng = np.random.default_rng(1)
    some = [[label if rng.random() < 0.5 else None for label in labels] for labels in y]
    tagger = SequenceTagger(loss=loss, random_state=0).fit(X, some)
    assert tagger.classes_.tolist() == ["D", "N", "V"]
    assert tagger.predict(X) == y


def test_no_label_none_is_learnt_and_templates_look_at_the_known_ones() -> None:
    X, y = sentences(20)
    phrases = [[{"D": "B-NP", "N": "I-NP", "V": "O"}[label] for label in labels] for labels in y]
    phrases[0][0] = phrases[3][2] = None
    tagger = SequenceTagger(random_state=0).fit(X, phrases)
    assert "None" not in tagger.classes_.tolist()
    assert "entities" in tagger.templates_
    assert tagger.constraints_ == "BIO"


def test_known_labels_that_break_a_scheme_are_counted() -> None:
    X = [["a", "b", "c"]] * 40
    y = [["B-X", None, "I-X"]] * 39 + [["O", "I-X", None]]
    with pytest.warns(UserWarning, match="1 sentence has gold labels that break BIO .the first is sentence 39"):
        SequenceTagger(random_state=0).fit(X, y)


def test_partial_fit_takes_unknown_labels_and_weights() -> None:
    X, y = sentences(30)
    y[0][1] = None
    tagger = SequenceTagger(random_state=0)
    tagger.partial_fit(X, y, [1.0] * 30).partial_fit(X, y, sample_weight=[2.0] * 15 + [1.0] * 15)
    assert tagger.predict(X[1:]) == y[1:]


def test_a_weight_of_zero_is_a_sentence_that_is_not_there() -> None:
    """Check that wrong labels in half of the sentences do no harm if these have weight zero."""
    X, y = sentences(40)
    wrong = [["V", "V", "N", "N", "D"] for _ in X]
    tagger = SequenceTagger(random_state=0).fit(X + X, y + wrong, [1.0] * 40 + [0.0] * 40)
    assert tagger.predict(X) == y
    other = SequenceTagger(random_state=0).fit(X + X, y + wrong, [0.0] * 40 + [1.0] * 40)
    assert other.predict(X) == wrong


def test_a_token_of_weight_zero_is_one_whose_label_is_unknown() -> None:
    X, y = sentences(30)
    rng = np.random.default_rng(2)
    weights = [[float(rng.random() < 0.6) for _ in labels] for labels in y]
    weights = [w if any(w) else [1.0, *w[1:]] for w in weights]
    unknown = [[label if w else None for label, w in zip(*pair, strict=True)] for pair in zip(y, weights, strict=True)]
    assert same(SequenceTagger(random_state=0).fit(X, y, weights), SequenceTagger(random_state=0).fit(X, unknown))


def test_equal_weights_of_tokens_are_weights_of_sentences() -> None:
    X, y = sentences(20)
    own = np.random.default_rng(3).uniform(0.5, 2.0, 20)
    tokens = [[w] * 5 for w in own.tolist()]
    one = SequenceTagger(random_state=0).fit(X, y, own)
    assert same(one, SequenceTagger(random_state=0).fit(X, y, tokens))
    assert not same(one, SequenceTagger(random_state=0).fit(X, y))


def test_levels_of_token_weights() -> None:
    """Check that the weights of the levels in which a token is known sum to its weight."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        n = int(rng.integers(1, 6))
        w, y = rng.choice([0.0, 0.5, 1.0, 3.0], n), rng.integers(0, 4, n)
        total = np.zeros(n)
        for labels, weight in levels(w, y):
            assert weight > 0.0
            assert set(labels[labels >= 0]) <= set(y)
            total += np.where(labels >= 0, weight, 0.0)
        np.testing.assert_allclose(total, w)


def test_sentences_are_there_once_for_each_level() -> None:
    class Rows:
        indptr, indices, values, offsets = [0, 1, 2, 3], [0, 1, 2], [], [0, 2, 3]

    tokens, y, weight = weighted(as_tokens(Rows), np.array([0, 1, 1]), [np.array([1.0, 3.0]), np.array([2.0])])
    assert tokens.offsets.tolist() == [0, 2, 4, 5]
    assert tokens.indices.tolist() == [0, 1, 0, 1, 2]
    assert (y.tolist(), weight.tolist()) == ([0, 1, -1, 1, 1], [1.0, 2.0, 2.0])


def test_kernels_take_weights_of_sentences() -> None:
    rng = np.random.default_rng(5)
    X = [rng.standard_normal((4, 3)) for _ in range(30)]
    y = [["p" if v[0] > 0 else "q" for v in x] for x in X]
    wrong = [["q" if v[0] > 0 else "p" for v in x] for x in X]
    tagger = SequenceTagger(kernels=[Linear()], transitions=None, random_state=0)
    tagger.fit(X + X, y + wrong, sample_weight=[1.0] * 30 + [0.0] * 30)
    assert tagger.score(X, y) > 0.9


BAD = [
    ({"sample_weight": [1.0]}, DataError, "1 entries for 20 sentences"),
    ({"sample_weight": [[1.0, 2.0]] * 20}, DataError, "sentence 0: 2 weights for 5 tokens"),
    ({"sample_weight": [-1.0] * 20}, DataError, "sentence 0: weights must be finite and not negative"),
    ({"sample_weight": ["x"] * 20}, DataError, "sentence 0: expected a number"),
    ({"sample_weight": [0.0] * 20}, DataError, "zero everywhere"),
]


@pytest.mark.parametrize(("more", "error", "what"), BAD)
def test_bad_weights_get_one_line(more: dict, error: type, what: str) -> None:
    with pytest.raises(error, match=what):
        SequenceTagger(random_state=0).fit(*sentences(20), **more)


def test_what_is_not_there_says_so() -> None:
    X, y = sentences(20)
    with pytest.raises(DataError, match="no label is known"):
        SequenceTagger().fit(X, [[None] * 5 for _ in X])
    with pytest.raises(DataError, match="sentence 0, token 1 has no label: it is nan"):
        SequenceTagger().fit(X, [[None, float("nan"), "a", "b", "c"]] * 20)
    with pytest.raises(Unsupported, match="prune= takes sentences"):
        SequenceTagger(prune=3).fit(X, y, [1.0] * 10 + [2.0] * 10)
    with pytest.raises(DataError, match="sentence 0, token 0 has no label"):
        SequenceTagger().fit(X, y).score(X, [[None] * 5 for _ in X])
    vectors = [np.ones((5, 2)) for _ in X]
    with pytest.raises(Unsupported, match="with kernels every label"):
        SequenceTagger(kernels=[Linear()]).fit(vectors, [[None, *labels[1:]] for labels in y])
    with pytest.raises(Unsupported, match="with kernels give one for each sentence"):
        SequenceTagger(kernels=[Linear()]).fit(vectors, y, [[1.0, 2, 3, 4, 5]] * 20)


def test_no_gap_is_claimed_where_none_is_known() -> None:
    X, y = sentences(20)
    settings = {"loss": "log", "penalty": ElasticNet(0.01), "transitions": "learnt", "random_state": 0, "verbose": 0}
    assert np.isfinite(SequenceTagger(**settings).fit(X, y).gap_)
    y[0][0] = None
    assert np.isnan(SequenceTagger(**settings).fit(X, y).gap_)


def test_a_resumed_run_has_the_same_weights(tmp_path) -> None:
    X, y = sentences(20)
    y[0][0] = None
    weights = [[1.0, 2.0, 1.0, 1.0, 1.0]] * 20

    class Stop:
        def on_epoch(self, info: dict) -> bool:
            return info["epoch"] >= 3

    whole = SequenceTagger(random_state=0, epochs=6).fit(X, y, weights)
    path = tmp_path / "run"
    first = SequenceTagger(random_state=0, epochs=6, callbacks=[Stop()])
    first.fit(X, y, weights, checkpoint=path, checkpoint_every=1)
    again = SequenceTagger(random_state=0, epochs=6).fit(X, y, weights, checkpoint=path, resume=True)
    assert same(whole, again)
