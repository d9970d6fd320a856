"""The compiled loops of the tokeniser against plain Python: hashes of characters and tokens, labels, lines.

Model files keep weights by these hashes, so they are compared as numbers.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from spom.estimators.pipeline.characters import (
    BITS,
    FORMER,
    MOST,
    OLDER,
    character_hashes,
    character_places,
    characters_of,
    lowered,
    number_places,
    places_before,
    runs_of,
)
from spom.estimators.pipeline.characters import TEMPLATES as SIZE
from spom.estimators.pipeline.segmenter import Labels, Segmenter, Segments, label_pieces, tokens_of
from spom.estimators.pipeline.sentences import TEMPLATES as OF_TOKENS
from spom.estimators.pipeline.sentences import Spans, add_up, described, places_of
from spom.estimators.pipeline.writing import Place, Strings, Words, conllu_of

TEXTS = [
    "",
    "x",
    " ",
    "\n\n",
    'He said (x\n\nNo! "a [b]" 12-Ab cd))-Ef No!  Well...? \u201cYes\u201d\n 3',
    "Mail me...@example.com, b/c \u4e2d\u6587x, 3.5 x-rays \u4e2d\u3002 (or so). \n \n \u00e9t\u00e9--22aa "
    "a\u0301 $5+!",
    "ABCdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz0123456789-abcdefghijklm(nopqrs)tuvwxyz x" + "!" * 30,
    "a b c d e f g h i j k l m n o p q r s t u v w x y z, a. b c d e f g! h i? j\uff01 k \uff1f l \u3002 m\n\nn o",
    'aab/bba ,,x ((y)) [z "q" [["r" s]] t" u )v( w',
]
ODD = 'Yes. He (Late) x 3 p.m. "Th\u00e9n a--!!-b Left.\n\nhe\uff1f 33 Yes!'
MANY = "a b c d e f g h i j k l m n o p q r s t u v w x"
WORD = (1 << 64) - 1
SEED = 14695981039346656037


def mixed(h: int, *values: int) -> int:
    """Return a hash of a hash and more values, one after another."""
    for value in values:
        h = (h ^ value) * 11400714819323198485 & WORD
        h ^= h >> 29
    return h


def bins(count: int) -> int:
    return sum(count > top for top in (0, 1, 2, 3, 6, 10, 20))


class Twin:
    """A text, its runs and the features of its characters, each written down as in its description."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds = characters_of(text).kinds.tolist()
        blank = "".join("_" if k == 1 else "x" for k in self.kinds)
        self.flat = list(text)
        for gap in re.finditer("_+", blank):
            a, b = gap.span()
            self.flat[a:b] = ("\n" if text.count("\n", a, b) > 1 else " ") * (b - a)
        self.runs = [m.span() for m in re.finditer("x+", blank)]
        self.number = [sum(a <= i for a, _ in self.runs) - 1 for i in range(len(text))]
        self.foreign = [any(k == 5 for k in self.kinds[a:b]) for a, b in self.runs]

    def what(self, i: int) -> int:
        """Return the kind of letters and digits, and the code of other characters."""
        return self.kinds[i] if self.kinds[i] < 8 else ord(self.text[i]) + 16

    def shape(self, places: range) -> list[int]:
        """Return what characters are, with repeated ones merged."""
        return [value for value, _ in itertools.groupby(self.what(i) for i in places)]

    def of_run(self, r: int, name: str) -> int:
        """Return a hash of run r; 0 if there is none, or if it is of a script without blanks."""
        if not 0 <= r < len(self.runs) or self.foreign[r]:
            return 0
        places = range(*self.runs[r])
        if name == "marks":
            signs = {ord(self.text[i]) % 64 for i in places if self.kinds[i] >= 8}
            return sum(1 << sign for sign in signs)
        values = {
            "whole": [ord(self.text[i]) for i in places],
            "lower": [ord(c) if len(c := self.text[i].lower()) == 1 else ord(self.text[i]) for i in places],
            "shape": self.shape(places),
        }
        return mixed(1, *values[name])

    def place(self, r: int) -> list[int]:
        """Return runs before and after r in its paragraph, runs since a stop, 2 for an open bracket + 1 for a quote."""
        ends = [k for k in range(1, len(self.runs)) if self.flat[self.runs[k][0] - 1] == "\n"]
        first = max([0, *(k for k in ends if k <= r)])
        last = min([len(self.runs), *(k for k in ends if k > r)]) - 1
        stops = [k for k in range(first, r) if self.text[self.runs[k][1] - 1] in ".!?\u3002\uff01\uff1f"]
        depth, quote = 0, 0
        for c in self.text[self.runs[first][0] : self.runs[r][1]]:
            depth = max(0, depth + (c in "([") - (c in ")]"))
            quote ^= c == '"'
        since = r - (max(stops) + 1 if stops else first)
        return [bins(r - first), bins(last - r), bins(since), 2 * (depth > 0) + quote]

    def c(self, i: int) -> int:
        return ord(self.flat[i]) + 1 if 0 <= i < len(self.text) else 0

    def k(self, *places: int) -> int:
        """Return the kinds of some characters as one number."""
        found = 0
        for i in places:
            found = found * 16 + (self.kinds[i] if 0 <= i < len(self.text) else 0)
        return found

    def coarse(self, i: int) -> int:
        """0 outside of the text, 1 for a blank, 2 for a letter or digit, 3 for other characters."""
        kind = self.k(i)
        return 0 if kind == 0 else 1 if kind == 1 else 2 if kind < 8 else 3

    def features(self, i: int, size: int) -> list[int]:
        """Return the hashes of the templates at character i, for a model file with `size` of them."""
        c, k, r = self.c, self.k, self.number[i]
        small = self.kinds[i] in (2, 3, 4) and k(i + 1) in (2, 3, 4)
        begin, end = self.runs[r] if self.runs and r >= 0 else (0, 0)
        plain = self.kinds[i] != 1 and not self.foreign[r]
        before = mixed(1, *(map(ord, self.text[max(begin, i - 23) : i + 1]) if plain else ()))
        after = mixed(2, *(map(ord, self.text[i + 1 : min(end, i + 24)]) if plain else ()))
        grams = ["-1 1", "-2 1", "-1 2", "-3 0", "0 3", "-2 2", "0 0", "-1 0", "0 1", "-2 0", "0 2", "1 2"]
        found: list[tuple[int, ...]] = []
        for gram in grams[:6] if small or self.kinds[i] == 1 else grams:
            a, b = map(int, gram.split())
            found.append(tuple(c(j) for j in range(i + a, i + b + 1)))
        found.append((k(*range(i - 3, i + 4)),))
        found += [(before,), (after,), (before, after), (before, c(i + 1)), (after, c(i))]
        if small or self.kinds[i] == 1:
            found += [(k(i, i + 1),)] if size > OLDER else []
        else:
            found += self.of_runs(i, before, after)
            marks = self.kinds[i] >= 8 or k(i + 1) >= 8
            if size > MOST and i + 1 < end and plain and marks:
                found += self.of_shapes(i)[: size - MOST]
        return [mixed(SEED * (v + 1) & WORD, *values) for v, values in enumerate(found)]

    def of_runs(self, i: int, before: int, after: int) -> list[tuple[int, ...]]:
        c, k, r = self.c, self.k, self.number[i]
        begin, end = self.runs[r]
        ending = int(i + 1 == end)
        whole, word, shape, marks = (self.of_run(r, name) for name in ("whole", "lower", "shape", "marks"))
        left, right, second = (self.of_run(r + at, "lower") for at in (-1, 1, 2))
        left_shape, right_shape, second_shape = (self.of_run(r + at, "shape") for at in (-1, 1, 2))
        first = 0
        if r + 1 < len(self.runs):
            at = self.runs[r + 1][0]
            first = k(at, at + 1) if at + 1 < len(self.text) else k(at)
        sign = c(i) * 2 + ending
        here = mixed(sign, first)
        preceding, following, since, opened = self.place(r)
        return [
            (whole, first, after),
            (right, c(i), k(i + 1)),
            (here, c(i + 1), k(i - 1)),
            (left, before, first),
            (whole, right, after),
            (k(i, i + 1, i + 2), first, min(i - begin, 4)),
            (marks, c(i), k(i + 1)),
            (marks, k(i - 1, i, i + 1, i + 2)),
            (shape, right_shape, ending),
            (shape, right_shape, second_shape, ending),
            (left_shape, shape, right_shape, ending),
            (left_shape, right_shape, sign),
            (right, shape, ending),
            (word, right_shape, ending),
            (right, second, sign),
            (left, word, ending),
            (preceding, here),
            (following, here),
            (since, here),
            (opened, here, c(i + 1)),
            (preceding * 8 + following, shape, first * 2 + ending),
            (since, shape, right_shape, ending),
            (k(i, i + 1),),
            (k(i - 1, i, i + 1, i + 2),),
            (c(i), k(i + 1)),
            (k(i), c(i + 1)),
            (k(i - 1, i), mixed(c(i + 1), k(i + 2))),
        ]

    def of_shapes(self, i: int) -> list[tuple[int, ...]]:
        c, k = self.c, self.k
        begin, end = self.runs[self.number[i]]
        first, last = max(begin, i - 23), min(end, i + 24)
        before, after = mixed(1, *self.shape(range(first, i + 1))), mixed(1, *self.shape(range(i + 1, last)))
        small = "".join("x" if kind < 8 else "." for kind in self.kinds)
        # The letters before the mark, or up to the gap; those after the gap.
        left = re.search("x*$", small[first : i + (small[i] == "x")])
        right = re.match("x*", small[i + 1 : last])
        assert left is not None
        assert right is not None
        sizes = 8 * min(4, len(left[0])) + min(4, len(right[0]))
        same = 2 * (c(i - 1) == c(i)) + (c(i) == c(i + 1))
        near = k(i - 1, i, i + 1)
        return [
            (before, after),
            (before, after, sizes),
            (sizes, c(i), near),
            (before, c(i + 1), k(i + 2)),
            (before, k(i + 1)),
            (after, k(i)),
            (c(i), same),
            (near, same),
            (self.coarse(i), c(i + 1)),
            (c(i), self.coarse(i + 1)),
            (self.coarse(i), c(i + 1), self.coarse(i + 2)),
            (self.coarse(i - 1), c(i), self.coarse(i + 1)),
            (int("".join(str(self.coarse(i + at)) for at in range(-1, 3)), base=4),),
        ]


