"""Files that are no good: one clear error each, and no bombs."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from spom.cli.output import Whole
from spom.data.opening import read_all
from spom.data.tables import read_table
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
