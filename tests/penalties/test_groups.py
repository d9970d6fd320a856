"""What `groups=` may be, and what it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.penalties import (
    L1,
    GroupLasso,
    GroupLInf,
    LqMKL,
    OverlappingGroupLasso,
    Power,
    SparseGroupLasso,
    SparseMKL,
    SquaredL1,
    TreeGroupLasso,
)
from spom.penalties.groups import resolve

W = np.array([3.0, 4.0, 1.0, 1.0, -6.0, 8.0])


def test_all_forms_of_the_same_groups() -> None:
    wanted = GroupLasso(1.0, 2).prox(W)
    for groups in ([[0, 1], [2, 3], [4, 5]], [0, 0, 1, 1, 2, 2], np.array([7, 7, 3, 3, 5, 5]), np.int32(2)):
        np.testing.assert_allclose(GroupLasso(1.0, groups).prox(W), wanted, rtol=1e-15)
    np.testing.assert_allclose(GroupLasso(1.0, "rows").prox(W.reshape(3, 2)).ravel(), wanted, rtol=1e-15)
    np.testing.assert_allclose(GroupLasso(1.0).prox(W.reshape(3, 2)).ravel(), wanted, rtol=1e-15)


def test_groups_of_one_are_single_coordinates() -> None:
    for step in (0.05, 0.7, 2.0):
        for grouped, single in (
            (GroupLasso(1.5, 1), L1(1.5)),
            (GroupLInf(1.5, 1), L1(1.5)),
            (SparseGroupLasso(1.5, 1, l1_ratio=0.3), L1(1.5)),
            (SparseMKL(1.5, 1), SquaredL1(1.5)),
            (LqMKL(1.5, 1, q=3.0), Power(1.5, 3.0)),
        ):
            np.testing.assert_allclose(grouped.prox(W, step), single.prox(W, step), rtol=1e-12, atol=1e-12)
            assert grouped.value(W) == pytest.approx(single.value(W))


def test_groups_of_rows() -> None:
    """Check that in a matrix a group of rows consists of all their entries."""
    matrix = W.reshape(3, 2)
    x = GroupLasso(1.0, [[0, 2]]).prox(matrix)
    norm = np.linalg.norm(matrix[[0, 2]])
    np.testing.assert_allclose(x[[0, 2]], matrix[[0, 2]] * (1 - 1 / norm))
    np.testing.assert_array_equal(x[1], matrix[1])
    np.testing.assert_allclose(GroupLasso(1.0, 3).prox(matrix), matrix * (1 - 1 / np.linalg.norm(W)))


def test_coordinates_in_no_group_are_left_alone() -> None:
    for penalty in (GroupLasso(1e6, [[0, 1]]), GroupLInf(1e6, [0, 0, -1, -1, -1, -1]), TreeGroupLasso(1e6, [[0, 1]])):
        x = penalty.prox(W)
        np.testing.assert_array_equal(x, [0, 0, *W[2:]])
    assert GroupLasso(1.0, [[0, 1]]).max_strength(W) == np.inf


@pytest.mark.parametrize(
    ("groups", "what"),
    [
        ([[0, 1], [1, 2]], "coordinate 1 is in 2 groups"),
        ([[0, 0]], "coordinate 0 is in 2 groups"),
        ([[0, 6]], "group 0 has index 6, out of range for 6"),
        ([[0], [-1]], "group 1 has index -1"),
        ([[0.5]], "group 0 must be a vector of integer"),
        ([[[0]]], "group 0 must be a vector of integer"),
        (4, "blocks of 4 do not fill 6"),
        (0, "at least 1"),
        ([0, 1], "2 group labels for 6 coordinates"),
        (np.ones(6), "must be integers"),
        ("columns", "rows"),
        (None, "groups= is missing"),
    ],
)
def test_bad_groups(groups: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        GroupLasso(1.0, groups).prox(W)


def test_trees_and_overlaps() -> None:
    with pytest.raises(ValueError, match="no tree"):
        TreeGroupLasso(1.0, [[0, 1], [1, 2]]).prox(W)
    with pytest.raises(ValueError, match="names an index twice"):
        OverlappingGroupLasso(1.0, [[0, 0]]).prox(W)
    with pytest.raises(ValueError, match="norm must be 2 or inf"):
        TreeGroupLasso(1.0, [[0]], norm=1)
    shuffled = [[3], [0, 1, 2, 3, 4, 5], [2, 3], [0, 1]]
    one = TreeGroupLasso(0.3, shuffled).prox(W)
    np.testing.assert_allclose(TreeGroupLasso(0.3, shuffled[::-1]).prox(W), one, rtol=1e-14)


@pytest.mark.parametrize(
    ("weights", "what"),
    [([1.0], "one for each of the 3 groups"), ([1, -1, 1], "weight 1"), ([1, np.nan, 1], "weight 1")],
)
def test_bad_weights(weights: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        GroupLasso(1.0, 2, weights=weights).prox(W)


def test_the_structure_follows_its_parameters() -> None:
    penalty = SparseGroupLasso(1.0, 2)
    before = penalty.prox(W)
    penalty.set_params(groups=3)
    assert np.abs(penalty.prox(W) - before).max() > 0.1
    np.testing.assert_array_equal(penalty.prox(W), SparseGroupLasso(1.0, 3).prox(W))
    assert penalty.prox(np.ones(9)).shape == (9,)


def test_empty_and_many_groups() -> None:
    assert GroupLasso(1.0, []).prox(W).tolist() == W.tolist()
    assert GroupLasso(1.0, [[], [0]]).value(W) == 3.0
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(1000), 5))
    w = np.random.default_rng(1).standard_normal(5000)
    x = GroupLasso(2.0, labels).prox(w)
    for m in (0, 500, 999):
        norm = np.linalg.norm(w[labels == m])
        np.testing.assert_allclose(x[labels == m], w[labels == m] * max(0.0, 1 - 2 / norm), atol=1e-14)


def test_blocks_of_any_size() -> None:
    """Check sizes around multiples of four: blocks are scaled four entries at a time, and the rest one by one."""
    for size in range(1, 14):
        w = np.random.default_rng(size).standard_normal((3, size)) + 1.0
        norms = np.linalg.norm(w, axis=1, keepdims=True)
        expected = w * np.maximum(0.0, 1.0 - 0.9 / norms)
        np.testing.assert_allclose(GroupLasso(0.9, size).prox(w.reshape(-1)), expected.reshape(-1), rtol=1e-13)


def test_resolve_keeps_members() -> None:
    groups = resolve([1, 0, 1, -1], (4,))
    assert [groups.members(m).tolist() for m in range(groups.count)] == [[1], [0, 2]]
