"""Slow, obvious twins of every prox, sharing no code with the fast ones: bisection, sorting, dual descent.

`naive_prox(penalty, w, step)` for vectors. Roots are bisected in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from hypothesis import assume

from spom import penalties as P
from spom.penalties.groups import resolve

Vector = np.ndarray[Any, Any]
LONG = np.longdouble


def bisect(f: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Find the sign change of a function that is positive at low and not at high, in extended precision."""
    low, high = LONG(low), LONG(high)
    for _ in range(400):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if f(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def soft(w: Vector, tau: Any) -> Vector:
    return np.sign(w) * np.maximum(np.abs(w) - tau, 0)


def l1_project(w: Vector, radius: float) -> Vector:
    u = np.abs(w).astype(LONG)
    if u.sum() <= radius:
        return w.copy()
    tau = bisect(lambda t: np.maximum(u - t, 0).sum() - LONG(radius), 0, u.max())
    return soft(w.astype(LONG), tau).astype(float)


def group_list(penalty: Any, size: int) -> list[Vector]:
    groups = resolve(penalty.groups, (size,), overlap=True)
    return [groups.members(m) for m in range(groups.count)]


def weight_list(penalty: Any, count: int) -> Vector:
    weights = getattr(penalty, "weights", None)
    return np.ones(count) if weights is None else np.asarray(weights, dtype=float)


def shrunk_norms(b: Vector, d: Vector, t: float, ridge: float = 0.0) -> Vector:
    """argmin over x >= 0 of 1/2 norm(x - b)^2 + t/2 (sum d x)^2 + ridge/2 norm(x)^2."""
    b, d = b.astype(LONG), d.astype(LONG)

    def at(tau: Any) -> Vector:
        return np.maximum(b - tau * d, 0) / (1 + LONG(ridge))

    high = LONG(t) * (d @ b) + 1
    tau = bisect(lambda s: LONG(t) * (d @ at(s)) - s, 0, high)
    return at(tau).astype(float)


def rescale_groups(w: Vector, groups: list[Vector], new: Vector) -> Vector:
    x = w.copy()
    for g, norm in zip(groups, new, strict=True):
        old = np.linalg.norm(w[g])
        x[g] = w[g] * (norm / old if old > 0 else 0.0)
    return x


def power_root(b: Vector, t: float, q: float) -> Vector:
    """Find the root of x + t q x^(q-1) = b for each b, by bisection of all brackets in parallel."""
    if q == 1:
        return np.maximum(b - t, 0.0)
    low, high = np.zeros(b.size, dtype=LONG), b.astype(LONG)
    for _ in range(140):
        x = (low + high) / 2
        below = b - x - LONG(t) * q * x ** LONG(q - 1) > 0
        low, high = np.where(below, x, low), np.where(below, high, x)
    return ((low + high) / 2).astype(float)


def dual_descent(w: Vector, groups: list[Vector], radius: Vector, dual_projection: Any, sweeps: int = 4000) -> Vector:
    """Compute the prox of a sum of norms over any groups, by projections of one group's dual vector at a time."""
    z = [np.zeros(len(g)) for g in groups]
    x = w.copy()
    for _ in range(sweeps):
        moved = 0.0
        for m, g in enumerate(groups):
            v = x[g] + z[m]
            new = dual_projection(v, radius[m])
            moved = max(moved, np.abs(new - z[m]).max(initial=0.0))
            z[m] = new
            x[g] = v - new
        if moved < 1e-16:
            return x
    # On the edge between zero and not it takes for ever; the conic oracle and the certificate look there.
    assume(False)
    return x


def l2_project(v: Vector, radius: float) -> Vector:
    norm = np.linalg.norm(v)
    return v if norm <= radius else v * (radius / norm)


@singledispatch
def naive_prox(penalty: Any, w: Vector, step: float) -> Vector:
    raise NotImplementedError(f"write a naive twin for {type(penalty).__name__} here")


def twin(cls: type) -> Callable[[Any], Any]:
    return naive_prox.register(cls)


@twin(P.Zero)
def _(p: Any, w: Vector, step: float) -> Vector:
    return w.copy()


@twin(P.L1)
def _(p: Any, w: Vector, step: float) -> Vector:
    return soft(w, step * p.strength)


@twin(P.L2)
def _(p: Any, w: Vector, step: float) -> Vector:
    return w - l2_project(w, step * p.strength)


@twin(P.SquaredL2)
def _(p: Any, w: Vector, step: float) -> Vector:
    return w / (1 + step * p.strength)


@twin(P.LInf)
def _(p: Any, w: Vector, step: float) -> Vector:
    return w - l1_project(w, step * p.strength)


@twin(P.SquaredL1)
def _(p: Any, w: Vector, step: float) -> Vector:
    return np.sign(w) * shrunk_norms(np.abs(w), weight_list(p, w.size), step * p.strength)


@twin(P.Power)
def _(p: Any, w: Vector, step: float) -> Vector:
    return np.sign(w) * power_root(np.abs(w), step * p.strength, p.q)


@twin(P.ElasticNet)
def _(p: Any, w: Vector, step: float) -> Vector:
    t = step * p.strength
    return soft(w, t * p.l1_ratio) / (1 + t * (1 - p.l1_ratio))


@twin(P.GroupLasso)
def _(p: Any, w: Vector, step: float) -> Vector:
    x = w.copy()
    groups = group_list(p, w.size)
    for g, d in zip(groups, weight_list(p, len(groups)), strict=True):
        x[g] = w[g] - l2_project(w[g], step * p.strength * d)
    return x


@twin(P.GroupLInf)
def _(p: Any, w: Vector, step: float) -> Vector:
    x = w.copy()
    groups = group_list(p, w.size)
    for g, d in zip(groups, weight_list(p, len(groups)), strict=True):
        x[g] = w[g] - l1_project(w[g], step * p.strength * d)
    return x


@twin(P.SparseMKL)
def _(p: Any, w: Vector, step: float) -> Vector:
    groups = group_list(p, w.size)
    norms = np.array([np.linalg.norm(w[g]) for g in groups])
    return rescale_groups(w, groups, shrunk_norms(norms, weight_list(p, len(groups)), step * p.strength))


@twin(P.LqMKL)
def _(p: Any, w: Vector, step: float) -> Vector:
    groups = group_list(p, w.size)
    norms = np.array([np.linalg.norm(w[g]) for g in groups])
    return rescale_groups(w, groups, power_root(norms, step * p.strength, p.q))


@twin(P.ElasticNetMKL)
def _(p: Any, w: Vector, step: float) -> Vector:
    groups = group_list(p, w.size)
    norms = np.array([np.linalg.norm(w[g]) for g in groups])
    c, a = step * p.strength * p.l1_ratio, step * p.strength * (1 - p.l1_ratio)
    x = rescale_groups(w / (1 + a), groups, shrunk_norms(norms, np.ones(len(groups)), c, a))
    return x


@twin(P.SparseGroupLasso)
def _(p: Any, w: Vector, step: float) -> Vector:
    groups = group_list(p, w.size)
    t = step * p.strength
    radius = t * (1 - p.l1_ratio) * weight_list(p, len(groups))
    singles = [np.array([i]) for i in range(w.size)]
    radii = np.concatenate([radius, np.full(w.size, t * p.l1_ratio)])
    return dual_descent(w, [*groups, *singles], radii, l2_project)


@twin(P.TreeGroupLasso)
def _(p: Any, w: Vector, step: float) -> Vector:
    groups = group_list(p, w.size)
    radius = step * p.strength * weight_list(p, len(groups))
    return dual_descent(w, groups, radius, l2_project if p.norm == 2 else l1_project)


@twin(P.L1Ball)
def _(p: Any, w: Vector, step: float) -> Vector:
    return l1_project(w, p.radius)


@twin(P.L2Ball)
def _(p: Any, w: Vector, step: float) -> Vector:
    return l2_project(w, p.radius)


@twin(P.LInfBall)
def _(p: Any, w: Vector, step: float) -> Vector:
    return np.clip(w, -p.radius, p.radius)


@twin(P.Simplex)
def _(p: Any, w: Vector, step: float) -> Vector:
    u = w.astype(LONG)
    tau = bisect(lambda t: np.maximum(u - t, 0).sum() - LONG(p.radius), u.min() - p.radius, u.max())
    return np.maximum(u - tau, 0).astype(float)


@twin(P.Box)
def _(p: Any, w: Vector, step: float) -> Vector:
    return np.clip(w, p.lower, p.upper)


@twin(P.Conjugate)
def _(p: Any, w: Vector, step: float) -> Vector:
    return w - step * naive_prox(p.penalty, w / step, 1 / step)


@twin(P.Scaled)
def _(p: Any, w: Vector, step: float) -> Vector:
    return naive_prox(p.penalty, w, step * p.factor)


@twin(P.Translated)
def _(p: Any, w: Vector, step: float) -> Vector:
    return p.shift + naive_prox(p.penalty, w - p.shift, step)


@twin(P.MoreauEnvelope)
def _(p: Any, w: Vector, step: float) -> Vector:
    # x with (x - w)/step + (x - z)/mu = 0 and z the prox of the penalty at x, by fixed-point iteration on z.
    mu, z = p.smoothing, w.copy()
    for _ in range(3000):
        x = (mu * w + step * z) / (mu + step)
        new = naive_prox(p.penalty, x, mu)
        if np.abs(new - z).max() < 1e-16:
            break
        z = new
    return (mu * w + step * z) / (mu + step)


@twin(P.SeparableSum)
def _(p: Any, w: Vector, step: float) -> Vector:
    x = w.copy()
    for part, indices in p.parts:
        x[indices] = naive_prox(part, w[indices], step)
    return x


@twin(P.Sum)
def _(p: Any, w: Vector, step: float) -> Vector:
    # Dykstra-like descent on the dual: one vector a term, each the prox of that term's conjugate in turn.
    terms = list(p.terms)
    z = [np.zeros(w.size) for _ in terms]
    x = w.copy()
    for _ in range(200):
        moved = 0.0
        for j, term in enumerate(terms):
            v = x + z[j]
            x = naive_prox(term, v, step)
            moved = max(moved, np.abs(v - x - z[j]).max(initial=0.0))
            z[j] = v - x
        if moved < 1e-15:
            return x
    # It may take very long; the conic oracle looks at every sum.
    assume(False)
    return x
