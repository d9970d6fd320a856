"""Group lasso compared with celer, skglm and adelie, one thread, all to the same duality gap: one strength, and a path.

Tolerances mean different things in different tools. So each tool, including ours on the path, runs with the loosest
power of ten at which the gap of its result, computed here, is small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.adelie_peer import STEPS, Adelie, installed
from benchmarks.common import Table, measure, race
from spom.losses import Squared
from spom.penalties import GroupLasso
from spom.solvers import WorkingSet
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.path import path
from spom.solvers.iterate import halt, last, small

GROUP, USED = 10, 25
ROWS, COLUMNS = 1000, 5000
# The path: the number of strengths, and the smallest as a fraction of the largest.
STRENGTHS, RATIO = 30, 0.03


@dataclass
class Problem:
    """1/(2n) norm(A w - b)^2 + strength sum_g norm(w_g); `goal` is the gap to reach, 1e-6 of the loss at zero."""

    A: Any
    b: Any
    goal: float
    top: float

    @classmethod
    def made(cls, noise: float) -> Problem:
        """Generate data with 25 of 500 groups in use; the noise is this fraction of the signal."""
        rng = np.random.default_rng(0)
        A, w = np.asfortranarray(rng.standard_normal((ROWS, COLUMNS))), np.zeros((COLUMNS // GROUP, GROUP))
        w[rng.choice(COLUMNS // GROUP, USED, replace=False)] = rng.standard_normal((USED, GROUP))
        b = A @ w.reshape(-1)
        b += noise * np.linalg.norm(b) / np.sqrt(ROWS) * rng.standard_normal(ROWS)
        top = float(np.linalg.norm((A.T @ b / ROWS).reshape(-1, GROUP), axis=1).max())
        return cls(A, b, 1e-6 * float(b @ b) / (2 * ROWS), top)

    def gap(self, w: Any, strength: float) -> float:
        """Return the duality gap."""
        n, r = self.b.size, self.b - self.A @ w
        norms = np.linalg.norm((self.A.T @ r / n).reshape(-1, GROUP), axis=1)
        dual = r / n * min(1.0, strength / norms.max())
        omega = strength * np.linalg.norm(w.reshape(-1, GROUP), axis=1).sum()
        return float(r @ r / (2 * n) + omega - (dual @ self.b - n / 2 * dual @ dual))

    def reached(self, weights: Any, strengths: Any) -> bool:
        """Tell whether each of the solutions reaches the gap."""
        return all(self.gap(w, s) <= self.goal * (1 + 1e-6) for w, s in zip(weights, strengths, strict=True))

    def loosest(self, run: Callable[[float, Any], Any], strengths: Any) -> Callable[[], Any]:
        """Return the run with the loosest tolerance that reaches the gap at each strength."""
        for tol in 10.0 ** -np.arange(2, 15):
            if self.reached(run(tol, strengths), strengths):
                return lambda tol=tol: run(tol, strengths)
        raise RuntimeError(f"no tolerance reaches a gap of {self.goal}")

    def ours(self, strength: float) -> Any:
        """Run our working-set solver to the gap."""
        smooth = LinearSmooth(self.A, self.b, Squared())
        return last(halt(WorkingSet(smooth, GroupLasso(strength, GROUP)), small("gap", self.goal))).theta

    def our_path(self, tol: float, strengths: Any) -> Any:
        """Run our path; `tol` is a relative gap."""
        return path(LinearSmooth(self.A, self.b, Squared()), GroupLasso(1.0, GROUP), strengths=strengths, tol=tol).coefs

    def celer(self, tol: float, strengths: Any) -> Any:
        """Run celer's path of any length."""
        from celer import GroupLasso as Celer

        model = Celer(groups=GROUP, fit_intercept=False, tol=tol, max_iter=200)
        return model.path(self.A, self.b, alphas=np.asarray(strengths))[1].T

    def skglm(self, tol: float, strengths: Any) -> Any:
        """Run fits of skglm, each from the previous one."""
        from skglm import GroupLasso as Skglm

        model = Skglm(groups=GROUP, fit_intercept=False, tol=tol, warm_start=True)
        return [model.set_params(alpha=float(s)).fit(self.A, self.b).coef_.copy() for s in strengths]


def single(problem: Problem, part: int, what: str, table: Table, adelie: Adelie | None) -> None:
    """Add the rows of one strength."""
    strength = problem.top / part
    assert problem.reached([problem.ours(strength)], [strength])
    for name in ("celer", "skglm"):
        peer = problem.loosest(getattr(problem, name), [strength])
        us, them = race(lambda: problem.ours(strength), peer, repeats=5)
        table.add(f"{what}, {name}", us.seconds, them.seconds, f"at most {name}'s", us.seconds <= them.seconds)
    if adelie is not None:
        paths = [[strength] if k == 1 else np.geomspace(problem.top, strength, k) for k in STEPS]
        least, _ = adelie.best(paths, 1, lambda found: problem.reached(found, [strength]))
        us = measure(lambda: problem.ours(strength))
        table.add(f"{what}, adelie", us.seconds, least, "at most adelie's", us.seconds <= least)


def whole_path(problem: Problem, what: str, table: Table, adelie: Adelie | None) -> None:
    """Add the rows of a path."""
    strengths = problem.top * np.geomspace(1.0, RATIO, STRENGTHS)
    mine = problem.loosest(problem.our_path, strengths)
    for name in ("celer", "skglm"):
        us, them = race(mine, problem.loosest(getattr(problem, name), strengths), repeats=2)
        table.add(f"{what}, {name}", us.seconds, them.seconds, f"at most {name}'s", us.seconds <= them.seconds)
    if adelie is not None:
        least, _ = adelie.best([strengths], STRENGTHS, lambda found: problem.reached(found, strengths), repeats=2)
        us = measure(mine, repeats=2)
        table.add(f"{what}, adelie", us.seconds, least, "at most adelie's", us.seconds <= least)


def groups() -> None:
    """Run a group lasso with 25 of 500 groups in use."""
    table = Table(
        "group lasso, n 1000, p 5000, groups of 10, to a gap of 1e-6 of the loss at zero (seconds)",
        settings="Generated data, 25 of 500 groups in use. Each tool has the loosest of its tolerances that reaches "
        "the gap; adelie the faster of two screening rules, and for one strength the fastest of paths of 1, 10 and 30 "
        f"to it. A path has {STRENGTHS} strengths from max_strength to {RATIO:g} of it, the gap is met at each, and "
        "skglm, which has no path, starts from the solution before. Best of five runs (paths: two), in turns but for "
        "adelie, which needs numpy 1 and runs in a process of its own.",
    )
    there = installed()
    for noise in (0.1, 1 / 3):
        problem = Problem.made(noise)
        adelie = Adelie(problem.A, problem.b, GROUP) if there else None
        what = f"noise {noise:.2f} of the signal"
        for part in (10, 100):
            single(problem, part, f"{what}, max_strength / {part}", table, adelie)
        whole_path(problem, f"{what}, path", table, adelie)
        if adelie is not None:
            adelie.close()
