"""Powers of group norms: non-sparse multiple kernel learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST
from spom.penalties.forms import Elastic, NormSum
from spom.penalties.group_lasso import largest_ratio
from spom.penalties.grouped import Grouped, group_norms, scale_groups
from spom.penalties.power import Exponent, conjugate_of_powers, power_elastic, power_root
from spom.penalties.sparse_mkl import ratios


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    t = min(step * reals[0], LARGEST)
    norms = np.empty(ints[0])
    shrunk = np.empty(ints[0])
    group_norms(w, ints, norms)
    for m in range(norms.size):
        shrunk[m] = power_root(norms[m], t, reals[1])
    ratios(shrunk, norms, shrunk)
    scale_groups(w, ints, shrunk, out)


@register(
    "penalty",
    "lq-mkl",
    formula=r"s \sum_m \|w_m\|_2^q",
    cost="O(n), a few Newton steps per group",
    examples=lambda: [
        LqMKL(0.5, 2, q=1.5),
        LqMKL(1.5, [[0, 2], [1, 3, 4]], q=3.0),
        LqMKL(1.0, 3, q=1.0),
        LqMKL(1.0, 3, q=2.0),
    ],
)
class LqMKL(Exponent, Grouped):
    """Omega(w) = s sum over groups of norm2(w_m)^q, q >= 1; the prox solves x + step s q x^(q-1) = norm2(w_m).

    q = 1 is the group lasso; q > 1 keeps every group, and small groups small. A coordinate in no group is not
    penalised.

    >>> LqMKL(1.0, groups=2, q=3).prox([2.4, 3.2])
    array([0.6, 0.8])
    """

    follows_l1 = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, groups: Any = None, q: float = 1.5) -> None:
        self.q = q
        super().__init__(strength, groups)

    def elastic(self) -> Elastic | None:
        """Return squared l2 for q = 2, if every coordinate is in a group."""
        return power_elastic(float(self.strength), 2.0) if self.q == 2.0 and self._each_block else None

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the sum of the norms for q = 1, squared l2 for q = 2."""
        return self._sum_of_norms(count) if self.q == 1.0 else super().norm_sum(count)

    def _value(self, w: Floats) -> float:
        with np.errstate(over="ignore"):
            return self.strength * float((self.group_norms(w) ** self.q).sum()) if self.strength else 0.0

    def _conjugate_value(self, y: Floats) -> float:
        if self._uncovered(y).any():
            return np.inf
        return conjugate_of_powers(self.group_norms(y), self.strength, self.q)

    def _max_strength(self, g: Floats) -> float:
        if self.q > 1.0 or self._uncovered(g).any():
            return super()._max_strength(g)
        norms = self.group_norms(g)
        return largest_ratio(norms, np.ones(norms.size))
