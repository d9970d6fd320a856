"""Every prox against the fastest peer that has it, at n = 1e6 and 1e3, on one thread.

Peers: pyproximal, spams. If neither has an operator: cvxpy at n = 1e3, and one `numpy.sort` of the same vector at
n = 1e6, with which the papers' algorithms begin. Each peer's result is compared with ours first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pyproximal
import spams

from benchmarks.common import Table
from spom import penalties as P

Prox = Callable[[np.ndarray], np.ndarray]
GROUP = 10


@dataclass(frozen=True)
class Case:
    """One of our proxes, its peers by name, and a conic model if there are none."""

    ours: Any
    peers: dict[str, Prox]
    model: Callable[[Any], Any] | None = None
    target: float | None = None  # at n = 1e6: at least this many times as fast as `against`
    against: str = ""


def best_seconds(function: Callable[[], Any], budget: float = 0.4) -> float:
    """Return the least wall time of one call, over as many repeats as fit the budget."""
    function()
    begin = time.perf_counter()
    function()
    once = max(time.perf_counter() - begin, 1e-7)
    inner = max(1, int(2e-4 / once))
    best = np.inf
    for _ in range(int(np.clip(budget / (once * inner), 3, 60))):
        begin = time.perf_counter()
        for _ in range(inner):
            function()
        best = min(best, (time.perf_counter() - begin) / inner)
    return best


def flat(regul: str, strength: float, **more: Any) -> Prox:
    """Return a prox of spams, for one column."""
    return lambda w: spams.proximalFlat(
        np.asfortranarray(w[:, None]), regul=regul, lambda1=strength, numThreads=1, **more
    ).ravel()


def cases(n: int) -> list[Case]:
    """Return all operators, with the peers that have them."""
    blocks = np.arange(n).reshape(-1, GROUP)
    labels = np.repeat(np.arange(1, n // GROUP + 1), GROUP).astype(np.int32)
    ball = 0.05 * n
    return [
        Case(P.L1(0.5), {"pyproximal": lambda w: pyproximal.L1(0.5).prox(w, 1.0), "spams": flat("l1", 0.5)}),
        Case(P.L2(50.0), {"pyproximal": lambda w: pyproximal.Euclidean(50.0).prox(w, 1.0)}),
        Case(
            P.SquaredL2(1.0), {"pyproximal": lambda w: pyproximal.L2(sigma=1.0).prox(w, 1.0), "spams": flat("l2", 1.0)}
        ),
        Case(P.LInf(100.0), {"spams": flat("linf", 100.0)}, target=5, against="pyproximal L1Ball"),
        Case(P.SquaredL1(0.01), {}, lambda x: 0.005 * cp.square(cp.norm1(x)), target=5, against="pyproximal L1Ball"),
        Case(P.Power(0.5, 1.7), {}, lambda x: 0.5 * cp.sum(cp.power(cp.abs(x), 1.7))),
        Case(P.ElasticNet(1.0, 0.5), {"spams": flat("elastic-net", 0.5, lambda2=0.5)}),
        Case(P.GroupLasso(0.5, GROUP), {"spams": flat("group-lasso-l2", 0.5, groups=labels)}),
        Case(
            P.GroupLInf(0.5, GROUP),
            {"spams": flat("group-lasso-linf", 0.5, groups=labels)},
        ),
        Case(P.SparseMKL(0.01, GROUP), {}, lambda x: 0.005 * cp.square(sum(cp.norm2(x[b]) for b in blocks))),
        Case(P.LqMKL(0.5, GROUP, q=1.7), {}, lambda x: 0.5 * sum(cp.power(cp.norm2(x[b]), 1.7) for b in blocks)),
        Case(
            P.ElasticNetMKL(0.02, GROUP),
            {},
            lambda x: 0.005 * (cp.square(sum(cp.norm2(x[b]) for b in blocks)) + cp.sum_squares(x)),
        ),
        Case(
            P.SparseGroupLasso(1.0, GROUP, l1_ratio=0.5),
            {"spams": flat("sparse-group-lasso-l2", 0.5, lambda2=0.5, groups=labels)},
        ),
        Case(
            P.L1Ball(ball),
            {"pyproximal": lambda w: pyproximal.L1Ball(n, ball).prox(w, 1.0)},
            target=5,
            against="pyproximal L1Ball",
        ),
        Case(P.L2Ball(10.0), {"pyproximal": lambda w: pyproximal.EuclideanBall(np.zeros(n), 10.0).prox(w, 1.0)}),
        Case(P.LInfBall(1.0), {"pyproximal": lambda w: pyproximal.Box(-1.0, 1.0).prox(w, 1.0)}),
        Case(
            P.Simplex(10.0),
            {"pyproximal": lambda w: pyproximal.Simplex(n, 10.0).prox(w, 1.0)},
            target=5,
            against="pyproximal L1Ball",
        ),
        Case(P.Box(0.0, 1.0), {"pyproximal": lambda w: pyproximal.Box(0.0, 1.0).prox(w, 1.0)}),
    ]


def check(name: str, ours: np.ndarray, peer: np.ndarray) -> None:
    """Print a note if a peer computes something else, and so is no peer."""
    gap = np.abs(ours - np.asarray(peer).ravel()).max()
    if gap > 1e-6:
        print(f"    note: {name} differs by {gap:.1e}")


def conic_seconds(case: Case, w: np.ndarray, ours: np.ndarray) -> float:
    """Return the time of a conic solver for the same prox."""
    assert case.model is not None
    x = cp.Variable(w.size)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - w) + case.model(x)))
    begin = time.perf_counter()
    problem.solve(solver=cp.CLARABEL)
    seconds = time.perf_counter() - begin
    if np.abs(x.value - ours).max() > 1e-3:
        print(f"    note: the conic solver differs by {np.abs(x.value - ours).max():.1e}")
    return seconds


def at_size(n: int) -> None:
    """Print the table for one size."""
    w = np.random.default_rng(0).standard_normal(n)
    large = n >= 10**6
    copy, sort = best_seconds(lambda: w.copy()), best_seconds(lambda: np.sort(w))
    l1_ball = best_seconds(lambda: pyproximal.L1Ball(n, 0.05 * n).prox(w, 1.0)) if large else np.nan
    table = Table(f"prox, n = {n:.0e} (a copy takes {copy * 1e6:.0f} us, numpy.sort {sort * 1e6:.0f} us), microseconds")
    for case in cases(n):
        ours = case.ours.prox(w)
        seconds = best_seconds(lambda c=case: c.ours.prox(w))
        name = type(case.ours).__name__
        for peer, prox in case.peers.items():
            check(f"{peer} {name}", ours, prox(w))
            theirs = best_seconds(lambda p=prox: p(w))
            table.add(f"{name} | {peer}", seconds * 1e6, theirs * 1e6, "not slower", seconds <= theirs)
        if not case.peers and large:
            table.add(f"{name} | numpy.sort", seconds * 1e6, sort * 1e6)
        elif not case.peers:
            table.add(f"{name} | cvxpy (Clarabel)", seconds * 1e6, conic_seconds(case, w, ours) * 1e6)
        if large and case.target:
            enough = seconds * case.target <= l1_ball
            table.add(f"{name} | {case.against}", seconds * 1e6, l1_ball * 1e6, f">= {case.target:g} times", enough)
            table.add(f"{name} | numpy.sort", seconds * 1e6, sort * 1e6, "faster", seconds < sort)
    if large:
        near_a_copy(table, w, copy)


def near_a_copy(table: Table, w: np.ndarray, copy: float) -> None:
    """Compare L1 and GroupLasso with a copy of the vector; short groups take time for their square roots."""
    shown = [P.L1(0.5), P.GroupLasso(0.5, 1000), P.GroupLasso(0.5, 100), P.GroupLasso(0.5, 10)]
    for penalty in shown:
        seconds = best_seconds(lambda p=penalty: p.prox(w))
        what = f"{type(penalty).__name__}" + (f", groups of {penalty.groups}" if hasattr(penalty, "groups") else "")
        table.add(f"{what} | a copy of the vector", seconds * 1e6, copy * 1e6, "<= 2 copies", seconds <= 2 * copy)


def overhead() -> None:
    """Measure the overhead of a call, with a vector of one entry."""
    table = Table("call overhead: a vector of one entry, microseconds")
    w = np.ones(1)
    for penalty in (P.L1(0.5), P.LInf(0.5), P.SquaredL1(0.5), P.L1Ball(0.5), P.Simplex(0.5), P.GroupLasso(0.5, 1)):
        seconds = best_seconds(lambda p=penalty: p.prox(w))
        table.add(type(penalty).__name__, seconds * 1e6, target="< 10 us", reached=seconds < 1e-5)


def main() -> None:
    """Print all three tables."""
    at_size(10**6)
    at_size(10**3)
    overhead()


if __name__ == "__main__":
    main()
