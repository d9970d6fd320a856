"""Features of characters: n-grams around each one, its run of non-blanks, the neighbouring runs, the paragraph."""

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
# The number of templates of any character. A character between two letters, where few tokens end, and a blank have the
# first thirteen. Those of kinds alone (40 to 44) add .26 to the tokens of EWT's dev set: unseen words need them.
# Those from 45 on describe parts of a run by their shape: `b/c`, `me...@example.com`. Files of older versions have 45
# templates, or 49, and twelve between letters, or 53.
TEMPLATES, FORMER, OLDER, MOST, FEW = 58, 53, 49, 45, 13
# Features are hashed into 2^BITS places; those that training keeps are looked up by their place.
BITS = 22
# A character of which only the kind is known is this number plus the kind, which is not a code point.
UNKNOWN = 0x110000
_KINDS = {"Z": BLANK, "M": MARK, "N": DIGIT, "P": STOP, "S": SIGN}
_LETTERS = {"Ll": LOWER, "Lu": UPPER, "Lt": UPPER}
_BLANKS = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85"
# The first character of the East Asian scripts, which have no blanks.
_EAST = 0x2E80


class Characters(NamedTuple):
    """A text as code points and kinds of characters; a line end inside a paragraph is a blank like any other."""

    points: Annotated[Points, "uint32[::1]"]
    kinds: Annotated[Small, "uint8[::1]"]


def kind_of(character: str) -> int:
    """Return the kind of a character: blank, lower, upper, other letter, mark, digit, punctuation, sign."""
    category = unicodedata.category(character)
    if character in _BLANKS:
        return BLANK
    if category[0] == "L":
        other = UNSPACED if ord(character) >= _EAST and category == "Lo" else LETTER
        return _LETTERS.get(category, other)
    return _KINDS.get(category[0], OTHER)


