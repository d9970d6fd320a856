"""The general prox and the local conjugate against cone programs, certificates, and their own identities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator

from spom.errors import Unsupported
from spom.norms import AtomicNorm, GeneralProx, Polyhedral, general_prox, local_conjugate
from spom.norms.base import NORMS
from spom.norms.l1 import peak
from spom.penalties import (
    L1,
    L2,
    Box,
    ElasticNet,
    GroupLasso,
    GroupLInf,
    L1Ball,
    L2Ball,
    LatentGroupLasso,
    LInf,
    LInfBall,
    Simplex,
    SquaredL2,
    Sum,
    TreeGroupLasso,
    Zero,
)
from tests.norms.oracle import local_value, prox_value

GROUPS = [[0, 1, 2], [2, 3], [3, 4, 5], [0, 5]]
ATOMS = np.random.default_rng(5).standard_normal((6, 6))
FRAME = np.random.default_rng(6).standard_normal((6, 9))
BASIS, OVERCOMPLETE = AtomicNorm(ATOMS), AtomicNorm(FRAME)

# (penalty, norm, its kind and size for the oracle, what else the oracle needs)
PAIRS: dict[str, tuple[Any, Any, str, float, dict[str, Any]]] = {
    "l1/l1": (L1(0.7), "l1", "l1", 0.7, {}),
    "ball/l1": (L1Ball(1.5), "l1", "l1-ball", 1.5, {}),
    "simplex/l1": (Simplex(1.0), "l1", "simplex", 1.0, {}),
    "linf/linf": (LInf(0.9), "linf", "linf", 0.9, {}),
    "ball/linf": (LInfBall(0.8), "linf", "linf-ball", 0.8, {}),
    "latent/linf": (LatentGroupLasso(0.6, GROUPS), "linf", "latent", 0.6, {"groups": GROUPS}),
    "latent/l1, by programs": (LatentGroupLasso(0.6, GROUPS), "l1", "latent", 0.6, {"groups": GROUPS}),
    "l1/linf, by programs": (L1(0.4), "linf", "l1", 0.4, {}),
    "linf/l1, by programs": (LInf(0.9), "l1", "linf", 0.9, {}),
    "box/l1, by programs": (Box(-0.5, 1.0), "l1", "box", 0.5, {}),
    "simplex/linf, by programs": (Simplex(1.0), "linf", "simplex", 1.0, {}),
    "l1/frame, by programs": (L1(0.4), OVERCOMPLETE, "l1", 0.4, {"atoms": FRAME}),
    "l1/l2": (L1(0.4), "l2", "l1", 0.4, {}),
    "latent/l2": (LatentGroupLasso(0.6, GROUPS), "l2", "latent", 0.6, {"groups": GROUPS}),
}


def draws(count: int, p: int = 6) -> list[tuple[Any, Any, float, float]]:
    """Draw points, gradients, L and t: dense, sparse, on a grid (so that ties occur), large and small."""
    rng = np.random.default_rng(17)
    found = []
    for k in range(count):
        u = rng.standard_normal(p) * rng.choice([0.1, 1.0, 3.0]) * (rng.random(p) < rng.choice([0.4, 1.0]))
        z = rng.standard_normal(p) * rng.choice([0.1, 1.0, 3.0]) * (rng.random(p) < rng.choice([0.6, 1.0]))
        if k % 4 == 3:
            u, z = np.round(2 * u) / 2, np.round(2 * z) / 2
        found.append((u, z, float(10 ** rng.uniform(-1.5, 1.5)), float(10 ** rng.uniform(-1.5, 0.7))))
    return found


def norm_name(norm: Any) -> str:
    return norm if isinstance(norm, str) else "atomic"


@pytest.mark.parametrize("pair", PAIRS)
def test_general_prox_is_the_cone_programs(pair: str) -> None:
    penalty, norm, kind, size, more = PAIRS[pair]
    solve = GeneralProx(penalty, norm, 6)
    for u, z, L, _ in draws(8):
        found = solve(u, z, L)
        wanted = prox_value(kind, size, norm_name(norm), u, z, L, **more)
        assert found.objective == pytest.approx(wanted, abs=2e-7 * max(1.0, abs(wanted)))


@pytest.mark.parametrize("pair", PAIRS)
def test_local_conjugate_is_the_cone_programs(pair: str) -> None:
    penalty, norm, kind, size, more = PAIRS[pair]
    for u, z, _, t in draws(6):
        wanted = local_value(kind, size, norm_name(norm), u, z, t, **more)
        if not np.isfinite(wanted):
            with pytest.raises(ValueError, match="too small"):
                local_conjugate(penalty, norm, u, z, t)
            continue
        found = local_conjugate(penalty, norm, u, z, t)
        assert found.objective == pytest.approx(wanted, abs=1e-6 * max(1.0, abs(wanted)))
        assert found.certificate.gap <= 1e-7 * max(1.0, abs(wanted))


@pytest.mark.parametrize("pair", ["l1/l1", "ball/l1", "simplex/l1", "linf/linf", "ball/linf"])
def test_the_dual_norm_of_p_is_the_slope_of_the_local_conjugate(pair: str) -> None:
    """Check that -dual_norm(p) is between the slopes of the least value over norm(x - u) <= t, which is convex in t."""
    penalty, norm = PAIRS[pair][:2]
    solve, tested = GeneralProx(penalty, norm, 6), 0
    points = [(u, z, t) for u, z, _, t in draws(60)]
    # Near the set, and for a distance at which weight is still left to exchange.
    points += [
        (np.abs(u) / max(1.0, np.abs(u).sum()), z, 0.1 * (k % 7 + 1)) for k, (u, z, _, _) in enumerate(draws(30))
    ]
    for u, z, t in points:
        try:
            below, at, above = (local_conjugate(penalty, norm, u, z, t + e) for e in (-1e-5, 0.0, 1e-5))
        except ValueError:
            continue
        tested += 1
        left, right = (below.objective - at.objective) / 1e-5, (at.objective - above.objective) / 1e-5
        assert right - 1e-7 <= solve.norm.dual(at.p) <= left + 1e-7
        assert abs(at.certificate.gap) <= 1e-9 * max(1.0, abs(at.objective))
    assert tested > 25


def test_one_entry_and_no_gradient() -> None:
    for penalty, norm, x in ((Simplex(1.5), "l1", 1.5), (L1Ball(1.5), "l1", 0.3), (LInfBall(0.2), "linf", 0.2)):
        np.testing.assert_allclose(general_prox(penalty, norm, [0.3], [0.0], 1.0).x, [x])
    np.testing.assert_allclose(general_prox(L1(0.0), "l1", [0.3], [0.0], 1.0).x, [0.3])
    assert peak(np.zeros(3)) == (0.0, 0)
    assert peak(np.zeros(0)) == (0.0, 0)
    assert peak(np.array([1.0, -2.0, 2.0])) == (2.0, 1)


CERTIFIED: dict[str, tuple[Any, Any]] = {
    **{name: (pair[0], pair[1]) for name, pair in PAIRS.items()},
    "zero/l1": (Zero(), "l1"),
    "zero/linf": (Zero(), "linf"),
    "strong linf/linf": (LInf(5.0), "linf"),
    "wide ball/l1": (L1Ball(30.0), "l1"),
    "atoms": (BASIS.penalty(0.5), BASIS),
    "atoms' ball": (BASIS.ball(1.2), BASIS),
    "frame's ball, by programs": (OVERCOMPLETE.ball(1.2), OVERCOMPLETE),
    "groups/linf, by programs": (GroupLInf(0.5, 2), "linf"),
    "tree/l1, by programs": (TreeGroupLasso(0.4, [[0, 1, 2, 3, 4, 5], [0, 1], [2, 3]], norm=np.inf), "l1"),
    "sum/linf, by programs": (Sum([L1(0.2), Box(0.0, 2.0)]), "linf"),
    "l2/l2": (L2(0.5), "l2"),
    "groups/l2": (GroupLasso(0.5, 3), "l2"),
    "elastic net/l2": (ElasticNet(0.5), "l2"),
    "squared/l2": (SquaredL2(0.5), "l2"),
}


@pytest.mark.parametrize("pair", CERTIFIED)
def test_certificates_and_what_p_must_be(pair: str) -> None:
    """Zero gap; t = norm(x - u); <p, u - x> = L t^2 = dual_norm(p)^2 / L."""
    penalty, norm = CERTIFIED[pair]
    solve = GeneralProx(penalty, norm, 6)
    for u, z, L, _ in draws(40):
        found = solve(u, z, L)
        scale = max(1.0, abs(found.objective))
        assert abs(found.certificate.gap) <= 1e-8 * scale
        assert solve.norm.value(found.x - u) == pytest.approx(found.t, abs=1e-9)
        assert solve.norm.dual(found.p) == pytest.approx(L * found.t, abs=1e-8 * scale)
        assert found.p @ (u - found.x) == pytest.approx(L * found.t**2, abs=1e-8 * scale)
        assert penalty.value(found.x) == pytest.approx(found.value, abs=1e-8)


def test_a_wrong_point_has_a_gap() -> None:
    """Check that the certificate can fail: it rejects a result with another objective."""
    from dataclasses import replace

    u, z, L, _ = draws(1)[0]
    good = general_prox(L1(0.7), "l1", u, z, L)
    worse = replace(good, objective=good.objective + 0.1)
    assert good.certificate.holds()
    assert not worse.certificate.holds()


DUALS = {
    "l1": (L1(0.7), "l1", LInfBall(0.7), "linf"),
    "l1 ball": (L1Ball(1.5), "l1", LInf(1.5), "linf"),
    "linf": (LInf(0.9), "linf", L1Ball(0.9), "l1"),
    "linf ball": (LInfBall(0.8), "linf", L1(0.8), "l1"),
    "l2": (L2(0.9), "l2", L2Ball(0.9), "l2"),
}


@pytest.mark.parametrize("name", DUALS)
def test_generalised_moreau_decomposition(name: str) -> None:
    """Check that q = p - z solves the conjugate's prox in the dual norm from (-z, -u, 1/L), and values add up."""
    penalty, norm, conjugate, dual = DUALS[name]
    for u, z, L, _ in draws(40):
        primal = general_prox(penalty, norm, u, z, L)
        other = general_prox(conjugate, dual, -z, -u, 1.0 / L)
        scale = max(1.0, abs(primal.objective))
        assert primal.objective + other.objective == pytest.approx(z @ u, abs=1e-9 * scale)
        q = primal.p - z
        at_q = -u @ q + NORMS[dual].value(q + z) ** 2 / (2 * L)
        at_q += 0.0 if conjugate.indicator else conjugate.value(q)
        assert at_q == pytest.approx(other.objective, abs=1e-9 * scale)
        if conjugate.indicator:
            assert NORMS[dual].value(q) <= penalty.strength * (1 + 1e-9)


