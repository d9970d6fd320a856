"""Ends of sentences: a second score, from tokens, in addition to that of characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.container import check_indices, check_shape, take
from spom.core.jit import kernel
from spom.estimators.pipeline.characters import LOWER, UPPER, Characters, Hashes, Points, bucket, count_places, mixed
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.sparse.pairs import Singles
from spom.solvers.structured.chains.sparse.solver import SparseChain

# The attributes of a token: its text in lower case, its shape, the kinds of its first two characters, its last three
# characters; whether a blank follows; tokens before and after it in the paragraph, and since a stop; the set of tags
# it was seen with; how often it was seen in lower and in upper case.
ATTRIBUTES = ("lower", "shape", "case", "suffix", "blank", "before", "after", "since", "tags", "seen")
TEMPLATES = (
    *("lower[0]", "lower[1]", "lower[-1]", "lower[2]", "lower[0]|lower[1]", "lower[1]|lower[2]", "lower[-1]|lower[0]"),
    *("shape[0]|shape[1]", "shape[-1]|shape[0]|shape[1]", "shape[0]|shape[1]|shape[2]", "lower[0]|shape[1]|blank[0]"),
    *("shape[0]|lower[1]|blank[0]", "lower[0]|case[1]", "blank[0]|shape[0]|blank[1]|shape[1]", "tags[0]|tags[1]"),
    *("tags[0]|shape[1]", "tags[1]|shape[0]", "tags[1]|tags[2]|case[1]", "seen[1]|lower[0]", "seen[1]|shape[0]"),
    *("seen[1]|tags[0]", "seen[0]|seen[1]", "seen[1]|seen[2]|shape[0]", "seen[1]|since[0]|after[0]"),
    *("shape[0]|shape[1]|since[0]", "lower[0]|since[0]", "lower[0]|before[0]", "lower[0]|after[0]"),
    *("before[0]|after[0]|shape[0]|case[1]", "shape[0]|shape[1]|before[0]", "shape[0]|shape[1]|after[0]"),
    *("suffix[0]|case[1]", "suffix[1]|case[1]|shape[0]", "lower[-1]|lower[0]|lower[1]", "tags[-1]|tags[0]|tags[1]"),
)
BITS = 20
# Chosen on EWT's dev set; three seeds differ by as much as strengths from 2e-6 to 1e-5.
STRENGTH = 5e-6
EPOCHS = 6
# The number of tokens learnt at a time.
_PIECE = 20
# A token that occurs this often has the set of the tags it was seen with, each with this share or more.
_OFTEN, _SHARE = 3, 0.05


def _parsed(templates: tuple[str, ...]) -> NDArray[np.int64]:
    """Return one row per template: (attribute, offset) four times; attribute -1 if there are fewer."""
    rows = np.full((len(templates), 8), -1, dtype=np.int64)
    for v, template in enumerate(templates):
        for j, (name, offset) in enumerate(re.findall(r"(\w+)\[(-?\d+)\]", template)):
            rows[v, 2 * j : 2 * j + 2] = ATTRIBUTES.index(name), int(offset)
    return rows


_ROWS = _parsed(TEMPLATES)


class Spans(NamedTuple):
    """Tokens of a text: characters begin[t] to end[t] - 1."""

    begin: Ints
    end: Ints


@kernel("void(Characters, uint32[::1], int64[::1], int64[::1], uint64[:, ::1], int64[::1])")
def describe(text: Characters, lower: Points, begin: Ints, end: Ints, out: Hashes, paragraph: Ints) -> None:
    """Fill the first eight attributes of all tokens, and the number of each one's paragraph."""
    count, first, since, number = begin.size, 0, 0, 0
    for t in range(count):
        if t > 0:
            gap = begin[t] > end[t - 1]
            out[t - 1, 4] = np.uint64(1 if gap else 0)
            if gap and text.points[end[t - 1]] == 10:
                number, first, since = number + 1, t, 0
        paragraph[t] = number
        low, shape, suffix, before = np.uint64(1), np.uint64(1), np.uint64(1), np.uint64(0)
        for i in range(begin[t], end[t]):
            kind = np.uint64(text.kinds[i])
            low = mixed(low, np.uint64(lower[i]))
            if i >= end[t] - 3:
                suffix = mixed(suffix, np.uint64(lower[i]))
            what = kind if kind < 8 else np.uint64(text.points[i]) + np.uint64(16)
            if what != before:
                shape = mixed(shape, what)
            before = what
        out[t, 0], out[t, 1], out[t, 3] = low, shape, suffix
        out[t, 2] = np.uint64(text.kinds[begin[t]])
        if end[t] > begin[t] + 1:
            out[t, 2] = out[t, 2] * np.uint64(16) + np.uint64(text.kinds[begin[t] + 1])
        out[t, 5], out[t, 7] = bucket(t - first), bucket(since)
        c = text.points[end[t] - 1]
        since = 0 if c == 46 or c == 33 or c == 63 or c == 12290 or c == 65281 or c == 65311 else since + 1
    last = count - 1
    for t in range(count - 1, -1, -1):
        if t + 1 < count and paragraph[t] != paragraph[t + 1]:
            last = t
        out[t, 6] = bucket(last - t)


