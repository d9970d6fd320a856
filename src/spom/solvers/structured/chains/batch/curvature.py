r"""The Hessian of a random field over chains, times a vector, in an eighth of the time of a pass.

    H v = sum_i Cov_i(f, <v, f>),   f the features and steps of sentence i under p(w)

is exact for a Markov chain: with s_t(a) the score that v gives to label a at token t, and c(a, b) to a step,

    m_t(b) = s_t(b) + sum_a P(a | b) (m_{t-1}(a) + c(a, b)),
    M_t(a) = sum_b P(b | a) (c(a, b) + s_{t+1}(b) + M_{t+1}(b))

are the expected scores before and after, and Cov(y_t = a, <v, f>) = p_t(a) (m_t(a) + M_t(a) - mean). Labels with little
probability are left out of the chains, which stay chains: H is symmetric and has no negative eigenvalue. Most tokens
are nearly certain, and only the weights of a working set are looked at.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.quick_marginals import quick_marginals
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.field import exact_scores


class Cut(NamedTuple):
    """Labels below the probability `least` are left out, and all but the best where that is above 1 - sure."""

    least: float
    sure: float


EXACT = Cut(0.0, 0.0)


class Chains(NamedTuple):
    """Slots are labels that a token may have: those of t are at[t]:at[t + 1], with their probabilities.

    The steps into token t are steps[step_at[t]:step_at[t + 1]], its slots fastest; the weights at work at slot z are
    entries[entry_at[z]:entry_at[z + 1]], with their values, or none where all are one.
    """

    at: Annotated[Ints, "int64[::1]"]
    label: Annotated[Ints, "int64[::1]"]
    probability: Annotated[Floats, "float64[::1]"]
    step_at: Annotated[Ints, "int64[::1]"]
    steps: Annotated[Floats, "float64[::1]"]
    entry_at: Annotated[Ints, "int64[::1]"]
    entries: Annotated[Ids, "int32[::1]"]
    values: Annotated[Floats, "float64[::1]"]


@kernel("void(Tokens, float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def all_marginals(tokens: Tokens, table: Floats, chain: Floats, weight: Floats, nodes: Floats, ratio: Floats) -> None:
    """P(y_t) in `nodes`; a step a -> b into t has the probability share_{t-1}(a) weight(a, b) ratio_t(b).

    Sentences whose scores are too far apart for linear space are left at zero.
    """
    k, longest = chain.shape[1], 0
    for i in range(len(tokens.offsets) - 1):
        longest = max(longest, tokens.offsets[i + 1] - tokens.offsets[i])
    unary, share, steps = np.empty((longest, k)), np.empty((longest, k)), np.empty((k, k))
    for i in range(len(tokens.offsets) - 1):
        f, to = tokens.offsets[i], tokens.offsets[i + 1]
        if to > f:
            exact_scores(tokens, f, table, unary[: to - f])
            found = quick_marginals(unary[: to - f], chain, weight, share[: to - f], ratio[f:to], nodes[f:to], steps)
            if found == -np.inf:
                nodes[f:to] = 0.0


@kernel("int64(Tokens, int32[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], Chains)")
def fill_chains(tokens: Tokens, place: Ids, weight: Floats, nodes: Floats, ratio: Floats, to: Chains) -> int:
    """Probabilities, steps and entries; returns the number of entries."""
    count, at = 0, to.at
    for i in range(len(tokens.offsets) - 1):
        for t in range(tokens.offsets[i], tokens.offsets[i + 1]):
            first, last = at[t], at[t + 1]
            if t == tokens.offsets[i]:
                total = 0.0
                for z in range(first, last):
                    total += nodes[t, to.label[z]]
                for z in range(first, last):
                    to.probability[z] = nodes[t, to.label[z]] / total if total > 0.0 else 1.0
            else:
                q = to.step_at[t]
                for a in range(at[t - 1], first):
                    total = 0.0
                    for b in range(first, last):
                        to.steps[q + b - first] = weight[to.label[a], to.label[b]] * ratio[t, to.label[b]]
                        total += to.steps[q + b - first]
                    for b in range(first, last):
                        share = to.steps[q] / total if total > 0.0 else 1.0 / (last - first)
                        to.steps[q] = to.probability[a] * share
                        to.probability[b] += to.steps[q]
                        q += 1
            for z in range(first, last):
                to.entry_at[z] = count
                for e in range(tokens.indptr[t], tokens.indptr[t + 1]) if last - first > 1 else range(0):
                    j = place[tokens.indices[e], to.label[z]]
                    if j >= 0:
                        to.entries[count] = j
                        if to.values.size:
                            to.values[count] = tokens.values[e]
                        count += 1
    to.entry_at[-1] = count
    return count


@kernel("void(int64, int64, Chains, float64[:, ::1], float64[:, ::1], float64[:, ::1])")
def covariances(f: int, to: int, chains: Chains, c: Floats, out: Floats, work: Floats) -> None:
    """Of one sentence: work[0] (the scores of v at slots) becomes the covariance of slots; that of steps in `out`."""
    at, label, p = chains.at, chains.label, chains.probability
    s, m, after, k = work[0], work[1], work[2], c.shape[1]
    for z in range(at[f], at[f + 1]):
        s[z] += c[k, label[z]]
    for z in range(at[to - 1], at[to]):
        s[z] += c[k + 1, label[z]]
        after[z] = 0.0
    m[at[f] : at[f + 1]] = s[at[f] : at[f + 1]]
    for t in range(f + 1, to):
        q = chains.step_at[t]
        m[at[t] : at[t + 1]] = 0.0
        for a in range(at[t - 1], at[t]):
            for b in range(at[t], at[t + 1]):
                m[b] += chains.steps[q] * (m[a] + c[label[a], label[b]])
                q += 1
        for b in range(at[t], at[t + 1]):
            m[b] = (m[b] / p[b] if p[b] > 1e-200 else 0.0) + s[b]
    mean = 0.0
    for z in range(at[to - 1], at[to]):
        mean += p[z] * m[z]
    for t in range(to - 1, f, -1):
        q = chains.step_at[t]
        for a in range(at[t - 1], at[t]):
            total = 0.0
            for b in range(at[t], at[t + 1]):
                g = c[label[a], label[b]] + s[b] + after[b]
                total += chains.steps[q] * g
                out[label[a], label[b]] += chains.steps[q] * (m[a] + g - mean)
                q += 1
            after[a] = total / p[a] if p[a] > 1e-200 else 0.0
    for z in range(at[f], at[to]):
        s[z] = p[z] * (m[z] + after[z] - mean)
    for z in range(at[f], at[f + 1]):
        out[k, label[z]] += s[z]
    for z in range(at[to - 1], at[to]):
        out[k + 1, label[z]] += s[z]


@kernel("void(int64[::1], Chains, float64[::1], float64[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1])")
def times(offsets: Ints, chains: Chains, v: Floats, c: Floats, out: Floats, out_c: Floats, work: Floats) -> None:
    """H (v, c) for weights v of features at work and c of the chain."""
    out[:] = 0.0
    out_c[:] = 0.0
    at, entry_at, entries, values = chains.at, chains.entry_at, chains.entries, chains.values
    for i in range(offsets.size - 1):
        f, to = offsets[i], offsets[i + 1]
        if at[to] - at[f] == to - f:
            continue
        for z in range(at[f], at[to]):
            x = 0.0
            for e in range(entry_at[z], entry_at[z + 1]):
                x += v[entries[e]] * (values[e] if values.size else 1.0)
            work[0, z] = x
        covariances(f, to, chains, c, out_c, work)
        for z in range(at[f], at[to]):
            r = work[0, z]
            for e in range(entry_at[z], entry_at[z + 1]):
                out[entries[e]] += r * (values[e] if values.size else 1.0)


@kernel("void(int64[::1], Chains, float64[::1], float64[:, ::1])")
def diagonals(offsets: Ints, chains: Chains, out: Floats, out_c: Floats) -> None:
    """Add sum x^2 p (1 - p) of weights of features and of the chain, tokens and steps taken by themselves."""
    at, label, p, k = chains.at, chains.label, chains.probability, out_c.shape[1]
    for i in range(offsets.size - 1):
        for t in range(offsets[i], offsets[i + 1]):
            for z in range(at[t], at[t + 1]):
                r = p[z] * (1.0 - p[z])
                for e in range(chains.entry_at[z], chains.entry_at[z + 1]):
                    x = chains.values[e] if chains.values.size else 1.0
                    out[chains.entries[e]] += r * x * x
                if t == offsets[i]:
                    out_c[k, label[z]] += r
                if t == offsets[i + 1] - 1:
                    out_c[k + 1, label[z]] += r
            q = chains.step_at[t]
            for a in range(at[t - 1], at[t]) if t > offsets[i] else range(0):
                for b in range(at[t], at[t + 1]):
                    out_c[label[a], label[b]] += chains.steps[q] * (1.0 - chains.steps[q])
                    q += 1


class Curvature:
    """The Hessian of the sum of losses at weights (table, chain), for weights `on` of features and `steps`."""

    def __init__(
        self,
        tokens: Tokens,
        weights: tuple[Floats, Floats],
        on: NDArray[np.bool_],
        steps: NDArray[np.bool_],
        cut: Cut = EXACT,
    ) -> None:
        table, chain = weights
        n, k = tokens.total, chain.shape[1]
        weight, nodes, ratio = np.empty((k + 2, k)), np.zeros((n, k)), np.zeros((n, k))
        all_marginals(tokens, table, chain, weight, nodes, ratio)
        best = nodes.argmax(axis=1)
        keep = (nodes > cut.least) & (nodes.max(axis=1, initial=0.0) < 1.0 - cut.sure)[:, None]
        keep[np.arange(n), best] = True
        counts = keep.sum(axis=1)
        at = np.concatenate([[0], np.cumsum(counts)])
        into = np.where(np.isin(np.arange(n), tokens.offsets), 0, counts * np.append(0, counts)[:-1])
        step_at = np.concatenate([[0], np.cumsum(into)])
        most = int((counts * np.diff(tokens.indptr))[counts > 1].sum())
        place = np.full(on.shape, -1, dtype=np.int32)
        place[on] = np.arange(int(on.sum()))
        self.chains = Chains(
            at,
            np.ascontiguousarray(np.nonzero(keep)[1]),
            np.zeros(int(at[-1])),
            step_at,
            np.zeros(int(step_at[-1])),
            np.zeros(int(at[-1]) + 1, dtype=np.int64),
            np.zeros(most, dtype=np.int32),
            np.zeros(most if tokens.values.size else 0),
        )
        fill_chains(tokens, place, weight, nodes, ratio, self.chains)
        self.offsets, self.steps, self.features = tokens.offsets, steps, int(on.sum())
        self.work, self.out, self.out_c = np.zeros((3, int(at[-1]))), np.zeros(self.features), np.zeros((k + 2, k))

    def __call__(self, v: Floats) -> Floats:
        """H v, with the weights of features first."""
        c = np.zeros_like(self.out_c)
        c[self.steps] = v[self.features :]
        times(self.offsets, self.chains, v[: self.features], c, self.out, self.out_c, self.work)
        return np.concatenate([self.out, self.out_c[self.steps]])

    def diagonal(self) -> Floats:
        """sum x^2 p (1 - p) of each weight: the diagonal of H but for what tokens of a sentence have in common."""
        out, out_c = np.zeros(self.features), np.zeros_like(self.out_c)
        diagonals(self.offsets, self.chains, out, out_c)
        return np.concatenate([out, out_c[self.steps]])
