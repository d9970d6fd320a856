"""The vocabulary against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spom.data import Columns
from spom.features import Vocabulary
from tests.data.test_token_lines import naive_hash

texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=60)


@given(texts, texts)
def test_codes_are_those_of_a_dict(first, second):
    known: dict[str, int] = {}
    words = Vocabulary()
    for part in (first, second):
        columns = Columns.from_lists([[(text,) for text in part]])
        assert words.encode(columns, 0).tolist() == [known.get(text, 0) for text in part]
        expected = [known.setdefault(text, len(known) + 1) for text in part]
        assert words.encode(columns, 0, grow=True).tolist() == expected
        assert words.encode(columns, 0).tolist() == expected
    assert words.strings() == list(known)
    assert [words[c + 1] for c in range(len(words))] == list(known)
    assert all(words.code(text) == code for text, code in known.items())


def test_arrays_that_are_read_only_serve_as_well():
    words = Vocabulary.from_strings([f"w{i}" for i in range(1000)] * 2)
    frozen = {key: value.copy() for key, value in words.arrays().items()}
    for value in frozen.values():
        value.flags.writeable = False
    again = Vocabulary.from_arrays(frozen)
    assert again.code("w999") == 1000
    assert "w1000" not in again
    assert Vocabulary.from_strings(["w1000"]).code("w1000") == 1
    columns = Columns.from_lists([["w5", "new"]])
    assert again.encode(columns, 0, grow=True).tolist() == [6, 1001]
    assert len(words) == 1000
    assert len(again) == 1001


def test_a_subset_has_the_order_that_was_asked_for():
    words = Vocabulary.from_strings(["a", "bb", "ccc", "d"])
    some = words.subset([4, 2])
    assert some.strings() == ["d", "bb"]
    assert some.code("ccc") == 0
    assert words.subset([]).strings() == []
    with pytest.raises(IndexError):
        words[5]
    with pytest.raises(IndexError):
        words[0]


def test_same_strings_same_arrays():
    one, two = (Vocabulary.from_strings(["x", "y", "z"]) for _ in range(2))
    for key, value in one.arrays().items():
        np.testing.assert_array_equal(value, two.arrays()[key])


def test_the_table_of_a_model_file_is_filled_by_hashes():
    texts = [f"w{i}" * (1 + i % 4) for i in range(40)]
    table = Vocabulary.from_strings(texts).arrays()["table"]
    # Files keep the table: another version must search it from the same slots.
    expected = [0] * table.size
    for code, text in enumerate(texts, 1):
        slot = (naive_hash(text.encode()) >> 20) % table.size
        while expected[slot]:
            slot = (slot + 1) % table.size
        expected[slot] = code
    assert table.tolist() == expected
