"""Chains, trees and classes as structures of the seam `residual`: their decoders, in its terms."""

from __future__ import annotations

from functools import cache

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.arborescence import arborescence
from spom.decoders.eisner import eisner
from spom.decoders.forward_backward import forward_backward
from spom.decoders.inside_outside import inside_outside
from spom.decoders.multiclass import best_rows, softmax_rows
from spom.decoders.nonprojective import matrix_tree
from spom.decoders.quick_marginals import quick_marginals
from spom.decoders.viterbi import viterbi
from spom.solvers.pointers import pointer
from spom.solvers.structured.losses import SUMS, Loss
from spom.solvers.structured.partial import augment_known, partial_best, partial_sums
from spom.solvers.structured.paths import add_path, path_score
from spom.solvers.structured.residual import AUGMENT, DECODE, Parts, Structure

# --- chains --------------------------------------------------------------------------------------------


@kernel(AUGMENT)
def augment_tokens(scores: Parts, gold: Ints, cost: float) -> None:
    """Add the cost of each label but the gold one, token by token."""
    n, k = scores.unary.shape
    for t in range(n):
        for a in range(k):
            scores.unary[t, a] += cost
        scores.unary[t, gold[t]] -= cost


@kernel(DECODE)
def chain_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Viterbi."""
    unary, chain = scores
    n, k = unary.shape
    path = np.empty(n, dtype=np.int64)
    best = viterbi(unary, chain[:k], chain[k], chain[k + 1], path)
    out.unary[:], out.shared[:] = 0.0, 0.0
    add_path(path, 1.0, out)
    add_path(gold, -1.0, out)
    return max(best - path_score(scores, gold), 0.0)


@kernel("float64(Parts, int64[::1], Parts, float64)")
def minus_gold(scores: Parts, gold: Ints, out: Parts, total: float) -> float:
    """The loss, from the log partition and expected labels and steps."""
    n, k = scores.unary.shape
    for y in range(k):
        out.shared[k, y] = out.unary[0, y]
        out.shared[k + 1, y] = out.unary[n - 1, y]
    add_path(gold, -1.0, out)
    return max(total - path_score(scores, gold), 0.0)


@kernel(DECODE)
def chain_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Forward-backward, to all digits."""
    unary, chain = scores
    k = unary.shape[1]
    out.shared[:k] = 0.0
    none = np.empty((0, k, k))
    total = forward_backward(unary, chain[:k], chain[k], chain[k + 1], out.unary, out.shared[:k], none)
    return minus_gold(scores, gold, out, total)


@kernel(DECODE)
def quick_chain_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Forward-backward in linear space, to six digits; where scores are too far apart for it, to all digits."""
    unary, chain = scores
    n, k = unary.shape
    share, total = scratch[: n * k].reshape(n, k), scratch[n * k : 2 * n * k].reshape(n, k)
    weight = scratch[2 * n * k : 2 * n * k + (k + 2) * k].reshape(k + 2, k)
    log_partition = quick_marginals(unary, chain, weight, share, total, out.unary, out.shared[:k])
    if log_partition == -np.inf:
        return chain_sums(scores, gold, scratch, out)
    return minus_gold(scores, gold, out, log_partition)


# --- trees ---------------------------------------------------------------------------------------------


@kernel(AUGMENT)
def augment_arcs(scores: Parts, gold: Ints, cost: float) -> None:
    """Add the cost of each arc that is not gold; scores of arcs are single precision, and so are these sums."""
    arcs = scores.unary
    for h in range(arcs.shape[0]):
        for m in range(1, arcs.shape[0]):
            if gold[m] != h:
                arcs[h, m] = np.float32(arcs[h, m]) + np.float32(cost)


@kernel("float64(Parts, int64[::1], int64[::1], Parts)")
def tree_difference(scores: Parts, gold: Ints, heads: Ints, out: Parts) -> float:
    """The arcs of a tree minus those of gold, and the difference of their scores."""
    arcs, loss = scores.unary, 0.0
    out.unary[:] = 0.0
    for h in range(arcs.shape[0]):
        for m in range(1, arcs.shape[0]):
            if arcs[h, m] == -np.inf:
                continue
            if heads[m - 1] == h:
                out.unary[h, m] += 1.0
                loss += arcs[h, m]
            if gold[m] == h:
                out.unary[h, m] -= 1.0
                loss -= arcs[h, m]
    return loss


@kernel(DECODE)
def tree_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The best tree with one root."""
    heads = np.empty(scores.unary.shape[0] - 1, dtype=np.int64)
    arborescence(scores.unary, True, heads)
    return tree_difference(scores, gold, heads, out)


@kernel(DECODE)
def projective_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The best projective tree with one root."""
    heads = np.empty(scores.unary.shape[0] - 1, dtype=np.int64)
    eisner(scores.unary, True, heads)
    return tree_difference(scores, gold, heads, out)


@kernel("float64(Parts, int64[::1], Parts, float64)")
def minus_gold_arcs(scores: Parts, gold: Ints, out: Parts, total: float) -> float:
    """The loss, from the log partition and expected arcs."""
    arcs = scores.unary
    for h in range(arcs.shape[0]):
        for m in range(1, arcs.shape[0]):
            if gold[m] == h and arcs[h, m] > -np.inf:
                out.unary[h, m] -= 1.0
                total -= arcs[h, m]
    return total


@kernel(DECODE)
def tree_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The matrix-tree theorem."""
    out.unary[:] = 0.0
    return minus_gold_arcs(scores, gold, out, matrix_tree(scores.unary, True, out.unary))


@kernel(DECODE)
def projective_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Inside-outside."""
    out.unary[:] = 0.0
    return minus_gold_arcs(scores, gold, out, inside_outside(scores.unary, True, out.unary))


# --- classes -------------------------------------------------------------------------------------------


@kernel("float64(Parts, int64[::1], Parts)")
def minus_gold_classes(scores: Parts, gold: Ints, out: Parts) -> float:
    """Take the gold classes off; the sum of their scores."""
    total = 0.0
    for i in range(gold.size):
        out.unary[i, gold[i]] -= 1.0
        total += scores.unary[i, gold[i]]
    return total


@kernel(DECODE)
def class_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The best class of each row."""
    found, best = np.empty(gold.size, dtype=np.int64), 0.0
    best_rows(scores.unary, found)
    out.unary[:] = 0.0
    for i in range(gold.size):
        out.unary[i, found[i]] += 1.0
        best += scores.unary[i, found[i]]
    return best - minus_gold_classes(scores, gold, out)


@kernel(DECODE)
def class_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The softmax of each row."""
    logs = np.empty(gold.size)
    softmax_rows(scores.unary, out.unary, logs)
    return float(logs.sum()) - minus_gold_classes(scores, gold, out)


KINDS = {
    "chain": (augment_tokens, chain_best, chain_sums),
    "quick-chain": (augment_tokens, chain_best, quick_chain_sums),
    "partial-chain": (augment_known, partial_best, partial_sums),
    "tree": (augment_arcs, tree_best, tree_sums),
    "projective-tree": (augment_arcs, projective_best, projective_sums),
    "classes": (augment_tokens, class_best, class_sums),
}


def structure(kind: str, loss: Loss) -> Structure:
    """The structure of a kind of output, one of `KINDS`; the decoder that the loss does not call is not compiled."""
    return _structure(kind, loss.code in SUMS)


@cache
def _structure(kind: str, sums: bool) -> Structure:
    augment, best, expected = KINDS[kind]
    decoder = pointer(expected if sums else best)
    return Structure(pointer(augment), decoder, decoder)
