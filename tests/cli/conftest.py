from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.common import Command
from tests.cli.iris import write_files


@pytest.fixture
def spom(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with iris in files of two kinds, and a model of each."""
    folder = tmp_path_factory.mktemp("vectors")
    write_files(folder)
    return folder
