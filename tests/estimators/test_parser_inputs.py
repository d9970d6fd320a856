"""Sentences that are no treebank: pairs, dicts, and what is said of words without tags."""

from __future__ import annotations

import pytest

from spom import DependencyParser
from spom.data import Treebank
from spom.errors import DataError, Unsupported


@pytest.fixture(scope="module")
def parser() -> DependencyParser:
    rows = [("the", "DET", 2, "det"), ("cat", "NOUN", 3, "nsubj"), ("sleeps", "VERB", 0, "root")]
    sentence = [{"form": w, "upos": t, "xpos": t, "head": h, "deprel": r} for w, t, h, r in rows]
    return DependencyParser(min_count=1, random_state=0, verbose=0).fit(Treebank.from_sentences([sentence] * 20))


@pytest.mark.parametrize("jobs", [None, 2, -1])
def test_jobs_follow_joblibs_rule(parser: DependencyParser, jobs: int | None) -> None:
    sentences = [[("the", "DET"), ("cat", "NOUN"), ("sleeps", "VERB")]] * 40
    parser.n_jobs = jobs
    assert parser.predict(sentences).heads.tolist() == [2, 3, 0] * 40
    parser.n_jobs = None


def test_pairs_and_dicts(parser: DependencyParser) -> None:
    pairs = [[("the", "DET"), ("cat", "NOUN"), ("sleeps", "VERB")]]
    found = parser.predict(pairs)
    assert found.heads.tolist() == [2, 3, 0]
    dicts = [[{"form": w, "upos": t, "xpos": t} for w, t in sentence] for sentence in pairs]
    assert parser.predict(dicts).heads.tolist() == [2, 3, 0]
    assert len(parser.predict([])) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["the", "cat"]], "the parser reads upos.*which the sentences do not have"),
        ("the cat", "expected a Treebank or lists"),
        ([[("the", "DET", 1)]], r"sentence 0, word 0: expected a word, a \(word, tag\) pair or a dict"),
    ],
)
def test_what_is_missing_is_said(parser: DependencyParser, given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parser.predict(given)


def test_templates_that_need_a_tree_are_refused_in_the_first_stage() -> None:
    words = [{"form": w, "upos": "X", "head": h, "deprel": "x"} for w, h in (("a", 2), ("b", 0), ("c", 2))]
    with pytest.raises(Unsupported, match="use second_stage=True"):
        DependencyParser(["sibling.upos h.upos"], min_count=1, verbose=0).fit(Treebank.from_sentences([words] * 3))
