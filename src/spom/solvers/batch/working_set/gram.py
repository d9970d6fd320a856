"""Blocks of a small quadratic: coordinate descent on its Gram matrix, and Newton steps on the support.

    minimise 1/2 w^T Q w - b^T w + l1 norm1(w) + sum_b weight_b norm2(w_b) + ridge/2 norm2(w)^2

Coordinate descent finds which entries are zero. The problem is then smooth in the others, and Newton's method ends in
a few steps whatever the condition number of Q.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.batch.working_set.blocks import PenalisedBlocks, Terms, prox_step

# Consecutive passes of coordinate descent, and the maximum number of such rounds.
PASSES = 5
ROUNDS = 200
# Maximum number of consecutive Newton steps.
NEWTON = 20
# Costs in nanoseconds: of a pass per entry of the Gram matrix in use, of a Cholesky factor per s^3, and of gathering
# per s^2, for s entries that are not zero. Only their ratios matter.
PASS_COST, CHOLESKY_COST, COPY_COST = 0.3, 0.02, 3.0


@kernel("float64(float64[:, ::1], float64[::1], float64[::1], float64[::1], Terms, int64, float64)")
def gram_epochs(Q: Floats, w: Floats, g: Floats, L: Floats, terms: Terms, epochs: int, tol: float) -> float:
    """Make up to `epochs` passes over the blocks, and return the last pass's largest residual; g = Q w - b is kept.

    A block moves to prox(w_b - g_b / L_b), with L_b at least the largest eigenvalue of Q_bb. Its residual is
    L_b times the distance moved.
    """
    ptr, weights, l1, ridge = terms
    m = w.size
    largest = 0.0
    moved = np.empty(m)
    for _ in range(epochs):
        largest = 0.0
        for b in range(ptr.size - 1):
            first, end = ptr[b], ptr[b + 1]
            new = moved[first:end]
            prox_step(w[first:end], g[first:end], 1.0 / L[b], weights[b], l1[b], ridge[b], new)
            squares = 0.0
            for j in range(first, end):
                delta = moved[j] - w[j]
                if delta != 0.0:
                    squares += delta * delta
                    w[j] = moved[j]
                    for i in range(m):
                        g[i] += delta * Q[j, i]
            largest = max(largest, np.sqrt(squares) * L[b])
        if largest <= tol:
            break
    return largest


class Quadratic:
    """A quadratic in consecutive blocks: `Q`, and block constants L_b."""

    def __init__(self, Q: Floats, blocks: PenalisedBlocks, constants: Floats | None = None) -> None:
        self.Q, self.blocks = np.ascontiguousarray(Q), blocks
        self.L = above_zero(block_constants(self.Q, blocks.ptr) if constants is None else constants)

    def solve(self, w: Floats, g: Floats, tol: float) -> None:
        """Minimise in place, from w with the gradient g of the quadratic there, to residuals of `tol`."""
        b, before = self.blocks, np.inf
        for _ in range(ROUNDS):
            left = gram_epochs(self.Q, w, g, self.L, b.terms, PASSES, tol)
            if left <= tol:
                return
            if self._newton_pays(int(np.count_nonzero(w)), left, before, tol):
                self._newton(w, g, tol)
                left = np.inf
            before = left

    def _newton_pays(self, s: int, left: float, before: float, tol: float) -> bool:
        """Tell whether two Newton steps cost less than the passes still needed at the current rate of descent."""
        if not before < np.inf:
            return False
        rate = min(left / before, 0.999)
        passes = PASSES * np.log(tol / left) / np.log(rate)
        return bool(passes * PASS_COST * s * self.Q.shape[0] > 2 * (CHOLESKY_COST * s**3 + COPY_COST * s**2))

    def _newton(self, w: Floats, g: Floats, tol: float) -> None:
        """Take Newton steps on the entries that are not zero; an entry that would cross zero stops there."""
        b = self.blocks
        free = b.spread(b.free)
        for _ in range(NEWTON):
            on = np.flatnonzero((w != 0.0) | free)
            if on.size == 0:
                return
            slope, H = self._model(w, g, on)
            if np.abs(slope).max() <= 0.1 * tol:
                return
            _, step, failed = dposv(H, -slope, lower=1, overwrite_a=1)
            if failed or not self._move(w, g, on, step):
                return

    def _model(self, w: Floats, g: Floats, on: Ints) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian of the whole objective in the entries `on`, with fixed signs."""
        b = self.blocks
        at, ridge = w[on], b.spread(b.ridge)[on]
        slope = g[on] + ridge * at + b.spread(b.l1)[on] * np.sign(at)
        H = self.Q[np.ix_(on, on)]
        H[np.diag_indices(on.size)] += ridge + 1e-14 * self.Q[on, on]
        if b.grouped:
            block = np.searchsorted(b.ptr, on, side="right") - 1
            add_curvature(H, slope, at, block, b.weights)
        return slope, H.T

    def _move(self, w: Floats, g: Floats, on: Ints, step: Floats) -> bool:
        """Move to w + t step for the first t that lowers the objective, and tell whether one did.

        At first, l1-penalised entries that would cross zero stop there. If no such step works, the best t along the ray
        is taken, including crossings.
        """
        b = self.blocks
        before, at, rows = b.value(w), w[on], self.Q[on]
        l1 = b.spread(b.l1)[on]
        trial = w.copy()
        for t in (1.0, 0.5, 0.25, 0.0):
            if t == 0.0:
                t = best_on_ray(at, step, g[on], float(step @ rows[:, on] @ step), l1)
                new = at + t * step
                new[np.abs(new) <= 1e-14 * np.abs(at)] = 0.0
            else:
                new = at + t * step
                new[(l1 > 0.0) & (new * at < 0.0)] = 0.0
            delta = new - at
            change = delta @ rows
            trial[on] = new
            if b.value(trial) - before + float(delta @ (g[on] + 0.5 * change[on])) < 0.0:
                w[on] = new
                g += change
                return True
        return False


