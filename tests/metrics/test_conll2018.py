"""The CoNLL 2018 measures beside the official scorer (udtools), on files that differ in tokens, sentences and tags."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from spom.data import read_conllu
from spom.errors import DataError
from spom.metrics.conll2018 import conll2018

udeval = pytest.importorskip("udtools.udeval")
NAMES = {
    "tokens": "Tokens", "sentences": "Sentences", "words": "Words", "upos": "UPOS", "xpos": "XPOS", "feats": "UFeats",
    "alltags": "AllTags", "lemmas": "Lemmas", "uas": "UAS", "las": "LAS", "clas": "CLAS", "mlas": "MLAS",
    "blex": "BLEX",
}  # fmt: skip
# What udtools asks for beside the files: nothing of the enhanced graphs is compared here.
PLAIN = {
    "no_gapping": 0, "no_shared_parents_in_coordination": 0, "no_shared_dependents_in_coordination": 0,
    "no_control": 0, "no_external_arguments_of_relative_clauses": 0, "no_case_info": 0, "no_empty_nodes": False,
    "multiple_roots_okay": False,
}  # fmt: skip


def official(gold: Path, system: Path) -> dict[str, Any]:
    return dict(udeval.evaluate(udeval.load_conllu_file(str(gold), PLAIN), udeval.load_conllu_file(str(system), PLAIN)))


def agree(gold: Path, system: Path) -> dict[str, float]:
    ours, theirs = conll2018(read_conllu(gold), read_conllu(system)), official(gold, system)
    for name, official_name in NAMES.items():
        score = theirs[official_name]
        found = ours.scores[name]
        assert (found.gold, found.found, found.correct) == (score.gold_total, score.system_total, score.correct), name
        assert ours[name] == pytest.approx(score.f1)
    return ours.flat()


def blocks(text: str) -> list[list[list[str]]]:
    """Return sentences as lists of lines' fields, without comments, empty nodes and enhanced graphs."""
    found = []
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        found.append([[*row[:8], "_", row[9]] for row in rows if "." not in row[0]])
    return found


def written(sentences: list[list[list[str]]], path: Path) -> Path:
    path.write_text("\n\n".join("\n".join("\t".join(row) for row in rows) for rows in sentences) + "\n\n")
    return path


def damaged(sentences: list[list[list[str]]], seed: int) -> list[list[list[str]]]:
    """Other tags, lemmas and heads; sentences put together; multiword tokens undone; tokens put together."""
    draw = random.Random(seed)
    found: list[list[list[str]]] = []
    for rows in sentences:
        rows = [list(row) for row in rows]
        words = [row for row in rows if "-" not in row[0]]
        for row in words:
            for k, other in (
                (2, "x"),
                (3, "NOUN"),
                (4, "Q"),
                (5, "Case=Nom|Odd=Yes"),
                (7, draw.choice(["case", "obj"])),
            ):
                if draw.random() < 0.1 and row[6] != "0":
                    row[k] = other
        if draw.random() < 0.5:
            # All heads to the root's: another tree.
            root = next(row[0] for row in words if row[6] == "0")
            for row in words:
                if row[6] != "0" and draw.random() < 0.3:
                    row[6] = root
        if draw.random() < 0.5:
            rows = _joined(rows, draw)
        if found and draw.random() < 0.2:
            rows = _appended(found.pop(), rows)
        found.append(rows)
    return found


def _joined(rows: list[list[str]], draw: random.Random) -> list[list[str]]:
    """Put two tokens under one multiword token, in half of the cases with other words."""
    plain = [i for i in range(len(rows) - 1) if "-" not in rows[i][0] + rows[i + 1][0]]
    covered = {int(n) for row in rows if "-" in row[0] for n in _range(row[0])}
    free = [i for i in plain if not covered & {int(rows[i][0]), int(rows[i + 1][0])}]
    if free:
        i = draw.choice(free)
        a, b = rows[i], rows[i + 1]
        line = [f"{a[0]}-{b[0]}", a[1] + b[1], *"_" * 8]
        rows = [*rows[:i], line, *rows[i:]]
        if draw.random() < 0.5:
            rows[i + 1] = [*rows[i + 1][:1], "zz", *rows[i + 1][2:]]
    return rows


def _range(text: str) -> range:
    a, b = text.split("-")
    return range(int(a), int(b) + 1)


def _appended(first: list[list[str]], second: list[list[str]]) -> list[list[str]]:
    """Join two sentences: the second one's root depends on the first one's."""
    shift = max(int(row[0]) for row in first if "-" not in row[0])
    root = next(row[0] for row in first if row[6] == "0")
    moved = []
    for row in second:
        ids = "-".join(str(int(n) + shift) for n in row[0].split("-"))
        head = row[6] if row[6] == "_" else root if row[6] == "0" else str(int(row[6]) + shift)
        relation = "parataxis" if row[6] == "0" else row[7]
        moved.append([ids, *row[1:6], head, relation, *row[8:]])
    return [*first, *moved]


MULTIWORD = """\
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\tDefinite=Def|PronType=Art\t3\tdet\t_\t_
3\tchat\tchat\tNOUN\t_\tGender=Masc|Number=Sing\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

1\tVa\taller\tVERB\t_\tMood=Imp\t0\troot\t_\tSpaceAfter=No
2\t-\t-\tPUNCT\t_\t_\t1\tpunct\t_\tSpaceAfter=No
3\tt'en\t_\tPRON\t_\t_\t1\texpl:comp\t_\t_

"""


@pytest.mark.parametrize("seed", range(5))
def test_small_files_agree_with_the_official_scorer(tmp_path: Path, seed: int) -> None:
    sentences = blocks(MULTIWORD) * 5
    gold = written(sentences, tmp_path / "gold.conllu")
    agree(gold, written(damaged(sentences, seed), tmp_path / "system.conllu"))


@pytest.mark.parametrize("name", ["ewt/en_ewt-ud-test", "ud/tr_imst/tr_imst-ud-test", "ud/vi_vtb/vi_vtb-ud-test"])
def test_real_treebanks_agree_with_the_official_scorer(data_folder: Path, tmp_path: Path, name: str) -> None:
    text = gzip.decompress((data_folder / f"{name}.conllu.gz").read_bytes()).decode()
    sentences = blocks(text)[:400]
    gold = written(sentences, tmp_path / "gold.conllu")
    found = agree(gold, written(damaged(sentences, 1), tmp_path / "system.conllu"))
    assert 0.5 < found["las"] < 1.0
    assert found["sentences"] < 1.0
    assert set(agree(gold, gold).values()) == {1.0}


def test_another_text_is_refused(tmp_path: Path) -> None:
    sentences = blocks(MULTIWORD)
    gold = read_conllu(written(sentences, tmp_path / "gold.conllu"))
    sentences[1][0][1] = "Vas"
    with pytest.raises(DataError, match="the texts differ after 9 characters"):
        conll2018(gold, read_conllu(written(sentences, tmp_path / "system.conllu")))
