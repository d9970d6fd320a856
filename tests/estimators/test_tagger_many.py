"""A tagger with many labels: weights only for pairs, beside dense tables of the same weights."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import spom
from spom import SequenceTagger
from spom.errors import DataError, Unsupported
from spom.estimators.tagger.defaults import MANY
from spom.solvers.structured.chains.data import padded
from spom.solvers.structured.chains.predict import marginals, tag

LABELS = MANY + 20


def sentences(count: int, seed: int, labels: int = LABELS) -> tuple[Any, Any]:
    """Draw words with an ending that often tells the label; the previous label tells the rest."""
    draw, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        own = [int(draw.integers(labels))]
        own += [int((own[-1] + 1) % labels) if draw.random() < 0.5 else int(draw.integers(labels)) for _ in range(5)]
        X.append([f"w{a if draw.random() < 0.7 else draw.integers(labels)}x{a % 7}" for a in own])
        y.append([f"L{a:03d}" for a in own])
    return X, y


@pytest.fixture(scope="module")
def fitted() -> SequenceTagger:
    return SequenceTagger(epochs=4, random_state=0, verbose=0).fit(*sentences(400, 0))


def dense(tagger: SequenceTagger) -> Any:
    k = tagger.classes_.size
    W = np.zeros((tagger.weights_.shape[0], padded(k)), dtype=np.float32)
    W[:, :k] = tagger.weights_.toarray()
    return W


def test_it_says_that_labels_are_many(fitted: SequenceTagger) -> None:
    assert sparse.issparse(fitted.weights_)
    assert f"{LABELS} labels, weights for those that were seen" in fitted.settings_
    few = SequenceTagger(epochs=1, verbose=0).fit(*sentences(60, 0, labels=9))
    assert not sparse.issparse(few.weights_)
    assert "seen with a feature" not in few.settings_


def test_labels_and_marginals_are_those_of_dense_tables(fitted: SequenceTagger) -> None:
    X, y = sentences(60, 1)
    tokens = fitted._tokens(X)
    codes = tag(tokens, dense(fitted), fitted._scores_of_chain())
    found = fitted.predict(X)
    assert [label for sentence in found for label in sentence] == fitted.classes_[codes].tolist()
    expected = marginals(tokens, dense(fitted), fitted._scores_of_chain())
    np.testing.assert_allclose(np.concatenate(fitted.predict_marginals(X)), expected, atol=1e-5)
    assert fitted.score(X, y) > 0.3


def test_kbest_given_and_explain(fitted: SequenceTagger) -> None:
    X, y = sentences(5, 2)
    best = fitted.predict_kbest(X, 2)
    assert [paths[0][0] for paths in best] == fitted.predict(X)
    given = [[label, *[None] * (len(labels) - 1)] for labels in y for label in labels[:1]]
    assert all(found[0] == labels[0] for found, labels in zip(fitted.predict(X, given), y, strict=True))
    assert len(fitted.explain(X[:1])[0]) == len(X[0])
    name, label, weight = fitted.features(count=1)[0]
    assert abs(weight) == pytest.approx(np.abs(fitted.weights_.data).max())
    assert fitted.features(label, 1)[0][0] == name


def test_files_and_pickles_give_the_same_labels(fitted: SequenceTagger, tmp_path: Path) -> None:
    X, _ = sentences(40, 3)
    fitted.save(tmp_path / "many.spom")
    for other in (spom.load_model(tmp_path / "many.spom"), pickle.loads(pickle.dumps(fitted))):
        assert sparse.issparse(other.weights_)
        assert other.predict(X) == fitted.predict(X)
        np.testing.assert_array_equal(other.block_weights_, fitted.block_weights_)
    assert fitted.selected_.size == np.count_nonzero(fitted.block_weights_)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    X, y = sentences(150, 4)
    dev = sentences(30, 5)
    settings: dict[str, Any] = {"random_state": 3, "verbose": 0, "patience": None}
    whole = SequenceTagger(epochs=4, **settings).fit(X, y, dev=dev)
    path = tmp_path / "run"
    SequenceTagger(epochs=2, **settings).fit(X, y, dev=dev, checkpoint=path, checkpoint_every=1)
    again = SequenceTagger(epochs=4, **settings).fit(X, y, dev=dev, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.weights_.toarray(), whole.weights_.toarray())
    np.testing.assert_array_equal(again.chain_, whole.chain_)


def test_partial_fit_adds_labels_and_pairs() -> None:
    X, y = sentences(200, 6)
    tagger = SequenceTagger(random_state=0, verbose=0)
    tagger.partial_fit(X[:100], y[:100], classes=[f"L{a:03d}" for a in range(LABELS)])
    before = tagger.weights_.nnz
    for _ in range(3):
        tagger.partial_fit(X, y)
    assert tagger.weights_.nnz > before
    first = tagger.score(X, y)
    tagger.partial_fit([["new"]], [["L999"]], classes=["L999"])
    assert tagger.classes_.size == LABELS + 1
    assert tagger.score(X, y) > first - 0.1
    loaded = pickle.loads(pickle.dumps(tagger)).partial_fit(X, y)
    assert loaded.score(X, y) > first - 0.1


def test_weights_of_sentences_and_constraints() -> None:
    X, y = sentences(150, 7)
    twice = SequenceTagger(epochs=1, random_state=0, verbose=0, shuffle=False).fit(
        X, y, np.where(np.arange(150) < 75, 3, 1)
    )
    plain = SequenceTagger(epochs=1, random_state=0, verbose=0, shuffle=False).fit(X, y)
    assert twice.score(X[:75], y[:75]) > plain.score(X[:75], y[:75])
    names = [f"{a}-{b}" for b in range(MANY // 2 + 5) for a in "BI"] + ["O"]
    draw = np.random.default_rng(0)
    starts = draw.integers(MANY // 2 + 5, size=200)
    y = [[f"B-{b}", f"I-{b}", "O"] for b in starts]
    X = [[f"b{b}", "in" if draw.random() < 0.5 else f"i{b}", "out"] for b in starts]
    found = SequenceTagger(epochs=3, random_state=0, verbose=0).fit(X, y, classes=names)
    assert sparse.issparse(found.weights_)
    assert found.constraints_ is not None
    for labels in found.predict([["in", "in", "in"], ["i3", "i4", "b5"]]):
        for a, b in zip(["O", *labels], labels, strict=False):
            assert not b.startswith("I-") or a[2:] == b[2:]


def test_what_needs_every_weight_has_dense_tables() -> None:
    X, y = sentences(100, 8)
    for settings in ({"loss": "hinge"}, {"max_weights": 500}, {"penalty": "sparse-mkl"}):
        tagger = SequenceTagger(epochs=1, random_state=0, verbose=0, **settings).fit(X, y)
        assert not sparse.issparse(tagger.weights_)
    unknown = SequenceTagger(epochs=1, random_state=0, verbose=0).fit(X, [[None, *labels[1:]] for labels in y])
    assert not sparse.issparse(unknown.weights_)
    many = SequenceTagger(random_state=0, verbose=0).partial_fit(X, y)
    with pytest.raises(Unsupported, match="every token must have one"):
        many.partial_fit(X, [[None, *labels[1:]] for labels in y])
    with pytest.raises(DataError):
        many.partial_fit(X, y[:3])
