"""The compiled loops of Frank-Wolfe and of machines for pairs of classes, visit by visit, against plain Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from spom.solvers.mkl.errors import errors_of, wrong_tokens
from spom.solvers.mkl.frank_wolfe.passes import (
    Dual,
    Numbers,
    Sequences,
    Visit,
    find_gaps,
    forget,
    hinge_on_ray,
    sweep_double,
    total_cost,
    work_of,
)
from spom.solvers.mkl.frank_wolfe.pool import Pool
from spom.solvers.mkl.pairs import Pair, ascend, best_of_two, pair_machines
from spom.solvers.mkl.wrapper import find_margin


class TieError(Exception):
    """Two outputs score the same: rounding decides which one is taken."""


def the_one(scores: list[float], sign: float) -> int:
    """Return the index of the largest (sign 1) or least score (-1); raise an error if another one is near."""
    order = sorted(range(len(scores)), key=lambda j: -sign * scores[j])
    if len(order) > 1 and abs(scores[order[0]] - scores[order[1]]) < 1e-9:
        raise TieError
    return order[0]


class Sweeps:
    """Outputs of each sequence as [labels, weight, age]; everything else is computed from them whenever it is asked."""

    def __init__(self, seed: int, pair: float) -> None:
        draw = np.random.default_rng(seed)
        lengths = draw.permutation([1, 2, 3, 4, 0, 2, 3])
        self.k, self.pair, self.cost, self.scale = 3, pair, 0.8, 1.7
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        n = int(self.offsets[-1])
        X = draw.normal(size=(n, 4))
        self.K = X @ X.T / 3.0
        self.gold = draw.integers(0, self.k, n)
        self.weight = draw.choice([0.05, 0.3, 1.0], lengths.size)
        self.weight[int(np.flatnonzero(lengths == 1)[0])] = 0.0
        self.pool: list[list[list[Any]]] = [[] for _ in lengths]
        for i, size in enumerate(lengths.tolist()):
            if size and self.weight[i]:
                every = list(itertools.product(range(self.k), repeat=size))
                some = draw.choice(len(every), min(len(every) - 1, int(draw.integers(1, 5))), replace=False)
                shares = draw.random(some.size) * (draw.random(some.size) < 0.7) + 1e-3 * (np.arange(some.size) == 0)
                ages = draw.integers(0, 3, some.size).tolist()
                weights = (self.weight[i] * shares / shares.sum()).tolist()
                self.pool[i] = [[every[j], w, age] for j, w, age in zip(some, weights, ages, strict=True)]
        self.tally = [0, 0, 0]

    def features(self, labels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        at, steps = np.zeros((self.k, len(labels))), np.zeros((self.k, self.k))
        for t, y in enumerate(labels):
            at[y, t] = 1.0
            if t:
                steps[labels[t - 1], y] += 1.0
        return at, steps

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A and V: the right features minus those of the outputs, weighted."""
        A, V = np.zeros((self.k, self.gold.size)), np.zeros((self.k, self.k))
        for i, (a, b) in enumerate(itertools.pairwise(self.offsets.tolist())):
            right = self.features(tuple(self.gold[a:b].tolist()))
            for labels, w, _ in self.pool[i]:
                own = self.features(labels)
                A[:, a:b] += w * (right[0] - own[0])
                V += w * (right[1] - own[1])
        return A, V

    def scores(self, i: int, outputs: Any, factor: float = 1.0, cost: float | None = None) -> list[float]:
        a, b = self.offsets[i : i + 2]
        A, V = self.dual()
        F, right, found = self.scale * A @ self.K[:, a:b], self.gold[a:b], []
        for labels in outputs:
            own = sum(F[y, t] for t, y in enumerate(labels))
            own += self.pair * sum(V[x, y] for x, y in itertools.pairwise(labels))
            wrong = sum(x != y for x, y in zip(labels, right, strict=True))
            found.append(float(factor * own + (self.cost if cost is None else cost) * wrong))
        return found

    def best(self, i: int, factor: float = 1.0) -> tuple[float, tuple[int, ...]]:
        every = list(itertools.product(range(self.k), repeat=int(self.offsets[i + 1] - self.offsets[i])))
        scores = self.scores(i, every, factor)
        top = the_one(scores, 1.0)
        return scores[top], every[top]

    def curve(self, i: int, one: Any, other: Any) -> float:
        a, b = self.offsets[i : i + 2]
        (x, s), (z, r) = self.features(one), self.features(other)
        return float(self.scale * ((x - z) @ self.K[a:b, a:b] * (x - z)).sum() + self.pair * ((s - r) ** 2).sum())

    def visit(self, i: int) -> None:
        pool, before, start = self.pool[i], 0.0, self.dual()[0]
        for turn in range(3):
            labels = self.best(i)[1]
            known = [o for o in pool if o[0] == labels] or [[labels, 0.0, 0]]
            known[0][2] = 0
            if known[0] not in pool:
                pool.append(known[0])
            self.tally[0] += 1
            first = 0.0
            for step in range(20):
                scores = self.scores(i, [o[0] for o in pool])
                there = [j for j, o in enumerate(pool) if o[1] > 0]
                top, low = max(scores), min(scores[j] for j in there)
                gap = sum(o[1] * (top - s) for o, s in zip(pool, scores, strict=True))
                if step == 0:
                    first = gap
                    if turn and gap <= 0.3 * before:
                        break
                    before = before if turn else gap
                if top - low <= 1e-12 or (step and gap <= 0.1 * first):
                    break
                best, worst = the_one(scores, 1.0), there[the_one([scores[j] for j in there], -1.0)]
                curve, g = self.curve(i, pool[best][0], pool[worst][0]), pool[worst][1]
                if curve * g > top - low:
                    g = (top - low) / curve
                    pool[worst][1] -= g
                else:
                    pool[worst][1] = 0.0
                pool[best][1] += g
                pool[best][2] = 0
                self.tally[1] += 1
            if turn and first <= 0.3 * before:
                break
        self.tally[2] += int((np.abs(self.dual()[0] - start) > 1e-13).sum())


