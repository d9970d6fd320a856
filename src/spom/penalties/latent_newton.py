"""The Euclidean prox of the latent group lasso in its group weights, by a projected Newton method.

With B the membership of coordinates in groups, the prox of lambda norm_G at u is a smooth problem in one
number w_m >= 0 per group:

    minimise  sum_i phi_i((B w)_i) + c sum_m w_m
    q = inf:  phi(d) = 1/2 max(abs(u) - d, 0)^2,          c = lambda,    x = sign(u) min(abs(u), B w)
    q = 2:    phi(d) = 1/2 u^2 lambda / (d + lambda),      c = lambda/2,  x = u (B w) / (B w + lambda)

For q = inf it is piecewise quadratic, and Newton steps on the free weights (Bertsekas 1982) end at the
exact active set. y = u - x is the projection of u onto the dual ball; scaled into that ball, it gives the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats

# With up to this many free weights the Newton system is factorised; with more it is solved by conjugate gradients.
# If they do not converge it is factorised after all, up to the larger number.
DENSE = 200
LARGEST_DENSE = 5000
# Up to this many entries the membership matrix is dense.
SMALL = 50_000
_LIMIT = 500


@dataclass(frozen=True)
class LatentProx:
    """The prox `x`, a duality gap that certifies it, the group weights and the number of rounds."""

    x: Floats
    gap: float
    weights: Floats
    rounds: int


class _Function:
    """phi and its derivatives for one u."""

    def __init__(self, u: Floats, strength: float, q: float) -> None:
        self.a, self.strength, self.q = np.abs(u), strength, q
        self.cost = strength if q == np.inf else 0.5 * strength

    def value(self, d: Floats) -> float:
        if self.q == np.inf:
            rest = np.maximum(self.a - d, 0.0)
            return 0.5 * float(rest @ rest)
        return 0.5 * self.strength * float(self.a @ (self.a / (d + self.strength)))

    def derivatives(self, d: Floats) -> tuple[Floats, Floats]:
        """Return (phi', phi'')."""
        if self.q == np.inf:
            # At the kink, use the curvature of the side towards smaller weights; the other side has none.
            return -np.maximum(self.a - d, 0.0), (self.a >= d * (1.0 - 1e-12)).astype(np.float64)
        ratio = self.a / (d + self.strength)
        return -0.5 * self.strength * ratio**2, self.strength * ratio**2 / (d + self.strength)

    def rest(self, d: Floats) -> Floats:
        """Return abs(u - x)."""
        if self.q == np.inf:
            return np.maximum(self.a - d, 0.0)
        found: Floats = self.a * (self.strength / (d + self.strength))
        return found


def newton_prox(u: Floats, B: Any, strength: float, q: float) -> LatentProx:
    """Return the prox of strength * norm_G at u; B is a CSR matrix, coordinates by groups."""
    scale = float(np.abs(u).max(initial=0.0))
    w = np.zeros(B.shape[1])
    if strength == 0.0 or scale == 0.0:
        return LatentProx(u.copy(), 0.0, w, 0)
    # In units of the largest entry nothing overflows or underflows.
    f = _Function(u / scale, strength / scale, q)
    # Slicing a small sparse matrix costs more than all arithmetic on a dense one.
    B = B.toarray() if B.shape[0] * B.shape[1] <= SMALL else B
    Bt = np.ascontiguousarray(B.T) if isinstance(B, np.ndarray) else B.T.tocsr()
    w, d, value, rounds = _minimise(f, B, Bt, w)
    rest = f.rest(d)
    x = np.sign(u) * (np.minimum(f.a, d) if q == np.inf else f.a * (d / (d + f.strength)))
    gap = _gap(f, Bt, rest, value) * scale * scale
    return LatentProx(x * scale, gap, w * scale, rounds)


def _minimise(f: _Function, B: Any, Bt: Any, w: Floats) -> tuple[Floats, Floats, float, int]:
    """Return (weights, B weights, objective, rounds)."""
    d = B @ w
    value = f.value(d) + f.cost * float(w.sum())
    rounds, damping, best, idle = 0, 1e-3, np.inf, 0
    while rounds < _LIMIT:
        rounds += 1
        slope, curve = f.derivatives(d)
        gradient = f.cost + Bt @ slope
        worst = float(np.abs(np.where(w > 0, gradient, np.minimum(gradient, 0.0))).max(initial=0.0))
        # At a flat minimum, rounding errors never cease: stop after a few rounds without improvement.
        idle = 0 if value < best * (1.0 - 1e-15) else idle + 1
        best = min(best, value)
        if worst <= 1e-15 * f.cost or idle > 6:
            break
        # Damping decreases towards the optimum: the last steps are plain Newton steps.
        direction = _direction(B, Bt, curve, w, gradient, damping * min(1.0, worst / f.cost), f.q == np.inf)
        moved, size = _descend(f, B, Bt, w, worst, value, gradient, direction)
        if moved is None:
            if damping >= 1e6:
                break
            damping *= 100.0
            continue
        damping = max(damping / 10.0, 1e-10) if size == 1.0 else min(damping * (10.0 if size < 0.1 else 1.0), 1e6)
        w, d, value = moved
    return w, d, value, rounds


def _direction(B: Any, Bt: Any, curve: Floats, w: Floats, gradient: Floats, damping: float, flat: bool) -> Floats:
    """Return the damped Newton step on the free weights; small weights that would decrease further become zero."""
    direction = -w
    small = min(1e-3, float(np.abs(w - np.maximum(w - gradient, 0.0)).max(initial=0.0)))
    which = np.flatnonzero((gradient < 0) | (w > small * 1e-3))
    if not which.size:
        return direction
    part, part_t = B[:, which], Bt[which]
    diagonal = part_t @ curve
    # Groups share coordinates, so the system may be singular; damping also bounds steps along flat directions.
    floor = part_t @ np.ones(curve.size) if flat else 1e-3 * diagonal.max(initial=0.0) + 1e-300
    ridge = (damping + 1e-13) * np.maximum(diagonal, floor)
    target = -gradient[which]
    if which.size > DENSE:
        step, failed = _iterative(part, part_t, curve, ridge, diagonal + ridge, target)
        if not failed or which.size > LARGEST_DENSE:
            direction[which] = step
            return direction
    dense = isinstance(part_t, np.ndarray)
    hessian = (part_t * curve) @ part if dense else (part_t.multiply(curve) @ part).toarray()
    step = target / (diagonal + ridge)
    for _ in range(6):
        try:
            hessian[np.diag_indices(which.size)] += ridge
            step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian, lower=True, check_finite=False), target)
            break
        except np.linalg.LinAlgError:
            ridge = ridge * 100.0
    direction[which] = step
    return direction


