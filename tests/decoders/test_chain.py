"""Chains and single labels against every output written down."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from spom.decoders import Chain, ChainParts, Constraints, Hamming, LabelCost, Multiclass, tag_constraints
from tests.decoders import naive

# Labels are looked at in fours: less, as many, and more with a rest.
SIZES = [(1, 1), (1, 3), (2, 2), (4, 3), (3, 4), (5, 1), (6, 2), (3, 5), (2, 11)]


def draw(seed: int, n: int, k: int, scale: float = 2.0, forbidden: float = 0.0) -> ChainParts:
    rng = np.random.default_rng([seed, n, k])
    parts = ChainParts(*(scale * rng.standard_normal(shape) for shape in ((n, k), (k, k), (k,), (k,))))
    for part in parts:
        part[rng.random(part.shape) < forbidden] = -np.inf
    return parts


def counts(y: tuple[int, ...], k: int) -> tuple[Any, Any, Any, Any]:
    unary, step, begin, end = np.zeros((len(y), k)), np.zeros((k, k)), np.zeros(k), np.zeros(k)
    for t, label in enumerate(y):
        unary[t, label] += 1.0
    for a, b in itertools.pairwise(y):
        step[a, b] += 1.0
    begin[y[0]], end[y[-1]] = 1.0, 1.0
    return unary, step, begin, end


@pytest.mark.parametrize(("n", "k"), SIZES)
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_all_modes_match_enumeration(n: int, k: int, forbidden: float) -> None:
    tried, decoder = 0, Chain()
    for seed in range(8):
        scores = draw(seed, n, k, forbidden=forbidden)
        every = naive.sequences(*scores)
        if not every:
            for call in (decoder.best, decoder.marginals, lambda s: decoder.kbest(s, 3), decoder.posterior):
                with pytest.raises(ValueError, match="no sequence is admissible"):
                    call(scores)
            continue
        tried += 1
        best = max(every.values())
        found = tuple(decoder.best(scores))
        assert every[found] == pytest.approx(best, abs=1e-12)
        assert decoder.score(scores, found) == pytest.approx(best, abs=1e-12)
        expected, z = decoder.marginals(scores)
        assert z == pytest.approx(naive.log_partition(every), abs=1e-11)
        for i in range(4):
            true = naive.expectation(every, lambda y, i=i: counts(y, k)[i])
            np.testing.assert_allclose(expected[i], true, atol=1e-12)
        edges = decoder.edge_marginals(scores)
        for t in range(n - 1):
            pair = naive.expectation(every, lambda y, t=t: np.outer(np.arange(k) == y[t], np.arange(k) == y[t + 1]))
            np.testing.assert_allclose(edges[t], pair, atol=1e-12)
        ordered = sorted(every.values(), reverse=True)[:7]
        outputs, values = decoder.kbest(scores, 7)
        np.testing.assert_allclose(values, ordered, atol=1e-12)
        assert len({tuple(y) for y in outputs}) == len(ordered)
        np.testing.assert_allclose([every[tuple(y)] for y in outputs], values, atol=1e-12)
        gain = {y: sum(expected.unary[t, y[t]] for t in range(n)) for y in every}
        assert gain[tuple(decoder.posterior(scores))] == pytest.approx(max(gain.values()), abs=1e-12)
    assert tried > 0


def test_cost_augmented_decoding_matches_enumeration() -> None:
    matrix = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 0.5], [3.0, 1.0, 0.0]])
    costs = [(Hamming(1.5), 1.5 * (1 - np.eye(3))), (LabelCost(matrix), matrix)]
    costs.append((LabelCost([1.0, 5.0, 2.0]), np.array([[1.0], [5.0], [2.0]]) * (1 - np.eye(3))))
    for seed, (cost, table) in itertools.product(range(6), costs):
        scores, gold = draw(seed, 4, 3), np.random.default_rng(seed).integers(0, 3, 4)
        every = naive.sequences(*scores)
        true = {y: s + sum(table[gold[t], y[t]] for t in range(4)) for y, s in every.items()}
        assert true[tuple(Chain().best_augmented(scores, gold, cost))] == pytest.approx(max(true.values()))
        row = scores.unary[0]
        assert Multiclass().best_augmented(row, int(gold[0]), cost) == int(np.argmax(row + table[gold[0]]))


def test_marginals_are_differences_of_the_log_partition() -> None:
    scores, step = draw(3, 5, 3), 1e-5
    expected, _ = Chain().marginals(scores)
    for part, of in zip(scores, expected, strict=True):
        for at in np.ndindex(part.shape):
            kept = part[at]
            part[at] = kept + step
            above = Chain().marginals(scores)[1]
            part[at] = kept - step
            below = Chain().marginals(scores)[1]
            part[at] = kept
            assert of[at] == pytest.approx((above - below) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("scale", [50.0, 1e3, 1e8])
def test_peaked_scores_stay_probabilities(scale: float) -> None:
    """Compare sums whose terms underflow with enumeration in whole numbers of the scale."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parts = ChainParts(*(scale * rng.integers(-3, 4, shape) / 8 for shape in ((5, 3), (3, 3), (3,), (3,))))
        every = naive.sequences(*parts)
        expected, z = Chain().marginals(parts)
        assert z == pytest.approx(naive.log_partition(every), rel=1e-12)
        np.testing.assert_allclose(expected.unary.sum(axis=1), 1.0, rtol=1e-12)
        assert expected.transition.sum() == pytest.approx(4.0)
        np.testing.assert_allclose(expected.unary, naive.expectation(every, lambda y: counts(y, 3)[0]), atol=1e-9)
        assert every[tuple(Chain().best(parts))] == max(every.values())


