"""Exact decoding with weights of pairs: one bound covers most labels of a token.

At each token, the best-scoring labels are examined one by one. All others are represented by a single node, whose score
is an upper bound on theirs. If the best path goes through such a node, more labels of its token are examined, and the
search is repeated. If it does not, no label below a bound can be better (Kaji et al. 2010, staggered decoding).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, offsets_of
from spom.core.jit import kernel
from spom.errors import DataError
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.sparse.pairs import Pairs, dense_rows, fetch
from spom.solvers.structured.chains.sparse.parts import Parts, add_parts

# Labels whose score is within this distance of the best one are examined from the start.
REACH = 1.5
# If the best path goes through a node of others, the reach at that token grows by this factor.
GROWTH = 1.5
# Labels b with the same b % LANES share a peak, so that most of them are skipped together.
LANES = 64


class Frozen(NamedTuple):
    """Weights of pairs, scores of steps, beginnings and ends, and the best step to and from each label.

    most_in[0] is zero, for the first token; most_in[1] has the steps.
    """

    pairs: Pairs
    values: Annotated[Singles, "float32[::1]"]
    chain: Annotated[Singles, "float32[:, ::1]"]
    most_in: Annotated[Singles, "float32[:, ::1]"]
    most_out: Annotated[Singles, "float32[::1]"]


class Search(NamedTuple):
    """Memory for one sentence. Token t has `counts[t]` labels of its own; the node after them represents the others.

    scores : of each label. peaks : the maxima over the labels that share a lane, each score with the best step to it.
    others : upper bound on the gain of a path through the node of the others. reach : how far below the best labels may
    be.
    """

    every: Annotated[Singles, "float32[::1]"]
    scores: Annotated[Singles, "float32[:, ::1]"]
    peaks: Annotated[Singles, "float32[:, ::1]"]
    labels: Annotated[Ids, "int32[:, ::1]"]
    counts: Annotated[Ints, "int64[::1]"]
    alpha: Annotated[Floats, "float64[:, ::1]"]
    back: Annotated[Ids, "int32[:, ::1]"]
    others: Annotated[Floats, "float64[::1]"]
    reach: Annotated[Singles, "float32[::1]"]


@kernel("void(Tokens, int64, Frozen, float32[::1])")
def frozen_scores(rows: Tokens, t: int, model: Frozen, out: Singles) -> None:
    """out[label] = sum of its weights with the features of token t."""
    out[:] = np.float32(0.0)
    starts, labels = model.pairs.starts, model.pairs.labels
    fetch(rows, t, model.pairs, model.values)
    for e in range(rows.indptr[t], rows.indptr[t + 1]):
        j = rows.indices[e]
        x = np.float32(rows.values[e]) if rows.values.size else np.float32(1.0)
        first, end = starts[j], starts[j + 1]
        own = model.values[first:end]
        if own.size == model.pairs.parts.total:
            for b in range(own.size):
                out[b] += x * own[b]
        else:
            for p in range(first, end):
                out[labels[p]] += x * model.values[p]
    add_parts(model.pairs.parts, out)


@kernel("void(Tokens, Frozen, float32[::1], float64[:, ::1])")
def frozen_rows(rows: Tokens, model: Frozen, every: Singles, out: Floats) -> None:
    """Compute the scores of all labels at each token."""
    for t in range(out.shape[0]):
        frozen_scores(rows, t, model, every)
        for b in range(out.shape[1]):
            out[t, b] = every[b]


@kernel("void(Search, int64, int64, Frozen)")
def find_peaks(search: Search, t: int, n: int, model: Frozen) -> None:
    """Compute the scores of token t with its beginning or end, and their peaks with the best step to each label."""
    k, scores, peaks, into = model.chain.shape[1], search.scores[t], search.peaks[t], model.most_in[min(t, 1)]
    scores[:] = search.every[:k]
    if t == 0:
        scores += model.chain[k]
    if t == n - 1:
        scores += model.chain[k + 1]
    peaks[:] = np.float32(-np.inf)
    for low in range(0, k, LANES):
        for q in range(min(LANES, k - low)):
            gain = scores[low + q] + into[low + q]
            peaks[q] = gain if gain > peaks[q] else peaks[q]


@kernel("void(Search, int64, Frozen)")
def look_at(search: Search, t: int, model: Frozen) -> None:
    """Find the labels of token t within its reach, and an upper bound on the gain of the others."""
    k, scores, peaks, into = model.chain.shape[1], search.scores[t], search.peaks[t], model.most_in[min(t, 1)]
    top, others, count = peaks[0], np.float32(-np.inf), 0
    for q in range(1, LANES):
        top = max(top, peaks[q])
    low = top - search.reach[t]
    for q in range(min(LANES, k)):
        if peaks[q] < low:
            others = max(others, peaks[q])
            continue
        for b in range(q, k, LANES):
            gain = scores[b] + into[b]
            if gain < low:
                others = max(others, gain)
            else:
                search.labels[t, count] = b
                count += 1
    search.counts[t], search.others[t] = count, others


@kernel("void(Search, int64)")
def order(search: Search, t: int) -> None:
    """Sort the labels of token t by their paths' scores, best first; ties by label."""
    labels, alpha, back = search.labels[t], search.alpha[t], search.back[t]
    for i in range(1, search.counts[t]):
        label, score, where, at = labels[i], alpha[i], back[i], i
        while at > 0 and (alpha[at - 1] < score or (alpha[at - 1] == score and labels[at - 1] > label)):
            labels[at], alpha[at], back[at] = labels[at - 1], alpha[at - 1], back[at - 1]
            at -= 1
        labels[at], alpha[at], back[at] = label, score, where


