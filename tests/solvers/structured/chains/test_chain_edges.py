"""Ties, counts of updates and pairs without curvature: what whole runs on random problems seldom meet."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from spom.solvers.structured.chains.batch.curvature import Curvature
from spom.solvers.structured.chains.batch.orthant import Memory, Orthant, remove_pair
from spom.solvers.structured.chains.data import as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs
from spom.solvers.structured.chains.sparse.parts import Parts
from spom.solvers.structured.chains.sparse.solver import SparseChain
from tests.solvers.structured.chains.test_curvature import marginals_by_enumeration
from tests.solvers.structured.chains.test_sparse_chain import dense, naive_round, path_score, random_weights, sentences


def test_of_equal_paths_the_one_with_the_lower_label_wins() -> None:
    """Whole numbers tie often; of equals the lower label wins at the last token where they differ."""
    assert sum(map(tied, range(30))) > 40


def tied(seed: int) -> int:
    """Check the paths found for three sentences, and return how many of these have several best paths."""
    draw, features, k = np.random.default_rng(seed), 6, 4
    weights = random_weights(seed, features, k, Parts.of(None, k), 1.0)
    pairs = weights.pairs
    chain = draw.integers(-1, 2, (k + 2, k)).astype(np.float32)
    weights = SparseWeights(pairs, draw.integers(-1, 2, pairs.labels.size).astype(np.float32), chain)
    tokens = sentences(seed, [1, 3, 4], features, 2)
    found, W = weights.tag(tokens), dense(weights, features)
    ties = 0
    for a, b in ((0, 1), (1, 4), (4, 8)):
        unary = W[tokens.indices[tokens.indptr[a] : tokens.indptr[b]].reshape(b - a, -1)].sum(axis=1)
        scores = {path: path_score(unary, chain, path) for path in product(range(k), repeat=b - a)}
        best = [path for path, score in scores.items() if score > max(scores.values()) - 0.5]
        ties += len(best) > 1
        assert tuple(found[a:b].tolist()) == min(best, key=lambda path: path[::-1])
    return ties


def test_of_labels_that_are_all_equal_the_first_wins() -> None:
    k = 130
    empty = Pairs(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), Parts.of(None, k))
    weights = SparseWeights(empty, np.zeros(0, dtype=np.float32), np.zeros((k + 2, k), dtype=np.float32))
    assert weights.tag(sentences(0, [3, 1], 1, 1)).tolist() == [0, 0, 0, 0]


def test_a_pass_counts_its_updates_and_its_losses() -> None:
    """Check the share of tokens with an update and the mean loss of a pass, with an empty sentence."""
    tokens, k, features = sentences(3, [3, 1, 0, 2, 4, 2], 9, 3), 3, 9
    y = np.random.default_rng(5).integers(0, k, tokens.total)
    common = {"features": features, "reach": 1e6, "width": k, "epochs": 9, "random_state": 7}
    first = SparseChain(tokens, y, k, **common, skip=2.0).one_pass()
    assert first.touched == 1.0
    order = [s for s in np.random.default_rng(7).permutation(len(tokens)).tolist() if s != 2]
    total, W, chain = 0.0, np.zeros((features, k)), np.zeros((k + 2, k))
    for done, s in enumerate(order, 1):
        a, b = tokens.offsets[s : s + 2].tolist()
        unary = W[tokens.indices[tokens.indptr[a] : tokens.indptr[b]].reshape(b - a, -1)].sum(axis=1)
        scores = [path_score(unary, chain, path) for path in product(range(k), repeat=b - a)]
        total += float(np.log(np.exp(scores).sum())) - path_score(unary, chain, tuple(y[a:b].tolist()))
        W, chain = naive_round(tokens, y, order[:done], k, features, 0.0, 0.0)
    assert first.loss == pytest.approx(total / len(tokens), rel=1e-3)
    # Tokens whose gold label is surer than `skip` change nothing; with time there are more of them.
    shares = [epoch.touched for epoch in SparseChain(tokens, y, k, **common, skip=0.5).passes()]
    assert shares[-1] < shares[0] <= 1.0


def test_pairs_with_next_to_no_curvature_are_left_out() -> None:
    """Check that a pair counts if s y > 1e-10 norm(s) norm(y) in the free weights, whatever their sizes."""
    free = np.array([True, True, False, True])
    for size_s, size_y in ((1e6, 1.0), (1.0, 1e6), (1e-6, 1.0), (1e-7, 1e-7)):
        for share, kept in ((1e-11, False), (1e-9, True), (-0.5, False), (0.3, True)):
            s = np.array([1.0, 0.0, 3.0, 0.0]) * size_s
            y = np.array([share, np.sqrt(1.0 - share**2), 5.0, 0.0]) * size_y
            r = np.array([1.0, 2.0, 0.0, 4.0])
            after = r.copy()
            sy, a = remove_pair(s, y, free, after)
            if kept:
                assert sy == pytest.approx(share * size_s * size_y)
                assert a == pytest.approx(size_s / sy)
                np.testing.assert_allclose(after, r - a * np.where(free, y, 0.0))
            else:
                assert (sy, a) == (0.0, 0.0)
                np.testing.assert_array_equal(after, r)
    memory = Memory(lambda r: 0.5 * r)
    of = Orthant(np.ones(3, dtype=bool), np.zeros(3), np.array([1.0, -2.0, 3.0]))
    plain = memory.direction(of)
    memory.pairs.append((np.array([1e6, 0.0, 0.0]), np.array([1e-11, 1.0, 0.0])))
    np.testing.assert_array_equal(memory.direction(of), plain)


@pytest.mark.parametrize("values", [False, True])
def test_the_diagonal_of_the_curvature_is_that_of_single_tokens_and_steps(values: bool) -> None:
    """sum x^2 p (1 - p), p the probability of a label at a token or of a step, by the list of all sequences."""
    rng, n, k, p = np.random.default_rng(3), 9, 3, 5
    x = rng.normal(size=2 * n) if values else []
    offsets = [0, 5, 5, 6, n]
    rows = SimpleNamespace(
        indptr=np.arange(0, 2 * n + 1, 2), indices=rng.integers(0, p, 2 * n), values=x, offsets=offsets
    )
    tokens = as_tokens(rows, p)
    W, chain = rng.normal(size=(p, k)), rng.normal(size=(k + 2, k))
    on, steps = rng.random((p, k)) < 0.8, rng.random((k + 2, k)) < 0.9
    table, of_chain = np.zeros((p, k)), np.zeros((k + 2, k))
    entries = [range(a, b) for a, b in pairwise(tokens.indptr.tolist())]
    for i, (X, paths, q) in enumerate(marginals_by_enumeration(tokens, W, chain, values)):
        size = X.shape[0]
        for t in range(size):
            at = np.array([sum(s for path, s in zip(paths, q, strict=True) if path[t] == a) for a in range(k)])
            for e in entries[offsets[i] + t]:
                table[tokens.indices[e]] += at * (1.0 - at) * (tokens.values[e] ** 2 if values else 1.0)
            of_chain[k] += at * (1.0 - at) * (t == 0)
            of_chain[k + 1] += at * (1.0 - at) * (t == size - 1)
            for a, b in product(range(k), repeat=2) if t else ():
                both = sum(s for path, s in zip(paths, q, strict=True) if path[t - 1 : t + 1] == (a, b))
                of_chain[a, b] += both * (1.0 - both)
    found = Curvature(tokens, (W, chain), on, steps).diagonal()
    np.testing.assert_allclose(found, np.concatenate([table[on], of_chain[steps]]), atol=1e-5)
