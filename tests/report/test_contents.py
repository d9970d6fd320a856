"""What goes into a page: from estimators in memory, from the record of a run, from what is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix as reference
from sklearn.metrics import precision_recall_fscore_support

from spom import OnlineClassifier, OnlineRegressor, ProximalClassifier
from spom.errors import ModelFileError
from spom.models.run import run_path, write_run
from spom.penalties import L1, GroupLasso
from spom.report.contents import Contents, Matrix
from spom.report.fitted import confusion_matrix, contents_of
from spom.report.runs import contents_from_run
from spom.report.tables import by_label, confusions, smaller, tiles, tree
from tests.report import made_up

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def iris() -> Any:
    model = OnlineClassifier(penalty=GroupLasso(0.2), random_state=0, verbose=0).fit(FRAME, Y)
    assert 0 < model.selected_.size < 4
    return model


def test_a_fitted_classifier_tells_of_itself(iris: Any) -> None:
    found = contents_of(iris, FRAME, Y, title="iris")
    assert found.block == "feature"
    assert [b.name for b in found.blocks] == NAMES
    np.testing.assert_allclose([b.weight for b in found.blocks], iris.block_weights_)
    assert [b.nonzeros for b in found.blocks] == np.count_nonzero(iris.coef_, axis=0).tolist()
    assert found.kept_blocks == iris.selected_.size
    assert found.scores["accuracy"] == iris.score(FRAME, Y)
    assert [e.epoch for e in found.epochs] == list(range(1, 11))
    assert found.epochs[-1].blocks_kept == iris.selected_.size
    assert [f.label for f in found.features] == ["0", "1", "2"]
    shown = found.features[2].weights
    assert shown == sorted(shown, key=lambda pair: (pair[1] < 0, -abs(pair[1])))
    assert {name: iris.coef_[2, NAMES.index(name)] for name, _ in shown} == dict(shown)
    assert len(shown) == np.count_nonzero(iris.coef_[2])
    np.testing.assert_array_equal(found.confusion.values, reference(Y, iris.predict(FRAME)))


def test_the_last_point_of_a_path_is_the_weight_in_the_table(iris: Any) -> None:
    """Check that names, table and history have the same order."""
    paths = contents_of(iris).paths
    np.testing.assert_allclose(paths.weights[-1], iris.block_weights_, atol=1e-12)


def test_other_estimators(iris: Any) -> None:
    grouped = ProximalClassifier(penalty=GroupLasso(0.01, groups=[[0, 1], [2, 3]])).fit(X, Y > 0)
    found = contents_of(grouped)
    assert (found.block, [b.name for b in found.blocks]) == ("group", ["x0 + x1", "x2 + x3"])
    assert found.epochs[-1].objective == pytest.approx(grouped.history_["objective"][-1])
    assert [f.label for f in found.features] == ["True"]
    real = contents_of(OnlineRegressor(penalty=L1(0.01), random_state=0, verbose=0).fit(X, Y), X, Y)
    assert real.confusion is None
    assert "r2" in real.scores
    sparse = OnlineRegressor(penalty=L1(0.01), random_state=0, verbose=0).fit(X, Y).sparsify()
    assert contents_of(sparse).features == real.features


def test_very_many_features_are_cut_to_the_largest() -> None:
    rng = np.random.default_rng(0)
    many = rng.standard_normal((50, 3000))
    found = contents_of(OnlineClassifier(penalty=L1(1e-9), random_state=0, verbose=0).fit(many, many[:, 2999] > 0))
    assert (len(found.blocks), found.total_blocks) == (2000, 3000)
    assert found.paths is None
    assert any(b.name == "x2999" for b in found.blocks[:3])


def test_an_estimator_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(NotFittedError):
        contents_of(OnlineClassifier())


# --- records --------------------------------------------------------------------------------------------


def record() -> dict[str, Any]:
    return {
        **{"spom": "0.1.0", "command": ["spom", "train"], "task": "classifier", "estimator": "OnlineClassifier"},
        **{"model": "iris.spom", "started": "2026-01-01T00:00:00+00:00", "seconds": 3.0, "stopped": "end"},
        "options": {"strength": 0.02, "parameters": {"epochs": 2}},
        "data": {"train": {"path": "iris.svm", "format": "svmlight", "rows": 150}},
        "blocks": NAMES,
        "history": [
            {"epoch": 1, "objective": 0.9, "dev": 0.8, "seconds": 1.0, "block_weights": [0.1, 0.2, 0.3, 0.4]},
            {"epoch": 2, "objective": None, "dev": 0.9, "seconds": 2.0, "block_weights": [0.0, 0.0, 0.5, 0.5]},
        ],
        "result": {"accuracy": 0.9, "nonzeros": 6, "blocks_kept": 2, "bytes": 700, "seconds": 3.0, "rows": 150},
        "confusion": {"labels": ["a", "b"], "counts": [[4, 1], [0, 5]]},
        "examples": [{"words": ["a", "b"], "predicted_heads": [2, 0], "heads": [2, 0]}],
    }


def test_a_record_and_its_model_make_a_page(tmp_path: Path, iris: Any) -> None:
    model = tmp_path / "iris.spom"
    iris.save(model)
    write_run(run_path(model), record())
    found = contents_from_run(model)
    assert contents_from_run(run_path(model)) == found
    assert found.title == "iris.spom"
    assert found.notes == []
    assert [b.weight for b in found.blocks] == pytest.approx(iris.block_weights_)
    assert found.features == contents_of(iris).features
    assert [(e.objective, e.dev) for e in found.epochs] == [(0.9, 0.8), (None, 0.9)]
    assert found.paths.weights[1] == [0.0, 0.0, 0.5, 0.5]
    assert found.confusion.values == [[4, 1], [0, 5]]
    assert found.sentences[0].predicted_heads == [2, 0]
    assert ("train", "iris.svm, svmlight, 150 rows") in found.facts["Data"]
    shown = {tile.name: (tile.value, tile.more) for tile in tiles(found)}
    assert shown["Accuracy"] == ("90.00 %", "")
    assert shown["Features kept"] == (str(iris.selected_.size), "of 4")
    assert shown["Model file"] == ("700 bytes", "")


def test_a_record_without_its_model_shows_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "iris.spom.run.json"
    write_run(path, record())
    found = contents_from_run(path)
    assert "iris.spom is missing" in found.notes[0]
    assert [b.weight for b in found.blocks] == [0.0, 0.0, 0.5, 0.5]
    (tmp_path / "iris.spom").write_bytes(b"no model at all")
    assert "could not be read" in contents_from_run(path).notes[0]
    write_run(path, {"task": "tagger"})
    assert contents_from_run(path) == Contents("run", task="tagger", block="template", score="Score",
        facts={"Run": [], "Data": [], "Options": [], "Parameters": []}, epochs=[], blocks=[], sentences=[],
        notes=["The model of this run is missing: its features are not shown."])  # fmt: skip


def test_a_model_without_a_record_tells_of_itself(tmp_path: Path, iris: Any) -> None:
    iris.save(tmp_path / "iris.spom")
    found = contents_from_run(tmp_path / "iris.spom")
    assert found.title == "iris.spom"
    assert found.features == contents_of(iris).features
    assert (found.epochs, found.paths) == ((), None)
    assert "only the model" in found.notes[0]
    (tmp_path / "text.spom").write_text("no model")
    with pytest.raises(ModelFileError, match=r"text\.spom"):
        contents_from_run(tmp_path / "text.spom")


@pytest.mark.parametrize(
    "wrong",
    [
        {"confusion": {"labels": ["a"], "counts": [[1, 2]]}},
        {"confusion": {"labels": ["a"]}},
        {"history": [{"epoch": "many"}]},
        {"history": 3},
        {"examples": [{"words": ["a"], "predicted_heads": [2]}]},
        {"examples": [{"words": ["a", "b"], "predicted_heads": [2]}]},
        {"data": {"train": "text"}},
    ],
)
def test_a_damaged_record_is_refused_in_one_line(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "m.spom.run.json"
    path.write_text(json.dumps({"run": 1, **wrong}))
    with pytest.raises(ModelFileError, match=r"m\.spom\.run\.json: .*damaged"):
        contents_from_run(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        contents_from_run(tmp_path / "m.spom")
    with pytest.raises(ModelFileError, match="folder"):
        contents_from_run(tmp_path)


# --- tables ---------------------------------------------------------------------------------------------


def test_label_scores_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    gold, guess = rng.integers(0, 5, 400), rng.integers(0, 6, 400)
    found = {one.label: one for one in by_label(confusion_matrix(gold, guess))}
    expected = precision_recall_fscore_support(gold, guess, labels=range(6), zero_division=0.0)
    for k in range(6):
        one = found[str(k)]
        np.testing.assert_allclose((one.precision, one.recall, one.f1, one.gold), [column[k] for column in expected])


def test_confusions_are_sorted_and_leave_the_diagonal_out() -> None:
    found = confusions(Matrix(["a", "b", "c"], ["a", "b", "c"], [[9, 2, 0], [7, 9, 1], [0, 0, 9]]), most=2)
    assert [(c.gold, c.predicted, c.count, round(c.share, 3)) for c in found] == [
        ("b", "a", 7, 0.412),
        ("a", "b", 2, 0.182),
    ]


def test_large_matrices_keep_their_largest_labels_in_order() -> None:
    labels = [str(i) for i in range(10)]
    whole = Matrix(["start", *labels], labels, np.diag(np.arange(1.0, 11.0)).tolist()[:1] + np.diag(range(10)).tolist())
    cut = smaller(whole, 3)
    assert (cut.rows, cut.columns) == (["7", "8", "9"], ["7", "8", "9"])
    assert cut.values == np.diag([7, 8, 9]).tolist()


def test_confusion_of_sequences_of_other_lengths() -> None:
    with pytest.raises(ValueError, match="2 gold labels and 1"):
        confusion_matrix([["a", "b"]], [["a"]])


def test_a_tree_is_told_in_words() -> None:
    first, _, third = (tree(s) for s in made_up.parser().sentences)
    assert first.caption == "7 words, 1 wrong head, 1 wrong relation"
    assert "bat ← ball (nmod), gold hit." in first.label
    assert "hit ← ROOT (root)." in first.label
    assert third.caption == "2 words"


def test_scores_of_a_pipeline_are_percentages_in_the_order_of_its_stages() -> None:
    scores = {"las": 0.5, "tokens": 1.0, "words": 0.99, "sentences": 0.875, "upos": 0.9, "mlas": 0.4, "bytes": 2000.0}
    shown = tiles(Contents(title="m", task="pipeline", scores=scores))
    assert [(tile.name, tile.value) for tile in shown] == [
        ("Words", "99.00 %"),
        ("Sentences", "87.50 %"),
        ("UPOS", "90.00 %"),
        ("LAS", "50.00 %"),
        ("Model file", "2.0 kB"),
    ]
