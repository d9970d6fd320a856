"""The duality gap of random fields: against the list of all sequences, and against the optimum."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from spom import SequenceTagger
from spom.penalties import (
    L1,
    ElasticNet,
    ElasticNetMKL,
    GroupLasso,
    LqMKL,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    Sum,
    Zero,
)
from spom.solvers.structured.chains.batch import BatchChain
from spom.solvers.structured.chains.data import as_tokens, padded
from spom.solvers.structured.chains.field import Field
from spom.solvers.structured.chains.gap import field_gap, has_bound
from spom.solvers.structured.gap import Part, certify
from tests.solvers.structured.chains.naive_chains import dense, loss_and_gradient, parts, problem


def listed(p: Any, theta: np.ndarray, s: float) -> tuple[float, float, np.ndarray]:
    """(mean loss, mean entropy of q, g(q)) with q = (1 - s) gold + s p written out over all sequences."""
    n, loss, entropy, g = len(p.rows.offsets) - 1, 0.0, 0.0, np.zeros_like(theta)
    for i in range(n):
        a, b = p.rows.offsets[i : i + 2]
        if b == a:
            continue
        X, y = dense(p, i), tuple(p.y[a:b].tolist())
        paths = list(itertools.product(range(p.k), repeat=len(y)))
        phi = np.array([parts(path, X, p.k) for path in paths])
        scores = phi @ theta
        q = np.exp(scores - scores.max())
        q = s * q / q.sum()
        q[paths.index(y)] += 1.0 - s
        loss += loss_and_gradient("log", theta, X, y, p.k, 0.0)[0] / n
        entropy -= float((q[q > 0] * np.log(q[q > 0])).sum()) / n
        g += (q @ phi - parts(y, X, p.k)) / n
    return loss, entropy, g


def ours(p: Any, theta: np.ndarray, penalty: Any, chain_penalty: Any) -> Any:
    size = p.features * p.k
    W, chain = theta[:size].reshape(p.features, p.k), theta[size:].reshape(p.k + 2, p.k).copy()
    tokens = as_tokens(p.rows, p.features)
    found, n = Field(tokens, p.y, np.zeros_like(chain)).at(W, chain), len(tokens)
    parts = [Part(W, found.gradient / n, penalty.elastic())]
    parts.append(Part(chain, found.chain_gradient / n, chain_penalty.elastic()))
    return certify(found.losses, found.entropies, parts)


@pytest.mark.parametrize("values", [False, True])
def test_l1_with_a_squared_chain_is_the_written_out_dual(values: bool) -> None:
    p, l1, l2 = problem(41, values=values), 0.05, 0.3
    size = p.features * p.k
    theta = np.float32(0.5 * np.random.default_rng(0).standard_normal(size + (p.k + 2) * p.k)).astype(np.float64)
    loss, _, g = listed(p, theta, 1.0)
    s = min(1.0, l1 / np.abs(g[:size]).max())
    assert s < 1.0
    _, entropy, g = listed(p, theta, s)
    found = ours(p, theta, L1(l1), SquaredL2(l2))
    primal = loss + l1 * np.abs(theta[:size]).sum() + l2 / 2 * theta[size:] @ theta[size:]
    assert found.primal == pytest.approx(primal, rel=1e-5)
    assert found.dual == pytest.approx(entropy - g[size:] @ g[size:] / (2 * l2), rel=1e-5, abs=1e-6)


def test_the_gap_bounds_the_distance_and_closes_at_the_optimum() -> None:
    p, l1, l2 = problem(42), 0.02, 0.1
    size = p.features * p.k + (p.k + 2) * p.k

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss, _, g = listed(p, theta, 1.0)
        return loss + l2 / 2 * theta @ theta, g + l2 * theta

    best = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
    for share in (0.0, 0.5, 1.0):
        theta = np.float32(share * best.x).astype(np.float64)
        found = ours(p, theta, SquaredL2(l2), SquaredL2(l2))
        assert found.dual <= best.fun + 1e-6
        assert found.gap >= objective(theta)[0] - best.fun - 1e-6
    assert found.gap < 1e-5
    mixed = ours(p, theta, ElasticNet(l1 + l2, l1_ratio=l1 / (l1 + l2)), L1(l1))
    assert mixed.gap > 0.0


def test_a_part_without_a_penalty_has_a_bound_of_zero() -> None:
    p = problem(43)
    found = ours(p, np.zeros(p.features * p.k + (p.k + 2) * p.k), L1(0.1), Zero())
    assert found.primal > 0.1
    assert found.dual == 0.0


BLOCKS = [
    (GroupLasso(0.05), "learnt"),
    (SparseMKL(0.2), "learnt"),
    (SparseMKL(0.2), "fixed"),
    (LqMKL(0.2, q=1.5), "learnt"),
    (ElasticNetMKL(0.2), "learnt"),
    (ElasticNet(0.1, l1_ratio=0.5), "fixed"),
    (L1(0.05), "learnt"),
    (GroupLasso(0.05), None),
    (Sum([GroupLasso(0.04), L1(0.03)]), None),
    (SparseGroupLasso(0.06), None),
    (SparseGroupLasso(0.06), "learnt"),
    (Sum([GroupLasso(0.04), L1(0.03)]), "learnt"),
]


def omega(penalty: Any, transitions: Any, W: np.ndarray, chain: np.ndarray, starts: Any) -> float:
    """Compute the penalty of a chain from its definition."""
    blocks = [W[a:b].ravel() for a, b in itertools.pairwise(starts)]
    if transitions == "learnt":
        blocks.append(chain.ravel())
    norms = np.array([np.sqrt(b @ b) for b in blocks])
    every = np.concatenate(blocks)
    extra = 0.0 if transitions != "fixed" else chain.ravel() @ chain.ravel() / 2
    match penalty:
        case GroupLasso():
            return penalty.strength * norms.sum()
        case SparseMKL():
            return penalty.strength * (norms.sum() ** 2 / 2 + extra)
        case LqMKL():
            return penalty.strength * (norms**penalty.q).sum()
        case ElasticNetMKL():
            return penalty.strength * (norms.sum() ** 2 + norms @ norms) / 4
        case SparseGroupLasso():
            return penalty.strength * (norms.sum() + np.abs(every).sum()) / 2
        case ElasticNet():
            return 0.05 * np.abs(every).sum() + 0.025 * every @ every + 0.05 * extra
        case Sum():
            return 0.04 * norms.sum() + 0.03 * np.abs(every).sum()
    return penalty.strength * np.abs(every).sum()


@pytest.mark.parametrize(("penalty", "transitions"), BLOCKS)
def test_no_point_is_below_the_bound_of_another_and_the_gap_closes(penalty: Any, transitions: Any) -> None:
    p = problem(44)
    size, rng = p.features * p.k, np.random.default_rng(3)
    tokens, starts = as_tokens(p.rows, p.features), np.asarray(p.blocks.starts)

    def primal(W: np.ndarray, chain: np.ndarray) -> float:
        theta = np.concatenate([W.ravel(), chain.ravel()])
        return listed(p, theta, 1.0)[0] + omega(penalty, transitions, W, chain, starts)

    def gap_at(W: np.ndarray, chain: np.ndarray) -> Any:
        table = np.zeros((p.features, padded(p.k)), dtype=np.float32)
        table[:, : p.k] = W
        found = Field(tokens, p.y, np.zeros_like(chain)).at(table, chain)
        return field_gap(found, (table[:, : p.k].astype(np.float64), chain), starts, penalty, transitions)

    solver = BatchChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=penalty, transitions=transitions)
    for state in itertools.islice(solver, 40):
        if state.internal["gap"] < 1e-6:
            break
    assert state.internal["gap"] < 2e-5
    best = primal(solver.W, solver.chain)
    assert state.objective == pytest.approx(best, abs=1e-6)
    for spread in (0.0, 0.1, 1.0):
        W = np.float32(solver.W + spread * rng.standard_normal(solver.W.shape)).astype(np.float64)
        chain = solver.chain + spread * rng.standard_normal(solver.chain.shape) * (transitions is not None)
        found = gap_at(W, chain)
        assert found.primal == pytest.approx(primal(W, chain), rel=1e-5)
        # No point is below the bound of any other.
        assert found.dual <= best + 1e-6
        assert found.dual < found.primal + 1e-8
    assert size == solver.W.size
    assert best <= primal(np.zeros_like(solver.W), np.zeros_like(solver.chain))


def test_a_chain_without_a_penalty_has_no_bound() -> None:
    assert not has_bound(L1(0.1), 3, "fixed")
    assert not has_bound(GroupLasso(0.1), 3, "fixed")
    assert has_bound(SparseMKL(0.1), 3, "fixed")
    assert has_bound(L1(0.1), 3, None)
    p = problem(44)
    W = np.zeros((p.features, padded(p.k)), dtype=np.float32)
    found = Field(as_tokens(p.rows, p.features), p.y, np.zeros((p.k + 2, p.k))).at(W, np.zeros((p.k + 2, p.k)))
    plain = np.zeros((p.features, p.k)), np.zeros((p.k + 2, p.k))
    assert field_gap(found, plain, np.asarray(p.blocks.starts), L1(0.1), "fixed").dual == 0.0


def test_a_tagger_with_two_parts_has_a_gap_where_the_chain_is_learnt() -> None:
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, 4).tolist() for _ in range(40)]
    X = [[{"f": str(v if rng.random() < 0.7 else 3), "g": str(rng.integers(0, 3))} for v in y] for y in Y]
    params: dict[str, Any] = {"loss": "log", "transitions": "learnt", "verbose": 0, "random_state": 0}
    penalty = SparseGroupLasso(0.05, weights=[1.0, 2.0])
    online = SequenceTagger(penalty=penalty, **params).fit(X, Y)
    best = SequenceTagger(penalty=penalty, solver="batch", **params).fit(X, Y)
    assert online.gap_ > 1e-3
    assert best.gap_ < 1e-3
    objective = best.history_[-1]["objective"]
    assert online.history_[-1]["objective"] - online.gap_ <= objective + 1e-6
    assert objective <= online.history_[-1]["objective"]
