"""The zero penalty."""

from __future__ import annotations

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import NO_INTS, NO_REALS, Penalty
from spom.penalties.forms import NO_ELASTIC, Elastic
from spom.penalties.polyhedra import Polyhedron, stacked


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    for i in range(w.size):
        out[i] = w[i]


@register("penalty", "zero", formula=r"0", cost="O(n)", examples=lambda: [Zero()])
class Zero(Penalty):
    """Omega(w) = 0; its prox is the identity.

    >>> Zero().prox([1.0, -2.0])
    array([ 1., -2.])
    """

    separable = True
    homogeneous = True
    semigroup = True
    _kernel = _prox

    def _value(self, w: Floats) -> float:
        return 0.0

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        return NO_REALS, NO_INTS

    def elastic(self) -> Elastic:
        """Return the form with neither l1 nor l2."""
        return NO_ELASTIC

    def polyhedron(self, p: int) -> Polyhedron:
        """Return the polyhedron without constraints."""
        return stacked([], p)

    def conjugate(self) -> Penalty:
        """Return the indicator of the origin."""
        from spom.penalties.box import Box

        return Box(0.0, 0.0)
