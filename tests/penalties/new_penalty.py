"""A penalty that the package does not have, in one file: what a user writes to get it into every solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, kernel
from spom.penalties.grouped import Grouped, group_norms, scale_groups


@kernel(PROX)
def shrink_elastic_groups(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """max(0, norm_m - t) / (1 + t) in place of each norm, t = step s."""
    t = step * reals[0]
    norms = np.empty(ints[0])
    group_norms(w, ints, norms)
    for m in range(norms.size):
        norms[m] = (norms[m] - t) / (1.0 + t) / norms[m] if norms[m] > t else 0.0
    scale_groups(w, ints, norms, out)


class ElasticGroups(Grouped):
    """Omega(w) = s sum over groups of norm2(w_m) + 1/2 norm2(w_m)^2."""

    _kernel = shrink_elastic_groups

    def __init__(self, strength: float = 1.0, groups: Any = None) -> None:
        self.strength = strength
        self.groups = groups
        self._check()

    def _value(self, w: Floats) -> float:
        norms = self.group_norms(w)
        return float(self.strength * (norms + 0.5 * norms**2).sum())

    def _conjugate_value(self, y: Floats) -> float:
        over = np.maximum(self.group_norms(y) / self.strength - 1.0, 0.0)
        return float(0.5 * self.strength * (over**2).sum())

    def _max_strength(self, g: Floats) -> float:
        return float(self.group_norms(g).max())


@kernel(PROX)
def shrink_norms(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    """max(0, norm_m - step s) in place of each norm."""
    norms = np.empty(ints[0])
    group_norms(w, ints, norms)
    for m in range(norms.size):
        norms[m] = max(1.0 - step * reals[0] / norms[m], 0.0) if norms[m] > 0.0 else 0.0
    scale_groups(w, ints, norms, out)


class OwnGroupLasso(Grouped):
    """Omega(w) = s sum over groups of norm2(w_m): what the package has as `GroupLasso`, to compare with."""

    _kernel = shrink_norms

    def __init__(self, strength: float = 1.0, groups: Any = None) -> None:
        self.strength = strength
        self.groups = groups
        self._check()

    def _value(self, w: Floats) -> float:
        return float(self.strength * self.group_norms(w).sum())