def best_on_ray(at: Floats, step: Floats, g: Floats, curvature: float, l1: Floats) -> float:
    """Return the t >= 0 that minimises the quadratic plus the l1 term at `at + t step`; slopes jump at crossings."""
    crossing = np.flatnonzero((at * step < 0.0) & (l1 > 0.0))
    times = -at[crossing] / step[crossing]
    order = np.argsort(times)
    times, jumps = times[order], 2.0 * (l1 * np.abs(step))[crossing[order]]
    slope = float(g @ step + l1 @ (np.where(at != 0.0, np.sign(at), np.sign(step)) * step))
    # The slope just after each crossing, as t grows; the first one >= 0 ends the search.
    after = slope + np.cumsum(jumps) + curvature * times
    first = int(np.searchsorted(after >= 0.0, True)) if times.size else 0
    base = slope + float(jumps[:first].sum())
    # Along a direction that changes no score, the curvature is only rounding; the step then ends at the next crossing.
    t = -base / curvature if curvature > 0.0 else np.inf
    end = float(times[first]) if first < times.size else np.inf
    return min(t, end) if base < 0.0 and min(t, end) < np.inf else 0.0


@kernel("void(float64[:, ::1], float64[::1], float64[::1], int64[::1], float64[::1])")
def add_curvature(H: Floats, slope: Floats, at: Floats, block: Ints, weights: Floats) -> None:
    """Add weight_b (I - u u^T) / norm(w_b), with u = w_b / norm(w_b), to H and weight_b u to the slope."""
    first = 0
    while first < at.size:
        end, squares = first, 0.0
        while end < at.size and block[end] == block[first]:
            squares += at[end] * at[end]
            end += 1
        weight, norm = weights[block[first]], np.sqrt(squares)
        if weight > 0.0 and norm > 0.0:
            for i in range(first, end):
                slope[i] += weight * at[i] / norm
                H[i, i] += weight / norm
                for j in range(first, end):
                    H[i, j] -= weight / norm * (at[i] / norm) * (at[j] / norm)
        first = end


def block_constants(Q: Floats, ptr: Ints) -> Floats:
    """Return the largest eigenvalue of each diagonal block."""
    sizes = np.diff(ptr)
    L = np.empty(sizes.size)
    for size in set(sizes.tolist()):
        which = np.flatnonzero(sizes == size)
        at = ptr[which][:, None] + np.arange(size)
        L[which] = largest_eigenvalues(Q[at[:, :, None], at[:, None, :]])
    return L


def largest_eigenvalues(parts: Floats) -> Floats:
    """Return the largest eigenvalue of each of several symmetric matrices of one size."""
    return np.asarray(parts[:, 0, 0] if parts.shape[-1] == 1 else np.linalg.eigvalsh(parts)[:, -1])


def above_zero(L: Floats) -> Floats:
    """Return constants above 0, so that an empty column does not move."""
    safe: Floats = np.maximum(L, 1e-300 + 1e-12 * L.max(initial=0.0))
    return safe
