"""`spom` on vectors: train, predict, evaluate, inspect; svmlight, CSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spom as library
from spom.models import read_run
from tests.cli.common import Command, process
from tests.cli.iris import COLUMNS, NAMES, ORDER, X, Y, table

# --- what works -------------------------------------------------------------------------------------------


def test_a_table_becomes_a_model(spom: Command, here: Path) -> None:
    scores = spom.well("evaluate", "--model", here / "csv.spom", here / "test.csv", "--json").json
    assert scores["accuracy"] > 0.9
    assert scores["rows"] == 50
    model = library.load_model(here / "csv.spom")
    assert list(model.feature_names_in_) == COLUMNS
    assert model.classes_.tolist() == NAMES.tolist()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.mean(model.predict(X[ORDER[100:]]) == NAMES[Y[ORDER[100:]]]) == scores["accuracy"]
    assert "virginica" in spom.well("evaluate", "--model", here / "csv.spom", here / "test.csv").out


def test_the_run_says_what_was_used(here: Path) -> None:
    run = read_run(here / "csv.spom")
    assert (run["task"], run["estimator"], run["stopped"]) == ("classifier", "OnlineClassifier", "end")
    assert run["data"]["train"]["rows"] == 100
    assert run["options"]["seed"] == 0
    assert run["options"]["parameters"]["penalty"] == "auto"
    assert [entry["epoch"] for entry in run["history"]] == list(range(1, 11))
    assert run["blocks"] == COLUMNS
    assert all(abs(sum(entry["block_weights"]) - 1) < 1e-9 for entry in run["history"])
    best = max(entry["dev"] for entry in run["history"])
    assert run["result"]["accuracy"] == best
    assert run["result"]["settings"] == library.load_model(here / "csv.spom").settings_
    assert np.sum(run["confusion"]["counts"]) == 50


def test_predictions_come_with_the_input(spom: Command, here: Path) -> None:
    out = spom.well("predict", "--model", here / "csv.spom", here / "test.csv").out
    rows = list(csv.reader(io.StringIO(out)))
    given = list(csv.reader(io.StringIO(table(ORDER[100:]))))
    assert rows[0] == [*COLUMNS, "species", "predicted"]
    assert [row[:-1] for row in rows] == given
    only = spom.well("predict", "--model", here / "csv.spom", here / "test.csv", "--only").out.split()
    assert only == [row[-1] for row in rows[1:]]
    # The column of the right answers need not be there, and others may stand in any order.
    shuffled = here / "shuffled.tsv"
    shuffled.write_text("\n".join("\t".join(reversed(row[:4])) for row in given))
    assert spom.well("predict", "--model", here / "csv.spom", shuffled, "--only").out.split() == only


def test_svmlight_lines_keep_all_but_the_label(spom: Command, here: Path) -> None:
    text = b"# comment\n0 1:5.1 2:3.5 3:1.4 4:0.2 # a\n\n0 1:6.5 2:3 3:5.8 4:2.2 9:1\n"
    odd = here / "odd.svm"
    odd.write_bytes(text)
    out = spom.well("predict", "--model", here / "svm.spom", odd).out
    assert out == text.decode().replace("0 1:6.5", "2 1:6.5")
    out = spom.well("predict", "--model", here / "svm.spom", here / "test.svm").out.splitlines()
    labels = [float(line.split()[0]) for line in out]
    scores = spom.well("evaluate", "--model", here / "svm.spom", here / "test.svm", "--json").json
    assert np.mean(labels == Y[ORDER[100:]]) == pytest.approx(scores["accuracy"])


def test_a_bad_line_in_a_later_block_has_its_own_number(
    spom: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = "0 1:5.1 2:3.5 3:1.4 4:0.2\n"
    bad = here / "late.svm"
    bad.write_text("# first\n\n" + good * 8 + "# then\n\n" + good + "0 1:oops\n")
    monkeypatch.setattr("spom.cli.vectors._CHUNK", 60)
    assert f"late.svm, line {2 + 8 + 2 + 1 + 1}:" in spom.fails("predict", "--model", here / "svm.spom", bad)


def test_long_files_are_predicted_in_blocks(spom: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [spom.well("predict", "--model", here / f"{k}.spom", here / f"test.{k}").out for k in ("svm", "csv")]
    monkeypatch.setattr("spom.cli.vectors._CHUNK", 100)
    monkeypatch.setattr("spom.cli.vectors.BLOCK_ROWS", 7)
    assert [
        spom.well("predict", "--model", here / f"{k}.spom", here / f"test.{k}").out for k in ("svm", "csv")
    ] == whole


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_compressed_files_and_pipes(spom: Command, here: Path, tmp_path: Path, packing: str) -> None:
    raw = (here / "test.csv").read_bytes()
    packed = tmp_path / f"test.csv.{packing}"
    if packing == "gz":
        packed.write_bytes(gzip.compress(raw))
    else:
        packed.write_bytes(pytest.importorskip("zstandard").compress(raw))
    plain = spom.well("predict", "--model", here / "csv.spom", here / "test.csv").out
    assert spom.well("predict", "--model", here / "csv.spom", packed).out == plain
    out = tmp_path / f"out.csv.{packing}"
    spom.well("predict", "--model", here / "csv.spom", packed, "-o", out)
    got = out.read_bytes()
    assert got != plain.encode()
    text = gzip.decompress(got) if packing == "gz" else _unzstd(got)
    assert text == plain.encode()


def _unzstd(raw: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj().decompress(raw)


def test_standard_input_and_output(here: Path) -> None:
    done = process("predict", "--model", here / "svm.spom", input=(here / "test.svm").read_bytes())
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 50
    again = process(
        "predict", "--model", here / "svm.spom", "-", "-o", "-", input=gzip.compress((here / "test.svm").read_bytes())
    )
    assert again.stdout == done.stdout


def test_a_reader_that_leaves_is_no_error(here: Path) -> None:
    code = f"{sys.executable} -m spom predict --model {here / 'svm.spom'} {here / 'test.svm'} | head -1"
    done = subprocess.run(code, shell=True, capture_output=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


def test_parquet(spom: Command, here: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for name in ("train", "test"):
        pandas.read_csv(here / f"{name}.csv").to_parquet(tmp_path / f"{name}.parquet")
    files = ["--train", tmp_path / "train.parquet", "--dev", tmp_path / "test.parquet"]
    spom.well("train", "classifier", *files, "--model", tmp_path / "m")
    ours, theirs = library.load_model(tmp_path / "m"), library.load_model(here / "csv.spom")
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    out = spom.well("predict", "--model", tmp_path / "m", tmp_path / "test.parquet").out
    assert out == spom.well("predict", "--model", here / "csv.spom", here / "test.csv").out
    (tmp_path / "bad.parquet").write_text("no parquet")
    assert "expected a complete Parquet file" in spom.fails(
        "predict", "--model", tmp_path / "m", tmp_path / "bad.parquet"
    )


def test_regressors(spom: Command, tmp_path: Path) -> None:
    rows = np.column_stack([X, X @ [1.0, -2.0, 0.5, 0.0] + 3])
    (tmp_path / "r.csv").write_text("a,b,c,d,y\n" + "\n".join(",".join(map(str, row)) for row in rows))
    for extra in (["--solver", "proximal", "--strength", "1e-4"], ["--epochs", "40", "--strength", "1e-5"]):
        words = ["train", "regressor", "--train", tmp_path / "r.csv", "--dev", tmp_path / "r.csv"]
        spom.well(*words, "--model", tmp_path / "m", *extra)
        scores = spom.well("evaluate", "--model", tmp_path / "m", tmp_path / "r.csv", "--json").json
        assert scores["r2"] > 0.98
        assert "R2" in spom.well("evaluate", "--model", tmp_path / "m", tmp_path / "r.csv").out
        predicted = [
            float(v) for v in spom.well("predict", "--model", tmp_path / "m", tmp_path / "r.csv", "--only").out.split()
        ]
        assert np.sqrt(np.mean((predicted - rows[:, -1]) ** 2)) == pytest.approx(scores["rmse"])


def test_options_reach_the_estimator(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "classifier", "--train", here / "train.csv", "--model", tmp_path / "m", "--target", "species"]
    words += [
        "--penalty",
        "sparse-group-lasso",
        "--strength",
        "0.03",
        "--groups",
        "2",
        "--loss",
        "hinge",
        "--epochs",
        "3",
    ]
    spom.well(*words, "--seed", "5", "--set", "penalty__l1_ratio=0.25", "--set", "fit_intercept=False")
    model = library.load_model(tmp_path / "m")
    assert repr(model.penalty) == "SparseGroupLasso(strength=0.03, groups=2, l1_ratio=0.25)"
    assert (model.loss, model.epochs, model.random_state, model.fit_intercept) == ("hinge", 3, 5, False)
    assert len(model.blocks_) == 2
    assert read_run(tmp_path / "m")["blocks"] == ["sepal length+sepal width", "petal, length+petal width"]


def test_a_config_file_gives_defaults_and_the_command_line_wins(spom: Command, here: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f"train = {str(here / 'train.csv')!r}\nmodel = {str(tmp_path / 'm')!r}\nepochs = 4\n"
        "penalty = 'l2'\nquiet = true\ncheckpoint-every = '5m'\n[set]\nstep = 0.5\nupdate = 'forward-backward'\n"
    )
    assert spom.well("train", "classifier", "--config", config, "--epochs", "2").out == ""
    model = library.load_model(tmp_path / "m")
    assert (model.epochs, model.penalty, type(model.penalty_).__name__, model.step) == (2, "l2", "L2", 0.5)
    config.write_text("epoch = 4")
    assert "unknown option 'epoch'; available: checkpoint" in spom.fails("train", "classifier", "--config", config)
    config.write_text("epochs 4")
    assert "expected TOML" in spom.fails("train", "classifier", "--config", config)
    assert "no such file" in spom.fails("train", "classifier", "--config", tmp_path / "none.toml")


def test_a_stream_is_learnt_from_block_by_block(spom: Command, here: Path, tmp_path: Path) -> None:
    words = [
        "train",
        "classifier",
        "--train",
        here / "train.svm",
        "--dev",
        here / "test.svm",
        "--model",
        tmp_path / "m",
    ]
    assert spom.well(*words, "--stream", "--json").json["accuracy"] > 0.9
    assert "--stream needs" in spom.fails(
        "train", "classifier", "--train", here / "train.csv", "--model", tmp_path / "m", "--stream"
    )


def test_inspect(spom: Command, here: Path) -> None:
    model = library.load_model(here / "csv.spom")
    found = spom.well("inspect", here / "csv.spom", "--json", "--top", "2").json
    assert found["estimator"] == "OnlineClassifier"
    assert (
        found["training"]["settings"]
        == model.settings_
        == f"loss {model.loss_!r}; penalty {model.penalty_!r}".replace("()", "")
    )
    weights = {block["name"]: block["weight"] for block in found["blocks"]}
    np.testing.assert_allclose([weights[name] for name in COLUMNS], model.block_weights_)
    assert list(found["top"]) == NAMES.tolist()
    assert all(len(rows) == 2 for rows in found["top"].values())
    best = int(np.argmax(np.abs(model.coef_[2])))
    assert found["top"]["virginica"][0] == [COLUMNS[best], model.coef_[2, best]]
    text = spom.well("inspect", here / "csv.spom", "--verify").out
    assert "█" in text
    assert "petal width" in text
    assert "every array checked" in text
    assert f"learnt with: {model.settings_}" in " ".join(text.split())
    rows = list(csv.reader(io.StringIO(spom.well("inspect", here / "csv.spom", "--csv").out)))
    assert rows[0] == ["block", "weight"]
    assert {row[0] for row in rows[1:]} == set(COLUMNS)
    assert "coef" in spom.well("inspect", here / "csv.spom", "--header").out


def test_models_with_kernels(spom: Command, here: Path, tmp_path: Path) -> None:
    from spom.kernels import Gaussian, Linear

    model = library.MKLClassifier([Linear(normalize=True), Gaussian(1.0)], random_state=0, epochs=5)
    model.fit(X[ORDER[:100]], Y[ORDER[:100]].astype(float)).save(tmp_path / "m")
    scores = spom.well("evaluate", "--model", tmp_path / "m", here / "test.svm", "--json").json
    assert scores["accuracy"] == model.score(X[ORDER[100:]], Y[ORDER[100:]])
    out = spom.well("predict", "--model", tmp_path / "m", here / "test.svm", "--only").out
    assert [float(v) for v in out.split()] == model.predict(X[ORDER[100:]]).tolist()
    found = spom.well("inspect", tmp_path / "m", "--json").json
    np.testing.assert_allclose(sorted(b["weight"] for b in found["blocks"]), sorted(model.block_weights_))
    assert "support vectors" in spom.well("inspect", tmp_path / "m").out
