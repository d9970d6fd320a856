"""Structured outputs (chains, trees, classes): their losses, and their common gradient, expected minus gold parts.

The losses of an output y, with the same numbers in all compiled code, and max and log-sum-exp over all outputs z:

    perceptron      max over z of score(z) - score(y)
    hinge           max over z of score(z) + cost(z, y) - score(y)
    mira            the hinge, with the smallest step that makes it zero
    log             log sum over z of exp(score(z)) - score(y): a conditional random field
    softmax-margin  the same with score(z) + cost(z, y)

The cost is a weight times the number of wrong tokens (Hamming). The derivative in the score of a part is its (expected)
count in z minus its count in y. A structure knows its outputs: its decoders give both. Learners with explicit
features and with kernels only call `residual`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, is_sparse
from spom.core.jit import kernel, pointer
from spom.decoders.arborescence import arborescence
from spom.decoders.eisner import eisner
from spom.decoders.forward_backward import forward_backward
from spom.decoders.inside_outside import inside_outside
from spom.decoders.multiclass import best_rows, softmax_rows
from spom.decoders.nonprojective import matrix_tree
from spom.decoders.quick_marginals import quick_marginals
from spom.decoders.viterbi import viterbi
from spom.errors import Unsupported

# --- losses ------------------------------------------------------------------------------------------

PERCEPTRON, HINGE, MIRA, LOG, SOFTMAX_MARGIN = range(5)
# In these losses all outputs count, weighted by probability, not only the best one.
SUMS = (LOG, SOFTMAX_MARGIN)
LOSSES = {"hinge": HINGE, "perceptron": PERCEPTRON, "log": LOG, "softmax-margin": SOFTMAX_MARGIN, "mira": MIRA}


class Loss(NamedTuple):
    """A loss, and the cost of a wrong token."""

    code: Annotated[int, "int64"]
    cost: Annotated[float, "float64"]


@kernel("boolean(int64)")
def takes_cost(code: int) -> bool:
    """Tell whether the cost is added to the scores."""
    return code in (HINGE, MIRA, SOFTMAX_MARGIN)


@kernel("boolean(int64)")
def is_sum(code: int) -> bool:
    """Tell whether all outputs count, weighted by probability, not only the best one."""
    return code in SUMS


def loss_code(name: Any, names: Sequence[str], what: str) -> int:
    """Return the number of a loss; raise an error that lists the losses of `what`.

    >>> loss_code("log", ("hinge", "log"), "chains") == LOG
    True
    """
    if not isinstance(name, str) or name not in names:
        raise Unsupported(f"unknown loss {name!r} for {what}; available: {', '.join(names)}")
    return LOSSES[name]


# --- the common gradient: expected parts minus gold parts -----------------------------------------------


class Parts(NamedTuple):
    """One number for each part of an output: scores, counts, or differences of counts.

    Chains: label y at token t is unary[t, y]; the k + 2 rows of `shared` are steps from each label, beginnings, ends.
    Trees: head h of word m is unary[h, m]. Classes: row i is example i. If nothing is shared, `shared` has no rows.
    """

    unary: Annotated[Floats, "float64[:, ::1]"]
    shared: Annotated[Floats, "float64[:, ::1]"]


AUGMENT = "void(Parts, int64[::1], float64)"
DECODE = "float64(Parts, int64[::1], float64[::1], Parts)"


class Structure(NamedTuple):
    """The operations of a kind of output.

    `augment(scores, gold, cost)` adds the cost of wrong tokens to the scores. `best` and `sums` (scores, gold, scratch,
    out) return the highest score, or the log of the sum of exponentials, minus the score of gold. They overwrite `out`
    with the parts of the best output, or the expected parts, minus those of gold.
    """

    augment: Annotated[Any, "FunctionType(void(Parts, int64[::1], float64))"]
    best: Annotated[Any, "FunctionType(float64(Parts, int64[::1], float64[::1], Parts))"]
    sums: Annotated[Any, "FunctionType(float64(Parts, int64[::1], float64[::1], Parts))"]


@kernel("float64(Structure, Loss, Parts, int64[::1], float64[::1], Parts)", inline="always")
def residual(structure: Structure, loss: Loss, scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Return the loss, and write expected minus gold parts to `out`; the cost is added to the scores in place.

    `scratch` is memory that a structure may need: see `scratch_size`.
    """
    if takes_cost(loss.code) and loss.cost != 0.0:
        structure.augment(scores, gold, loss.cost)
    if is_sum(loss.code):
        return structure.sums(scores, gold, scratch, out)  # type: ignore[no-any-return]  # a function pointer
    return structure.best(scores, gold, scratch, out)  # type: ignore[no-any-return]


def scratch_size(tokens: int, labels: int) -> int:
    """Return the size of the scratch memory of chains, for sentences of up to `tokens` tokens."""
    return 2 * tokens * labels + (labels + 2) * labels


# --- blocks of weights, for penalties of their norms -----------------------------------------------------


