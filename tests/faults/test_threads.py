"""Sixteen threads that predict with one model agree with one: `make faults` does it for a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.threads import KINDS, THREADS, agree, loaded


@pytest.mark.filterwarnings("ignore")
def test_sixteen_threads_agree_with_one(tmp_path: Path) -> None:
    counts = agree(loaded(tmp_path), 2.0)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= THREADS
