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
    """Sentences of one to five tokens, the k-th of which is told by its words."""
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
