"""What bad input gets: one line on standard error, exit status 2, nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.common import Command, process
from tests.cli.iris import ORDER, table


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
    typing = "a,y\n" + "1,2\n3,4\n" * 10 + "x,2\n"
    assert "bad.csv, line 22: expected a number in column 'a' as in most rows, found 'x'" in fails("bad.csv", typing)
    assert "unknown kind 'colour'" in fails("bad.csv", "a,y\n1,2\n3,4\n", "--kind", "a=colour")
    assert "unknown kind 'number:5'" in fails("bad.csv", "a,y\n1,2\n3,4\n", "--kind", "a=number:5")
    assert "unknown column 'z'" in fails("bad.csv", "a,y\n1,2\n3,4\n", "--ignore", "z")
    assert "line 3: the label is missing" in fails("bad.csv", "a,y\n1,2\n3,\n")
    assert "unknown column 'z'; available: a, y" in fails("bad.csv", "a,y\n1,2\n", "--target", "z")
    assert "found none" in fails("bad.csv", "")
    assert "expected rows below" in fails("bad.csv", "a,y\n")
    assert "not distinct" in fails("bad.csv", "a,a,y\n1,1,1\n")
    assert "no columns are left" in fails("bad.csv", "y\n1\n")
    assert "only one class" in fails("bad.csv", "a,y\n1,1\n2,1\n")
    assert "train regressor` for real" in fails("bad.csv", "a,y\n" + "\n".join(f"{i},{i / 7}" for i in range(1500)))
    assert "bad.svm, line 2: expected index:value" in fails("bad.svm", "1 1:2\n-1 1\n")
    assert "found none" in fails("bad.svm", "")
    half = tmp_path / "half.svm.gz"
    half.write_bytes(gzip.compress((here / "train.svm").read_bytes())[:300])
    assert "half.svm.gz: expected a complete gzip file" in spom.fails(
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


SMALL_DISK = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
PYTHONUNBUFFERED=1 "$2" -m spom predict --model "$3" "$4" > "$1/out" 2> "$5"
status=$?
wc -c < "$1/out" >> "$5"
exit $status
"""


def test_a_disk_that_fills_up_under_standard_output(here: Path, tmp_path: Path) -> None:
    """Fill a real disk, in a namespace of its own: part of the output fits, and the exit status reports the failure."""
    (tmp_path / "disk").mkdir()
    data, err = tmp_path / "data.svm", tmp_path / "err"
    data.write_bytes((here / "test.svm").read_bytes() * 100)
    given = [tmp_path / "disk", sys.executable, here / "svm.spom", data, err]
    try:
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", SMALL_DISK, "sh", *given], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if done.returncode == 77 or not err.exists():
        pytest.skip("no file system may be mounted here")
    told, size = err.read_text().rsplit("\n", 2)[:2]
    assert int(size) == 1 << 16, "the disk is full"
    assert data.stat().st_size > 1 << 16
    assert done.returncode == 2
    assert told.startswith("spom: No space left on device")


def test_damaged_models(spom: Command, here: Path, tmp_path: Path) -> None:
    raw = (here / "csv.spom").read_bytes()
    bad = tmp_path / "bad.spom"
    bad.write_bytes(raw[:-10])
    assert "truncated" in spom.fails("predict", "--model", bad, here / "test.csv")
    bad.write_bytes(raw[:-1] + bytes([raw[-1] ^ 255]))
    assert "altered" in spom.fails("evaluate", "--model", bad, here / "test.csv")
    bad.write_bytes(raw.replace(b"logistic", b"logistik"))
    assert "altered" in spom.fails("inspect", bad)
    assert "not a model file" in spom.fails("inspect", here / "test.csv")


def test_data_of_another_kind_than_the_model(spom: Command, here: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the DT B-NP\ncat NN I-NP\n\n")
    error = spom.fails("predict", "--model", here / "svm.spom", words)
    assert "line 1: expected a label" in error
    assert "svm.spom is a classifier, which expects vectors" in error
    assert "this is csv" in spom.fails("evaluate", "--model", here / "svm.spom", here / "test.csv")
    assert "the columns sepal length" in spom.fails("predict", "--model", here / "csv.spom", here / "test.svm")
    other = tmp_path / "other.csv"
    other.write_text("a,b,species\n1,2,setosa\n")
    assert "unknown column 'sepal length'" in spom.fails("predict", "--model", here / "csv.spom", other)
    strange = tmp_path / "strange.csv"
    strange.write_text(table(ORDER[:3]).replace("setosa", "x").replace("versicolor", "y").replace("virginica", "z"))
    assert "share none with" in spom.fails("evaluate", "--model", here / "csv.spom", strange)
    assert "share none with" in spom.fails(
        "train", "classifier", "--train", here / "train.csv", "--dev", strange, "--model", tmp_path / "m"
    )


def test_options_that_make_no_sense(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "classifier", "--train", here / "train.csv", "--model", tmp_path / "m"]
    assert "unknown penalty 'l3'" in spom.fails(*words, "--penalty", "l3")
    assert "unknown loss" in spom.fails(*words, "--loss", "nothing")
    assert "loss for regression" in spom.fails(*words, "--loss", "squared")
    assert "strength must be" in spom.fails(*words, "--strength", "-1")
    assert "'--epochs': 0 is not in the range x>=1" in spom.fails(*words, "--epochs", "0")
    assert "has no groups" in spom.fails(*words, "--groups", "2")
    assert "--set: unknown parameter 'nothing'; available: " in spom.fails(*words, "--set", "nothing=1")
    assert "NAME=VALUE" in spom.fails(*words, "--set", "nothing")
    assert "--set: step is 'auto' and has no parameters" in spom.fails(*words, "--set", "step__eta0=9")
    assert "no Dask scheduler at x:1" in spom.fails(*words, "--dask", "x:1")
    assert "'--shards': 0 is not in the range x>=1" in spom.fails(*words, "--shards", "0")
    assert "for taggers, parsers and the online solver" in spom.fails(*words, "--shards", "2", "--solver", "proximal")
    assert "unknown solver" in spom.fails(*words, "--solver", "magic")
    assert "format 'arff' is not supported" in spom.fails(*words, "--format", "arff")
    assert "Missing option '--train'" in spom.fails("train", "classifier", "--model", tmp_path / "m")
    assert "No such option" in spom.fails(*words, "--nothing")
    assert "No such command" in spom.fails("nothing")
    assert not (tmp_path / "m").exists()


def test_a_group_without_a_command_shows_its_help(spom: Command) -> None:
    for name in ("train", "data"):
        done = spom(name)
        assert done.status == 2
        assert done.err.startswith(f"Usage: spom {name}")
        assert done.err.count("\n") > 5


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
