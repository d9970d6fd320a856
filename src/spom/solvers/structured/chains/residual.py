"""The loss of one sentence, and its derivative in the scores: expected parts minus gold parts.

    hinge           max over z of score(z) + cost(z, y) - score(y)           parts of the best z minus those of y
    perceptron      the same without the cost
    log             log sum over z of exp(score(z)) - score(y)               marginals minus the parts of y
    softmax-margin  the same with score(z) + cost(z, y)

The cost counts wrong tokens (Hamming), times a weight. All updates of chains call `residual` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.forward_backward import forward_backward
from spom.decoders.viterbi import viterbi
from spom.errors import Unsupported
from spom.solvers.structured.chains.marginals import quick_marginals

Singles = NDArray[np.float32]

LOSSES = {"hinge": 0, "perceptron": 1, "log": 2, "softmax-margin": 3}


def loss_code(loss: Any) -> int:
    """The number of a loss in compiled code; an error that lists the names there are."""
    if not isinstance(loss, str) or loss not in LOSSES:
        raise Unsupported(f"there is no loss {loss!r} for chains; the losses are: {', '.join(LOSSES)}")
    return LOSSES[loss]


@kernel("float64(float64[:, ::1], float64[:, ::1], int64[::1])")
def path_score(unary: Floats, chain: Floats, y: Ints) -> float:
    """The score of a path: its labels, steps, beginning and end (the last two rows of `chain`)."""
    n, k = unary.shape
    s = float(chain[k, y[0]] + chain[k + 1, y[n - 1]])
    for t in range(n):
        s += unary[t, y[t]]
        if t > 0:
            s += chain[y[t - 1], y[t]]
    return s


@kernel("void(int64[::1], float64, float64[:, ::1])")
def count_path(y: Ints, sign: float, parts: Floats) -> None:
    """Add `sign` for each step, for the beginning and for the end of a path."""
    n, k = y.size, parts.shape[1]
    for t in range(1, n):
        parts[y[t - 1], y[t]] += sign
    parts[k, y[0]] += sign
    parts[k + 1, y[n - 1]] += sign


@kernel("float64(float64[:, ::1], float64[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[:, ::1])")
def expectations(unary: Floats, chain: Floats, work: Floats, weight: Floats, parts: Floats) -> float:
    """The log partition, with P(y_t) in work[0] and expected steps, beginnings and ends in `parts`."""
    n, k = unary.shape
    nodes, steps = work[0, :n], parts[:k]
    total = quick_marginals(unary, chain, weight, work[1, :n], work[2, :n], nodes, steps)
    if total == -np.inf:
        steps[:] = 0.0
        total = forward_backward(unary, chain[:k], chain[k], chain[k + 1], nodes, steps, np.empty((0, k, k)))
    for y in range(k):
        parts[k, y] = nodes[0, y]
        parts[k + 1, y] = nodes[n - 1, y]
    return total


@kernel(
    "UniTuple(float64, 2)(int64, float64[:, ::1], float64[:, ::1], int64[::1], float64, float64, float64[:, :, ::1],"
    " float64[:, ::1], int64[::1], float32[:, ::1], boolean[::1], float64[:, ::1])"
)
def residual(
    loss: int,
    unary: Floats,
    chain: Floats,
    y: Ints,
    cost: float,
    skip: float,
    work: Floats,
    weight: Floats,
    path: Ints,
    out: Singles,
    active: NDArray[np.bool_],
    parts: Floats,
) -> tuple[float, float]:
    """The loss, and the number of tokens whose scores have a derivative; `unary` may be changed.

    `out` gets the derivative in the unary scores at tokens that are `active`, `parts` (k + 2, k) that in the steps,
    beginnings and ends. Tokens whose gold label has a probability above `skip` are not active. `work` (3, n or more, k)
    and `weight` (k + 2, k) are room to work in.
    """
    n, k = unary.shape
    gold = path_score(unary, chain, y)
    if loss != 1 and loss != 2 and cost != 0.0:
        for t in range(n):
            for a in range(k):
                unary[t, a] += cost
            unary[t, y[t]] -= cost
    count = 0
    if loss <= 1:
        best = viterbi(unary, chain[:k], chain[k], chain[k + 1], path)
        for t in range(n):
            active[t] = path[t] != y[t]
            if active[t]:
                out[t, :] = np.float32(0.0)
                out[t, path[t]] = np.float32(1.0)
                out[t, y[t]] = np.float32(-1.0)
                count += 1
        if count > 0:
            parts[:] = 0.0
            count_path(path, 1.0, parts)
            count_path(y, -1.0, parts)
        return max(best - gold, 0.0), float(count)
    total = expectations(unary, chain, work, weight, parts)
    nodes = work[0]
    for t in range(n):
        active[t] = nodes[t, y[t]] <= skip
        if active[t]:
            for a in range(k):
                out[t, a] = nodes[t, a]
            out[t, y[t]] = nodes[t, y[t]] - 1.0
            count += 1
    count_path(y, -1.0, parts)
    return max(total - gold, 0.0), float(count)
