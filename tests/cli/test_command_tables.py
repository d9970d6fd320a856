"""Tables with numbers, categories, texts and missing values: learnt, kept in the model file, predicted."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import spom as library
from spom.data.tables import Table
from spom.errors import DataError
from spom.features.mixed_table import TableFeatures
from tests.cli.common import Command

HEADER = "age,job,note,id,species"


def rows(seed: int, count: int = 120) -> list[list[str]]:
    random = np.random.default_rng(seed)
    found = []
    for i in range(count):
        cat = random.random() < 0.5
        age = "" if random.random() < 0.1 else f"{random.normal(3.0 if cat else 9.0, 2.0):.2f}"
        job = str(random.choice(["mouser", "?"] if cat else ["guard", "guide"]))
        note = "it likes to sleep all day" if cat else "it likes to run, all day"
        found.append([age, job, note, f"id{i}", "cat" if cat else "dog"])
    return found


def write(path: Path, lines: list[list[str]], header: str | None = HEADER) -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    path.write_text((header + "\n" if header else "") + text.getvalue())
    return path


@pytest.fixture
def model(spom: Command, tmp_path: Path) -> Path:
    train = write(tmp_path / "train.csv", rows(0))
    spom.well("train", "classifier", "--train", train, "--model", tmp_path / "m.spom", "--ignore", "id", "--quiet")
    return tmp_path / "m.spom"


def test_a_mixed_table_is_learnt_and_predicted(spom: Command, model: Path, tmp_path: Path) -> None:
    test = write(tmp_path / "test.csv", rows(1))
    assert spom.well("evaluate", "--model", model, test, "--json").json["accuracy"] > 0.95
    out = list(csv.reader(io.StringIO(spom.well("predict", "--model", model, test).out)))
    assert out[0] == [*HEADER.split(","), "predicted"]
    assert [row[:-1] for row in out[1:]] == rows(1)
    names = list(library.load_model(model).feature_names_in_)
    assert {"age", "age=missing", "job=mouser", "job=missing", "note:sleep"} <= set(names)
    assert not any(name.startswith("id") for name in names)


def test_probabilities_come_as_columns(spom: Command, model: Path, tmp_path: Path) -> None:
    test = write(tmp_path / "test.csv", rows(1, 9))
    out = list(csv.reader(io.StringIO(spom.well("predict", "--model", model, test, "--probabilities").out)))
    assert out[0][-3:] == ["predicted", "p(cat)", "p(dog)"]
    for row in out[1:]:
        cat, dog = float(row[-2]), float(row[-1])
        assert cat + dog == pytest.approx(1.0)
        assert row[-3] == ("cat" if cat >= dog else "dog")


def test_predictions_are_explained(spom: Command, model: Path, tmp_path: Path) -> None:
    lines = [line for line in rows(1, 30) if line[4] == "cat" and line[0]][:1]
    out = spom.well("predict", "--model", model, write(tmp_path / "one.csv", lines), "--explain").out
    assert out.startswith("cat rather than dog, by ")
    assert "note:sleep" in out


def test_parquet_comes_out_as_parquet(spom: Command, model: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    lines = rows(1, 9)
    table = pyarrow.table({name: [line[k] for line in lines] for k, name in enumerate(HEADER.split(","))})
    parquet.write_table(table, tmp_path / "test.parquet")
    spom.well("predict", "--model", model, tmp_path / "test.parquet", "-o", tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == [*HEADER.split(","), "predicted"]
    only = spom.well("predict", "--model", model, write(tmp_path / "test.csv", lines), "--only").out.split()
    assert found["predicted"].to_pylist() == only


def test_several_files_and_patterns(spom: Command, model: Path, tmp_path: Path) -> None:
    for k in range(3):
        write(tmp_path / f"part-{k}.csv", rows(k, 5))
    each = [spom.well("predict", "--model", model, tmp_path / f"part-{k}.csv", "--only").out for k in range(3)]
    assert spom.well("predict", "--model", model, tmp_path / "part-*.csv", "--only").out == "".join(each)
    assert "no file matches this pattern" in spom.fails("predict", "--model", model, tmp_path / "none-*.csv")


def test_a_file_without_header_and_in_another_encoding(spom: Command, tmp_path: Path) -> None:
    lines = [[line[0] or "1", line[1].replace("guard", "g\u00fcard"), line[4]] for line in rows(0)]
    train = write(tmp_path / "train.csv", lines, None)
    train.write_bytes(train.read_text().encode("latin-1"))
    words = ["train", "classifier", "--train", train, "--model", tmp_path / "m", "--no-header", "--quiet"]
    assert "give the encoding of the file with --encoding" in spom.fails(*words)
    spom.well(*words, "--encoding", "latin-1")
    assert "2=g\u00fcard" in library.load_model(tmp_path / "m").feature_names_in_
    assert spom.well("evaluate", "--model", tmp_path / "m", train, "--json").json["accuracy"] > 0.8
    out = list(csv.reader(io.StringIO(spom.well("predict", "--model", tmp_path / "m", train).out)))
    assert [row[:-1] for row in out] == lines


def test_a_first_line_of_data_is_no_line_of_names(spom: Command, tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", [line for line in rows(0) if line[0]], None)
    words = ["train", "classifier", "--train", train, "--model", tmp_path / "m"]
    assert "line 1" in spom.well(*words).err
    found = library.load_model(tmp_path / "m").feature_names_in_
    assert all(name.split("=")[0].split(":")[0].split("-")[0].isdecimal() for name in found), found
    # A file whose first line looks like names is read as the one that was learnt from.
    other = write(tmp_path / "other.csv", [line for line in rows(1) if line[0]], None)
    predicted = spom.well("predict", "--model", tmp_path / "m", other, "--only").out.splitlines()
    assert len(predicted) == len(other.read_text().splitlines())
    assert "--no-header" in spom.fails(*words, "--header", "--target", "5")


def test_indices_from_zero_are_found(spom: Command, tmp_path: Path) -> None:
    path = tmp_path / "zero.svm"
    path.write_text("1 0:1\n2 1:1\n" * 20)
    spom.well("train", "classifier", "--train", path, "--model", tmp_path / "m", "--quiet")
    assert library.load_model(tmp_path / "m").n_features_in_ == 2
    assert spom.well("predict", "--model", tmp_path / "m", path, "--only").out.split() == ["1", "2"] * 20
    fails = spom.fails("train", "classifier", "--train", path, "--model", tmp_path / "n", "--zero-based", "no")
    assert "zero.svm, line 1: expected indices that start at 1" in fails


@pytest.mark.parametrize(("base", "asked"), [(0, "auto"), (0, "yes"), (1, "auto"), (1, "no")])
def test_a_stream_of_indices_from_zero(spom: Command, tmp_path: Path, base: int, asked: str) -> None:
    path = tmp_path / "stream.svm"
    path.write_text(f"1 {base}:1\n2 {base + 1}:1\n" * 50)
    words = ["train", "classifier", "--train", path, "--dev", path, "--model", tmp_path / "m", "--quiet", "--stream"]
    spom.well(*words, "--zero-based", asked)
    assert library.load_model(tmp_path / "m").n_features_in_ == 2
    assert spom.well("predict", "--model", tmp_path / "m", path, "--only").out.split() == ["1", "2"] * 50


def test_text_rows_are_scikit_learns_tfidf() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["the cat sat on the mat", "the dog ran over the hill today", "a cat ran to a dog on a mat"]
    table = Table(("t",), {"t": texts}, range(3), "t.csv")
    found = TableFeatures.learnt([table], ["t"], {"t": "text"})
    peer = TfidfVectorizer(token_pattern=r"\w+").fit(texts)
    order = [peer.vocabulary_[name.removeprefix("t:")] for name in found.names]
    np.testing.assert_allclose(found.matrix(table).toarray(), peer.transform(texts).toarray()[:, order])


def test_what_a_model_file_holds_of_a_table_is_checked() -> None:
    table = Table(("a", "b"), {"a": ["1", None], "b": ["x", "y"]}, range(2), "t.csv")
    learnt = TableFeatures.learnt([table], ["a", "b"])
    again = TableFeatures.from_dict(learnt.as_dict())
    assert sparse.linalg.norm(again.matrix(table) - learnt.matrix(table)) == 0
    for damage in ({"kind": "colour"}, {"scale": 0.0}, {"mean": float("nan")}, {"values": 3}):
        state = learnt.as_dict()
        state["columns"][0].update(damage)
        with pytest.raises(DataError, match="damaged"):
            TableFeatures.from_dict(state)
