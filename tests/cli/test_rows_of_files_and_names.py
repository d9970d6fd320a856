"""Encodings, columns with labels, several files, names of scikit-learn, and a screen for `inspect`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spom as library
from spom.core import registry
from tests.cli.common import Command

SENTENCES = "élan DT B-X\nfête NN I-X\n\ncafé DT B-X\nnoël NN I-X\n\n" * 10


@pytest.fixture
def folder(spom: Command, tmp_path: Path) -> Path:
    """Create a file in another encoding, and a tagger trained on it."""
    (tmp_path / "train.txt").write_bytes(SENTENCES.encode("latin-1"))
    words = ["train", "tagger", "--train", tmp_path / "train.txt", "--model", tmp_path / "m.spom", "--quiet"]
    assert "--encoding" in spom.fails(*words)
    spom.well(*words, "--encoding", "latin-1")
    return tmp_path


def test_encodings_of_sentences(spom: Command, folder: Path) -> None:
    done = spom.well("predict", "--model", folder / "m.spom", folder / "train.txt", "--encoding", "latin-1")
    assert [line.split()[-1] for line in done.out.splitlines()[:2]] == ["B-X", "I-X"]
    assert "élan" in done.out
    assert "--encoding" in spom.fails("predict", "--model", folder / "m.spom", folder / "train.txt")
    words = ["evaluate", "--model", folder / "m.spom", folder / "train.txt", "--json"]
    assert spom.well(*words, "--encoding", "latin-1").json["accuracy"] == 1.0
    assert "--encoding" in spom.fails(*words)


def test_several_files_and_patterns_of_sentences(spom: Command, folder: Path) -> None:
    for k in (1, 2):
        (folder / f"part-{k}.txt").write_text(f"word{k} DT B-X\n\n")
    both = spom.well("predict", "--model", folder / "m.spom", folder / "part-1.txt", folder / "part-2.txt").out
    assert spom.well("predict", "--model", folder / "m.spom", folder / "part-*.txt").out == both
    assert [line.split()[0] for line in both.split("\n\n") if line] == ["word1", "word2"]
    assert "no file has a name of this pattern" in spom.fails(
        "predict", "--model", folder / "m.spom", folder / "x-*.txt"
    )


def test_sentences_are_not_written_into_a_parquet_file(spom: Command, folder: Path) -> None:
    words = ["predict", "--model", folder / "m.spom", folder / "train.txt", "--encoding", "latin-1"]
    out = folder / "out.parquet"
    assert "parquet" in spom.fails(*words, "-o", out).lower()
    assert not out.exists()


@pytest.mark.parametrize("option", ["--label", "--target"])
def test_one_name_for_the_column_of_labels(spom: Command, tmp_path: Path, option: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    rows = [f"{'yes' if a > 0 else 'no'},{a},{b}" for a, b in X.tolist()]
    (tmp_path / "t.csv").write_text("answer,a,b\n" + "\n".join(rows) + "\n")
    (tmp_path / "t.txt").write_text("B-X the DT\nI-X cat NN\n\n" * 10)
    spom.well("train", "classifier", "--train", tmp_path / "t.csv", option, "answer", "--model", tmp_path / "c", "-q")
    words = ["evaluate", "--model", tmp_path / "c", tmp_path / "t.csv", option, "answer", "--json"]
    assert spom.well(*words).json["accuracy"] > 0.9
    named = ["--columns", "tag,w,pos", option, "tag"]
    spom.well("train", "tagger", "--train", tmp_path / "t.txt", *named, "--model", tmp_path / "t", "-q")
    words = ["evaluate", "--model", tmp_path / "t", tmp_path / "t.txt", option, "tag", "--json"]
    assert spom.well(*words).json["accuracy"] == 1.0


def test_the_names_of_scikit_learn() -> None:
    X = np.random.default_rng(0).standard_normal((80, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = library.OnlineClassifier(penalty="elasticnet", loss="log_loss", random_state=0, verbose=0).fit(X, y)
    assert type(model.penalty_).__name__ == "ElasticNet"
    assert type(model.loss_).__name__ == "Logistic"
    regressor = library.OnlineRegressor(loss="squared_error", random_state=0, verbose=0).fit(X, X[:, 0])
    assert type(regressor.loss_).__name__ == "Squared"
    assert registry.find("kernel", "rbf").name == "gaussian"
    with pytest.raises(Exception, match="did you mean 'logistic'"):
        library.OnlineClassifier(loss="logistik").fit(X, y)


def on_a_terminal(words: list[str], rows: int, folder: Path) -> str:
    """Return the output of a command on a terminal with `rows` rows; the pager is `cat`, with a line before it."""
    import fcntl
    import struct
    import termios

    (folder / "pager").write_text("#!/bin/sh\necho PAGED\ncat\n")
    (folder / "pager").chmod(0o755)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LINES", "COLUMNS")}
    env |= {"PAGER": str(folder / "pager"), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "spom", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env, close_fds=True
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        found += chunk
    process.wait()
    os.close(ours)
    return found.decode()


def test_inspect_has_colour_and_a_pager_where_there_is_a_terminal(spom: Command, folder: Path) -> None:
    tall = on_a_terminal(["inspect", str(folder / "m.spom")], 200, folder)
    assert "\x1b[1m" in tall
    assert "PAGED" not in tall
    assert "PAGED" in on_a_terminal(["inspect", str(folder / "m.spom"), "--all"], 5, folder)
    plain = spom.well("inspect", folder / "m.spom").out
    assert "\x1b[" not in plain
    few = spom.well("inspect", folder / "m.spom", "--label", "B-X", "--top", "2").out
    assert few.count("\n") < plain.count("\n")
