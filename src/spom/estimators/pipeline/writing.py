"""Words with tags and lemmas as CoNLL-U, with the text of each sentence and the place of each token in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.columns import packed_strings
from spom.data.conllu_parser import digits, put_number
from spom.data.interning import BYTES, Bytes
from spom.estimators.pipeline.segmenter import Segments

_ESCAPES = {" ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
# The text after the tags, before the place of a token, and for the empty columns of a multiword token.
_FIXED = ("_\t_\t_\t", "TokenRange=", "\t_\t_\t_\t_\t_\t_\t_\t")


@dataclass
class Place:
    """The position in a text: characters read, sentences written, and the blanks since the last token, if any."""

    characters: int = 0
    sentences: int = 0
    after: str | None = None


@dataclass(frozen=True)
class Strings:
    """Strings as numbers: the string of item i is strings[codes[i]]."""

    codes: Ints
    strings: list[str]


@dataclass(frozen=True)
class Words:
    """Tokens of a text and their words: token t has the words first[t] to first[t + 1] - 1; sentences are in tokens."""

    text: str
    segments: Segments
    tokens: Strings
    forms: Strings
    first: Ints

    @property
    def offsets(self) -> Ints:
        """Sentence s has the words offsets[s] to offsets[s + 1] - 1."""
        return self.first[self.segments.offsets]


class Lines(NamedTuple):
    """The parts of lines: string k is buffer[ends[k] : ends[k + 1]].

    tokens: begin and end in the text, the strings of the token and of the blanks after it, as in MISC. words: the
    strings of form, lemma and tags. heads: the string before each sentence. `fixed` is the first of `_FIXED`.
    """

    buffer: Annotated[Bytes, BYTES]
    ends: Annotated[Ints, "int64[::1]"]
    tokens: Annotated[Ints, "int64[:, ::1]"]
    words: Annotated[Ints, "int64[:, ::1]"]
    first: Annotated[Ints, "int64[::1]"]
    heads: Annotated[Ints, "int64[::1]"]
    offsets: Annotated[Ints, "int64[::1]"]
    fixed: Annotated[int, "int64"]


@kernel("int64(uint8[::1], int64, Lines, int64)")
def put_string(out: Bytes, at: int, lines: Lines, k: int) -> int:
    """Write string k; return where the next byte goes."""
    a, b = lines.ends[k], lines.ends[k + 1]
    for i in range(a, b):
        out[at + i - a] = lines.buffer[i]
    return int(at + b - a)


@kernel("int64(uint8[::1], int64, int64, int64)")
def put_with(out: Bytes, at: int, value: int, sign: int) -> int:
    """Write a number and a sign after it; return where the next byte goes."""
    at += digits(value)
    put_number(out, at, value)
    out[at] = sign
    return int(at + 1)


@kernel("int64(uint8[::1], int64, Lines, int64)")
def put_misc(out: Bytes, at: int, lines: Lines, t: int) -> int:
    """Write the MISC column of token t, and end the line; return where the next byte goes."""
    at = put_string(out, at, lines, lines.tokens[t, 3])
    at = put_string(out, at, lines, lines.fixed + 1)
    at = put_with(out, at, lines.tokens[t, 0], 58)
    return put_with(out, at, lines.tokens[t, 1], 10)


@kernel("int64(Lines, uint8[::1])")
def put_lines(lines: Lines, out: Bytes) -> int:
    """Write all sentences, and return the number of bytes."""
    at = 0
    for s in range(lines.heads.size):
        at, number = put_string(out, at, lines, lines.heads[s]), 0
        for t in range(lines.offsets[s], lines.offsets[s + 1]):
            u, v = lines.first[t], lines.first[t + 1]
            if v - u > 1:
                at = put_with(out, at, number + 1, 45)
                at = put_with(out, at, number + v - u, 9)
                at = put_string(out, at, lines, lines.tokens[t, 2])
                at = put_misc(out, put_string(out, at, lines, lines.fixed + 2), lines, t)
            for w in range(u, v):
                number += 1
                at = put_with(out, at, number, 9)
                for k in range(3):
                    at = put_string(out, at, lines, lines.words[w, k])
                    out[at] = 9
                    at += 1
                at = put_string(out, at, lines, lines.fixed)
                if v - u > 1:
                    out[at], out[at + 1] = 95, 10
                    at += 2
                else:
                    at = put_misc(out, at, lines, t)
        out[at] = 10
        at += 1
    return at


def conllu_of(words: Words, tags: Strings, lemmas: Strings, place: Place) -> bytes:
    """Return the words as CoNLL-U without trees; `tags` are UPOS, XPOS and features of each word, separated by tabs."""
    pool: list[str] = []

    def pooled(strings: list[str]) -> int:
        pool.extend(strings)
        return len(pool) - len(strings)

    begin, end, offsets = words.segments.begin, words.segments.end, words.segments.offsets
    fixed, heads = pooled(list(_FIXED)), pooled(_heads(words, place)) + np.arange(offsets.size - 1)
    blanks = _blanks(words)
    tokens = np.empty((begin.size, 4), dtype=np.int64)
    tokens[:, 0], tokens[:, 1] = begin + place.characters, end + place.characters
    tokens[:, 2], tokens[:, 3] = (pooled(part.strings) + part.codes for part in (words.tokens, blanks))
    every = np.stack([pooled(part.strings) + part.codes for part in (words.forms, lemmas, tags)], axis=1)
    buffer, start, length = packed_strings(pool)
    lines = Lines(buffer, np.append(start, buffer.size), tokens, every, words.first, heads, offsets, fixed)
    # Numbers have at most 19 digits.
    sizes = length.astype(np.int64)
    total = sizes[heads].sum() + sizes[tokens[:, 2:]].sum() + sizes[every].sum()
    out = np.empty(int(total) + 160 * (begin.size + every.shape[0] + offsets.size), dtype=np.uint8)
    size = int(put_lines(lines, out))
    place.characters += len(words.text)
    return out[:size].tobytes()


def _heads(words: Words, place: Place) -> list[str]:
    """Return the comments before each sentence."""
    text, begins, ends = words.text, words.segments.begin, words.segments.end
    offsets, found = words.segments.offsets, []
    spans = zip(begins[offsets[:-1]].tolist(), ends[offsets[1:] - 1].tolist(), strict=True)
    lines, before = 0 if place.after is None else place.after.count("\n"), 0
    for first, last in spans:
        place.sentences += 1
        opens = (before > 0 or place.after is not None) and lines + text.count("\n", before, first) > 1
        paragraph = "# newpar\n" if opens else ""
        own = " ".join(text[first:last].split())
        found.append(f"{paragraph}# sent_id = {place.sentences}\n# text = {own}\n")
        before, lines = last, 0
    return found


def _blanks(words: Words) -> Strings:
    """Return the MISC entries for the blanks after each token, unless it is followed by one blank."""
    text, begin, end = words.text, words.segments.begin, words.segments.end
    following = np.append(begin[1:], len(text))
    gap = following - end
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass") + bytes(4), dtype=np.uint32)
    codes = np.where(gap == 0, 1, np.where((gap == 1) & (points[end] == 32), 0, -1)).astype(np.int64)
    if codes.size and gap[-1] == 0:
        codes[-1] = 0
    strings = {"": 0, "SpaceAfter=No|": 1}
    for t in np.flatnonzero(codes < 0).tolist():
        codes[t] = strings.setdefault(_spaces(text[end[t] : following[t]]), len(strings))
    return Strings(codes, list(strings))


def _spaces(after: str) -> str:
    return f"SpacesAfter={''.join(_ESCAPES.get(c, c) if c != '|' else _ESCAPES[' '] for c in after)}|"
