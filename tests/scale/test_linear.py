"""Linear models from shards: the same bits wherever they are learnt, and the optimum where it is asked for."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse

from spom import OnlineClassifier, OnlineRegressor, ProximalClassifier, ProximalRegressor, load_model
from spom.errors import DataError, Unsupported
from spom.penalties import L1, ElasticNet, GroupLasso, SquaredL2
from spom.scale import Shards, fit

rng = np.random.default_rng(7)
X = rng.standard_normal((900, 12))
margin = X[:, 0] - 2.0 * X[:, 1] + 0.5 * rng.standard_normal(900)
two = np.where(margin > 0, "yes", "no")
three = np.digitize(margin, [-1.0, 1.0])

ONLINE: list[dict[str, Any]] = [
    {},
    {"penalty": L1(0.02)},
    {"penalty": L1(0.02), "update": "dual-averaging"},
    {"penalty": ElasticNet(0.02, 0.5), "update": "dual-averaging", "step": "adagrad"},
    {"penalty": L1(0.02), "update": "forward-backward", "step": "sqrt"},
    {"penalty": GroupLasso(0.02, groups=3)},
]


def saved(model: Any, folder: Path) -> bytes:
    model.save(folder / "model.spom")
    return (folder / "model.spom").read_bytes()


def online(**given: Any) -> OnlineClassifier:
    return OnlineClassifier(random_state=3, verbose=0, epochs=5, **given)


@pytest.mark.parametrize("given", ONLINE, ids=str)
@pytest.mark.parametrize("y", [two, three], ids=["two", "three"])
def test_any_number_of_threads_gives_the_same_file(given: dict[str, Any], y: Any, tmp_path: Path) -> None:
    if y is three and given.get("update") == "dual-averaging":
        given = {**given, "step": "sqrt"}
    models = [saved(fit(online(**given), Shards.arrays(X, y, 6), n_jobs=n), tmp_path) for n in (1, 2, 5)]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize("given", ONLINE, ids=str)
def test_shards_learn_what_one_machine_learns(given: dict[str, Any]) -> None:
    whole = online(**given).fit(X, two)
    parts = fit(online(**given), Shards.arrays(X, two, 6))
    assert parts.score(X, two) > whole.score(X, two) - 0.01
    assert {0, 1} <= set(np.flatnonzero(parts.coef_).tolist())
    if given.get("update") == "dual-averaging" and isinstance(given["penalty"], L1):
        # The prox comes after the sum: what is noise is exactly zero.
        np.testing.assert_array_equal(np.flatnonzero(parts.coef_), [0, 1])


@pytest.mark.parametrize(
    "penalty", [SquaredL2(0.01), L1(0.02), ElasticNet(0.02, 0.5), GroupLasso(0.03, groups=3)], ids=str
)
@pytest.mark.parametrize("regression", [False, True])
def test_exact_gradients_find_the_same_optimum(penalty: Any, regression: bool) -> None:
    kind, y = (ProximalRegressor, margin) if regression else (ProximalClassifier, two)
    whole = kind(penalty=penalty, verbose=0, tol=1e-10).fit(X, y)
    parts = fit(kind(penalty=penalty, verbose=0, tol=1e-10), Shards.arrays(X, y, 7))
    assert parts.converged_
    assert abs(parts.objective_ - whole.objective_) < 1e-8
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-5)


@pytest.mark.parametrize("penalty", [SquaredL2(0.01), L1(0.02), ElasticNet(0.02, 0.5)], ids=str)
@pytest.mark.parametrize("y", [two, three, margin], ids=["two", "three", "margin"])
def test_the_gap_of_shards_bounds_the_distance_to_the_optimum(penalty: Any, y: Any) -> None:
    kind = ProximalRegressor if y is margin else ProximalClassifier
    best = kind(penalty=penalty, verbose=0, tol=1e-11).fit(X, y).objective_
    early = fit(kind(penalty=penalty, verbose=0, tol=1e-2), Shards.arrays(X, y, 7))
    late = fit(kind(penalty=penalty, verbose=0, tol=1e-9), Shards.arrays(X, y, 7))
    for found in (early, late):
        assert found.dual_gap_ >= found.objective_ - best - 1e-10
    assert late.dual_gap_ < 1e-8


def test_blas_has_one_thread_while_shards_are_at_work() -> None:
    from threadpoolctl import ThreadpoolController, threadpool_limits

    from spom.scale.blas import OneThread

    def threads() -> set[int]:
        return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with OneThread(), OneThread():
            assert threads() == {1}
        assert threads() == before


def test_exact_gradients_agree_with_scipy() -> None:
    weight = rng.uniform(0.5, 2.0, 900)
    signs, share = np.where(two == "yes", 1.0, -1.0), weight / weight.sum()

    def objective(theta: Any) -> float:
        scores = X @ theta[:-1] + theta[-1]
        return float(share @ np.logaddexp(0.0, -signs * scores) + 0.005 * theta[:-1] @ theta[:-1])

    best = optimize.minimize(objective, np.zeros(13), method="BFGS", options={"gtol": 1e-9})
    shards = Shards.arrays(X, two, 4, sample_weight=weight)
    found = fit(ProximalClassifier(penalty=SquaredL2(0.01), verbose=0, tol=1e-9), shards)
    assert abs(found.objective_ - best.fun) < 1e-8
    np.testing.assert_allclose([*found.coef_[0], found.intercept_[0]], best.x, atol=1e-4)


def test_empty_shards_and_classes_missing_from_a_shard() -> None:
    order = np.argsort(three, kind="stable")
    few = order[[0, 1, 300, 301, -2, -1]]
    model = fit(online(penalty=SquaredL2(0.01)), Shards.arrays(X[few], three[few], 20))
    assert model.classes_.tolist() == [0, 1, 2]
    sorted_by_class = fit(online(penalty=SquaredL2(0.001)), Shards.arrays(X[order], three[order], 8))
    assert sorted_by_class.score(X, three) > 0.6


def test_sparse_shards_may_end_at_different_columns(tmp_path: Path) -> None:
    rows = [f"{int(m > 0)} {1 + k % (3 if k < 450 else 9)}:{m:.3f}" for k, m in enumerate(margin)]
    (tmp_path / "a.svm").write_text("\n".join(rows))
    model = fit(online(penalty=L1(1e-3)), Shards.svmlight(tmp_path / "a.svm", 4))
    assert model.n_features_in_ == 9
    dense = sparse.csr_matrix(np.eye(9))
    assert model.predict(dense).shape == (9,)


def test_a_resumed_run_gives_the_same_file(tmp_path: Path) -> None:
    class Stop:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            return bool(info["epoch"] == 2)

    shards, path = Shards.arrays(X, two, 5), tmp_path / "run.checkpoint"
    for given in ONLINE:
        whole = saved(fit(online(**given), shards), tmp_path)
        first = online(**given, callbacks=[Stop()])
        fit(first, shards, checkpoint=path, checkpoint_every="stop")
        model = fit(online(**given), shards, checkpoint=path, resume=True, n_jobs=1)
        assert saved(model, tmp_path) == whole
        os.unlink(path)


def test_a_checkpoint_of_other_shards_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    fit(online(penalty=L1(0.1)), Shards.arrays(X, two, 5), checkpoint=path)
    with pytest.raises(DataError, match="another run: shards"):
        fit(online(penalty=L1(0.1)), Shards.arrays(X, two, 4), checkpoint=path, resume=True)


def test_the_batch_objective_resumes_too(tmp_path: Path) -> None:
    shards, path = Shards.arrays(X, two, 3), tmp_path / "run.checkpoint"
    model = ProximalClassifier(penalty=L1(0.01), verbose=0, tol=1e-8)
    whole = fit(model, shards).coef_.copy()
    short = ProximalClassifier(penalty=L1(0.01), verbose=0, tol=1e-8, max_iter=7)
    with pytest.warns(UserWarning, match="stopped after 7 rounds"):
        fit(short, shards, checkpoint=path, checkpoint_every=1)
    short.set_params(max_iter=10_000)
    np.testing.assert_array_equal(fit(short, shards, checkpoint=path, resume=True).coef_, whole)
    np.testing.assert_array_equal(fit(model, shards, n_jobs=1).coef_, whole)


def test_a_regressor_and_its_file(tmp_path: Path) -> None:
    model = fit(OnlineRegressor(penalty=L1(0.01), random_state=0, verbose=0), Shards.arrays(X, margin, 4))
    model.save(tmp_path / "model.spom")
    np.testing.assert_array_equal(load_model(tmp_path / "model.spom").predict(X), model.predict(X))
    assert model.score(X, margin) > 0.9


def test_development_data_choose_the_pass() -> None:
    model = fit(online(penalty=L1(0.02)), Shards.arrays(X, two, 4), dev=(X[:100], two[:100]))
    assert len(model.history_.k) == 5


def test_a_shard_that_cannot_be_read_is_told_or_skipped(tmp_path: Path) -> None:
    rows = [f"{int(m > 0)} 1:{m:.3f}" for m in margin]
    (tmp_path / "a.svm").write_text("\n".join(rows))
    shards = Shards.svmlight(tmp_path / "a.svm", 4)
    rows[700] = "1 one:2"
    (tmp_path / "a.svm").write_text("\n".join(rows).replace("1 one:2", "1 one:2".ljust(len(f"1 1:{margin[700]:.3f}"))))
    with pytest.raises(DataError, match=r"a\.svm, bytes \d+-\d+, line 701: expected a feature index"):
        fit(online(penalty=L1(1e-3)), shards)
    with pytest.warns(UserWarning, match=r"1 of 4 shards could not be read .*line 701"):
        model = fit(online(penalty=L1(1e-3)), shards, on_error="skip")
    assert model.coef_[0, 0] > 0


def test_what_cannot_be_merged_says_what_to_use() -> None:
    from spom import MKLClassifier

    with pytest.raises(Unsupported, match="use OnlineClassifier"):
        fit(MKLClassifier(), Shards.arrays(X, two, 2))
    with pytest.raises(Unsupported, match="dev"):
        fit(online(early_stopping=True), Shards.arrays(X, two, 2))


class Kills:
    """A shard that ends the process that loads it, unless its file says that this has been done."""

    outside = True

    def __init__(self, mark: Path, times: int) -> None:
        self.mark, self.times = mark, times

    def load(self) -> Any:
        done = len(self.mark.read_text()) if self.mark.exists() else 0
        if done < self.times:
            self.mark.write_text("x" * (done + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return X[:300], two[:300], None

    def stamp(self, loaded: Any) -> str:
        return "kills"

    def __str__(self) -> str:
        return "the shard that kills"


def test_processes_that_die_are_replaced(tmp_path: Path) -> None:
    rest = list(Shards.arrays(X[300:], two[300:], 2))
    plain = Shards([*Shards.arrays(X[:300], two[:300], 1), *rest])
    expected = fit(online(penalty=L1(0.02)), plain).coef_
    shards = Shards([Kills(tmp_path / "mark", 1), *rest])
    model = fit(online(penalty=L1(0.02)), shards, client="processes", n_jobs=2)
    np.testing.assert_array_equal(model.coef_, expected)
