"""The norms by name (value and dual norm, as in `AtomicNorm`), and the result of a general prox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from spom.core.arrays import Floats
from spom.errors import SpomError, Unsupported


class Norm(Protocol):
    """The interface of a norm that the solvers of this package use."""

    name: str

    def value(self, x: Floats) -> float:
        """norm(x)."""
        ...

    def dual(self, p: Floats) -> float:
        """max over norm(x) <= 1 of <p, x>."""
        ...


class LpNorm:
    """The l1, l2 or l-inf norm of all entries of an array.

    >>> as_norm("l1").value(np.array([3.0, -4.0])), as_norm("l1").dual(np.array([3.0, -4.0]))
    (7.0, 4.0)
    """

    def __init__(self, name: str, order: float, dual_order: float) -> None:
        self.name, self._order, self._dual_order = name, order, dual_order

    def value(self, x: Floats) -> float:
        """norm(x)."""
        return _size(x, self._order)

    def dual(self, p: Floats) -> float:
        """Return the dual norm of p."""
        return _size(p, self._dual_order)

    def __repr__(self) -> str:
        return f"<the {self.name} norm>"


def _size(x: Floats, order: float) -> float:
    return float(np.linalg.norm(x.reshape(-1), order)) if x.size else 0.0


NORMS = {"l1": LpNorm("l1", 1, np.inf), "l2": LpNorm("l2", 2, 2), "linf": LpNorm("linf", np.inf, 1)}


def as_norm(norm: Any) -> Norm:
    """Return a norm from its name, or the object itself if it is one."""
    if isinstance(norm, str):
        if norm not in NORMS:
            raise Unsupported(f"there is no norm {norm!r}; use 'l1', 'l2', 'linf' or an AtomicNorm")
        return NORMS[norm]
    if not hasattr(norm, "value") or not hasattr(norm, "dual"):
        raise Unsupported(f"{norm!r} is no norm; use 'l1', 'l2', 'linf' or an AtomicNorm")
    found: Norm = norm
    return found


# q -> (q', conjugate of the penalty at q'), with q' equal to q or moved into the conjugate's domain.
Conjugate = Callable[[Floats], tuple[Floats, float]]


@dataclass(frozen=True)
class Certificate:
    """A proof of optimality: the value of a feasible dual point, which is a lower bound on all objectives.

    `gap` = objective - `bound` is an upper bound on how much worse the point is than the best one, up to
    rounding; NaN if the conjugate of the penalty is not known. The dual is

        maximise over p   <p, u> - dual_norm(p)^2 / (2L) - conjugate(p - z)        (general prox)
        maximise over p   <p, u> - t dual_norm(p) - conjugate(p - z)               (local conjugate)
    """

    gap: float
    bound: float

    def holds(self, tol: float = 1e-9) -> bool:
        """Tell whether the gap is at most tol, relative to the objective if that is larger than one."""
        return bool(self.gap <= tol * max(1.0, abs(self.bound)))


@dataclass(frozen=True)
class ProxResult:
    """The point `x`, its distance `t` = norm(x - u), the dual element `p` and the objective there.

    `p` is in -subdifferential of L/2 norm^2 at x - u and in z + subdifferential of the penalty at x; the
    accelerated method sums it. `value` is the penalty at x, `programs` the number of linear programs solved.
    The certificate is computed when it is first read.
    """

    x: Floats
    t: float
    p: Floats
    objective: float
    value: float
    programs: int = 0
    _bound: Callable[[], float] = field(default=lambda: np.nan, repr=False, compare=False)

    @cached_property
    def certificate(self) -> Certificate:
        """The duality gap at (x, p)."""
        try:
            bound = self._bound()
        except SpomError:
            bound = np.nan
        return Certificate(self.objective - bound, bound)


class Question(NamedTuple):
    """The problem to solve: the norm, the conjugate of the penalty, u and z, and L or the distance t."""

    norm: Any
    conjugate: Conjugate
    u: Floats
    z: Floats
    L: float
    t: float


def finish(asked: Question, x: Floats, p: Floats, value: float, reached: float, programs: int = 0) -> ProxResult:
    """Return a result with its certificate: of the general prox for L > 0, of the local conjugate at t for L = 0."""

    norm, conjugate, u, z, L, t = asked

    def bound() -> float:
        q, support = conjugate(p - z)
        repaired = z + q
        dual = float(norm.dual(repaired))
        return float(np.vdot(repaired, u)) - (dual * dual / (2.0 * L) if L > 0 else t * dual) - support

    objective = float(np.vdot(z, x)) + value + (0.5 * L * reached * reached if L > 0 else 0.0)
    return ProxResult(x, reached, p, objective, value, programs, bound)


def too_near(t: float, nearest: float) -> ValueError:
    """Return the error for a local conjugate whose ball does not meet the penalty's domain."""
    return ValueError(
        f"t = {t:.6g} is too small: the penalty is +inf within that distance of u; "
        f"the nearest point where it is finite is at {nearest:.6g}"
    )


def conjugate_of(penalty: Any) -> Conjugate:
    """Return the conjugate of any penalty, with q scaled back into the dual ball if the penalty is a norm."""

    def conjugate(q: Floats) -> tuple[Floats, float]:
        if penalty.homogeneous and not penalty.indicator and hasattr(penalty, "strength"):
            needed = float(penalty.max_strength(q))
            return (q if needed <= penalty.strength else q * (penalty.strength / needed)), 0.0
        return q, float(penalty.conjugate().value(q))

    return conjugate
