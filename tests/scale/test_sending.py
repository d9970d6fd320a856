"""What travels, and what stays: states once per process, tables without zeros, caches that are bounded."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import OnlineClassifier, SequenceTagger
from spom.errors import DataError
from spom.penalties import L1, GroupLasso
from spom.scale import Shards, fit
from spom.scale.executor import Processes, Threads
from spom.scale.sending import packed, unpacked, weight
from spom.scale.team import Team
from spom.scale.worker import CACHE, Cache, room, weighed
from tests.scale.test_tagger import TRAIN, tagger

rng = np.random.default_rng(2)
X = rng.standard_normal((300, 5))
y = X[:, 0] > 0


class Counting:
    """A state that notes in a file who unpacks it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with open(self.mark, "a") as file:
            file.write(f"{os.getpid()}\n")


def asks(common: Any, state: Any, shard: Any, index: int) -> int:
    return index if state is not None else -1


def test_a_state_is_unpacked_once_by_each_process_and_data_are_sent_once(tmp_path: Path) -> None:
    executor = Processes(2)
    team = Team(executor, list(Shards.arrays(np.zeros((8000, 50)), np.zeros(8000), 8)), "raise")
    try:
        team.teach(None)
        assert list(team.each("ask", asks, Counting(tmp_path / "mark"))) == list(range(8))
        assert list(team.each("ask", asks, Counting(tmp_path / "mark"))) == list(range(8))
    finally:
        team.close()
        executor.close()
    counts = Counter((tmp_path / "mark").read_text().split())
    assert max(counts.values()) <= 2
    first, second = team.report
    assert second["sent"] < 20_000 < first["sent"] + 8 * 400_000
    assert {"phase", "compute", "transfer", "waited", "seconds", "sent", "bytes"} == set(first)
    assert second["bytes"] > second["sent"] > 0


def test_blocks_that_are_off_are_not_sent() -> None:
    table = rng.standard_normal((1000, 8)).astype(np.float32)
    dense = weight(packed({"table": table}))
    table[100:] = 0.0
    assert weight(packed({"table": table})) < dense / 4
    np.testing.assert_array_equal(unpacked(packed({"table": table}))["table"], table)
    few = fit(
        tagger(templates=["w[0]", "1[0]"], penalty=GroupLasso(0.02)), Shards.arrays(TRAIN, None, 2), client="processes"
    )
    here = fit(tagger(templates=["w[0]", "1[0]"], penalty=GroupLasso(0.02)), Shards.arrays(TRAIN, None, 2))
    np.testing.assert_array_equal(few.weights_, here.weights_)


def test_large_arrays_are_sent_as_they_lie_in_memory_and_arrive_where_kernels_can_take_them() -> None:
    table, rows = rng.standard_normal((3000, 8)).astype(np.float32), np.arange(5)
    frames = packed({"table": table, "rows": rows, "none": np.zeros(0)})
    assert [np.shares_memory(frame, table) for frame in frames[1:]] == [True]
    for shift in range(20):
        there = np.zeros(table.nbytes + shift, dtype=np.uint8)
        there[shift:] = frames[1]
        found = unpacked([frames[0], there[shift:]])
        assert found["table"].flags.behaved
        np.testing.assert_array_equal(found["table"], table)
    np.testing.assert_array_equal(found["rows"], rows)
    assert found["none"].size == 0


def test_the_cache_is_bounded_and_forgets_fits() -> None:
    cache = Cache()
    made: list[int] = []

    def make(k: int) -> Any:
        made.append(k)
        return np.zeros(1000)

    for k in (0, 1, 2, 0, 1, 2):
        cache.get((("fit", 1), k), lambda k=k: make(k), 17_000)  # type: ignore[misc]
    assert made == [0, 1, 2, 0, 1, 2]
    cache.get((("other", 1), 0), lambda: make(9), 1 << 20)
    cache.forget("fit")
    assert len(cache._kept) == 1
    assert weighed([np.zeros(10)] * 1000) == 80_000
    assert 0 < room(4) <= room(1)


def test_a_file_is_parsed_once_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spom.scale import recipes

    lines = ["".join(" ".join(token) + "\n" for token in s) for s in TRAIN]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    loads: list[str] = []
    before = recipes.TextShard.load
    monkeypatch.setattr(recipes.TextShard, "load", lambda self: (loads.append(str(self)), before(self))[1])
    fit(tagger(), Shards.conll(tmp_path / "train.conll", 3), n_jobs=2)
    assert len(loads) == len(set(loads)) == 3
    assert not CACHE._kept


def test_data_that_change_during_a_run_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svm"
    path.write_text("\n".join(f"{int(v > 0)} 1:{v:.3f}" for v in X[:, 0]))

    class Change:
        def on_epoch(self, info: dict[str, Any]) -> None:
            if info["epoch"] == 1:
                path.write_text(path.read_text().replace("1:", "2:"))
                CACHE._kept.clear()

    model = OnlineClassifier(penalty=L1(0.01), random_state=0, verbose=0, callbacks=[Change()])
    with pytest.raises(DataError, match=r"a\.svm, bytes .*not the data of the first pass.*this worker has another one"):
        fit(model, Shards.svmlight(path, 2))


def test_tasks_have_names_that_people_can_read() -> None:
    utils = pytest.importorskip("dask.utils")
    from spom.scale.on_dask import Dask

    class Client:
        status, keys = "running", list[str]()

        def submit(self, *arguments: Any, key: str, pure: bool) -> Any:
            self.keys.append(key)

    executor = Dask(Client(), 1.0)
    executor.hold(None)
    executor.submit(print, (), (), "spom-learn")
    assert [utils.key_split(key) for key in Client.keys] == ["spom-state", "spom-learn"]


def test_an_executor_of_the_user_is_taken_as_it_is() -> None:
    class Noting(Threads):
        names: list[str] = []  # noqa: RUF012 - one list for the test

        def submit(self, function: Any, held: Any, arguments: Any, name: str, shard: Any = None) -> Any:
            self.names.append(name)
            return super().submit(function, held, arguments, name, shard)

    model = fit(OnlineClassifier(penalty=L1(0.01), random_state=0, verbose=0), Shards.arrays(X, y, 2), client=Noting(1))
    assert set(Noting.names) == {"spom-look", "spom-learn"}
    assert model.score(X, y) > 0.9


def test_kernels_and_proximal_points_say_what_to_use() -> None:
    from spom import MKLClassifier
    from spom.errors import Unsupported

    with pytest.raises(Unsupported, match=r"kernels have weights for each example: use OnlineClassifier on features"):
        fit(MKLClassifier(solver="frank-wolfe"), Shards.arrays(X, y, 2))
    with pytest.raises(Unsupported, match="kernels= needs all sentences at once"):
        fit(SequenceTagger(kernels=["linear"]), Shards.arrays(TRAIN, None, 2))
