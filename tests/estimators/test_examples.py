"""The examples in the docstrings of the estimators and the data package run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "spom.data.loading",
    "spom.data.svmlight",
    "spom.estimators.checking",
    "spom.estimators.linear.online",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted
    assert not result.failed
