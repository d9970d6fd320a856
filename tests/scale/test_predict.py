"""Predictions for shards: those of the model itself, in order, in memory and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spom import DependencyParser, OnlineClassifier, SequenceTagger
from spom.data import read_conll, read_conllu
from spom.data.conllu import conllu_text
from spom.errors import DataError
from spom.scale import Shards, predict
from tests.scale.test_parser import trees
from tests.scale.test_tagger import sentences

TRAIN, TEST = sentences(100), sentences(30, 1)


@pytest.mark.parametrize("n", [1, 4, 50])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_tagger_tags_shards_in_order(n: int, n_jobs: int, tmp_path: Path) -> None:
    tagger = SequenceTagger(random_state=0, verbose=0, epochs=2).fit(TRAIN)
    words = TEST.select([0, 1])
    assert predict(tagger, Shards.arrays(words, None, n), n_jobs=n_jobs) == tagger.predict(words)
    assert (
        predict(tagger, Shards.arrays(words, None, n), n_jobs=n_jobs, out=tmp_path / "out.txt") == tmp_path / "out.txt"
    )
    found = read_conll(tmp_path / "out.txt")
    assert found.strings(0) == words.strings(0)
    assert found.strings(2) == tagger.predict(words)


def test_a_parser_parses_files(tmp_path: Path) -> None:
    parser = DependencyParser(verbose=0, epochs=2, table_bits=10).fit(trees(60, 0))
    bank = trees(25, 1)
    (tmp_path / "a.conllu").write_bytes(conllu_text(bank))
    predict(parser, Shards.conllu(tmp_path / "a.conllu", 4), out=tmp_path / "out.conllu")
    assert read_conllu(tmp_path / "out.conllu").heads.tolist() == parser.predict(bank).heads.tolist()


def test_rows_and_a_shard_that_cannot_be_read(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = OnlineClassifier(random_state=0, verbose=0).fit(X, X[:, 0] > 0)
    np.testing.assert_array_equal(predict(model, Shards.arrays(X, None, 7)), model.predict(X))
    (tmp_path / "a.csv").write_text("a,b,c,kind\n1,2,x,0\n")
    with pytest.raises(DataError, match=r"shard 2 of 2 .*a\.csv, bytes 11-19, line 2: expected a number"):
        predict(model, Shards.csv(tmp_path / "a.csv", 2), out=tmp_path / "out.txt")
    assert not (tmp_path / "out.txt").exists()
