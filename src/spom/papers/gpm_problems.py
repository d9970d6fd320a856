"""The synthetic problems of the GPM paper, and the Euclidean prox of its comparison."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.losses import Squared
from spom.papers.optional import cvxpy
from spom.penalties import L1, LatentGroupLasso
from spom.penalties.latent_projections import Balls, cyclic_projections
from spom.solvers import GeneralProximal, LinearSmooth


def latent_case(p: int, seed: int) -> tuple[Floats, LatentGroupLasso]:
    """Draw 2.5 p / 10 random groups of ten, and Gaussian u; the strength is .8 times the smallest norm1 of a group.

    Coordinates that no group contains replace coordinates that several groups contain.
    """
    rng = np.random.default_rng(seed)
    groups = [rng.choice(p, 10, replace=False) for _ in range(int(2.5 * p / 10))]
    counts = np.bincount(np.concatenate(groups), minlength=p)
    for j in np.flatnonzero(counts == 0):
        while True:
            group = groups[rng.integers(len(groups))]
            k = int(rng.integers(10))
            if counts[group[k]] > 1:
                counts[group[k]] -= 1
                group[k] = j
                counts[j] += 1
                break
    u = rng.standard_normal(p)
    strength = 0.8 * min(np.abs(u[group]).sum() for group in groups)
    return u, LatentGroupLasso(strength, groups)


def projections(penalty: LatentGroupLasso, u: Floats, exact: Floats, tol: float, dykstra: bool) -> int:
    """Count the cycles of projections until the prox is within tol of the exact one, relative to its l2 norm."""
    groups, _, indices = penalty._structure(u.shape)
    y = np.empty_like(u)
    wanted = tol * float(np.linalg.norm(exact))
    limit = 5_000_000
    balls = Balls(groups.ptr, indices, float(penalty.strength), True)
    cycles, _ = cyclic_projections(u, balls, dykstra, limit, wanted, u - exact, y)
    return int(cycles)


def lasso(s: int, n: int = 400, p: int = 1000, seed: int = 0) -> tuple[Any, L1, Floats]:
    """Draw the data of section 5.1: Gaussian design, an s-sparse vector with norm1 one, noise 1e-4."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p))
    x = np.zeros(p)
    x[rng.choice(p, s, replace=False)] = rng.standard_normal(s)
    x /= np.abs(x).sum()
    b = A @ x + 1e-4 * rng.standard_normal(n)
    return LinearSmooth(A, b, Squared()), L1(1e-4 * float(np.sqrt(np.log(p) / n))), x


class CyclicProx(LatentGroupLasso):
    """The latent group lasso with the paper's Euclidean prox: anchored cyclic projections, at most 1e5 cycles."""

    precision = 1e-5

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        groups, _, indices = self._structure(w.shape)
        y = np.empty_like(w)
        radius = step * self.strength
        balls = Balls(groups.ptr, indices, float(radius), True)
        cyclic_projections(w, balls, False, 100_000, self.precision, np.zeros(0), y)
        np.subtract(w, y, out=out)


def latent_learning(seed: int = 0) -> tuple[Any, list[Any], Floats]:
    """1/2 norm(A x - b)^2 with p = 100, n = 50, x the indicator of two groups, norm1 one, noise 1e-4."""
    _, penalty = latent_case(100, seed)
    rng = np.random.default_rng(seed + 1000)
    x = np.zeros(100)
    for group in rng.choice(len(penalty.groups), 2, replace=False):
        x[penalty.groups[group]] = 1.0
    x /= np.abs(x).sum()
    A = rng.standard_normal((50, 100))
    b = A @ x + 1e-4 * rng.standard_normal(50)
    # Our smooth part is a mean over the rows; the paper's is a sum.
    return LinearSmooth(np.sqrt(50) * A, np.sqrt(50) * b, Squared()), penalty.groups, x


def cone_optimum(smooth: Any, penalty: LatentGroupLasso) -> tuple[Floats, float]:
    """Return the solution of a cone solver, and its objective."""
    cp = cvxpy()
    n, p = smooth.X.shape
    B = penalty.membership((p,)).toarray()
    x, w = cp.Variable(p), cp.Variable(B.shape[1], nonneg=True)
    loss = cp.sum_squares(smooth.X @ x - smooth.y) / (2 * n)
    problem = cp.Problem(cp.Minimize(loss + penalty.strength * cp.sum(w)), [cp.abs(x) <= B @ w])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    return np.asarray(x.value), float(smooth.value(x.value) + penalty.value(x.value))


def curve(smooth: Any, penalty: Any, best: float, rounds: int, near: Floats, **options: Any) -> dict[str, Any]:
    """Return objective minus `best`, distance to `near` and CPU seconds by round, until the first is at most 1e-9."""
    errors, distances = [], []
    begin, spent = time.thread_time(), 0.0
    for state in GeneralProximal(smooth, penalty, **options):
        spent += time.thread_time() - begin
        errors.append(float(state.objective - best))
        distances.append(float(np.linalg.norm(state.theta - near)))
        if errors[-1] <= 1e-9 or state.k >= rounds:
            break
        begin = time.thread_time()
    return {"errors": errors, "distances": distances, "seconds": spent, "rounds": len(errors)}


def thinned(curve: dict[str, Any], points: int = 80) -> dict[str, Any]:
    """Return the curve with fewer points, evenly spaced in logarithm; `at` has their rounds."""
    keep = np.unique(np.geomspace(1, curve["rounds"], points).round().astype(np.int64)) - 1
    kept = {name: np.array(curve[name])[keep] for name in ("errors", "distances")}
    return {**curve, **kept, "at": keep + 1}


def cyclic_fista(
    smooth: Any, groups: list[Any], strength: float, best: float, near: Floats, *, seconds: float, rounds: int = 5000
) -> dict[str, Any]:
    """Run FISTA with the paper's inner precision, 1e-5 divided by the round, and stop after `seconds`."""
    penalty, exact = CyclicProx(strength, groups), LatentGroupLasso(strength, groups)
    errors, distances = [], []
    begin = time.thread_time()
    run = GeneralProximal(
        smooth, penalty, norm="l2", accelerated=True, line_search=False, lipschitz=smooth.lipschitz("l2")
    )
    for state in run:
        penalty.precision = 1e-5 / (state.k + 1)
        errors.append(float(smooth.value(state.theta) + exact.value(state.theta) - best))
        distances.append(float(np.linalg.norm(state.theta - near)))
        if errors[-1] <= 1e-9 or time.thread_time() - begin > seconds or state.k >= rounds:
            break
    spent = time.thread_time() - begin
    return {"errors": errors, "distances": distances, "seconds": spent, "rounds": len(errors)}
