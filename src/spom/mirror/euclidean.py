"""The Euclidean mirror map, with which mirror descent is forward-backward splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.jit import kernel
from spom.core.registry import register
from spom.mirror.base import MAP, MirrorMap


@kernel(MAP)
def copy(x: Floats, reals: Floats, out: Floats) -> None:
    """out = x."""
    for i in range(x.size):
        out[i] = x[i]


@register(
    "mirror",
    "euclidean",
    examples=lambda: [Euclidean()],
    formula=r"\tfrac12 \|w\|_2^2",
    cost="O(d)",
)
class Euclidean(MirrorMap):
    r"""Psi(w) = 1/2 norm2(w)^2: the gradient is w itself, the composite step is the penalty's own prox.

    1-strongly convex in the Euclidean norm.

    >>> from spom.penalties import L1
    >>> Euclidean().step([1.0, -1.0], [0.5, 0.5], eta=1.0, penalty=L1(0.25))
    array([ 0.25, -1.25])
    """

    _dual_kernel = copy
    _primal_kernel = copy

    def _value(self, w: Floats) -> float:
        return 0.5 * float(np.vdot(w, w))

    def _divergence(self, w: Floats, u: Floats) -> float:
        return self._value(w - u)

    def _prox(self, penalty: Any, dual: Floats, step: float) -> Floats:
        result: Floats = penalty.prox(dual, step)
        return result
