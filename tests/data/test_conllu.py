"""CoNLL-U: what is no word stays in place, bad lines are named, blocks are the whole."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import zstandard

from spom.data import Treebank, iter_conllu, load, read_conllu, write_conllu
from spom.data.conllu import conllu_text, join_treebanks, parse_conllu
from spom.errors import DataError
from spom.metrics.attachment import attachment


def line(*fields: object) -> str:
    return "\t".join(map(str, fields))


TEXT = "\n".join(
    [
        "# sent_id = 1",
        "# text = Vámonos al mar",
        line("1-2", "Vámonos", "_", "_", "_", "_", "_", "_", "_", "_"),
        line(1, "Vamos", "ir", "VERB", "V", "Mood=Imp", 0, "root", "0:root", "_"),
        line(2, "nos", "nosotros", "PRON", "P", "_", 1, "obj", "1:obj", "_"),
        line("3-4", "al", "_", "_", "_", "_", "_", "_", "_", "SpaceAfter=No"),
        line(3, "a", "a", "ADP", "_", "_", 5, "case", "_", "_"),
        line(4, "el", "el", "DET", "_", "_", 5, "det", "_", "_"),
        line(5, "mar", "mar", "NOUN", "_", "_", 1, "obl:arg", "_", "_"),
        line("5.1", "e", "_", "_", "_", "_", "_", "_", "1:x", "_"),
        "",
        "# sent_id = 2",
        line(1, "Sí", "sí", "INTJ", "_", "_", 0, "root", "_", "_"),
        "",
        "",
    ]
)


def test_numbers_of_several_digits() -> None:
    """Read ids and heads above nine, where each word's head is the previous word."""
    heads = list(range(123))
    lines = [f"{i}\tw{i}\t_\tX\t_\t_\t{head}\tdep\t_\t_" for i, head in enumerate(heads, 1)]
    assert parse_conllu(("\n".join(lines) + "\n\n").encode()).heads.tolist() == heads


def test_words_are_lines_with_a_whole_number() -> None:
    bank = read_conllu(io.BytesIO(TEXT.encode()))
    assert len(bank) == 2
    assert bank.n_words == 6
    assert bank.columns.strings("form") == [["Vamos", "nos", "a", "el", "mar"], ["Sí"]]
    assert bank.heads.tolist() == [0, 1, 5, 5, 1, 0]
    assert [bank.relation_names[k] for k in bank.relations] == ["root", "obj", "case", "det", "obl:arg", "root"]
    assert bank.columns.lines.tolist() == [4, 5, 7, 8, 9, 13]
    assert bank[0][4] == ("5", "mar", "mar", "NOUN", "_", "_", "1", "obl:arg", "_", "_")
    bank.check_trees()


def test_writing_gives_the_text_again() -> None:
    bank = read_conllu(io.BytesIO(TEXT.encode()))
    assert conllu_text(bank).decode() == TEXT
    other = bank.with_trees(np.array([5, 1, 5, 5, 0, -1]), np.array([1, 0, 0, 0, 0, 1], np.int32), ("dep", "Wurzel"))
    changed = conllu_text(other).decode()
    assert line(1, "Vamos", "ir", "VERB", "V", "Mood=Imp", 5, "Wurzel", "0:root", "_") in changed
    assert line(1, "Sí", "sí", "INTJ", "_", "_", "_", "Wurzel", "_", "_") in changed
    assert [x for x in changed.split("\n") if "-" in x[:3] or x[:1] == "#" or x[:3] == "5.1"] == [
        x for x in TEXT.split("\n") if "-" in x[:3] or x[:1] == "#" or x[:3] == "5.1"
    ]
    again = read_conllu(io.BytesIO(changed.encode()))
    assert again.heads.tolist() == [5, 1, 5, 5, 0, -1]
    assert conllu_text(bank.without_trees()).decode().count("\t_\t_\t") >= 6