def test_scores_of_any_size() -> None:
    for seed in range(5):
        parts = ChainParts(*(np.clip(part * 1e299, -1e300, 1e300) for part in draw(seed, 6, 3)))
        every = naive.sequences(*parts)
        best = max(every, key=lambda y: every[y])
        expected, z = Chain().marginals(parts)
        assert z == pytest.approx(every[best])
        assert tuple(Chain().best(parts)) == best
        for found, true in zip(expected, counts(best, 3), strict=True):
            np.testing.assert_array_equal(found, true)
        assert tuple(Chain().posterior(parts)) == best
    equal = Chain().marginals((np.full((4, 3), 1e300), np.full((3, 3), -1e300)))[0]
    np.testing.assert_allclose(equal.unary, 1 / 3)


def test_a_sum_that_underflows_is_done_again() -> None:
    """Label 1 is e^-800 times less likely than label 0, which leads nowhere."""
    scores = ChainParts(np.array([[0.0, -800.0], [0.0, 0.0]]), np.array([[-900.0, -np.inf], [-900.0, 0.0]]))
    expected, z = Chain().marginals(scores)
    assert z == pytest.approx(-800.0)
    np.testing.assert_allclose(expected.unary, [[math.exp(-100), 1.0], [math.exp(-100), 1.0]], rtol=1e-12)
    np.testing.assert_allclose(Chain().edge_marginals(scores)[0], expected.transition, rtol=1e-12)


def test_long_sequences() -> None:
    n = 100_000
    expected, z = Chain().marginals(np.zeros((n, 2)))
    assert z == pytest.approx(n * math.log(2), rel=1e-13)
    np.testing.assert_allclose(expected.unary, 0.5, rtol=1e-9)
    expected, z = Chain().marginals(np.full((n, 2), 1e300))
    assert z == pytest.approx(n * 1e300)
    np.testing.assert_allclose(expected.unary, 0.5, rtol=1e-9)


def test_the_empty_sequence_and_left_out_parts() -> None:
    empty = np.zeros((0, 3))
    assert Chain().best(empty).shape == (0,)
    expected, z = Chain().marginals(empty)
    assert (z, expected.unary.shape, expected.transition.sum()) == (0.0, (0, 3), 0.0)
    assert Chain().kbest(empty, 2)[0].shape == (1, 0)
    assert Chain().best_augmented(empty, []).size == 0
    assert Chain().edge_marginals(empty).shape == (0, 3, 3)
    scores = draw(1, 4, 3)
    zero = ChainParts(scores.unary, np.zeros((3, 3)), np.zeros(3), np.zeros(3))
    np.testing.assert_array_equal(Chain().marginals(scores.unary)[0].unary, Chain().marginals(zero)[0].unary)
    frozen = scores.unary.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(Chain().best(frozen), frozen.argmax(axis=1))


def test_gold_parts_are_counts() -> None:
    for found, true in zip(Chain().parts([1, 1, 0], 2), counts((1, 1, 0), 2), strict=True):
        np.testing.assert_array_equal(found, true)


# An independent statement of each scheme: the sequences of letters that are right, as a pattern.
PATTERNS = {
    "BIO": r"(O|B-X( I-X)*|B-Y( I-Y)*)",
    "BIOES": r"(O|S-X|S-Y|B-X( I-X)* E-X|B-Y( I-Y)* E-Y)",
    "BILOU": r"(O|U-X|U-Y|B-X( I-X)* L-X|B-Y( I-Y)* L-Y)",
}


@pytest.mark.parametrize("scheme", PATTERNS)
def test_constraints_admit_just_what_the_scheme_does(scheme: str) -> None:
    import re

    letters = [letter for letter in scheme if letter != "O"]
    labels = ["O"] + [f"{letter}-{kind}" for kind in "XY" for letter in letters]
    pattern = re.compile(rf"{PATTERNS[scheme]}( {PATTERNS[scheme]})*")
    decoder = Chain(tag_constraints(labels, scheme))
    unary = np.zeros((3, len(labels)))
    found = {tuple(y) for y in decoder.kbest(unary, len(labels) ** 3)[0]}
    every = itertools.product(range(len(labels)), repeat=3)
    assert found == {y for y in every if pattern.fullmatch(" ".join(labels[a] for a in y))}
    assert decoder.marginals(unary)[1] == pytest.approx(math.log(len(found)))


def test_iob1() -> None:
    allowed = tag_constraints(["O", "I-X", "B-X", "I-Y", "B-Y"], "IOB1")
    assert allowed.begin.tolist() == [True, True, False, True, False]
    assert allowed.end.all()
    assert allowed.transition[:, 2].tolist() == [False, True, True, False, False]
    assert allowed.transition[:, [0, 1, 3]].all()


