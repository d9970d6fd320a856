"""`spom warmup`: what is there is left alone, and an unknown job is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spom.cli.main import main
from spom.core.compiled import jobs


def test_kernels_of_a_job_are_compiled_once(capsys: pytest.CaptureFixture[str]) -> None:
    steps = json.loads(Path(jobs.__file__).with_name("jobs.json").read_text())["proximal"]
    listed = {name for step in steps for name in step}
    assert main(["warmup", "proximal"]) == 0
    assert f"{len(listed)} kernels are ready" in capsys.readouterr().out
    assert main(["warmup", "proximal"]) == 0
    shown = capsys.readouterr()
    assert "0 of them compiled now" in shown.out
    assert shown.err == ""


def test_an_unknown_job_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "nothing"]) == 2
    shown = capsys.readouterr().err
    assert "unknown job 'nothing'; available: tagger, parser" in shown
    assert shown.count("\n") == 1