def test_slices_carry_their_text() -> None:
    bank = read_conllu(io.BytesIO(TEXT.encode()))
    assert bank[1:].heads.tolist() == [0]
    assert conllu_text(bank[1:]).decode() == TEXT[TEXT.index("# sent_id = 2") :]
    swapped = bank[[1, 0]]
    assert swapped.columns.strings("form")[0] == ["Sí"]
    assert conllu_text(swapped[[1, 0]]).decode() == TEXT
    assert len(bank[5:]) == 0
    assert conllu_text(bank[5:]) == b""
    relabelled = bank.with_trees(bank.heads, np.arange(6, dtype=np.int32), tuple("abcdef"))
    assert relabelled[1:][0][0][7] == "f"


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\n\n\n"])
def test_the_end_of_a_file_may_lack_lines(ending: str) -> None:
    bank = read_conllu(io.BytesIO((TEXT.rstrip("\n") + ending).encode()))
    assert len(bank) == 2
    assert conllu_text(bank).decode() == TEXT


def test_windows_line_ends_and_nothing_at_all() -> None:
    bank = read_conllu(io.BytesIO(TEXT.replace("\n", "\r\n").encode()))
    assert bank.heads.tolist() == [0, 1, 5, 5, 1, 0]
    assert bank.columns.strings("misc")[1] == ["_"]
    assert len(read_conllu(io.BytesIO(b""))) == 0
    assert len(read_conllu(io.BytesIO(b"# only a comment\n\n"))) == 0


def test_compressed_files_and_blocks(tmp_path: Path) -> None:
    plain, packed, zipped = tmp_path / "a.conllu", tmp_path / "a.conllu.gz", tmp_path / "a.conllu.zst"
    many = TEXT * 50
    plain.write_text(many)
    packed.write_bytes(gzip.compress(many.encode()))
    zipped.write_bytes(zstandard.compress(many.encode()))
    for path in (plain, packed, zipped):
        assert read_conllu(path).n_words == 300
    for size in (1, 100, 777, 10**6):
        blocks = list(iter_conllu(packed, size))
        assert b"".join(map(conllu_text, blocks)).decode() == many
        assert blocks[-1].columns.lines[-1] == read_conllu(plain).columns.lines[-1]
    out = tmp_path / "out.conllu"
    write_conllu(iter_conllu(plain, 500), out)
    assert out.read_text() == many
    assert list(tmp_path.glob("*.part")) == []