def test_ties_are_settled_the_same_way() -> None:
    zero = np.zeros((4, 3))
    assert Chain().best(zero).tolist() == [0, 0, 0, 0]
    assert Multiclass().best([1.0, 1.0]) == 0
    first = Chain().kbest(zero, 81)[0]
    np.testing.assert_array_equal(first, Chain().kbest(zero, 81)[0])
    assert first[0].tolist() == [0, 0, 0, 0]


def test_threads_give_the_same_bits() -> None:
    many = [draw(seed, 1 + seed % 30, 5, forbidden=0.0) for seed in range(60)]
    bio = Chain(Constraints(~np.eye(5, dtype=bool), np.ones(5, dtype=bool), np.ones(5, dtype=bool)))

    def work(scores: ChainParts) -> tuple[bytes, ...]:
        expected, z = bio.marginals(scores)
        several = bio.kbest(scores, 3)
        arrays = (bio.best(scores), bio.posterior(scores), *expected, *several)
        return *(a.tobytes() for a in arrays), np.float64(z).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, many)) == [work(scores) for scores in many]


def test_bad_input_of_chains() -> None:
    scores = draw(0, 3, 2)
    nan = scores.unary.copy()
    nan[1, 0] = np.nan
    for bad, what in [
        (nan, r"unary scores .* entry \(1, 0\) is nan"),
        (np.full((2, 2), np.inf), "entry .* is inf"),
        (np.full((2, 2), 1e305), "at most 1e"),
        (np.zeros(3), "2 dimensions; it has 1"),
        (np.zeros((3, 0)), "at least one label"),
        ("abc", "real numbers"),
        ((scores.unary, np.zeros((3, 3))), r"transition scores must have shape \(2, 2\)"),
        ((scores.unary, None, np.zeros(3)), "begin scores"),
        ((scores.unary, None, None, [np.nan, 0.0]), "end scores .* entry 0 is nan"),
    ]:
        for call in (Chain().best, Chain().marginals, Chain().posterior):
            with pytest.raises(ValueError, match=what):
                call(bad)
    for gold, what in [([0, 1], "shape"), ([0, 1, 2], r"in 0\.\.1: entry 2 is 2"), ([0, -1, 0], "entry 1 is -1")]:
        with pytest.raises(ValueError, match=what):
            Chain().best_augmented(scores, gold)
    with pytest.raises(ValueError, match="integers"):
        Chain().best_augmented(scores, [0.0, 1.0, 1.0])
    for cost in ("hamming", Hamming, 1.0):
        with pytest.raises(ValueError, match="cost must be"):
            Chain().best_augmented(scores, [0, 0, 0], cost)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="count"):
        Chain().kbest(scores, 0)
    with pytest.raises(ValueError, match="constraints are for 3 labels"):
        Chain(tag_constraints(["O", "B-X", "I-X"])).best(scores)
    with pytest.raises(ValueError, match="no sequence is admissible"):
        Chain(tag_constraints(["B-X", "E-X"], "BIOES")).best(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="boolean"):
        Chain(Constraints(np.ones((2, 2)), np.ones(2), np.ones(2)))  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="shapes"):
        Chain(Constraints(np.ones((2, 3), bool), np.ones(2, bool), np.ones(2, bool)))
    for labels, scheme, what in [(["O", "E-X"], "BIO", "'E-X' is not of scheme BIO"), (["O"], "XYZ", "scheme must be")]:
        with pytest.raises(ValueError, match=what):
            tag_constraints(labels, scheme)
    with pytest.raises(ValueError, match="differ"):
        tag_constraints(["O", "O"])


def test_single_labels() -> None:
    rng = np.random.default_rng(0)
    rows = 3.0 * rng.standard_normal((20, 4))
    np.testing.assert_array_equal(Multiclass().best(rows), rows.argmax(axis=1))
    p, z = Multiclass().marginals(rows)
    np.testing.assert_allclose(z, [math.log(sum(math.exp(x) for x in row)) for row in rows])
    np.testing.assert_allclose(p, np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True))
    one, of_one = Multiclass().marginals(rows[0])
    assert (one.tobytes(), of_one) == (p[0].tobytes(), z[0])
    np.testing.assert_array_equal(Multiclass().parts([1, 0], 2), [[0.0, 1.0], [1.0, 0.0]])
    assert Multiclass().marginals([1e300, -1e300, -np.inf])[0].tolist() == [1.0, 0.0, 0.0]
    assert Multiclass().best(np.zeros((0, 3))).shape == (0,)
    for bad, what in [([np.nan, 0.0], "entry 0 is nan"), ([], "at least one"), ([[0.0], [-np.inf]], "row 1")]:
        with pytest.raises(ValueError, match=what):
            Multiclass().best(bad)
        with pytest.raises(ValueError, match=what):
            Multiclass().marginals(bad)
    with pytest.raises(ValueError, match="gold"):
        Multiclass().best_augmented([0.0, 1.0], 2)
