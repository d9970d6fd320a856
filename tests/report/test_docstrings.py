"""The examples in the docstrings of the page's modules, and of callbacks."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import spom.report

MODULES = [f"spom.report.{module.name}" for module in pkgutil.iter_modules(spom.report.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "spom.core.callbacks"])
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_public_names_are_there() -> None:
    for name in dir(spom.report):
        assert getattr(spom.report, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spom.report.nothing
