"""Treebanks for the parsing experiment: EWT, or CoNLL-2008 if the user has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spom.data import load
from spom.data.fetching import data_folder, read_bytes
from spom.data.treebank import Treebank
from spom.errors import DataError, Unsupported

# The files of the shared task, relative to the data folder.
CONLL2008 = {"train": "conll2008/train.closed", "test": "conll2008/test.wsj.GOLD"}
PUNCTUATION = frozenset({"''", "``", ",", ".", ":", "-LRB-", "-RRB-", "(", ")", "$", "#", "HYPH"})


def trees(name: str, sentences: int | None, tests: int | None) -> tuple[Treebank, Treebank, Treebank]:
    """Return the first (training, development, test) sentences of `"ewt"` or `"conll2008"`.

    The files of CoNLL-2008 have no development part here, so every tenth sentence of the training part becomes it.
    """
    if name == "ewt":
        data = load("ewt")
        if data.train is None or data.test is None or data.folds is None:
            raise DataError("expected a training, a development and a test part", source="ewt")
        dev = np.flatnonzero(np.asarray(data.folds) == 1)
        return data.X[data.train[:sentences]], data.X[dev[:tests]], data.X[data.test[:tests]]
    if name != "conll2008":
        raise Unsupported(f"there is no treebank {name!r} here; there are: ewt, conll2008")
    train, test = (read_conll2008(data_folder() / path) for path in CONLL2008.values())
    held = np.arange(len(train)) % 10 == 9
    return train[np.flatnonzero(~held)[:sentences]], train[np.flatnonzero(held)[:tests]], test[:tests]


def read_conll2008(path: str | Path) -> Treebank:
    """Read the words, lemmas, predicted tags, heads and relations from a file of the CoNLL-2008 shared task.

    The data are licensed (LDC2009T12) and cannot be downloaded: put train.closed and test.wsj.GOLD into the folder
    conll2008 under the data folder. Tags of punctuation become PUNCT, so scores without punctuation leave it out.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(
            "not there: CoNLL-2008 is licensed (LDC2009T12); put its files into the folder conll2008 under the data "
            "folder, or use the data ewt",
            source=str(path),
        )
    return Treebank.from_sentences(_sentences(read_bytes(path).decode("utf-8"), str(path)))


def _sentences(text: str, source: str) -> Iterator[list[dict[str, Any]]]:
    words: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if words:
                yield words
            words = []
            continue
        # ID FORM LEMMA GPOS PPOS SPLIT_FORM SPLIT_LEMMA PPOSS HEAD DEPREL PRED ARGS...
        fields = line.split("\t")
        if len(fields) < 10 or not fields[8].isdigit():
            raise DataError("expected the columns of CoNLL-2008: ten or more, the ninth a head", source, number)
        tag = fields[7]
        words.append(
            {
                "form": fields[5],
                "lemma": fields[6],
                "upos": "PUNCT" if tag in PUNCTUATION else tag,
                "xpos": tag,
                "head": int(fields[8]),
                "deprel": fields[9],
            }
        )
    if words:
        yield words
