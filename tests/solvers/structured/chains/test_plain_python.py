"""Learning of chains as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_chains_stay_inside_their_arrays() -> None:
    tests = ["test_chain_losses.py", "test_curvature.py", "test_partial_chain.py", "test_chain_edges.py"]
    tests += ["test_sparse_chain.py", "test_chain_rounds.py::test_the_mean_of_iterates_is_that_of_every_round"]
    tests += ["test_chain_rounds.py::test_the_whole_run_is_that_of_the_naive_twin_also_after_a_restart"]
    tests += ["test_chain_rounds.py::test_each_round_is_projected_onto_a_ball"]
    check_plain("solvers/structured/chains", *tests, leave="64 or same_seed or softmax-margin-0.01 or threads")
