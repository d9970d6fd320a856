"""The best labels under weights of pairs; labels that cannot be on a best path are left out by exact bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.sparse.pairs import Pairs, Singles, add_parts, longest, part_count


class Frozen(NamedTuple):
    """Weights of pairs, scores of steps, beginnings and ends, and their bounds for each label.

    most_in[b] is the largest score of a step to b; most_out[a] and least_out[a] bound the steps from a, and its end.
    """

    pairs: Pairs
    values: Annotated[Singles, "float32[::1]"]
    chain: Annotated[Singles, "float32[:, ::1]"]
    most_in: Annotated[Singles, "float32[::1]"]
    most_out: Annotated[Singles, "float32[::1]"]
    least_out: Annotated[Singles, "float32[::1]"]


@kernel("void(Tokens, int64, Frozen, float32[::1])")
def frozen_scores(rows: Tokens, t: int, model: Frozen, out: Singles) -> None:
    """out[label] = the sum of the weights that the features of token t have with it."""
    out[:] = np.float32(0.0)
    starts, labels = model.pairs.starts, model.pairs.labels
    for e in range(rows.indptr[t], rows.indptr[t + 1]):
        j = rows.indices[e]
        if rows.values.size:
            x = np.float32(rows.values[e])
            for p in range(starts[j], starts[j + 1]):
                out[labels[p]] += x * model.values[p]
        else:
            for p in range(starts[j], starts[j + 1]):
                out[labels[p]] += model.values[p]
    add_parts(model.pairs.parts, out)


@kernel("int64(Frozen, float32[::1], float32[::1], int32[::1], int64, int32[::1])")
def possible(model: Frozen, scores: Singles, alpha: Singles, before: Ids, count: int, out: Ids) -> int:
    """Labels that may be on a best path, given the labels `before` of the last token with their best scores `alpha`.

    With a* the best of them, some path through b' scores alpha[a*] + chain[a*, b'] + score[b'] + least_out[b'] or more
    up to the step after it. A label b that reaches less than that with most_in[b] and most_out[b] is on no best path.
    """
    best = 0
    for i in range(count):
        if alpha[i] > alpha[best]:
            best = i
    top, row = alpha[best], model.chain[before[best]]
    low = np.float32(-np.inf)
    for b in range(scores.size):
        low = max(low, top + row[b] + scores[b] + model.least_out[b])
    found = 0
    for b in range(scores.size):
        if top + model.most_in[b] + scores[b] + model.most_out[b] >= low:
            out[found] = b
            found += 1
    return found


@kernel("void(Tokens, int64, Frozen, float32[::1], int32[:, ::1], float32[:, ::1], int32[:, ::1], int64[::1])")
def tag_sentence(
    rows: Tokens, first: int, model: Frozen, every: Singles, labels: Ids, alpha: Singles, back: Ids, out: Ints
) -> None:
    """Viterbi over the labels that may be on a best path; `every` is for the scores of labels and parts."""
    k, n = model.most_in.size, out.size
    scores, counts = every[:k], np.empty(n, dtype=np.int64)
    for t in range(n):
        frozen_scores(rows, first + t, model, every)
        if t == n - 1:
            scores += model.chain[k + 1]
        if t == 0:
            scores += model.chain[k]
            count = k
            for b in range(k):
                labels[0, b], alpha[0, b], back[0, b] = b, scores[b], 0
        else:
            count = possible(model, scores, alpha[t - 1], labels[t - 1], counts[t - 1], labels[t])
            for i in range(count):
                b, top, where = labels[t, i], np.float32(-np.inf), 0
                for j in range(counts[t - 1]):
                    s = alpha[t - 1, j] + model.chain[labels[t - 1, j], b]
                    if s > top:
                        top, where = s, j
                alpha[t, i], back[t, i] = top + scores[b], where
        # Of those, only labels whose best continuation can reach the worst one of the best label.
        low, kept = np.float32(-np.inf), 0
        for i in range(count):
            low = max(low, alpha[t, i] + model.least_out[labels[t, i]])
        for i in range(count):
            if alpha[t, i] + model.most_out[labels[t, i]] >= low:
                labels[t, kept], alpha[t, kept], back[t, kept] = labels[t, i], alpha[t, i], back[t, i]
                kept += 1
        counts[t] = kept
    at = 0
    for i in range(counts[n - 1]):
        if alpha[n - 1, i] > alpha[n - 1, at]:
            at = i
    for t in range(n - 1, -1, -1):
        out[t] = labels[t, at]
        at = back[t, at]


@kernel("void(Tokens, Frozen, int64, int64, int64[::1])")
def tag_all(rows: Tokens, model: Frozen, longest: int, total: int, out: Ints) -> None:
    """The best labels of all sentences; `total` is the number of labels and parts."""
    k = model.most_in.size
    labels, back = np.empty((longest, k), dtype=np.int32), np.empty((longest, k), dtype=np.int32)
    alpha, every = np.empty((longest, k), dtype=np.float32), np.empty(total, dtype=np.float32)
    for i in range(rows.offsets.size - 1):
        first, n = rows.offsets[i], rows.offsets[i + 1] - rows.offsets[i]
        if n > 0:
            tag_sentence(rows, first, model, every, labels, alpha, back, out[first : first + n])


@dataclass(frozen=True)
class SparseWeights:
    """What was learnt: weights of pairs that are not zero, and scores of steps, beginnings and ends."""

    pairs: Pairs
    values: Singles
    chain: Singles

    def frozen(self) -> Frozen:
        """The weights with their bounds. An end counts as a step out, with the score zero: it is in the last scores."""
        k = self.chain.shape[1]
        steps = self.chain[:k]
        zero = np.zeros(k, dtype=np.float32)
        bounds = (steps.max(axis=0), np.maximum(steps.max(axis=1), zero), np.minimum(steps.min(axis=1), zero))
        return Frozen(self.pairs, self.values, self.chain, *(np.ascontiguousarray(b) for b in bounds))

    def tag(self, tokens: Tokens) -> Ints:
        """The number of the best label of each token; ties go to the lower label."""
        out = np.empty(tokens.total, dtype=np.int64)
        tag_all(tokens, self.frozen(), longest(tokens), part_count(self.pairs.parts), out)
        return out

    def used(self) -> Ints:
        """The features that have a weight."""
        return np.flatnonzero(np.diff(self.pairs.starts))

    def only(self, features: Ints) -> SparseWeights:
        """The weights of some features, numbered anew in their order; all other features must have none."""
        sizes = np.diff(self.pairs.starts)[features]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return SparseWeights(Pairs(starts, self.pairs.labels, self.pairs.parts), self.values, self.chain)
