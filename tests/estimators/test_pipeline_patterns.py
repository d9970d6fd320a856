"""Tokens that look alike in most treebanks: what the patterns match, when they are used, and what they change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spom.data.surface import Surface
from spom.errors import ModelFileError
from spom.estimators.pipeline.patterns import OFTEN, PATTERNS, agreeing, impose
from spom.estimators.pipeline.segmenter import Segmenter
from spom.estimators.pipeline.sentences import Spans

COUNT = len(PATTERNS)
URL, MAIL, FACE, DOTS, SAME, INITIALS, OPEN, CLOSE = range(8)
OPENED, CLOSED, BEFORE, AFTER, COMMA, ASKED, YEAR, INITIAL = range(8, COUNT)
INSIDE, END, LAST, OUTSIDE = range(4)

MATCHES = [
    (URL, "see www.a.org/b_c?d=1. (http://x.y/), https:// no", ["www.a.org/b_c?d=1", "http://x.y/"]),
    (MAIL, "a.b@c-d.org, @x a@b", ["a.b@c-d.org"]),
    (FACE, "x :-) y.;) z:) 3:4 :Da =D :)) :'(", [":-)", ";)", "=D", ":))", ":'("]),
    (DOTS, "a... b.. c.... ...d", ["...", "..."]),
    (SAME, "a -- b *** c=d ==e -_ 14.--", ["--", "***", "=="]),
    (INITIALS, "U.S. and C.B.\u00c9. but 3.5. x.y.", ["U.S.", "C.B.\u00c9.", "x.y."]),
    (OPEN, '(ab [1956 (5 c (1) (i) a(bc ("x {\u201ey', ["(", "[", "(", "{"]),
    (CLOSE, "ab) 1956] 5) i) c.) abc)d \u00e9t\u00e9}", [")", "]", ")", "}"]),
    (OPENED, "(1 a) (ii) a(1 b) (5 c (d e) (f", ["(", "("]),
    (CLOSED, "(1 a2) (ii) a(1 3)b a) b) (d\ne 5) ((f g))", [")", ")"]),
    (BEFORE, '"a (\u00abb ``c \u00bfd b"e \'\'f " ', ['"', "\u00ab", "``", "\u00bf", "''"]),
    (AFTER, 'a" b.\'\' c!\u201d d"e "', ['"', "''", "\u201d"]),
    (COMMA, "a, 1,5 2; b\u060c c ,d", [",", ";", "\u060c"]),
    (ASKED, "ab! a! cd\u0964 1? \u061f ef!?", ["!", "\u0964", "?"]),
    (YEAR, "1996. 12. 12345. 1996.5", [".", "."]),
    (INITIAL, "J. Smith, a.\nb U.S. x", ["J."]),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES)
def test_patterns_match_tokens(pattern: int, text: str, expected: list[str]) -> None:
    assert [match[match.lastindex or 0] for match in PATTERNS[pattern].finditer(text)] == expected


HOSTILE = ("a_", "a.", "www.", ":(", "-", "a@", "-=", "(", "'", '"', " a.", "x@a.", "1", "http://!", ".", "!?")


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_pattern_never_begins_to_match_at_every_place_of_a_long_run(piece: str) -> None:
    # Quadratic time would be minutes here, and so show as a run of the tests that does not end.
    text = "x" + piece * 50_000 + "b"
    assert all(match.end() > match.start() for pattern in PATTERNS for match in pattern.finditer(text))


def read(text: str, ends: list[int], patterns: list[int]) -> list[str]:
    """Return the tokens after the patterns, from a text whose tokens end at `ends`."""
    labels = np.array([OUTSIDE if c == " " else INSIDE for c in text], dtype=np.int8)
    labels[np.array(ends) - 1] = END
    labels[-1] = LAST
    impose(text, np.array(patterns), labels)
    assert labels[-1] == LAST
    found, begin = [], 0
    for i, label in enumerate(labels.tolist()):
        begin = i + 1 if label == OUTSIDE else begin
        if label in (END, LAST):
            found.append(text[begin : i + 1])
            begin = i + 1
    return found


def test_matches_become_tokens_and_the_rest_stays() -> None:
    assert read("ab...cd e", [4, 7], [DOTS]) == ["ab", "...", "cd", "e"]
    assert read("ab... cd", [3, 4, 5], [DOTS]) == ["ab", "...", "cd"]
    assert read("ab... cd", [2, 3, 4, 5], []) == ["ab", ".", ".", ".", "cd"]
    # Of two patterns that overlap the earlier one counts, in any text.
    assert read("www.a--b c", [4, 8], list(range(COUNT))) == ["www.a--b", "c"]


def test_a_token_that_continued_over_a_blank_ends_before_it() -> None:
    text = "ab (cd e"
    labels = np.array([INSIDE] * 5 + [END, OUTSIDE, LAST], dtype=np.int8)
    impose(text, np.array([OPEN]), labels)
    assert labels.tolist() == [INSIDE, END, OUTSIDE, END, INSIDE, END, OUTSIDE, LAST]


def bounds(tokens: list[str]) -> tuple[str, np.ndarray, np.ndarray]:
    """Return a text of these tokens with a blank after each one that ends with `_`, and where they begin and end."""
    text, begin, end = "", [], []
    for token in tokens:
        begin.append(len(text))
        text += token.rstrip("_")
        end.append(len(text))
        text += " " * token.endswith("_")
    return text, np.array(begin), np.array(end)


def test_a_pattern_is_used_if_no_more_than_one_match_in_forty_is_no_token() -> None:
    split = ["ab", ".", ".", "._"]
    assert agreeing("", np.empty(0, int), np.empty(0, int)).tolist() == list(range(INITIAL))
    for whole in (39, 40):
        found = agreeing(*bounds(["ab", "..._"] * whole + split)).tolist()
        assert (DOTS in found) == (whole == 40)
    for count in (OFTEN - 1, OFTEN):
        assert (DOTS in agreeing(*bounds(["ab", "..._"] * count)).tolist()) == (count < OFTEN)
    for count in (1, 2):
        assert (INITIAL in agreeing(*bounds(["J._", "Smith_"] * count)).tolist()) == (count == 2)


def surface_of_words(marks: list[str]) -> Surface:
    """Return 60 sentences: a word, a mark and a word without blanks, and a full stop."""
    draw, forms = np.random.default_rng(2), list[str]()
    for k in range(60):
        one, two = ("".join(draw.choice(list("abdeiklmnorst"), 6)) for _ in range(2))
        forms += [one, marks[k % len(marks)], two, "."]
    size = len(forms)
    return Surface(forms, ["", "", "", " "] * 60, np.arange(size + 1), np.arange(0, size + 1, 4), [False] * 60)


def test_a_segmenter_uses_the_patterns_that_agree_with_its_treebank() -> None:
    surface = surface_of_words(["-"])
    segmenter = Segmenter.fit(surface, np.zeros(len(surface.forms), dtype=np.int64))
    assert segmenter.whole.tolist() == list(range(INITIAL))
    text = "lemo-sola www.le-mo.org :-) dan-tek."
    again = Segmenter.from_arrays(segmenter.arrays())
    for one in (segmenter, again):
        found = one.segments(text)
        tokens = [text[a:b] for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True)]
        assert tokens == ["lemo", "-", "sola", "www.le-mo.org", ":-)", "dan", "-", "tek", "."]
    # Files of older versions have no patterns.
    older = Segmenter.from_arrays({name: a for name, a in segmenter.arrays().items() if name != "whole"})
    assert older.whole.size == 0
    assert older.segments(text).end.tolist() == replace(segmenter, whole=older.whole).segments(text).end.tolist()
    assert older.segments(text).end.tolist() != segmenter.segments(text).end.tolist()
    with pytest.raises(ModelFileError, match="damaged"):
        Segmenter.from_arrays({**segmenter.arrays(), "whole": np.array([COUNT])})


class EverywhereEnds:
    """The score of the end of a sentence is high after each token."""

    @staticmethod
    def margins(text: object, lower: object, spans: Spans) -> np.ndarray:
        return np.full(spans.begin.size, 1e6, dtype=np.float32)


def test_no_sentence_ends_where_only_a_pattern_cuts() -> None:
    words = surface_of_words([","])
    # A comma belongs to the word before it in this treebank.
    forms = [form for one, mark, two, stop in np.reshape(words.forms, (60, 4)) for form in (one + mark, two, stop)]
    surface = Surface(forms, [" ", "", " "] * 60, np.arange(181), np.arange(0, 181, 3), [False] * 60)
    fitted = Segmenter.fit(surface, np.zeros(180, dtype=np.int64))
    assert COMMA not in fitted.whole
    segmenter = replace(fitted, ends=EverywhereEnds())
    text = "lemo, soladan. tek"
    alone = replace(segmenter, whole=np.empty(0, dtype=np.int64)).segments(text)
    assert alone.end.tolist() == [5, 13, 14, 18]
    assert alone.last.all()
    found = replace(segmenter, whole=np.array([COMMA])).segments(text)
    assert found.end.tolist() == [4, 5, 13, 14, 18]
    assert found.last.tolist() == [False, True, True, True, True]
