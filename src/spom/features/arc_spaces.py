"""Compiled functions: the codes of a sentence's words for arc templates, and the places of an arc's weights.

A family of templates is a set of attributes of head and modifier. One row holds all weights of one value of them: one
for any direction and distance, two by direction, twelve by direction and distance, if these are templates of the set.
A row is at most 16 float32, one cache line, so three templates cost one memory access.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import Codes

# The number of weights that a row has for each slot: plain, by direction, by direction and distance.
LENGTHS = (1, 2, 12)
# A cache line, in weights; tables are aligned to it.
LINE = 16
# The columns of the table of families. BASE counts rows, START weights; WIDE is the length of a row. AT + slot has the
# start of a slot's part of the row, or -1 where the set has no such template.
HEAD, MODIFIER, PAIR, SET, BY_HEAD, BY_MODIFIER, BY_PAIR, BY_SET, MASK, BASE, SALT, START, WIDE, AT = range(14)
FIELDS = AT + len(LENGTHS)
# Places that an attribute can be read at: offsets -2..2, or places in the guide, the tree of a first stage.
GUIDE_HEAD, GUIDE_LEFT, GUIDE_RIGHT, GUIDE_GRANDPARENT = 10, 11, 12, 13
# Attributes of the pair: counts of the words between, and attributes from the guide.
GAP, SAME, SIBLING, BEYOND = range(4)
GAPS, SAMES = 24, 3
# The rows of a table of arcs: head, modifier, direction, bin of direction and distance.
HEAD_OF, MODIFIER_OF, SIDE, BIN = range(4)
CODES = "Array(int32, 2, 'C', readonly=True)"
TABLE = "Array(int64, 2, 'C', readonly=True)"
VECTOR = "Array(int64, 1, 'C', readonly=True)"
LIMITS = "Array(int16, 3, 'C', readonly=True)"
Shorts = NDArray[np.int16]


class Corpus(NamedTuple):
    """Sentences as codes: column c of word w (from 1; 0 is the root) of sentence s is codes[c, first[s] + w].

    `kinds` has 1 for verbs, 2 for punctuation, 4 for conjunctions. `guides` has the heads that a first stage found, or
    is empty.
    """

    codes: Annotated[Codes, CODES]
    kinds: Annotated[Ints, VECTOR]
    first: Annotated[Ints, VECTOR]
    sizes: Annotated[Ints, VECTOR]
    guides: Annotated[Ints, VECTOR]


class Sentence(NamedTuple):
    """One sentence of n words, which begins with its root at `first`; `guide` has its heads, or is empty."""

    codes: Annotated[Codes, CODES]
    kinds: Annotated[Ints, VECTOR]
    guide: Annotated[Ints, "int64[::1]"]
    first: Annotated[int, "int64"]
    n: Annotated[int, "int64"]


@kernel("Sentence(Corpus, int64)")
def sentence_of(corpus: Corpus, s: int) -> Any:
    """Return sentence s of a corpus."""
    a, n = corpus.first[s], corpus.sizes[s]
    guide = corpus.guides[a : a + n + 1].copy() if corpus.guides.size else np.empty(0, dtype=np.int64)
    return Sentence(corpus.codes, corpus.kinds, guide, a, n)


@kernel("int64(Corpus, int64[::1])")
def longest_sentence(corpus: Corpus, order: Ints) -> int:
    """Return the number of words of the longest of the sentences `order`."""
    longest = 0
    for s in order:
        longest = max(longest, corpus.sizes[s])
    return longest


@kernel("uint64(uint64, uint64)")
def mixed(code: Any, salt: Any) -> Any:
    """Return a hash of a code: the finaliser of splitmix64 on code + salt times an odd constant."""
    x = code + salt * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel("int64(int64, int64, int64, int64[::1], int64[:, ::1])")
def place(word: int, hop: int, n: int, guide: Ints, children: Ints) -> int:
    """Return the word that `hop` leads to from `word` (0 is the root), or -1 if there is none."""
    if hop < 10:
        at = word + hop
        return at if 0 <= at <= n else -1
    if hop == 11 or hop == 12:
        return int(children[hop - 11, word])
    if word == 0:
        return -1
    head = guide[word]
    if hop == 10 or head <= 0:
        return int(head)
    return int(guide[head])


@kernel("void(int64, int64[::1], int64[:, ::1])")
def outer_children(n: int, guide: Ints, children: Ints) -> None:
    """Write the first child to the left and the last to the right of each word in the guide, or -1, into `children`."""
    for w in range(n + 1):
        children[0, w] = children[1, w] = -1
    for m in range(n, 0, -1):
        if guide[m] > m:
            children[0, guide[m]] = m
    for m in range(1, n + 1):
        if 0 <= guide[m] < m:
            children[1, guide[m]] = m


@kernel(f"void(Sentence, {VECTOR}, {TABLE}, int64[:, ::1])")
def side_codes(sentence: Sentence, ends: Ints, atoms: Ints, out: Ints) -> None:
    """out[s, w]: the attributes of side s at word w as one number (mixed radix over its atoms)."""
    codes, _, guide, first, n = sentence
    children = np.empty((2, n + 1), dtype=np.int64)
    if guide.size:
        outer_children(n, guide, children)
    for s in range(ends.size - 1):
        out[s, : n + 1] = 0
        for k in range(ends[s], ends[s + 1]):
            column, hop, radix = codes[atoms[k, 0]], atoms[k, 1], atoms[k, 2]
            # Most places are neighbours: a plain loop over those inside the sentence.
            begin, end = (max(0, -hop), min(n, n - hop) + 1) if hop < 10 else (n + 1, n + 1)
            for w in range(begin, end):
                out[s, w] = out[s, w] * radix + column[first + w + hop]
            for w in range(n + 1):
                if begin <= w < end:
                    continue
                at = place(w, hop, n, guide, children)
                out[s, w] = out[s, w] * radix + (np.int64(column[first + at]) if at >= 0 else radix - 1)


@kernel(f"void({TABLE}, int64[:, ::1], int64, int64[:, ::1], int64[:, ::1])")
def addends(families: Ints, sides: Ints, n: int, heads: Ints, modifiers: Ints) -> None:
    """Write what a word adds to the row of each family as head and as modifier: a multiple of its code, or a hash."""
    for f in range(families.shape[0]):
        mask, salt = families[f, MASK], families[f, SALT]
        for side in range(2):
            out = heads[f] if side == 0 else modifiers[f]
            which, stride = families[f, side], families[f, BY_HEAD + side]
            if which < 0:
                out[: n + 1] = 0
            elif salt == 0:
                for w in range(n + 1):
                    out[w] = sides[which, w] * stride
            else:
                for w in range(n + 1):
                    out[w] = np.int64(mixed(np.uint64(sides[which, w]), np.uint64(salt + side)) & np.uint64(mask))


@kernel("int64(int64)")
def distance_bin(d: int) -> int:
    """Return 0 to 5 for distances 1, 2, 3, 4-6, 7-11, 12 and more."""
    if d <= 3:
        return d - 1
    return 3 if d <= 6 else (4 if d <= 11 else 5)


@kernel(f"int64(Sentence, int64, {LIMITS}, int64[:, ::1])")
def candidates(sentence: Sentence, column: int, limits: Shorts, arcs: Ints) -> int:
    """List the arcs that pass the filter, by head; return their number. `arcs` gets head, modifier, direction and bin.

    `limits[direction, tag of the head, tag of the modifier]` is the largest distance. A modifier that the filter leaves
    without a head keeps all its arcs. If `limits` is empty, all arcs pass.
    """
    codes, _, _, first, n = sentence
    free = np.zeros(n + 1, dtype=np.int64)
    if limits.size:
        for m in range(1, n + 1):
            tag, found = codes[column, first + m], False
            for h in range(n + 1):
                if h != m:
                    d = m - h if h < m else h - m
                    side = 0 if h < m else 1
                    if (d if h else 1) <= limits[side, codes[column, first + h], tag]:
                        found = True
                        break
            free[m] = 0 if found else 1
    count = 0
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h == m:
                continue
            side = 0 if h < m else 1
            d = m - h if h < m else h - m
            if limits.size and free[m] == 0:
                limit = limits[side, codes[column, first + h], codes[column, first + m]]
                if (d if h else 1) > limit:
                    continue
            arcs[HEAD_OF, count], arcs[MODIFIER_OF, count] = h, m
            arcs[SIDE, count], arcs[BIN, count] = side, 6 * side + distance_bin(d)
            count += 1
    return count


@kernel("void(Sentence, int64, int64[:, :, ::1], int64[:, ::1])")
def tags_between(sentence: Sentence, column: int, tags: Ints, counts: Ints) -> None:
    """List the distinct tags between h and m: the first counts[h, m] of tags[h, direction], in order from h outward."""
    codes, _, _, first, n = sentence
    most = 0
    for w in range(n + 1):
        most = max(most, codes[column, first + w])
    # The head and side at which each tag was last seen, instead of a search in a list.
    seen = np.full(most + 1, -1, dtype=np.int64)
    for h in range(n + 1):
        for side in range(2):
            count = 0
            step, end = (1, n + 1) if side == 0 else (-1, 0)
            for m in range(h + step, end, step):
                counts[h, m] = count
                tag = np.int64(codes[column, first + m])
                if seen[tag] != 2 * h + side:
                    seen[tag] = 2 * h + side
                    tags[h, side, count] = tag
                    count += 1


@kernel("void(Sentence, int64, int64[:, ::1], int64, int64, int64[::1])")
def pair_codes(sentence: Sentence, column: int, arcs: Ints, count: int, which: int, out: Ints) -> None:
    """Write the pair attribute `which` of each arc into `out`; siblings are given by their codes in `column`."""
    codes, kinds, guide, first, n = sentence
    sums = np.zeros((3, n + 2), dtype=np.int64)
    if which == GAP:
        for w in range(1, n + 1):
            kind = kinds[first + w]
            for k in range(3):
                sums[k, w + 1] = sums[k, w] + ((kind >> k) & 1)
    for a in range(count):
        h, m = arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]
        lo, hi = (h, m) if h < m else (m, h)
        if which == GAP:
            verbs = min(sums[0, hi] - sums[0, lo + 1], 3)
            out[a] = (verbs * 3 + min(sums[1, hi] - sums[1, lo + 1], 2)) * 2 + min(sums[2, hi] - sums[2, lo + 1], 1)
        elif which == SAME:
            out[a] = 1 if guide[m] == h else (2 if h > 0 and guide[h] == m else 0)
        else:
            # The child of h in the guide that is nearest to m, on the inner or the outer side of m.
            step = (1 if m < h else -1) if which == SIBLING else (1 if m > h else -1)
            at, found = m + step, -1
            while 1 <= at <= n and at != h:
                if guide[at] == h:
                    found = at
                    break
                at += step
            out[a] = np.int64(codes[column, first + found]) + 1 if found > 0 else 0
