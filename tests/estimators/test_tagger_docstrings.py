"""The docstrings of tagging print what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "estimators.tagger.tagger",
    "solvers.structured.chains.solver",
    "solvers.structured.trees.solver",
    "solvers.structured.trees.relations",
    "solvers.structured.structures",
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_of_tagging(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"spom.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
