"""Solve one problem: choose the solver, stop it, and tell whether it converged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, check_positive
from spom.core.state import State
from spom.errors import Unsupported
from spom.losses import Logistic, MulticlassLogistic, Squared
from spom.penalties import Zero
from spom.solvers.batch.datafit import LinearSmooth, Point
from spom.solvers.batch.duality import best_intercept
from spom.solvers.batch.in_norm import InNorm
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.batch.quasi_newton import QuasiNewton, is_smooth
from spom.solvers.batch.working_set.blocks import blocks_of, row_blocks
from spom.solvers.batch.working_set.solver import WorkingSet
from spom.solvers.batch.working_set.store import Store
from spom.solvers.iterate import History, halt, progress, record, rounds, small

SOLVERS = ("auto", "working-set", "quasi-newton", "fista", "ista", "gpm", "accgpm")
# Rounding allows no smaller residual relative to the gradient at zero.
FLOOR = 1e-11


class Gpm(NamedTuple):
    """Proximal gradient steps in another norm than the Euclidean one: GPM, or accGPM."""

    norm: Any = "l1"
    accelerated: bool = False


@dataclass(frozen=True)
class Solution:
    """The result of a run. `gap` is NaN if no dual of the problem is known; then `residual` decided convergence."""

    theta: Floats
    objective: float
    loss: float
    gap: float
    residual: float
    rounds: int
    converged: bool
    history: History


def solve(
    smooth: LinearSmooth,
    penalty: Any,
    *,
    solver: str | Gpm = "auto",
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Floats | None = None,
    verbose: bool = False,
    store: Store | None = None,
) -> Solution:
    """Minimise f + Omega until the duality gap is at most tol times the loss of the best constant score.

    If there is no gap, it stops when the proximal residual is at most tol times the gradient's norm there.
    `solver` is "working-set", "quasi-newton", "fista", "ista", or "auto": the first of these that can be used.
    `store` keeps what working sets compute of X for the next call with this `smooth`.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> found = solve(f, L1(0.3))
    >>> found.theta.round(3), found.converged
    (array([ 2.1,  0. , -0.6]), True)
    """
    check_positive(tol, "tol")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1; it is {max_iter!r}")
    constant = constant_point(smooth)
    gap_goal, slope = tol * constant.loss, float(np.linalg.norm(constant.gradient))
    history = History()
    if start is None:
        start = constant.theta

    def done(state: State) -> bool:
        gap, residual = float(state.internal["gap"]), float(state.internal["residual"])
        goal = FLOOR if not np.isnan(gap) else max(tol, FLOOR)
        return gap <= gap_goal or residual <= goal * slope

    states: Iterable[State] = halt(make_solver(smooth, penalty, solver, start, store), rounds(max_iter))
    states = record(halt(states, done), history)
    final, checked = _last(progress(states, label="solving") if verbose else states)
    return Solution(
        theta=final.theta,
        objective=final.objective,
        loss=final.loss,
        gap=float(checked.internal["gap"]),
        residual=float(checked.internal["residual"]),
        rounds=final.k,
        converged=done(final),
        history=history,
    )


def _last(states: Iterable[State]) -> tuple[State, State]:
    """Return the last state, and the last one at which a certificate was computed."""
    final: State | None = None
    checked: State | None = None
    for final in states:
        if not np.isnan(final.internal["residual"]):
            checked = final
    if final is None:
        raise ValueError("the solver yielded no state: it had nothing to do")
    return final, checked or final


def make_solver(
    smooth: LinearSmooth, penalty: Any, solver: str | Gpm, start: Floats | None, store: Store | None = None
) -> Iterable[State]:
    """Return the iterator of states of the named solver for this problem."""
    if isinstance(solver, Gpm):
        return InNorm(smooth, penalty, solver.norm, solver.accelerated, start=start)
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; it is {solver!r}")
    if solver == "auto":
        smoothly = "quasi-newton" if is_smooth(penalty) else "fista"
        solver = "working-set" if fits_working_set(smooth, penalty) else smoothly
    if solver in ("gpm", "accgpm"):
        return InNorm(smooth, penalty, accelerated=solver == "accgpm", start=start)
    if solver == "working-set":
        return WorkingSet(smooth, penalty, start=start, store=store)
    if solver == "quasi-newton":
        return QuasiNewton(smooth, penalty, start=start)
    return BatchProximal(smooth, penalty, accelerated=solver == "fista", start=start)


def fits_working_set(smooth: LinearSmooth, penalty: Any) -> bool:
    """Tell whether `WorkingSet` takes this loss and penalty, and the penalty can make weights zero."""
    p, K = smooth.X.shape[1], smooth.outputs
    if type(smooth.loss) not in (Squared, Logistic if K is None else MulticlassLogistic):
        return False
    try:
        blocks = blocks_of(penalty, p) if K is None else row_blocks(penalty, p)
    except Unsupported:
        return False
    return not blocks.free.all()


def constant_point(smooth: LinearSmooth) -> Point:
    """Return the point w = 0 with the best intercept, if there is one."""
    if smooth.constant is None:
        n, K = smooth.X.shape[0], smooth.outputs
        theta, scores = np.zeros(smooth.shape), np.zeros(n) if K is None else np.zeros((n, K))
        if smooth.fit_intercept:
            theta[-1] = _constant(smooth, scores)
            scores += theta[-1]
        smooth.constant = smooth.at(theta, scores)
    return smooth.constant


def constant_theta(smooth: LinearSmooth) -> Floats:
    """Return w = 0 with the best intercept, the start of a run."""
    return constant_point(smooth).theta.copy()


def _constant(smooth: LinearSmooth, scores: Floats) -> Any:
    if isinstance(smooth.loss, Squared):
        return smooth.weights @ smooth.y
    if isinstance(smooth.loss, (Logistic, MulticlassLogistic)):
        return best_intercept(smooth, smooth.dual_at(scores), scores)[0]
    n, K = smooth.X.shape[0], smooth.outputs
    options: dict[str, Any] = {"fit_intercept": True, "sample_weight": smooth.weights, "outputs": K}
    alone = LinearSmooth(np.zeros((n, 0)), smooth.y, smooth.loss, **options)
    found = _last(halt(halt(BatchProximal(alone, Zero()), small("residual", 1e-10)), rounds(300)))[0]
    return found.theta[-1]


def gradient_at_zero(smooth: LinearSmooth) -> Floats:
    """Return the gradient at w = 0 with the best intercept, as `Penalty.max_strength` takes it."""
    return np.ascontiguousarray(constant_point(smooth).gradient[smooth.penalised])
