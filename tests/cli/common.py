"""Runs the command in this process, as its entry point does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from spom.cli.main import main


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: Any) -> Done:
        self.capsys.readouterr()
        status = main([str(word) for word in words])
        captured = self.capsys.readouterr()
        return Done(status, captured.out, captured.err)

    def well(self, *words: Any) -> Done:
        done = self(*words)
        assert done.status == 0, done.err
        return done

    def fails(self, *words: Any) -> str:
        """Run a command that must fail, and return its one-line error."""
        done = self(*words)
        assert done.status == 2, (done.status, done.out, done.err)
        assert done.err.count("\n") == 1, done.err
        assert done.err.startswith("spom: ")
        assert "Traceback" not in done.err
        return done.err


def process(*words: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "spom", *map(str, words)],
        capture_output=True,
        check=False,
        env={**os.environ, **more.pop("env", {})},
        **more,
    )
