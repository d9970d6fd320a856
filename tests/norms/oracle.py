"""The general prox as a cone program, by cvxpy: shares no code with the library."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]


def norm_of(expression: Any, norm: str, atoms: Vector | None = None) -> tuple[Any, list[Any]]:
    """(norm, constraints) of an expression."""
    if norm == "atomic":
        assert atoms is not None
        c = cp.Variable(atoms.shape[1])
        return cp.norm1(c), [atoms @ c == expression]
    return {"l1": cp.norm1, "l2": cp.norm2, "linf": cp.norm_inf}[norm](expression), []


def penalty_of(kind: str, x: Any, size: float, groups: list[Any] | None = None) -> tuple[Any, list[Any]]:
    """(penalty, constraints)."""
    sets = {
        "l1-ball": lambda: [cp.norm1(x) <= size],
        "linf-ball": lambda: [cp.norm_inf(x) <= size],
        "simplex": lambda: [x >= 0, cp.sum(x) == size],
        "box": lambda: [x >= -size, x <= 2 * size],
    }
    if kind in sets:
        return 0.0, sets[kind]()
    if kind == "latent":
        assert groups is not None
        parts = [cp.Variable(x.shape[0]) for _ in groups]
        outside = [v[j] == 0 for v, g in zip(parts, groups, strict=True) for j in set(range(x.shape[0])) - set(g)]
        return size * sum(cp.norm_inf(v) for v in parts), [sum(parts) == x, *outside]
    return size * {"l1": cp.norm1, "linf": cp.norm_inf}[kind](x), []


def prox_value(kind: str, size: float, norm: str, u: Vector, z: Vector, L: float, **more: Any) -> float:
    """Return the least value of z.x + L/2 norm(x - u)^2 + penalty(x)."""
    x = cp.Variable(u.size)
    distance, first = norm_of(x - u, norm, more.get("atoms"))
    penalty, second = penalty_of(kind, x, size, more.get("groups"))
    problem = cp.Problem(cp.Minimize(z @ x + L / 2 * cp.square(distance) + penalty), [*first, *second])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)


def local_value(kind: str, size: float, norm: str, u: Vector, z: Vector, t: float, **more: Any) -> float:
    """Return the least value of z.x + penalty(x) over norm(x - u) <= t; +inf if there is none."""
    x = cp.Variable(u.size)
    distance, first = norm_of(x - u, norm, more.get("atoms"))
    penalty, second = penalty_of(kind, x, size, more.get("groups"))
    problem = cp.Problem(cp.Minimize(z @ x + penalty), [distance <= t, *first, *second])
    problem.solve(solver="CLARABEL")
    return float(problem.value) if problem.status.startswith("optimal") else np.inf
