"""All dependency trees."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.registry import register
from spom.decoders.arborescence import arborescence
from spom.decoders.matrix_tree import tree_sums
from spom.decoders.matrix_tree_log import tree_sums_log
from spom.decoders.trees import Trees


@kernel("float64(float64[:, ::1], boolean, float64[:, ::1])")
def matrix_tree(arcs: Floats, single_root: bool, out: Floats) -> float:
    """Return the log partition over all trees (-inf: there is none), with P(head -> modifier) in `out`."""
    N = arcs.shape[0]
    scores = np.empty((N, N))
    offset, lowest = 0.0, 0.0
    for h in range(N):
        scores[h, 0] = -np.inf
    for m in range(1, N):
        top = -np.inf
        for h in range(N):
            top = max(top, arcs[h, m])
        if top == -np.inf:
            return -np.inf
        offset += top
        for h in range(N):
            scores[h, m] = arcs[h, m] - top
            if h != m:
                lowest = min(lowest, scores[h, m])
    # With every arc above exp(-300), terms that underflow are negligible.
    if lowest > -300.0:
        return tree_sums(scores, single_root, out) + offset
    return tree_sums_log(scores, single_root, out) + offset


@register(
    "decoder",
    "nonprojective-tree",
    examples=lambda: [NonProjectiveTree(), NonProjectiveTree(single_root=True)],
    formula=r"\max_{y} \sum_{m} s_{y_m m}",
    cost="O(n^2 k); marginals O(n^3 + n^2 k)",
)
class NonProjectiveTree(Trees):
    """max over trees y of sum_m scores[y_m, m]: the maximum spanning arborescence.

    Scores are (n + 1, n + 1), head by modifier, with the root as head 0; the diagonal and column 0
    are ignored. Scores (n + 1, n + 1, k) have labels. -inf forbids an arc. `single_root` allows only
    trees with one word below the root. Marginals use the matrix-tree theorem; they have full precision for
    peaked scores too.

    >>> import numpy as np
    >>> from spom.decoders import NonProjectiveTree
    >>> scores = np.array([[0.0, 5.0, 4.0], [0.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    >>> NonProjectiveTree().best(scores)
    array([0, 0])
    >>> NonProjectiveTree(single_root=True).best(scores)
    array([0, 1])
    >>> expected, log_partition = NonProjectiveTree().marginals(scores)
    >>> expected[:, 1:].sum(axis=0)
    array([1., 1.])
    """

    def _best(self, arcs: Floats, heads: Ints) -> int:
        return arborescence(arcs, bool(self.single_root), heads)

    def _sums(self, arcs: Floats, out: Floats) -> float:
        return matrix_tree(arcs, bool(self.single_root), out)
