"""Columns of tokens and their reader, against a reader of a few lines of plain Python."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spom.data import Columns, load, read_conll, read_conll_blocks
from spom.data.columns import joined
from spom.errors import DataError

TEXT = "The DT B-NP\ncat NN I-NP\n\n\nsleeps VBZ B-VP\n. . O\n\n"


def slow(text: str) -> list[list[tuple[str, ...]]]:
    sentences: list[list[tuple[str, ...]]] = [[]]
    for line in text.split("\n"):
        fields = tuple(line.replace("\t", " ").replace("\r", " ").split(" "))
        fields = tuple(f for f in fields if f)
        if fields:
            sentences[-1].append(fields)
        elif sentences[-1]:
            sentences.append([])
    return [s for s in sentences if s]


def read(text: str | bytes, **options) -> Columns:
    return read_conll(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip(),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r\n").rstrip(),
        TEXT.replace(" ", "\t"),
        TEXT.replace(" ", "  \t"),
        "\n\n" + TEXT.replace("\n\n", "\n \t \n"),
        "-DOCSTART- -X- O\n\n" + TEXT,
        "# # O\nnaïve JJ B-ADJP\n東京 NNP B-NP\n",
        "one\n\ntwo\n",
    ],
)
def test_the_sentences_of_a_text(text):
    columns = read(text)
    assert list(columns) == slow(text)
    assert sum(len(block) for block in read_conll_blocks(io.BytesIO(text.encode()), block_bytes=7)) == len(columns)
    lines = text.split("\n")
    flat = [token for sentence in columns for token in sentence]
    assert [tuple(lines[n - 1].split()) for n in columns.lines] == flat


words = st.text(st.characters(exclude_characters=" \t\r\n", codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)
tokens = st.tuples(words, st.sampled_from(["DT", "NN"]), words)


@given(
    st.lists(st.lists(tokens, min_size=1), min_size=1), st.sampled_from([" ", "\t"]), st.sampled_from(["\n", "\r\n"])
)
def test_what_is_written_is_read(sentences, blank, end):
    text = (end + end).join(end.join(blank.join(token) for token in sentence) for sentence in sentences)
    columns = read(text)
    assert list(columns) == sentences
    again = Columns.from_lists(sentences)
    assert list(again) == sentences
    assert columns.strings(0) == again.strings("w") == [[token[0] for token in s] for s in sentences]
    blocks = list(read_conll_blocks(io.BytesIO(text.encode()), block_bytes=11))
    assert list(joined(blocks)) == sentences
    assert joined(blocks).lines.tolist() == columns.lines.tolist()


def test_choosing_sentences_and_columns():
    columns = read(TEXT + TEXT)
    assert columns.names == ("w", "pos", "c2")
    assert list(columns[1:3]) == list(columns)[1:3]
    assert list(columns[::-1]) == list(columns)[::-1]
    assert list(columns[[3, 0]]) == [columns[3], columns[0]]
    assert list(columns[np.array([True, False, False, True])]) == [columns[0], columns[3]]
    assert list(columns[-2:]) == list(columns)[-2:]
    assert columns[-1] == list(columns)[-1]
    assert list(columns[4:2]) == []
    assert columns[[2, 1]].lines.tolist() == [8, 9, 5, 6]
    assert columns.select(["c2", 0])[0] == [("B-NP", "The"), ("I-NP", "cat")]
    assert columns.select([-1]).names == ("c2",)
    assert columns.n_tokens == 8
    with pytest.raises(IndexError):
        columns[4]
    with pytest.raises(DataError, match=r"unknown column 'lemma'; available: w, pos, c2"):
        columns.column("lemma")
    with pytest.raises(DataError, match="unknown column 3"):
        columns.column(3)


def test_usual_names_of_columns_are_found():
    named = Columns.from_lists([[("1", "The", "DET")]], ["ID", "FORM", "UPOS"])
    assert named.column("w") == 1
    assert named.column("pos") == 2
    plain = Columns.from_lists([[("The", "DET")]], ["a", "b"])
    assert plain.column("w") == 0
    assert plain.column("pos") == 1


def test_sentences_may_be_empty_in_lists():
    columns = Columns.from_lists([[], ["a"], []])
    assert list(columns) == [[], [("a",)], []]
    assert len(Columns.from_lists([])) == 0
    assert Columns.from_lists([]).n_tokens == 0
    with pytest.raises(DataError, match=r"sentence 1, token 0: expected 1 columns, found 2"):
        Columns.from_lists([["a"], [("b", "c")]])
    with pytest.raises(DataError, match="expected a list of tokens"):
        Columns.from_lists(["a b"])
    with pytest.raises(DataError, match="expected tokens as strings"):
        Columns.from_lists([[(1, 2)]])


@pytest.mark.parametrize(("bad", "line", "found"), [("x y\n", 8, 2), ("x y z z\n", 8, 4), ("x\n", 8, 1)])
def test_another_number_of_columns_is_an_error_with_the_line(tmp_path, bad, line, found):
    path = tmp_path / "train.txt"
    path.write_text(TEXT + bad + TEXT)
    with pytest.raises(DataError, match=f"train.txt, line {line}: expected 3 columns, found {found}"):
        read_conll(path)
    with pytest.raises(DataError, match=f"train.txt, line {line}: expected 3 columns"):
        list(read_conll_blocks(path, block_bytes=20))
    with pytest.raises(DataError, match=r"line 1: expected 2 columns \(a, b\), found 3"):
        read_conll(path, ["a", "b"])


def test_what_cannot_be_read_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_conll(tmp_path / "none")
    with pytest.raises(DataError, match="found a folder"):
        read_conll(tmp_path)
    for empty in (b"", b"\n \n\r\n", b"\xef\xbb\xbf"):
        with pytest.raises(DataError, match="found none"):
            read(empty)
        assert list(read_conll_blocks(io.BytesIO(empty))) == []
    with pytest.raises(DataError, match=r"line 2: byte 0xe9 is not utf-8"):
        read("the DT\ncafé NN\n".encode("latin-1"))
    with pytest.raises(DataError, match="damaged"):
        read(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(DataError, match="binary mode"):
        read_conll(io.StringIO(TEXT))
    with pytest.raises(ValueError, match="path or a binary file"):
        read_conll(3)
    with pytest.raises(ValueError, match="separator must be one ASCII character"):
        read(TEXT, separator=", ")


def test_ways_in(tmp_path, monkeypatch):
    import zstandard

    plain = list(read(TEXT))
    for pack in (gzip.compress, zstandard.ZstdCompressor().compress):
        path = tmp_path / "packed"
        path.write_bytes(pack(TEXT.encode()))
        assert list(read_conll(str(path))) == plain
        assert [s for block in read_conll_blocks(path) for s in block] == plain
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    assert list(read_conll("-")) == plain
    assert list(read("\ufeff" + TEXT)) == plain
    assert list(read("café NN\n".encode("latin-1"), encoding="latin-1")) == [[("café", "NN")]]


def test_a_separator_lets_fields_have_blanks_and_be_empty():
    columns = read("New York\tNNP\t\nis\t\tVBZ\n\n#\tx\ty\n", separator="\t")
    assert list(columns) == [[("New York", "NNP", ""), ("is", "", "VBZ")], [("#", "x", "y")]]


def test_comments_are_skipped_where_asked():
    text = "# a comment of several words\nthe DT\n# again\ncat NN\n\n# last"
    assert list(read(text, comments="#")) == [[("the", "DT"), ("cat", "NN")]]
    with pytest.raises(DataError, match="line 2: expected 6 columns, found 2"):
        read(text)


@pytest.mark.skipif(
    not (Path(os.environ.get("SPOM_DATA", "")) / "conll2000").is_dir() or not os.environ.get("SPOM_DATA"),
    reason="needs the data set conll2000: run spom.data.fetch('conll2000'), and set SPOM_DATA to its folder",
)
def test_conll2000(data_folder):
    data = load("conll2000")
    assert (data.train.size, data.test.size) == (8936, 2012)
    X, y = data.part("test")
    assert X.n_tokens == sum(map(len, y)) == 47377
    text = gzip.decompress((data_folder / "conll2000" / "test.txt.gz").read_bytes()).decode()
    assert [[token[:2] for token in sentence] for sentence in slow(text)] == list(X)
    assert [[token[2] for token in sentence] for sentence in slow(text)] == list(y)
    assert data.part("train")[0].n_tokens == 211727
    assert len(data.classes) == 23
    assert "B-NP" in data.classes
