"""Item files, tables, and data that are made."""

from __future__ import annotations

import io

import numpy as np
import pytest

from spom.data import read_items
from spom.data.generated import digit_words, ingredients
from spom.data.items import iter_items
from spom.data.opening import read_all
from spom.data.tables import CsvForm, is_header, labels, read_table, read_table_fast
from spom.errors import DataError


def test_items_are_read_as_crfsuite_reads_them(tmp_path: object) -> None:
    text = "B-NP\tw=the\tw\\:x\\\\y\tlong:2.5\n\n\nI-NP\tw=a:1\nO\n"
    items = read_items(io.BytesIO(text.encode()))
    assert items.X == [[{"w=the": 1.0, "w:x\\y": 1.0, "long": 2.5}], [{"w=a": 1.0}, []]]
    assert items.y == [["B-NP"], ["I-NP", "O"]]
    assert items.text[1] == ["I-NP\tw=a:1", "O"]


def test_items_come_in_blocks_of_whole_sequences() -> None:
    text = "".join("".join(f"L{i}\tf={i}.{t}\n" for t in range(1 + i % 3)) + "\n" for i in range(20))
    whole = read_items(io.BytesIO(text.encode()))
    parts = list(iter_items(io.BytesIO(text.encode()), tokens=4))
    assert len(parts) > 3
    assert [s for part in parts for s in part.X] == whole.X
    assert [s for part in parts for s in part.y] == whole.y


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\tw=x\n", "line 1: expected a label"),
        (b"A\tw=1\n\nB\tw:one\n", "line 3: expected feature:weight"),
        (b"A\tw=1\n\xff\n", "line 2: byte 0xff is not utf-8"),
        (b"\n\n", "found none"),
    ],
)
def test_items_that_cannot_be_read(text: bytes, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_items(io.BytesIO(text))


def test_items_agree_with_crfsuite(tmp_path: object) -> None:
    """python-crfsuite reads no item files, but its ItemSequence escapes nothing: names must come out as they are."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    items = read_items(io.BytesIO(b"A\tw=x\tn:0.5\nB\ta\\:b\n"))
    sequence = pycrfsuite.ItemSequence(items.X[0])
    assert sequence.items() == [{"n": 0.5, "w=x": 1.0}, {"a:b": 1.0}]


def test_tables() -> None:
    text = b'\xef\xbb\xbfname;x;"y z"\n"a;b";1;2\nc;3;4e-1\n'
    (table,) = read_table(io.BytesIO(text))
    assert table.names == ("name", "x", "y z")
    assert table.column("name") == ["a;b", "c"]
    np.testing.assert_array_equal(table.numbers(["y z", "x"]), [[2, 1], [0.4, 3]])
    blocks = list(read_table(io.BytesIO(b"x\n" + b"1\n" * 10), block_rows=4))
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert list(blocks[2].lines) == [10, 11]
    with pytest.raises(DataError, match="line 2: byte 0xff"):
        list(read_table(io.BytesIO(b"x\n\xff\n")))
    assert labels(["01", "2"], "x", [1, 2]).tolist() == [1, 2]
    assert labels([1.5, "b"], "x", [1, 2]).tolist() == ["1.5", "b"]


def test_ingredients_are_well_formed_and_the_same_for_a_seed() -> None:
    columns = ingredients(400, seed=3)
    assert [list(s) for s in columns] == [list(s) for s in ingredients(400, seed=3)]
    assert [list(s) for s in columns] != [list(s) for s in ingredients(400, seed=4)]
    for sentence in columns.strings("label"):
        before = "O"
        for label in sentence:
            if label.startswith("I-"):
                assert before[2:] == label[2:]
            before = label
    seen: dict[str, set[str]] = {}
    for sentence in columns:
        for word, _, label in sentence:
            seen.setdefault(word, set()).add(label[2:])
    # Words that only their neighbours tell apart are what makes it a task.
    assert {"UNIT", "NAME"} <= seen["cloves"]
    assert {"AMOUNT"} < seen["to"] | seen["a"]


def test_words_of_digits() -> None:
    images, digits = np.eye(10).repeat(3, axis=0), np.arange(10).repeat(3)
    words = digit_words(images, digits, 500, seed=0, noise=0.0)
    assert all((image.argmax(axis=1) == word).all() for image, word in zip(words.X, words.y, strict=True))
    pairs = np.zeros((10, 10))
    for word in words.y:
        np.add.at(pairs, (word[:-1], word[1:]), 1)
    assert (np.count_nonzero(pairs, axis=1) <= 3).all()
    assert 0.55 < (pairs.max(axis=1) / pairs.sum(axis=1)).mean() < 0.8
    noisy = digit_words(images, digits, 500, seed=0)
    assert [w.tolist() for w in noisy.y] != [w.tolist() for w in digit_words(images, digits, 500, seed=1).y]


@pytest.mark.parametrize(
    "text",
    [
        "a,b,y\n1,2.5,x\n-3e-2,0.1,x y\n",
        'a;"b;c";y\n0.1;2;"x;1"\n7;8;z\n',
        "\ufeffa\tb\ty\r\n1\t2\tx\r\n3\t4\tz\r\n",
        "a,b,y\n0.1234567890123456789,2,3\n1e308,5e-324,4",
    ],
)
def test_the_fast_reader_reads_the_same(text: str) -> None:
    pytest.importorskip("pandas")
    found = read_table_fast(read_all(io.BytesIO(text.encode()))[1], None)
    assert found is not None
    (table,) = read_table(io.BytesIO(text.encode()))
    np.testing.assert_array_equal(found[1], table.numbers(found[0]))
    assert found[2] == table.column("y")
    assert (*found[0], found[3]) == table.names


@pytest.mark.parametrize(
    "text",
    ["", "a,y\n", "y\n1\n", "a,a,y\n1,1,1\n", "a,b,y\n1,2\n1,2,3\n", "a,y\n1,2,3\n", "a,y\nx,1\n", "a,y\n,1\n",
     "a,y\nnan,1\n", "a,y\n1,\n", "a,b,y\n1,2,3\n4\n", "a,y\n\xff,1\n"],
)  # fmt: skip
def test_what_the_fast_reader_leaves_to_the_careful_one(text: str) -> None:
    assert read_table_fast(text.encode("latin-1"), None) is None


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("age,city,y", "39,Rome,1", True),
        ("39,Rome,1", "25,Oslo,0", False),
        ("39,Rome,1", "25,Oslo,", False),
        ("39,Rome,no", "25,Oslo,yes", False),
        ("0,1,2,label", "0.5,7,1,a", True),
        ("1990,1991,1992", "5,6,7", True),
        ("1990,1992,1993", "5,6,7", False),
        ("city,y", "Rome,a", True),
        ("3,a", "4,b", False),
        ("a,b", "", True),
    ],
)
def test_two_lines_say_whether_the_first_has_names(first: str, second: str, names: bool) -> None:
    assert is_header(first.split(","), second.split(",")) is names
    text = f"{first}\n{second}\n".encode() if second else f"{first}\n{'x,' * first.count(',')}x\n".encode()
    (table,) = read_table(io.BytesIO(text), form=CsvForm(None))
    assert table.header is names
    assert table.names == (tuple(first.split(",")) if names else tuple(map(str, range(1, first.count(",") + 2))))
    assert list(table.lines) == ([2] if names else [1, 2])
    (plain,) = read_table(io.BytesIO(text), form=CsvForm(header=names))
    assert (plain.names, plain.cells, list(plain.lines)) == (table.names, table.cells, list(table.lines))
    if not names:
        assert read_table_fast(text, None, None) is None
