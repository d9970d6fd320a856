"""Pages of taggers, parsers and kernel machines: what they tell is what was learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import DependencyParser, MKLClassifier, SequenceTagger, load_model
from spom.data import Treebank
from spom.data.columns import Columns
from spom.kernels import Gaussian, Linear
from spom.penalties import SparseMKL
from spom.report.charts import figures
from spom.report.contents import Contents, Epoch
from spom.report.fitted import contents_of, example_sentences
from spom.report.history import epochs_of, paths_of
from spom.report.page import page_html

SENTENCES = [
    [("the", "DT"), ("cat", "NN"), ("sleeps", "VBZ")],
    [("dogs", "NNS"), ("bark", "VBP"), ("at", "IN"), ("the", "DT"), ("moon", "NN")],
] * 10
LABELS = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP", "B-PP", "B-NP", "I-NP"]] * 10


@pytest.fixture(scope="module")
def tagger() -> Any:
    model = SequenceTagger("chunking", constraints="BIO", epochs=3, random_state=0, verbose=0)
    return model.fit(SENTENCES, LABELS)


def test_a_tagger_tells_of_its_templates_features_and_transitions(tagger: Any) -> None:
    found = contents_of(tagger, SENTENCES, LABELS)
    assert (found.task, found.block, found.score) == ("tagger", "template", "F1")
    assert found.scores["f1"] == tagger.score(SENTENCES, LABELS)
    assert [b.name for b in found.blocks] == list(tagger.blocks_)
    assert [b.weight for b in found.blocks] == tagger.block_weights_.tolist()
    assert sum(b.nonzeros for b in found.blocks) == tagger.nonzeros_ == found.scores["nonzeros"]
    assert [f.label for f in found.features] == tagger.classes_.tolist()
    every = {n: w for n, _, w in tagger.features(tagger.classes_[0], 10**6)}
    shown = dict(found.features[0].weights)
    assert shown == {name: every[name] for name in shown}
    assert max(shown.values()) == max(every.values())
    assert min(shown.values()) == min(every.values())
    np.testing.assert_allclose(np.array(found.paths.weights[-1]), tagger.block_weights_, atol=1e-6)
    counts = found.confusion
    assert sum(map(sum, counts.values)) == 80
    assert counts.rows == sorted({label for labels in LABELS for label in labels})


def test_transitions_know_their_ends_and_what_is_not_allowed(tagger: Any) -> None:
    found = contents_of(tagger).transitions
    labels, chain = tagger.classes_.tolist(), tagger.chain_
    k = len(labels)
    assert (found.rows, found.columns) == (["(start)", *labels], [*labels, "(end)"])
    cell = {(r, c): v for r, row in zip(found.rows, found.values, strict=True)
            for c, v in zip(found.columns, row, strict=True)}  # fmt: skip
    assert cell["(start)", "I-NP"] is None
    assert cell["B-VP", "I-NP"] is None
    assert cell["(start)", "(end)"] is None
    assert cell["(start)", "B-NP"] == chain[k, labels.index("B-NP")]
    assert cell["B-NP", "I-NP"] == chain[labels.index("B-NP"), labels.index("I-NP")]
    assert cell["I-NP", "(end)"] == chain[k + 1, labels.index("I-NP")]
    drawn = figures(Contents("x", transitions=found))["transitions"]["data"][0]
    assert drawn["z"][0][labels.index("I-NP")] is None
    independent = SequenceTagger("chunking", transitions=None, epochs=1, verbose=0).fit(SENTENCES, LABELS)
    assert contents_of(independent).transitions is None


def test_columns_serve_as_well_as_lists(tagger: Any) -> None:
    rows = [[(*token, label) for token, label in zip(*pair, strict=True)]
            for pair in zip(SENTENCES, LABELS, strict=True)]  # fmt: skip
    columns = Columns.from_lists(rows)
    assert contents_of(tagger, columns).confusion == contents_of(tagger, SENTENCES, LABELS).confusion


def test_templates_that_were_dropped_have_no_weight_along_the_run() -> None:
    model = SequenceTagger("chunking", prune=3, epochs=2, random_state=0, verbose=0).fit(SENTENCES, LABELS)
    found = contents_of(model)
    assert len(found.paths.names) == len(model.blocks_) > 3
    kept = set(model.pruning_.selection.kept.tolist())
    assert {m for m, w in enumerate(found.paths.weights[0]) if w} <= kept
    assert "dropped at strength" in found.pruning
    assert "dropped at strength" in page_html(found)


def test_a_tagger_of_single_labels_is_measured_by_accuracy() -> None:
    tags = [[pos for _, pos in sentence] for sentence in SENTENCES]
    words = [[word for word, _ in sentence] for sentence in SENTENCES]
    found = contents_of(SequenceTagger("pos", epochs=2, verbose=0).fit(words, tags), words, tags)
    assert (found.score, next(iter(found.scores))) == ("Accuracy", "accuracy")
    assert "f1" not in found.scores


def test_a_tagger_from_a_file_tells_the_same(tagger: Any, tmp_path: Path) -> None:
    tagger.save(tmp_path / "t.spom")
    again, before = contents_of(load_model(tmp_path / "t.spom")), contents_of(tagger)
    assert again.blocks == before.blocks
    assert again.features == before.features
    assert again.transitions == before.transitions


# --- parsers --------------------------------------------------------------------------------------------


def bank() -> Treebank:
    words = [
        ("the", "DET", 2, "det"), ("dog", "NOUN", 3, "nsubj"), ("saw", "VERB", 0, "root"), ("a", "DET", 5, "det"),
        ("cat", "NOUN", 3, "obj"), (".", "PUNCT", 3, "punct"),
    ]  # fmt: skip
    names = ("form", "upos", "head", "deprel")
    one = [dict(zip(names, word, strict=True)) for word in words]
    return Treebank.from_sentences([one, [one[1] | {"head": 0, "deprel": "root"}], one])


@pytest.fixture(scope="module")
def parser() -> Any:
    return DependencyParser(min_count=1, epochs=2, label_epochs=2, penalty=SparseMKL(1e-6), verbose=0).fit(bank())


def test_a_parser_tells_of_its_stages_and_shows_its_trees(parser: Any) -> None:
    found = contents_of(parser, bank())
    counts = parser.evaluate(bank())
    assert (found.task, found.score) == ("parser", "UAS")
    assert (found.scores["uas"], found.scores["las"]) == (counts.uas, counts.las)
    assert [(e.stage, e.epoch) for e in found.epochs] == [("arcs", 1), ("arcs", 2), ("relations", 1), ("relations", 2)]
    assert [b.name for b in found.blocks] == list(parser.blocks_)
    np.testing.assert_allclose(found.paths.weights[-1], parser.history_[1]["block_weights"])
    assert len(found.sentences) == 2
    assert found.sentences[0].words == ["the", "dog", "saw", "a", "cat", "."]
    assert found.sentences[0].heads == [2, 3, 0, 5, 3, 3]
    lines = figures(found)["run-objective"]
    assert [x for trace in lines["data"] for x in trace["x"]][-1] == 4
    assert {name.rpartition(", ")[2] for name, _ in lines["legend"]} == {"arcs", "relations"}


def test_sentences_with_the_most_mistakes_come_first() -> None:
    gold = bank()
    wrong = gold.heads.copy()
    wrong[-4:] = [0, 3, 4, 5]
    found = example_sentences(gold, gold.with_trees(wrong))
    assert found[0].predicted_heads == [2, 3, 0, 3, 4, 5]
    assert found[1].predicted_heads == found[1].heads


def test_paths_are_those_of_one_stage() -> None:
    entries = [{"epoch": k, "stage": s, "block_weights": [k, 1]} for s in ("first", "second") for k in (1, 2)]
    entries.append({"epoch": 1, "stage": "after", "block_weights": [1, 2, 3]})
    entries[0]["block_weights"] = [9, 9]
    assert paths_of(entries, ["a", "b"]).weights == [[1.0, 1.0], [2.0, 1.0]]
    assert paths_of(entries, ["a"]) is None
    assert paths_of([], []) is None


def test_counts_that_begin_anew() -> None:
    """Learnt again with fewer weights, or block by block: the line never runs backwards."""
    again = epochs_of([{"epoch": k} for k in (1, 2, 3, 1, 2)])
    assert [(e.stage, e.epoch) for e in again] == [*(("pass 1", k) for k in (1, 2, 3)), ("pass 2", 1), ("pass 2", 2)]
    panel = figures(Contents("x", epochs=[replace(e, loss=1.0 / i) for i, e in enumerate(again, 1)]))["run-objective"]
    assert [trace["x"] for trace in panel["data"]] == [[1, 2, 3], [4, 5]]
    assert [(e.stage, e.epoch) for e in epochs_of([{"epoch": 1}] * 3)] == [("", 1), ("", 2), ("", 3)]
    words = [[word for word, _ in sentence] for sentence in SENTENCES]
    model = SequenceTagger("pos", verbose=0, random_state=0)
    for _ in range(3):
        model.partial_fit(words, LABELS)
    assert [(e.stage, e.epoch) for e in contents_of(model).epochs] == [("", 1), ("", 2), ("", 3)]


def test_a_loss_that_is_the_objective_is_drawn_once() -> None:
    same = [Epoch(k, objective=1.0 / k, loss=1.0 / k) for k in (1, 2)]
    panel = figures(Contents("x", epochs=same))["run-objective"]
    assert [trace["name"] for trace in panel["data"]] == ["objective"]
    alone = figures(Contents("x", epochs=[Epoch(1, loss=2.0), Epoch(2, loss=1.0)]))["run-objective"]
    assert alone["title"] == "Loss"


# --- kernels --------------------------------------------------------------------------------------------


def test_a_kernel_machine_tells_the_shares_of_its_kernels() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where((X**2).sum(axis=1) > 2.5, "out", "in")
    model = MKLClassifier([Linear(), Gaussian(1.0)], epochs=3, random_state=0).fit(X, y)
    found = contents_of(model, X, y)
    assert (found.block, [b.name for b in found.blocks]) == ("kernel", ["Linear()", "Gaussian(variance=1.0)"])
    assert [b.weight for b in found.blocks] == model.block_weights_.tolist()
    np.testing.assert_allclose(found.paths.weights[-1], model.block_weights_)
    assert found.scores["accuracy"] == model.score(X, y)
    assert "Kernels" in page_html(found)


def test_a_tagger_with_kernels_has_shares_and_transitions_but_no_features() -> None:
    rng = np.random.default_rng(0)
    y = [["a", "b", "a"], ["b", "a"]] * 6
    X = [np.array([[1.0 if label == "a" else -1.0] for label in labels]) for labels in y]
    X = [x + 0.1 * rng.standard_normal(x.shape) for x in X]
    model = SequenceTagger(kernels=[Linear(), Gaussian(1.0)], loss="hinge", epochs=3, random_state=0, verbose=0)
    found = contents_of(model.fit(X, y), X, y)
    assert (found.block, found.task) == ("kernel", "tagger")
    assert [b.name for b in found.blocks] == list(model.blocks_)
    assert found.features == ()
    assert found.scores["accuracy"] == model.score(X, y)
    np.testing.assert_allclose(found.paths.weights[-1], model.block_weights_)
    assert found.transitions is None or found.transitions.columns == ["a", "b", "(end)"]