def _iterative(
    part: Any, part_t: Any, curve: Floats, ridge: Floats, diagonal: Floats, target: Floats
) -> tuple[Floats, bool]:
    """Return the Newton step by conjugate gradients, and whether they failed to converge."""
    shape = (target.size, target.size)
    operator = scipy.sparse.linalg.LinearOperator(
        shape, matvec=lambda v: part_t @ (curve * (part @ v)) + ridge * v, dtype=np.float64
    )
    jacobi = scipy.sparse.linalg.LinearOperator(shape, matvec=lambda v: v / diagonal, dtype=np.float64)
    step, info = scipy.sparse.linalg.cg(operator, target, rtol=1e-12, maxiter=500, M=jacobi)
    return step, info != 0


def _descend(
    f: _Function, B: Any, Bt: Any, w: Floats, worst: float, value: float, gradient: Floats, direction: Floats
) -> tuple[tuple[Floats, Floats, float] | None, float]:
    """Take a step along the arc max(w + size direction, 0) with sufficient descent; return it and its size, or None."""
    size = 1.0
    while size > 1e-4:
        trial = np.maximum(w + size * direction, 0.0)
        reach = B @ trial
        reached = f.value(reach) + f.cost * float(trial.sum())
        promised = float(gradient @ (w - trial))
        if promised > 0 and reached <= value - 1e-4 * promised:
            return (trial, reach, reached), size
        if abs(promised) <= 1e-13 * abs(value):
            # Values do not resolve steps this small; gradients still do.
            slope = f.cost + Bt @ f.derivatives(reach)[0]
            rest = float(np.abs(np.where(trial > 0, slope, np.minimum(slope, 0.0))).max(initial=0.0))
            return ((trial, reach, reached), size) if rest < 0.5 * worst else (None, size)
        size *= 0.5
    return None, size


def _gap(f: _Function, Bt: Any, rest: Floats, value: float) -> float:
    """Return the duality gap: the objective of the prox minus that of a point of the dual ball."""
    sizes = Bt @ rest if f.q == np.inf else np.sqrt(Bt @ rest**2)
    top = float(sizes.max(initial=0.0))
    y = rest * (f.strength / top) if top > f.strength else rest
    # 1/2 norm(u)^2 - 1/2 norm(u - y)^2, without cancellation
    return max(value - float(y @ (f.a - 0.5 * y)), 0.0)
