"""Shards: where files are cut, and what each recipe loads."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from spom.data import Treebank
from spom.errors import DataError
from spom.scale import Shards


def sentences(count: int) -> list[str]:
    """Return sentences of one to five tokens; the words of the k-th contain k."""
    return ["".join(f"w{k}.{t} T{t % 3}\n" for t in range(1 + k % 5)) for k in range(count)]


def words_of(shards: Shards) -> list[list[str]]:
    found: list[list[str]] = []
    for shard in shards:
        X = shard.load()[0]
        found += [] if X is None else X.strings(0)
    return found


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_every_sentence_is_in_one_shard_in_its_order(tmp_path: Path, n: int, end: str) -> None:
    given = sentences(20)
    (tmp_path / "a.conll").write_bytes("\n".join(given[:13]).replace("\n", end).encode())
    (tmp_path / "b.conll").write_bytes("\n".join(given[13:]).replace("\n", end).encode())
    shards = Shards.conll([tmp_path / "a.conll", tmp_path / "b.conll"], n)
    assert len(shards) == n
    assert words_of(shards) == [[line.split()[0] for line in s.splitlines()] for s in given]
    assert words_of(pickle.loads(pickle.dumps(shards))) == words_of(shards)


def test_shards_have_about_the_same_size(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("\n".join(sentences(1000)))
    sizes = [sum(p.end - p.begin for p in shard.pieces) for shard in Shards.conll(tmp_path / "a.conll", 8)]
    assert max(sizes) - min(sizes) < 200


def test_a_compressed_file_stays_whole(tmp_path: Path) -> None:
    given = sentences(9)
    for k in range(3):
        with gzip.open(tmp_path / f"{k}.gz", "wt") as file:
            file.write("\n".join(given[3 * k : 3 * k + 3]))
    shards = Shards.conll(str(tmp_path / "*.gz"), 3)
    assert [len(shard.pieces) for shard in shards] == [1, 1, 1]
    assert len(words_of(shards)) == 9


def test_an_error_names_the_file_the_bytes_and_the_line(tmp_path: Path) -> None:
    given = sentences(20)
    given[17] = "one two three\n"
    text = "\n".join(given)
    (tmp_path / "a.conll").write_text(text)
    line = 1 + text[: text.index("one two")].count("\n")
    with pytest.raises(DataError, match=rf"a\.conll, bytes \d+-\d+, line {line}: expected 2 columns, found 3"):
        Shards.conll(tmp_path / "a.conll", 3)[2].load()


def test_svmlight_and_csv_shards_hold_all_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (50, 4)).astype(float), rng.integers(0, 2, 50)
    rows = [
        f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if v) for label, row in zip(y, X, strict=True)
    ]
    (tmp_path / "a.svm").write_text("\n".join(rows) + "\n")
    table = ["a,b,c,d,kind"] + [",".join([*map(str, row), str(label)]) for label, row in zip(y, X, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(table) + "\n")
    for shards in (Shards.svmlight(tmp_path / "a.svm", 4, n_features=4), Shards.csv(tmp_path / "a.csv", 4)):
        loaded = [shard.load() for shard in shards]
        assert len(loaded) == 4
        dense = [part[0].toarray() if sparse.issparse(part[0]) else part[0] for part in loaded]
        np.testing.assert_array_equal(np.concatenate(dense), X)
        np.testing.assert_array_equal(np.concatenate([part[1] for part in loaded]), y)


def test_parquet_row_groups_are_shared_out(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": np.arange(10.0), "b": np.arange(10.0) ** 2, "kind": ["x", "y"] * 5})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    shards = Shards.parquet(tmp_path / "a.parquet", 3)
    loaded = [shard.load() for shard in shards]
    assert [part[0].shape[0] for part in loaded] == [2, 4, 4]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in loaded])[:, 1], np.arange(10.0) ** 2)
    assert np.concatenate([part[1] for part in loaded]).tolist() == ["x", "y"] * 5


def test_missing_files_and_wrong_numbers_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file matches"):
        Shards.conll(str(tmp_path / "*.conll"))
    with pytest.raises(DataError, match="cannot be read"):
        Shards.conll(tmp_path / "none.conll")
    with pytest.raises(ValueError, match="at least 1"):
        Shards.arrays(np.eye(3), [0, 1, 1], 0)


def test_a_stamp_is_of_the_contents_alone() -> None:
    def stamps(bank: Treebank, words: list[list[str]]) -> list[str]:
        return [s.stamp(s.load()) for s in (*Shards.arrays(bank, n=1), *Shards.arrays(words, words, n=1))]

    bank = Treebank.from_sentences([[{"form": "a", "head": 0, "deprel": "root"}]])
    first = stamps(bank, [["ab", "ab"]])
    # What was looked at is kept with the treebank, and equal strings may be one object or two.
    _ = bank[0], bank.relation_names, [getattr(bank, name, None) for name in dir(bank)]
    assert stamps(bank, [["ab", "".join(["a", "b"])]]) == first
    assert stamps(bank, [["ab", "ac"]]) != first


def test_addresses_of_fsspec_and_patterns_of_them() -> None:
    fsspec = pytest.importorskip("fsspec")
    given = sentences(30)
    files = fsspec.filesystem("memory")
    for k in range(3):
        with files.open(f"/shards/part-{k}.conll", "wb") as file:
            file.write("\n".join(given[10 * k : 10 * k + 10]).encode())
    assert words_of(Shards.conll("memory://shards/part-*.conll", 4)) == [
        [line.split()[0] for line in s.splitlines()] for s in given
    ]
    with pytest.raises(DataError, match="no file matches"):
        Shards.conll("memory://shards/none-*.conll")
    with pytest.raises(DataError, match="cannot be read"):
        Shards.conll("memory://shards/none.conll")


def test_parquet_behind_an_address() -> None:
    fsspec = pytest.importorskip("fsspec")
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": np.arange(6.0), "kind": ["x", "y"] * 3})
    with fsspec.filesystem("memory").open("/shards/a.parquet", "wb") as file:
        pq.write_table(table, file, row_group_size=2)
    loaded = [shard.load() for shard in Shards.parquet("memory://shards/a.parquet", 3)]
    assert [part[0].ravel().tolist() for part in loaded] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_csv_and_svmlight_in_gzip(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("a,kind\n1.0,x\n2.0,y\n")
    (X, y, _) = next(part for part in (s.load() for s in Shards.csv(tmp_path / "a.csv.gz", 3)) if part[0] is not None)
    assert (X.ravel().tolist(), list(y)) == ([1.0, 2.0], ["x", "y"])


def test_dask_arrays_frames_bags_and_delayed_pairs() -> None:
    pytest.importorskip("dask")
    import dask
    import dask.array
    import dask.bag

    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])
    arrays = Shards.dask(dask.array.from_array(X, chunks=(2, 2)), dask.array.from_array(y, chunks=2))
    np.testing.assert_array_equal(np.concatenate([s.load()[0] for s in arrays]), X)
    pairs = [dask.delayed((X[a : a + 3], y[a : a + 3])) for a in (0, 3)]
    np.testing.assert_array_equal(np.concatenate([s.load()[1] for s in Shards.dask(pairs)]), y)
    bag = dask.bag.from_sequence([(["a", "b"], ["N", "V"]), (["c"], ["N"])], npartitions=2)
    assert [s.load()[:2] for s in Shards.dask(bag)] == [([["a", "b"]], [["N", "V"]]), ([["c"]], [["N"]])]
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    table = frames.from_pandas(pandas.DataFrame({"a": [1.0, 2.0, 3.0], "kind": [0, 1, 0]}), npartitions=2)
    loaded = [s.load() for s in Shards.dask(table, "kind")]
    assert np.concatenate([part[1] for part in loaded]).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="same chunks"):
        Shards.dask(dask.array.from_array(X, chunks=(2, 2)), dask.array.from_array(y, chunks=3))