@kernel("void(Search, int64, Frozen)")
def forward(search: Search, t: int, model: Frozen) -> None:
    """Compute the best scores of paths that end in the labels of token t, and in its node of the others.

    A step is looked up only if its bound could make a path the best; ties go to the lower label.
    """
    count, labels, alpha, back = search.counts[t], search.labels[t], search.alpha[t], search.back[t]
    if t == 0:
        for i in range(count):
            alpha[i] = search.scores[0, labels[i]]
        alpha[count] = search.others[0]
        return
    before, last, size, into = search.labels[t - 1], search.alpha[t - 1], search.counts[t - 1], model.most_in[1]
    for i in range(count):
        b, top, where = labels[i], -np.inf, 0
        for j in range(size):
            if last[j] + into[b] < top:
                break
            if last[j] + model.most_out[before[j]] >= top:
                s = last[j] + model.chain[before[j], b]
                if s > top or (s == top and before[j] < before[where]):
                    top, where = s, j
        if last[size] + into[b] >= top:
            top, where = last[size] + into[b], size
        alpha[i], back[i] = top + search.scores[t, b], where
    where = size if last[size] >= last[0] else 0
    alpha[count], back[count] = last[where] + search.others[t], where


@kernel("boolean(Tokens, int64, Frozen, Search, int64[::1])")
def tag_sentence(rows: Tokens, first: int, model: Frozen, search: Search, out: Ints) -> bool:
    """Find the best labels of a sentence; return False if every sequence is forbidden."""
    k, n = model.chain.shape[1], out.size
    for t in range(n):
        frozen_scores(rows, first + t, model, search.every)
        find_peaks(search, t, n, model)
        search.reach[t] = np.float32(REACH)
        look_at(search, t, model)
    begin = 0
    while begin < n:
        for t in range(begin, n):
            forward(search, t, model)
            order(search, t)
        count, alpha = search.counts[n - 1], search.alpha[n - 1]
        at, begin = count if alpha[count] >= alpha[0] else 0, n
        for t in range(n - 1, -1, -1):
            if at < search.counts[t]:
                out[t] = search.labels[t, at]
            elif search.counts[t] == k:
                return False
            else:
                begin = t
                search.reach[t] *= np.float32(GROWTH) if search.reach[t] < 1e6 else np.float32(np.inf)
                look_at(search, t, model)
            at = search.back[t, at]
    return True


