"""The distance of a point from the optimum: the duality gap if one is known, and always the proximal residual.

With alpha the derivatives of the mean loss in the scores, f* its conjugate there and Omega* the penalty's,

    gap = f(theta) + Omega(w) + f*(alpha) + Omega*(-X^T alpha)  >=  F(theta) - min F.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats
from spom.errors import SpomError, Unsupported
from spom.losses import Logistic, MulticlassLogistic, MulticlassPowerHinge, PowerHinge, Squared
from spom.solvers.batch.datafit import LinearSmooth, Point, Smooth


class Certificate(NamedTuple):
    """Objective, loss, gap and residual at a point. `gap` is NaN if no dual point is known; `residual` never is."""

    objective: float
    loss: float
    gap: float
    residual: float

    @property
    def best(self) -> float:
        """The gap, or the residual if there is no gap; tolerances are compared with it."""
        return self.residual if np.isnan(self.gap) else self.gap


def certificate(smooth: Smooth, penalty: Any, theta: Floats, L: float) -> Certificate:
    """Compute the objective, the duality gap and the residual L norm(theta - prox step of length 1/L) at theta."""
    part = smooth.penalised
    omega = float(penalty.value(theta[part]))
    if isinstance(smooth, LinearSmooth):
        here = smooth.at(theta)
        loss, g = here.loss, here.gradient
        gap = linear_gap(smooth, penalty, loss + omega, here)
    else:
        (loss, g), gap = smooth.value_and_gradient(theta), np.nan
    return Certificate(loss + omega, loss, gap, residual(penalty, theta, g, L, part))


def residual(penalty: Any, theta: Floats, g: Floats, L: float, part: slice) -> float:
    """L norm(theta - prox(theta - g / L)): zero only at an optimum, in the units of a gradient."""
    moved = theta - g / L
    moved[part] = penalty.prox(np.ascontiguousarray(moved[part]), 1.0 / L)
    return float(L * np.linalg.norm(theta - moved))


def linear_gap(smooth: LinearSmooth, penalty: Any, objective: float, here: Point) -> float:
    """Return the duality gap at a point with this objective; NaN if it is not known."""
    if not penalty.convex or not hasattr(smooth.loss, "conjugate"):
        return np.nan
    dual = balanced(smooth, here)
    if dual is None:
        return np.nan
    alpha, g = dual
    try:
        part = np.ascontiguousarray(g[smooth.penalised])
        scale, conjugate = feasible(penalty, part)
        gap = objective + smooth.conjugate_at(alpha * scale) + conjugate
    except (SpomError, NotImplementedError):
        return np.nan
    # Rounding may leave a gap slightly below zero; an infinite gap carries no information.
    return max(gap, 0.0) if np.isfinite(gap) else np.nan


def feasible(penalty: Any, g: Floats) -> tuple[float, float]:
    """Return (c, Omega*(-c g)), with c <= 1 the largest factor for which it is finite.

    For a norm, Omega* is 0 inside the dual ball and +inf outside, so c = strength / max_strength(g).
    """
    if penalty.homogeneous and not penalty.indicator and hasattr(penalty, "strength"):
        needed = float(penalty.max_strength(g))
        if not np.isfinite(needed):
            raise Unsupported("an entry that nothing penalises: no multiple of the dual point but 0 will do")
        return (1.0 if needed <= penalty.strength else penalty.strength / needed), 0.0
    return 1.0, float(penalty.conjugate().value(-g))


def balanced(smooth: LinearSmooth, here: Point) -> tuple[Floats, Floats] | None:
    """Return (alpha, X^T alpha) with alpha summing to zero, which a free intercept requires; None if no way is known.

    The derivatives at the best intercept for these scores sum to zero.
    """
    alpha, g = here.alpha, here.gradient
    if not smooth.fit_intercept:
        return alpha, g
    if isinstance(smooth.loss, Squared):
        total, weights, means = alpha.sum(axis=0), smooth.weights, smooth.column_means
        if alpha.ndim == 1:
            return alpha - weights * total, g - means * total
        return alpha - np.outer(weights, total), g - np.outer(means, total)
    alpha = best_intercept(smooth, alpha, here.scores)[1]
    return (alpha, smooth.adjoint(alpha)) if np.abs(alpha.sum(axis=0)).max(initial=0.0) <= 1e-13 else None


def best_intercept(smooth: LinearSmooth, alpha: Floats, scores: Floats) -> tuple[Any, Floats]:
    """Return (b, alpha): the shift b of these scores with the least loss, by Newton's method, and alpha there.

    b is 0 for losses other than the logistic ones and the squared hinge.
    """
    b: Any = np.zeros(alpha.shape[1:])
    for _ in range(30):
        total = alpha.sum(axis=0)
        H = None if np.abs(total).max() <= 1e-15 else intercept_curvature(smooth, alpha)
        if H is None:
            break
        b = b + newton_step(total, H)
        alpha = smooth.dual_at(scores + b)
    return b, alpha


def newton_step(total: Any, H: Floats) -> Any:
    """Return the Newton step of an intercept, clipped to 5, from the summed derivatives and the curvature."""
    if np.ndim(total) == 0:
        return np.clip(-float(total) / max(float(H[0, 0]), 1e-300), -5.0, 5.0)
    # The scores of all classes can shift together, so one direction is flat.
    return np.clip(-np.linalg.lstsq(H, total, rcond=1e-12)[0], -5.0, 5.0)


def intercept_curvature(smooth: LinearSmooth, alpha: Floats) -> Floats | None:
    """Return the second derivatives of the mean loss in the intercept; None for other losses."""
    S, loss = smooth.weights, smooth.loss
    if isinstance(loss, (PowerHinge, MulticlassPowerHinge)) and loss.q == 2:
        # Each class has its own intercept; the loss has curvature 2 where it is not zero.
        return np.diag(np.atleast_1d(np.maximum(2.0 * (S @ (alpha != 0.0)), 1e-300)))
    if not isinstance(loss, (Logistic, MulticlassLogistic)):
        return None
    d = np.divide(alpha.T, S, out=np.zeros_like(alpha.T), where=S > 0).T
    if alpha.ndim == 1:
        p = np.abs(d)
        return np.array([[float(S @ (p * (1.0 - p)))]])
    v = d.copy()
    v[np.arange(v.shape[0]), smooth.y.astype(np.int64)] += 1.0
    return np.asarray(np.diag(S @ v) - (v * S[:, None]).T @ v)
