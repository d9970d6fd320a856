r"""A support vector machine per pair of classes, with one kernel.

    min over f_ab of  1/2 norm(f_ab)^2 + C sum over rows i of a and b of w_i max(0, 1 - s_i f_ab(x_i)),

where s_i is 1 in class a and -1 in class b. With alpha >= 0,

    f_ab = sum over i in a of alpha_ib (K(x_i, .) + 1)  -  sum over i in b of alpha_ia (K(x_i, .) + 1):

the constant replaces an intercept. A row has one alpha per other class, so all machines are one table with a row per
example and a column per class. Dual ascent takes two alphas at a time to their best values in [0, C w_i].
The classes of a row are compared by votes: f_ab > 0 is a vote for a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.mkl.gram_rows import REALS

# A run ends if no margin that could improve is off by more than TOLERANCE, or after STEPS steps per row, or after WORK
# changes of margins if that is more, as one step changes all. Random labels need most, some 100 steps per row.
TOLERANCE, STEPS, WORK = 1e-2, 30, 60_000_000
# Two rows with a determinant this small relative to their diagonals count as equal; and the smallest divisor.
FLAT, TINY = 1e-10, 1e-12


class Pair(NamedTuple):
    """Space for the machine of a pair: signs, bounds, alpha, and f at its own rows."""

    sign: Annotated[Floats, "float64[::1]"]
    bound: Annotated[Floats, "float64[::1]"]
    alpha: Annotated[Floats, "float64[::1]"]
    f: Annotated[Floats, "float64[::1]"]


class Classes(NamedTuple):
    """Rows in the order of their classes, the start of each class among them, and the weight of each row."""

    rows: Annotated[Ints, "int64[::1]"]
    starts: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]


@kernel([f"UniTuple(float64, 2)(Pair, {f}[:, ::1], int64, int64, float64)" for f in REALS])
def best_of_two(pair: Pair, gram: Any, i: int, j: int, cost: float) -> tuple[float, float]:
    """Return the changes of alpha_i and alpha_j that gain most within their bounds."""
    a, b = pair.alpha[i], pair.alpha[j]
    most_a, most_b = cost * pair.bound[i], cost * pair.bound[j]
    g, h = 1.0 - pair.sign[i] * pair.f[i], 1.0 - pair.sign[j] * pair.f[j]
    p, q, r = max(gram[i, i], TINY), max(gram[j, j], TINY), pair.sign[i] * pair.sign[j] * gram[i, j]
    rest = p * q - r * r
    if rest > FLAT * p * q:
        da, db = (q * g - r * h) / rest, (p * h - r * g) / rest
        if 0.0 <= a + da <= most_a and 0.0 <= b + db <= most_b:
            return da, db
    # The best point is on an edge of the square of bounds.
    best, da, db = -np.inf, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            x = (most_a if edge else 0.0) - a
            y = min(max((h - r * x) / q, -b), most_b - b)
        else:
            y = (most_b if edge == 3 else 0.0) - b
            x = min(max((g - r * y) / p, -a), most_a - a)
        gain = g * x + h * y - 0.5 * (p * x * x + q * y * y) - r * x * y
        if gain > best:
            best, da, db = gain, x, y
    return da, db


@kernel([f"void({f}[:, ::1], Pair, int64, float64, float64)" for f in REALS])
def ascend(gram: Any, pair: Pair, n: int, cost: float, tol: float) -> None:
    """Take steps on two of the first n rows of the space, from the current alpha; f must match it.

    The first row is the one with the largest error of its margin, the second the one that gains most with it. A step on
    one row alone hardly changes the sum of all alphas, and takes tens of thousands of passes if C is large.
    """
    for _ in range(max(STEPS * n, WORK // n)):
        i, most = -1, tol
        for k in range(n):
            g = 1.0 - pair.sign[k] * pair.f[k]
            if abs(g) > most and (pair.alpha[k] < cost * pair.bound[k] if g > 0.0 else pair.alpha[k] > 0.0):
                i, most = k, abs(g)
        if i < 0:
            return
        g, p, sign = 1.0 - pair.sign[i] * pair.f[i], max(gram[i, i], TINY), pair.sign[i]
        j, best = i, -1.0
        for k in range(n):
            h, q, r = 1.0 - pair.sign[k] * pair.f[k], max(gram[k, k], TINY), sign * pair.sign[k] * gram[i, k]
            rest = p * q - r * r
            if rest <= FLAT * p * q:
                continue
            x, y = q * g - r * h, p * h - r * g
            inside = pair.alpha[k] < cost * pair.bound[k] if y > 0.0 else pair.alpha[k] > 0.0
            if inside and x * g > 0.0 and (g * x + h * y) > best * rest:
                j, best = k, (g * x + h * y) / rest
        if j == i:
            x = min(max(g / p, -pair.alpha[i]), cost * pair.bound[i] - pair.alpha[i])
            y = 0.0
        else:
            x, y = best_of_two(pair, gram, i, j, cost)
        pair.alpha[i] += x
        pair.alpha[j] += y
        x, y = x * pair.sign[i], y * pair.sign[j]
        for k in range(n):
            pair.f[k] += x * gram[i, k] + y * gram[j, k]


@kernel([f"void({f}[:, ::1], {f}[:, ::1], Classes, float64[::1], Pair, float64, float64[:, :, ::1])" for f in REALS])
def all_pairs(K: Any, gram: Any, classes: Classes, costs: Floats, pair: Pair, tol: float, out: Floats) -> None:
    """out[c, i, b] = alpha_ib at the cost c, for all pairs; costs must increase, and runs start from the previous one.

    `gram` is scratch for the matrix of a pair.
    """
    rows, starts = classes.rows, classes.starts
    for a in range(starts.size - 1):
        for b in range(a + 1, starts.size - 1):
            n, first = 0, starts[a + 1] - starts[a]
            for part in range(2):
                y = a if part == 0 else b
                for t in range(starts[y], starts[y + 1]):
                    pair.bound[n] = classes.weight[rows[t]]
                    pair.sign[n] = 1.0 if part == 0 else -1.0
                    pair.alpha[n] = pair.f[n] = 0.0
                    n += 1
            for p in range(n):
                i = rows[starts[a] + p] if p < first else rows[starts[b] + p - first]
                for q in range(n):
                    j = rows[starts[a] + q] if q < first else rows[starts[b] + q - first]
                    gram[p, q] = K[i, j] + 1.0
            for c in range(costs.size):
                ascend(gram, pair, n, costs[c], tol)
                for p in range(n):
                    i = rows[starts[a] + p] if p < first else rows[starts[b] + p - first]
                    out[c, i, b if p < first else a] = pair.alpha[p]


def pair_machines(K: Any, y: Ints, weight: Floats, costs: Sequence[float], tol: float = TOLERANCE) -> Floats:
    """Return the alpha of all machines as (costs, rows, classes), for increasing costs.

    >>> K = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> pair_machines(K, np.array([0, 1]), np.ones(2), [0.5, 8.0])[:, :, ::-1].diagonal(axis1=1, axis2=2).round(2)
    array([[0.5, 0.5],
           [1. , 1. ]])
    """
    count = int(y.max()) + 1
    order = np.argsort(y, kind="stable").astype(np.int64)
    starts = np.searchsorted(y[order], np.arange(count + 1)).astype(np.int64)
    most = int(np.sort(np.diff(starts))[-2:].sum())
    pair = Pair(*(np.empty(most) for _ in range(4)))
    out = np.zeros((len(costs), y.size, count))
    classes = Classes(order, starts, np.ascontiguousarray(weight, dtype=np.float64))
    gram = np.empty((most, most), dtype=K.dtype)
    all_pairs(np.ascontiguousarray(K), gram, classes, np.asarray(costs, dtype=np.float64), pair, tol, out)
    return out


def duels(B: Any, alpha: Floats, owner: Ints) -> Floats:
    """Return f_ab without its constant as (rows, classes, classes), from B = K(x, x_i) and the class `owner` of row i.

    >>> duels(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]))[0]
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    count = alpha.shape[1]
    found = np.zeros((B.shape[0], count, count))
    for a in np.unique(owner).tolist():
        own = np.flatnonzero(owner == a)
        found[:, a] = B[:, own] @ alpha[own].astype(B.dtype, copy=False)
    return found - found.transpose(0, 2, 1)


def votes(f: Floats) -> Floats:
    """Return the votes for each of k classes, from 0 to k - 1, as (rows, classes); sums of margins break ties.

    >>> votes(np.array([[[0.0, 1.0, 2.0], [-1.0, 0.0, 0.5], [-2.0, -0.5, 0.0]]])).round(2)
    array([[ 2.25,  0.89, -0.24]])
    """
    total = f.sum(axis=2)
    return np.asarray((f > 0.0).sum(axis=2) + total / (3.0 * (np.abs(total) + 1.0)))
