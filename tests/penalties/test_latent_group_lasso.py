"""The latent group lasso against cone programs: value, dual norm, and three ways to the Euclidean prox."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from spom.errors import Unsupported
from spom.penalties import GroupLasso, GroupLInf, LatentGroupLasso
from spom.penalties.latent_value import l2_value, linf_value

CLARABEL = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


def random_groups(p: int, seed: int, size: int = 10) -> list[Any]:
    rng = np.random.default_rng(seed)
    groups = [rng.choice(p, size, replace=False) for _ in range(int(2.5 * p / size))]
    missing = np.setdiff1d(np.arange(p), np.concatenate(groups))
    return [*groups, missing] if missing.size else groups


def parts_of(p: int, groups: list[Any], q: float) -> tuple[Any, Any]:
    """(x, norm) of the decomposition x = sum of parts, in cvxpy."""
    parts = [cp.Variable(len(g)) for g in groups]
    x = sum(np.eye(p)[:, g] @ v for g, v in zip(groups, parts, strict=True))
    return x, sum(cp.norm(v, "inf" if q == np.inf else 2) for v in parts)


def cone_prox(u: Any, groups: list[Any], q: float, strength: float) -> Any:
    x, norm = parts_of(u.size, groups, q)
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - u) + strength * norm)).solve(**CLARABEL)
    return x.value


def cone_value(w: Any, groups: list[Any], q: float) -> float:
    x, norm = parts_of(w.size, groups, q)
    return float(cp.Problem(cp.Minimize(norm), [x == w]).solve(**CLARABEL))


@pytest.mark.parametrize("q", [np.inf, 2])
@pytest.mark.parametrize("seed", [0, 1])
def test_against_a_cone_solver(q: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = random_groups(30, seed, size=5)
    u = rng.standard_normal(30)
    penalty = LatentGroupLasso(0.7, groups, q=q)
    found = penalty.prox_certified(u)
    np.testing.assert_allclose(found.x, cone_prox(u, groups, q, 0.7), atol=2e-5)
    assert found.gap <= 1e-13
    for point in (u, found.x, np.where(rng.random(30) < 0.3, u, 0.0)):
        assert penalty.value(point) == pytest.approx(0.7 * cone_value(point, groups, q), abs=1e-6)


@pytest.mark.parametrize("q", [np.inf, 2])
def test_values_bound_themselves(q: float) -> None:
    """Compute both sides of the norm's duality; their gap must be rounding."""
    groups = random_groups(64, 3)
    penalty = LatentGroupLasso(1.0, groups, q=q)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.standard_normal(64) * (rng.random(64) < 0.5)
        value, gap = (linf_value if q == np.inf else l2_value)(x, penalty.membership((64,)))
        assert gap <= 1e-9 * value
        y = rng.standard_normal(64)
        assert x @ y <= value * penalty.dual_norm(y) * (1 + 1e-9)


@pytest.mark.parametrize("q", [np.inf, 2])
def test_three_ways_to_one_prox(q: float) -> None:
    groups = random_groups(64, 1)
    u = np.random.default_rng(1).standard_normal(64)
    penalty = LatentGroupLasso(1.0, groups, q=q)
    exact = penalty.prox_certified(u)
    dykstra = penalty.prox_certified(u, method="dykstra", tol=1e-12)
    cyclic = penalty.prox_certified(u, method="cyclic", limit=20_000)
    np.testing.assert_allclose(dykstra.x, exact.x, atol=1e-9)
    np.testing.assert_allclose(cyclic.x, exact.x, atol=2e-3)
    for found in (exact, dykstra, cyclic):
        # The certificate is honest: the distance to the exact prox is within what it says.
        assert np.linalg.norm(found.x - exact.x) <= np.sqrt(2 * found.gap) + 1e-9
    assert cyclic.gap > dykstra.gap
    near = penalty.prox_certified(u, method="cyclic", tol=1e-2, target=exact.x)
    assert np.linalg.norm(near.x - exact.x) <= 1e-2


def test_groups_apart_are_the_group_penalties() -> None:
    w = np.random.default_rng(0).standard_normal(12)
    for q, twin in ((2, GroupLasso(0.6, 3)), (np.inf, GroupLInf(0.6, 3))):
        penalty = LatentGroupLasso(0.6, 3, q=q)
        assert penalty.value(w) == pytest.approx(twin.value(w), rel=1e-12)
        np.testing.assert_allclose(penalty.prox(w, 0.5), twin.prox(w, 0.5), atol=1e-13)
        assert penalty.max_strength(w) == pytest.approx(twin.max_strength(w), rel=1e-13)


def test_groups_that_determine_each_other() -> None:
    """More groups than coordinates, and one group twice: the Newton system is singular."""
    groups = [[0, 1], [1, 2], [2, 0], [3, 4, 5], [0, 5], [0, 1], [0, 1, 2, 3, 4, 5]]
    for q in (np.inf, 2):
        for u in (np.ones(6), np.array([0.0, -1, 0, -1, 0, -1]), np.array([22.0, -67, 138, -60, -63, 38])):
            found = LatentGroupLasso(1.0, groups, q=q).prox_certified(u, 0.4)
            assert found.gap <= 1e-13 * max(1.0, float(u @ u))


def test_max_strength_switches_everything_off() -> None:
    groups = random_groups(64, 2)
    g = np.random.default_rng(2).standard_normal(64)
    for q in (np.inf, 2):
        top = LatentGroupLasso(1.0, groups, q=q).max_strength(g)
        assert not LatentGroupLasso(top * (1 + 1e-9), groups, q=q).prox(-g).any()
        assert LatentGroupLasso(top * 0.999, groups, q=q).prox(-g).any()


def test_supports_are_unions_of_groups() -> None:
    groups = [[0, 1, 2], [2, 3, 4], [5, 6, 7]]
    x = LatentGroupLasso(1.0, groups).prox([1.0, 1.0, 1.0, 0.2, 0.2, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(np.flatnonzero(x), [0, 1, 2])


def test_matrices_empty_and_zero() -> None:
    penalty = LatentGroupLasso(0.5, [[0, 1], [1, 2]])
    W = np.random.default_rng(0).standard_normal((3, 2))
    flat = LatentGroupLasso(0.5, [[0, 1, 2, 3], [2, 3, 4, 5]])
    np.testing.assert_allclose(penalty.prox(W).reshape(-1), flat.prox(W.reshape(-1)), atol=1e-14)
    assert penalty.value(np.zeros(3)) == 0.0
    np.testing.assert_array_equal(penalty.prox(np.zeros(3)), np.zeros(3))
    np.testing.assert_array_equal(LatentGroupLasso(0.0, [[0, 1, 2]]).prox([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
    assert LatentGroupLasso(1.0, []).prox(np.zeros(0)).size == 0


def test_many_groups_go_through_conjugate_gradients() -> None:
    groups = random_groups(2000, 0)
    u = np.random.default_rng(0).standard_normal(2000)
    for q in (np.inf, 2):
        assert LatentGroupLasso(1.0, groups, q=q).prox_certified(u).gap <= 1e-11


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"coordinate 2 is in no group \(2 such in all\)"):
        LatentGroupLasso(1.0, [[0, 1]]).prox(np.ones(4))
    with pytest.raises(ValueError, match="q must be 2 or inf"):
        LatentGroupLasso(1.0, 2, q=3)
    with pytest.raises(ValueError, match="method must be one of"):
        LatentGroupLasso(1.0, 2).prox_certified(np.ones(4), method="luck")
    with pytest.raises(Unsupported, match="compiled"):
        LatentGroupLasso(1.0, 2).compiled((4,))
