"""Shared by all tests: hypothesis is seeded, and data sets are found through SPOM_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "spom", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spom")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of the real data sets; skip the test if there is none."""
    folder = os.environ.get("SPOM_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data sets: set SPOM_DATA to their folder (docs: data sets)")
    return Path(folder)
