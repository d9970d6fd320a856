"""The guide of the decoders prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

from spom.core import registry
from spom.core.protocols import Decoder

FLAGS = doctest.NORMALIZE_WHITESPACE
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "decoders.md"


def test_the_guide() -> None:
    result = doctest.testfile(str(GUIDE), module_relative=False, optionflags=FLAGS)
    assert result.attempted > 10
    assert result.failed == 0


def test_every_decoder_keeps_the_protocol_and_documents_itself() -> None:
    found = registry.entries("decoder")
    assert [e.name for e in found] == ["chain", "multiclass", "nonprojective-tree", "projective-tree"]
    for entry in found:
        assert entry.formula
        assert entry.cost
        for example in entry.examples():
            assert isinstance(example, Decoder)
            assert repr(type(example)(**example.get_params())) == repr(example)