def block_norms(rows: Any, starts: Ints) -> Floats:
    """norm2 of the rows of each block, of an array or a CSR matrix."""
    if is_sparse(rows):
        rows, starts = rows.data, rows.indptr[starts]
    return np.asarray(np.sqrt([float(np.vdot(rows[a:b], rows[a:b])) for a, b in pairwise(starts.tolist())]))


# --- one label sequence: its score, and its parts ----------------------------------------------------


@kernel("float64(Parts, int64[::1])")
def path_score(scores: Parts, y: Ints) -> float:
    """Return the score of a path: its labels, steps, beginning and end."""
    unary, chain = scores
    n, k = unary.shape
    s = float(chain[k, y[0]] + chain[k + 1, y[n - 1]])
    for t in range(n):
        s += unary[t, y[t]]
        if t > 0:
            s += chain[y[t - 1], y[t]]
    return s


@kernel("void(int64[::1], float64, Parts)")
def add_path(y: Ints, sign: float, out: Parts) -> None:
    """Add `sign` for each label, each step, the beginning and the end of a path."""
    n, k = out.unary.shape
    for t in range(n):
        out.unary[t, y[t]] += sign
        if t > 0:
            out.shared[y[t - 1], y[t]] += sign
    out.shared[k, y[0]] += sign
    out.shared[k + 1, y[n - 1]] += sign


# --- chains --------------------------------------------------------------------------------------------


@kernel(AUGMENT)
def augment_tokens(scores: Parts, gold: Ints, cost: float) -> None:
    """Add the cost of each label except the gold one, at each token whose label is known."""
    n, k = scores.unary.shape
    for t in range(n):
        if gold[t] >= 0:
            for a in range(k):
                scores.unary[t, a] += cost
            scores.unary[t, gold[t]] -= cost


@kernel(DECODE)
def chain_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Run Viterbi's algorithm: the best output minus gold."""
    unary, chain = scores
    n, k = unary.shape
    path = np.empty(n, dtype=np.int64)
    best = viterbi(unary, chain[:k], chain[k], chain[k + 1], path)
    out.unary[:], out.shared[:] = 0.0, 0.0
    add_path(path, 1.0, out)
    add_path(gold, -1.0, out)
    return max(best - path_score(scores, gold), 0.0)


@kernel("void(Parts)")
def add_ends(out: Parts) -> None:
    """Copy the labels of the first and the last token to beginnings and ends."""
    n, k = out.unary.shape
    for y in range(k):
        out.shared[k, y] = out.unary[0, y]
        out.shared[k + 1, y] = out.unary[n - 1, y]


@kernel("float64(Parts, Parts)")
def exact_parts(scores: Parts, out: Parts) -> float:
    """Return the log partition; overwrite `out` with expected labels, steps, beginnings and ends, to all digits."""
    unary, chain = scores
    k = unary.shape[1]
    out.shared[:k] = 0.0
    none = np.empty((0, k, k))
    total = forward_backward(unary, chain[:k], chain[k], chain[k + 1], out.unary, out.shared[:k], none)
    add_ends(out)
    return total


@kernel("float64(Parts, float64[::1], Parts)")
def expected_parts(scores: Parts, scratch: Floats, out: Parts) -> float:
    """Do as `exact_parts` in linear space, to six digits; to all digits if the scores are too far apart for it."""
    unary, chain = scores
    n, k = unary.shape
    share, total = scratch[: n * k].reshape(n, k), scratch[n * k : 2 * n * k].reshape(n, k)
    weight = scratch[2 * n * k : 2 * n * k + (k + 2) * k].reshape(k + 2, k)
    log_partition = quick_marginals(unary, chain, weight, share, total, out.unary, out.shared[:k])
    if log_partition == -np.inf:
        return exact_parts(scores, out)
    add_ends(out)
    return log_partition


@kernel("float64(Parts, int64[::1], Parts, float64)")
def minus_gold(scores: Parts, gold: Ints, out: Parts, total: float) -> float:
    """Return the loss from the log partition, and subtract the parts of gold from the expected ones."""
    add_path(gold, -1.0, out)
    return max(total - path_score(scores, gold), 0.0)


@kernel(DECODE)
def chain_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Run forward-backward, to all digits."""
    return minus_gold(scores, gold, out, exact_parts(scores, out))


@kernel(DECODE)
def quick_chain_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Run forward-backward in linear space, to six digits."""
    return minus_gold(scores, gold, out, expected_parts(scores, scratch, out))


# --- chains with unknown labels ----------------------------------------------------------------------
#
# A gold label of -1 is unknown. With C the sequences that agree with the known labels, the losses are
#
#     log, softmax-margin   log sum over z of exp(score(z) + cost(z)) - log sum over z in C of exp(score(z))
#     hinge, perceptron     max over z of score(z) + cost(z) - max over z in C of score(z)
#
# where the cost counts wrong tokens among the known ones. The derivative is the expected count of each part minus that
# under the known labels (or the count in the best z minus that in the best z in C).


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def keep_known(unary: Floats, gold: Ints, out: Floats) -> None:
    """Copy the scores to `out`, with -inf for every label that a known one rules out."""
    out[:] = unary
    for t in range(gold.size):
        if gold[t] >= 0:
            out[t] = -np.inf
            out[t, gold[t]] = unary[t, gold[t]]


