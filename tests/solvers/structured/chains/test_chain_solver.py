"""The solver as an iterator: optima, resuming to the bit, what it refuses; and the choice of blocks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from spom.core.protocols import Solver
from spom.core.state import State
from spom.decoders import tag_constraints
from spom.errors import DataError, Unsupported
from spom.penalties import (
    L1,
    ElasticNetMKL,
    GroupLasso,
    LInf,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    Sum,
    TreeGroupLasso,
)
from spom.penalties.forms import selection_form
from spom.solvers.iterate import last, take
from spom.solvers.steps import AdaGrad
from spom.solvers.structured.chains import OnlineChain
from spom.solvers.structured.chains.data import as_blocks, as_tokens, block_weights
from spom.solvers.structured.chains.select import select
from tests.solvers.structured.chains.naive_chains import dense, loss_and_gradient, problem


def test_dual_averaging_reaches_the_optimum_of_the_random_field() -> None:
    p = problem(21, sentences=8, features=6)
    p.blocks.starts = np.array([0, 6])
    strength, n = 0.1, 8
    size = p.features * p.k + (p.k + 2) * p.k
    spans = [(i, *p.rows.offsets[i : i + 2]) for i in range(n) if p.rows.offsets[i + 1] > p.rows.offsets[i]]

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.5 * strength * theta @ theta, strength * theta
        for i, a, b in spans:
            v, g, _ = loss_and_gradient("log", theta, dense(p, i), p.y[a:b], p.k, 0.0)
            value, gradient = value + v / n, gradient + g / n
        return value, gradient

    best = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options={"gtol": 1e-8})
    for update, step in (("dual-averaging", AdaGrad(0.5, 0.1)), ("forward-backward", "linear")):
        solver = OnlineChain(
            p.rows, p.y, p.k, blocks=p.blocks, penalty=SquaredL2(strength), update=update, step=step, epochs=300,
            skip=1.0, objective=True, random_state=0,
        )  # fmt: skip
        for _ in solver.passes():
            pass
        assert solver.objective_now() == pytest.approx(objective(solver.state().theta)[0], rel=1e-5)
        assert best.fun <= solver.objective_now() <= best.fun * 1.005


RUNS = [
    {"penalty": L1(1e-3)},
    {"penalty": SparseMKL(1e-2), "loss": "hinge"},
    {"penalty": SparseMKL(1e-2), "loss": "hinge", "step": 0.3},
    {"penalty": GroupLasso(0.05), "update": "dual-averaging", "loss": "softmax-margin", "transitions": "learnt"},
    {"loss": "perceptron", "update": "forward-backward"},
]


@pytest.mark.parametrize("run", RUNS, ids=repr)
def test_a_saved_run_goes_on_to_the_same_bits(run, tmp_path) -> None:
    p = problem(22, sentences=15)
    make = lambda **more: OnlineChain(p.rows, p.y, p.k, blocks=p.blocks, epochs=5, random_state=7, **run, **more)  # noqa: E731
    whole = list(make())
    assert isinstance(make(), Solver)
    assert [state.k for state in whole] == [15, 30, 45, 60, 75]
    assert not np.array_equal(whole[0].theta, whole[-1].theta)
    last(take(make(), 2)).save(tmp_path / "state")
    resumed = list(make(start=State.load(tmp_path / "state")))
    assert len(resumed) == 3
    for a, b in zip(whole[2:], resumed, strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        assert a.loss == b.loss
    again = list(make())
    np.testing.assert_array_equal(again[-1].theta, whole[-1].theta)


def test_without_transitions_labels_are_independent() -> None:
    p = problem(23)
    state = last(OnlineChain(p.rows, p.y, p.k, transitions=None, penalty=L1(1e-3), epochs=2, random_state=0))
    assert not state.theta[-(p.k + 2) * p.k :].any()
    assert state.theta.any()


def test_constraints_hold_while_learning() -> None:
    rows = SimpleNamespace(indptr=[0, 1, 2, 3], indices=[0, 1, 0], values=[], offsets=[0, 2, 3])
    allowed = tag_constraints(["O", "B-X", "I-X"])
    solver = OnlineChain(rows, [1, 2, 0], 3, constraints=allowed, penalty=L1(0.0), epochs=3, random_state=0)
    assert np.isfinite(last(solver).loss)
    with pytest.raises(DataError, match="sentence 1, token 0: the gold labels break the constraints"):
        OnlineChain(rows, [1, 2, 2], 3, constraints=allowed)
    with pytest.raises(DataError, match="sentence 0, token 0"):
        OnlineChain(rows, [0, 2, 0], 3, constraints=allowed)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"loss": "squared"}, "there is no loss 'squared' for chains"),
        ({"penalty": LInf(1.0)}, "update='select' takes a penalty of block norms"),
        ({"penalty": GroupLasso(1.0, groups=[[0, 1], [2]]), "update": "forward-backward"}, "take update='select'"),
        ({"penalty": SparseGroupLasso(1.0), "update": "dual-averaging"}, "take update='select'"),
        ({"radius": 0.0}, "radius must be finite and > 0"),
        ({"penalty": GroupLasso(1.0, weights=[1.0])}, "one for each of the 3 blocks"),
        ({"penalty": L1(1.0), "update": "forward-backward"}, "needs update='dual-averaging'"),
        ({"update": "newton"}, "there is no update 'newton'"),
        ({"penalty": SparseMKL(1.0), "step": "adagrad"}, "AdaGrad on chains takes"),
        ({"step": "theory"}, "is no step for chains"),
        ({"penalty": L1(1.0), "average": True}, "has no mean of iterates"),
        ({"transitions": "free"}, "transitions must be"),
        ({"epochs": -1}, "epochs must be an integer >= 0"),
        ({"cost": -1.0}, "cost must be"),
    ],
)
def test_what_is_refused(more, message) -> None:
    p = problem(24)
    with pytest.raises((Unsupported, ValueError), match=message):
        OnlineChain(p.rows, p.y, p.k, blocks=p.blocks, **more)


def test_rows_that_do_not_fit() -> None:
    p = problem(25)
    with pytest.raises(DataError, match=f"there are 2 labels for {len(p.y)} tokens"):
        OnlineChain(p.rows, [0, 1], p.k)
    with pytest.raises(DataError, match="labels must be numbers from 0 to 1"):
        OnlineChain(p.rows, np.where(p.y == 2, 2, p.y), 2)
    bad = SimpleNamespace(indptr=[0, 1, 2], indices=[0, 1], values=[1.0, np.nan], offsets=[0, 1, 2])
    with pytest.raises(DataError, match="sentence 1, token 0: a feature's value is nan"):
        OnlineChain(bad, [0, 1], 2)
    with pytest.raises(DataError, match="the feature id -1"):
        OnlineChain(SimpleNamespace(indptr=[0, 1], indices=[-1], values=[], offsets=[0, 1]), [0], 2)
    with pytest.raises(DataError, match="rows do not fit together"):
        OnlineChain(SimpleNamespace(indptr=[0, 1], indices=[0], values=[], offsets=[0, 2]), [0, 1], 2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("ids", "values", "indptr", "offsets", "message"),
    [
        ([0, 7], [], [0, 2], [0, 1], "the feature id 7; ids are 0 to 6"),
        ([0, -3], [], [0, 2], [0, 1], "the feature id -3"),
        ([0, 1], [1.0], [0, 2], [0, 1], "1 values for 2 feature ids"),
        ([0, 1, 2], [1.0, 2.0, np.inf], [0, 1, 2, 3], [0, 1, 3], "sentence 1, token 1: a feature's value is inf"),
        ([0, 1], [], [0, 2, 1, 2], [0, 3], "do not fit together"),
        ([0, 1], [], [0, 1, 2], [0, 2, 1, 2], "do not fit together"),
        ([0, 1], [], [1, 2], [0, 1], "do not fit together"),
        ([], [], [], [0], "do not fit together"),
    ],
)
def test_bad_tokens_are_refused_with_their_place(ids, values, indptr, offsets, message, dtype) -> None:
    rows = SimpleNamespace(indices=np.array(ids, dtype=dtype), values=values, indptr=indptr, offsets=offsets)
    with pytest.raises(DataError, match=message):
        as_tokens(rows, 7)


def test_good_tokens_keep_their_numbers() -> None:
    rows = SimpleNamespace(indices=np.array([6, 0]), values=[2.0, -1.0], indptr=[0, 1, 1, 2], offsets=[0, 0, 3])
    tokens = as_tokens(rows, 7)
    assert (tokens.indices.tolist(), tokens.values.tolist(), len(tokens)) == ([6, 0], [2.0, -1.0], 2)


def noisy(sentences: int, seed: int):
    """Draw two blocks that tell the label, and three of noise with equally many features."""
    rng = np.random.default_rng(seed)
    n = sentences * 6
    y = rng.integers(0, 4, n)
    told = [np.where(rng.random(n) < 0.8, y * 5 + rng.integers(0, 5, n), rng.integers(0, 20, n)) for _ in range(2)]
    columns = [told[0], rng.integers(0, 20, n), rng.integers(0, 20, n), told[1], rng.integers(0, 20, n)]
    indices = np.stack([column + 20 * m for m, column in enumerate(columns)], axis=1).reshape(-1)
    rows = SimpleNamespace(
        indptr=np.arange(n + 1) * 5, indices=indices, values=np.zeros(0), offsets=np.arange(0, n + 1, 6)
    )
    return rows, y, as_blocks(SimpleNamespace(starts=np.arange(6) * 20, names=tuple("abcde")))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_selection_drops_noise_and_keeps_what_tells(seed: int) -> None:
    rows, y, blocks = noisy(300, seed)
    tokens, free = as_tokens(rows, 100), np.zeros((6, 4))
    found = select(tokens, y, blocks, free, "auto", random_state=seed)
    np.testing.assert_array_equal(found.kept, [0, 3])
    assert (found.evidence[[0, 3]] > 1).all()
    assert (found.evidence[[1, 2, 4]] < 1).all()
    assert select(tokens, y, blocks, free, 1, random_state=seed).kept.size == 1
    np.testing.assert_array_equal(select(tokens, y, blocks, free, 4, random_state=seed).kept[[0]], [0])
    assert select(tokens, y, blocks, free, 0.0, random_state=seed).kept.size == 5
    assert select(tokens, y, blocks, free, 100.0, random_state=seed).kept.size == 0


SELECTING = [
    GroupLasso(0.15),
    SparseMKL(0.06),
    ElasticNetMKL(0.06, l1_ratio=0.9),
    SparseGroupLasso(0.15, l1_ratio=0.002),
    Sum([GroupLasso(0.15), L1(3e-4)]),
    Sum([SparseMKL(0.06), SquaredL2(1e-3)]),
    # A tree over blocks: each alone, and the useful ones, the noise and all of them together.
    TreeGroupLasso(0.08, groups=[[0], [1], [2], [3], [4], [0, 3], [1, 2], [0, 1, 2, 3, 4]]),
]


@pytest.mark.parametrize("penalty", SELECTING, ids=repr)
def test_penalties_of_blocks_select_in_the_run_itself(penalty) -> None:
    rows, y, blocks = noisy(300, 4)
    solver = OnlineChain(rows, y, 4, blocks=blocks, penalty=penalty, update="select", epochs=4, random_state=0)
    states = list(solver)
    for state in states:
        W = state.theta[: 100 * 4].reshape(5, -1)
        np.testing.assert_array_equal(np.flatnonzero(W.any(axis=1)), [0, 3])
        np.testing.assert_array_equal(np.flatnonzero(state.block_norms), [0, 3])
    assert states[-1].loss < states[0].loss


def test_a_selection_resumes_to_the_same_bits_in_both_phases(tmp_path) -> None:
    rows, y, blocks = noisy(60, 5)
    make = lambda **more: OnlineChain(  # noqa: E731
        rows, y, 4, blocks=blocks, penalty=GroupLasso(0.3), update="select", epochs=4, random_state=3, **more
    )
    whole = list(make())
    for done in (1, 2):
        last(take(make(), done)).save(tmp_path / "state")
        resumed = list(make(start=State.load(tmp_path / "state")))
        assert len(resumed) == 4 - done
        for a, b in zip(whole[done:], resumed, strict=True):
            np.testing.assert_array_equal(a.theta, b.theta)


def test_a_selection_takes_penalties_with_a_form_on_blocks() -> None:
    p = problem(24)
    with pytest.raises(Unsupported, match="update='select' takes a penalty of block norms"):
        OnlineChain(p.rows, p.y, p.k, blocks=p.blocks, penalty=LInf(1.0), update="select")


def test_penalties_of_weights_and_blocks_together_select_by_default() -> None:
    rows, y, blocks = noisy(60, 5)
    tree = TreeGroupLasso(0.3, groups=[[0, 3], [3], [1], [2], [4]])
    for penalty in (
        SparseGroupLasso(0.3, l1_ratio=0.01),
        tree,
        Sum([tree, L1(1e-3)]),
        Sum([GroupLasso(0.3), L1(1e-3)]),
    ):
        solver = OnlineChain(rows, y, 4, blocks=blocks, penalty=penalty, epochs=2, random_state=0)
        assert solver.update == "select"
        assert 0 < np.count_nonzero(last(solver).block_norms) < len(blocks.names)
    form = selection_form(Sum([tree, L1(1e-3), SquaredL2(0.2)]), 5)
    assert form.elastic == (1e-3, 0.2)
    norms = np.array([1.0, 0.2, 0.1, 2.0, 0.05])
    np.testing.assert_allclose(form.norms.prox(norms, 0.5), tree.prox(norms, 0.5))


def test_weights_of_blocks_are_the_fourth_roots_of_squared_shares() -> None:
    """Check a feature in every token, with share 1, and 100 that occur once, with shares 1/100: norms 1 and 1/10."""
    n = 100
    indices = np.stack([np.zeros(n, dtype=np.int64), 1 + np.arange(n)], axis=1).reshape(-1)
    rows = SimpleNamespace(indptr=2 * np.arange(n + 1), indices=indices, values=[], offsets=[0, n])
    blocks = as_blocks(SimpleNamespace(starts=[0, 1, 101, 101], names=("constant", "singletons", "none")))
    roots = np.array([1.0, np.sqrt(0.1), 0.0])
    found = block_weights(as_tokens(rows, 101), blocks)
    np.testing.assert_allclose(found[:2], roots[:2] / roots.mean())
    assert found[2] > 0.0
