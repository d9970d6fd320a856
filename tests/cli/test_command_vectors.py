"""`spom` on vectors: train, predict, evaluate, inspect; svmlight, CSV and Parquet; interruptions; bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import spom as library
from spom.cli import live
from spom.models import read_run
from tests.cli.common import Command, process

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
NAMES = np.array(["setosa", "versicolor", "virginica"])
COLUMNS = ["sepal length", "sepal width", "petal, length", "petal width"]


def table(rows: np.ndarray, delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*COLUMNS, "species"])
    writer.writerows([*X[i].tolist(), NAMES[Y[i]]] for i in rows)
    return text.getvalue()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of three kinds, and a model of two of them."""
    from spom.cli.main import main

    folder = tmp_path_factory.mktemp("vectors")
    for name, rows in (("train", ORDER[:100]), ("test", ORDER[100:])):
        (folder / f"{name}.csv").write_text(table(rows))
        dump_svmlight_file(X[rows], Y[rows], str(folder / f"{name}.svm"), zero_based=False)
    for kind in ("csv", "svm"):
        files = ["--train", str(folder / f"train.{kind}"), "--dev", str(folder / f"test.{kind}")]
        assert main(["train", "classifier", *files, "--model", str(folder / f"{kind}.spom"), "--quiet"]) == 0
    return folder


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
    assert run["options"]["parameters"]["penalty"] == "L1(strength=0.0001)"
    assert [entry["epoch"] for entry in run["history"]] == list(range(1, 11))
    assert run["blocks"] == COLUMNS
    assert all(abs(sum(entry["block_weights"]) - 1) < 1e-9 for entry in run["history"])
    best = max(entry["dev"] for entry in run["history"])
    assert run["result"]["accuracy"] == best
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


def test_long_files_are_predicted_in_blocks(spom: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [spom.well("predict", "--model", here / f"{k}.spom", here / f"test.{k}").out for k in ("svm", "csv")]
    monkeypatch.setattr("spom.cli.vectors._CHUNK", 100)
    monkeypatch.setattr("spom.cli.vectors._ROWS", 7)
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
    assert "expected a Parquet file" in spom.fails("predict", "--model", tmp_path / "m", tmp_path / "bad.parquet")


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
    assert (model.epochs, type(model.penalty).__name__, model.step) == (2, "L2", 0.5)
    config.write_text("epoch = 4")
    assert "there is no option 'epoch'; the options are: checkpoint" in spom.fails(
        "train", "classifier", "--config", config
    )
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
    assert "--stream takes" in spom.fails(
        "train", "classifier", "--train", here / "train.csv", "--model", tmp_path / "m", "--stream"
    )


def test_inspect(spom: Command, here: Path) -> None:
    model = library.load_model(here / "csv.spom")
    found = spom.well("inspect", here / "csv.spom", "--json", "--top", "2").json
    assert found["estimator"] == "OnlineClassifier"
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
    rows = list(csv.reader(io.StringIO(spom.well("inspect", here / "csv.spom", "--csv").out)))
    assert rows[0] == ["block", "weight"]
    assert {row[0] for row in rows[1:]} == set(COLUMNS)
    assert "coef" in spom.well("inspect", here / "csv.spom", "--header").out


# --- stopping and going on --------------------------------------------------------------------------------


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    spom: Command, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "classifier", "--train", here / "train.svm", "--epochs", "6"]
    spom.well(*words, "--model", tmp_path / "whole")
    on_epoch = live.Live.on_epoch

    def interrupted(self: live.Live, info: dict[str, object]) -> bool:
        self.interrupted = info["epoch"] == 2
        return on_epoch(self, info)

    with monkeypatch.context() as patched:
        patched.setattr(live.Live, "on_epoch", interrupted)
        done = spom(*words, "--model", tmp_path / "parts")
    assert done.status == 130
    assert "--resume goes on" in done.out
    assert read_run(tmp_path / "parts")["stopped"] == "interrupted"
    assert library.load_model(tmp_path / "parts").n_rounds_ == 200
    assert (tmp_path / "parts.checkpoint").exists()
    spom.well(*words, "--model", tmp_path / "parts", "--resume")
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    run = read_run(tmp_path / "parts")
    assert [entry["epoch"] for entry in run["history"]] == [1, 2, 3, 4, 5, 6]
    assert not (tmp_path / "parts.checkpoint").exists()


