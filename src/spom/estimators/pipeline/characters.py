"""Features of characters: n-grams around each one, the run of non-blanks it is in, and its neighbouring runs."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel

Points = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Small = NDArray[np.uint8]

BLANK, LOWER, UPPER, LETTER, UNSPACED, MARK, DIGIT, STOP, SIGN, OTHER = range(1, 11)
TEMPLATES = 24
# Features are hashed into this many places; those that learning keeps are looked up by their place.
BITS = 22
_KINDS = {"Z": BLANK, "M": MARK, "N": DIGIT, "P": STOP, "S": SIGN}
_LETTERS = {"Ll": LOWER, "Lu": UPPER, "Lt": UPPER}
_BLANKS = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85"
# The first character of the scripts of China and Japan, which have no blanks.
_EAST = 0x2E80


class Characters(NamedTuple):
    """A text as code points and kinds of characters; a line end inside a paragraph is a blank as any other."""

    points: Annotated[Points, "uint32[::1]"]
    kinds: Annotated[Small, "uint8[::1]"]


def kind_of(character: str) -> int:
    """The kind of a character: blank, lower, upper, other letter, mark, digit, punctuation, sign."""
    category = unicodedata.category(character)
    if character in _BLANKS:
        return BLANK
    if category[0] == "L":
        other = UNSPACED if ord(character) >= _EAST and category == "Lo" else LETTER
        return _LETTERS.get(category, other)
    return _KINDS.get(category[0], OTHER)


def characters_of(text: str) -> Characters:
    """The characters of a text."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    distinct, where = _distinct(points)
    kinds = np.array([kind_of(chr(c)) for c in distinct.tolist()], dtype=np.uint8)[where]
    points = np.array(points)
    flatten_lines(points, kinds)
    return Characters(points, kinds)


def _distinct(points: Points) -> tuple[Any, Any]:
    """(the code points that occur, the number of each character among them)."""
    if points.size == 0:
        return points, points.astype(np.int64)
    seen = np.zeros(int(points.max()) + 1, dtype=bool)
    seen[points] = True
    distinct = np.flatnonzero(seen)
    place = np.zeros(seen.size, dtype=np.int32)
    place[distinct] = np.arange(distinct.size)
    return distinct, place[points]


@kernel("void(uint32[::1], uint8[::1])")
def flatten_lines(points: Points, kinds: Small) -> None:
    """Blanks become the blank, those of a run with two line ends or more become line ends: a paragraph ends there."""
    i, n = 0, points.size
    while i < n:
        if kinds[i] != 1:
            i += 1
            continue
        j, lines = i, 0
        while j < n and kinds[j] == 1:
            lines += points[j] == 10
            j += 1
        for k in range(i, j):
            points[k] = 10 if lines > 1 else 32
        i = j


@kernel("uint64(uint64, uint64)")
def mixed(h: Any, value: Any) -> Any:
    """A hash of a hash and one more value."""
    h = (h ^ value) * np.uint64(11400714819323198485)
    return h ^ (h >> np.uint64(29))


@kernel("void(Characters, uint64[::1], uint64[::1], uint64[::1], int64[::1])")
def hash_runs(text: Characters, before: Hashes, after: Hashes, whole: Hashes, start: Ints) -> None:
    """Hashes of the run of each character up to it, after it, and whole; `start` is where the run begins.

    A blank has the hash 0 and is its own run. Of a long run only 24 characters count.
    """
    n, i = text.points.size, 0
    while i < n:
        if text.kinds[i] == 1:
            before[i], after[i], whole[i], start[i] = 0, 0, 0, i
            i += 1
            continue
        j, h = i, np.uint64(1)
        while j < n and text.kinds[j] != 1:
            if j - i < 24:
                h = mixed(h, np.uint64(text.points[j]))
            before[j], start[j] = h, i
            j += 1
        for k in range(i, j):
            whole[k] = h
        h = np.uint64(2)
        for k in range(j - 1, i - 1, -1):
            after[k] = h
            if j - k < 24:
                h = mixed(h, np.uint64(text.points[k]))
        i = j


@kernel("void(Characters, int64[::1], int64[::1])")
def neighbours(text: Characters, last: Ints, following: Ints) -> None:
    """The last character of the run before the one of each character, and the first one of the run after; -1: none."""
    n, run, end = text.points.size, -1, -1
    for i in range(n):
        if text.kinds[i] == 1 and i > 0 and text.kinds[i - 1] != 1:
            end = i - 1
        if text.kinds[i] != 1 and (i == 0 or text.kinds[i - 1] == 1):
            run = end
        last[i] = end if text.kinds[i] == 1 else run
    first, here = -1, -1
    for i in range(n - 1, -1, -1):
        if text.kinds[i] == 1 and i < n - 1 and text.kinds[i + 1] != 1:
            first = i + 1
        if text.kinds[i] != 1 and (i == n - 1 or text.kinds[i + 1] == 1):
            here = first
        following[i] = first if text.kinds[i] == 1 else here


