"""Learning of trees as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_trees_stay_inside_their_arrays() -> None:
    tests = ["test_arc_labels.py", "test_arc_scores.py", "test_second_order_edges.py"]
    tests += ["test_tree_selection.py::test_a_whole_pass_is_that_of_the_plain_recursion"]
    tests += ["test_tree_selection.py::test_limits_are_the_longest_arcs_of_each_pair_of_tags"]
    tests += ["test_sparse_arcs.py::test_templates_that_look_at_a_tree"]
    check_plain("solvers/structured/trees", *tests)
