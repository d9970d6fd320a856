"""The compiled loops over lines of tokens against plain Python: CoNLL and CoNLL-U, hashes of strings, trees."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from spom.data.columns import parse_tokens, put_fields
from spom.data.conllu_parser import COLUMNS, DONE, HEAD_TEXT, ID, ORDER, RANGE, Arcs, digits, find_words, put_trees
from spom.data.interning import distinct, hash_bytes, same_bytes
from spom.data.treebank import first_fault

WORD = (1 << 64) - 1


def as_bytes(text: str) -> Any:
    return np.frombuffer(text.encode(), dtype=np.uint8)


# --- CoNLL-U ------------------------------------------------------------------------------------------------------


def some_conllu(draw: Any, good: float) -> str:
    """Draw sentences with comments, ranges and empty nodes, in which some lines are wrong."""

    def of(usual: Any, odd: list[str]) -> str:
        return str(usual) if draw.random() < good else str(draw.choice(odd))

    lines = []
    for _ in range(int(draw.integers(1, 4))):
        if draw.random() < 0.5:
            lines.append("# text")
        count = int(draw.integers(0, 12))
        for w in range(1, count + 1):
            if draw.random() < 0.2:
                odd = ["1-", "-2", "1.x", "x-1", "1-2-3", ".", "3-4x", "1.2.3", "10-1", "0.1", "12345678901-2"]
                range_id = of(draw.choice([f"{w}-{w + 1}", f"{w - 1}.1"]), odd)
                lines.append("\t".join([range_id, "form", *"_" * 8]))
            head = of(
                draw.integers(0, count + 1), ["_", "", "x", "-1", "1x", "__", "000000001", "1234567890", "13", "/:"]
            )
            number = of(w, ["0", "", "x", "01", "99", "1:", "/"])
            fields = [number, "a" * int(draw.integers(0, 3)), *"bcde", head, "dep", "_", of("m", [" ", ""])]
            lines.append("\t".join(fields) + of("", ["\t", "\tk"]))
            if draw.random() > good:
                lines.append(str(draw.choice(["# in between", "x", "\t", "#"])))
        lines.append(of("", [" ", "\t ", "\r"]))
    ends = "\r\n" if draw.random() < 0.3 else "\n"
    return ends.join(lines) + ("" if draw.random() < 0.3 else ends)


def whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1


def naive_words(text: str) -> tuple[Any, list[dict[str, Any]], list[int], list[tuple[int, int]]]:
    """((what is wrong, line or count, words, sentences), words, offsets, spans) line by line."""
    words: list[dict[str, Any]] = []
    offsets, spans, at, begin = [0], [], 0, -1
    lines = text.split("\n")
    for number, full in enumerate(lines, 1):
        line = full.removesuffix("\r")
        done = len(words), len(spans)
        if not line.strip(" \t"):
            own = words[offsets[-1] :]
            if own:
                for word in own:
                    if word["head"] > len(own):
                        return (RANGE, word["line"], *done), words, offsets, spans
                spans.append((begin, at))
                offsets.append(len(words))
                begin = -1
        else:
            begin = at if begin < 0 else begin
            if line[0] != "#":
                fields = line.split("\t")
                if len(fields) != 10:
                    return (COLUMNS, number, len(fields), done[1]), words, offsets, spans
                own_id, expected = whole(fields[0]), len(words) - offsets[-1] + 1
                if own_id < 0:
                    if not re.fullmatch(r"[0-9]{1,9}[-.][0-9]{1,9}", fields[0]):
                        return (ID, number, *done), words, offsets, spans
                elif own_id != expected:
                    return (ORDER, number, expected, done[1]), words, offsets, spans
                elif whole(fields[6]) < 0 and fields[6] != "_":
                    return (HEAD_TEXT, number, *done), words, offsets, spans
                else:
                    starts = [at + len("\t".join(fields[:k])) + (k > 0) for k in range(10)]
                    sizes = [len(field) for field in fields]
                    words.append({"line": number, "head": whole(fields[6]), "start": starts, "length": sizes})
        at += len(full) + 1
    return (DONE, len(lines), len(words), len(spans)), words, offsets, spans


@pytest.mark.parametrize("good", [0.97, 0.995, 1.0])
@pytest.mark.parametrize("seed", range(60))
def test_words_of_conllu_are_those_of_a_plain_reader(seed: int, good: float) -> None:
    draw = np.random.default_rng([seed, int(1000 * good)])
    text = some_conllu(draw, good) if seed else ""
    # A text ends with an empty line, so that its last sentence is whole.
    text += "\n"
    expected, words, offsets, spans = naive_words(text)
    size = text.count("\n") + 1
    start, length = np.zeros((size, 10), dtype=np.int64), np.zeros((size, 10), dtype=np.int32)
    lines, heads, found = (np.zeros(size + 1, dtype=np.int64) for _ in range(3))
    places = np.zeros((size, 2), dtype=np.int64)
    assert find_words(as_bytes(text), start, length, lines, heads, found, places) == expected
    n, m = len(words), len(spans)
    assert start[:n].tolist() == [word["start"] for word in words]
    assert length[:n].tolist() == [word["length"] for word in words]
    assert lines[:n].tolist() == [word["line"] for word in words]
    assert heads[:n].tolist() == [word["head"] for word in words]
    assert found[: m + 1].tolist() == offsets
    assert places[:m].tolist() == [list(span) for span in spans]
    if expected[0] == DONE:
        check_written_trees(draw, text, words, offsets, spans, (start, length))


def check_written_trees(draw: Any, text: str, words: Any, offsets: Any, spans: Any, fields: Any) -> None:
    """Other heads and relations in the same lines, by replacing the fields of each line."""
    names = ["", "dep", "nsubj:pass", "x"]
    heads = draw.choice([-1, 0, 3, 9, 10, 99, 100, 12345], len(words)).astype(np.int64)
    relations = draw.integers(0, len(names), len(words)).astype(np.int32)
    expected = ""
    for (a, b), (begin, end) in zip(itertools.pairwise(offsets), spans, strict=True):
        own = text[begin:end]
        for w in range(b - 1, a - 1, -1):
            for field, value in ((7, names[relations[w]]), (6, "_" if heads[w] < 0 else str(heads[w]))):
                at = words[w]["start"][field] - begin
                own = own[:at] + value + own[at + words[w]["length"][field] :]
        expected += own + ("" if own.endswith("\n") or not end else "\n") + "\n"
    arcs = Arcs(heads, relations, np.cumsum([0, *map(len, names)]))
    arguments = (
        np.array(spans, dtype=np.int64).reshape(-1, 2),
        np.array(offsets),
        *fields,
        arcs,
        as_bytes("".join(names)),
    )
    count = put_trees(as_bytes(text), *arguments, np.empty(0, dtype=np.uint8))
    assert count == len(expected)
    out = np.full(count + 3, 7, dtype=np.uint8)
    assert put_trees(as_bytes(text), *arguments, out) == count
    assert out[:count].tobytes().decode() == expected
    assert out[count:].tolist() == [7] * 3


def test_digits_of_numbers() -> None:
    for value in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 10**18 - 1, 10**18]:
        assert digits(value) == len(str(value))


def fault(sentences: list[list[int]]) -> tuple[int, int]:
    """Return the fault of the first sentence that is not a tree, and its word."""
    first = 0
    for heads in sentences:
        zeros = 0
        for w, head in enumerate(heads):
            zeros += head == 0
            if head < 0:
                return 4, first + w
            if zeros > 1:
                return 2, first + w
        for w in range(1, len(heads) + 1):
            at, path = w, []
            while at and at not in path:
                path.append(at)
                at = heads[at - 1]
            if at:
                return (1 if zeros else 3), first + w - 1
        first += len(heads)
    return 0, 0


def test_the_first_fault_of_trees() -> None:
    for n in range(5):
        for heads in itertools.product(range(-1 if n < 4 else 0, n + 1), repeat=n):
            sentences = [[0, 1], [], list(heads), [3, 0, 2], [0, 2]]
            offsets = np.cumsum([0, *map(len, sentences)])
            assert first_fault(np.array([h for s in sentences for h in s]), offsets) == fault(sentences)


# --- CoNLL --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [None, ",", "\t"])
@pytest.mark.parametrize("seed", range(60))
def test_tokens_of_lines_are_those_of_a_plain_reader(seed: int, separator: str | None) -> None:
    draw = np.random.default_rng(seed)
    lines = []
    sign = " " if separator is None else separator
    for _ in range(int(draw.integers(0, 9))):
        row = [str(draw.choice(["a", "bc", "\u00e9", "#", "\r", "x y" if separator else "z"])) for _ in range(3)]
        if separator and draw.random() < 0.2:
            row[int(draw.integers(0, 3))] = ""
        if draw.random() < 0.06:
            row = row[: int(draw.integers(1, 3))] if draw.random() < 0.5 else [*row, "d"]
        blank = str(draw.choice(["", "", " ", "\t", "  "])) if separator is None else ""
        lines.append(blank + (sign + blank).join(row) + blank if draw.random() < 0.75 else blank)
        if draw.random() < 0.15:
            lines.append(str(draw.choice(["# one two three", "#", "#\r"])))
    ends = "\r\n" if draw.random() < 0.4 else "\n"
    text = ends.join(lines) + ("" if draw.random() < 0.3 else ends)
    data = text.encode()
    # What is to be found: fields with their places, line by line.
    starts, sizes, numbers, offsets, wrong = [], [], [], [0], None
    at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if at == len(data):
            break
        if line[:1] != b"#":
            if separator is None:
                found = [(m.start(), m[0]) for m in re.finditer(rb"[^ \t]+", line)]
                found = [(k, f.removesuffix(b"\r") if k + len(f) == len(line) else f) for k, f in found]
                found = [(k, f) for k, f in found if f]
            else:
                parts = line.removesuffix(b"\r").split(separator.encode())
                found = [(sum(map(len, parts[:k])) + k, part) for k, part in enumerate(parts)]
            if not any(f for _, f in found):
                if len(starts) > offsets[-1]:
                    offsets.append(len(starts))
            elif len(found) != 3:
                numbers.append(number)
                wrong = len(found)
                break
            else:
                starts.append([at + k for k, _ in found])
                sizes.append([len(f) for _, f in found])
                numbers.append(number)
        at += len(line) + 1
    if wrong is None and len(starts) > offsets[-1]:
        offsets.append(len(starts))
    room = data.count(b"\n") + 1
    start, length = np.zeros((room, 3), dtype=np.int64), np.zeros((room, 3), dtype=np.int32)
    line_of, ends_of = np.zeros(room, dtype=np.int64), np.zeros(room + 1, dtype=np.int64)
    buffer, byte = (
        np.frombuffer(b"a \n"[: 3 * (seed % 2)] + data, dtype=np.uint8),
        -1 if separator is None else ord(separator),
    )
    # What is in front of the first byte, such as a mark of the byte order, is not looked at.
    skip = 3 * (seed % 2)
    given = parse_tokens(buffer, skip, byte, 35, start, length, line_of, ends_of)
    n = len(starts)
    assert given == (n, len(offsets) - 1, 3 if wrong is None else wrong)
    assert (start[:n] - skip).tolist() == starts
    assert length[:n].tolist() == sizes
    assert line_of[: n + (wrong is not None)].tolist() == numbers
    assert ends_of[: len(offsets)].tolist() == offsets


def test_fields_are_put_in_place_of_others() -> None:
    text, fields = "one two three four", [b"", b"X", b"long one"]
    begin, end, codes = np.array([0, 4, 8, 18]), np.array([3, 4, 13, 18]), np.array([2, 1, 0, 1])
    out = np.full(40, 7, dtype=np.uint8)
    first = np.cumsum([0, *map(len, fields)])
    put_fields(as_bytes(text), begin, end, codes, np.frombuffer(b"".join(fields), dtype=np.uint8), first, out)
    assert out.tobytes().rstrip(b"\7") == b"long one Xtwo  fourX"


# --- which strings are the same -------------------------------------------------------------------------------------


def naive_hash(data: bytes) -> int:
    """Return the hash of model files: eight bytes at a time, multiplied by an odd number and folded."""
    odd, fold = 10376313370251892927, lambda h: h ^ h >> 32
    if len(data) < 8:
        h = int.from_bytes(data, "little") | len(data) << 56
    else:
        h = len(data)
        for i in range(0, len(data), 8):
            h = fold((h ^ int.from_bytes(data[i : i + 8], "little")) * odd & WORD)
        h |= 1 << 63
    return fold(h * odd & WORD) * odd & WORD


def test_hashes_of_strings_stay_as_they_are() -> None:
    draw = np.random.default_rng(0)
    data = draw.integers(0, 256, 64).astype(np.uint8)
    for a in [0, 1, 30, 47, 63, 64]:
        for size in range(min(40, 64 - a) + 1):
            assert hash_bytes(data, a, size) == naive_hash(data[a : a + size].tobytes()), (a, size)


def test_spans_are_the_same_where_all_their_bytes_are() -> None:
    draw = np.random.default_rng(1)
    a = draw.integers(0, 256, 40).astype(np.uint8)
    for size in (0, 1, 7, 8, 9, 16, 17, 25):
        b = np.concatenate([np.zeros(3, dtype=np.uint8), a[5 : 5 + size], np.full(2, 9, dtype=np.uint8)])
        assert same_bytes(a, 5, b, 3, size)
        for i in range(size):
            other = b.copy()
            other[3 + i] ^= 1
            assert not same_bytes(a, 5, other, 3, size)


@pytest.mark.parametrize("kinds", [3, 600, 3000])
def test_distinct_strings_are_numbered_in_order(kinds: int) -> None:
    draw = np.random.default_rng(kinds)
    stems = draw.integers(0, kinds, 2 * kinds)
    words = [("" if stem == 1 else "w" * (stem % 11)) + str(stem) * (stem % 3 + (stem != 1)) for stem in stems.tolist()]
    text, column = "".join(words), 1
    ends = np.cumsum([0, *map(len, words)])
    start, length = np.zeros((len(words), 2), dtype=np.int64), np.zeros((len(words), 2), dtype=np.int32)
    start[:, column], length[:, column] = ends[:-1], np.diff(ends)
    codes, first = distinct(as_bytes(text), start, length, column)
    known: dict[str, int] = {}
    assert codes.tolist() == [known.setdefault(word, len(known)) for word in words]
    assert first.tolist() == [words.index(word) for word in known]