@pytest.mark.parametrize("text", TEXTS)
def test_characters_have_the_hashes_of_the_twin(text: str) -> None:
    twin, characters = Twin(text), characters_of(text)
    assert [chr(c) for c in characters.points] == twin.flat
    runs = runs_of(characters, lowered(characters.points))
    assert runs.number.tolist() == twin.number
    assert list(zip(runs.begin.tolist(), runs.end.tolist(), strict=True)) == twin.runs
    for r in range(len(twin.runs)):
        for name in ("whole", "lower", "shape", "marks"):
            assert int(getattr(runs, name)[r]) == twin.of_run(r, name)
        assert runs.place[r].tolist() == twin.place(r)
    window, every = np.empty((3, 9), dtype=np.uint64), []
    for i in range(len(text)):
        for size in (MOST, OLDER, FORMER, SIZE):
            hashes = np.zeros(size, dtype=np.uint64)
            count = character_hashes(characters, runs, i, window, hashes)
            found = twin.features(i, size)
            assert hashes[:count].tolist() == found, (i, size)
        every += [(h * 10376313370251892927 & WORD) >> 42 for h in found]
    if text.strip():
        indptr, counts = places_before(characters, runs), np.zeros(1 << BITS, dtype=np.int32)
        places = np.empty(int(indptr[-1]), dtype=np.int32)
        character_places(characters, runs, indptr, places, counts)
        assert places.tolist() == every
        np.testing.assert_array_equal(counts, np.bincount(every, minlength=1 << BITS))


