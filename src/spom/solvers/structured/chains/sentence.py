"""One pass over sentences, as compiled loops see it, and the gradient of one sentence."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Singles, Tokens
from spom.solvers.structured.losses import Loss, is_sum
from spom.solvers.structured.residual import Parts, Structure, residual


class Rounds(NamedTuple):
    """Sentences `order` of `tokens` with their gold labels, one round each; `done` rounds were made before.

    Tokens whose gold label has a probability above `skip` get no update.
    """

    tokens: Tokens
    y: Annotated[Ints, "int64[::1]"]
    order: Annotated[Ints, "int64[::1]"]
    steps: Annotated[Floats, "float64[::1]"]
    structure: Structure
    loss: Loss
    skip: Annotated[float, "float64"]
    done: Annotated[int, "int64"]


class Work(NamedTuple):
    """Memory for one sentence: its scores, its gradient, and what computes them."""

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
    """Tokens of the longest of some sentences."""
    longest = 0
    for i in order:
        longest = max(longest, tokens.offsets[i + 1] - tokens.offsets[i])
    return longest


@kernel("Work(int64, int64, int64)")
def make_work(longest: int, k: int, lanes: int) -> Any:
    """Memory for sentences of up to `longest` tokens with k labels."""
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


@kernel("UniTuple(float64, 2)(Rounds, Work, int64, int64)", inline="always")
def sentence_gradient(rounds: Rounds, work: Work, first: int, n: int) -> tuple[float, float]:
    """The loss of a sentence whose scores are in `work`, and the number of tokens with an update.

    The derivative in the unary scores is in `grad` at tokens that are `active`, that in the chain's in `parts`.
    """
    gold, expected, k = rounds.y[first : first + n], work.expected[:n], work.unary.shape[1]
    scores, out = Parts(work.unary[:n], work.chain), Parts(expected, work.parts)
    value = residual(rounds.structure, rounds.loss, scores, gold, work.scratch, out)
    smooth, count, skip, grad, active = is_sum(rounds.loss.code), 0.0, rounds.skip, work.grad, work.active
    for t in range(n):
        wrong = expected[t, gold[t]]
        active[t] = 1.0 + wrong <= skip if smooth else wrong != 0.0
        if active[t]:
            for a in range(k):
                grad[t, a] = expected[t, a]
            count += 1.0
    return value, count