class Runs(NamedTuple):
    """Runs of non-blanks around each character: hashes up to it, after it, whole; where it starts; its neighbours."""

    before: Annotated[Hashes, "uint64[::1]"]
    after: Annotated[Hashes, "uint64[::1]"]
    whole: Annotated[Hashes, "uint64[::1]"]
    start: Annotated[Ints, "int64[::1]"]
    last: Annotated[Ints, "int64[::1]"]
    following: Annotated[Ints, "int64[::1]"]


def runs_of(text: Characters) -> Runs:
    """The runs of a text."""
    n = text.points.size
    before, after, whole = (np.empty(n, dtype=np.uint64) for _ in range(3))
    start, last, following = (np.empty(n, dtype=np.int64) for _ in range(3))
    hash_runs(text, before, after, whole, start)
    neighbours(text, last, following)
    return Runs(before, after, whole, start, last, following)


@kernel("void(Characters, Runs, int64, uint64[:, ::1], uint64[::1])")
def character_hashes(text: Characters, runs: Runs, i: int, window: Hashes, out: Hashes) -> None:
    """The hashes of all templates at character i; `window` (2, 7) is to work in."""
    n, c, k = text.points.size, window[0], window[1]
    for j in range(7):
        at = i + j - 3
        inside = 0 <= at < n
        c[j] = np.uint64(text.points[at]) + np.uint64(1) if inside else np.uint64(0)
        k[j] = np.uint64(text.kinds[at]) if inside else np.uint64(0)
    for v in range(out.size):
        out[v] = np.uint64(v + 1) * np.uint64(14695981039346656037)
    kinds = np.uint64(0)
    for j in range(7):
        kinds = kinds * np.uint64(16) + k[j]
    # The first and the last character of each n-gram; 3 is the character itself.
    grams = ((3, 3), (2, 3), (3, 4), (2, 4), (1, 3), (3, 5), (1, 4), (2, 5), (0, 3), (3, 6), (4, 5), (1, 5))
    for v, (a, b) in enumerate(grams):
        for j in range(a, b + 1):
            out[v] = mixed(out[v], c[j])
    before, after, whole = runs.before[i], runs.after[i], runs.whole[i]
    last, next_ = runs.last[i], runs.following[i]
    left = runs.whole[last] if last >= 0 else np.uint64(0)
    right = runs.whole[next_] if next_ >= 0 else np.uint64(0)
    first = np.uint64(0)
    if next_ >= 0:
        first = np.uint64(text.kinds[next_])
        if next_ + 1 < n:
            first = first * np.uint64(16) + np.uint64(text.kinds[next_ + 1])
    out[12] = mixed(out[12], kinds)
    out[13] = mixed(mixed(out[13], kinds >> np.uint64(4) & np.uint64(0xFFFFF)), c[3])
    out[14] = mixed(out[14], before)
    out[15] = mixed(mixed(out[15], before), c[4])
    out[16] = mixed(mixed(out[16], after), k[3])
    out[17] = mixed(mixed(out[17], before), after)
    out[18] = mixed(mixed(mixed(out[18], whole), first), after)
    out[19] = mixed(mixed(mixed(out[19], right), c[3]), k[4])
    out[20] = mixed(mixed(mixed(out[20], c[3]), first), mixed(c[4], k[2]))
    out[21] = mixed(mixed(mixed(out[21], left), before), first)
    out[22] = mixed(mixed(mixed(out[22], left if k[3] == 1 else whole), right), after)
    depth = np.uint64(min(i - runs.start[i], 4))
    out[23] = mixed(mixed(mixed(out[23], k[3]), kinds & np.uint64(0xFFF)), mixed(first, depth))


@kernel("void(Characters, Runs, int64, int64, int32[:, ::1])")
def character_places(text: Characters, runs: Runs, first: int, last: int, out: NDArray[np.int32]) -> None:
    """The place of each template of the characters first to last - 1."""
    hashes, window = np.empty(out.shape[1], dtype=np.uint64), np.empty((2, 7), dtype=np.uint64)
    for i in range(first, last):
        character_hashes(text, runs, i, window, hashes)
        for v in range(out.shape[1]):
            h = hashes[v] * np.uint64(10376313370251892927)
            out[i - first, v] = np.int32(h >> np.uint64(42))
