r"""A support vector machine for each pair of classes, with one kernel.

    min over f_ab of  1/2 norm(f_ab)^2 + C sum over rows i of a and b of w_i max(0, 1 - s_i f_ab(x_i)),

where s_i is 1 in class a and -1 in class b. With alpha >= 0,

    f_ab = sum over i in a of alpha_ib (K(x_i, .) + 1)  -  sum over i in b of alpha_ia (K(x_i, .) + 1):

the constant stands for an intercept. A row has one alpha for each other class, so that all machines are one table with
a row per example and a column per class. Dual coordinate ascent: each alpha in turn takes its best value in
[0, C w_i]. The classes of a row are compared by votes: f_ab > 0 is one for a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.mkl.gram_rows import REALS

# A pass over the rows ends the run if no margin that could be better was off by more.
TOLERANCE, PASSES = 1e-2, 100


class Pair(NamedTuple):
    """Space for the machine of a pair: signs, bounds, alpha, and f at its own rows."""

    sign: Annotated[Floats, "float64[::1]"]
    bound: Annotated[Floats, "float64[::1]"]
    alpha: Annotated[Floats, "float64[::1]"]
    f: Annotated[Floats, "float64[::1]"]


class Classes(NamedTuple):
    """Rows in the order of their classes, where each class begins among them, and the weight of each row."""

    rows: Annotated[Ints, "int64[::1]"]
    starts: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]


@kernel([f"void({f}[:, ::1], Pair, int64, float64, float64)" for f in REALS])
def ascend(gram: Any, pair: Pair, n: int, cost: float, tol: float) -> None:
    """Passes over the first n rows of the space, from the alpha that is there; f must fit it."""
    # Neighbours are of one class: a stride that has no divisor in common with n visits all rows, far apart.
    stride = max(1, int(0.618 * n))
    while True:
        a, b = stride, n
        while b > 0:
            a, b = b, a % b
        if a == 1:
            break
        stride += 1
    for _ in range(PASSES):
        most, i = 0.0, 0
        for _ in range(n):
            i = (i + stride) % n
            alpha, bound, sign = pair.alpha[i], cost * pair.bound[i], pair.sign[i]
            slope = 1.0 - sign * pair.f[i]
            if (alpha <= 0.0 and slope <= 0.0) or (alpha >= bound and slope >= 0.0):
                continue
            new = min(max(alpha + slope / max(gram[i, i], 1e-12), 0.0), bound)
            change = sign * (new - alpha)
            if change != 0.0:
                pair.alpha[i] = new
                most = max(most, abs(slope))
                for j in range(n):
                    pair.f[j] += change * gram[i, j]
        if most < tol:
            return


@kernel([f"void({f}[:, ::1], {f}[:, ::1], Classes, float64[::1], Pair, float64, float64[:, :, ::1])" for f in REALS])
def all_pairs(K: Any, gram: Any, classes: Classes, costs: Floats, pair: Pair, tol: float, out: Floats) -> None:
    """out[c, i, b] = alpha_ib at the cost c, for all pairs; costs must rise, and each run starts at the one before.

    `gram` is space for the matrix of a pair.
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
    """Return (costs, rows, classes): alpha of all machines, for rising costs.

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
    """(rows, classes, classes): f_ab without its constant, from B = K(x, x_i) and the class `owner` of each row i.

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
    """Return (rows, classes): the votes for each of k classes, from 0 to k - 1; sums of margins break ties.

    >>> votes(np.array([[[0.0, 1.0, 2.0], [-1.0, 0.0, 0.5], [-2.0, -0.5, 0.0]]])).round(2)
    array([[ 2.25,  0.89, -0.24]])
    """
    total = f.sum(axis=2)
    return np.asarray((f > 0.0).sum(axis=2) + total / (3.0 * (np.abs(total) + 1.0)))
