"""Runs that are stopped and go on; the live table."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import spom as library
from spom.cli import training
from spom.models import read_run
from tests.cli.common import Command


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    spom: Command, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "classifier", "--train", here / "train.svm", "--epochs", "6"]
    spom.well(*words, "--model", tmp_path / "whole")
    on_epoch = training.Live.on_epoch

    def interrupted(self: training.Live, info: dict[str, object]) -> bool:
        if info["epoch"] == 2:
            self.stopping.number = int(signal.SIGINT)
        return on_epoch(self, info)

    with monkeypatch.context() as patched:
        patched.setattr(training.Live, "on_epoch", interrupted)
        done = spom(*words, "--model", tmp_path / "parts")
    assert done.status == 130
    assert "stopped by SIGINT; to continue, run the same command with --resume" in done.err
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
    spom.well(*words, "--epochs", "2", "--keep-checkpoint")
    assert (tmp_path / "c").stat().st_mode & 0o777 == (tmp_path / "m").stat().st_mode & 0o777
    two = (tmp_path / "m").read_bytes()
    spom.well(*words, "--epochs", "2", "--resume", "--keep-checkpoint")
    assert (tmp_path / "m").read_bytes() == two, "a run that was over gives the same model"
    spom.well(*words, "--epochs", "4", "--resume")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "c.previous").exists()
    spom.well("train", "classifier", "--train", here / "train.svm", "--model", tmp_path / "n", "--epochs", "4")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    assert "expected a time such as 60s" in spom.fails(*words[:6], "--checkpoint-every", "soon")
    assert "there is no checkpoint to resume from" in spom.fails(*words, "--resume")
    (tmp_path / "c").write_text("no state")
    assert "not a model file" in spom.fails(*words, "--epochs", "9", "--resume")


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
    assert err == b"spom: stopped by SIGINT; to continue, run the same command with --resume\n"
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
    with training.Live(3, stream=shown, unit="rows/s") as table:
        for epoch in (1, 2):
            table.on_epoch({"epoch": epoch, "objective": 0.5, "dev": 0.9, "nonzeros": 1234, "per_second": 1e6})
    text = shown.getvalue()
    for word in ("epoch", "objective", "dev", "non-zeros", "rows/s", "time left", "1,234", "0.9000"):
        assert word in text
    silent = io.StringIO()
    with training.Live(3, stream=silent) as table:
        table.on_epoch({"epoch": 1})
    assert silent.getvalue() == ""
