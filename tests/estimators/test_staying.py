"""partial_fit of rows with few entries: the run stays between calls, and nobody can tell but by the clock."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from spom import OnlineClassifier, OnlineRegressor, load_model
from spom.losses import PowerHinge
from spom.penalties import L1, ElasticNet, GroupLasso, SquaredL2

WIDE = 400
SETTINGS: list[dict[str, Any]] = [
    {},
    {"penalty": L1(1e-3)},
    {"penalty": ElasticNet(1e-3, 1e-2), "fit_intercept": False},
    {"penalty": SquaredL2(0.1), "update": "forward-backward", "step": "sqrt"},
    {"penalty": L1(1e-2), "update": "forward-backward", "step": "adagrad"},
    {"penalty": L1(1e-2), "update": "forward-backward"},
    {"penalty": ElasticNet(1e-3, 0.5), "update": "forward-backward", "step": 0.5, "batch_size": 2},
    {"penalty": L1(1e-3), "update": "dual-averaging"},
    {"penalty": L1(1e-3), "update": "dual-averaging", "step": "adagrad", "batch_size": 2},
]


def blocks(classes: int = 2, count: int = 60, seed: int = 0) -> list[tuple[Any, Any]]:
    random = np.random.default_rng(seed)
    found = []
    for k in range(count):
        X = sparse.random(1 + k % 3, WIDE, density=0.02, format="csr", random_state=seed + k)
        found.append((X, random.integers(0, classes, X.shape[0])))
    return found


def learnt(model: Any, data: Any, classes: int = 2) -> Any:
    for X, y in data:
        model.partial_fit(X, y, classes=range(classes))
    return model


def same(a: Any, b: Any) -> None:
    for name in ("coef_", "intercept_", "n_rounds_", "converged_"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.history_.loss == b.history_.loss


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_is_the_stream_of_the_same_blocks(settings, classes):
    """`fit` on the blocks brings every weight up to date after each of them."""
    if classes == 3 and settings.get("update") == "dual-averaging":
        pytest.skip("for several classes all weights are updated in each round")
    model = OnlineClassifier(**settings, epochs=1, random_state=0, verbose=0)
    pieces, whole = (
        learnt(clone(model), blocks(classes), classes),
        clone(model).fit(blocks(classes), classes=range(classes)),
    )
    assert classes == 3 or "_live" in vars(pieces)
    np.testing.assert_allclose(pieces.coef_, whole.coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(pieces.intercept_, whole.intercept_, rtol=1e-9, atol=1e-11)
    assert pieces.n_rounds_ == whole.n_rounds_
    assert np.abs(whole.coef_).sum() > 0


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_nobody_can_tell(settings, tmp_path):
    """Reading, copying and pickling between the calls leave the bits as they are."""
    model = OnlineClassifier(**settings, random_state=0, verbose=0)
    plain = learnt(clone(model), blocks())
    read = clone(model)
    for k, block in enumerate(blocks()):
        learnt(read, [block])
        if k % 7 == 3:
            assert read.coef_.shape == (1, WIDE)
        if k % 11 == 5:
            read = pickle.loads(pickle.dumps(read))
        if k % 13 == 6:
            read = copy.deepcopy(read)
    same(plain, read)
    plain.save(tmp_path / "a.spom")
    same(plain, load_model(tmp_path / "a.spom"))


def test_several_classes_and_targets():
    rows = OnlineClassifier(penalty=GroupLasso(1e-3, groups="rows"), random_state=0, verbose=0)
    same(learnt(clone(rows), blocks(4), 4), pickle.loads(pickle.dumps(learnt(clone(rows), blocks(4), 4))))
    whole = clone(rows).set_params(epochs=1).fit(blocks(4), classes=range(4))
    np.testing.assert_allclose(learnt(clone(rows), blocks(4), 4).coef_, whole.coef_, rtol=1e-9, atol=1e-11)
    regressor = OnlineRegressor(penalty=L1(1e-3), random_state=0, verbose=0)
    for X, y in blocks():
        regressor.partial_fit(X, y.astype(float))
    whole = OnlineRegressor(penalty=L1(1e-3), epochs=1, random_state=0, verbose=0)
    whole.fit([(X, y.astype(float)) for X, y in blocks()])
    np.testing.assert_allclose(regressor.coef_, whole.coef_, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("update", ["forward-backward", "auto"])
def test_new_parameters_count_from_the_next_call_on(update):
    model = OnlineClassifier(penalty=L1(1e-4), update=update, step="auto", random_state=0, verbose=0)
    learnt(model, blocks())
    before = np.count_nonzero(model.coef_)
    again = learnt(clone(model), blocks())
    for one in (model, again):
        one.set_params(penalty__strength=0.005)
    again = pickle.loads(pickle.dumps(again))
    same(learnt(model, blocks(seed=100)), learnt(again, blocks(seed=100)))
    assert np.count_nonzero(model.coef_) < before


@pytest.mark.parametrize("settings", [SETTINGS[3], {**SETTINGS[3], "penalty": L1(1e-3)}], ids=str)
def test_a_step_that_is_too_large_is_taken_back(settings):
    data = blocks()
    model = learnt(OnlineClassifier(**{**settings, "loss": PowerHinge(2.0)}, random_state=0, verbose=0), data)
    twin = learnt(clone(model), data)
    huge = data[0][0] * 1e200
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises((FloatingPointError, ValueError)):
        model.partial_fit(huge, 1 - twin.predict(huge))
    same(model, twin)
    same(learnt(model, data), learnt(twin, data))


def test_a_large_block_and_a_fit_end_the_stay():
    model, twin = (learnt(OnlineClassifier(penalty=L1(1e-3), random_state=0, verbose=0), blocks()) for _ in range(2))
    large = sparse.random(300, WIDE, density=0.1, format="csr", random_state=5)
    target = np.arange(300) % 2
    model.partial_fit(large, target)
    assert "_live" not in vars(model)
    assert model.coef_.shape == (1, WIDE)
    same(
        learnt(model, blocks(seed=9)),
        learnt(pickle.loads(pickle.dumps(twin)).partial_fit(large, target), blocks(seed=9)),
    )
    fresh = clone(model).fit(large, target)
    same(model.fit(large, target), fresh)
    assert "_live" not in vars(model)


def test_threads_may_read_at_the_same_time():
    model = learnt(OnlineClassifier(penalty=L1(1e-3), random_state=0, verbose=0), blocks())
    for block in blocks(seed=3):
        learnt(model, [block])
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(model.decision_function, [block[0]] * 8))
        assert all(np.array_equal(found[0], one) for one in found)