@kernel("int64(Tokens, Frozen, Search, int64[::1])")
def tag_all(rows: Tokens, model: Frozen, search: Search, out: Ints) -> int:
    """Find the best labels of all sentences; return a sentence for which every sequence is forbidden, or -1."""
    for i in range(rows.offsets.size - 1):
        first, n = rows.offsets[i], rows.offsets[i + 1] - rows.offsets[i]
        if n > 0 and not tag_sentence(rows, first, model, search, out[first : first + n]):
            return i
    return -1


def check_allowed(bad: int) -> None:
    """Raise an error that names a sentence for which every sequence is forbidden; -1 is none."""
    if bad >= 0:
        raise DataError(f"sentence {bad}: the constraints and its scores forbid every sequence of its length")


def make_search(length: int, k: int, places: int) -> Search:
    """Allocate memory for sentences of up to `length` tokens with k labels; `places` as in `Parts`."""
    return Search(
        np.empty(places, dtype=np.float32),
        np.empty((length, k), dtype=np.float32),
        np.empty((length, LANES), dtype=np.float32),
        np.empty((length, k), dtype=np.int32),
        np.empty(length, dtype=np.int64),
        np.empty((length, k + 1)),
        np.empty((length, k + 1), dtype=np.int32),
        np.empty(length),
        np.empty(length, dtype=np.float32),
    )


@dataclass(frozen=True)
class SparseWeights:
    """Learnt weights: those of pairs that are not zero, and scores of steps, beginnings and ends."""

    pairs: Pairs
    values: Singles
    chain: Singles

    @classmethod
    def of(cls, W: Any, chain: Floats) -> SparseWeights:
        """Create from a CSR matrix, (features, labels), and scores of the chain."""
        pairs = Pairs(W.indptr.astype(np.int64), W.indices.astype(np.int32), Parts.of(None, chain.shape[1]))
        return cls(pairs, np.ascontiguousarray(W.data, dtype=np.float32), chain.astype(np.float32))

    @cached_property
    def frozen(self) -> Frozen:
        """The weights with the best step to and from each label."""
        steps = self.chain[: self.chain.shape[1]]
        into = np.stack([np.zeros(steps.shape[1], dtype=np.float32), steps.max(axis=0)])
        pairs, place = dense_rows(self.pairs)
        values = np.zeros(pairs.labels.size, dtype=np.float32)
        values[place] = self.values
        return Frozen(pairs, values, self.chain, into, np.ascontiguousarray(steps.max(axis=1)))

    def tag(self, tokens: Tokens) -> Ints:
        """Return the number of the best label of each token; ties go to the lower label."""
        out = np.empty(tokens.total, dtype=np.int64)
        longest = int(np.diff(tokens.offsets).max(initial=1))
        search = make_search(longest, self.chain.shape[1], self.pairs.parts.places)
        check_allowed(int(tag_all(tokens, self.frozen, search, out)))
        return out

    def scores(self, tokens: Tokens) -> Floats:
        """Return the score of each label at each token, without the chain's, (tokens, labels)."""
        out = np.empty((tokens.total, self.chain.shape[1]))
        frozen_rows(tokens, self.frozen, np.empty(self.pairs.parts.places, dtype=np.float32), out)
        return out

    def used(self) -> Ints:
        """Return the features that have a weight."""
        return np.flatnonzero(np.diff(self.pairs.starts))

    def only(self, features: Ints) -> SparseWeights:
        """Return the weights of some features, renumbered in order; all other features must have none."""
        sizes = np.diff(self.pairs.starts)[features]
        starts = offsets_of(sizes)
        return SparseWeights(Pairs(starts, self.pairs.labels, self.pairs.parts), self.values, self.chain)
