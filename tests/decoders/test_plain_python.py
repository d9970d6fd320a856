"""The decoders as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_decoders_stay_inside_their_arrays() -> None:
    trees = [
        f"test_trees.py::test_{name}" for name in ("all_modes_match_enumeration", "labelled_trees_match_enumeration")
    ]
    trees += ["test_trees.py::test_equal_scores_count_trees", "test_trees.py::test_bad_input_of_trees"]
    trees += ["test_second_order.py::test_max_marginals_are_those_of_enumeration"]
    trees += ["test_second_order.py::test_long_sentences_beat_every_change_of_one_head"]
    check_plain("decoders", "test_chain.py", "test_viterbi_lanes.py", *trees, leave="test_long_sequences or 5-")
