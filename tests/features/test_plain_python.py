"""Templates and tables as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_features_stay_inside_their_arrays() -> None:
    tests = ["test_arcs.py", "test_hashed_and_derived.py", "test_tables.py", "test_saved.py", "test_templates.py"]
    check_plain("features", *tests, "test_vocabulary.py::test_a_subset_has_the_order_that_was_asked_for")