@kernel(DECODE)
def partial_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute expected parts minus those under the known labels, by forward-backward twice."""
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
    """Compute the best sequence minus the best that agrees with the known labels, by Viterbi twice."""
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
    """Return whether some sequence has these labels (-1: any) and no forbidden step, beginning or end.

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


# --- trees ---------------------------------------------------------------------------------------------


@kernel(AUGMENT)
def augment_arcs(scores: Parts, gold: Ints, cost: float) -> None:
    """Add the cost of each arc that is not gold, in single precision like the scores of arcs."""
    arcs = scores.unary
    for h in range(arcs.shape[0]):
        for m in range(1, arcs.shape[0]):
            if gold[m] != h:
                arcs[h, m] = np.float32(arcs[h, m]) + np.float32(cost)


@kernel("float64(Parts)")
def no_tree(out: Parts) -> float:
    """Return the loss where the arcs that are left make no tree, whatever the weights: zero, and so is its gradient."""
    out.unary[:] = 0.0
    return 0.0


@kernel("float64(Parts, int64[::1], int64[::1], Parts)")
def tree_difference(scores: Parts, gold: Ints, heads: Ints, out: Parts) -> float:
    """Write the arcs of a tree minus those of gold to `out`; return the difference of their scores."""
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
    """Compute the best tree with one root, minus gold."""
    heads = np.empty(scores.unary.shape[0] - 1, dtype=np.int64)
    found = arborescence(scores.unary, True, heads)
    return tree_difference(scores, gold, heads, out) if found == 1 else no_tree(out)


@kernel(DECODE)
def projective_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute the best projective tree with one root, minus gold."""
    heads = np.empty(scores.unary.shape[0] - 1, dtype=np.int64)
    found = eisner(scores.unary, True, heads)
    return tree_difference(scores, gold, heads, out) if found == 1 else no_tree(out)


@kernel("float64(Parts, int64[::1], Parts, float64)")
def minus_gold_arcs(scores: Parts, gold: Ints, out: Parts, total: float) -> float:
    """Return the loss from the log partition, and subtract the arcs of gold from the expected ones."""
    if total == -np.inf:
        return no_tree(out)
    arcs = scores.unary
    for h in range(arcs.shape[0]):
        for m in range(1, arcs.shape[0]):
            if gold[m] == h and arcs[h, m] > -np.inf:
                out.unary[h, m] -= 1.0
                total -= arcs[h, m]
    return total


@kernel(DECODE)
def tree_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute the sum over trees by the matrix-tree theorem."""
    out.unary[:] = 0.0
    return minus_gold_arcs(scores, gold, out, matrix_tree(scores.unary, True, out.unary))


@kernel(DECODE)
def projective_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute the sum over projective trees by inside-outside."""
    out.unary[:] = 0.0
    return minus_gold_arcs(scores, gold, out, inside_outside(scores.unary, True, out.unary))


# --- classes -------------------------------------------------------------------------------------------


@kernel("float64(Parts, int64[::1], Parts)")
def minus_gold_classes(scores: Parts, gold: Ints, out: Parts) -> float:
    """Subtract the gold classes from `out`; return the sum of their scores."""
    total = 0.0
    for i in range(gold.size):
        out.unary[i, gold[i]] -= 1.0
        total += scores.unary[i, gold[i]]
    return total


@kernel(DECODE)
def class_best(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute the best class of each row, minus gold."""
    found, best = np.empty(gold.size, dtype=np.int64), 0.0
    best_rows(scores.unary, found)
    out.unary[:] = 0.0
    for i in range(gold.size):
        out.unary[i, found[i]] += 1.0
        best += scores.unary[i, found[i]]
    return best - minus_gold_classes(scores, gold, out)


@kernel(DECODE)
def class_sums(scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """Compute the softmax of each row, minus gold."""
    logs = np.empty(gold.size)
    softmax_rows(scores.unary, out.unary, logs)
    return float(logs.sum()) - minus_gold_classes(scores, gold, out)


# --- all of them ------------------------------------------------------------------------------------

KINDS = {
    "chain": (augment_tokens, chain_best, chain_sums),
    "quick-chain": (augment_tokens, chain_best, quick_chain_sums),
    "partial-chain": (augment_tokens, partial_best, partial_sums),
    "tree": (augment_arcs, tree_best, tree_sums),
    "projective-tree": (augment_arcs, projective_best, projective_sums),
    "classes": (augment_tokens, class_best, class_sums),
}


def chain_kind(y: Ints) -> str:
    """Return the kind of structure for the gold labels of chains, of which -1 is an unknown one."""
    return "partial-chain" if y.size and y.min() < 0 else "quick-chain"


def structure(kind: str, loss: Loss) -> Structure:
    """Return the structure of a kind of output, one of `KINDS`; only the decoder that the loss calls is compiled."""
    return _structure(kind, loss.code in SUMS)


@cache
def _structure(kind: str, sums: bool) -> Structure:
    augment, best, expected = KINDS[kind]
    decoder = pointer(expected if sums else best)
    return Structure(pointer(augment), decoder, decoder)
