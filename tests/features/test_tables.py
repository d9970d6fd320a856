"""Exact tables of keys against a dict: numbering keys, and looking them up in all three forms of tables."""

from __future__ import annotations

import numpy as np
import pytest

from spom.features.tables import fill_slots, intern_direct, intern_keys, look_up_direct, look_up_narrow, look_up_wide


def keys_of(span: int, count: int, seed: int) -> np.ndarray:
    """Random keys below `span`, many of them twice or next to another one, and some negative."""
    draw = np.random.default_rng(seed)
    some = draw.integers(0, span, count)
    every = np.concatenate([some, some[::2], np.minimum(some[::3] + 2, span - 1), np.full(9, -1)])
    return np.asarray(draw.permutation(every), dtype=np.int64)


def numbered(keys: np.ndarray) -> tuple[list[int], list[int]]:
    """(an id for each key in order of first occurrence, the distinct keys)."""
    known: dict[int, int] = {}
    ids = [known.setdefault(key, len(known)) if key >= 0 else key for key in keys.tolist()]
    return ids, list(known)


@pytest.mark.parametrize("count", [1, 500, 5000])
@pytest.mark.parametrize("span", [300, 1 << 17, 1 << 61])
def test_keys_are_numbered_in_order(span: int, count: int) -> None:
    keys = keys_of(span, count, seed=count)
    ids, distinct = numbered(keys)
    found, known = keys.copy(), np.empty(keys.size, dtype=np.int64)
    assert intern_keys(found, known) == len(distinct)
    assert (found.tolist(), known[: len(distinct)].tolist()) == (ids, distinct)
    if span <= 1 << 17:
        found, known = keys.copy(), np.empty(keys.size, dtype=np.int64)
        assert intern_direct(found, known, np.full(span, -1, dtype=np.int32)) == len(distinct)
        assert (found.tolist(), known[: len(distinct)].tolist()) == (ids, distinct)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("narrow", [True, False])
def test_keys_are_looked_up_in_slots(narrow: bool, seed: int) -> None:
    span, base, place, bits = 1 << 30 if narrow else 1 << 61, 7, 3, 6
    distinct = np.array(numbered(keys_of(span, 25, seed))[1], dtype=np.int64)
    step = 1 if narrow else 2
    slots = np.zeros(place + (step << bits), dtype=np.int64)
    fill_slots(distinct, distinct.size, bits, narrow, base, slots[place:])
    known = {key: base + c for c, key in enumerate(distinct.tolist())}
    asked = np.concatenate([distinct, keys_of(span, 400, seed + 100), np.arange(50)])
    found = asked.copy()
    (look_up_narrow if narrow else look_up_wide)(slots, place, bits, found, found.size - 1)
    assert found[:-1].tolist() == [known.get(key, -1) for key in asked[:-1].tolist()]
    assert found[-1] == asked[-1]


def test_keys_are_looked_up_directly() -> None:
    direct = np.array([9, 9, 5, -1, 6], dtype=np.int32)
    keys = np.array([0, 1, 2, -1, 2], dtype=np.int64)
    look_up_direct(direct, 2, keys, 4)
    assert keys.tolist() == [5, -1, 6, -1, 2]
