"""What is promised about faults, with real processes: the same bits whichever workers die, errors that say where."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import OnlineClassifier
from spom.errors import SpomError
from spom.penalties import L1
from spom.scale import Shards, fit, predict
from spom.scale.recipes import ArrayShard
from tests.scale.cluster import kill, local_cluster
from tests.scale.test_tagger import TRAIN, tagger

pytest.importorskip("distributed")
# What waits for new processes takes a minute: `SPOM_SLOW=1 make test` runs it too.
slow = pytest.mark.skipif(not os.environ.get("SPOM_SLOW"), reason="slow: set SPOM_SLOW=1 to run it")

rng = np.random.default_rng(1)
X = rng.standard_normal((600, 8))
y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(600) > 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, Any]]:
    with local_cluster(3) as found:
        yield found


def model(**given: Any) -> OnlineClassifier:
    return OnlineClassifier(**{"penalty": L1(0.02), "random_state": 5, "verbose": 0, "epochs": 4, **given})


def expected() -> Any:
    return fit(model(), Shards.arrays(X, y, 6), n_jobs=1).coef_


class Killing(ArrayShard):
    """A shard whose first loads end the process that makes them; `mark` counts them."""

    def __init__(self, shard: ArrayShard, mark: Path, loads: tuple[int, ...]) -> None:
        super().__init__(shard.where, shard.X, shard.y, shard.weight)
        object.__setattr__(self, "mark", mark)
        object.__setattr__(self, "loads", loads)

    def load(self) -> Any:
        mark: Path = self.mark  # type: ignore[attr-defined]
        done = len(mark.read_text()) if mark.exists() else 0
        mark.write_text("x" * (done + 1))
        if done in self.loads:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load()


class KillAfter:
    """Ends workers after an epoch, as a lost machine would."""

    def __init__(self, client: Any, epoch: int, **how: Any) -> None:
        self.client, self.epoch, self.how = client, epoch, how

    def on_epoch(self, info: dict[str, Any]) -> None:
        if info["epoch"] == self.epoch:
            kill(self.client, **self.how)


def with_killer(tmp_path: Path, *loads: int) -> Shards:
    parts = list(Shards.arrays(X, y, 6))
    return Shards([Killing(parts[0], tmp_path / "mark", loads), *parts[1:]])  # type: ignore[arg-type]


def test_a_cluster_gives_the_bits_of_one_thread(cluster: Any) -> None:
    np.testing.assert_array_equal(fit(model(), Shards.arrays(X, y, 6), client=cluster[1]).coef_, expected())
    one = fit(model(), Shards.arrays(X, y, 1), client=cluster[1])
    np.testing.assert_array_equal(one.coef_, fit(model(), Shards.arrays(X, y, 1)).coef_)


# Load 0 is that of the first pass, load 1 that of the first epoch on whichever worker.
@pytest.mark.parametrize("loads", [(0,), (1,), (0, 1)], ids=["reading", "learning", "both"])
def test_a_worker_lost_in_a_phase_changes_nothing(cluster: Any, tmp_path: Path, loads: tuple[int, ...]) -> None:
    found = fit(model(), with_killer(tmp_path, *loads), client=cluster[1])
    assert len((tmp_path / "mark").read_text()) > len(loads)
    np.testing.assert_array_equal(found.coef_, expected())


@pytest.mark.parametrize("load", [0, 1, 2], ids=["reading", "counting", "learning"])
def test_a_worker_lost_by_a_tagger_changes_nothing(cluster: Any, tmp_path: Path, load: int) -> None:
    """Lose a worker in each phase of a tagger that opens shards: labels, features, passes."""
    parts = list(Shards.arrays(TRAIN[:120], None, 3))
    killer: Any = Killing(parts[0], tmp_path / "mark", (load,))  # type: ignore[arg-type]
    found = fit(tagger(epochs=2), Shards([killer, *parts[1:]]), client=cluster[1])
    assert len((tmp_path / "mark").read_text()) > load
    np.testing.assert_array_equal(found.weights_, fit(tagger(epochs=2), Shards(parts)).weights_)


def test_a_worker_lost_while_scoring_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    one = fit(model(), Shards.arrays(X, y, 6))
    found = predict(one, with_killer(tmp_path, 0), client=cluster[1])
    assert len((tmp_path / "mark").read_text()) == 2
    np.testing.assert_array_equal(found, one.predict(X))


def test_all_but_one_killed_between_passes_and_in_one(cluster: Any) -> None:
    watch = KillAfter(cluster[1], 2, but=1)
    found = fit(model(callbacks=[watch]), Shards.arrays(X, y, 6), client=cluster[1])
    np.testing.assert_array_equal(found.coef_, expected())


@slow
def test_a_shard_that_kills_every_worker_is_named_or_skipped(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(SpomError, match=r"shard 1 of 6 \(items 0 to 99\): it ended the workers that ran it"):
        fit(model(), with_killer(tmp_path, *range(50)), client=cluster[1])
    with pytest.warns(UserWarning, match="1 of 6 shards could not be read and were left out; the first is items 0 to"):
        found = fit(model(), with_killer(tmp_path, *range(50)), client=cluster[1], on_error="skip")
    assert found.score(X, y) > 0.8


def test_two_fits_on_one_cluster_do_not_disturb_each_other(cluster: Any) -> None:
    found: dict[int, Any] = {}

    def work(seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[seed] = fit(model(random_state=seed), Shards.arrays(X, y, 6), client=cluster[1]).coef_

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found[5], expected())
    np.testing.assert_array_equal(found[6], fit(model(random_state=6), Shards.arrays(X, y, 6)).coef_)


@slow
def test_no_workers_is_an_error_that_names_the_checkpoint_and_a_new_cluster_resumes(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    with local_cluster(1) as (cluster, client):

        class Retire:
            def on_epoch(self, info: dict[str, Any]) -> None:
                if info["epoch"] == 2:
                    cluster.scale(0)

        watched = model(callbacks=[Retire()])
        with pytest.raises(SpomError, match=r"no workers for 2 seconds.*resume from the checkpoint .*run\.checkpoint"):
            fit(watched, Shards.arrays(X, y, 6), client=client, checkpoint=path, checkpoint_every=1, timeout=2.0)
    with local_cluster(2) as (_, client):
        again = fit(model(), Shards.arrays(X, y, 6), client=client, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.coef_, expected())


@slow
def test_a_scheduler_that_is_lost_is_an_error_and_a_new_cluster_resumes(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    with local_cluster(2) as (cluster, client):

        class Close:
            def on_epoch(self, info: dict[str, Any]) -> None:
                if info["epoch"] == 2:
                    cluster.close()

        watched = model(callbacks=[Close()])
        with pytest.raises(SpomError, match=r"resume from the checkpoint .*run\.checkpoint"):
            fit(watched, Shards.arrays(X, y, 6), client=client, checkpoint=path, checkpoint_every=1, timeout=2.0)
    with local_cluster(2) as (_, client):
        again = fit(model(), Shards.arrays(X, y, 6), client=client, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.coef_, expected())


@slow
def test_a_worker_that_joins_late_changes_nothing() -> None:
    with local_cluster(1) as (cluster, client):

        class Grow:
            def on_epoch(self, info: dict[str, Any]) -> None:
                if info["epoch"] == 1:
                    cluster.scale(3)
                    client.wait_for_workers(3, timeout=60)

        found = fit(model(callbacks=[Grow()]), Shards.arrays(X, y, 6), client=client)
    np.testing.assert_array_equal(found.coef_, expected())


def test_results_come_through_the_scheduler_where_workers_cannot_be_reached(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = cluster
    asked = []

    def refused(address: str) -> None:
        asked.append(address)
        raise OSError("no route to host")

    monkeypatch.setattr(client, "rpc", refused)
    found = fit(model(), Shards.arrays(X, y, 6), client=client)
    np.testing.assert_array_equal(found.coef_, expected())
    assert len(asked) == 1  # one worker was asked, and then none


def test_an_address_is_enough(cluster: Any) -> None:
    found = fit(model(), Shards.arrays(X, y, 6), client=cluster[0].scheduler_address)
    np.testing.assert_array_equal(found.coef_, expected())
    with pytest.raises(SpomError, match="no Dask scheduler at tcp"):
        fit(model(), Shards.arrays(X, y, 6), client="tcp://127.0.0.1:1", timeout=1.0)


def test_grid_search_runs_on_the_cluster_through_joblib(cluster: Any) -> None:
    import joblib
    from sklearn.model_selection import GridSearchCV

    grid = {"penalty__strength": [0.5, 0.01]}
    here = GridSearchCV(model(n_jobs=1), grid, cv=2).fit(X, y)
    with joblib.parallel_config(backend="dask", client=cluster[1]):
        there = GridSearchCV(model(n_jobs=1), grid, cv=2).fit(X, y)
    np.testing.assert_array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
    assert there.best_params_ == here.best_params_ == {"penalty__strength": 0.01}


def test_a_worker_of_another_version_is_told() -> None:
    from spom.scale.worker import Common, run

    with pytest.raises(SpomError, match=r"a worker has spom .*, the driver has 0\.0\.1 for other"):
        run(Common(("fit", 1), ("0.0.1", "other"), None, {}), None, print, None)
