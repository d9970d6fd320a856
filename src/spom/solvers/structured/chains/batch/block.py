r"""The Hessian of the heaviest weights of a random field as a matrix, to approximate the inverse of the whole Hessian.

    B = sum over neighbours of Cov(f_{t-1}, f_t, 2 c_t) / 2,

with f_t the features of token t and c_t the step into it. It is exact for the features of one token, has half of what
neighbours have in common, and nothing further apart. Each term is a covariance, so B has no negative eigenvalue.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.batch.curvature import Chains, Curvature

# The number of feature weights in the matrix, in addition to all of the chain: with 600, 1500 and 3000 steps were
# equally good on CoNLL-2000, and the matrix took .5, .8 and 1.2 s.
HEAVIEST = 600
# Tokens whose best label is above 1 - EVIDENT, and labels below a tenth of it, are skipped. Not tuned.
EVIDENT = 0.03
# RIDGE is added to the diagonal. Other weights get SHARE / diagonal, because features of one token share their
# curvature. A SHARE of 1 in place of .3 was slower on CoNLL-2000.
RIDGE, SHARE = 0.5, 0.3


@kernel("int64(int64, Chains, int64[::1], float64, int64[::1], int64[::1], float64[::1])")
def gather(t: int, chains: Chains, place: Ints, evident: float, ids: Ints, slots: Ints, x: Floats) -> int:
    """Write the weights of token t with a place in the matrix, their slots and values; return their number."""
    at, count, best = chains.at, 0, 0.0
    for z in range(at[t], at[t + 1]):
        best = max(best, chains.probability[z])
    if best > 1.0 - evident:
        return 0
    for z in range(at[t], at[t + 1]):
        if chains.probability[z] > 0.1 * evident:
            for e in range(chains.entry_at[z], chains.entry_at[z + 1]):
                j = place[chains.entries[e]]
                if j >= 0:
                    ids[count], slots[count] = j, z
                    x[count] = chains.values[e] if chains.values.size else 1.0
                    count += 1
    return count


@kernel("void(float64[:, ::1], int64, int64, float64)")
def add_below(B: Floats, i: int, j: int, value: float) -> None:
    """Add to an entry and its mirror image; only the one below the diagonal is stored."""
    if i >= j:
        B[i, j] += value
    else:
        B[j, i] += value


@kernel("void(int64[::1], Chains, int64[::1], int64[:, ::1], float64, float64[:, ::1])")
def fill_block(offsets: Ints, chains: Chains, place: Ints, step_place: Ints, evident: float, B: Floats) -> None:
    """Add the covariances of all sentences to the lower half of B."""
    at, p = chains.at, chains.probability
    most = 1
    for t in range(offsets[-1]):
        most = max(most, chains.entry_at[at[t + 1]] - chains.entry_at[at[t]])
    ids, slots, x = np.empty((2, most), dtype=np.int64), np.empty((2, most), dtype=np.int64), np.empty((2, most))
    for i in range(offsets.size - 1):
        before = 0
        for t in range(offsets[i], offsets[i + 1]):
            now, old = t & 1, 1 - (t & 1)
            count = gather(t, chains, place, evident, ids[now], slots[now], x[now])
            for u in range(count):
                z, row = slots[now, u], B[ids[now, u]]
                for v in range(count):
                    if ids[now, v] <= ids[now, u]:
                        own = p[z] if slots[now, v] == z else 0.0
                        row[ids[now, v]] += x[now, u] * x[now, v] * (own - p[z] * p[slots[now, v]])
            if t > offsets[i]:
                width = at[t + 1] - at[t]
                for u in range(before):
                    for v in range(count):
                        a, b = slots[old, u], slots[now, v]
                        joint = chains.steps[chains.step_at[t] + (a - at[t - 1]) * width + b - at[t]]
                        share = 0.5 * x[old, u] * x[now, v] * (joint - p[a] * p[b])
                        add_below(B, ids[old, u], ids[now, v], 2.0 * share if ids[old, u] == ids[now, v] else share)
                if before + count > 0:
                    add_steps(t, chains, step_place, evident, B, (ids, slots, x), (before, count))
            before = count


@kernel(
    "void(int64, Chains, int64[:, ::1], float64, float64[:, ::1],"
    " Tuple((int64[:, ::1], int64[:, ::1], float64[:, ::1])), UniTuple(int64, 2))"
)
def add_steps(
    t: int,
    chains: Chains,
    step_place: Ints,
    evident: float,
    B: Floats,
    lists: tuple[Ints, Ints, Floats],
    counts: tuple[int, int],
) -> None:
    """Add the covariances of the step into token t with itself and with the features of both of its tokens."""
    at, p, label = chains.at, chains.probability, chains.label
    ids, slots, x = lists
    q = chains.step_at[t] - 1
    for a in range(at[t - 1], at[t]):
        for b in range(at[t], at[t + 1]):
            q += 1
            joint, c = chains.steps[q], step_place[label[a], label[b]]
            if c < 0 or joint < 0.1 * evident:
                continue
            for side in range(2):
                here, z = ((t - 1) & 1, a) if side == 0 else (t & 1, b)
                for u in range(counts[side]):
                    own = 1.0 if slots[here, u] == z else 0.0
                    add_below(B, c, ids[here, u], x[here, u] * joint * (own - p[slots[here, u]]))
            B[c, c] += 2.0 * joint
            r = chains.step_at[t] - 1
            for a2 in range(at[t - 1], at[t]):
                for b2 in range(at[t], at[t + 1]):
                    r += 1
                    c2 = step_place[label[a2], label[b2]]
                    if 0 <= c2 <= c:
                        B[c, c2] -= 2.0 * joint * chains.steps[r]


class Preconditioner:
    """r -> (H + damping)^-1 r, approximately: the matrix for the heaviest weights and the chain, else a diagonal."""

    def __init__(self, H: Curvature, damping: Floats) -> None:
        diagonal = H.diagonal()
        heavy = np.sort(np.argsort(-diagonal[: H.features], kind="stable")[:HEAVIEST])
        self.index = np.concatenate([heavy, np.arange(H.features, diagonal.size)])
        self.inverse = SHARE / (diagonal + damping + SHARE)
        B, size = np.zeros((self.index.size, self.index.size)), self.index.size
        place, step_place = np.full(max(1, H.features), -1), np.full(H.steps.shape, -1)
        place[heavy], step_place[H.steps] = np.arange(heavy.size), np.arange(heavy.size, size)
        fill_block(H.offsets, H.chains, place, step_place, EVIDENT, B)
        B[np.diag_indices(size)] = np.maximum(B.diagonal(), diagonal[self.index]) + damping[self.index] + RIDGE
        try:
            self.factor = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # rounding: use the diagonal alone
            self.index = self.index[:0]

    def __call__(self, r: Floats) -> Floats:
        """Return an approximation of (H + damping)^-1 r."""
        out = self.inverse * r
        if self.index.size:
            out[self.index] = cho_solve(self.factor, r[self.index], check_finite=False)
        return out
