"""The examples in the docstrings of readers and features run as they are shown."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "spom.data.columns",
    "spom.metrics.phrases",
    "spom.features.streams",
    "spom.features.clusters",
    "spom.features.dicts",
    "spom.features.matrices",
    "spom.features.ready",
    "spom.features.rows",
    "spom.features.templates",
    "spom.features.vocabulary",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