@kernel("void(uint64[:, ::1], int64[::1], int64[:, ::1], int32[:, ::1])")
def token_places(attributes: Hashes, paragraph: Ints, rows: Ints, out: NDArray[np.int32]) -> None:
    """Compute the place of each template of each token; tokens outside of the paragraph count as 0."""
    count = paragraph.size
    for t in range(count):
        for v in range(rows.shape[0]):
            h = np.uint64(v + 1) * np.uint64(14695981039346656037)
            for j in range(0, 8, 2):
                if rows[v, j] < 0:
                    break
                at = t + rows[v, j + 1]
                inside = 0 <= at < count and paragraph[at] == paragraph[t]
                h = mixed(h, attributes[at, rows[v, j]] if inside else np.uint64(0))
            out[t, v] = np.int32((h * np.uint64(10376313370251892927)) >> np.uint64(44))


@kernel("void(int32[:, ::1], float32[::1], float32[::1])")
def add_up(places: NDArray[np.int32], table: Singles, out: Singles) -> None:
    """out[t] += the sum of table[places[t]]."""
    for t in range(places.shape[0]):
        for v in range(places.shape[1]):
            out[t] += table[places[t, v]]


@dataclass(frozen=True)
class Seen:
    """Statistics of seen tokens, by hash: 16 times the number of the set of tags, plus case counts.

    Two bits each tell how often it began with a small letter, and how often with a capital one that opens no sentence.
    """

    hashes: Hashes
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, hashes: Hashes, kinds: Ints, first: NDArray[np.bool_], tags: Ints) -> tuple[Seen, Ints]:
        """Return (the statistics, the codes of the tokens themselves, each without its own case).

        `kinds` are those of the first characters, `first` tells which tokens open a sentence, `tags` are numbers.
        """
        distinct, where = np.unique(hashes, return_inverse=True)
        small, large = kinds == LOWER, (kinds == UPPER) & ~first
        lower, upper = (np.bincount(where[c], minlength=distinct.size) for c in (small, large))
        sets = _sets(where, tags, distinct.size)
        codes = sets * 16 + _often(lower) * 4 + _often(upper)
        own = sets[where] * 16 + _often(lower[where] - small) * 4 + _often(upper[where] - large)
        kept = codes > 0
        return cls(distinct[kept], codes[kept].astype(np.int32)), own

    def look_up(self, hashes: Hashes) -> Ints:
        """Return the code of each token; 0 if it was not seen."""
        if self.hashes.size == 0:
            return np.zeros(hashes.size, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.where(self.hashes[at] == hashes, self.codes[at], 0).astype(np.int64)


def _often(counts: Ints) -> Any:
    """Return 0, 1, 2 for up to 3, 3 for more."""
    return np.searchsorted(np.array([1, 2, 4]), counts, side="right")


def _sets(where: Ints, tags: Ints, count: int) -> Ints:
    """Return the number of the set of tags of each of the `count` distinct tokens, 0 for a rare one."""
    most = int(tags.max(initial=0)) + 1
    pairs, counts = np.unique(where * most + tags, return_counts=True)
    token, tag = np.divmod(pairs, most)
    total = np.bincount(token, weights=counts, minlength=count)
    kept = (total[token] >= _OFTEN) & (counts >= _SHARE * total[token])
    sets: dict[int, tuple[int, ...]] = {}
    for t, own in zip(token[kept].tolist(), tag[kept].tolist(), strict=True):
        sets[t] = (*sets.get(t, ()), own)
    number: dict[tuple[int, ...], int] = {}
    found = np.zeros(count, dtype=np.int64)
    for t, every in sets.items():
        found[t] = number.setdefault(every, len(number) + 1)
    return found


@dataclass(frozen=True)
class SentenceEnds:
    """margin(t) = sum of weights of the features of token t: above zero if a sentence ends with it."""

    places: NDArray[np.int32]
    weights: Singles
    seen: Seen
    table: Singles

    @classmethod
    def make(cls, places: NDArray[np.int32], weights: Singles, seen: Seen) -> SentenceEnds:
        """Return the object with its table of features."""
        table = np.zeros(1 << BITS, dtype=np.float32)
        table[places] = weights
        return cls(places, weights, seen, table)

    @classmethod
    def fit(
        cls, text: Characters, lower: Points, spans: Spans, last: NDArray[np.bool_], tags: Ints, seed: int
    ) -> SentenceEnds:
        """Learn from tokens, whether a sentence ends with each, and the numbers of their tags."""
        attributes, paragraph = described(text, lower, spans)
        first = np.concatenate([[True], last[:-1]])
        seen, codes = Seen.of(attributes[:, 0], text.kinds[spans.begin].astype(np.int64), first, tags)
        places = places_of(attributes, paragraph, codes)
        counts = np.zeros(1 << BITS, dtype=np.int64)
        count_places(places, counts)
        kept = np.flatnonzero(counts)
        number = np.zeros(1 << BITS, dtype=np.int32)
        number[kept] = np.arange(kept.size)
        offsets = np.append(np.arange(0, paragraph.size, _PIECE), paragraph.size).astype(np.int64)
        indptr = np.arange(0, places.size + 1, places.shape[1], dtype=np.int64)
        tokens = Tokens(indptr, number[places.reshape(-1)], np.empty(0), offsets)
        solver = SparseChain(
            tokens, last.astype(np.int64), 2, features=kept.size, l1=STRENGTH, loss="softmax-margin",
            transitions=False, epochs=EPOCHS, random_state=seed,
        )  # fmt: skip
        for _ in solver.passes():
            pass
        found = solver.weights()
        row = np.repeat(np.arange(kept.size), np.diff(found.pairs.starts))
        signed = np.where(found.pairs.labels == 1, found.values, -found.values)
        weights = np.bincount(row, weights=signed, minlength=kept.size).astype(np.float32)
        used = weights != 0.0
        return cls.make(kept[used].astype(np.int32), weights[used], seen)

    def margins(self, text: Characters, lower: Points, spans: Spans) -> Singles:
        """Return the margin of each token."""
        attributes, paragraph = described(text, lower, spans)
        places = places_of(attributes, paragraph, self.seen.look_up(attributes[:, 0]))
        found = np.zeros(paragraph.size, dtype=np.float32)
        add_up(places, self.table, found)
        return found

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        seen = {"seen.hashes": self.seen.hashes.view(np.int64), "seen.codes": self.seen.codes}
        return {"places": self.places, "weights": self.weights, **seen}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> SentenceEnds:
        """Read and check the arrays that `arrays()` returns."""
        places = check_indices(take(arrays, "places", "i"), 1 << BITS, "places").astype(np.int32)
        weights = check_shape(take(arrays, "weights", "f"), places.shape, "weights").astype(np.float32)
        hashes = take(arrays, "seen.hashes", "i").astype(np.int64).view(np.uint64)
        codes = check_shape(take(arrays, "seen.codes", "i"), hashes.shape, "codes").astype(np.int32)
        return cls.make(places, weights, Seen(hashes, codes))


def described(text: Characters, lower: Points, spans: Spans) -> tuple[Hashes, Ints]:
    """Return (the attributes of each token except the last two, the number of its paragraph)."""
    attributes = np.zeros((spans.begin.size, len(ATTRIBUTES)), dtype=np.uint64)
    paragraph = np.zeros(spans.begin.size, dtype=np.int64)
    describe(text, lower, spans.begin, spans.end, attributes, paragraph)
    return attributes, paragraph


def places_of(attributes: Hashes, paragraph: Ints, codes: Ints) -> NDArray[np.int32]:
    """Return the place of each template of each token; `codes`, from `Seen`, give the last two attributes."""
    attributes[:, 8] = codes // 16
    case = attributes[:, 2]
    first = np.where(case < 16, case, case // 16)
    attributes[:, 9] = np.where(first == UPPER, codes % 16 + 16, first)
    places = np.empty((paragraph.size, len(TEMPLATES)), dtype=np.int32)
    token_places(attributes, paragraph, _ROWS, places)
    return places
