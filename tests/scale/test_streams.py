"""Streams: every online estimator learns from an iterator, in windows that a seed shuffles, in flat memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom import DependencyParser, OnlineClassifier, OnlineRegressor, SequenceTagger, load_model
from spom.data import iter_conllu
from spom.data.conllu import conllu_text
from spom.errors import DataError, Unsupported
from spom.penalties import L1
from spom.scale import Shards, Stream
from tests.scale.test_parser import trees
from tests.scale.test_tagger import TEST, TRAIN, sentences, tagger

rng = np.random.default_rng(5)
X = rng.standard_normal((700, 6))
y = np.where(X[:, 0] - X[:, 1] > 0, "yes", "no")


def blocks(size: int) -> Iterator[tuple[Any, Any]]:
    return ((X[a : a + size], y[a : a + size]) for a in range(0, len(y), size))


@pytest.mark.parametrize("size", [1, 37, 128, 700])
def test_windows_do_not_depend_on_the_blocks_of_the_source(size: int) -> None:
    found = list(Stream(blocks(size), window=128, seed=3))
    assert [len(labels) for _, labels in found] == [128] * 5 + [60]
    other = list(Stream(zip(X, y, strict=True), window=128, seed=3))
    for (a, b), (c, d) in zip(found, other, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
    assert sorted(map(tuple, np.concatenate([a for a, _ in found]).tolist())) == sorted(map(tuple, X.tolist()))
    assert not np.array_equal(found[0][0], X[:128])
    plain = np.concatenate([a for a, _ in Stream(blocks(size), window=100, shuffle=False)])
    np.testing.assert_array_equal(plain, X)


def test_a_seed_gives_the_same_order_and_each_pass_has_its_own() -> None:
    stream = Stream(list(blocks(50)), window=200, seed=1)
    first, again, second = (next(stream.windows(k))[0] for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("kind", ["dense", "sparse", "single"])
def test_linear_models(kind: str) -> None:
    source: Any = list(blocks(64))
    if kind == "sparse":
        source = [(sparse.csr_matrix(a), b) for a, b in source]
    if kind == "single":
        source = list(zip(X, y, strict=True))
    model = OnlineClassifier(penalty=L1(0.01), random_state=0, verbose=0, epochs=3)
    assert model.fit(Stream(source, window=256, seed=0), classes=["no", "yes"]).score(X, y) > 0.9
    assert model.fit(iter(source), classes=["no", "yes"]).score(X, y) > 0.9
    same = OnlineClassifier(penalty=L1(0.01), random_state=0, verbose=0, epochs=3)
    np.testing.assert_array_equal(same.fit(iter(source), classes=["no", "yes"]).coef_, model.coef_)
    targets = OnlineRegressor(random_state=0, verbose=0).fit((row, float(row[0])) for row in X)
    assert targets.score(X, X[:, 0]) > 0.9


def test_taggers(tmp_path: Path) -> None:
    pairs = [([tuple(token[:-1]) for token in s], [token[-1] for token in s]) for s in TRAIN]
    for source in (iter(pairs), (TRAIN[a : a + 40] for a in range(0, 300, 40))):
        model = tagger().fit(source)
        assert model.score(TEST) > 0.85
        assert model.penalty_.__class__.__name__ == "Zero"
    again = tagger(epochs=4).fit(Stream(Shards.arrays(TRAIN, None, 5).blocks(), window=100, seed=2))
    assert again.score(TEST) > 0.95
    assert len(again.history_) == 12
    again.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(TEST) == again.predict(TEST)


def test_parsers() -> None:
    train, test = trees(300, 0), trees(60, 1)
    options: dict[str, Any] = {"verbose": 0, "table_bits": 10, "epochs": 3, "min_count": 1}
    once = DependencyParser(**options).fit(train[a : a + 30] for a in range(0, 300, 30))
    assert once.evaluate(test).las > 0.8
    stream = Stream([train[a : a + 30] for a in range(0, 300, 30)], window=75)
    model = DependencyParser(**options).fit(stream, dev=test)
    assert model.evaluate(test).las > 0.9
    assert len(model.history_) <= 12


@pytest.mark.parametrize("kind", ["tagger", "parser", "linear"])
def test_a_resumed_stream_gives_the_same_bits(kind: str, tmp_path: Path) -> None:
    class Stop:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            return bool(info["epoch"] == 2)

    bank = trees(240, 0)
    sources: dict[str, Any] = {
        "tagger": [TRAIN[:150], TRAIN[150:]],
        "parser": [bank[:100], bank[100:]],
        "linear": list(blocks(90)),
    }

    def made(**given: Any) -> Any:
        if kind == "tagger":
            return tagger(**given)
        if kind == "parser":
            return DependencyParser(verbose=0, table_bits=10, epochs=2, min_count=1, **given)
        return OnlineClassifier(penalty=L1(0.01), random_state=0, verbose=0, epochs=2, **given)

    def saved(model: Any) -> bytes:
        model.save(tmp_path / "model")
        return (tmp_path / "model").read_bytes()

    def stream() -> Stream:
        return Stream(sources[kind], window=60, seed=4)

    path = tmp_path / "run"
    whole = made().fit(stream())
    made(callbacks=[Stop()]).fit(stream(), checkpoint=path, checkpoint_every="stop")
    again = made().fit(stream(), checkpoint=path, resume=True)
    assert saved(again) == saved(whole)


def test_memory_does_not_grow_with_the_length() -> None:
    made = sentences(200)

    def endless(count: int, peaks: list[int]) -> Iterator[Any]:
        for k in range(count):
            if k % (count // 10) == 0:
                peaks.append(tracemalloc.get_traced_memory()[0])
            yield made[(k * 7) % 150 : (k * 7) % 150 + 50]

    peaks: list[int] = []
    model = tagger(templates=["w[0]", "w[-1]"])
    tracemalloc.start()
    try:
        model.fit(Stream(endless(200, peaks), window=100))
    finally:
        tracemalloc.stop()
    assert peaks[-1] < 1.05 * peaks[2]


def test_the_history_of_a_long_stream_is_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spom.estimators.training.trainer.MANY_ENTRIES", 8)
    model = OnlineClassifier(random_state=0, verbose=0).fit((block for block in blocks(10)), classes=["no", "yes"])
    assert len(model.history_.loss) <= 8
    assert model.n_rounds_ == 700


def test_files_are_streamed(tmp_path: Path) -> None:
    bank = trees(120, 3)
    (tmp_path / "a.conllu").write_bytes(conllu_text(bank))
    source = iter_conllu(tmp_path / "a.conllu", 1 << 10)
    model = DependencyParser(verbose=0, table_bits=10, min_count=1).fit(source)
    assert model.evaluate(bank).uas > 0.8


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(DataError, match="gave no examples"):
        tagger().fit(iter([]))
    with pytest.raises(Unsupported, match="max_weights= needs all sentences"):
        tagger(max_weights=5).fit(iter([TRAIN]))
    with pytest.raises(Unsupported, match="give an object"):
        tagger(penalty="group-lasso").fit(iter([TRAIN]))
    with pytest.raises(ValueError, match="pass all relations there, with relations="):
        DependencyParser(verbose=0, table_bits=8).fit(Stream([trees(1, 8), trees(50, 9)], window=1, shuffle=False))
    with pytest.raises(ValueError, match="at least 1"):
        Stream([], window=0)
    with pytest.raises(TypeError, match="streams of trees"):
        DependencyParser(verbose=0).fit(iter([TRAIN]))

    def broken() -> Iterator[Any]:
        yield TRAIN[:10]
        raise DataError("line 7 is not there")

    with pytest.raises(DataError, match="line 7"):
        tagger().fit(broken())
    assert not hasattr(SequenceTagger(), "classes_")
