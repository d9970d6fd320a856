"""The public names of the package of the page."""

from __future__ import annotations

import pytest

import spom.report


def test_public_names_are_there() -> None:
    for name in dir(spom.report):
        assert getattr(spom.report, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spom.report.nothing
