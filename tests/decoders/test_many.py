"""Many sentences at once are decoded as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from spom.decoders import Chain, best_many, tag_constraints


def test_many_are_decoded_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum([0, 1, 5, 0, 9, 2])])
    unary, transition = rng.standard_normal((17, 3)), rng.standard_normal((3, 3))
    begin, end = rng.standard_normal(3), rng.standard_normal(3)
    for chain in (Chain(), Chain(tag_constraints(["O", "B-X", "I-X"]))):
        found = best_many(chain, (unary, transition, begin, end), offsets)
        for a, b in zip(offsets[:-1], offsets[1:], strict=True):  # noqa: RUF007 - arrays
            np.testing.assert_array_equal(found[a:b], chain.best((unary[a:b], transition, begin, end)))
    assert best_many(Chain(), np.zeros((0, 2)), [0, 0]).size == 0


def test_what_does_not_fit() -> None:
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3], []):
        with pytest.raises(ValueError, match="offsets must rise from 0 to the 3 tokens"):
            best_many(Chain(), np.zeros((3, 2)), offsets)
    with pytest.raises(ValueError, match="sentence 1: no sequence is admissible"):
        best_many(Chain(), np.array([[0.0, 1.0], [-np.inf, -np.inf]]), [0, 1, 2])
