"""The compiled parser of svmlight lines: bytes in, labels and CSR arrays out."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel

Bytes = NDArray[np.uint8]
Small = NDArray[np.int32]

# The codes of the parser when it stops; positive ones are errors in the line.
DONE, FULL = 0, -1
LABEL, INDEX, COLON, VALUE, ORDER, ZERO, BEYOND = range(1, 8)

# Powers of ten as pairs of floats, whose sum has 107 bits.
_REACH = 280


def _powers() -> Floats:
    table = np.empty((2 * _REACH + 1, 2))
    for e in range(-_REACH, _REACH + 1):
        exact = Fraction(10) ** e
        high = float(exact)
        table[e + _REACH] = high, float(exact - Fraction(high))
    return table


POWERS = _powers()


@kernel("float64(uint64, int64, float64[:, ::1])")
def decimal(m: Any, e: int, powers: Floats) -> float:
    """Return m 10^e as the nearest float: exact by the rules of IEEE if both are floats, else in double-double.

    The second method errs only if the true value is within 2^-45 of half way between two floats, and
    outside of 1e-260 to 1e280, by a few units in the last place.
    """
    if m == 0:
        return 0.0
    reach = (powers.shape[0] - 1) // 2
    if m <= 9007199254740992 and -22 <= e <= 22:
        return float(float(m) * powers[reach + e, 0] if e >= 0 else float(m) / powers[reach - e, 0])
    if e > reach or e < -reach:
        first = min(max(e, -reach), reach)
        rest = min(max(e - first, -reach), reach)
        return float(float(m) * powers[reach + first, 0] * powers[reach + rest, 0])
    a = float(m)
    low = float(np.int64(np.uint64(m) - np.uint64(a)))
    b, tail = powers[reach + e, 0], powers[reach + e, 1]
    # Dekker's exact product of two floats: a b = p + error.
    p = a * b
    t = 134217729.0 * a
    a1 = t - (t - a)
    t = 134217729.0 * b
    b1 = t - (t - b)
    error = ((a1 * b1 - p) + a1 * (b - b1) + (a - a1) * b1) + (a - a1) * (b - b1)
    return float(p + (error + (a * tail + low * b)))


@kernel("int64(uint8[::1], int64, float64[::1], float64[:, ::1])")
def number(text: Bytes, i: int, out: Floats, powers: Floats) -> int:
    """Read the decimal number at `i` into out[0], and return where it ends, or -1 if there is none."""
    negative = text[i] == 45
    if negative or text[i] == 43:
        i += 1
    m, start, dropped = np.uint64(0), i, 0
    while 48 <= text[i] <= 57:
        if m < 1000000000000000000:
            m = m * np.uint64(10) + np.uint64(text[i] - 48)
        else:
            dropped += 1
        i += 1
    digits, e = i - start, dropped
    if text[i] == 46:
        i += 1
        start, dropped = i, 0
        while 48 <= text[i] <= 57:
            if m < 1000000000000000000:
                m = m * np.uint64(10) + np.uint64(text[i] - 48)
            else:
                dropped += 1
            i += 1
        digits += i - start
        e -= i - start - dropped
    if digits == 0:
        return -1
    if text[i] == 101 or text[i] == 69:
        i += 1
        minus, exponent = text[i] == 45, 0
        if minus or text[i] == 43:
            i += 1
        if not 48 <= text[i] <= 57:
            return -1
        while 48 <= text[i] <= 57:
            exponent = min(exponent * 10 + int(text[i]) - 48, 100000)
            i += 1
        e += -exponent if minus else exponent
    x = decimal(m, e, powers)
    out[0] = -x if negative else x
    return i


@kernel("int64(uint8[::1], int64)")
def _next_line(text: Bytes, i: int) -> int:
    while text[i] != 10:
        i += 1
    return i + 1


class Block(NamedTuple):
    """The rows of a block as CSR, and their labels."""

    y: Annotated[Floats, "float64[::1]"]
    indptr: Annotated[Small, "int32[::1]"]
    indices: Annotated[Small, "int32[::1]"]
    data: Annotated[Floats, "float64[::1]"]


# Entries of `place`: the byte in the text, the rows and entries of the block so far, the line.
AT, ROWS, ENTRIES, LINE = range(4)


# Both parts of a line are inlined into the loop over lines: as calls they cost a tenth of the reading time.
@kernel("Tuple((int64, float64))(uint8[::1], int64, float64[::1], float64[:, ::1])", forceinline=True)
def value_at(text: Bytes, i: int, read: Floats, powers: Floats) -> tuple[int, float]:
    """Return (the end of the number at i, the number), or (-1, 0); digits with an optional point are parsed inline."""
    start, places = i, 0
    m: Any = 0
    negative = text[i] == 45
    if negative:
        i += 1
    digit = np.int64(text[i]) - 48
    while 0 <= digit <= 9:
        m = m * 10 + digit
        i += 1
        digit = np.int64(text[i]) - 48
    if digit == -2:
        i += 1
        places = i
        digit = np.int64(text[i]) - 48
        while 0 <= digit <= 9:
            m = m * 10 + digit
            i += 1
            digit = np.int64(text[i]) - 48
        places = i - places
    if digit > -16 or i - start > 19 or not 48 <= text[i - 1] <= 57:
        i = number(text, start, read, powers)
        x = abs(read[0])
        if i < 0 or not x < np.inf or not (text[i] <= 32 or text[i] == 35):
            return -1, 0.0
    elif i - start <= 15:
        x = float(m) / powers[_REACH + places, 0]
    else:
        x = decimal(np.uint64(m), -places, powers)
    return i, -x if negative else x


@kernel(
    "UniTuple(int64, 3)(uint8[::1], int64, Block, int64, int64, int64, float64[::1], float64[:, ::1])", forceinline=True
)
def parse_entries(
    text: Bytes, i: int, block: Block, nnz: int, base: int, width: int, read: Floats, powers: Floats
) -> tuple[int, int, int]:
    """Read the entries of a line from i on into the block from nnz on; return (code, place in the text, nnz)."""
    last, first = np.int64(base - 1), True
    while True:
        while text[i] <= 32 and text[i] != 10:
            i += 1
        if text[i] == 10 or text[i] == 35:
            return DONE, i, nnz
        begin = i
        if first and text[i] == 113 and text[i + 1] == 105 and text[i + 2] == 100:
            while text[i] > 32:  # qid:number, a ranking group: not used here
                i += 1
            first = False
            continue
        first = False
        index = np.int64(0)
        while 48 <= text[i] <= 57 and index <= 2147483647:
            index = index * 10 + np.int64(text[i] - 48)
            i += 1
        if i == begin:
            return INDEX, begin, nnz
        if index > width:
            return BEYOND, begin, nnz
        if text[i] != 58:
            return COLON, begin, nnz
        if index <= last:
            return (ZERO if index < base else ORDER), begin, nnz
        if nnz == block.data.size:
            return FULL, begin, nnz
        i, x = value_at(text, i + 1, read, powers)
        if i < 0:
            return VALUE, begin, nnz
        last = index
        block.indices[nnz] = index - base
        block.data[nnz] = x
        nnz += 1


@kernel("int64(uint8[::1], int64[::1], int64, int64, Block, float64[:, ::1])")
def parse_lines(text: Bytes, place: Ints, base: int, width: int, block: Block, powers: Floats) -> int:
    """Read whole lines of `text` from `place` on into the block, update `place`, and return a code.

    It stops at the end of the text, when the block has all its rows, or if an entry does not fit. With FULL, `place` is
    at the beginning of the unread line; with an error, at the offending byte. `width` is the largest index allowed,
    `base` the index of the first feature.
    """
    read = np.empty(1)
    while place[AT] < text.size and place[ROWS] < block.y.size:
        i = place[AT]
        while text[i] <= 32 and text[i] != 10:
            i += 1
        if text[i] != 10 and text[i] != 35:  # neither a blank line nor a comment
            begin = i
            i = number(text, i, read, powers)
            if i < 0 or not abs(read[0]) < np.inf or not (text[i] <= 32 or text[i] == 35):
                place[AT] = begin
                return LABEL
            block.y[place[ROWS]] = read[0]
            code, i, nnz = parse_entries(text, i, block, place[ENTRIES], base, width, read, powers)
            if code != DONE:
                place[AT] = place[AT] if code == FULL else i
                return code
            place[ROWS] += 1
            place[ENTRIES] = nnz
            block.indptr[place[ROWS]] = nnz
        place[AT] = _next_line(text, i)
        place[LINE] += 1
    return DONE


@kernel("UniTuple(int64, 3)(uint8[::1], int64[::1], boolean, int64, float64[::1], int64, float64[:, ::1])")
def scan_lines(
    text: Bytes, ends: Ints, comments: bool, widest: int, labels: Floats, count: int, powers: Floats
) -> tuple[int, int, int]:
    """Count the rows and the distinct labels, and find the largest index (at least `widest`), in a quick scan.

    `ends` are the positions of line ends, `comments` tells whether there is any #. Indices increase, so the last one of
    a line is its largest. New labels are appended to `labels` from `count` on; when it is full, the count is one more
    than its size. Malformed lines are ignored here; `parse_lines` reports them.
    """
    at, rows, read = 0, 0, np.empty(1)
    for stop in ends:
        i, end = at, stop
        at = stop + 1
        if comments:
            end = i
            while text[end] != 10 and text[end] != 35:
                end += 1
        while i < end and text[i] <= 32:
            i += 1
        if i == end:
            continue
        rows += 1
        if number(text, i, read, powers) >= 0 and count <= labels.size:
            known = False
            for k in range(count):
                known |= labels[k] == read[0]
            if not known:
                if count < labels.size:
                    labels[count] = read[0]
                count += 1
        k = end - 1
        while k > i and text[k] != 58:
            k -= 1
        first = k
        while first > i and 48 <= text[first - 1] <= 57:
            first -= 1
        separated = text[first - 1] <= 32
        while first < k and text[first] == 48:
            first += 1
        if k > i and k - first <= 10 and separated:
            index = np.int64(0)
            for c in range(first, k):
                index = index * 10 + np.int64(text[c] - 48)
            widest = max(widest, int(index))
    return rows, widest, count
