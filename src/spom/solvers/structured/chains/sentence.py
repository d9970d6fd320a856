"""One pass over sentences, compiled: the gradient of one sentence, and the losses of many."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.scores import plain_scores
from spom.solvers.structured.structures import LOG, Loss, Parts, Structure, chain_kind, is_sum, residual, structure


class Rounds(NamedTuple):
    """Sentences `order` of `tokens` with their gold labels, one round each, after `done` earlier rounds.

    Tokens whose gold label has a probability above `skip` get no update. A gold label of -1 is unknown, which needs the
    structure "partial-chain". `weight` has a weight per sentence of `tokens`, and is empty if all are 1.
    """

    tokens: Tokens
    y: Annotated[Ints, "int64[::1]"]
    order: Annotated[Ints, "int64[::1]"]
    steps: Annotated[Floats, "float64[::1]"]
    structure: Structure
    loss: Loss
    skip: Annotated[float, "float64"]
    done: Annotated[int, "int64"]
    weight: Annotated[Floats, "float64[::1]"] = np.zeros(0)


class Work(NamedTuple):
    """Memory for one sentence: its scores, its gradient, and scratch for computing them."""

    unary: Annotated[Floats, "float64[:, ::1]"]
    chain: Annotated[Floats, "float64[:, ::1]"]
    expected: Annotated[Floats, "float64[:, ::1]"]
    parts: Annotated[Floats, "float64[:, ::1]"]
    scratch: Annotated[Floats, "float64[::1]"]
    acc: Annotated[Singles, "float32[::1]"]
    grad: Annotated[Singles, "float32[:, ::1]"]
    active: Annotated[NDArray[np.bool_], "boolean[::1]"]


@kernel("int64(Tokens, int64[::1])")
def longest_of(tokens: Tokens, order: Ints) -> int:
    """Return the number of tokens of the longest of some sentences."""
    longest = 0
    for i in order:
        longest = max(longest, tokens.offsets[i + 1] - tokens.offsets[i])
    return longest


@kernel("Work(int64, int64, int64)")
def make_work(longest: int, k: int, lanes: int) -> Any:
    """Allocate memory for sentences of up to `longest` tokens with k labels."""
    return Work(
        np.empty((longest, k)),
        np.empty((k + 2, k)),
        np.empty((longest, k)),
        np.empty((k + 2, k)),
        np.empty(2 * longest * k + (k + 2) * k),
        np.empty(lanes, dtype=np.float32),
        np.zeros((longest, lanes), dtype=np.float32),
        np.zeros(longest, dtype=np.bool_),
    )


@kernel("boolean(float64[::1], int64, boolean, float64)", inline="always")
def has_update(expected: Floats, gold: int, smooth: bool, skip: float) -> bool:
    """Tell whether the difference at a token is large enough for an update: at its gold label, or at any if unknown."""
    if gold >= 0:
        return bool(1.0 + expected[gold] <= skip if smooth else expected[gold] != 0.0)
    most = 0.0
    for a in range(expected.size):
        most = max(most, abs(expected[a]))
    return most >= 1.0 - skip if smooth else most != 0.0


@kernel("void(Work, int64, float64)")
def scale_gradient(work: Work, n: int, weight: float) -> None:
    """Multiply the gradient of a sentence by its weight."""
    work.expected[:n] *= weight
    work.parts[:] *= weight
    for t in range(n):
        for a in range(work.unary.shape[1]):
            work.grad[t, a] *= np.float32(weight)


@kernel("UniTuple(float64, 2)(Rounds, Work, int64, int64, int64)", inline="always")
def sentence_gradient(rounds: Rounds, work: Work, sentence: int, first: int, n: int) -> tuple[float, float]:
    """Return the loss of a sentence with its scores in `work`, and the number of tokens with an update.

    The derivative in the unary scores goes to `grad` at `active` tokens, and that in the chain's scores to `parts`.
    """
    gold, expected, k = rounds.y[first : first + n], work.expected[:n], work.unary.shape[1]
    scores, out = Parts(work.unary[:n], work.chain), Parts(expected, work.parts)
    value = residual(rounds.structure, rounds.loss, scores, gold, work.scratch, out)
    smooth, count, skip, grad, active = is_sum(rounds.loss.code), 0.0, rounds.skip, work.grad, work.active
    for t in range(n):
        active[t] = has_update(expected[t], gold[t], smooth, skip)
        if active[t]:
            for a in range(k):
                grad[t, a] = expected[t, a]
            count += 1.0
    if rounds.weight.size:
        value *= rounds.weight[sentence]
        scale_gradient(work, n, rounds.weight[sentence])
    return value, count


# --- losses at given weights ---------------------------------------------------------------------------


@kernel("void(Rounds, float32[:, ::1], float64[:, ::1], float64[:, ::1])")
def sentence_losses(rounds: Rounds, table: Singles, chain: Floats, out: Floats) -> None:
    """Write the loss of each sentence in order, and the squared norm of its gradient in the scores, to `out`."""
    offsets, k, lanes = rounds.tokens.offsets, chain.shape[1], table.shape[1]
    work = make_work(longest_of(rounds.tokens, rounds.order), k, lanes)
    work.chain[:] = chain
    for r in range(rounds.order.size):
        first, n = offsets[rounds.order[r]], offsets[rounds.order[r] + 1] - offsets[rounds.order[r]]
        out[r, 0] = out[r, 1] = 0.0
        if n > 0:
            plain_scores(rounds.tokens, first, table, work.acc, work.unary[:n])
            out[r, 0], _ = sentence_gradient(rounds, work, rounds.order[r], first, n)
            for t in range(n):
                if work.active[t]:
                    for a in range(k):
                        out[r, 1] += work.grad[t, a] * work.grad[t, a]


def losses(tokens: Tokens, y: Ints, order: Ints, weights: tuple[Singles, Floats], loss: Loss) -> Floats:
    """Return (sentences, 2): loss and norm(expected - gold)^2 over tokens, as of a block without repeated features."""
    out = np.empty((order.size, 2))
    rounds = Rounds(tokens, y, order, np.empty(0), structure(chain_kind(y), loss), loss, 1.0, 0)
    sentence_losses(rounds, *weights, out)
    return out


def gradient_noise(tokens: Tokens, y: Ints, some: Ints, weights: tuple[Singles, Floats]) -> float:
    """Return the rms norm of a sentence's gradient under the log loss, the noise scale of a selection."""
    squares = losses(tokens, y, some, weights, Loss(LOG, 0.0))[:, 1]
    return float(np.sqrt(squares.mean())) if some.size else 1.0