def arrays_of(naive: Sweeps) -> tuple[Dual, Pool]:
    """Return the same state in the arrays of the compiled loops."""
    pool, every = Pool(naive.offsets, naive.gold, naive.weight), [o for own in naive.pool for o in own]
    packed = {
        "outputs": np.array([y for o in every for y in o[0]]),
        "weights": np.array([o[1] for o in every]),
        "ages": np.array([o[2] for o in every]),
        "counts": np.array([len(own) for own in naive.pool]),
    }
    pool.restore(packed)
    A, V = naive.dual()
    return Dual(A, naive.scale * A @ naive.K, V if naive.pair else 0.0 * V, naive.pair * V), pool


def check_dual(naive: Sweeps, dual: Dual, pool: Pool) -> None:
    """Check that A, V and the scores are those of the pool's outputs, and that sequences keep their weights."""
    packed, at, place = pool.packed(), 0, 0
    for i, count in enumerate(packed["counts"].tolist()):
        n, own = int(naive.offsets[i + 1] - naive.offsets[i]), []
        for _ in range(count):
            own.append([tuple(packed["outputs"][place : place + n].tolist()), float(packed["weights"][at]), 0])
            at, place = at + 1, place + n
        assert len({o[0] for o in own}) == count
        assert sum(o[1] for o in own) == pytest.approx(sum(o[1] for o in naive.pool[i]))
        naive.pool[i] = own
    assert packed["weights"].min() >= 0.0
    A, V = naive.dual()
    V *= naive.pair > 0.0
    for found, expected in zip(dual, (A, naive.scale * A @ naive.K, V, naive.pair * V), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("pair", [0.0, 0.6])
def test_visits_are_those_of_plain_python(pair: float) -> None:
    compared = longest = 0
    for seed in range(24):
        naive = Sweeps(seed, pair)
        sequences = Sequences(naive.offsets, naive.gold, naive.weight)
        dual, pool = arrays_of(naive)
        if seed < 3:
            check_sums(naive, sequences, dual, pool)
        work, i = work_of(4, naive.k), int(np.random.default_rng(seed).choice(np.flatnonzero(pool.counts)))
        numbers = Numbers(naive.scale, pair, naive.cost)
        sweep_double(np.array([i]), sequences, naive.K, numbers, dual, pool.outputs(), work)
        assert not work.change.any()
        try:
            naive.visit(i)
        except TieError:
            pass
        else:
            compared, longest = compared + 1, max(longest, naive.tally[1])
            check_pool(naive, pool)
            assert work.tally.tolist() == naive.tally
            for limit in (2, 0):
                forget(naive.offsets, pool.outputs(), limit)
                for own in naive.pool:
                    own[:] = [[y, w, age + 1] for y, w, age in own if w > 0 or age < limit]
                check_pool(naive, pool)
        check_dual(naive, dual, pool)
    assert compared > 8
    assert longest > 2


def check_pool(naive: Sweeps, pool: Pool) -> None:
    packed = pool.packed()
    every = [o for own in naive.pool for o in own]
    assert packed["counts"].tolist() == [len(own) for own in naive.pool]
    assert packed["outputs"].tolist() == [y for o in every for y in o[0]]
    np.testing.assert_allclose(packed["weights"], [o[1] for o in every], atol=1e-11)
    assert ((packed["weights"] == 0.0) == [o[1] == 0.0 for o in every]).all()
    assert packed["ages"].tolist() == [o[2] for o in every]


def check_sums(naive: Sweeps, sequences: Sequences, dual: Dual, pool: Pool) -> None:
    """Check gaps, the cost of the dual, and the hinge loss on the ray through the scores."""
    gaps, cost = np.zeros(len(naive.pool)), 0.0
    for i, own in enumerate(naive.pool):
        top = naive.best(i)[0] if own else 0.0
        for (labels, w, _), score in zip(own, naive.scores(i, [o[0] for o in own]), strict=True):
            gaps[i] += w * (top - score)
            right = naive.gold[naive.offsets[i] : naive.offsets[i + 1]]
            cost += w * sum(x != y for x, y in zip(labels, right, strict=True))
    found = np.full(gaps.size, 9.0)
    find_gaps(sequences, naive.cost, dual, pool.outputs(), found)
    np.testing.assert_allclose(found, gaps, atol=1e-9)
    assert total_cost(sequences, pool.outputs()) == pytest.approx(cost)
    for factor in (0.5, 1.0, 2.5):
        loss = slope = 0.0
        for i in np.flatnonzero(np.diff(naive.offsets)):
            right = tuple(naive.gold[naive.offsets[i] : naive.offsets[i + 1]].tolist())
            top, labels = naive.best(i, factor)
            loss += naive.weight[i] * (top - naive.scores(i, [right], factor)[0])
            mine, theirs = naive.scores(i, [labels, right], cost=0.0)
            slope += naive.weight[i] * (mine - theirs)
        np.testing.assert_allclose(
            hinge_on_ray(sequences, naive.cost, dual.F, dual.T, factor), (loss, slope), atol=1e-9
        )


def test_a_margin_is_the_score_of_the_gold_labels_less_that_of_others() -> None:
    draw = np.random.default_rng(0)
    unary, steps, cost = draw.normal(size=(4, 3)), draw.normal(size=(3, 3)), 0.4
    gold = np.array([0, 2, 1, 1])
    for labels in [(0, 2, 1, 1), (0, 2, 2, 1), (1, 0, 0, 0), (0, 2, 1, 0), (2, 2, 1, 1)]:
        both = np.zeros(8, dtype=np.int32)
        visit = Visit(np.zeros((4, 4)), unary, np.zeros((4, 3)), np.array(labels), 1.0)
        wrong = sum(x != y for x, y in zip(labels, gold, strict=True))
        expected = cost * wrong
        for sign, path in ((1, gold.tolist()), (-1, labels)):
            expected += sign * sum(unary[t, y] for t, y in enumerate(path))
            expected += sign * sum(steps[a, b] for a, b in itertools.pairwise(path))
        found = find_margin(visit, gold, steps, cost, both)
        assert found[0] == wrong
        assert found[1] == pytest.approx(expected if wrong else 0.0, abs=1e-12)
        assert both.tolist() == [*gold.tolist(), *labels] or not wrong


def naive_machine(gram: np.ndarray, sign: Any, most: Any) -> Any:
    """Return the best alpha of a machine: one alpha after another until none of them moves."""
    alpha = np.zeros(sign.size)
    for _ in range(20_000):
        moved = 0.0
        for i in range(sign.size):
            slope = 1.0 - sign[i] * (gram[i] @ (sign * alpha))
            new = min(max(alpha[i] + slope / max(gram[i, i], 1e-12), 0.0), most[i])
            moved, alpha[i] = max(moved, abs(new - alpha[i])), new
        if moved < 1e-12:
            break
    return alpha


def two_rows(draw: Any, flat: bool) -> tuple[Pair, np.ndarray]:
    """Return a pair of two rows with random bounds and alpha, and its Gram matrix; equal rows if flat."""
    X = draw.normal(size=(2, 1 if flat else 3))
    gram = np.ascontiguousarray(X @ X.T)
    sign, bound = draw.choice([-1.0, 1.0], 2), draw.choice([0.3, 5.0], 2)
    alpha = draw.random(2) * 2.0 * bound
    return Pair(sign, bound, alpha, gram @ (sign * alpha) + draw.normal(size=2)), gram


@pytest.mark.parametrize("flat", [False, True])
def test_two_alphas_take_their_best_values_in_the_bounds(flat: bool) -> None:
    draw = np.random.default_rng(6)
    for _ in range(60):
        pair, gram = two_rows(draw, flat)
        step = np.array(best_of_two(pair, gram, 0, 1, 2.0))
        assert (pair.alpha + step >= -1e-12).all()
        assert (pair.alpha + step <= 2.0 * pair.bound + 1e-12).all()
        slope, Q = 1.0 - pair.sign * pair.f, gram * np.outer(pair.sign, pair.sign)

        def loss(x: Any, slope: Any = slope, Q: Any = Q) -> float:
            return float(0.5 * x @ Q @ x - slope @ x)

        box = [(-float(a), float(2.0 * b - a)) for a, b in zip(pair.alpha, pair.bound, strict=True)]
        rival = min(minimize(loss, start, bounds=box, tol=1e-14).fun for start in itertools.product(*box))
        assert loss(step) <= rival + 1e-9


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("tol", [1e-8, 0.05, 0.4])
def test_dual_ascent_ends_where_no_margin_is_off(n: int, tol: float) -> None:
    draw = np.random.default_rng(n)
    X = draw.normal(size=(n, 3))
    X[n // 2] = 0.0
    gram = X @ X.T + 0.3
    sign, bound = draw.choice([-1.0, 1.0], n), draw.choice([0.0, 0.2, 3.0], n, p=[0.2, 0.4, 0.4])
    cost, room = 0.7, n + 2
    full = np.zeros((room, room))
    full[:n, :n] = gram
    pair = Pair(*(np.full(room, 9.0) for _ in range(4)))
    pair.sign[:n], pair.bound[:n], pair.alpha[:n] = sign, bound, np.minimum(draw.random(n), cost * bound)
    pair.f[:n] = gram @ (sign * pair.alpha[:n])
    ascend(full, pair, n, cost, tol)
    alpha, best = pair.alpha[:n], naive_machine(gram, sign, cost * bound)
    assert (alpha >= 0.0).all()
    assert (alpha <= cost * bound).all()
    np.testing.assert_allclose(pair.f[:n], gram @ (sign * alpha), atol=1e-9)
    slope = 1.0 - sign * pair.f[:n]
    assert (slope[alpha < cost * bound] <= tol).all()
    assert (slope[alpha > 0.0] >= -tol).all()
    if tol < 1e-6:
        np.testing.assert_allclose(pair.f[:n], gram @ (sign * best), atol=1e-5)
    assert (pair.alpha[n:] == 9.0).all()


def test_dual_ascent_leaves_what_is_within_the_tolerance() -> None:
    gram = np.array([[2.0, 0.5], [0.5, 1.0]])
    pair = Pair(np.array([1.0, -1.0]), np.ones(2), np.array([0.1, 0.2]), np.array([0.1, -0.15]))
    ascend(gram, pair, 2, 1.0, 0.95)
    assert pair.alpha.tolist() == [0.1, 0.2]
    ascend(gram, pair, 2, 1.0, 0.88)
    assert pair.alpha.tolist() != [0.1, 0.2]


def test_all_pairs_are_machines_of_their_own_rows() -> None:
    draw = np.random.default_rng(4)
    y = draw.permutation([0] * 3 + [1] * 5 + [2] * 4)
    X, weight, costs = draw.normal(size=(y.size, 20)), draw.choice([0.5, 1.0, 2.0], y.size), [0.01, 0.08, 5.0]
    K = X @ X.T
    expected = np.zeros((3, y.size, 3))
    for a, b in itertools.combinations(range(3), 2):
        rows = np.concatenate([np.flatnonzero(y == a), np.flatnonzero(y == b)])
        sign = np.where(y[rows] == a, 1.0, -1.0)
        for c, cost in enumerate(costs):
            alpha = naive_machine(K[np.ix_(rows, rows)] + 1.0, sign, cost * weight[rows])
            expected[c, rows, np.where(y[rows] == a, b, a)] = alpha
    np.testing.assert_allclose(pair_machines(K, y, weight, costs, 1e-9), expected, atol=1e-7)


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_tokens_are_wrong_where_a_label_is_off_by_more_than_the_tolerance(tolerance: float) -> None:
    D = np.array([
        [0.5, -0.5, 0.0], [0.0, 0.0, 0.0], [0.05, -0.04, -0.01], [0.1, -0.0995, -0.0005], [0.3, -0.2991, -0.0009],
        [-0.4, 0.399, 0.001], [0.0, 0.2, -0.2], [9.0, -9.0, 0.0],
    ])  # fmt: skip
    errors = errors_of(D.shape[0], 3)
    errors.D[:] = D
    n = D.shape[0] - 1
    count = wrong_tokens(n, tolerance, errors)
    expected = D[:n].copy()
    expected[np.abs(expected) <= 0.01 * tolerance] = 0.0
    expected[np.abs(expected).max(axis=1) <= tolerance] = 0.0
    np.testing.assert_array_equal(errors.D, [*expected, D[-1]])
    wrong = np.flatnonzero(expected.any(axis=1))
    assert errors.tokens[:count].tolist() == wrong.tolist()
    for place, t in enumerate(wrong):
        found = errors.labels[place, : errors.several[place]].tolist()
        assert found == np.flatnonzero(expected[t]).tolist()
