"""The elastic net over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST
from spom.penalties.elastic_net import Mixed
from spom.penalties.forms import Elastic, OwnBlocks
from spom.penalties.grouped import Grouped, group_norms, scale_groups
from spom.penalties.sparse_mkl import ratios
from spom.penalties.squared_l1 import shrink_plain


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    # Applying two proxes in either order is not the prox of this sum: shrink norms / (1 + a) with c / (1 + a) instead.
    c, a = step * reals[0], step * reals[1]
    norms = np.empty(ints[0])
    shrunk = np.empty(ints[0])
    group_norms(w, ints, norms)
    for m in range(norms.size):
        shrunk[m] = norms[m] / (1.0 + a)
    t = c / (1.0 + a) if a < np.inf else reals[0] / reals[1]
    shrink_plain(shrunk, min(t, LARGEST), shrunk)
    ratios(shrunk, norms, shrunk)
    scale_groups(w, ints, shrunk, out)
    if ints[1] == 0:
        _shrink_uncovered(ints, 1.0 / (1.0 + a), out)


@kernel("void(int64[::1], float64, float64[::1])")
def _shrink_uncovered(ints: Ints, factor: float, out: Floats) -> None:
    """Scale the coordinates in no group: the squared l2 part penalises them too."""
    covered = np.zeros(out.size, dtype=np.bool_)
    covered[ints[3 + ints[0] :]] = True
    for i in range(out.size):
        if not covered[i]:
            out[i] *= factor


@register(
    "penalty",
    "elastic-net-mkl",
    formula=r"s \Big(\tfrac{r}{2} \big(\sum_m \|w_m\|_2\big)^2 + \tfrac{1-r}{2} \|w\|_2^2\Big)",
    cost="O(n) + expected O(groups)",
    examples=lambda: [
        ElasticNetMKL(0.5, 2),
        ElasticNetMKL(1.5, [[0, 2], [1, 3, 4]], l1_ratio=0.8),
        ElasticNetMKL(1.0, 3, l1_ratio=0.0),
        ElasticNetMKL(1.0, 3, l1_ratio=1.0),
    ],
)
class ElasticNetMKL(Mixed, Grouped):
    """Omega(w) = s (r/2 (sum over groups of norm2(w_m))^2 + (1-r)/2 norm2(w)^2).

    The prox is that of the squared l1 norm at norms / (1 + a) with strength c / (1 + a), for a = step s (1-r)
    and c = step s r. A coordinate in no group is penalised by the squared l2 part alone.

    >>> ElasticNetMKL(1.0, groups=2, l1_ratio=0.5).prox([3.0, 4.0, 0.0, 1.0])
    array([1.5, 2. , 0. , 0. ])
    """

    follows_l1 = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, groups: Any = None, l1_ratio: float = 0.5) -> None:
        self.l1_ratio = l1_ratio
        super().__init__(strength, groups)

    def elastic(self) -> Elastic | None:
        """Return squared l2 for r = 0, else None."""
        return Elastic(0.0, float(self.strength)) if self.l1_ratio == 0.0 else None

    def own_blocks(self, shape: tuple[int, ...]) -> OwnBlocks | None:
        """Return None if a coordinate is in no group: it is penalised too."""
        found = super().own_blocks(shape)
        return found if self._uncovered(np.zeros(shape)).size == 0 else None

    def _value(self, w: Floats) -> float:
        c, a = self._numbers()
        norm = float(self.group_norms(w).sum())
        return float(0.5 * c * norm * norm + 0.5 * a * float(np.vdot(w, w)))

    def _conjugate_value(self, y: Floats) -> float:
        c, a = self._numbers()
        rest = self._uncovered(y)
        norms = np.sort(self.group_norms(y))[::-1]
        if a == 0.0:
            peak = float(norms.max(initial=0.0))
            finite = not rest.any() and (c > 0 or peak == 0.0)
            return (0.5 * peak * peak / c if peak else 0.0) if finite else np.inf
        # sup over b >= 0 of <norms, b> - c/2 (sum b)^2 - a/2 norm(b)^2, attained on the k largest norms.
        k = np.arange(1, norms.size + 1)
        tau = c * np.cumsum(norms) / (a + c * k)
        b = np.maximum(norms - tau[norms > tau].max(initial=0.0), 0.0) / a
        inner = float(norms @ b) - 0.5 * c * float(b.sum()) ** 2 - 0.5 * a * float(b @ b)
        return inner + 0.5 * float(rest @ rest) / a