BAD = {
    "expected 10 columns, separated by tabs, found 2": "1\tx",
    "expected 10 columns, separated by tabs, found 11": line(1, *"abcdefghij"),
    "expected HEAD to be a whole number or _, found 'two'": line(1, "a", "a", "X", "_", "_", "two", "d", "_", "_"),
    "expected HEAD to be a whole number or _, found '-1'": line(1, "a", "a", "X", "_", "_", "-1", "d", "_", "_"),
    "HEAD is 2, which is no word of this sentence": line(1, "a", "a", "X", "_", "_", "2", "d", "_", "_"),
    "expected the id 1, found '2'": line(2, "a", "a", "X", "_", "_", "0", "d", "_", "_"),
    "expected an id such as 3, 3-4 or 3.1, found 'x'": line("x", "a", "a", "X", "_", "_", "0", "d", "_", "_"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_lines_are_named(message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(TEXT + "# third\n" + BAD[message] + "\n")
    with pytest.raises(DataError) as caught:
        read_conllu(path)
    assert str(caught.value).startswith(f"{path}, line 16: {message}")
    with pytest.raises(DataError, match="line 16"):
        list(iter_conllu(path, 10))
    with pytest.raises(DataError, match="no such file"):
        read_conllu(tmp_path / "none.conllu")


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([2, 1, 0], "cycle"),
        ([0, 0, 1], "several roots"),
        ([2, 3, 1], "no root"),
        ([0, 2, 1], "cycle"),
        ([0, "_", 1], "no HEAD"),
    ],
)
def test_gold_trees_are_trees(heads: list[object], message: str) -> None:
    bank = Treebank.from_sentences([[{"form": "a", "head": 0}], [{"form": "b", "head": h} for h in heads]])
    with pytest.raises(DataError, match=message):
        bank.check_trees()
    with pytest.raises(DataError, match=r"line [3-5]"):
        bank.check_trees()


def test_from_sentences_refuses_what_it_cannot_write() -> None:
    with pytest.raises(DataError, match="no column 'pos'"):
        Treebank.from_sentences([[{"form": "a", "pos": "X"}]])
    with pytest.raises(DataError, match="tab"):
        Treebank.from_sentences([[{"form": "a\tb"}]])


def test_attachment_counts_as_the_shared_task() -> None:
    gold = read_conllu(io.BytesIO(TEXT.encode()))
    found = gold.with_trees(np.array([0, 1, 5, 3, 1, 0]), np.array([0, 1, 2, 3, 4, 5], np.int32), tuple("abcdef"))
    names = ("root", "obj", "mark", "det", "obl", "root")
    named = gold.with_trees(found.heads, found.relations, names)
    score = attachment(gold, named)
    # Word 4 has a wrong head, word 3 a wrong relation; obl:arg is obl.
    assert (score.uas, score.las, score.words) == (5 / 6, 4 / 6, 6)
    assert attachment(gold, named, subtypes=True).las == 3 / 6
    punctuated = Treebank.from_sentences(
        [[{"form": "a", "upos": "X", "head": 0}, {"form": ".", "upos": "PUNCT", "head": 1}]]
    )
    wrong = punctuated.with_trees(np.array([0, 0]))
    assert attachment(punctuated, wrong).uas == 0.5
    assert attachment(punctuated, wrong, punctuation=False).uas == 1.0
    with pytest.raises(DataError, match="sentences"):
        attachment(gold, punctuated)


def test_the_treebank_of_english(data_folder: Path) -> None:
    if not (data_folder / "ewt").is_dir():
        pytest.skip("needs English EWT: spom data fetch ewt")
    for part, sentences, words in (("dev", 2001, 25147), ("test", 2077, 25094)):
        path = data_folder / "ewt" / f"en_ewt-ud-{part}.conllu.gz"
        bank = read_conllu(path)
        assert (len(bank), bank.n_words) == (sentences, words)
        bank.check_trees()
        assert conllu_text(bank) == gzip.decompress(path.read_bytes())


def test_loading_the_treebank(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "ewt").is_dir():
        pytest.skip("needs English EWT: spom data fetch ewt")
    monkeypatch.setenv("SPOM_DATA", str(data_folder))
    data = load("ewt")
    train, heads = data.part("train")
    assert (len(train), len(data.part("test")[0])) == (12544, 2077)
    assert heads[3].tolist() == train.heads[train.offsets[3] : train.offsets[4]].tolist()


def test_parts_of_one_text_are_joined_as_their_texts_are():
    bank = Treebank.from_sentences(
        [
            [{"form": "Dogs", "head": 2, "deprel": "nsubj"}, {"form": "bark", "head": 0, "deprel": "root"}],
            [{"form": "No", "head": 0, "deprel": "root"}],
            [{"form": "Stop", "head": 0, "deprel": "root"}, {"form": "it", "head": 1, "deprel": "obj"}],
        ]
    )
    changed = bank[1:].with_trees(np.array([0, 2, 0]), np.array([1, 0, 1], dtype=np.int32), ("dep", "root"))
    parts = [bank[2:], changed, bank[:1]]
    joined = join_treebanks(parts)
    again = parse_conllu(b"".join(map(conllu_text, parts)))
    assert conllu_text(joined) == conllu_text(again)
    assert [list(s) for s in joined] == [list(s) for s in again]
    np.testing.assert_array_equal(joined.heads, again.heads)
    assert [joined.relation_names[k] for k in joined.relations] == [again.relation_names[k] for k in again.relations]