def test_moreau_of_latent_groups_by_two_different_programs() -> None:
    penalty = LatentGroupLasso(0.6, GROUPS)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    rows = []
    for group in GROUPS:
        for sign in signs[: 2 ** len(group)] if len(group) == 3 else np.unique(signs[:, :2], axis=0):
            row = np.zeros(6)
            row[group] = sign
            rows.append(row)
    ball = Polyhedral(np.array(rows), upper=0.6)
    for u, z, L, _ in draws(6):
        primal = general_prox(penalty, "linf", u, z, L)
        other = general_prox(ball, "l1", -z, -u, 1.0 / L)
        assert primal.objective + other.objective == pytest.approx(z @ u, abs=1e-8)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0.01, 100.0), st.floats(0.0, 3.0))
def test_support_grows_by_at_most_one(p: int, seed: int, L: float, strength: float) -> None:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(p) * (rng.random(p) < 0.5)
    for penalty in (L1(strength), L1Ball(strength)):
        found = general_prox(penalty, "l1", u, rng.standard_normal(p), L)
        assert np.count_nonzero((found.x != 0) & (u == 0)) <= 1
        assert found.certificate.holds(1e-9)


def test_large_vectors_and_many_ties() -> None:
    rng = np.random.default_rng(3)
    for u, z in (
        (rng.standard_normal(20_000), rng.standard_normal(20_000)),
        (rng.integers(-2, 3, 20_000).astype(float), rng.integers(-2, 3, 20_000).astype(float)),
        (np.ones(20_000), np.ones(20_000)),
    ):
        for penalty, norm in ((L1(3.0), "l1"), (L1Ball(50.0), "l1"), (LInf(30.0), "linf"), (Simplex(5.0), "l1")):
            assert general_prox(penalty, norm, u, z, 0.01).certificate.holds(1e-9)


