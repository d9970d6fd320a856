"""A block penalty defined in one file outside the package works in the estimators, by the fast engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from spom import DependencyParser, OnlineClassifier, ProximalClassifier, SequenceTagger
from spom.data import read_conllu
from spom.norms import general_prox
from spom.penalties import L1, GroupLasso, Sum
from spom.penalties.base import Penalty
from spom.penalties.polyhedra import Polyhedron
from spom.solvers import OnlineProximal
from spom.solvers.iterate import last
from tests.penalties.new_penalty import ElasticGroups, OwnGroupLasso

FEATURES, GROUPS = 24, 6
STRENGTH = 0.03
WIDTH = FEATURES // GROUPS


def data(n: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = sparse.random(n, FEATURES, 0.4, format="csr", random_state=1, data_rvs=rng.standard_normal)
    w = rng.standard_normal(FEATURES) * np.repeat(rng.uniform(size=GROUPS) < 0.5, WIDTH)
    return X, np.where(X @ w + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def test_batch_solution_satisfies_the_conditions_of_optimality():
    X, y = data()
    model = ProximalClassifier(
        penalty=ElasticGroups(STRENGTH, groups=WIDTH), loss="logistic", fit_intercept=False, tol=1e-9
    ).fit(X, y)
    w = model.coef_.reshape(-1)
    gradient = -(X.T @ (y * expit(-y * (X @ w)))) / y.size
    alive = 0
    for part, g in zip(w.reshape(GROUPS, -1), gradient.reshape(GROUPS, -1), strict=True):
        norm = np.linalg.norm(part)
        if norm > 0:
            alive += 1
            np.testing.assert_allclose(g + STRENGTH * (part / norm + part), 0.0, atol=1e-5)
        else:
            assert np.linalg.norm(g) <= STRENGTH + 1e-8
    assert 0 < alive < GROUPS


def by_hand(X: Any, y: Any, step: float, epochs: int) -> Any:
    """Forward-backward steps in plain numpy, with the prox of each group solved for by its own condition."""
    w = np.zeros(FEATURES)
    for _ in range(epochs):
        for x, sign in zip(X.toarray(), y, strict=True):
            w = w + step * sign * expit(-sign * (x @ w)) * x
            for part in w.reshape(GROUPS, -1):
                norm, t = np.linalg.norm(part), step * STRENGTH
                # r (1 + t) + t = norm for the new norm r, or zero where that has no root above zero.
                part *= max(0.0, (norm - t) / (1.0 + t)) / norm if norm > 0 else 0.0
    return w


def test_online_rounds_are_those_done_by_hand():
    X, y = data()
    settings: dict[str, Any] = {"loss": "logistic", "step": 0.1, "shuffle": False, "fit_intercept": False, "epochs": 2}
    penalty = ElasticGroups(STRENGTH, groups=WIDTH)
    solver = OnlineProximal(X, y, penalty=penalty, **settings)
    theta = last(solver).theta
    assert solver.engine is not None
    assert solver.engine.name == "forward-backward, block scales"
    twin = by_hand(X, y, 0.1, 2)
    np.testing.assert_allclose(theta, twin, atol=1e-10)
    model = OnlineClassifier(penalty=penalty, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_.reshape(-1), twin, atol=1e-10)


def sentences() -> tuple[list[list[list[str]]], list[list[str]]]:
    rng, letters = np.random.default_rng(0), list("abcdef")
    sizes = rng.integers(2, 7, 50)
    X = [[[str(rng.choice(letters)), str(rng.integers(3))] for _ in range(size)] for size in sizes]
    return X, [["V" if word[0] in "ae" else "C" for word in x] for x in X]


@pytest.mark.parametrize("update", ["forward-backward", "dual-averaging"])
def test_taggers_learn_with_it_as_with_its_equal(update: str) -> None:
    X, y = sentences()

    def marginals(penalty: Any) -> Any:
        model = SequenceTagger(penalty=penalty, update=update, transitions="learnt", epochs=3, random_state=0)
        return np.concatenate(model.fit(X, y).predict_marginals(X))

    own = marginals(OwnGroupLasso(0.03))
    np.testing.assert_allclose(own, marginals(GroupLasso(0.03)), atol=1e-6)
    # What is asked for is what is used.
    assert np.abs(own - marginals(ElasticGroups(0.03))).max() > 0.01


def test_parsers_learn_with_it_as_with_its_equal(tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(0), []
    for _ in range(30):
        for i in range(int(rng.integers(3, 7))):
            word, head = str(rng.choice(["dog", "cat", "house", "tree"])), str(rng.integers(1, i + 1) if i else 0)
            row = [str(i + 1), word, word, "NOUN", "NN", "_", head, "root" if i == 0 else "dep", "_", "_"]
            lines.append("\t".join(row))
        lines.append("")
    (tmp_path / "bank.conllu").write_text("\n".join(lines) + "\n")
    bank = read_conllu(tmp_path / "bank.conllu")

    def fitted(penalty: Any, update: str) -> Any:
        return DependencyParser(penalty=penalty, update=update, epochs=2, random_state=0).fit(bank)

    def arcs(penalty: Any) -> Any:
        return fitted(penalty, "forward-backward").arcs_.weights

    own = arcs(OwnGroupLasso(1e-4))
    assert own.any()
    np.testing.assert_allclose(own, arcs(GroupLasso(1e-4)), rtol=1e-5, atol=1e-7)
    assert np.abs(own - arcs(ElasticGroups(1e-2))).max() > 1e-4
    chosen = fitted(OwnGroupLasso(0.2), "auto")
    assert 0 < len(chosen.blocks_) < len(fitted(OwnGroupLasso(1e-4), "auto").blocks_)
    assert chosen.blocks_ == fitted(GroupLasso(0.2), "auto").blocks_


class Spread(Penalty):
    """Omega(w) = s (max w - min w), a penalty that the package does not have."""

    homogeneous = True

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength

    def _value(self, w: Any) -> float:
        return self.strength * float(w.max() - w.min())

    def polyhedron(self, p: int) -> Polyhedron:
        # low <= x_i <= high at the price s (high - low); w = (low+, low-, high+, high-).
        eye, ones, none = np.eye(p), np.ones((p, 1)), np.zeros((p, 1))
        bounds = [np.hstack([ones, -ones, none, none]), np.hstack([none, none, -ones, ones])]
        price = self.strength * np.array([-1.0, 1.0, 1.0, -1.0])
        A, B = np.vstack([eye, eye]), sparse.csr_matrix(np.vstack([-bounds[0], bounds[1]]))
        lower = np.concatenate([np.zeros(p), np.full(p, -np.inf)])
        return Polyhedron(sparse.csr_matrix(A), B, price, lower, np.concatenate([np.full(p, np.inf), np.zeros(p)]))


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_a_linear_program_is_all_that_a_step_in_another_norm_asks_for(norm: str) -> None:
    rng = np.random.default_rng(0)
    u, z = rng.standard_normal(5), rng.standard_normal(5)
    found = general_prox(Spread(0.3), norm, u, z, 2.0)
    size = np.abs(found.x - u).sum() if norm == "l1" else np.abs(found.x - u).max()
    reached = z @ found.x + size**2 + Spread(0.3).value(found.x)
    for _ in range(2000):
        x = found.x + rng.choice([1e-3, 0.03, 0.3]) * rng.standard_normal(5)
        gap = np.abs(x - u).sum() if norm == "l1" else np.abs(x - u).max()
        assert reached <= z @ x + gap**2 + Spread(0.3).value(x) + 1e-8


def test_a_trait_is_all_that_an_exact_sum_asks_for() -> None:
    w = np.random.default_rng(1).standard_normal(FEATURES)
    assert not Sum([L1(0.1), OwnGroupLasso(0.2, WIDTH)]).exact

    class Following(OwnGroupLasso):
        follows_l1 = True

    own, known = (Sum([penalty(0.2, WIDTH), L1(0.1)]) for penalty in (Following, GroupLasso))
    assert own.exact
    np.testing.assert_allclose(own.prox(w), known.prox(w), atol=1e-12)
