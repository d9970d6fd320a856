r"""Chains whose labels are known at some tokens only: a gold label of -1 is unknown.

With C the sequences that agree with the known labels, the losses are

    log, softmax-margin   log sum over z of exp(score(z) + cost(z)) - log sum over z in C of exp(score(z))
    hinge, perceptron     max over z of score(z) + cost(z) - max over z in C of score(z)

where the cost counts wrong tokens among the known ones. The derivative is what z is expected to have of each part minus
what is expected under the known labels (or what the best z in C has). With all labels known both are the usual losses.
"""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.forward_backward import forward_backward
from spom.decoders.quick_marginals import quick_marginals
from spom.decoders.viterbi import viterbi
from spom.solvers.structured.paths import add_path
from spom.solvers.structured.residual import AUGMENT, DECODE, Parts


@kernel(AUGMENT)
def augment_known(scores: Parts, gold: Ints, cost: float) -> None:
    """Add the cost of each label but the gold one at tokens whose label is known."""
    n, k = scores.unary.shape
    for t in range(n):
        if gold[t] >= 0:
            for a in range(k):
                scores.unary[t, a] += cost
            scores.unary[t, gold[t]] -= cost


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def keep_known(unary: Floats, gold: Ints, out: Floats) -> None:
    """A copy of the scores with -inf for every label that a known one rules out."""
    out[:] = unary
    for t in range(gold.size):
        if gold[t] >= 0:
            out[t] = -np.inf
            out[t, gold[t]] = unary[t, gold[t]]


@kernel("float64(Parts, float64[::1], Parts)")
def expected_parts(scores: Parts, scratch: Floats, out: Parts) -> float:
    """The log partition, with expected labels, steps, beginnings and ends in all of `out`."""
    unary, chain = scores
    n, k = unary.shape
    share, total = scratch[: n * k].reshape(n, k), scratch[n * k : 2 * n * k].reshape(n, k)
    weight = scratch[2 * n * k : 2 * n * k + (k + 2) * k].reshape(k + 2, k)
    logs = quick_marginals(unary, chain, weight, share, total, out.unary, out.shared[:k])
    if logs == -np.inf:
        out.shared[:k] = 0.0
        none = np.empty((0, k, k))
        logs = forward_backward(unary, chain[:k], chain[k], chain[k + 1], out.unary, out.shared[:k], none)
    for y in range(k):
        out.shared[k, y] = out.unary[0, y]
        out.shared[k + 1, y] = out.unary[n - 1, y]
    return logs


@kernel(DECODE)
def partial_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Expected parts minus those expected under the known labels, by forward-backward twice."""
    n, k = scores.unary.shape
    known = Parts(np.empty((n, k)), scores.shared)
    keep_known(scores.unary, gold, known.unary)
    under = Parts(np.empty((n, k)), np.empty((k + 2, k)))
    low = expected_parts(known, scratch, under)
    high = expected_parts(scores, scratch, out)
    out.unary[:] -= under.unary
    out.shared[:] -= under.shared
    return max(high - low, 0.0)


@kernel(DECODE)
def partial_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The best sequence minus the best that agrees with the known labels, by Viterbi twice."""
    unary, chain = scores
    n, k = unary.shape
    known, path, own = np.empty((n, k)), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    keep_known(unary, gold, known)
    low = viterbi(known, chain[:k], chain[k], chain[k + 1], own)
    high = viterbi(unary, chain[:k], chain[k], chain[k + 1], path)
    out.unary[:], out.shared[:] = 0.0, 0.0
    add_path(path, 1.0, out)
    add_path(own, -1.0, out)
    return max(high - low, 0.0)


def agrees(forbidden: Floats, y: Ints) -> bool:
    """Whether some sequence has these labels (-1: any) and no forbidden step, beginning or end.

    `forbidden` (k + 2, k) is -inf at steps from each label, beginnings and ends that are not allowed.

    >>> agrees(np.array([[0.0, -np.inf], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.array([0, -1, 1]))
    False
    """
    k = forbidden.shape[1]
    steps, reached = forbidden[:k] == 0.0, forbidden[k] == 0.0
    for t, label in enumerate(y.tolist()):
        reached = reached if t == 0 else steps[reached].any(axis=0)
        if label >= 0:
            reached = reached & (np.arange(k) == label)
    return bool((reached & (forbidden[k + 1] == 0.0)).any())
