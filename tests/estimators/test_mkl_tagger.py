"""Taggers with kernels on the vectors of tokens, alone and beside templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import spom
from spom import SequenceTagger
from spom.errors import DataError, Unsupported
from spom.kernels import Gaussian, Linear, Nystroem, Polynomial
from spom.penalties import GroupLasso, LqMKL

LABELS = np.array(["vowel", "consonant", "end"])
KERNELS = [Gaussian(1.0), Linear()]


def circles(count: int, seed: int = 0) -> tuple[list[Any], list[Any], list[Any]]:
    """(words, vectors, labels): the label is in the radius of a vector, and partly in that of the token before."""
    rng = np.random.default_rng(seed)
    words, vectors, labels = [], [], []
    for _ in range(count):
        n = int(rng.integers(1, 6))
        y = rng.integers(0, 3, n)
        angle = rng.uniform(0, 2 * np.pi, n)
        radius = 0.7 * (y + 1) + 0.1 * rng.standard_normal(n)
        vectors.append(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]))
        words.append([f"w{rng.integers(0, 4)}{'x' if label == 2 else ''}" for label in y])
        labels.append(LABELS[y].tolist())
    return words, vectors, labels


WORDS, X, Y = circles(80)
WORDS_TEST, X_TEST, Y_TEST = circles(60, seed=1)
OPTIONS: dict[str, Any] = {"loss": "hinge", "epochs": 10, "random_state": 0, "verbose": 0}


@pytest.mark.parametrize("solver", ["online", "frank-wolfe"])
@pytest.mark.parametrize("transitions", ["fixed", "learnt", None])
def test_a_kernel_finds_circles(solver: str, transitions: Any) -> None:
    model = SequenceTagger(kernels=KERNELS, solver=solver, transitions=transitions, **OPTIONS).fit(X, Y)
    assert model.score(X_TEST, Y_TEST) > 0.9
    assert model.block_weights_[0] > 0.6
    assert model.blocks_ == ("Gaussian(variance=1.0)", "Linear()")
    assert model.predict(X_TEST[:1])[0][0] in LABELS.tolist()
    assert "kept in memory" in model.memory_plan_
    # The labels do not depend on each other: a block of transitions that is learnt may be off.
    assert model.chain_[:3].any() == (transitions is not None) or transitions == "learnt"


def test_all_that_a_tagger_can_do() -> None:
    model = SequenceTagger(kernels=[*KERNELS, Nystroem(Polynomial(2), 10)], **{**OPTIONS, "loss": "log"})
    model.fit(X, Y, dev=(X_TEST, Y_TEST))
    assert model.history_[-1]["dev"] == model.score(X_TEST, Y_TEST) > 0.9
    p = model.predict_marginals(X_TEST)
    np.testing.assert_allclose(p[0].sum(axis=1), 1.0, atol=1e-6)
    best = model.predict_kbest(X_TEST[:3], 2)
    assert [one[0][0] for one in best] == model.predict(X_TEST[:3])
    listed = [sparse.csr_matrix(part) for part in X_TEST]
    assert model.predict(listed) == model.predict(X_TEST)
    assert list(model.predict(iter(X_TEST))) == model.predict(X_TEST)
    assert model.predict([]) == []
    assert model.evaluate(X_TEST, Y_TEST).accuracy == pytest.approx(model.score(X_TEST, Y_TEST))


def test_templates_and_kernels_together() -> None:
    blurred, blurred_test = (
        [0.05 * x / np.linalg.norm(x, axis=1, keepdims=True) for x in part] for part in (X, X_TEST)
    )
    alone = SequenceTagger(kernels=KERNELS, **OPTIONS).fit(blurred, Y).score(blurred_test, Y_TEST)
    both = SequenceTagger(templates=["w[0]"], kernels=KERNELS, **OPTIONS).fit((WORDS, X), Y)
    assert both.score((WORDS_TEST, X_TEST), Y_TEST) > 0.9
    helped = SequenceTagger(templates=["w[0]"], kernels=KERNELS, **OPTIONS).fit((WORDS, blurred), Y)
    assert helped.score((WORDS_TEST, blurred_test), Y_TEST) > alone + 0.1
    assert helped.blocks_[-1] == "w[0]"
    assert helped.block_weights_[-1] > 0.3
    with pytest.raises(DataError, match="X is a pair"):
        both.predict(X_TEST)
    with pytest.raises(DataError, match="same numbers of tokens"):
        both.predict((WORDS_TEST[1:], X_TEST[:-1]))


@pytest.mark.parametrize("templates", [None, ["w[0]"]])
def test_a_file_gives_the_same_tagger(tmp_path: Path, templates: Any) -> None:
    data, test = (X, X_TEST) if templates is None else ((WORDS, X), (WORDS_TEST, X_TEST))
    model = SequenceTagger(templates=templates, kernels=KERNELS, **OPTIONS).fit(data, Y)
    model.save(tmp_path / "tagger")
    again = spom.load_model(tmp_path / "tagger")
    assert again.predict(test) == model.predict(test)
    np.testing.assert_array_equal(again.block_weights_, model.block_weights_)


def test_rows_within_a_budget_and_a_run_that_goes_on(tmp_path: Path) -> None:
    whole = SequenceTagger(kernels=KERNELS, **OPTIONS).fit(X, Y)
    small = SequenceTagger(kernels=KERNELS, memory="150KB", **OPTIONS).fit(X, Y)
    assert "rows are computed" in small.memory_plan_
    assert np.mean([a == b for a, b in zip(small.predict(X_TEST), whole.predict(X_TEST), strict=True)]) > 0.95

    class Half:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            return bool(info["epoch"] == 5)

    path = tmp_path / "state"
    SequenceTagger(kernels=KERNELS, callbacks=Half(), **OPTIONS).fit(X, Y, checkpoint=path)
    resumed = SequenceTagger(kernels=KERNELS, **OPTIONS).fit(X, Y, checkpoint=path, resume=True)
    assert [entry["epoch"] for entry in resumed.history_] == [entry["epoch"] for entry in whole.history_]
    assert resumed.chain_.tobytes() == whole.chain_.tobytes()
    assert resumed.predict(X_TEST) == whole.predict(X_TEST)


def test_bad_input_has_one_clear_error() -> None:
    with pytest.raises(DataError, match="sentence 1 has 3 features per token; expected 2"):
        SequenceTagger(kernels=KERNELS).fit([np.ones((1, 2)), np.ones((1, 3))], [["a"], ["b"]])
    with pytest.raises(DataError, match="kernels need a matrix"):
        SequenceTagger(kernels=KERNELS).fit([["a", "b"]], [["a", "b"]])
    with pytest.raises(DataError, match="no tokens to learn from"):
        SequenceTagger(kernels=KERNELS).fit([], [])
    with pytest.raises(DataError, match="2 tokens and 1 labels"):
        SequenceTagger(kernels=KERNELS).fit([np.ones((2, 2))], [["a"]])
    with pytest.raises(DataError, match="too small"):
        SequenceTagger(kernels=KERNELS, memory="1KB").fit(X, Y)
    with pytest.raises(Unsupported, match="prune= is for templates"):
        SequenceTagger(kernels=KERNELS, prune=3).fit(X, Y)
    with pytest.raises(Unsupported, match="unknown solver"):
        SequenceTagger(kernels=KERNELS, solver="batch").fit(X, Y)
    with pytest.raises(Unsupported, match="use fit"):
        SequenceTagger(kernels=KERNELS).partial_fit(X, Y)
    with pytest.raises(Unsupported, match="penalty of their norms"):
        SequenceTagger(kernels=KERNELS, penalty="l1").fit(X, Y)
    SequenceTagger(kernels=KERNELS, penalty=GroupLasso(1e-3), **OPTIONS).fit(X, Y)


@pytest.mark.parametrize("kind", ["dicts", "strings", "words", "tuples", "vectors"])
def test_features_of_any_kind_go_beside_vectors_without_naming_templates(kind: str) -> None:
    def beside(vectors: Any) -> Any:
        made = {
            "dicts": lambda v: {"first": float(v[0]), "big": v[1] > 0},
            "strings": lambda v: [f"big={v[1] > 0}", "bias"],
            "words": lambda v: "Up" if v[1] > 0 else "down",
            "tuples": lambda v: ("Up" if v[1] > 0 else "down", "T"),
            "vectors": lambda v: v,
        }[kind]
        sentences = [[made(v) for v in part] for part in vectors]
        return [np.array(s) for s in sentences] if kind == "vectors" else sentences

    model = SequenceTagger(kernels=KERNELS, random_state=0, verbose=0).fit((beside(X), X), Y)
    assert model.loss_ == "hinge"
    assert model.update_ == "dual-averaging"
    assert len(model.blocks_) > len(KERNELS)
    plain = SequenceTagger(kernels=KERNELS, random_state=0, verbose=0).fit(X, Y)
    assert model.score((beside(X_TEST), X_TEST), Y_TEST) > plain.score(X_TEST, Y_TEST) - 0.05
    assert model.block_weights_.sum() == pytest.approx(1.0)


def test_sentences_without_vectors_have_one_clear_error() -> None:
    with pytest.raises(DataError, match="sentence 0: kernels need a matrix"):
        SequenceTagger(kernels=KERNELS, verbose=0).fit([["a", "b"], ["c"]], [["x", "y"], ["x"]])
    with pytest.raises(DataError, match="sentence 0: kernels need a matrix"):
        SequenceTagger(kernels=KERNELS, templates=None, verbose=0).fit([[[1.0], [2.0, 3.0]]], [["x", "y"]])


def test_block_weights_follow_the_penalty() -> None:
    model = SequenceTagger(kernels=KERNELS, penalty=LqMKL(1e-3, q=1.5), random_state=0, verbose=0).fit(X, Y)
    expected = np.sqrt(model.block_norms_) / np.sqrt(model.block_norms_).sum()
    np.testing.assert_allclose(model.block_weights_, expected, rtol=1e-6)