def best_labels(twin: Twin, scores: np.ndarray, chain: np.ndarray, first: int, end: int) -> tuple[int, ...]:
    """Return the best path of all admissible ones; ties go to the lower label at the last place where paths differ."""
    allowed = []
    for i in range(first, end):
        blank = twin.kinds[i] == 1
        found = {0, 3} if blank else {0, 1, 2}
        if i + 1 == end:
            found = {3} if blank else {2}
        elif not blank and twin.flat[i + 1] == "\n":
            found = {2}
        allowed.append(sorted(found))
    paths = [p for p in itertools.product(*allowed) if (0, 3) not in itertools.pairwise(p)]

    def total(path: tuple[int, ...]) -> float:
        return float(scores[range(first, end), path].sum() + sum(chain[a, b] for a, b in itertools.pairwise(path)))

    return min(paths, key=lambda path: (-total(path), path[::-1]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [MOST, SIZE])
def test_labels_are_those_of_the_best_path(seed: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    text = ["ab c. d", "a\n\nb", " (x)y ", "ab.\n\n \nc d", "a-b", "x y  z"][seed]
    twin, characters = Twin(text), characters_of(text)
    runs = runs_of(characters, lowered(characters.points))
    features = [[(h * 10376313370251892927 & WORD) >> 42 for h in twin.features(i, size)] for i in range(len(text))]
    known = sorted({p for row in features for p in row if draw.random() < 0.6})
    # Quarters, so that sums are exact and paths often tie.
    weights = (draw.integers(-3, 4, (len(known), 4)) / 4 * (draw.random((len(known), 4)) < 0.3)).astype(np.float32)
    chain = (draw.integers(-4, 5, (4, 4)) / 4).astype(np.float32)
    segmenter = Segmenter.of(np.array(known, dtype=np.int32), weights, chain, None, size)
    row = dict(zip(known, weights, strict=True))
    scores = np.array([sum((row[p] for p in places if p in row), np.zeros(4)) for places in features])
    cut = int(draw.integers(1, len(text)))
    bounds = np.array([[0, cut], [cut, len(text)]])
    out = Labels(np.full(len(text), 9, dtype=np.int8), np.zeros(len(text), dtype=np.float32))
    label_pieces(characters, runs, segmenter.slots, bounds, out)
    for a, b in bounds.tolist():
        path = best_labels(twin, scores, chain, a, b)
        assert tuple(out.label[a:b].tolist()) == path
        for i in range(a, b):
            margin = scores[i, 2] - scores[i, 1]
            if path[i - a] == 2 and (i + 1 == b or twin.flat[i + 1] == "\n"):
                # The sentence ends in any case.
                assert out.margin[i] > 9e8
                continue
            if i > a:
                margin += chain[path[i - 1 - a], 2] - chain[path[i - 1 - a], 1]
            follows = path[i + 1 - a] if i + 1 < b else 3
            assert out.margin[i] == margin + chain[2, follows] - chain[1, follows]


def test_a_table_finds_all_places_also_where_they_collide() -> None:
    places = np.array([5, 37, 69, 31, 63, 30, 0], dtype=np.int32)
    weights = np.arange(28, dtype=np.float32).reshape(7, 4)
    slots = Segmenter.of(places, weights, np.zeros((4, 4), dtype=np.float32), None).slots
    assert slots.keys.size == 16
    for place, row in zip(places.tolist(), weights, strict=True):
        (at,) = np.flatnonzero(slots.keys == place + 1)
        np.testing.assert_array_equal(slots.rows[at], row)
        # Nothing is empty between where a place belongs and where it is.
        assert all(slots.keys[j % 16] for j in range(place % 16, at + 16 * (at < place % 16)))
    assert np.count_nonzero(slots.keys) == 7


@pytest.mark.parametrize("seed", range(30))
def test_tokens_are_read_from_any_labels(seed: int) -> None:
    draw = np.random.default_rng(seed)
    text = "".join(draw.choice(list("ab. \n"), int(draw.integers(1, 14)) if seed else 0))
    labels = draw.choice(4, len(text), p=[0.45, 0.2, 0.1, 0.25])
    found = tokens_of(characters_of(text), labels.astype(np.int8))
    # Labels as letters, those of blanks small; a token begins at no blank, and goes on over what is outside.
    signs = "".join("IELo"[y].lower() if c in " \n" else "IELo"[y] for y, c in zip(labels, text, strict=True))
    tokens = list(re.finditer("[EL]|I[Iio]*[EeLl]|I([Iio]*[Ii])?$", signs))
    assert found.begin.tolist() == [m.start() for m in tokens]
    assert found.end.tolist() == [m.end() for m in tokens]
    last = [m[0][-1] in "LlIi" or m is tokens[-1] for m in tokens]
    assert found.last.tolist() == last
    assert found.offsets.tolist() == [0, *(t + 1 for t in range(len(tokens)) if last[t])]


@pytest.mark.parametrize("text", ["", "a", "one two.", f"{ODD} {MANY}. y", f"a b\n\n{ODD}"])
def test_tokens_have_the_hashes_of_the_twin(text: str) -> None:
    twin = Twin(text)
    spans = [m.span() for m in re.finditer(r"\w+|[^\w\s]+", text)]
    codes = np.arange(len(spans)) * 7 % 50
    characters = characters_of(text)
    arrays = np.array(spans, dtype=np.int64).reshape(-1, 2).T.copy()
    attributes, paragraph = described(characters, lowered(characters.points), Spans(*arrays))
    breaks = [t for t in range(1, len(spans)) if "\n" in twin.flat[spans[t - 1][1] : spans[t][0]]]
    assert paragraph.tolist() == [sum(b <= t for b in breaks) for t in range(len(spans))]
    own = []
    for t, (a, b) in enumerate(spans):
        first, last = max([0, *(k for k in breaks if k <= t)]), min([len(spans), *(k for k in breaks if k > t)]) - 1
        stops = [k for k in range(first, t) if text[spans[k][1] - 1] in ".!?\u3002\uff01\uff1f"]
        low = [ord(x) for x in text[a:b].lower()]
        kind = twin.kinds[a]
        own.append([
            mixed(1, *low), mixed(1, *twin.shape(range(a, b))), twin.k(*range(a, min(b, a + 2))), mixed(1, *low[-3:]),
            int(t + 1 < len(spans) and spans[t + 1][0] > b), bins(t - first), bins(last - t),
            bins(t - (stops[-1] + 1 if stops else first)), int(codes[t]) // 16,
            int(codes[t]) % 16 + 16 if kind == 3 else kind,
        ])  # fmt: skip
    assert attributes[:, :8].tolist() == [row[:8] for row in own]
    found = places_of(attributes, paragraph, codes)
    names = ["lower", "shape", "case", "suffix", "blank", "before", "after", "since", "tags", "seen"]
    for v, template in enumerate(OF_TOKENS):
        parts = [(names.index(name), int(at)) for name, at in re.findall(r"(\w+)\[(-?\d)\]", template)]
        for t in range(len(spans)):
            values = []
            for name, at in parts:
                inside = 0 <= t + at < len(spans) and paragraph[t + at] == paragraph[t]
                values.append(own[t + at][name] if inside else 0)
            h = mixed(SEED * (v + 1) & WORD, *values)
            assert found[t, v] == (h * 10376313370251892927 & WORD) >> 44, (template, t)


def test_margins_are_sums_of_the_weights_of_places() -> None:
    draw = np.random.default_rng(2)
    places, table = draw.integers(0, 9, (5, 4)).astype(np.int32), draw.normal(size=9).astype(np.float32)
    out = np.arange(5, dtype=np.float32)
    add_up(places, table, out)
    np.testing.assert_allclose(out, np.arange(5) + table[places].sum(axis=1), rtol=1e-6)


def lines_of(words: Words, tags: Strings, lemmas: Strings) -> str:
    """CoNLL-U of one text by joins of strings."""
    out = []
    begin, end, text = words.segments.begin, words.segments.end, words.text
    for s, (a, b) in enumerate(itertools.pairwise(words.segments.offsets.tolist()), 1):
        out += [f"# sent_id = {s}", f"# text = {text[begin[a] : end[b - 1]]}"]
        number = 0
        for t in range(a, b):
            after = text[end[t] : begin[t + 1]] if t + 1 < begin.size else " "
            misc = ("" if after else "SpaceAfter=No|") + f"TokenRange={begin[t]}:{end[t]}"
            own = range(words.first[t], words.first[t + 1])
            if len(own) > 1:
                token = words.tokens.strings[words.tokens.codes[t]]
                out.append("\t".join([f"{number + 1}-{number + len(own)}", token, *("_" * 7), misc]))
            for w in own:
                number += 1
                parts = [part.strings[part.codes[w]] for part in (words.forms, lemmas, tags)]
                out.append("\t".join([str(number), *parts, "_", "_", "_", "_" if len(own) > 1 else misc]))
        out.append("")
    return "\n".join(out) + "\n" if out else ""


def test_lines_are_those_of_joined_strings() -> None:
    text = "don't go. " + "abc " * 11 + "d x, y"
    spans = [m.span() for m in re.finditer(r"[\w']+|[.,]", text)]
    begin, end = (np.array(ends) for ends in zip(*spans, strict=True))
    strings = [text[a:b] for a, b in spans]
    last = np.array([s == "." or t + 1 == len(strings) for t, s in enumerate(strings)])
    counts = [2 if s in ("don't", "y") else 3 if s == "d" else 1 for s in strings]
    forms = [f"{s}{j}" if n > 1 else s for s, n in zip(strings, counts, strict=True) for j in range(n)]

    def coded(values: list[str]) -> Strings:
        distinct = sorted(set(values))
        return Strings(np.array([distinct.index(v) for v in values]), distinct)

    first = np.concatenate([[0], np.cumsum(counts)])
    words = Words(text, Segments(begin, end, last), coded(strings), coded(forms), first)
    tags = coded([f"T{len(f)}\tX\tA=b" for f in forms])
    lemmas = coded([f.upper() for f in forms])
    found = conllu_of(words, tags, lemmas, Place()).decode()
    assert found == lines_of(words, tags, lemmas)


@pytest.mark.parametrize("seed", range(5))
def test_places_that_are_kept_get_their_numbers(seed: int) -> None:
    draw = np.random.default_rng(seed)
    number = np.full(12, -1, dtype=np.int32)
    kept = draw.permutation(12)[:7]
    number[kept] = np.arange(7)
    indptr = np.concatenate([[0], np.cumsum(draw.integers(0, 5, 9))]).astype(np.int64)
    places = draw.integers(0, 12, int(indptr[-1])).astype(np.int32)
    rows = [[int(number[q]) for q in places[a:b] if q in kept] for a, b in itertools.pairwise(indptr.tolist())]
    count = number_places(places, number, indptr)
    assert count == sum(map(len, rows))
    assert [places[a:b].tolist() for a, b in itertools.pairwise(indptr.tolist())] == rows
