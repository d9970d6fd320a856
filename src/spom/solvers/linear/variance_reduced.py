r"""Finite data to the optimum: variance-reduced stochastic steps with a certificate as the stopping rule.

For one score per example and l1, squared l2 or the elastic net this is the proximal point method of
`proximal_point`, whose memory of one derivative per example is the variance reduction. For any other penalty, and
for several scores, it is proximal SVRG (Xiao and Zhang 2014): with z the anchor and f its full gradient,

    theta <- prox_{eta Omega}( theta - eta (g_B(theta) - g_B(z) + f) ),   eta = 1 / (4 L_B),

with mini-batches B large enough that the prox, which costs as much as theta is long, is not what takes the time.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Arrays, Floats, Ints, check_positive, check_restored, check_saved, restore_random, under
from spom.core.registry import make, register
from spom.core.state import Counters, State
from spom.errors import SpomError
from spom.penalties import Zero
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import certificate, feasible
from spom.solvers.linear.data import Rows, as_rows
from spom.solvers.linear.full_update import batch_gradient, both_losses
from spom.solvers.linear.proximal_point import ProximalPoint


@register(
    "solver",
    "variance-reduced",
    examples=lambda: [VarianceReduced(*examples.signs(), epochs=5, random_state=0)],
    cost="O(non-zeros) per round, a full gradient per pass",
)
class VarianceReduced:
    """min Omega(theta) + mean loss, to a duality gap (or residual) of tol times the objective at zero.

    Yields a `State` after each pass; `objective`, `internal["gap"]` and `internal["residual"]` are computed after
    passes 1, 2, 3, 5, 7, 10, ..., and NaN in between. The last state is the one that met the tolerance;
    otherwise `converged` is False and a warning says so. `theta` is shaped as in `OnlineProximal`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 10))
    >>> y = np.sign(X[:, 0])
    >>> from spom.penalties import L1
    >>> solver = VarianceReduced(X, y, penalty=L1(0.05), tol=1e-6, random_state=0)
    >>> *_, state = solver
    >>> solver.converged, np.flatnonzero(state.theta)
    (True, array([0]))
    """

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
        self.loss = make("loss", loss) if isinstance(loss, str) else loss
        self.penalty = Zero() if penalty is None else make("penalty", penalty) if isinstance(penalty, str) else penalty
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self.fit_intercept, self.outputs, self.n_jobs = bool(fit_intercept), outputs, n_jobs
        self.tol, self.epochs = check_positive(tol, "tol"), epochs
        self.random_state, self.start = random_state, start
        self.converged = False

    def __iter__(self) -> Iterator[State]:
        rows = as_rows(self.X, self.y, self.sample_weight, self.loss.target)
        smooth = self._smooth(rows)
        engine = self._engine(rows, smooth)
        random = np.random.default_rng(self.random_state)
        done, checked, begin = 0, 0.0, time.perf_counter()
        if self.start is not None:
            inner = under(self.start.internal, "engine.")
            given = {"theta": self.start.theta, "epoch": self.start.internal.get("epoch", np.array(0))}
            kept = check_restored(given, {"theta": engine.theta(), "epoch": np.array(0)})
            engine.unpack(kept["theta"], check_saved(inner, engine.pack(), len(rows)))
            done = int(kept["epoch"])
            restore_random(random, self.start.random)
        scale = max(smooth.value(np.zeros(smooth.shape)), 1e-300)
        self.converged = False
        while done < self.epochs and not self.converged:
            engine.run(rows, random.permutation(len(rows)), np.ones(len(rows)))
            done += 1
            theta = engine.theta()
            numbers = (np.nan, np.nan, np.nan, np.nan)
            # Checks cost two passes without updates, so they come at passes that are some way apart.
            if done >= checked or done == self.epochs:
                numbers = self._certificate(smooth, engine, theta)
                checked = math.floor(1.25 * done) + 1
                self.converged = not np.isnan(numbers[2]) and numbers[2] <= self.tol * scale
            yield self._state(engine, theta, numbers, done, len(rows), random, time.perf_counter() - begin)
        if not self.converged and self.epochs > 0:
            warnings.warn(
                f"no convergence to tol={self.tol:g} in {self.epochs} passes: allow more passes or a larger tol",
                stacklevel=2,
            )

    # --- parts -----------------------------------------------------------------------------------------

    def _smooth(self, rows: Rows) -> LinearSmooth:
        outputs = None
        if self.loss.target == "class":
            outputs = self.outputs or max(2, int(rows.y.max(initial=0)) + 1)
        y: Any = rows.y if outputs is None else rows.y.astype(np.int64)
        return LinearSmooth(
            rows.matrix(), y, self.loss, fit_intercept=self.fit_intercept, sample_weight=rows.weight, outputs=outputs
        )

    def _engine(self, rows: Rows, smooth: LinearSmooth) -> Any:
        form = self.penalty.elastic()
        if form is not None and self.loss.target != "class":
            return ProximalPoint(self.loss, form.l1, form.l2, rows.columns, self.fit_intercept, self.n_jobs, exact=True)
        return Svrg(self.loss, self.penalty, smooth, rows)

    def _certificate(self, smooth: LinearSmooth, engine: Any, theta: Floats) -> tuple[float, float, float, float]:
        """Return (objective, loss, gap, residual); the gap is the smaller of those of two dual points."""
        try:
            L = smooth.curvature() * _trace(smooth)
        except SpomError:
            L = max(_trace(smooth), 1e-300)
        found = certificate(smooth, self.penalty, theta, L)
        gaps = [found.gap]
        if isinstance(engine, ProximalPoint) and not self.fit_intercept:
            alpha = smooth.weights * engine.slopes
            g = -engine.dual
            try:
                factor, conjugate = feasible(self.penalty, g)
                gaps.append(found.objective + smooth.conjugate_at(alpha * factor) + conjugate)
            except (SpomError, NotImplementedError):
                pass
        known = [gap for gap in gaps if np.isfinite(gap)]
        gap = max(0.0, min(known)) if known else np.nan
        best = gap if known else found.residual
        return found.objective, found.loss, best, found.residual

    def _state(
        self,
        engine: Any,
        theta: Floats,
        numbers: tuple[float, float, float, float],
        done: int,
        n: int,
        random: np.random.Generator,
        seconds: float,
    ) -> State:
        objective, loss, gap, residual = numbers
        internal: dict[str, Any] = {f"engine.{name}": a for name, a in engine.pack().items()}
        internal |= {"gap": np.array(gap), "residual": np.array(residual), "epoch": np.array(done)}
        return State(
            k=done,
            theta=theta,
            objective=objective,
            loss=loss,
            counters=Counters(gradients=done * n, proxes=done, examples=done * n),
            seconds=seconds + (self.start.seconds if self.start is not None else 0.0),
            internal=internal,
            random=random.bit_generator.state,  # type: ignore[arg-type]  # numpy types it as a mapping
        )


def _trace(smooth: LinearSmooth) -> float:
    """Return the mean squared norm of a row, which is at least the largest eigenvalue."""
    X = smooth.X
    squares = X.multiply(X).sum(axis=1) if hasattr(X, "multiply") else (X * X).sum(axis=1)
    return float(smooth.weights @ np.asarray(squares).reshape(-1)) + float(smooth.fit_intercept)


class Svrg:
    """Proximal SVRG: the anchor, its full gradient, and theta."""

    name = "proximal SVRG"

    def __init__(self, loss: Any, penalty: Any, smooth: LinearSmooth, rows: Rows) -> None:
        self.penalty, self.smooth, self.losses = penalty, smooth, both_losses(loss)
        self.point = np.zeros(smooth.shape)
        columns = 1 if len(smooth.shape) == 1 else smooth.shape[1]
        self.intercept = smooth.fit_intercept
        self.size = (rows.columns + 1, columns)
        per_row = max(1.0, rows.data.size / max(1, len(rows)))
        # A batch costs about as much as the prox and the dense parts of a step.
        self.batch = int(min(len(rows), max(1.0, 4.0 * rows.columns / per_row)))
        largest = float(rows.norms().max(initial=0.0)) ** 2 + smooth.fit_intercept
        mean = smooth.lipschitz()
        worst = smooth.curvature() * largest
        self.eta = 0.25 / max(mean + (worst - mean) / self.batch, 1e-300)

    def _full(self, theta: Floats) -> Floats:
        table = np.zeros(self.size)
        table[: theta.shape[0]] = theta.reshape(theta.shape[0], -1)
        return table

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Compute one full gradient and make one pass of mini-batches."""
        anchor = self._full(self.point)
        loss, gradient = self.smooth.value_and_gradient(self.point)
        full = self._full(gradient)
        theta, now, then = anchor.copy(), np.zeros(self.size), np.zeros(self.size)
        d = self.size[0] - 1
        shape = (d, *self.point.shape[1:])
        examples = rows.examples(order)
        for first in range(0, order.size, self.batch):
            past = min(first + self.batch, order.size)
            for at, out in ((theta, now), (anchor, then)):
                batch_gradient(examples, first, past, at, out, self.intercept, self.losses)
            theta -= self.eta * (now - then + full)
            part = np.ascontiguousarray(theta[:d]).reshape(shape)
            theta[:d] = self.penalty.prox(part, self.eta).reshape(d, -1)
        self.point = theta[: self.point.shape[0]].reshape(self.point.shape).copy()
        return loss * len(rows)

    def theta(self) -> Floats:
        """Return the iterate."""
        return self.point.copy()

    def pack(self) -> Arrays:
        """Return nothing: theta is enough to resume."""
        return {}

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Start from a point."""
        self.point = theta.copy()
