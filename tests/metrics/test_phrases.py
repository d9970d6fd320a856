"""Phrase counts against sets of spans, which are found with the published table of label pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spom.errors import DataError
from spom.metrics.phrases import has_phrases, phrase_scores, phrases

# (label before, label here): conlleval's table for B, I, E, O, and S as in its version for IOBES.
ENDS = {"BB", "BO", "BS", "IB", "IO", "IS", "EE", "EI", "EO", "EB", "ES", "SB", "SI", "SE", "SS", "SO"}
STARTS = {"BB", "IB", "OB", "EB", "SB", "OI", "EI", "SI", "EE", "OE", "SE", "BS", "IS", "ES", "SS", "OS"}


def spans(labels):
    """{(begin, end, type)} of a sentence between two O."""
    padded = ["O", *labels, "O"]
    tags = [label.split("-", 1)[0] for label in padded]
    kinds = [label.split("-", 1)[1] if "-" in label else "" for label in padded]
    found, begin = set(), None
    for t in range(1, len(padded)):
        pair, changed = tags[t - 1] + tags[t], kinds[t - 1] != kinds[t]
        if begin is not None and (pair in ENDS or (tags[t - 1] != "O" and changed)):
            found.add((begin - 1, t - 1, kinds[t - 1]))
            begin = None
        if pair in STARTS or (tags[t] != "O" and changed):
            begin = t
    return found


label = st.sampled_from(["O", *(f"{p}-{k}" for p in "BIES" for k in ("NP", "VP", "A-B"))])
pair = st.lists(st.tuples(label, label), max_size=12)


@given(st.lists(pair, max_size=6))
def test_counts_are_those_of_sets_of_spans(sentences):
    gold = [[right for right, _ in sentence] for sentence in sentences]
    found = [[guess for _, guess in sentence] for sentence in sentences]
    scores = phrase_scores(gold, found)
    right, guess = ([(i, *span) for i, labels in enumerate(part) for span in spans(labels)] for part in (gold, found))
    assert (scores.gold, scores.found, scores.correct) == (len(right), len(guess), len(set(right) & set(guess)))
    for name in ("NP", "VP", "A-B"):
        part = scores.types.get(name)
        of = [[span for span in side if span[3] == name] for side in (right, guess)]
        if part is None:
            assert not of[0]
            assert not of[1]
        else:
            assert (part.gold, part.found, part.correct) == (len(of[0]), len(of[1]), len(set(of[0]) & set(of[1])))
    flat = [a == b for sentence in sentences for a, b in sentence]
    assert scores.accuracy == pytest.approx(np.mean(flat) if flat else 0.0)
    for labels in gold:
        assert sorted(phrases(labels)) == sorted(spans(labels))


def test_known_scores():
    gold = [["B-NP", "I-NP", "B-NP", "O"], ["I-PP"]]
    scores = phrase_scores(gold, [["B-NP", "I-NP", "I-NP", "O"], ["B-PP"]])
    assert (scores.gold, scores.found, scores.correct) == (3, 2, 1)
    assert scores.precision == 0.5
    assert scores.recall == pytest.approx(1 / 3)
    assert scores.f1 == pytest.approx(0.4)
    assert scores.accuracy == pytest.approx(3 / 5)
    assert scores.types["PP"].f1 == 1.0
    text = str(scores).splitlines()
    assert text[0] == "processed 5 tokens with 3 phrases; found: 2 phrases; correct: 1."
    assert text[1] == "accuracy:  60.00%; precision:  50.00%; recall:  33.33%; FB1:  40.00"
    assert text[2] == "               NP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1"
    assert phrase_scores(gold, gold).f1 == 1.0


def test_nothing_and_what_does_not_fit():
    empty = phrase_scores([], [])
    assert (empty.f1, empty.accuracy, empty.tokens) == (0.0, 0.0, 0)
    assert phrase_scores([["O"]], [["O"]]).f1 == 0.0
    with pytest.raises(DataError, match="expected labels for 1 sentences, found 2"):
        phrase_scores([["O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="sentence 1: expected 2 labels, found 1"):
        phrase_scores([["O"], ["O", "O"]], [["O"], ["O"]])


def test_which_labels_write_phrases():
    assert has_phrases(["B-NP", "O", "I-NP"])
    assert has_phrases(["S-X", "E-Y"])
    assert not has_phrases(["NN", "VB"])
    assert not has_phrases(["O"])
    assert has_phrases(["B", "I", "O"])
    assert not has_phrases([])
    assert not has_phrases(["B-NP", "NN"])
