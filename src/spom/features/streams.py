"""Templates as text, and the streams that they read: columns, and strings derived from columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.columns import Columns
from spom.data.interning import BYTES, Bytes, Codes
from spom.errors import DataError
from spom.features.clusters import Clusters

_ATOM = re.compile(r"(?P<column>[^\[\]|.:\s]+)(?P<steps>(\.[a-z]+\d*)*)\[(?P<offset>[+-]?\d+)\]")


@dataclass(frozen=True)
class Stream:
    """A column of tokens, or the strings derived from it step by step: `w`, `w.lower`, `w.lower.suffix3`."""

    column: int | str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((str(self.column), *self.steps))


@dataclass(frozen=True)
class Template:
    """A conjunction of (stream, offset): one feature for each combination of values that occurs.

    Templates of the same name over the same streams at other offsets share their features, as a bag of words does.

    >>> Template.parse("w[-1]|pos.lower[0]")
    Template(w[-1]|pos.lower[0])
    >>> Template.parse("near: w[-2]").name
    'near'
    """

    name: str
    atoms: tuple[tuple[Stream, int], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse `[name:] column[.step...][offset] | ...`; without a name, the text of the template is its name."""
        name, colon, rest = text.partition(":")
        body = (rest if colon else text).strip()
        # A name without a body is a template without atoms: one feature that every token has.
        atoms = tuple(_atom(part.strip(), text) for part in body.split("|")) if body or not colon else ()
        return cls(name.strip() if colon else written(atoms), atoms)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams in the order of the atoms."""
        return tuple(stream for stream, _ in self.atoms)

    @property
    def text(self) -> str:
        """The text that `parse` reads."""
        body = written(self.atoms)
        return body if body == self.name else f"{self.name}: {body}"

    def __repr__(self) -> str:
        return f"Template({self.text})"


def written(atoms: Iterable[tuple[Stream, int]]) -> str:
    """Return the atoms as text."""
    return "|".join(f"{stream}[{offset}]" for stream, offset in atoms)


def _atom(part: str, text: str) -> tuple[Stream, int]:
    found = _ATOM.fullmatch(part)
    if found is None:
        raise DataError(f"template {text!r}: expected column[offset] such as w[-1] or w.lower[0], found {part!r}")
    column = found["column"]
    steps = tuple(found["steps"].split(".")[1:])
    return Stream(int(column) if column.isdigit() else column, steps), int(found["offset"])


def grouped(templates: Iterable[Template]) -> dict[str, list[Template]]:
    """Group templates by block: those with the same name and streams share one; others of that name get their own."""
    blocks: dict[str, list[Template]] = {}
    for template in templates:
        name, number = template.name, 1
        while name in blocks and blocks[name][0].streams != template.streams:
            number += 1
            name = f"{template.name}~{number}"
        if any(known.atoms == template.atoms for known in blocks.get(name, ())):
            raise DataError(f"template {template.text!r} is given twice")
        blocks.setdefault(name, []).append(Template(name, template.atoms))
    return blocks


def resolved(columns: Columns, stream: Stream) -> int:
    """Return the column that a stream reads; errors name the stream. Without tokens any column is accepted."""
    if columns.n_tokens == 0:
        return 0
    try:
        return columns.column(stream.column)
    except DataError as error:
        raise DataError(f"a template reads {stream}, but {error.what}", error.source) from None


# --- derived strings: computed once per distinct string, on bytes, in compiled code -----------------------------

OFFSETS = "Array(int64, 1, 'C', readonly=True)"
LENGTHS = "Array(int32, 1, 'C', readonly=True)"

# The kinds of strings that `rewrite` writes.
LOWERED, PATTERN, SHAPE, LENGTH, DIGITS, CASE = range(6)
_REWRITES = {"lower": LOWERED, "pattern": PATTERN, "shape": SHAPE, "length": LENGTH, "digit": DIGITS, "case": CASE}
# Classes of characters; all characters with case, and all digits, are below _CASED.
OTHER, UPPER, LOWER, DIGIT = range(4)
_CASED = 0x20000
_SUMMARIES = np.frombuffer(b"none all  some loweruppertitlemixed", dtype=np.uint8).reshape(7, 5)
_NARROW = re.compile(r"(prefix|suffix)([1-9]\d*)")
_CLUSTER = re.compile(r"cluster(\d*)")


class Spans(NamedTuple):
    """Strings as spans of a buffer of UTF-8; a negative length means that there is no value."""

    buffer: Bytes
    start: Ints
    length: Codes


def derived(spans: Spans, steps: tuple[str, ...], clusters: Clusters | None = None) -> Spans:
    """Apply each step in turn: lower, prefixK, suffixK, shape, pattern, length, digit, case, clusterK.

    >>> word = np.frombuffer(b"McDonald-42", dtype=np.uint8)
    >>> one = Spans(word, np.zeros(1, dtype=np.int64), np.array([11], dtype=np.int32))
    >>> for step in ("lower", "prefix2", "suffix3", "shape", "pattern", "length", "digit", "case"):
    ...     found = derived(one, (step,))
    ...     at, long = found.start[0], found.length[0]
    ...     print(step, bytes(found.buffer[at : at + long]).decode())
    lower mcdonald-42
    prefix2 Mc
    suffix3 -42
    shape XxXx-d
    pattern XxXxxxxx-dd
    length 11
    digit some
    case mixed
    """
    for step in steps:
        narrow, cluster = _NARROW.fullmatch(step), _CLUSTER.fullmatch(step)
        if step in _REWRITES:
            spans = _rewritten(spans, _REWRITES[step])
        elif narrow:
            spans = _narrowed(spans, int(narrow[2]), narrow[1] == "suffix")
        elif cluster and clusters is not None:
            spans = Spans(*clusters.of(*spans))
            if cluster[1]:
                spans = _narrowed(spans, int(cluster[1]), False)
    return spans


def check_step(step: str, text: str, clusters: bool) -> None:
    """Raise an error that lists the known steps if `step` is not one, or if it needs clusters and there are none."""
    if step in _REWRITES or _NARROW.fullmatch(step):
        return
    if not _CLUSTER.fullmatch(step):
        known = ", ".join([*_REWRITES, "prefixK", "suffixK", "cluster", "clusterK"])
        raise DataError(f"template {text!r}: there is no {step!r}; what can be derived from a column: {known}")
    if not clusters:
        raise DataError(f"template {text!r} needs clusters: give clusters=, a file of word<TAB>cluster")


def _narrowed(spans: Spans, k: int, from_end: bool) -> Spans:
    start, length = spans.start.copy(), spans.length.copy()
    narrow(spans.buffer, start, length, k, from_end)
    return Spans(spans.buffer, start, length)


def _rewritten(spans: Spans, kind: int) -> Spans:
    lower, classes = character_tables(all_ascii(*spans))
    # The lower case of a character can be one byte longer than the character; a number or a word takes up to 20 bytes.
    capacity = 2 * int(np.maximum(spans.length, 0).sum()) + 20 * spans.length.size
    out = np.empty(capacity, dtype=np.uint8)
    start, length = np.empty_like(spans.start), np.empty_like(spans.length)
    used = rewrite(kind, *spans, lower, classes, Written(out, start, length))
    return Spans(out[:used].copy(), start, length)


@kernel(f"boolean({BYTES}, {OFFSETS}, {LENGTHS})")
def all_ascii(buffer: Bytes, start: Ints, length: Codes) -> bool:
    """Tell whether the spans have no byte of 128 or more: then the small tables of characters suffice."""
    for i in range(start.size):
        for j in range(start[i], start[i] + length[i]):
            if buffer[j] >= 128:
                return False
    return True


@kernel(f"void({BYTES}, int64[::1], int32[::1], int64, boolean)")
def narrow(buffer: Bytes, start: Ints, length: Codes, k: int, from_end: bool) -> None:
    """Cut each span to its first (or last) k characters; shorter spans stay whole."""
    for i in range(start.size):
        at, stop = start[i], start[i] + length[i]
        count = 0
        if from_end:
            j = stop
            while j > at and count < k:
                j -= 1
                count += (buffer[j] & 0xC0) != 0x80
            start[i] = j
            length[i] = stop - j if length[i] >= 0 else -1
        else:
            j = at
            while j < stop:
                if (buffer[j] & 0xC0) != 0x80:
                    if count == k:
                        break
                    count += 1
                j += 1
            length[i] = j - at if length[i] >= 0 else -1


@kernel(f"int64({BYTES}, int64, int64)")
def code_point(buffer: Bytes, i: int, stop: int) -> int:
    """Return the character at byte i of valid UTF-8."""
    first = int(buffer[i])
    if first < 0x80:
        return first
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    point = first & (0x3F >> more)
    for j in range(i + 1, min(i + 1 + more, stop)):
        point = (point << 6) | (int(buffer[j]) & 0x3F)
    return point


@kernel("int64(uint8[::1], int64, int64)")
def put_point(out: Bytes, end: int, point: int) -> int:
    """Write a character as UTF-8; return where it ends."""
    if point < 0x80:
        out[end] = point
        return end + 1
    if point < 0x800:
        out[end], out[end + 1] = 0xC0 | (point >> 6), 0x80 | (point & 0x3F)
        return end + 2
    if point < 0x10000:
        out[end], out[end + 1] = 0xE0 | (point >> 12), 0x80 | ((point >> 6) & 0x3F)
        out[end + 2] = 0x80 | (point & 0x3F)
        return end + 3
    out[end], out[end + 1] = 0xF0 | (point >> 18), 0x80 | ((point >> 12) & 0x3F)
    out[end + 2], out[end + 3] = 0x80 | ((point >> 6) & 0x3F), 0x80 | (point & 0x3F)
    return end + 4


@kernel("int64(uint8[::1], int64, int64, int64[::1], int64)")
def put_summary(out: Bytes, end: int, kind: int, counts: Ints, first: int) -> int:
    """Write the length, which part is digits, or the case, from the counts of the classes; return where it ends."""
    total, upper, lower, digits = counts.sum(), counts[UPPER], counts[LOWER], counts[DIGIT]
    if kind == LENGTH:
        power = 1
        while power * 10 <= total:
            power *= 10
        while power > 0:
            out[end] = 48 + (total // power) % 10
            power //= 10
            end += 1
        return end
    if kind == DIGITS:
        name = 0 if digits == 0 else 1 if digits == total else 2
    elif upper == 0:
        name = 3 if lower > 0 else 0
    elif lower == 0:
        name = 4
    else:
        name = 5 if upper == 1 and first == UPPER else 6
    for k in range(5):
        if _SUMMARIES[name, k] != 32:
            out[end] = _SUMMARIES[name, k]
            end += 1
    return end


class Written(NamedTuple):
    """Spans that are written one after another."""

    out: Annotated[Bytes, "uint8[::1]"]
    start: Annotated[Ints, "int64[::1]"]
    length: Annotated[Codes, "int32[::1]"]


@kernel(f"int64(int64, {BYTES}, {OFFSETS}, {LENGTHS}, int32[::1], uint8[::1], Written)")
def rewrite(
    kind: int, buffer: Bytes, start: Ints, length: Codes, lower: NDArray[Any], classes: Bytes, written: Written
) -> int:
    """Write each span in lower case, its pattern, its shape or a summary; return where the last one ends."""
    out, new_start, new_length = written
    end, counts = 0, np.zeros(4, dtype=np.int64)
    for i in range(start.size):
        new_start[i], new_length[i] = end, -1
        if length[i] < 0:
            continue
        begin, at, stop = end, start[i], start[i] + length[i]
        counts[:] = 0
        last, first = -1, -1
        while at < stop:
            point = code_point(buffer, at, stop)
            at += 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
            known = point < lower.size
            c = int(classes[point]) if known else 0
            if kind == LOWERED:
                end = put_point(out, end, lower[point] if known else point)
            elif kind <= SHAPE:
                # X, x or d for a letter or a digit.
                symbol = 88 if c == UPPER else 120 if c == LOWER else 100 if c == DIGIT else point
                if kind == PATTERN or symbol != last:
                    end = put_point(out, end, symbol)
                last = symbol
            else:
                counts[c] += 1
                first = c if first < 0 else first
        if kind >= LENGTH:
            end = put_summary(out, end, kind, counts, first)
        new_length[i] = end - begin
    return end


@functools.cache
def character_tables(ascii_only: bool) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return (the lower case of each code point; its class: other, upper case, lower case or other letter, digit)."""
    count = 128 if ascii_only else _CASED
    lower, kind = np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.uint8)
    for point in range(count):
        c = chr(point)
        if c.isalpha():
            small = c.lower()
            kind[point] = UPPER if c.isupper() or c.istitle() else LOWER
            # Lower cases of several characters are ignored: one character stays one character.
            if small != c and len(small) == 1:
                lower[point] = ord(small)
        elif c.isdigit():
            kind[point] = DIGIT
    return lower, kind
