"""Trees against every tree written down, and sums of trees against exact rational determinants."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spom.decoders import ArcCost, Hamming, LabelCost, NonProjectiveTree, ProjectiveTree
from spom.decoders.matrix_tree_log import heads_of, plus
from spom.decoders.trees import Trees
from spom.errors import Unsupported
from tests.decoders import naive

DECODERS = [cls(single_root=single) for cls in (NonProjectiveTree, ProjectiveTree) for single in (False, True)]


def every_tree(decoder: Trees, scores: Any) -> dict[tuple[int, ...], float]:
    return naive.trees(scores, bool(decoder.single_root), isinstance(decoder, ProjectiveTree))


def draw(seed: int, n: int, *labels: int, scale: float = 2.0, forbidden: float = 0.0) -> Any:
    rng = np.random.default_rng([seed, n])
    scores = scale * rng.standard_normal((n + 1, n + 1, *labels))
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    # Nobody looks at these.
    scores[np.arange(n + 1), np.arange(n + 1)] = np.nan
    scores[:, 0] = np.nan
    return scores


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_all_modes_match_enumeration(decoder: Trees, n: int) -> None:
    tried = 0
    for seed, (forbidden, scale) in itertools.product(range(4), [(0.0, 2.0), (0.3, 2.0), (0.0, 400.0), (0.4, 400.0)]):
        scores = draw(seed, n, scale=scale, forbidden=forbidden)
        every = every_tree(decoder, scores)
        if not every:
            for call in (decoder.best, decoder.marginals):
                with pytest.raises(ValueError, match="no tree"):
                    call(scores)
            continue
        tried += 1
        heads = decoder.best(scores)
        assert every[tuple(heads)] == pytest.approx(max(every.values()), abs=1e-9)
        assert decoder.score(scores, heads) == pytest.approx(max(every.values()), abs=1e-9)
        expected, z = decoder.marginals(scores)
        assert z == pytest.approx(naive.log_partition(every), rel=1e-12, abs=1e-10)
        true = naive.expectation(every, naive.arcs_of)
        np.testing.assert_allclose(expected, true, rtol=1e-8, atol=1e-200)
        np.testing.assert_allclose(expected[:, 1:].sum(axis=0), 1.0, rtol=1e-12)
        if decoder.single_root:
            assert expected[0].sum() == pytest.approx(1.0)
        gold = np.array(max(every, key=lambda y: y))
        for cost, weight in ((Hamming(3.0), 3.0), (ArcCost(head=0.5), 0.5)):
            loaded = {y: s + weight * int((np.array(y) != gold).sum()) for y, s in every.items()}
            found = tuple(decoder.best_augmented(scores, gold, cost))
            assert loaded[found] == pytest.approx(max(loaded.values()), abs=1e-9)
    assert tried > 0


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
def test_labelled_trees_match_enumeration(decoder: Trees) -> None:
    n, k, weights = 3, 2, [0.7, 3.0]
    for seed, forbidden in itertools.product(range(4), [0.0, 0.2]):
        scores = draw(seed, n, k, forbidden=forbidden)
        every = naive.labelled(scores, every_tree(decoder, np.zeros((n + 1, n + 1))))
        if not every:
            continue

        def parts(output: Any) -> Any:
            table = np.zeros((n + 1, n + 1, k))
            for m, (h, y) in enumerate(zip(*output, strict=True), start=1):
                table[h, m, y] = 1.0
            return table

        heads, labels = decoder.best(scores)
        assert every[tuple(heads), tuple(labels)] == pytest.approx(max(every.values()))
        expected, z = decoder.marginals(scores)
        assert z == pytest.approx(naive.log_partition(every))
        np.testing.assert_allclose(expected, naive.expectation(every, parts), atol=1e-12)
        np.testing.assert_array_equal(decoder.parts((heads, labels), k), parts((heads, labels)))
        gold_heads, gold_labels = next(iter(every))
        for cost in (Hamming(1.2), ArcCost(2.0, 0.5), LabelCost(weights)):

            def price(y: Any, cost: Any = cost, heads: Any = gold_heads, labels: Any = gold_labels) -> float:
                total = 0.0
                for h, a, g, b in zip(*y, heads, labels, strict=True):
                    if isinstance(cost, ArcCost):
                        total += 2.0 if h != g else 0.5 * (a != b)
                    else:
                        total += (1.2 if isinstance(cost, Hamming) else weights[b]) * ((h, a) != (g, b))
                return total

            loaded = {y: s + price(y) for y, s in every.items()}
            found = decoder.best_augmented(scores, (np.array(gold_heads), np.array(gold_labels)), cost)
            assert loaded[tuple(found[0]), tuple(found[1])] == pytest.approx(max(loaded.values()))


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
@pytest.mark.parametrize("scale", [1.0, 150.0])
def test_marginals_are_differences_of_the_log_partition(decoder: Trees, scale: float) -> None:
    """Compare at 9 words; the larger scale takes the path through logarithms."""
    scores, step = draw(0, 9, scale=scale), 1e-4
    expected, _ = decoder.marginals(scores)
    for h, m in itertools.product(range(10), range(1, 10)):
        if h != m:
            above, below = scores.copy(), scores.copy()
            above[h, m] += step
            below[h, m] -= step
            slope = (decoder.marginals(above)[1] - decoder.marginals(below)[1]) / (2 * step)
            assert expected[h, m] == pytest.approx(slope, abs=1e-6 if scale > 1 else 1e-7)


def determinant(rows: list[list[Fraction]]) -> Fraction:
    """Gaussian elimination in exact fractions."""
    rows, found = [list(row) for row in rows], Fraction(1)
    for i in range(len(rows)):
        pivot = next((r for r in range(i, len(rows)) if rows[r][i]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != i:
            rows[i], rows[pivot], found = rows[pivot], rows[i], -found
        found *= rows[i][i]
        for r in range(i + 1, len(rows)):
            if rows[r][i]:
                f = rows[r][i] / rows[i][i]
                rows[r] = [a - f * b for a, b in zip(rows[r], rows[i], strict=True)]
    return found


def exact_partition(powers: Any, single_root: bool) -> Fraction:
    """Return the sum over trees of the weights 2^power: the determinant of the Laplacian, in exact fractions."""
    n = powers.shape[0] - 1
    A = [[Fraction(2) ** int(powers[h, m]) for m in range(n + 1)] for h in range(n + 1)]
    L = [[-A[h][m] for m in range(1, n + 1)] for h in range(1, n + 1)]
    for m in range(1, n + 1):
        L[m - 1][m - 1] = sum((A[h][m] for h in range(1, n + 1) if h != m), Fraction(0))
        if not single_root:
            L[m - 1][m - 1] += A[0][m]
    if single_root:
        L[0] = A[0][1:]
    return determinant(L)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("spread", [3, 100, 1000])
def test_peaked_sums_have_all_their_digits(single_root: bool, spread: int) -> None:
    """Check words that prefer each other, for which the Laplacian in floats is singular, but the sum is not."""
    n = 8
    powers = np.random.default_rng(spread).integers(-spread, spread + 1, (n + 1, n + 1))
    for a in range(1, n, 2):
        powers[a, a + 1] = powers[a + 1, a] = 3 * spread
    decoder = NonProjectiveTree(single_root)
    expected, z = decoder.marginals(powers * math.log(2))
    true = exact_partition(powers, single_root)
    log_true = math.log(true.numerator) - math.log(true.denominator)
    assert z == pytest.approx(log_true, rel=1e-13)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(expected[:, 1:].sum(axis=0), 1.0, rtol=1e-12)
    for h, m in [(0, 1), (1, 2), (2, 1), (3, 2), (7, 5), (0, 8)]:
        more = powers.copy()
        more[h, m] += 1  # twice the weight: the sum grows by the part of the trees with this arc
        part = exact_partition(more, single_root) / true - 1
        assert expected[h, m] == pytest.approx(float(part), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4, 1e299])
def test_two_hundred_words(decoder: Trees, scale: float) -> None:
    scores = np.clip(draw(5, 200, scale=scale), -1e300, 1e300)
    heads = decoder.best(scores)
    assert naive.reaches_root(tuple(int(h) for h in heads))
    assert not decoder.single_root or (heads == 0).sum() == 1
    if scale == 1e4 and isinstance(decoder, NonProjectiveTree) and decoder.single_root:
        return  # the way through logarithms takes a second; it is run once at this length
    expected, z = decoder.marginals(scores)
    np.testing.assert_allclose(expected[:, 1:].sum(axis=0), 1.0, rtol=1e-10)
    assert expected.min() >= 0.0
    best = decoder.score(scores, heads)
    assert best * (1 - math.copysign(1e-12, best)) <= z <= best + 200 * math.log(201) + abs(best) * 1e-12
    if scale >= 1e4:
        np.testing.assert_allclose(expected, decoder.parts(heads), atol=0.5)


def test_the_best_tree_of_many_words_beats_every_change_of_one_head() -> None:
    """And its score is a bound for the projective one."""
    for seed in range(3):
        scores = draw(seed, 30)
        for single in (False, True):
            decoder = NonProjectiveTree(single)
            heads = decoder.best(scores)
            best = decoder.score(scores, heads)
            assert best >= ProjectiveTree(single).score(scores, ProjectiveTree(single).best(scores)) - 1e-9
            for m, h in itertools.product(range(30), range(31)):
                other = heads.copy()
                other[m] = h
                admissible = h != m + 1 and naive.reaches_root(tuple(int(x) for x in other))
                if admissible and (not single or (other == 0).sum() == 1):
                    assert decoder.score(scores, other) <= best + 1e-9


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
def test_equal_scores_count_trees(decoder: Trees) -> None:
    """(n + 1)^(n - 1) trees, n^(n - 1) with a single root (Cayley); ties always go to the same tree."""
    for n in (1, 2, 3, 4, 7, 20):
        zero = np.zeros((n + 1, n + 1))
        z = decoder.marginals(zero)[1]
        if isinstance(decoder, NonProjectiveTree):
            assert z == pytest.approx((n - 1) * math.log(n if decoder.single_root else n + 1))
        elif n < 5:
            assert math.exp(z) == pytest.approx(len(every_tree(decoder, zero)))
        first = decoder.best(zero)
        assert all((decoder.best(zero.copy()) == first).all() for _ in range(3))


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
def test_the_empty_sentence(decoder: Trees) -> None:
    assert decoder.best(np.zeros((1, 1))).shape == (0,)
    expected, z = decoder.marginals(np.zeros((1, 1)))
    assert (expected.shape, z) == ((1, 1), 0.0)
    heads, labels = decoder.best_augmented(np.zeros((1, 1, 3)), ([], []))
    assert heads.size == labels.size == 0
    assert decoder.marginals(np.zeros((1, 1, 3)))[0].shape == (1, 1, 3)


def test_threads_give_the_same_bits() -> None:
    many = [draw(seed, 2 + seed % 25, 3, scale=(2.0, 300.0)[seed % 2]) for seed in range(40)]

    def work(scores: Any) -> list[bytes]:
        out = []
        for decoder in DECODERS:
            expected, z = decoder.marginals(scores)
            out += [expected.tobytes(), np.float64(z).tobytes(), *(a.tobytes() for a in decoder.best(scores))]
        return out

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, many)) == [work(scores) for scores in many]


@pytest.mark.parametrize("decoder", DECODERS, ids=repr)
def test_bad_input_of_trees(decoder: Trees) -> None:
    nan, three = np.zeros((3, 3)), np.zeros((3, 3, 2))
    nan[2, 1], three[0, 1, 1] = np.nan, np.inf
    closed = np.full((3, 3), -np.inf)
    closed[1, 2] = closed[2, 1] = 0.0
    for bad, what in [
        (nan, r"entry \(2, 1\) is nan"),
        (three, r"entry \(0, 1, 1\) is inf"),
        (np.full((3, 3), 1e302), "at most 1e"),
        (np.zeros((3, 4)), "root first"),
        (np.zeros((0, 0)), "root first"),
        (np.zeros(3), "2 or 3 dimensions"),
        (np.zeros((3, 3, 0)), "at least one label"),
        (closed, "no tree.* is admissible"),
    ]:
        for call in (decoder.best, decoder.marginals):
            with pytest.raises(ValueError, match=what):
                call(bad)
    good = np.zeros((3, 3))
    for gold, what in [
        ([0], "shape"),
        ([0, 3], r"gold heads must be in 0\.\.2: entry 1 is 3"),
        ([2, 1], "cycle"),
        ([0, 2], "cycle"),
        ([0.0, 0.0], "integers"),
    ]:
        with pytest.raises(ValueError, match=what):
            decoder.best_augmented(good, gold)
    for gold, what in [([0, 0], r"\(heads, labels\)|shape"), (([0, 0], [0, 2]), r"gold labels must be in 0\.\.1")]:
        with pytest.raises(ValueError, match=what):
            decoder.best_augmented(np.zeros((3, 3, 2)), gold)
    with pytest.raises(Unsupported, match="needs labels"):
        decoder.best_augmented(good, [0, 0], LabelCost([1.0]))


def test_two_words_that_hang_on_the_root_alone_have_no_single_root() -> None:
    scores = np.full((4, 4), -np.inf)
    scores[0, 1:], scores[1, 3] = 1.0, 0.0
    for cls in (NonProjectiveTree, ProjectiveTree):
        assert cls().best(scores).tolist() == [0, 0, 0]
        for call in (cls(single_root=True).best, cls(single_root=True).marginals):
            with pytest.raises(ValueError, match="single root"):
                call(scores)


def test_costs_check_themselves() -> None:
    with pytest.raises(ValueError, match="weight"):
        Hamming(-1.0)
    with pytest.raises(ValueError, match="square"):
        LabelCost(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=">= 0"):
        LabelCost([-1.0])
    with pytest.raises(ValueError, match="diagonal"):
        LabelCost(np.ones((2, 2)))
    with pytest.raises(ValueError, match="for 1 labels"):
        LabelCost([1.0]).of_labels(np.array([0]), 2)
    with pytest.raises(Unsupported, match="for trees"):
        ArcCost().of_labels(np.array([0]), 2)
    with pytest.raises(Unsupported, match="matrix"):
        LabelCost(1 - np.eye(2)).of_arcs(np.array([0]), np.array([0]), 2)


@pytest.mark.parametrize("seed", range(20))
def test_heads_are_those_of_the_lowest_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, m = 6, 3
    scores, e, p = rng.standard_normal((N, N)), rng.standard_normal(N), rng.integers(0, 3, N)
    # An arc or a word that is ruled out does not count, whatever its order.
    scores[rng.random((N, N)) < 0.4] = -np.inf
    e[rng.random(N) < 0.3] = -np.inf
    p[scores[:, m] == -np.inf] -= seed % 2
    there = [h for h in range(N) if h != m and scores[h, m] + e[h] > -np.inf]
    out = np.full((N, N), 7.0)
    assert heads_of(scores, m, e, p, out) == bool(there)
    if there:
        shares = {h: math.exp(scores[h, m] + e[h]) for h in there if p[h] == min(p[k] for k in there)}
        expected = [shares.get(h, 0.0) / sum(shares.values()) for h in range(N)]
        np.testing.assert_allclose(out[:, m], expected, rtol=1e-12)
    assert (np.delete(out, m, axis=1) == 7.0).all()


def test_sums_have_the_lower_order() -> None:
    for x, p, y, q in itertools.product([-np.inf, -3.0, 0.5], [0, 1], [-np.inf, -2.0, 0.5], [0, 1]):
        terms = [(order, value) for value, order in ((x, p), (y, q)) if value > -np.inf]
        found = plus(x, p, y, q)
        if terms:
            least = min(order for order, _ in terms)
            total = math.log(sum(math.exp(value) for order, value in terms if order == least))
            assert found == (pytest.approx(total, abs=1e-12), least)
        else:
            assert found[0] == -np.inf
