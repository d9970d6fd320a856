"""Merges of shards as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_merges_stay_inside_their_arrays() -> None:
    check_plain("scale", "test_merging.py")
