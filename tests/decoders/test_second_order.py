"""Trees of second order and max-marginals, against all projective trees written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.decoders.inside_outside import inside_outside
from spom.decoders.max_marginals import max_marginals
from spom.decoders.second_order import PartScores, arc_graph, best_second_order

from . import naive


def parts_of(heads: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """(grandparent, head, sibling, modifier) of each word; -1 for none."""
    whole, found = (-1, *heads), []
    for m, h in enumerate(heads, start=1):
        between = range(m - 1, h, -1) if h < m else range(m + 1, h)
        sibling = next((s for s in between if whole[s] == h), -1)
        found.append((whole[h], h, sibling, m))
    return found


def score(heads: tuple[int, ...], scores: Any) -> float:
    """Return the score of a tree."""
    arcs, grand, siblings, ends = scores
    total = sum(arcs[h, m] + grand[g, h, m] + siblings[h, s, m] for g, h, s, m in parts_of(heads))
    for h in range(len(heads) + 1):
        below = [m for m, head in enumerate(heads, start=1) if head == h]
        total += sum(ends[h, some(below)] for some in (min, max) if below and (some(below) > h) == (some is max))
    return float(total)


def drawn(seed: int, n: int, share: float, ties: bool) -> tuple[Any, Any]:
    """Allowed arcs; scores of arcs (h, m), grandparents (g, h, m), siblings (h, s, m), -1 the last index, and ends."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((n + 1, n + 1)) < share
    sizes = ((n + 1, n + 1), (n + 2, n + 1, n + 1), (n + 1, n + 2, n + 1), (n + 1, n + 1))
    return allowed, tuple(
        rng.integers(-2, 3, size).astype(float) if ties else 2.0 * rng.standard_normal(size) for size in sizes
    )


def scores_of(graph: Any, scores: Any) -> PartScores:
    """Return the scores in the layout of the decoder."""
    (arcs, grand, siblings, ends), count = scores, graph.head.size
    shape = (count, graph.into.shape[1])
    out = PartScores(np.empty(count), np.full(shape, np.nan), np.empty(graph.siblings[-1]), np.empty(count))
    for a in range(count):
        h, m, at = graph.head[a], graph.modifier[a], graph.siblings[a]
        out.arcs[a], out.ends[a] = arcs[h, m], ends[h, m]
        for r in range(graph.many[h]):
            out.grand[a, r] = grand[-1 if h == 0 else graph.head[graph.into[h, r]], h, m]
        out.siblings[at] = siblings[h, -1, m]
        for t in range(graph.inner[a], a):
            out.siblings[at + 1 + t - graph.inner[a]] = siblings[h, graph.modifier[t], m]
    return out


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_the_best_tree_is_that_of_enumeration(n: int, share: float, ties: bool) -> None:
    none = 0
    for seed in range(4 if n == 6 else 12):
        allowed, scores = drawn(seed, n, share, ties)
        every = {heads: score(heads, scores) for heads in naive.trees(np.where(allowed, 0.0, -np.inf), True, True)}
        graph = arc_graph(allowed)
        heads = np.full(n, -1)
        best = best_second_order(graph, scores_of(graph, scores), heads)
        if not every:
            assert best == -np.inf
            none += 1
            continue
        assert best == pytest.approx(max(every.values()), abs=1e-9)
        assert every[tuple(heads.tolist())] == pytest.approx(best, abs=1e-9)
    assert none < 12


def test_long_sentences_beat_every_change_of_one_head() -> None:
    n = 40
    allowed, scores = drawn(0, n, 0.2, False)
    allowed[np.arange(n), np.arange(1, n + 1)] = True
    graph, heads = arc_graph(allowed), np.full(n, -1)
    best = best_second_order(graph, scores_of(graph, scores), heads)
    found = tuple(heads.tolist())
    assert naive.is_projective(found)
    assert naive.reaches_root(found)
    assert found.count(0) == 1
    assert score(found, scores) == pytest.approx(best)
    tried = 0
    for m in range(1, n + 1):
        for h in np.flatnonzero(allowed[:, m]).tolist():
            other = (*found[: m - 1], h, *found[m:])
            if h != m and other.count(0) == 1 and naive.reaches_root(other) and naive.is_projective(other):
                assert score(other, scores) <= best + 1e-9
                tried += 1
    assert tried > 50


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_max_marginals_are_those_of_enumeration(n: int, single_root: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal((n + 1, n + 1))
        scores[rng.random(scores.shape) < 0.2 * (seed % 2)] = -np.inf
        every = naive.trees(scores, single_root, True)
        expected = np.full_like(scores, -np.inf)
        for heads, value in every.items():
            for m, h in enumerate(heads, start=1):
                expected[h, m] = max(expected[h, m], value)
        out, heads = np.empty_like(scores), np.full(n, -1)
        best = max_marginals(scores, single_root, out, heads)
        assert best == pytest.approx(max(every.values(), default=-np.inf))
        np.testing.assert_allclose(out[:, 1:], expected[:, 1:])
        if every:
            assert every[tuple(heads.tolist())] == pytest.approx(best)


@pytest.mark.parametrize("single_root", [False, True])
def test_where_there_is_no_tree_nothing_is_written(single_root: bool) -> None:
    scores = np.random.default_rng(0).standard_normal((4, 4))
    scores[0] = -np.inf
    shares, best_with, heads = np.zeros((4, 4)), np.zeros((4, 4)), np.full(3, 7)
    assert inside_outside(scores, single_root, shares) == -np.inf
    assert not shares.any()
    assert max_marginals(scores, single_root, best_with, heads) == -np.inf
    assert (best_with == -np.inf).all()
    assert heads.tolist() == [7, 7, 7]