def test_atoms_as_an_operator_are_the_atoms_as_a_matrix() -> None:
    p = 16
    operator = LinearOperator(
        (p, p),
        matvec=lambda c: idct(c, norm="ortho"),
        rmatvec=lambda x: dct(x, norm="ortho"),
        dtype=np.float64,
    )
    inverse = LinearOperator(
        (p, p), matvec=lambda x: dct(x, norm="ortho"), rmatvec=lambda c: idct(c, norm="ortho"), dtype=np.float64
    )
    matrix = AtomicNorm(idct(np.eye(p), axis=0, norm="ortho"))
    rng = np.random.default_rng(0)
    u, z = rng.standard_normal(p), rng.standard_normal(p)
    wanted = general_prox(matrix.penalty(0.3), matrix, u, z, 0.7)
    for norm in (AtomicNorm(operator), AtomicNorm(operator, inverse)):
        for pair, same in ((norm.penalty(0.3), matrix.penalty(0.3)), (norm.ball(1.0), matrix.ball(1.0))):
            found = general_prox(pair, norm, u, z, 0.7)
            wanted = general_prox(same, matrix, u, z, 0.7)
            np.testing.assert_allclose(found.x, wanted.x, atol=1e-10)
            np.testing.assert_allclose(found.p, wanted.p, atol=1e-10)
    with pytest.raises(Unsupported, match="linear programs"):
        general_prox(L1(0.1), AtomicNorm(operator), u, z, 1.0)


