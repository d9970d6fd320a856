"""The forms that solvers ask for: each one reproduces the value and the prox of the penalty that gave it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spom import penalties as P
from spom.errors import Unsupported
from tests.penalties.cases import DIMENSION, EVERY, name, over

Vector = np.ndarray[Any, Any]

VECTORS = arrays(
    np.float64, DIMENSION, elements=st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-9, 9, width=32))
)
STEPS = st.sampled_from([0.01, 0.3, 1.0, 4.0])
# Blocks of an estimator: two of three coordinates each, one of one, one of two.
BLOCKS = [[[0, 1, 2], [3, 4, 5]], [[4], [0, 2], [1, 3, 5]]]


def regrouped(penalty: Any, groups: Any) -> Any:
    """Return a copy whose group penalties, at any depth, have these groups and no weights that do not match them."""
    found = copy.deepcopy(penalty)
    if hasattr(found, "groups"):
        found.groups, found._cached = groups, None
        if getattr(found, "weights", None) is not None:
            found.weights = None if groups is None or len(groups) > 3 else np.array([1.5, 0.0, 2.0])[: len(groups)]
    if hasattr(found, "terms"):
        found.terms = [regrouped(term, groups) for term in found.terms]
    if hasattr(found, "penalty"):
        found.penalty = regrouped(found.penalty, groups)
    return found


def has_weights(penalty: Any) -> bool:
    inside = [*getattr(penalty, "terms", []), *([penalty.penalty] if hasattr(penalty, "penalty") else [])]
    return getattr(penalty, "weights", None) is not None or any(has_weights(p) for p in inside)


def pairs() -> list[tuple[Any, Any, Any]]:
    """(a penalty without groups, the same with the blocks as groups, the blocks), for every example."""
    found = []
    for penalty in EVERY:
        for blocks in BLOCKS:
            own, given_groups = regrouped(penalty, None), regrouped(penalty, blocks)
            if has_weights(penalty) and hasattr(penalty, "groups"):
                own.weights = given_groups.weights
            found.append((own, given_groups, blocks))
    return found


PAIRS = pairs()
over_pairs = pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0]!r}"[:50] + f" {len(p[2])}")
PLAIN = [p for p in EVERY if p.elastic() is not None]


def norms_of(w: Vector, blocks: Any) -> Vector:
    return np.array([np.sqrt(sum(w[i] ** 2 for i in block)) for block in blocks])


def scaled_blocks(w: Vector, blocks: Any, target: Vector) -> Vector:
    x = w.copy()
    for block, now, then in zip(blocks, norms_of(w, blocks), target, strict=True):
        x[block] = w[block] * (then / now if now > 0 else 0.0)
    return x


def close(x: Vector, y: Vector, w: Vector) -> bool:
    return bool(np.abs(x - y).max() <= 1e-7 * max(1.0, float(np.abs(w).max())))


@over(PLAIN)
@given(w=VECTORS, step=STEPS)
def test_an_elastic_form_is_the_penalty(penalty: Any, w: Vector, step: float) -> None:
    l1, l2 = penalty.elastic()
    assert penalty.value(w) == pytest.approx(l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum(), rel=1e-12)
    naive = np.array([np.sign(v) * max(abs(v) - step * l1, 0.0) / (1.0 + step * l2) for v in w])
    assert close(penalty.prox(w, step), naive, w)


def test_which_examples_are_elastic() -> None:
    assert {name(p) for p in PLAIN} >= {"Zero", "L1", "SquaredL2", "ElasticNet", "Power", "Scaled", "Sum"}
    assert P.LqMKL(1.5, q=2).elastic() == (0.0, 3.0)
    assert all(p.elastic() is None for p in EVERY if name(p) in ("GroupLasso", "SquaredL1", "Box", "LInf", "L1Ball"))


@over_pairs
@given(w=VECTORS, step=STEPS)
def test_a_penalty_of_norms_is_the_penalty(pair: Any, w: Vector, step: float) -> None:
    own, explicit, blocks = pair
    h = own.on_norms(len(blocks))
    if h is None:
        return
    norms = norms_of(w, blocks)
    assert h.value(norms) == pytest.approx(explicit.value(w), rel=1e-7, abs=1e-9)
    assert close(scaled_blocks(w, blocks, h.prox(norms, step)), explicit.prox(w, step), w)
    try:
        kernel, reals, ints = h.compiled((len(blocks),))
    except Unsupported:
        return
    out = np.empty(len(blocks))
    kernel(norms, step, reals, ints, out)
    assert np.allclose(out, h.prox(norms, step), rtol=1e-9, atol=1e-12)


def test_which_examples_are_functions_of_norms() -> None:
    found = {name(own) for own, _, _ in PAIRS if not has_weights(own) and own.on_norms(2) is not None}
    wanted = {"GroupLasso", "SparseMKL", "LqMKL", "ElasticNetMKL", "L2", "SquaredL2", "L2Ball", "Zero", "Sum", "Scaled"}
    assert found >= {*wanted, "TreeGroupLasso", "OverlappingGroupLasso", "LatentGroupLasso", "SparseGroupLasso"}
    assert not found & {"L1Ball", "LInf", "GroupLInf", "SquaredL1", "Box", "Simplex"}


@over_pairs
@given(w=VECTORS, step=STEPS)
def test_a_split_is_the_penalty(pair: Any, w: Vector, step: float) -> None:
    own, explicit, blocks = pair
    split = own.split(len(blocks))
    if split is None:
        return
    l1, l2 = split.elastic
    value = l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum() + split.norms.value(norms_of(w, blocks))
    assert value == pytest.approx(explicit.value(w), rel=1e-7, abs=1e-9)
    z = np.sign(w) * np.maximum(np.abs(w) - step * l1, 0.0) / (1.0 + step * l2)
    assert close(scaled_blocks(z, blocks, split.norms.prox(norms_of(z, blocks), step)), explicit.prox(w, step), w)


def test_which_examples_split() -> None:
    found = {name(own) for own, _, _ in PAIRS if not has_weights(own) and own.split(2) is not None}
    assert found >= {"SparseGroupLasso", "GroupLasso", "L1", "ElasticNet", "SparseMKL", "Sum", "Scaled"}
    mixed = P.Sum([P.L1(0.3), P.GroupLasso(0.5), P.SquaredL2(0.2)]).split(3)
    assert mixed is not None
    assert mixed.elastic == (0.3, 0.0)
    assert P.Sum([P.LInf(0.5), P.GroupLasso(0.5)]).split(3) is None
    assert P.Sum([P.SparseMKL(0.5), P.GroupLasso(0.5)]).split(3) is None  # not exact


@over_pairs
@given(w=VECTORS)
def test_a_sum_of_norms_is_the_penalty(pair: Any, w: Vector) -> None:
    own, explicit, blocks = pair
    form = own.norm_sum(len(blocks))
    if form is None:
        return
    weights = form.weights if form.weights.size else np.ones(len(blocks))
    norms = [np.linalg.norm(w[block], form.order) for block in blocks]
    value = form.strength * float(weights @ norms) + form.l2 / 2 * float(w @ w)
    assert value == pytest.approx(explicit.value(w), rel=1e-9, abs=1e-12)


def test_which_examples_are_sums_of_norms() -> None:
    found = {(name(own), form.order) for own, _, _ in PAIRS if not has_weights(own) and (form := own.norm_sum(2))}
    assert found >= {("GroupLasso", 2.0), ("GroupLInf", np.inf), ("TreeGroupLasso", 2.0), ("TreeGroupLasso", np.inf)}
    assert {kind for kind, _ in found}.isdisjoint({"SparseMKL", "LInf", "L1Ball"})
    assert P.L1(1.0).norm_sum(2) is None


def test_groups_of_the_user_are_not_the_blocks_of_the_estimator() -> None:
    for kind in (P.GroupLasso, P.SparseMKL, P.LqMKL, P.ElasticNetMKL, P.TreeGroupLasso, P.OverlappingGroupLasso):
        for groups in ([[0, 1], [2, 3]], [0, 0, 1, 1], 2):
            penalty = kind(1.0, groups)
            assert penalty.on_norms(4) is None
            assert penalty.norm_sum(4) is None
            assert penalty.split(4) is None
    assert P.SparseGroupLasso(1.0, [[0, 1], [2, 3]]).split(2) is None
    assert P.Sum([P.L1(1.0), P.GroupLasso(1.0, 2)]).split(2) is None
    assert P.Scaled(P.GroupLasso(1.0, 2), 3.0).on_norms(2) is None


@pytest.mark.parametrize(
    "penalty",
    [
        P.TreeGroupLasso(0.7, [[0, 1, 2, 3], [1, 2], [2]], weights=[1.0, 0.5, 2.0]),
        P.GroupLasso(0.7, [[0, 3], [1, 2]]),
        P.SparseMKL(0.4, 2),
        P.OverlappingGroupLasso(0.5, [[0, 1], [1, 2], [2, 3]]),
        P.LatentGroupLasso(0.5, [[0, 1], [1, 2], [2, 3]], q=2),
        P.Sum([P.TreeGroupLasso(0.7, [[0, 1, 2], [1, 2]]), P.SquaredL2(0.4)]),
        P.ElasticNetMKL(0.7, "rows"),
    ],
    ids=repr,
)
def test_groups_of_rows_are_functions_of_row_norms(penalty: Any) -> None:
    W = np.random.default_rng(5).normal(size=(4, 3))
    h = penalty.on_rows(4)
    norms = np.sqrt((W**2).sum(axis=1))
    assert h.value(norms) == pytest.approx(penalty.value(W), rel=1e-7)
    assert close(W * (h.prox(norms, 0.6) / norms)[:, None], penalty.prox(W, 0.6), W)


def test_weights_must_fit_the_blocks() -> None:
    with pytest.raises(ValueError, match="one for each of the 3 groups"):
        P.GroupLasso(1.0, weights=[1.0, 2.0]).on_norms(3)
