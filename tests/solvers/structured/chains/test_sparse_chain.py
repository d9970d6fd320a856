"""Chains with many labels beside enumeration: decoding, expectations, whole rounds, and which pairs there are."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spom.errors import Unsupported
from spom.solvers.structured.chains.data import Tokens, as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import FEWEST, SHARE, Pairs, seen_pairs
from spom.solvers.structured.chains.sparse.parts import Parts, unshared
from spom.solvers.structured.chains.sparse.rounds import find_confused
from spom.solvers.structured.chains.sparse.solver import SparseChain


def sentences(seed: int, lengths: list[int], features: int, each: int) -> Tokens:
    draw = np.random.default_rng(seed)
    n = sum(lengths)
    indices = np.concatenate([draw.choice(features, each, replace=False) for _ in range(n)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return as_tokens(SimpleNamespace(indptr=np.arange(n + 1) * each, indices=indices, values=[], offsets=offsets))


def dense(weights: SparseWeights, features: int) -> Any:
    """Return one row per feature, where labels include the weights of their parts."""
    k = weights.chain.shape[1]
    total = weights.pairs.parts.total
    W = np.zeros((features, total))
    for j in range(features):
        for p in range(weights.pairs.starts[j], weights.pairs.starts[j + 1]):
            W[j, weights.pairs.labels[p]] = weights.values[p]
    own = W[:, :k].copy()
    for y in range(k):
        own[:, y] += sum(W[:, part] for part in weights.pairs.parts.rows[y] if part >= 0)
    return own


def path_score(unary: Any, chain: Any, path: tuple[int, ...]) -> float:
    k = chain.shape[1]
    steps = sum(chain[a, b] for a, b in pairwise(path))
    return float(sum(unary[t, y] for t, y in enumerate(path)) + steps + chain[k, path[0]] + chain[k + 1, path[-1]])


def random_weights(seed: int, features: int, k: int, parts: Any, spread: float) -> SparseWeights:
    draw = np.random.default_rng(seed)
    total = parts.total
    labels = [np.sort(draw.choice(total, draw.integers(0, total), replace=False)) for _ in range(features)]
    starts = np.concatenate([[0], np.cumsum([part.size for part in labels])]).astype(np.int64)
    flat = np.concatenate(labels).astype(np.int32)
    values = (spread * draw.standard_normal(flat.size)).astype(np.float32)
    chain = draw.standard_normal((k + 2, k)).astype(np.float32)
    return SparseWeights(Pairs(starts, flat, parts), values, chain)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_decoding_is_exact(seed: int, spread: float) -> None:
    features, k = 12, 5
    rows = (None, [[5], [6], [5], [6], [6]], [[5, 7, 8], [5, 7, -1], [6, 7, 8], [6, -1, -1], [5, 8, -1]])[seed % 3]
    parts = Parts.of(rows, k)
    weights = random_weights(seed, features, k, parts, spread)
    tokens = sentences(seed, [1, 4, 0, 3], features, 3)
    found, W = weights.tag(tokens), dense(weights, features)
    for a, b in zip(tokens.offsets[:-1].tolist(), tokens.offsets[1:].tolist(), strict=True):
        if a == b:
            continue
        rows = tokens.indices[tokens.indptr[a] : tokens.indptr[b]].reshape(b - a, -1)
        unary = W[rows].sum(axis=1)
        best = max(path_score(unary, weights.chain, path) for path in product(range(k), repeat=b - a))
        assert path_score(unary, weights.chain, tuple(found[a:b].tolist())) == pytest.approx(best, abs=1e-4)


def naive_round(
    tokens: Tokens,
    y: Any,
    order: Any,
    k: int,
    features: int,
    l1: float,
    cost: float,
    radius: float = np.inf,
    l2: float = 0.0,
    parts: Any = None,
) -> Any:
    """Dual averaging with AdaGrad's rates on the seen pairs, expectations by enumeration of all paths.

    `order` may have several passes; after each the weights are brought into a ball. `parts` are a list per label.
    """
    inside = 1.0
    # Row y tells what label y has: itself and its parts.
    total = max([k - 1, *(p for row in parts or () for p in row)]) + 1
    has = np.eye(k, total)
    for label, row in enumerate(parts or ()):
        has[label, row] = 1.0
    margin = 0.5 * np.abs(has[:, None] - has).sum(axis=2)
    seen = np.zeros((features, total), dtype=bool)
    for t in range(tokens.total):
        for j in tokens.indices[tokens.indptr[t] : tokens.indptr[t + 1]]:
            seen[j] |= has[y[t]] > 0.0
    # Of many labels a feature has all where it was seen with more than a sixteenth.
    seen |= (seen.sum(axis=1, keepdims=True) * 16 > k) & (k >= 64)
    every = seen.all(axis=1, keepdims=True)
    G, H = np.zeros((features, total)), np.zeros((features, total))
    Gc, Hc = np.zeros((k + 2, k)), np.zeros((k + 2, k))

    def weight(G: Any, H: Any, t: int) -> Any:
        return -inside * 0.5 * np.sign(G) * np.maximum(np.abs(G) - l1 * t, 0.0) / (0.1 + np.sqrt(H) + 0.5 * l2 * t)

    for r, s in enumerate(order):
        a, b = int(tokens.offsets[s]), int(tokens.offsets[s + 1])
        # Penalties of features with all labels grow once in 64 rounds.
        W, chain = np.where(every, weight(G, H, r - r % 64), weight(G, H, r)), weight(Gc, Hc, r)
        rows = [tokens.indices[tokens.indptr[t] : tokens.indptr[t + 1]] for t in range(a, b)]
        unary = np.array([has @ W[row].sum(axis=0) for row in rows])
        gold = tuple(y[a:b].tolist())
        paths = list(product(range(k), repeat=b - a))
        wrong = [sum(margin[p, g] for p, g in zip(path, gold, strict=True)) for path in paths]
        scores = np.array([path_score(unary, chain, path) + cost * w for path, w in zip(paths, wrong, strict=True)])
        p = np.exp(scores - scores.max())
        p /= p.sum()
        nodes, edges, ends = np.zeros((b - a, k)), np.zeros((k + 2, k)), np.zeros((b - a, k, k))
        for path, q in zip([*paths, gold], [*p, -1.0], strict=True):
            for t, label in enumerate(path):
                nodes[t, label] += q
                if t:
                    ends[t, path[t - 1], label] += q
        edges[k], edges[k + 1] = nodes[0], nodes[-1]
        for t, row in enumerate(rows):
            for j in row:
                G[j] += nodes[t] @ has * seen[j]
                H[j] += (nodes[t] @ has * seen[j]) ** 2
        for t in range(1, b - a):
            Gc[:k] += ends[t]
            Hc[:k] += ends[t] ** 2
        Gc[k:] += edges[k:]
        Hc[k:] += edges[k:] ** 2
        if (r + 1) % len(tokens) == 0:
            inside = 1.0
            norm = np.sqrt(sum((part**2).sum() for part in (weight(G, H, r + 1), weight(Gc, Hc, r + 1))))
            inside = min(1.0, radius / norm)
    n = len(order)
    return weight(G, H, n), weight(Gc, Hc, n)


@pytest.mark.parametrize("k", [3, 64])
@pytest.mark.parametrize(
    ("loss", "l1", "l2"), [("log", 0.0, 0.0), ("log", 0.01, 0.0), ("softmax-margin", 0.01, 0.0), ("log", 0.01, 0.2)]
)
def test_a_pass_is_that_of_enumeration(loss: str, l1: float, l2: float, k: int) -> None:
    features = 90 if k == 3 else 60
    lengths = [3, 1, 2, 4, 2, 3] * 14 if k == 3 else [1, 2, 1] * 23
    tokens = sentences(3, lengths, features, 3)
    y = np.random.default_rng(5).integers(0, k, tokens.total)
    solver = SparseChain(
        tokens, y, k, features=features, l1=l1, loss=loss, skip=2.0, reach=1e6, width=k, epochs=1, random_state=7
    )
    solver.engine.rates = solver.engine.rates._replace(l2=l2, chain_l2=l2)
    sizes = np.diff(solver.engine.table.pairs.starts)
    assert (sizes == k).any()
    assert (sizes < k).any()
    order = np.random.default_rng(7).permutation(len(tokens))
    solver.one_pass()
    found = solver.weights()
    cost = 1.0 if loss == "softmax-margin" else 0.0
    W, chain = naive_round(tokens, y, order, k, features, l1, cost, l2=l2)
    np.testing.assert_allclose(dense(found, features), W, atol=2e-4)
    # Steps whose slope is tiny are left alone, which enumeration does not do: with many labels there are more.
    np.testing.assert_allclose(found.chain, chain, atol=5e-3 if k == 3 else 1e-2)


def test_parts_are_learnt_as_by_enumeration() -> None:
    """Check weights of parts, and the margin: 1, and half of one for each part that only one of two labels has."""
    tokens, k, features = sentences(3, [3, 1, 2, 4, 2, 3] * 10, 60, 3), 3, 60
    y, parts = np.random.default_rng(5).integers(0, k, tokens.total), [[3, 5], [3], [4, 5]]
    solver = SparseChain(
        tokens, y, k, features=features, parts=[[3, 5], [3, -1], [4, 5]], l1=0.01, loss="softmax-margin", cost=0.7,
        skip=2.0, reach=1e6, width=k, epochs=1, random_state=7,
    )  # fmt: skip
    solver.one_pass()
    order = np.random.default_rng(7).permutation(len(tokens))
    found = solver.weights()
    W, chain = naive_round(tokens, y, order, k, features, 0.01, 0.7, parts=parts)
    every = np.zeros_like(W)
    every[np.repeat(np.arange(features), np.diff(found.pairs.starts)), found.pairs.labels] = found.values
    assert np.abs(W[:, 3:]).max() > 0.1
    np.testing.assert_allclose(every, W, atol=2e-4)
    np.testing.assert_allclose(found.chain, chain, atol=5e-3)


def test_parts_that_only_one_label_has() -> None:
    rows = [[5, 6, 7], [5, 7, -1], [6, -1, -1], [5, 6, 7], [8, -1, -1]]
    parts = Parts.of(rows, 5)
    for a, b in product(range(5), repeat=2):
        assert unshared(parts, a, b) == len({*rows[a]} - {-1} ^ ({*rows[b]} - {-1}))


@pytest.mark.parametrize("rows", [[[2, 3]], [[1], [2]], [[3, 2], [2, 3]], [[2, 2], [2, 3]], [[-1], [2]]])
def test_parts_that_are_none_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match="parts"):
        Parts.of(rows, 2)


def test_each_pass_ends_inside_the_ball() -> None:
    tokens, k, features, radius = sentences(3, [3, 1, 2, 4, 2, 3] * 6, 60, 3), 3, 60, 1.5
    y = np.random.default_rng(5).integers(0, k, tokens.total)
    more = {"features": features, "skip": 2.0, "reach": 1e6, "width": k, "epochs": 2, "random_state": 7}
    solver, free = (SparseChain(tokens, y, k, **more, radius=r) for r in (radius, np.inf))
    for _ in range(2):
        solver.one_pass()
        free.one_pass()
    random = np.random.default_rng(7)
    order = np.concatenate([random.permutation(len(tokens)) for _ in range(2)])
    found = solver.weights()
    W, chain = naive_round(tokens, y, order, k, features, 0.0, 0.0, radius)
    np.testing.assert_allclose(dense(found, features), W, atol=2e-4)
    np.testing.assert_allclose(found.chain, chain, atol=5e-3)
    assert np.hypot(np.linalg.norm(found.values), np.linalg.norm(found.chain)) == pytest.approx(radius, rel=1e-5)
    assert np.linalg.norm(free.weights().values) > radius


@pytest.mark.parametrize("k", [3, 60, 64, 200])
def test_pairs_are_those_that_occur(k: int) -> None:
    """Check pairs found as bits (up to 64 labels and parts) and as lists (more); rows of many labels have all."""
    tokens, draw, features = sentences(0, [40, 50], 12, 2), np.random.default_rng(k), 12
    y, one = draw.integers(0, k, 90), k + np.arange(k) % 2
    more = np.stack([one, np.where(np.arange(k) % 3, -1, k + 2)], axis=1)
    for shared in (np.zeros((k, 0), dtype=np.int64), one[:, None], more):
        total = max(k, int(shared.max(initial=-1)) + 1)
        pairs = seen_pairs(tokens, y, features, Parts.of(shared, k))
        for j in range(features):
            at = [t for t in range(90) if j in tokens.indices[2 * t : 2 * t + 2]]
            wanted = sorted({int(y[t]) for t in at} | {int(p) for t in at for p in shared[y[t]] if p >= 0})
            found = pairs.labels[pairs.starts[j] : pairs.starts[j + 1]].tolist()
            many = total >= FEWEST and len(wanted) * SHARE > total
            assert found == (list(range(total)) if many else wanted)


def test_confused_pairs_are_those_of_enumeration() -> None:
    features, k, least = 9, 3, 0.2
    tokens = sentences(3, [3, 1, 2, 4, 2, 3], features, 3)
    y = np.random.default_rng(5).integers(0, k, tokens.total)
    solver = SparseChain(tokens, y, k, features=features, reach=1e6, epochs=1)
    engine = solver.engine
    engine.asked = engine.asked._replace(confused=least)
    engine.add_confused(tokens, y, 0.5, 1.0)
    W, chain = naive_round(tokens, y, range(len(tokens)), k, features, 0.0, 0.0)
    seen, times = np.zeros((features, k), dtype=bool), np.zeros((features, k))
    for a, b in pairwise(tokens.offsets.tolist()):
        rows = [tokens.indices[tokens.indptr[t] : tokens.indptr[t + 1]] for t in range(a, b)]
        unary, paths = np.array([W[row].sum(axis=0) for row in rows]), list(product(range(k), repeat=b - a))
        p = np.exp([path_score(unary, chain, path) for path in paths])
        for t, row in enumerate(rows):
            seen[row, y[a + t]] = True
            for label in range(k):
                wrong = sum(q for path, q in zip(paths, p, strict=True) if path[t] == label) / p.sum()
                times[row, label] += label != y[a + t] and wrong >= least
    expected = seen | (times > 1)
    assert 0 < expected.sum() - seen.sum() < features * k - seen.sum()
    found = np.zeros((features, k), dtype=bool)
    pairs = engine.table.pairs
    found[np.repeat(np.arange(features), np.diff(pairs.starts)), pairs.labels] = True
    np.testing.assert_array_equal(found, expected)
    assert not engine.table.sums.any()
    assert not engine.table.chain_sums.any()


def test_a_pair_as_likely_as_the_bound_is_confused() -> None:
    tokens, k = sentences(3, [2, 1], 4, 2), 2
    solver = SparseChain(tokens, np.zeros(3, dtype=np.int64), k, features=4, epochs=1)
    engine, found = solver.engine, np.full((9, 2), -1, dtype=np.int32)
    # Before the first round both labels of each token are equally likely.
    for least, count in ((0.5, 3), (0.5 + 1e-9, 0)):
        rule = engine._rule(0.0, 2.0)
        assert find_confused(tokens, np.zeros(3, dtype=np.int64), engine.table, rule, 0, least, found) == count
    assert found[:3].tolist() == [[0, 1], [1, 1], [2, 1]]


@pytest.mark.parametrize(("skip", "transitions"), [(0.0, True), (2.0, False)])
def test_steps_are_left_alone_where_nothing_is_learnt(skip: float, transitions: bool) -> None:
    tokens = sentences(3, [3, 1, 2], 9, 3)
    y = np.random.default_rng(5).integers(0, 3, tokens.total)
    solver = SparseChain(tokens, y, 3, features=9, skip=skip, transitions=transitions, epochs=1, random_state=0)
    solver.one_pass()
    table = solver.engine.table
    assert not table.chain_sums.any()
    assert (table.chain_rates == np.float32(solver.engine.rates.delta)).all()
    # A right label of probability zero or less is one that no token has.
    assert table.sums.any() == (skip > 0.0)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_confused_labels_are_candidates(width: int) -> None:
    tokens, k, gold = sentences(3, [2, 1], 4, 2), 5, np.array([0, 4, 3])
    solver = SparseChain(tokens, gold, k, features=4, epochs=1, width=width)
    found = np.full((15, 2), -1, dtype=np.int32)
    # Before the first round the lowest labels are the candidates, and the right one beside them.
    count = find_confused(tokens, gold, solver.engine.table, solver.engine._rule(0.0, 2.0), 0, 0.1, found)
    expected = [[t, y] for t in range(3) for y in range(width) if y != gold[t]]
    assert found[:count].tolist() == expected
    # As many as there is room for.
    assert find_confused(tokens, gold, solver.engine.table, solver.engine._rule(0.0, 2.0), 0, 0.1, found[:1]) == 1


def test_same_seed_same_bits_and_learns() -> None:
    tokens = sentences(1, [4] * 50, 30, 3)
    y = np.random.default_rng(2).integers(0, 30, 30)[tokens.indices[::3]]
    runs = []
    for _ in range(2):
        solver = SparseChain(tokens, y, 30, features=30, epochs=8, random_state=4)
        losses = [epoch.loss for epoch in solver.passes()]
        runs.append(solver.weights())
    np.testing.assert_array_equal(runs[0].values, runs[1].values)
    assert losses[-1] < 0.3 * losses[0]
    assert (runs[0].tag(tokens) == y).mean() > 0.95


def test_what_is_learnt_is_the_mean_of_the_last_passes() -> None:
    tokens = sentences(1, [4] * 20, 30, 3)
    y = np.random.default_rng(2).integers(0, 9, 30)[tokens.indices[::3]]
    common = {"features": 30, "l1": 0.01, "epochs": 4, "random_state": 4}
    solver, states = SparseChain(tokens, y, 9, **common), []
    for _ in solver.passes():
        weights = solver.weights()
        states.append((dense(weights, 30), weights.chain))
    for last in (1, 3):
        found = SparseChain(tokens, y, 9, **common).learnt(last)
        for own, parts in zip((dense(found, 30), found.chain), zip(*states[-last:], strict=True), strict=True):
            np.testing.assert_allclose(own, np.mean(parts, axis=0), atol=1e-6)
        assert found.values.all()
    assert not np.allclose(states[-1][0], states[-2][0])


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(Unsupported, match="unknown loss 'hinge' for many labels"):
        SparseChain(sentences(0, [2], 3, 1), [0, 1], 2, features=3, loss="hinge")


def test_weighed_labels_have_a_weight_with_every_feature() -> None:
    # Feature 1 is seen with label 1 alone, feature 0 with all three.
    rows = SimpleNamespace(indptr=[0, 1, 2, 4, 5], indices=[0, 0, 0, 1, 0], values=[], offsets=[0, 2, 4])
    y, tokens = [0, 2, 1, 0], as_tokens(rows)
    found = []
    for weighed in ((), (2, 0, 0)):
        solver = SparseChain(tokens, y, 3, features=2, weighed=weighed, epochs=4, random_state=0)
        for _ in solver.passes():
            pass
        pairs = solver.engine.table.pairs
        found.append((pairs.labels[pairs.starts[1] : pairs.starts[2]].tolist(), dense(solver.weights(), 2)[1]))
    assert found[0][0] == [1]
    assert found[1][0] == [0, 1, 2]
    assert found[0][1][0] == 0.0
    assert found[1][1][0] < 0.0 < found[1][1][1]
