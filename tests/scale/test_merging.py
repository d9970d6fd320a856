"""The loops that merge tables of shards, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from spom.scale.averaged_merge import Both, Room, changed, collect, put_back, settle
from spom.scale.chain_merge import apply_total, take_added


@pytest.mark.parametrize("size", [1, 3, 40])
def test_entries_that_differ_are_found_with_their_places(size: int) -> None:
    draw, width = np.random.default_rng(size), 3
    before = Both(*(draw.normal(size=7 * width).astype(np.float32) for _ in range(2)))
    rows = np.array([1, 2, 4, 6])
    own = (rows[:, None] * width + np.arange(width)).reshape(-1)
    after = Both(before.weights[own], before.sums[own])
    # Only the weight, only the sum, both; at the ends of a row and of the tables.
    for k, weight, of_sums in ((0, 1.0, 0.0), (2, 0.0, 1.0), (5, 1.0, 1.0), (9, 0.0, -2.0), (11, 3.0, 0.0)):
        after.weights[k] += np.float32(weight)
        after.sums[k] += np.float32(of_sums)
    room = [Room(size)]
    places, weights, sums = changed(before, after, room, rows)
    np.testing.assert_array_equal(places, own[[0, 2, 5, 9, 11]])
    np.testing.assert_array_equal(weights, after.weights[[0, 2, 5, 9, 11]])
    np.testing.assert_array_equal(sums, after.sums[[0, 2, 5, 9, 11]])
    whole = Both(before.weights.copy(), before.sums.copy())
    whole.weights[places], whole.sums[places] = weights, sums
    put_back(places[1:4], before, whole)
    expected = before.weights.copy()
    expected[places[[0, 4]]] = weights[[0, 4]]
    np.testing.assert_array_equal(whole.weights, expected)
    np.testing.assert_array_equal(np.delete(whole.sums, places[[0, 4]]), np.delete(before.sums, places[[0, 4]]))
    assert len(room) == 1
    again = changed(before, Both(before.weights[own], before.sums[own]), room, rows)
    assert again[0].size == 0


def test_a_block_of_entries_is_settled_from_the_shards_that_changed_it() -> None:
    """W is the mean of weights, u = S W - the mean of (S_p w_p - u_p), both by the shares of the shards."""
    draw, low, count = np.random.default_rng(1), 4, 6
    start = Both(*(draw.normal(size=12).astype(np.float32) for _ in range(2)))
    now, totals = Both(start.weights.copy(), start.sums.copy()), np.zeros((count, 5))
    shards = []
    for rounds, share, places in ((5.0, 2.0, [4, 5, 9]), (9.0, 0.5, [5, 6, 9]), (2.0, 1.0, [9])):
        values = Both(*(draw.normal(size=len(places)).astype(np.float32) for _ in range(2)))
        shards.append((rounds, share, places, values))
        collect(np.array(places), values, now, low, share, rounds, totals)
    every = sum(rounds for rounds, *_ in shards)
    settle(now, low, every, totals)
    for i in range(12):
        mine = [(r, s, v.weights[p.index(i)], v.sums[p.index(i)]) for r, s, p, v in shards if i in p]
        if not mine:
            assert (now.weights[i], now.sums[i]) == (start.weights[i], start.sums[i])
            continue
        mass = sum(s for _, s, _, _ in mine)
        mean = sum(s * w for _, s, w, _ in mine) / mass
        iterates = sum(s * (r * float(w) - float(u)) for r, s, w, u in mine) / mass
        assert now.weights[i] == pytest.approx(mean, rel=1e-5)
        # What was there before counts for the rounds of all shards.
        assert now.sums[i] == pytest.approx(every * mean - iterates, rel=1e-4)
    assert not totals.any()


@pytest.mark.parametrize("place", [0, 3, 4, 7])
def test_one_entry_that_differs_is_enough(place: int) -> None:
    delta, before = np.float32(0.25), np.linspace(1.0, 3.0, 24).astype(np.float32).reshape(3, 8)
    now, rows = before[[0, 2]].copy(), np.full(2, -1)
    now[1, place] += 2.0
    new = now[1].copy()
    assert take_added(now, before, np.array([0, 2]), delta, rows) == 1
    assert rows.tolist() == [2, -1]
    np.testing.assert_allclose(now[0, :4], new[:4] - before[2, :4])
    np.testing.assert_allclose(now[0, 4:], (new[4:] - delta) ** 2 - (before[2, 4:] - delta) ** 2, atol=1e-5)


@pytest.mark.parametrize("adaptive", [False, True])
def test_sums_are_added_to_the_table_and_cleared(adaptive: bool) -> None:
    draw, delta = np.random.default_rng(2), np.float32(0.25)
    table = np.abs(draw.normal(size=(3, 8))).astype(np.float32) + delta
    total = draw.normal(size=(3, 8)).astype(np.float32)
    total[0, 4:] = 0.0
    total[1, 5] = -100.0
    expected = table.astype(float)
    expected[:, :4] += 0.5 * total[:, :4]
    if adaptive:
        squares = np.maximum((table[:, 4:] - delta) ** 2 + 0.5 * total[:, 4:], 0.0)
        expected[:, 4:] = np.where(total[:, 4:] != 0.0, delta + np.sqrt(squares), table[:, 4:])
    apply_total(table, total, np.float32(0.5), delta, adaptive)
    np.testing.assert_allclose(table, expected, rtol=1e-5)
    assert not total.any()
