"""Readers as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_readers_stay_inside_their_arrays() -> None:
    tests = ["test_svmlight_lines.py", "test_token_lines.py", "test_conllu.py"]
    check_plain("data", *tests, leave="english or loading or 3000")