def test_fewer_atoms_than_coordinates() -> None:
    norm = AtomicNorm(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    found = general_prox(norm.penalty(0.1), norm, [1.0, 1.0, 0.0], [0.0, 0.5, -2.0], 1.0)
    assert found.certificate.holds()
    with pytest.raises(ValueError, match="not a combination"):
        general_prox(norm.penalty(0.1), norm, [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], 1.0)


def test_programs_are_few_and_stay_warm() -> None:
    rng = np.random.default_rng(0)
    p = 128
    groups = [rng.choice(p, 10, replace=False) for _ in range(32)]
    groups.append(np.setdiff1d(np.arange(p), np.concatenate(groups)))
    solve = GeneralProx(LatentGroupLasso(1.0, groups), "linf", p)
    for _ in range(5):
        found = solve(rng.standard_normal(p), rng.standard_normal(p), 10.0)
        assert found.programs <= 12
        assert found.certificate.holds()


# --- bad input -------------------------------------------------------------------------------------


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(Unsupported, match=r"GroupLasso in the l1 norm.*LInfBall with linf"):
        general_prox(GroupLasso(1.0, 2), "l1", np.zeros(4), np.ones(4), 1.0)
    with pytest.raises(Unsupported, match="no norm 'l3'"):
        general_prox(L1(1.0), "l3", np.zeros(4), np.ones(4), 1.0)
    with pytest.raises(Unsupported, match="is no norm"):
        general_prox(L1(1.0), 7, np.zeros(4), np.ones(4), 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match=r"z \(the gradient\) must be finite: entry 2"):
        general_prox(L1(1.0), "l1", np.zeros(4), [0.0, 1.0, bad, 0.0], 1.0)


def test_bad_numbers_and_shapes() -> None:
    with pytest.raises(ValueError, match="L must be finite and > 0"):
        general_prox(L1(1.0), "l1", np.zeros(4), np.ones(4), 0.0)
    with pytest.raises(ValueError, match="t must be finite"):
        local_conjugate(L1(1.0), "l1", np.zeros(4), np.ones(4), -1.0)
    with pytest.raises(ValueError, match="vector of 4 numbers"):
        general_prox(L1(1.0), "l1", np.zeros(4), np.ones(3), 1.0)


def test_singular_atoms() -> None:
    with pytest.raises(ValueError, match=r"singular atom set: 3 atoms of rank 2"):
        AtomicNorm(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="atoms must be finite"):
        AtomicNorm([[np.nan]])
    with pytest.raises(ValueError, match="needs atoms"):
        AtomicNorm(np.zeros((3, 0)))


def test_infeasible_and_unbounded_programs() -> None:
    nowhere = Polyhedral(np.array([[1.0, 0.0], [1.0, 0.0]]), lower=[1.0, -np.inf], upper=[np.inf, 0.0])
    with pytest.raises(ValueError, match=r"the program of Polyhedral in the l1 norm is infeasible"):
        general_prox(nowhere, "l1", np.zeros(2), np.ones(2), 1.0)
    falling = Polyhedral(np.zeros((1, 2)), B=[[1.0]], cost=[-1.0], lower=[0.0])
    with pytest.raises(ValueError, match="unbounded"):
        general_prox(falling, "linf", np.zeros(2), np.ones(2), 1.0)


def test_latent_groups_need_every_coordinate() -> None:
    with pytest.raises(ValueError, match="coordinate 3 is in no group"):
        general_prox(LatentGroupLasso(1.0, [[0, 1], [1, 2]]), "linf", np.zeros(4), np.ones(4), 1.0)


def test_polyhedral_shapes() -> None:
    with pytest.raises(ValueError, match="A has 1 rows and B has 2"):
        Polyhedral([[1.0]], B=[[1.0], [1.0]])
    with pytest.raises(ValueError, match="cost has shape"):
        Polyhedral([[1.0]], B=[[1.0]], cost=[1.0, 2.0])
    with pytest.raises(ValueError, match="A has 1 columns"):
        general_prox(Polyhedral([[1.0]]), "l1", np.zeros(2), np.ones(2), 1.0)
    assert Polyhedral([[1.0]], upper=[1.0]).value([2.0]) == np.inf
