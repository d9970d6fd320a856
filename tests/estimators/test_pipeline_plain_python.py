"""The loops of the tokeniser as plain Python: none leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_tokenisers_stay_inside_their_arrays() -> None:
    check_plain("estimators", "test_pipeline_kernels.py")
