"""Files that are no good: one clear error each, and no bombs."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from spom.cli.predict import Whole
from spom.data.columns import read_conll
from spom.data.conllu import iter_conllu, read_conllu
from spom.data.items import read_items
from spom.data.opening import read_all
from spom.data.svmlight import read_svmlight
from spom.data.tables import labels, read_table
from spom.errors import DataError


@pytest.mark.parametrize("text", ["a,b\n" + "x" * 200_000 + ",2\n"], ids=["long field"])
def test_csv_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    with pytest.raises(DataError, match=r"t\.csv, line \d+: expected a row of CSV"):
        list(read_table(path, block_rows=1))


def test_a_bomb_is_refused_and_the_limit_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(200 << 20), 9))
    with pytest.raises(DataError, match="over 500 times as many; set SPOM_MAX_RATIO"):
        read_all(path)
    monkeypatch.setenv("SPOM_MAX_RATIO", "5000")
    assert len(read_all(path)[1]) == 200 << 20


def test_output_is_whole_where_writes_are_partial() -> None:
    class Partial(io.RawIOBase):
        got = b""

        def write(self, data: object) -> int:
            part = bytes(memoryview(data)[:7])  # type: ignore[arg-type]  # a buffer
            self.got += part
            return len(part)

    file = Partial()
    assert Whole(file).write(bytes(range(100))) == 100
    assert file.got == bytes(range(100))


def test_bytes_of_a_treebank_that_are_no_utf8_are_named_at_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu"
    word = b"1\tb%s\ta\tN\t_\t_\t0\troot\t_\t_\n\n"
    path.write_bytes(word % "é".encode() + word % b"\xff")
    for read in (read_conllu, lambda source: list(iter_conllu(source, 40))):
        with pytest.raises(DataError, match=r"t\.conllu, line 3: byte 0xff is not utf-8"):
            read(path)


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"x": list(range(3000)), "label": ["a", "b", "c"] * 1000}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200] + bytes([255]) * 192 + whole[-8:])
    with pytest.raises(DataError, match=r"t\.parquet: expected a complete Parquet file"):
        list(read_table(path, "parquet"))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"t\.parquet: expected a complete Parquet file"):
        list(read_table(path, "parquet"))


def test_labels_of_25_digits_are_text() -> None:
    long = "1234567890123456789012345"
    assert labels([long, "2"], "t.csv", [1, 2]).tolist() == [long, "2"]


def test_a_bare_carriage_return_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1\r2,3\n")
    with pytest.raises(DataError, match=r"t\.csv, line 2: expected 2 columns, found 1"):
        list(read_table(path))


WORD = b"1\tDogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
READERS = {
    "conllu": (WORD, lambda path: read_conllu(path).columns.strings("form")),
    "conllu blocks": (WORD, lambda path: [bank.columns.strings("form") for bank in iter_conllu(path)]),
    "conll": (b"Dogs NN\n\n", lambda path: list(read_conll(path))),
    "svmlight": (b"1 1:2\n-1 2:3\n", lambda path: [y.tolist() for _, y in read_svmlight(path)]),
    "items": (b"A\tw=x\n\n", lambda path: read_items(path).y),
    "table": (b"name,y\na,1\n", lambda path: [table.names for table in read_table(path)]),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", READERS)
def test_a_byte_order_mark_is_not_part_of_the_text(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    content, read = READERS[name]
    path = tmp_path / "file"
    path.write_bytes(pack(content))
    plain = read(path)
    path.write_bytes(pack(b"\xef\xbb\xbf" + content))
    assert read(path) == plain
