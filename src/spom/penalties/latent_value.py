"""The value of the latent group norm: a linear program for q = inf, an interior point method for q = 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats
from spom.core.lp import LinearProgram

_LIMIT = 200


def linf_value(x: Floats, B: Any) -> tuple[float, float]:
    """Return (norm, gap): min of sum w with B w >= abs(x), by its dual, max of abs(x).y with B^T y <= 1, y >= 0."""
    a = np.abs(x)
    if not a.any():
        return 0.0, 0.0
    on = np.flatnonzero(a)
    part = B[on].T.tocsc()
    scale = float(a.max())
    program = LinearProgram(-a[on] / scale, part, row_upper=1.0, what="the latent group norm")
    found = program.solve()
    # The multipliers, raised where rounding leaves x uncovered, give an upper bound of the norm.
    w = np.maximum(-found.duals, 0.0)
    missing = np.maximum(a[on] / scale - part.T @ w, 0.0)
    raised = np.zeros(w.size)
    np.maximum.at(raised, part.indices[part.indptr[:-1]], missing)
    w += raised
    y = np.maximum(found.v, 0.0)
    y /= max(1.0, float((part @ y).max()))
    upper, lower = float(w.sum()) * scale, float(y @ a[on])
    return upper, max(upper - lower, 0.0)


def l2_value(x: Floats, B: Any) -> tuple[float, float]:
    """Return (norm, gap): min over w > 0 of 1/2 sum_i x_i^2 / (B w)_i + 1/2 sum w (Obozinski et al. 2011).

    With y = x / (B w), scaled into the dual ball, <x, y> is a lower bound of the norm.
    """
    scale = float(np.abs(x).max(initial=0.0))
    if scale == 0.0:
        return 0.0, 0.0
    # Entries far below the last digit of the largest one would only underflow when squared.
    on = np.flatnonzero(np.abs(x) > 1e-100 * scale)
    a = np.abs(x[on]) / scale
    part = B[on]
    part = part[:, np.flatnonzero(part.getnnz(axis=0))].tocsr()
    across = part.T.tocsr()
    w = np.sqrt(across @ a**2)
    slack = np.full(w.size, 0.5)
    upper, lower = np.inf, 0.0
    for _ in range(_LIMIT):
        d = part @ w
        y = a / d
        sizes = np.sqrt(across @ y**2)
        upper = min(upper, 0.5 * float(a @ y) + 0.5 * float(w.sum()))
        lower = max(lower, float(a @ y) / max(float(sizes.max()), 1e-300))
        if upper - lower <= 1e-14 * upper:
            break
        w, slack = _interior_step(w, slack, a, d, 0.5 - 0.5 * sizes**2, part, across)
    return upper * scale, max(upper - lower, 0.0) * scale


def _interior_step(
    w: Floats, slack: Floats, a: Floats, d: Floats, gradient: Floats, part: Any, across: Any
) -> tuple[Floats, Floats]:
    """Take one primal-dual step towards gradient = slack, w slack = mu, with mu a tenth of its current value."""
    mu = 0.1 * float(w @ slack) / w.size
    hessian = (across.multiply(a**2 / d**3) @ part).toarray()
    hessian[np.diag_indices(w.size)] += slack / w + 1e-300
    step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian, lower=True, check_finite=False), mu / w - gradient)
    slack_step = mu / w - slack - slack / w * step
    size = min(1.0, 0.995 * _room(w, step))
    dual_size = min(1.0, 0.995 * _room(slack, slack_step))
    return w + size * step, slack + dual_size * slack_step


def _room(v: Floats, step: Floats) -> float:
    """Return the largest multiple of `step` that keeps v >= 0."""
    falling = step < 0
    return float((v[falling] / -step[falling]).min()) if falling.any() else np.inf
