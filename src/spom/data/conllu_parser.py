"""Compiled code for CoNLL-U: find the fields of each word, and write heads and relations back into the text."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import BYTES, Bytes, Codes

WIDTH = 10
HEAD, DEPREL = 6, 7
# The codes that `find_words` returns first.
DONE, COLUMNS, ID, ORDER, HEAD_TEXT, RANGE = range(6)


@kernel(f"int64({BYTES}, int64, int64)")
def whole_number(text: Bytes, at: int, end: int) -> int:
    """Return the number whose decimal digits fill a span, or -1 for anything else."""
    if at >= end or end - at > 9:
        return -1
    value = 0
    for i in range(at, end):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + int(digit)
    return value


@kernel(f"int64({BYTES}, int64, int64, int64[::1], int32[::1])")
def split_line(text: Bytes, at: int, end: int, start: Ints, length: Codes) -> int:
    """Split one line at tabs into fields; return how many there are, including those beyond the end of `start`."""
    count = 0
    begin = at
    for i in range(at, end + 1):
        if i == end or text[i] == 9:
            if count < start.size:
                start[count], length[count] = begin, i - begin
            count += 1
            begin = i + 1
    return count


@kernel(f"boolean({BYTES}, int64, int64)")
def is_range_or_empty_node(text: Bytes, at: int, end: int) -> bool:
    """Tell whether an id is that of a multiword token (3-4) or of an empty node (8.1)."""
    for i in range(at + 1, end - 1):
        if text[i] == 45 or text[i] == 46:
            return whole_number(text, at, i) >= 0 and whole_number(text, i + 1, end) >= 0
    return False


@kernel(f"UniTuple(int64, 4)({BYTES}, int64[:, ::1], int32[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1])")
def find_words(
    text: Bytes, start: Ints, length: Codes, lines: Ints, heads: Ints, offsets: Ints, spans: Ints
) -> tuple[int, int, int, int]:
    """Fill the arrays with all fields; return (what is wrong, its line, words, sentences).

    In place of words, COLUMNS gives the number of fields of that line, and ORDER the expected id.

    Comments, multiword tokens and empty nodes are not words; they stay in the span of their sentence. A head `_`
    becomes -1. `offsets[0]` must be 0.
    """
    words = sentences = 0
    line, at, first, begin = 0, 0, 0, -1
    size = text.size
    row, lengths = np.empty(WIDTH, dtype=np.int64), np.empty(WIDTH, dtype=np.int32)
    while at <= size:
        end = at
        while end < size and text[end] != 10:
            end += 1
        line += 1
        stop = end - 1 if end > at and text[end - 1] == 13 else end
        blank = True
        for i in range(at, stop):
            blank = blank and (text[i] == 32 or text[i] == 9)
        if blank:
            if words > first:
                for w in range(first, words):
                    if heads[w] > words - first:
                        return RANGE, lines[w], words, sentences
                spans[sentences, 0], spans[sentences, 1] = begin, at
                sentences += 1
                offsets[sentences] = words
                first, begin = words, -1
        else:
            if begin < 0:
                begin = at
            if text[at] != 35:
                count = split_line(text, at, stop, row, lengths)
                if count != WIDTH:
                    return COLUMNS, line, count, sentences
                number = whole_number(text, at, at + lengths[0])
                if number < 0:
                    if not is_range_or_empty_node(text, at, at + lengths[0]):
                        return ID, line, words, sentences
                elif number != words - first + 1:
                    return ORDER, line, words - first + 1, sentences
                else:
                    where, long = row[HEAD], lengths[HEAD]
                    head = whole_number(text, where, where + long)
                    if head < 0 and not (long == 1 and text[where] == 95):
                        return HEAD_TEXT, line, words, sentences
                    for k in range(WIDTH):
                        start[words, k], length[words, k] = row[k], lengths[k]
                    lines[words], heads[words] = line, head
                    words += 1
        at = end + 1
    return DONE, line, words, sentences


@kernel("void(uint8[::1], int64, int64)")
def put_number(out: Bytes, at: int, value: int) -> None:
    """Write the decimal digits of a number, the last of them before `at`."""
    while True:
        at -= 1
        out[at] = 48 + value % 10
        value //= 10
        if value == 0:
            break


@kernel("int64(int64)")
def digits(value: int) -> int:
    """Return how many decimal digits a number has."""
    count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


class Arcs(NamedTuple):
    """Heads and relations of all words; the name of relation r ends at ends[r + 1] in the joined names."""

    heads: Annotated[Ints, "int64[::1]"]
    relations: Annotated[Codes, "int32[::1]"]
    ends: Annotated[Ints, "int64[::1]"]


@kernel(
    f"int64({BYTES}, int64[:, ::1], int64[::1], Array(int64, 2, 'A', readonly=True), "
    f"Array(int32, 2, 'A', readonly=True), Arcs, {BYTES}, uint8[::1])"
)
def put_trees(
    text: Bytes, spans: Ints, offsets: Ints, start: Ints, length: Codes, arcs: Arcs, names: Bytes, out: Bytes
) -> int:
    """Write the text of all sentences with heads and relations in their places; return the number of bytes.

    With an empty `out` the bytes are only counted.
    """
    heads, relations, ends = arcs
    size, write = 0, out.size > 0
    for s in range(spans.shape[0]):
        at = spans[s, 0]
        for w in range(offsets[s], offsets[s + 1]):
            for field in range(2):
                k = HEAD + field
                if write:
                    out[size : size + start[w, k] - at] = text[at : start[w, k]]
                size += start[w, k] - at
                at = start[w, k] + length[w, k]
                if field == 1:
                    a, b = ends[relations[w]], ends[relations[w] + 1]
                    if write:
                        out[size : size + b - a] = names[a:b]
                    size += b - a
                elif heads[w] < 0:
                    if write:
                        out[size] = 95
                    size += 1
                else:
                    size += digits(heads[w])
                    if write:
                        put_number(out, size, heads[w])
        if write:
            out[size : size + spans[s, 1] - at] = text[at : spans[s, 1]]
        size += spans[s, 1] - at
        # The last line of a file may lack its end; a blank line ends each sentence.
        if spans[s, 1] > 0 and text[spans[s, 1] - 1] != 10:
            if write:
                out[size] = 10
            size += 1
        if write:
            out[size] = 10
        size += 1
    return size
