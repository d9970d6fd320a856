"""Counts of phrases and words as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_metrics_stay_inside_their_arrays() -> None:
    check_plain("metrics", "test_phrases.py", "test_conll2018.py", leave="treebank or official or folder")
