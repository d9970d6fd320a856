"""Dependency trees whose arcs do not cross."""

from __future__ import annotations

from spom.core.arrays import Floats, Ints
from spom.core.registry import register
from spom.decoders.eisner import eisner
from spom.decoders.inside_outside import inside_outside
from spom.decoders.trees import Trees


@register(
    "decoder",
    "projective-tree",
    examples=lambda: [ProjectiveTree(), ProjectiveTree(single_root=True)],
    formula=r"\max_{y \text{ projective}} \sum_{m} s_{y_m m}",
    cost="O(n^3 + n^2 k)",
)
class ProjectiveTree(Trees):
    """max over projective trees y of sum_m scores[y_m, m] (Eisner); marginals by inside-outside.

    In a projective tree, a head and all its descendants are contiguous words; the root is placed before
    the first word. Scores and options are those of `NonProjectiveTree`.

    >>> import numpy as np
    >>> from spom.decoders import ProjectiveTree
    >>> scores = np.zeros((4, 4))
    >>> scores[0, 2], scores[2, 3], scores[3, 1], scores[2, 1] = 3.0, 2.0, 2.0, 1.0
    >>> ProjectiveTree().best(scores)
    array([2, 0, 2])
    >>> expected, log_partition = ProjectiveTree().marginals(np.zeros((3, 3)))
    >>> round(float(np.exp(log_partition)))
    3
    """

    def _best(self, arcs: Floats, heads: Ints) -> int:
        return eisner(arcs, bool(self.single_root), heads)

    def _sums(self, arcs: Floats, out: Floats) -> float:
        return inside_outside(arcs, bool(self.single_root), out)
