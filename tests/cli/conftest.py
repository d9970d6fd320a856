from __future__ import annotations

import pytest

from tests.cli.common import Command


@pytest.fixture
def spom(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
