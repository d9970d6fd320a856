"""Regularisation paths: one problem per strength, each started at the previous solution, after safe screening.

Screening: the dual function of a loss with curvature c is 1/c-strongly concave, so a dual point alpha with duality gap
e is within r = sqrt(2 c e) of the optimal one, in the norm that sums alpha_i^2 / S_i (Ndiaye et al. 2017). If a block
meets its optimality condition at zero on that whole ball, it is zero at the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from spom.core.arrays import Floats, as_finite, check_positive
from spom.core.state import State
from spom.core.warning import warn
from spom.errors import SpomError, Unsupported
from spom.penalties.base import with_strength
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import balanced, feasible
from spom.solvers.batch.problem import Solution, constant_theta, fits_working_set, gradient_at_zero, solve
from spom.solvers.batch.working_set.blocks import PenalisedBlocks, blocks_of, row_blocks
from spom.solvers.batch.working_set.store import Store
from spom.solvers.iterate import progress

# Screened features are removed from X if they are at least this fraction of it; otherwise a copy does not pay off.
WORTH = 0.5


def warn_of_zeros(coefs: Any, strengths: Floats) -> None:
    """Warn if no given strength is small enough for a weight that is not zero."""
    if np.size(coefs) and not np.any(coefs):
        least = f"even at {float(strengths[-1]):.4g}, the last of them"
        warn(f"every weight is zero at each strength of the path, {least}: give smaller ones")


@dataclass(frozen=True)
class Path:
    """A path, strongest penalty first. `coefs[i]` and `intercepts[i]` are for `strengths[i]`.

    `screened[i]` is the number of features that a safe rule removed before that problem was solved.
    """

    strengths: Floats
    coefs: Floats
    intercepts: Floats
    objectives: Floats
    gaps: Floats
    rounds: Any
    screened: Any
    converged: Any


def strength_grid(smooth: LinearSmooth, penalty: Any, n_strengths: int = 100, ratio: float = 1e-3) -> Floats:
    """Return `n_strengths` geometrically spaced strengths, from the least that gives zero weights to `ratio` of it.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> f = LinearSmooth(np.eye(2), np.array([4.0, 2.0]), Squared())
    >>> strength_grid(f, L1(), n_strengths=3, ratio=0.01)
    array([2.  , 0.2 , 0.02])
    """
    if "strength" not in penalty.get_params(deep=False):
        raise Unsupported(f"{type(penalty).__name__} has no strength to make a path of")
    if n_strengths < 1:
        raise ValueError(f"n_strengths must be at least 1; it is {n_strengths!r}")
    if not 0.0 < ratio <= 1.0:
        raise ValueError(f"ratio must be above 0 and at most 1; it is {ratio!r}")
    top = float(penalty.max_strength(gradient_at_zero(smooth)))
    if not np.isfinite(top):
        raise Unsupported(f"no finite strength of {type(penalty).__name__} gives zero weights: set strengths= yourself")
    # The top is 0 if there is nothing to learn from the data; then every strength of a positive grid gives zero
    # weights.
    return np.geomspace(1.0, ratio, n_strengths) * (top if top > 0.0 else 1.0)


def path(
    smooth: LinearSmooth,
    penalty: Any,
    *,
    strengths: ArrayLike | None = None,
    n_strengths: int = 100,
    ratio: float = 1e-3,
    screen: bool = True,
    verbose: bool = False,
    **options: Any,
) -> Path:
    """Solve f + Omega for each strength, largest first, each with a warm start from the last, after safe screening.

    `options` (`solver`, `tol`, `max_iter`) are those of `solve`.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> f = LinearSmooth(np.eye(2), np.array([4.0, 2.0]), Squared())
    >>> path(f, L1(), strengths=[2.0, 1.5, 0.5]).coefs.round(6)
    array([[0., 0.],
           [1., 0.],
           [3., 1.]])
    """
    grid = strength_grid(smooth, penalty, n_strengths, ratio) if strengths is None else check_grid(strengths)
    found: list[tuple[Solution, int]] = []
    states = _states(_solutions(smooth, penalty, grid, screen, options), found)
    for _ in progress(states, total=grid.size, label="path") if verbose else states:
        pass
    thetas = np.stack([solution.theta for solution, _ in found])
    p = smooth.X.shape[1]
    warn_of_zeros(thetas[:, :p], grid)
    none = np.zeros((len(found), *smooth.shape[1:]))
    return Path(
        strengths=grid,
        coefs=thetas[:, :p],
        intercepts=thetas[:, p] if smooth.fit_intercept else none,
        objectives=np.array([solution.objective for solution, _ in found]),
        gaps=np.array([solution.gap for solution, _ in found]),
        rounds=np.array([solution.rounds for solution, _ in found]),
        screened=np.array([screened for _, screened in found]),
        converged=np.array([solution.converged for solution, _ in found]),
    )


def _states(solutions: Iterator[tuple[Solution, int]], found: list[tuple[Solution, int]]) -> Iterator[State]:
    """Yield the solutions as states, so that progress can be shown, and keep each in `found`."""
    for k, (solution, screened) in enumerate(solutions, 1):
        found.append((solution, screened))
        yield State(k=k, theta=solution.theta, objective=solution.objective, loss=solution.loss)


def _solutions(
    smooth: LinearSmooth, penalty: Any, grid: Floats, screen: bool, options: dict[str, Any]
) -> Iterator[tuple[Solution, int]]:
    theta, store = constant_theta(smooth), Store(smooth)
    # Dense columns in use are in the store already, and each strength takes only one or two gradients.
    named = options.get("solver", "auto") in ("auto", "working-set")
    by_store = named and smooth.outputs is None and not sparse.issparse(smooth.X) and fits_working_set(smooth, penalty)
    for strength in grid:
        here = with_strength(penalty, float(strength))
        off = gap_safe(smooth, here, theta) if screen else np.zeros(smooth.X.shape[1], dtype=bool)
        count = int(off.sum())
        kept = np.flatnonzero(~off)
        worth = count >= WORTH * off.size and 0 < count < off.size and not by_store
        part = here.restrict(kept, off.size) if worth else None
        if part is None:
            solution = solve(smooth, here, start=theta, store=store, **options)
        else:
            solution = _solve_kept(smooth, part, theta, kept, options)
        theta = solution.theta
        yield solution, count


def _solve_kept(smooth: LinearSmooth, penalty: Any, theta: Floats, kept: Any, options: Any) -> Solution:
    """Solve the problem on the kept features, for their `penalty`, and return the solution with all features."""
    p = smooth.X.shape[1]
    part = LinearSmooth(
        smooth.X[:, kept],
        smooth.y,
        smooth.loss,
        fit_intercept=smooth.fit_intercept,
        sample_weight=smooth.weights,
        outputs=smooth.outputs,
    )
    rows = np.append(kept, p) if smooth.fit_intercept else kept
    found = solve(part, penalty, start=theta[rows], **options)
    whole = np.zeros(smooth.shape)
    whole[rows] = found.theta
    return Solution(**{**vars(found), "theta": whole})


def check_grid(strengths: ArrayLike) -> Floats:
    """Return the strengths as a decreasing vector of numbers >= 0."""
    grid = np.sort(np.atleast_1d(as_finite(np.atleast_1d(np.asarray(strengths)), "strengths")))[::-1].copy()
    if grid.size == 0:
        raise ValueError("strengths must not be empty")
    check_positive(grid[-1], "the smallest of strengths")
    return grid


def gap_safe(smooth: LinearSmooth, penalty: Any, theta: Floats) -> Any:
    """Return a mask of features that certainly have weight zero at the optimum; all False if no rule is known.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> gap_safe(f, L1(0.3), np.array([2.1, 0.0, -0.6]))
    array([False,  True, False])
    """
    nothing = np.zeros(smooth.X.shape[1], dtype=bool)
    if not hasattr(smooth.loss, "conjugate"):
        return nothing
    here = smooth.at(theta)
    dual = balanced(smooth, here)
    if dual is None:
        return nothing
    alpha, g = dual
    try:
        blocks = _flat_blocks(penalty, smooth)
        w = theta[smooth.penalised]
        g = np.ascontiguousarray(g[smooth.penalised])
        scale, conjugate = feasible(penalty, g)
        gap = here.loss + penalty.value(w) + smooth.conjugate_at(scale * alpha) + conjugate
    except SpomError:
        return nothing
    if not np.isfinite(gap):
        return nothing
    # The slack covers the rounding of a gap that is nearly zero.
    radius = np.sqrt(2.0 * smooth.curvature() * (max(gap, 0.0) + 1e-14 * here.loss))
    return _off(smooth, blocks, scale * g.reshape(-1), radius)


def _flat_blocks(penalty: Any, smooth: LinearSmooth) -> PenalisedBlocks:
    """Return the blocks over the entries of w: of features, or of the rows of a matrix."""
    p, K = smooth.X.shape[1], smooth.outputs
    return blocks_of(penalty, p) if K is None else row_blocks(penalty, p).flat(K)


def _off(smooth: LinearSmooth, blocks: PenalisedBlocks, g: Floats, radius: float) -> Any:
    """Return a mask of the features whose entries are zero for every dual point of the ball."""
    K = smooth.outputs or 1
    squares = np.repeat(smooth.column_squares, K)
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