def characters_of(text: str) -> Characters:
    """Return the characters of a text."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    distinct, where = _distinct(points)
    kinds = np.array([kind_of(chr(c)) for c in distinct.tolist()], dtype=np.uint8)[where]
    points = np.array(points)
    flatten_lines(points, kinds)
    return Characters(points, kinds)


def without(text: Characters, hidden: NDArray[np.bool_]) -> Characters:
    """Return the same text, where only the kind of the hidden characters is known."""
    return Characters(np.where(hidden, UNKNOWN + text.kinds.astype(np.uint32), text.points), text.kinds)


def _distinct(points: Points) -> tuple[Any, Any]:
    """Return (the distinct code points, the number of each character among them)."""
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
    """Replace blanks by the blank, or by line ends in a run with two line ends or more, which ends a paragraph."""
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
    """Return a hash of a hash and one more value."""
    h = (h ^ value) * np.uint64(11400714819323198485)
    return h ^ (h >> np.uint64(29))


class Runs(NamedTuple):
    """Runs of non-blanks: run r has the characters begin[r] to end[r] - 1, and hashes of its text.

    `number[i]` is the run of character i, or the previous one if it is a blank (-1: none). `whole` is its text,
    `lower` the same in lower case, `shape` its kinds of characters, `marks` the punctuation in it. In a script without
    blanks a run is a whole text: these hashes are then 0. `place` is its place in the paragraph: see `lay`.
    """

    number: Annotated[Ints, "int64[::1]"]
    begin: Annotated[Ints, "int64[::1]"]
    end: Annotated[Ints, "int64[::1]"]
    whole: Annotated[Hashes, "uint64[::1]"]
    lower: Annotated[Hashes, "uint64[::1]"]
    shape: Annotated[Hashes, "uint64[::1]"]
    marks: Annotated[Hashes, "uint64[::1]"]
    place: Annotated[Hashes, "uint64[:, ::1]"]


@kernel("int64(Characters, int64[::1], int64[::1], int64[::1])")
def find_runs(text: Characters, number: Ints, begin: Ints, end: Ints) -> int:
    """Find where runs begin and end; return how many there are."""
    count, n = 0, text.points.size
    for i in range(n):
        if text.kinds[i] != 1:
            if i == 0 or text.kinds[i - 1] == 1:
                begin[count] = i
                count += 1
            end[count - 1] = i + 1
        number[i] = count - 1
    return count


@kernel("void(Characters, uint32[::1], Runs)")
def hash_runs(text: Characters, lower: Points, runs: Runs) -> None:
    """Fill the hashes of all runs; `lower` has the code points in lower case."""
    for r in range(runs.begin.size):
        whole, low, shape = np.uint64(1), np.uint64(1), np.uint64(1)
        marks, before, unspaced = np.uint64(0), np.uint64(0), False
        for i in range(runs.begin[r], runs.end[r]):
            kind = np.uint64(text.kinds[i])
            whole, low = mixed(whole, np.uint64(text.points[i])), mixed(low, np.uint64(lower[i]))
            # Letters and digits by their kind, repetitions only once; punctuation as it is.
            what = kind if kind < 8 else np.uint64(text.points[i]) + np.uint64(16)
            if what != before:
                shape = mixed(shape, what)
            before = what
            if kind >= 8:
                marks |= np.uint64(1) << (np.uint64(text.points[i]) & np.uint64(63))
            unspaced = unspaced or kind == 5
        if unspaced:
            whole, low, shape, marks = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        runs.whole[r], runs.lower[r], runs.shape[r], runs.marks[r] = whole, low, shape, marks


@kernel("uint64(int64)")
def bucket(count: int) -> Any:
    """Return 0, 1, 2, 3; 4 for up to 6, 5 for up to 10, 6 for up to 20, 7 for more."""
    if count < 4:
        return np.uint64(max(0, count))
    if count <= 6:
        return np.uint64(4)
    return np.uint64(5 if count <= 10 else (6 if count <= 20 else 7))


@kernel("void(Characters, Runs)")
def lay(text: Characters, runs: Runs) -> None:
    """place[r] = runs before r in its paragraph, runs after it, runs since a stop, open brackets and quotes.

    The first three are buckets. A stop is a run that ends with one of . ! ? or one of their wide forms.
    """
    first, since, depth, quote = 0, 0, 0, 0
    count = runs.begin.size
    for r in range(count):
        if r == 0 or text.points[runs.begin[r] - 1] == 10:
            first, since, depth, quote = r, 0, 0, 0
        for i in range(runs.begin[r], runs.end[r]):
            c = text.points[i]
            if c == 40 or c == 91:
                depth += 1
            elif (c == 41 or c == 93) and depth > 0:
                depth -= 1
            elif c == 34:
                quote = 1 - quote
        runs.place[r, 0], runs.place[r, 2] = bucket(r - first), bucket(since)
        runs.place[r, 3] = np.uint64(min(depth, 1) * 2 + quote)
        c = text.points[runs.end[r] - 1]
        since = 0 if c == 46 or c == 33 or c == 63 or c == 12290 or c == 65281 or c == 65311 else since + 1
    last = count - 1
    for r in range(count - 1, -1, -1):
        if r == count - 1 or text.points[runs.end[r]] == 10:
            last = r
        runs.place[r, 1] = bucket(last - r)


def runs_of(text: Characters, lower: Points) -> Runs:
    """Return the runs of a text; `lower` has its code points in lower case."""
    n = text.points.size
    number, begin, end = (np.empty(n, dtype=np.int64) for _ in range(3))
    count = int(find_runs(text, number, begin, end))
    whole, low, shape, marks = (np.zeros(count, dtype=np.uint64) for _ in range(4))
    place = np.zeros((count, 4), dtype=np.uint64)
    runs = Runs(number, begin[:count].copy(), end[:count].copy(), whole, low, shape, marks, place)
    hash_runs(text, lower, runs)
    lay(text, runs)
    return runs


def lowered(points: Points) -> Points:
    """Return code points in lower case, if that is one character; unknown characters are unchanged."""
    distinct, where = _distinct(points)
    low = [chr(c).lower() if c < UNKNOWN else "" for c in distinct.tolist()]
    found = [ord(x) if len(x) == 1 else c for x, c in zip(low, distinct.tolist(), strict=True)]
    small: Points = np.array(found, dtype=np.uint32)[where]
    return small


@kernel("uint64(uint64[::1], int64, int64)")
def kinds_of(kinds: Hashes, first: int, last: int) -> Any:
    """Return the kinds of some characters as one number."""
    found = np.uint64(0)
    for j in range(first, last + 1):
        found = found * np.uint64(16) + kinds[j]
    return found


@kernel("void(Characters, Runs, int64, uint64[:, ::1], uint64[::1])")
def around(text: Characters, runs: Runs, i: int, window: Hashes, out: Hashes) -> None:
    """Compute the templates from out[18] on: the run of character i, its neighbours, and the paragraph."""
    n, count, c, k, r = text.points.size, runs.begin.size, window[0], window[1], runs.number[i]
    zero = np.uint64(0)
    word, shape, marks = runs.lower[r], runs.shape[r], runs.marks[r]
    left, left_shape, right, right_shape, second, second_shape, first = zero, zero, zero, zero, zero, zero, zero
    if r > 0:
        left, left_shape = runs.lower[r - 1], runs.shape[r - 1]
    if r + 1 < count:
        right, right_shape, at = runs.lower[r + 1], runs.shape[r + 1], runs.begin[r + 1]
        first = np.uint64(text.kinds[at])
        if at + 1 < n:
            first = first * np.uint64(16) + np.uint64(text.kinds[at + 1])
    if r + 2 < count:
        second, second_shape = runs.lower[r + 2], runs.shape[r + 2]
    last = np.uint64(1 if i + 1 == runs.end[r] else 0)
    here = mixed(c[4] * np.uint64(2) + last, first)
    before, after = window[2, 0], window[2, 1]
    out[18] = mixed(mixed(mixed(out[18], runs.whole[r]), first), after)
    out[19] = mixed(mixed(mixed(out[19], right), c[4]), k[5])
    out[20] = mixed(mixed(mixed(out[20], here), c[5]), k[3])
    out[21] = mixed(mixed(mixed(out[21], left), before), first)
    out[22] = mixed(mixed(mixed(out[22], runs.whole[r]), right), after)
    depth = np.uint64(min(i - runs.begin[r], 4))
    out[23] = mixed(mixed(mixed(out[23], kinds_of(k, 4, 6)), first), depth)
    out[24] = mixed(mixed(mixed(out[24], marks), c[4]), k[5])
    out[25] = mixed(mixed(out[25], marks), kinds_of(k, 3, 6))
    out[26] = mixed(mixed(mixed(out[26], shape), right_shape), last)
    out[27] = mixed(mixed(mixed(mixed(out[27], shape), right_shape), second_shape), last)
    out[28] = mixed(mixed(mixed(mixed(out[28], left_shape), shape), right_shape), last)
    out[29] = mixed(mixed(mixed(out[29], left_shape), right_shape), c[4] * np.uint64(2) + last)
    out[30] = mixed(mixed(mixed(out[30], right), shape), last)
    out[31] = mixed(mixed(mixed(out[31], word), right_shape), last)
    out[32] = mixed(mixed(mixed(out[32], right), second), c[4] * np.uint64(2) + last)
    out[33] = mixed(mixed(mixed(out[33], left), word), last)
    out[34] = mixed(mixed(out[34], runs.place[r, 0]), here)
    out[35] = mixed(mixed(out[35], runs.place[r, 1]), here)
    out[36] = mixed(mixed(out[36], runs.place[r, 2]), here)
    out[37] = mixed(mixed(mixed(out[37], runs.place[r, 3]), here), c[5])
    length = runs.place[r, 0] * np.uint64(8) + runs.place[r, 1]
    out[38] = mixed(mixed(mixed(out[38], length), shape), first * np.uint64(2) + last)
    out[39] = mixed(mixed(mixed(mixed(out[39], runs.place[r, 2]), shape), right_shape), last)
    out[40] = mixed(out[40], kinds_of(k, 4, 5))
    out[41] = mixed(out[41], kinds_of(k, 3, 6))
    out[42] = mixed(mixed(out[42], c[4]), k[5])
    out[43] = mixed(mixed(out[43], k[4]), c[5])
    out[44] = mixed(mixed(out[44], kinds_of(k, 3, 4)), mixed(c[5], k[6]))


@kernel("uint64(uint64)")
def coarse(kind: Any) -> Any:
    """Return 0 outside of the text, 1 for a blank, 2 for a letter or a digit, 3 for punctuation and signs."""
    return kind if kind < 2 else np.uint64(2 if kind < 8 else 3)


@kernel("void(Characters, Runs, int64, uint64[:, ::1], uint64[::1])")
def shapes(text: Characters, runs: Runs, i: int, window: Hashes, out: Hashes) -> None:
    """Compute the templates from the 46th on: shapes of the text before and after the end of character i in its run."""
    r, c, k = runs.number[i], window[0], window[1]
    before, after, last, left, right = np.uint64(1), np.uint64(1), np.uint64(0), 0, 0
    first, end = max(runs.begin[r], i - 23), min(runs.end[r], i + 24)
    for j in range(first, end):
        kind = np.uint64(text.kinds[j])
        what = kind if kind < 8 else np.uint64(text.points[j]) + np.uint64(16)
        if j == i + 1:
            last = np.uint64(0)
        if what != last:
            before, after = (mixed(before, what), after) if j <= i else (before, mixed(after, what))
        last = what
    # The letters and digits next to the character itself, or next to the gap after it.
    j = i - 1 if k[4] >= 8 else i
    while j >= first and text.kinds[j] < 8:
        left, j = left + 1, j - 1
    j = i + 1
    while j < end and text.kinds[j] < 8:
        right, j = right + 1, j + 1
    sizes = np.uint64(min(left, 4) * 8 + min(right, 4))
    out[45] = mixed(mixed(out[45], before), after)
    out[46] = mixed(mixed(mixed(out[46], before), after), sizes)
    out[47] = mixed(mixed(mixed(out[47], sizes), c[4]), kinds_of(k, 3, 5))
    out[48] = mixed(mixed(mixed(out[48], before), c[5]), k[6])
    if out.size > OLDER:
        # Only one side: `(20` if brackets were seen only before letters. Then whether characters are repeated.
        same = np.uint64((c[3] == c[4]) * 2 + (c[4] == c[5]))
        out[49] = mixed(mixed(out[49], before), k[5])
        out[50] = mixed(mixed(out[50], after), k[4])
        out[51] = mixed(mixed(out[51], c[4]), same)
        out[52] = mixed(mixed(out[52], kinds_of(k, 3, 5)), same)
    if out.size > FORMER:
        # Letters and digits treated alike: `2009»` if that mark was seen only after small letters.
        k3, k4, k5, k6 = coarse(k[3]), coarse(k[4]), coarse(k[5]), coarse(k[6])
        out[53] = mixed(mixed(out[53], k4), c[5])
        out[54] = mixed(mixed(out[54], c[4]), k5)
        out[55] = mixed(mixed(mixed(out[55], k4), c[5]), k6)
        out[56] = mixed(mixed(mixed(out[56], k3), c[4]), k5)
        out[57] = mixed(out[57], ((k3 * np.uint64(4) + k4) * np.uint64(4) + k5) * np.uint64(4) + k6)


@kernel("int64(Characters, Runs, int64, uint64[:, ::1], uint64[::1])")
def character_hashes(text: Characters, runs: Runs, i: int, window: Hashes, out: Hashes) -> int:
    """Compute the hashes of the templates at character i; return how many there are. `window` (3, 9) is work space."""
    n, c, k = text.points.size, window[0], window[1]
    for j in range(9):
        at = i + j - 4
        inside = 0 <= at < n
        c[j] = np.uint64(text.points[at]) + np.uint64(1) if inside else np.uint64(0)
        k[j] = np.uint64(text.kinds[at]) if inside else np.uint64(0)
    # Between letters, and at blanks, which depend on the text before them, few templates suffice.
    letters = k[4] == 1 or (2 <= k[4] <= 4 and 2 <= k[5] <= 4)
    few = FEW if out.size > OLDER else FEW - 1
    for v in range(few if letters else out.size):
        out[v] = np.uint64(v + 1) * np.uint64(14695981039346656037)
    r = runs.number[i]
    before, after = np.uint64(1), np.uint64(2)
    if k[4] != 1 and runs.whole[r] != 0:
        for j in range(max(runs.begin[r], i - 23), i + 1):
            before = mixed(before, np.uint64(text.points[j]))
        for j in range(i + 1, min(runs.end[r], i + 24)):
            after = mixed(after, np.uint64(text.points[j]))
    # The first and the last character of each n-gram; 4 is the character itself.
    grams = ((3, 5), (2, 5), (3, 6), (1, 4), (4, 7), (2, 6), (4, 4), (3, 4), (4, 5), (2, 4), (4, 6), (5, 6))
    for v in range(6 if letters else 12):
        a, b = grams[v]
        for j in range(a, b + 1):
            out[v] = mixed(out[v], c[j])
    spot = 6 if letters else 12
    out[spot] = mixed(out[spot], kinds_of(k, 1, 7))
    out[spot + 1] = mixed(out[spot + 1], before)
    out[spot + 2] = mixed(out[spot + 2], after)
    out[spot + 3] = mixed(mixed(out[spot + 3], before), after)
    out[spot + 4] = mixed(mixed(out[spot + 4], before), c[5])
    out[spot + 5] = mixed(mixed(out[spot + 5], after), c[4])
    if letters:
        if few == FEW:
            out[spot + 6] = mixed(out[spot + 6], kinds_of(k, 4, 5))
        return few
    window[2, 0], window[2, 1] = before, after
    around(text, runs, i, window, out)
    inside = i + 1 < runs.end[r] and runs.whole[r] != 0
    if out.size > MOST and inside and (k[4] >= 8 or k[5] >= 8):
        shapes(text, runs, i, window, out)
    elif out.size > MOST:
        return MOST
    return out.size


def places_before(text: Characters, runs: Runs) -> Ints:
    """Return the number of templates of the characters before each one, and the total."""
    kinds, sizes = text.kinds, np.full(text.kinds.size, MOST)
    letter, mark, known = (kinds >= LOWER) & (kinds <= LETTER), kinds >= STOP, runs.whole[runs.number] != 0
    sizes[:-1][(mark[:-1] | mark[1:]) & (kinds[1:] != BLANK) & known[:-1]] = TEMPLATES
    sizes[:-1][letter[:-1] & letter[1:]] = FEW
    sizes[kinds == BLANK] = FEW
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@kernel("void(Characters, Runs, int64[::1], int32[::1], int32[::1])")
def character_places(
    text: Characters, runs: Runs, indptr: Ints, out: NDArray[np.int32], counts: NDArray[np.int32]
) -> None:
    """Write the place of each template of all characters in order; `counts` has how often each place occurs."""
    hashes, window = np.empty(TEMPLATES, dtype=np.uint64), np.empty((3, 9), dtype=np.uint64)
    for i in range(text.points.size):
        character_hashes(text, runs, i, window, hashes)
        for e in range(indptr[i], indptr[i + 1]):
            place = np.int32((hashes[e - indptr[i]] * np.uint64(10376313370251892927)) >> np.uint64(42))
            out[e] = place
            counts[place] += 1


@kernel("void(int32[:, ::1], int64[::1])")
def count_places(places: NDArray[np.int32], counts: Ints) -> None:
    """Add the number of occurrences of each place to its count."""
    for i in range(places.shape[0]):
        for v in range(places.shape[1]):
            counts[places[i, v]] += 1


@kernel("int64(int32[::1], int32[::1], int64[::1])")
def number_places(places: NDArray[np.int32], number: NDArray[np.int32], indptr: Ints) -> int:
    """Replace places by their numbers in place, without those below 0; return how many there are."""
    count, first = 0, 0
    for i in range(indptr.size - 1):
        for e in range(first, indptr[i + 1]):
            if number[places[e]] >= 0:
                places[count] = number[places[e]]
                count += 1
        first, indptr[i + 1] = indptr[i + 1], count
    return count
