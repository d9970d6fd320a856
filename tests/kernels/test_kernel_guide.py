"""The guide of the kernels prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

from spom.core import registry
from spom.core.protocols import Kernel

FLAGS = doctest.NORMALIZE_WHITESPACE
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "kernels.rst"


def test_the_guide() -> None:
    result = doctest.testfile(str(GUIDE), module_relative=False, optionflags=FLAGS)
    assert result.attempted > 10
    assert result.failed == 0


def test_every_kernel_keeps_the_protocol_and_documents_itself() -> None:
    for entry in registry.entries("kernel"):
        assert entry.formula
        assert entry.cost
        assert all(isinstance(example, Kernel) for example in entry.examples())
