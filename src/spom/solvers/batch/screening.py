"""Safe screening: features whose weight is zero at the optimum, known before the optimum is.

The dual function of a loss with curvature c is 1/c-strongly concave, so a dual point alpha with duality gap
e lies within r = sqrt(2 c e) of the optimal one, in the norm that sums alpha_i^2 / S_i (Ndiaye et al. 2017).
A block whose optimality condition at zero holds on that whole ball is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.errors import SpomError
from spom.solvers.batch.datafit import LinearSmooth, column_squares
from spom.solvers.batch.duality import balance, feasible
from spom.solvers.batch.working_set.blocks import Blocks, blocks_of, flat_blocks, row_blocks


def gap_safe(smooth: LinearSmooth, penalty: Any, theta: Floats) -> Any:
    """Which features are sure to have weight zero at the optimum, as a mask; none where no rule is known.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> gap_safe(f, L1(0.3), np.array([2.1, 0.0, -0.6]))
    array([False,  True, False])
    """
    p = smooth.X.shape[1]
    nothing = np.zeros(p, dtype=bool)
    kept = penalty.restrict(np.arange(p), p)
    if kept is None or not hasattr(smooth.loss, "conjugate"):
        return nothing
    scores = smooth.scores(theta)
    alpha: Floats | None = smooth.dual_at(scores)
    if alpha is not None and smooth.fit_intercept:
        alpha = balance(smooth, alpha, scores)
    if alpha is None:
        return nothing
    try:
        w = theta[smooth.penalised]
        g = np.ascontiguousarray(smooth.adjoint(alpha)[smooth.penalised])
        scale, conjugate = feasible(penalty, g)
        gap = smooth.value_at(scores) + penalty.value(w) + smooth.conjugate_at(scale * alpha) + conjugate
        blocks = _flat_blocks(penalty, smooth)
    except SpomError:
        return nothing
    if not np.isfinite(gap):
        return nothing
    # The slack covers the rounding of a gap that is all but zero.
    radius = np.sqrt(2.0 * smooth.curvature() * (max(gap, 0.0) + 1e-14 * smooth.value_at(scores)))
    return _off(smooth, blocks, scale * g.reshape(-1), radius)


def _flat_blocks(penalty: Any, smooth: LinearSmooth) -> Blocks:
    """Blocks over the entries of w: of features, or of the rows of a matrix."""
    p, K = smooth.X.shape[1], smooth.outputs
    return blocks_of(penalty, p) if K is None else flat_blocks(row_blocks(penalty, p, False), K)


def _off(smooth: LinearSmooth, blocks: Blocks, g: Floats, radius: float) -> Any:
    """The features all of whose entries are in blocks that no dual point of the ball can switch on."""
    K = smooth.outputs or 1
    squares = np.repeat(column_squares(smooth.X, smooth.weights), K)
    order, l1 = blocks.order, blocks.spread(blocks.l1)
    reach = np.sqrt(squares) * radius  # how far the gradient of one entry can move
    excess = np.maximum(np.abs(g[order]) - l1, 0.0)
    # Each column of a matrix has its own part of the ball, but one feature's row moves by no more than this.
    moved = reach[order][blocks.ptr[:-1]] if K > 1 else np.sqrt(blocks.sums(squares[order])) * radius
    grouped = np.sqrt(blocks.sums(excess**2)) + moved < blocks.weights
    alone = np.abs(g[order]) + reach[order] < l1
    off = np.zeros(g.size, dtype=bool)
    off[order] = blocks.spread(grouped) | (alone & (blocks.spread(blocks.weights) == 0.0))
    return off.reshape(-1, K).all(axis=1)
