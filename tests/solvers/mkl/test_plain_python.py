"""Learning of kernels as plain Python: no loop leaves its arrays."""

from __future__ import annotations

from tests.plain import check_plain


def test_kernels_stay_inside_their_arrays() -> None:
    online, dual = "test_online_kernels.py::", "test_dual_averaging.py::test_every_form_of_a_block_equals_the_twin"
    tests = [
        f"{online}test_every_form_of_a_block_equals_the_printed_algorithm",
        f"{online}test_classes_weights_and_a_radius",
    ]
    tests += [f"{online}test_blocks_go_off_and_come_back", f"{online}test_empty_sequences_are_passed_over", dual]
    tests += [
        "test_wrapper.py::test_the_machine_is_pegasos",
        "test_kernel_regression.py::test_forms_of_gram_matrices_agree",
    ]
    check_plain("solvers/mkl", "test_kernel_loops.py", *tests)
