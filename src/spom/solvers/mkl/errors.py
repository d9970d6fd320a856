"""Compiled: the errors of one sequence, and the products of them that all solvers with kernels need."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.penalties.forms import Prox
from spom.solvers.structured.structures import Loss, Parts, Structure, is_sum, residual


class Rule(NamedTuple):
    """The rule by which a round decodes and shrinks: loss, prox of the vector of block norms, penalty of transitions.

    Each round projects to the ball of `radius`. `limit` is the scale of the steps of dual averaging.
    """

    structure: Structure
    loss: Loss
    tolerance: Annotated[float, "float64"]
    prox: Prox
    learnt: Annotated[bool, "boolean"]
    strength: Annotated[float, "float64"]
    limit: Annotated[float, "float64"]
    radius: Annotated[float, "float64"]


class Errors(NamedTuple):
    """The errors of one sequence: D = expected minus gold labels, and the places where it is not zero.

    Token tokens[e] of the sequence has the labels labels[e, :several[e]]; inner[a, b] = <D[tokens[a]], D[tokens[b]]>;
    `moves` is D of label pairs (and of first and last labels, which have no weights here). `scores` are the decoded
    ones.
    """

    scores: Parts
    D: Annotated[Floats, "float64[:, ::1]"]
    moves: Annotated[Floats, "float64[:, ::1]"]
    tokens: Annotated[Ints, "int64[::1]"]
    labels: Annotated[Ints, "int64[:, ::1]"]
    several: Annotated[Ints, "int64[::1]"]
    inner: Annotated[Floats, "float64[:, ::1]"]
    scratch: Annotated[Floats, "float64[::1]"]


class Wrong(NamedTuple):
    """The errors of a sequence whose first token is token `first` of all; `size` of its tokens are wrong."""

    errors: Errors
    first: Annotated[int, "int64"]
    size: Annotated[int, "int64"]


def errors_of(longest: int, labels: int) -> Errors:
    """Return space for the errors of sequences of at most `longest` tokens."""
    return Errors(
        scores=Parts(np.zeros((longest, labels)), np.zeros((labels + 2, labels))),
        D=np.zeros((longest, labels)),
        moves=np.zeros((labels + 2, labels)),
        tokens=np.zeros(longest, dtype=np.int64),
        labels=np.zeros((longest, labels), dtype=np.int64),
        several=np.zeros(longest, dtype=np.int64),
        inner=np.zeros((longest, longest)),
        scratch=np.zeros(0),
    )


@kernel("Tuple((float64, int64))(Rule, Errors, int64[::1])")
def find_errors(rule: Rule, errors: Errors, gold: Ints) -> tuple[float, int]:
    """Return (loss, number of wrong tokens) at the scores of `errors`, and fill in its other fields."""
    n = gold.size
    scores, out = Parts(errors.scores.unary[:n], errors.scores.shared), Parts(errors.D[:n], errors.moves)
    loss = residual(rule.structure, rule.loss, scores, gold, errors.scratch, out)
    count = wrong_tokens(n, rule.tolerance, errors)
    # The best output is the gold one, so the rest of the loss is rounding.
    return (0.0 if count == 0 and not is_sum(rule.loss.code) else loss), count


@kernel("int64(int64, float64, Errors)")
def wrong_tokens(n: int, tolerance: float, errors: Errors) -> int:
    """List the tokens with wrong labels; expectations within `tolerance` of gold count as right.

    Labels with D != 0 are listed too: a hinge has two at a wrong token, a random field many.
    """
    D, labels, count = errors.D, errors.labels, 0
    for t in range(n):
        largest = 0.0
        for y in range(D.shape[1]):
            largest = max(largest, abs(D[t, y]))
        if tolerance > 0.0:
            for y in range(D.shape[1]):
                if largest <= tolerance or abs(D[t, y]) <= 1e-2 * tolerance:
                    D[t, y] = 0.0
        if largest > tolerance:
            some = 0
            for y in range(D.shape[1]):
                labels[count, some] = y
                some += 1 if D[t, y] != 0.0 else 0
            errors.tokens[count], errors.several[count] = t, some
            count += 1
    return count


@kernel("void(Errors, int64)")
def inner_products(errors: Errors, count: int) -> None:
    """inner[a, b] = <D[tokens[a]], D[tokens[b]]>: shared by the norms of all blocks' gradients."""
    D, tokens = errors.D, errors.tokens
    for a in range(count):
        for b in range(a + 1):
            s = 0.0
            for e in range(errors.several[a]):
                s += D[tokens[a], errors.labels[a, e]] * D[tokens[b], errors.labels[a, e]]
            errors.inner[a, b] = s
            errors.inner[b, a] = s


@kernel("float64(Errors, int64, float64[::1], int64, int64)")
def gradient_square(errors: Errors, count: int, local: Floats, start: int, length: int) -> float:
    """norm(g_m)^2 = sum over wrong tokens a, b of <D_a, D_b> K_m(a, b); `local` has K_m within the sequence."""
    total = 0.0
    for a in range(count):
        row = start + errors.tokens[a] * length
        for b in range(count):
            total += errors.inner[a, b] * local[row + errors.tokens[b]]
    return total


@kernel("UniTuple(float64, 2)(float64[::1], float64[::1])", fastmath={"reassoc"})
def pair_products(moves: Floats, T: Floats) -> tuple[float, float]:
    """(<moves, T>, norm(moves)^2) of label pairs, flattened, because one long loop is faster than many short ones."""
    along, own = 0.0, 0.0
    for e in range(T.size):
        along += moves[e] * T[e]
        own += moves[e] * moves[e]
    return along, own


@kernel("float64(float64)")
def root(x: float) -> float:
    """sqrt(x), or 0 if rounding made x negative."""
    return math.sqrt(x) if x > 0.0 else 0.0
