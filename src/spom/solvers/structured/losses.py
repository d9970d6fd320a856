"""The losses of structured outputs, numbered once for all compiled code.

    perceptron      max over z of score(z) - score(y)
    hinge           max over z of score(z) + cost(z, y) - score(y)
    mira            the hinge, with a step that mends it and no more
    log             log sum over z of exp(score(z)) - score(y): a conditional random field
    softmax-margin  the same with score(z) + cost(z, y)

The cost is a weight times the number of wrong tokens (Hamming).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from spom.core.jit import kernel
from spom.errors import Unsupported

PERCEPTRON, HINGE, MIRA, LOG, SOFTMAX_MARGIN = range(5)
# All outputs count in these, by their probability, and not the best alone.
SUMS = (LOG, SOFTMAX_MARGIN)
LOSSES = {"hinge": HINGE, "perceptron": PERCEPTRON, "log": LOG, "softmax-margin": SOFTMAX_MARGIN, "mira": MIRA}


class Loss(NamedTuple):
    """A loss, and what a wrong token costs in it."""

    code: Annotated[int, "int64"]
    cost: Annotated[float, "float64"]


@kernel("boolean(int64)")
def takes_cost(code: int) -> bool:
    """Whether the cost is added to the scores."""
    return code in (HINGE, MIRA, SOFTMAX_MARGIN)


@kernel("boolean(int64)")
def is_sum(code: int) -> bool:
    """Whether all outputs count, by their probability, and not the best alone."""
    return code in SUMS


def loss_code(name: Any, names: Sequence[str], what: str) -> int:
    """The number of a loss; an error that lists those there are for `what`.

    >>> loss_code("log", ("hinge", "log"), "chains") == LOG
    True
    """
    if not isinstance(name, str) or name not in names:
        raise Unsupported(f"there is no loss {name!r} for {what}; the losses are: {', '.join(names)}")
    return LOSSES[name]