def test_checkpoints(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "classifier", "--train", here / "train.svm", "--model", tmp_path / "m"]
    words += ["--checkpoint", tmp_path / "c", "--checkpoint-every", "1"]
    spom.well(*words, "--epochs", "2")
    assert (tmp_path / "c").exists()
    assert "raise --epochs" in spom.fails(*words, "--epochs", "2", "--resume")
    spom.well(*words, "--epochs", "4", "--resume")
    spom.well("train", "classifier", "--train", here / "train.svm", "--model", tmp_path / "n", "--epochs", "4")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    assert "takes a time such as 60s" in spom.fails(*words[:6], "--checkpoint-every", "soon")
    (tmp_path / "c").write_text("no state")
    assert "not a saved state" in spom.fails(*words, "--epochs", "9", "--resume")


def test_control_c_keeps_the_best_model_so_far(here: Path, tmp_path: Path) -> None:
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
    words += ["--epochs", "10000000", "--checkpoint", tmp_path / "c", "--checkpoint-every", "1"]
    run = subprocess.Popen(
        [sys.executable, "-m", "spom", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "c").exists() and time.monotonic() < end:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130, err
    assert err == b""
    model = library.load_model(tmp_path / "m")
    record = read_run(tmp_path / "m")
    assert record["stopped"] == "interrupted"
    assert record["result"]["accuracy"] == max(entry["dev"] for entry in record["history"])
    assert model.coef_.shape == (3, 4)


def test_the_table_is_live_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    with live.Live(3, stream=shown, unit="rows/s") as table:
        for epoch in (1, 2):
            table.on_epoch({"epoch": epoch, "objective": 0.5, "dev": 0.9, "nonzeros": 1234, "per_second": 1e6})
    text = shown.getvalue()
    for word in ("epoch", "objective", "dev", "non-zeros", "rows/s", "time left", "1,234", "0.9000"):
        assert word in text
    silent = io.StringIO()
    with live.Live(3, stream=silent) as table:
        table.on_epoch({"epoch": 1})
    assert silent.getvalue() == ""


# --- what bad input gets ----------------------------------------------------------------------------------


def test_bad_files_get_one_line(spom: Command, here: Path, tmp_path: Path) -> None:
    def fails(name: str, content: str, *more: str) -> str:
        path = tmp_path / name
        path.write_text(content)
        error = spom.fails("train", "classifier", "--train", path, "--model", tmp_path / "m", *more)
        assert list(tmp_path.glob("*m*.part")) == []
        assert not (tmp_path / "m").exists()
        path.unlink()
        return error

    assert "bad.csv, line 3: expected 2 columns, found 1" in fails("bad.csv", "a,y\n1,2\n3\n")
    assert "bad.csv, line 3: expected a number in column 'a', found 'x'" in fails("bad.csv", "a,y\n1,2\nx,2\n")
    assert "bad.csv, line 2: expected a number in column 'a', found ''" in fails("bad.csv", "a,y\n,2\n3,2\n")
    assert "line 2: column 'a' is nan" in fails("bad.csv", "a,y\nnan,2\n3,2\n")
    assert "line 3: the label is missing" in fails("bad.csv", "a,y\n1,2\n3,\n")
    assert "there is no column 'z'; there are: a, y" in fails("bad.csv", "a,y\n1,2\n", "--target", "z")
    assert "found none" in fails("bad.csv", "")
    assert "expected rows below" in fails("bad.csv", "a,y\n")
    assert "not distinct" in fails("bad.csv", "a,a,y\n1,1,1\n")
    assert "no column besides" in fails("bad.csv", "y\n1\n")
    assert "one class only" in fails("bad.csv", "a,y\n1,1\n2,1\n")
    assert "regressor` takes real targets" in fails("bad.csv", "a,y\n" + "\n".join(f"{i},{i / 7}" for i in range(1500)))
    assert "bad.svm, line 2: expected index:value" in fails("bad.svm", "1 1:2\n-1 1\n")
    assert "found none" in fails("bad.svm", "")
    half = tmp_path / "half.svm.gz"
    half.write_bytes(gzip.compress((here / "train.svm").read_bytes())[:300])
    assert "half.svm.gz: expected a whole gzip file" in spom.fails(
        "train", "classifier", "--train", half, "--model", tmp_path / "m"
    )


def test_files_that_cannot_be_read_or_written(spom: Command, here: Path, tmp_path: Path) -> None:
    train = ["train", "classifier", "--train", here / "train.csv"]
    assert "no such file" in spom.fails(
        "train", "classifier", "--train", tmp_path / "no.csv", "--model", tmp_path / "m"
    )
    assert "found a folder" in spom.fails("train", "classifier", "--train", tmp_path, "--model", tmp_path / "m")
    assert "this is a folder" in spom.fails(*train, "--model", tmp_path)
    assert "no such folder" in spom.fails(*train, "--model", tmp_path / "no" / "m")
    assert "no such file" in spom.fails("predict", "--model", tmp_path / "m", here / "test.csv")
    assert "no such file" in spom.fails("inspect", tmp_path / "m")
    out = tmp_path / "out.csv"
    out.write_text("before")
    broken = tmp_path / "broken.csv"
    broken.write_text(table(ORDER[:5]) + "1,2,x,4,setosa\n")
    assert "line 7: expected a number" in spom.fails("predict", "--model", here / "csv.spom", broken, "-o", out)
    assert out.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.csv", "out.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which only Linux has")
def test_a_full_disk(here: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "spom", "predict", "--model", here / "svm.spom", here / "test.svm"],
            stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.decode().startswith("spom: No space left on device")
    assert done.stderr.count(b"\n") == 1


def test_damaged_models(spom: Command, here: Path, tmp_path: Path) -> None:
    raw = (here / "csv.spom").read_bytes()
    bad = tmp_path / "bad.spom"
    bad.write_bytes(raw[:-10])
    assert "only the beginning" in spom.fails("predict", "--model", bad, here / "test.csv")
    bad.write_bytes(raw[:-1] + bytes([raw[-1] ^ 255]))
    assert "altered" in spom.fails("evaluate", "--model", bad, here / "test.csv")
    bad.write_bytes(raw.replace(b"logistic", b"logistik"))
    assert "altered" in spom.fails("inspect", bad)
    assert "no model file" in spom.fails("inspect", here / "test.csv")


def test_data_of_another_kind_than_the_model(spom: Command, here: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the DT B-NP\ncat NN I-NP\n\n")
    error = spom.fails("predict", "--model", here / "svm.spom", words)
    assert "line 1: expected a label" in error
    assert "svm.spom is a classifier, which takes vectors" in error
    assert "this is csv" in spom.fails("evaluate", "--model", here / "svm.spom", here / "test.csv")
    assert "the columns sepal length" in spom.fails("predict", "--model", here / "csv.spom", here / "test.svm")
    other = tmp_path / "other.csv"
    other.write_text("a,b,species\n1,2,setosa\n")
    assert "there is no column 'sepal length'" in spom.fails("predict", "--model", here / "csv.spom", other)
    strange = tmp_path / "strange.csv"
    strange.write_text(table(ORDER[:3]).replace("setosa", "x").replace("versicolor", "y").replace("virginica", "z"))
    assert "of another set" in spom.fails("evaluate", "--model", here / "csv.spom", strange)
    assert "of another set" in spom.fails(
        "train", "classifier", "--train", here / "train.csv", "--dev", strange, "--model", tmp_path / "m"
    )


def test_options_that_make_no_sense(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "classifier", "--train", here / "train.csv", "--model", tmp_path / "m"]
    assert "there is no penalty 'l3'" in spom.fails(*words, "--penalty", "l3")
    assert "there is no loss" in spom.fails(*words, "--loss", "nothing")
    assert "loss of regression" in spom.fails(*words, "--loss", "squared")
    assert "strength must be" in spom.fails(*words, "--strength", "-1")
    assert "epochs must be" in spom.fails(*words, "--epochs", "0")
    assert "has no groups" in spom.fails(*words, "--groups", "2")
    assert "Invalid parameter" in spom.fails(*words, "--set", "nothing=1")
    assert "NAME=VALUE" in spom.fails(*words, "--set", "nothing")
    assert "leave --dask out" in spom.fails(*words, "--dask", "tcp://x:1")
    assert "there is no solver" in spom.fails(*words, "--solver", "magic")
    assert "there is no format" in spom.fails(*words, "--format", "arff")
    assert "Missing option '--train'" in spom.fails("train", "classifier", "--model", tmp_path / "m")
    assert "No such option" in spom.fails(*words, "--nothing")
    assert "No such command" in spom.fails("nothing")
    assert not (tmp_path / "m").exists()


def test_debug_shows_the_traceback(here: Path, tmp_path: Path) -> None:
    done = process("predict", "--model", tmp_path / "no", "--debug")
    assert b"Traceback" in done.stderr
    assert b"ModelFileError" in done.stderr


def test_json_of_train(spom: Command, here: Path, tmp_path: Path) -> None:
    words = [
        "train",
        "classifier",
        "--train",
        here / "train.csv",
        "--dev",
        here / "test.csv",
        "--model",
        tmp_path / "m",
    ]
    found = spom.well(*words, "--json").json
    assert found["accuracy"] == json.loads((tmp_path / "m.run.json").read_text())["result"]["accuracy"]
    assert found["bytes"] == (tmp_path / "m").stat().st_size


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
