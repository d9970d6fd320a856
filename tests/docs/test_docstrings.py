"""The examples in all docstrings of the package print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from spom.core import registry

SOURCE = Path(__file__).parents[2] / "src"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCE / "spom").rglob("*.py"))
    if ">>>" in path.read_text()
]


def failures(module: ModuleType) -> int:
    found, runner = doctest.DocTestFinder().find(module), doctest.DocTestRunner(optionflags=FLAGS)
    assert any(test.examples for test in found), "there is an example where the source has >>>"
    for test in found:
        # Kernels of an example are compiled as those of a script are.
        test.globs["__name__"] = "__main__"
        runner.run(test)
    return runner.failures


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:every weight is zero")
def test_examples_run(name: str) -> None:
    assert failures(importlib.import_module(name)) == 0


@pytest.mark.parametrize("kind", sorted(registry.PACKAGES))
def test_every_operator_has_an_example(kind: str) -> None:
    assert [entry.name for entry in registry.entries(kind) if ">>>" not in (entry.cls.__doc__ or "")] == []
