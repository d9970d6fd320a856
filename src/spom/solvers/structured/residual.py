"""The one gradient of structured losses: expected parts minus gold parts.

The loss of an output y is max or log-sum-exp over all outputs z of score(z) (plus a cost), minus score(y). Its
derivative in the scores of parts is what z has of each part, or is expected to have, minus what y has. A structure
(chains, trees, classes: see `structures`) knows its outputs; everything else is here, and learners with explicit
features and with kernels call `residual` alone.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.losses import Loss, is_sum, takes_cost


class Parts(NamedTuple):
    """One number for each part of an output: scores, counts, or differences of counts.

    Chains: label y at token t is unary[t, y]; the k + 2 rows of `shared` are steps from each label, beginnings, ends.
    Trees: head h of word m is unary[h, m]. Classes: row i is example i. Where nothing is shared, `shared` has no rows.
    """

    unary: Annotated[Floats, "float64[:, ::1]"]
    shared: Annotated[Floats, "float64[:, ::1]"]


AUGMENT = "void(Parts, int64[::1], float64)"
DECODE = "float64(Parts, int64[::1], float64[::1], Parts)"


class Structure(NamedTuple):
    """What is known of a kind of output.

    `augment(scores, gold, cost)` adds the cost of wrong tokens to the scores. `best` and `sums` (scores, gold, scratch,
    out) return the highest score, or the log of the sum of exponentials, minus the score of gold, with the parts of the
    best output, or expected parts, minus those of gold in all of `out`.
    """

    augment: Annotated[Any, "FunctionType(void(Parts, int64[::1], float64))"]
    best: Annotated[Any, "FunctionType(float64(Parts, int64[::1], float64[::1], Parts))"]
    sums: Annotated[Any, "FunctionType(float64(Parts, int64[::1], float64[::1], Parts))"]


@kernel("float64(Structure, Loss, Parts, int64[::1], float64[::1], Parts)", inline="always")
def residual(structure: Structure, loss: Loss, scores: Parts, gold: Ints, scratch: Floats, out: Parts) -> float:
    """The loss, with expected parts minus gold parts in `out`; the cost is added to the scores in place.

    `scratch` is memory that a structure may need: see `scratch_size`.
    """
    if takes_cost(loss.code) and loss.cost != 0.0:
        structure.augment(scores, gold, loss.cost)
    if is_sum(loss.code):
        return structure.sums(scores, gold, scratch, out)  # type: ignore[no-any-return]  # a function pointer
    return structure.best(scores, gold, scratch, out)  # type: ignore[no-any-return]


def scratch_size(tokens: int, labels: int) -> int:
    """How many numbers chains need to work in, for sentences of up to so many tokens."""
    return 2 * tokens * labels + (labels + 2) * labels
