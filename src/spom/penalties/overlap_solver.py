"""The exact prox of a sum of l2 norms of overlapping groups.

minimise 1/2 norm(x - w)^2 + sum_g c_g norm2(x_g). The dual has a vector z_g in the ball of radius c_g for each
group, and x = w - sum_g z_g. There are three parts: accelerated projected gradient steps on the dual, which find the
groups that are zero; Newton's method for the remaining smooth equation; and a certificate: the problem is strongly
convex with constant 1, so the norm of any subgradient at x bounds the distance to the solution.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.penalties.groups import Groups


class DualPoint(NamedTuple):
    """x = w - sum z, the dual vectors z, and the extrapolated point y."""

    x: Annotated[Floats, "float64[::1]"]
    z: Annotated[Floats, "float64[::1]"]
    y: Annotated[Floats, "float64[::1]"]


class DualBalls(NamedTuple):
    """The members of each group, the radius of its ball, and the largest number of groups with a common coordinate."""

    ptr: Annotated[Ints, "int64[::1]"]
    indices: Annotated[Ints, "int64[::1]"]
    radius: Annotated[Floats, "float64[::1]"]
    lipschitz: Annotated[float, "float64"]


@kernel("float64(float64[::1], DualPoint, DualBalls, float64, int64)")
def _dual_steps(w: Floats, point: DualPoint, balls: DualBalls, t: float, n: int) -> float:
    """Take n accelerated projected gradient steps on the dual, with restarts; set x = w - sum z at the end.

    The momentum `t` restarts at one when the steps turn back; return its last value.
    """
    x, z, y = point
    ptr, indices, radius, lipschitz = balls
    old = z.copy()
    for _ in range(n):
        x[:] = w
        for e in range(indices.size):
            x[indices[e]] -= y[e]
        turned = 0.0
        for g in range(ptr.size - 1):
            s = 0.0
            for e in range(ptr[g], ptr[g + 1]):
                old[e] = z[e]
                z[e] = y[e] + x[indices[e]] / lipschitz
                s += z[e] * z[e]
            keep = radius[g] / np.sqrt(s) if s > radius[g] * radius[g] else 1.0
            for e in range(ptr[g], ptr[g + 1]):
                z[e] *= keep
                turned += (y[e] - z[e]) * (z[e] - old[e])
        ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        beta = (t - 1.0) / ahead
        t = ahead
        if turned > 0.0:
            t, beta = 1.0, 0.0
        for e in range(indices.size):
            y[e] = z[e] + beta * (z[e] - old[e])
    x[:] = w
    for e in range(indices.size):
        x[indices[e]] -= z[e]
    return t


def solve_overlap(w: Floats, groups: Groups, radius: Floats, tolerance: float) -> tuple[Floats, float, int]:
    """Return (x, an upper bound of its l2 distance to the solution, number of steps on the dual)."""
    scale = float(np.abs(w).max(initial=0.0))
    if scale == 0.0 or groups.count == 0:
        return w.copy(), 0.0, 0
    indices = np.concatenate([groups.members(m) for m in range(groups.count)]).astype(np.int64)
    owner = np.repeat(np.arange(groups.count), np.diff(groups.ptr))
    lipschitz = float(np.bincount(indices).max(initial=1))
    # In units of the largest entry nothing overflows or underflows; beyond norm2(w) a radius makes no difference.
    target, cut = w / scale, np.minimum(radius / max(scale, 1e-290), 2.0 * np.sqrt(w.size))
    x, z, y = target.copy(), np.zeros(indices.size), np.zeros(indices.size)
    balls = DualBalls(groups.ptr, indices, cut, lipschitz)
    best, error, steps, momentum = x, np.inf, 0, 1.0
    for more in (20, 30, 50, 100, 200, 400, 800, 1600, 3200, 6400):
        momentum = _dual_steps(target, DualPoint(x, z, y), balls, momentum, more)
        steps += more
        norms = np.sqrt(np.bincount(owner, weights=x[indices] ** 2, minlength=groups.count))
        # The set of zero groups is a guess; a wrong guess is harmless, because its certificate is bad.
        masks = {off.tobytes(): off for off in (norms <= level for level in (1e-9, 1e-6, 1e-3))}
        guesses = [_newton(x, target, groups.ptr, indices, cut, off) for off in masks.values()]
        bounds = [_certificate(guess, target, z, groups.ptr, indices, cut) for guess in guesses]
        # x itself corresponds to the dual point z: half its squared distance to the solution is below the gap.
        gap = max(float(cut @ norms - z @ x[indices]), 0.0)
        for candidate, bound in zip((*guesses, x), (*bounds, np.sqrt(2.0 * gap)), strict=True):
            if bound < error:
                best, error = candidate.copy(), float(bound)
        if error <= tolerance:
            break
    return best * scale, error * scale, steps


def _newton(x: Floats, w: Floats, ptr: Ints, indices: Ints, radius: Floats, zero: NDArray[np.bool_]) -> Floats:
    """Return x with the marked groups at zero, and the others from x - w + sum c_g x_g / norm2(x_g) = 0."""
    count = ptr.size - 1
    owner = np.repeat(np.arange(count), np.diff(ptr))
    free = np.ones(x.size, dtype=bool)
    free[indices[zero[owner]]] = False
    x = np.where(free, x, 0.0)
    live = ~zero[owner] & free[indices] & (radius[owner] > 0)
    at, group = indices[live], owner[live]
    smallest = np.inf
    for _ in range(12):
        norms = np.sqrt(np.bincount(group, weights=x[at] ** 2, minlength=count))
        if np.any(norms[np.unique(group)] == 0.0):
            return x
        pull = radius[group] / norms[group]
        force: Floats = np.where(free, x - w, 0.0) + np.bincount(at, weights=pull * x[at], minlength=x.size)
        size = float(force @ force)
        if size <= 1e-31 * x.size or size > smallest:
            break
        smallest = min(size, smallest)
        move = _conjugate_gradient(force, x, at, group, norms, pull)
        x = x - move
        if np.abs(move).max() <= 1e-15:
            break
    return x


@kernel("void(float64[::1], float64[::1], int64[::1], int64[::1], float64[::1], float64[::1], float64[::1])")
def _hessian(v: Floats, x: Floats, at: Ints, group: Ints, norms: Floats, pull: Floats, out: Floats) -> None:
    """(I + sum c_g (I / norm - x_g x_g' / norm^3)) v, with pull = c_g / norm for each entry of a group."""
    along = np.zeros(norms.size)
    for e in range(at.size):
        along[group[e]] += x[at[e]] * v[at[e]]
    for i in range(v.size):
        out[i] = v[i]
    for e in range(at.size):
        i, g = at[e], group[e]
        out[i] += pull[e] * (v[i] - along[g] / (norms[g] * norms[g]) * x[i])


def _conjugate_gradient(force: Floats, x: Floats, at: Ints, group: Ints, norms: Floats, pull: Floats) -> Floats:
    """Solve the Hessian system for the force."""
    solution, product = np.zeros_like(force), np.empty_like(force)
    residual = force.copy()
    direction = residual.copy()
    size = float(residual @ residual)
    # A thousandth of the force is enough: the next Newton steps remove the rest.
    enough = 1e-6 * size + 1e-300
    for _ in range(min(2 * force.size + 10, 100)):
        if size <= enough:
            break
        _hessian(direction, x, at, group, norms, pull, product)
        length = size / float(direction @ product)
        solution += length * direction
        residual -= length * product
        new = float(residual @ residual)
        direction = residual + new / size * direction
        size = new
    return solution


def _certificate(x: Floats, w: Floats, z: Floats, ptr: Ints, indices: Ints, radius: Floats) -> float:
    """Return the norm of a subgradient at x: exact for non-zero groups, z (evened out) for zero ones."""
    count = ptr.size - 1
    owner = np.repeat(np.arange(count), np.diff(ptr))
    norms = np.sqrt(np.bincount(owner, weights=x[indices] ** 2, minlength=count))
    off = norms == 0.0
    inverse = np.divide(radius, norms, out=np.zeros(count), where=~off)
    pull = np.where(off[owner], z, inverse[owner] * x[indices])
    rest = x - w + np.bincount(indices, weights=pull, minlength=x.size)
    # Spread the remainder over the zero groups of the coordinate, then project these onto their balls.
    shares = np.bincount(indices, weights=off[owner].astype(np.float64), minlength=x.size)
    share = np.divide(rest, shares, out=np.zeros(x.size), where=shares > 0)
    pull = np.where(off[owner], z - share[indices], pull)
    sizes = np.sqrt(np.bincount(owner, weights=pull**2, minlength=count))
    inside = np.divide(radius, sizes, out=np.ones(count), where=sizes > radius)
    pull = np.where(off[owner], inside[owner] * pull, pull)
    rest = x - w + np.bincount(indices, weights=pull, minlength=x.size)
    return float(np.sqrt(rest @ rest))
