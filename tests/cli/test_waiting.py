"""A user who waits is shown why, and one who does not wait is shown nothing."""

from __future__ import annotations

import time

import pytest

from spom.cli.warmup import TEXT, compiling


def test_a_word_comes_only_when_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    with compiling(after=60.0):
        pass
    assert capsys.readouterr().err == ""
    with compiling(after=0.0):
        deadline = time.monotonic() + 10.0
        seen = ""
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)
            seen = capsys.readouterr().err
    assert seen == TEXT + "\n"
