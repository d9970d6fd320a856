"""Finite data, solved to the optimum: proximal points, with a certificate as the stopping rule.

The memory of the derivatives of each example is the variance reduction: see `proximal_point`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, check_positive
from spom.core.registry import register
from spom.core.state import State
from spom.core.warning import warn
from spom.errors import SpomError
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import certificate, feasible
from spom.solvers.linear.data import Rows
from spom.solvers.linear.online import OnlineProximal, Run
from spom.solvers.linear.proximal_point import ProximalPoint


@register(
    "solver",
    "variance-reduced",
    examples=lambda: [VarianceReduced(*examples.signs(), epochs=5, random_state=0)],
    cost="O(non-zeros) per round, a full gradient for each certificate",
)
class VarianceReduced(OnlineProximal):
    """min Omega(theta) + mean loss, to a duality gap (or residual) of at most tol times the objective at zero.

    For one score per example Omega is l1, squared l2 or the elastic net; for several, it may also be a sum of norms of
    rows, and the loss is smooth. Yields a `State` after each pass; `objective`, `internal["gap"]` and
    `internal["residual"]` are computed after passes 1, 2, 3, 5, 7, 10, ..., and NaN in between. The last state meets
    the tolerance; otherwise `converged` is False and a warning says so. `theta` is shaped as in `OnlineProximal`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 10))
    >>> y = np.sign(X[:, 0])
    >>> from spom.penalties import L1
    >>> solver = VarianceReduced(X, y, penalty=L1(0.05), tol=1e-6, random_state=0)
    >>> *_, state = solver
    >>> solver.converged, np.flatnonzero(state.theta)
    (True, array([0]))
    """

    exact = True

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        loss: Any = "logistic",
        penalty: Any = None,
        fit_intercept: bool = False,
        sample_weight: ArrayLike | None = None,
        outputs: int | None = None,
        tol: float = 1e-4,
        epochs: int = 1000,
        n_jobs: int = 1,
        random_state: Any = None,
        start: State | None = None,
    ) -> None:
        data: dict[str, Any] = {"fit_intercept": fit_intercept, "sample_weight": sample_weight, "outputs": outputs}
        run: dict[str, Any] = {"epochs": epochs, "n_jobs": n_jobs, "random_state": random_state, "start": start}
        super().__init__(X, y, loss=loss, penalty=penalty, update="proximal-point", **data, **run)
        self.tol, self.converged = check_positive(tol, "tol"), False

    def __iter__(self) -> Iterator[State]:
        rows = self._whole()
        smooth = self._smooth(rows)
        scale, checked = max(smooth.value(np.zeros(smooth.shape)), 1e-300), 0
        self.converged = False
        for state in Run(self).passes(rows):
            done = int(state.internal["epoch"])
            objective = loss = best = residual = np.nan
            # A check costs two passes without updates, so checks become rarer.
            if done >= checked or done == self.epochs:
                objective, loss, best, residual = self._certificate(smooth, state.theta)
                checked = math.floor(1.25 * done) + 1
                self.converged = not np.isnan(best) and best <= self.tol * scale
            found = {"gap": np.array(best), "residual": np.array(residual)}
            yield replace(state, k=done, objective=objective, loss=loss, internal={**state.internal, **found})
            if self.converged:
                return
        if self.epochs > 0:
            warn(f"no convergence to tol={self.tol:g} in {self.epochs} passes: allow more passes or a larger tol")

    def _smooth(self, rows: Rows) -> LinearSmooth:
        several = self.loss.target == "class"
        outputs = (self.outputs or max(2, int(rows.y.max()) + 1)) if several else None
        y: Any = rows.y.astype(np.int64) if several else rows.y
        options: dict[str, Any] = {"fit_intercept": self.fit_intercept, "sample_weight": rows.weight}
        return LinearSmooth(rows.matrix(), y, self.loss, outputs=outputs, **options)

    def _certificate(self, smooth: LinearSmooth, theta: Floats) -> tuple[float, float, float, float]:
        """Return (objective, loss, gap, residual); the gap is the smaller of the gaps of two dual points.

        If no dual point is known, the residual replaces the gap.
        """
        try:
            L = smooth.curvature() * _trace(smooth)
        except SpomError:
            L = max(_trace(smooth), 1e-300)
        found = certificate(smooth, self.penalty, theta, L)
        gaps, engine = [found.gap], self.engine
        if isinstance(engine, ProximalPoint) and not self.fit_intercept:
            try:
                factor, conjugate = feasible(self.penalty, -engine.dual)
                alpha = smooth.weights * engine.slopes * factor
                gaps.append(found.objective + smooth.conjugate_at(alpha) + conjugate)
            except (SpomError, NotImplementedError):
                pass
        known = [max(0.0, gap) for gap in gaps if np.isfinite(gap)]
        return found.objective, found.loss, min(known, default=found.residual), found.residual


def _trace(smooth: LinearSmooth) -> float:
    """Return the mean squared norm of a row, which is at least the largest eigenvalue."""
    return float(smooth.column_squares.sum()) + float(smooth.fit_intercept)
