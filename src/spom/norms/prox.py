"""The choice of a method for a penalty and a norm, and the two public functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from spom.core.arrays import Floats, as_finite, check_positive
from spom.errors import Unsupported
from spom.norms.atomic import AtomicBall, AtomicNorm, AtomicPenalty
from spom.norms.base import Norm, ProxResult, as_norm
from spom.norms.euclidean import EuclideanProx
from spom.norms.greedy import Greedy
from spom.norms.latent import LatentLInf
from spom.norms.programs import PolyhedralProx
from spom.penalties.l1 import L1
from spom.penalties.l1_ball import L1Ball
from spom.penalties.latent_group_lasso import LatentGroupLasso
from spom.penalties.linf import LInf
from spom.penalties.linf_ball import LInfBall
from spom.penalties.simplex import Simplex
from spom.penalties.zero import Zero

WORKS = (
    "any penalty with the l2 norm; L1, L1Ball, Simplex with l1; LInf, LInfBall with linf; an AtomicNorm's own penalty "
    "and ball; and by linear programs, with l1, linf or an AtomicNorm given as a matrix: L1, L1Ball, LInf, LInfBall, "
    "Simplex, Box, GroupLInf, TreeGroupLasso(norm=inf), LatentGroupLasso(q=inf), Polyhedral(A, B, cost), and sums of "
    "these"
)


class Method(Protocol):
    """A method for one pair of a penalty and a norm; it may keep state for warm starts between calls."""

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        ...


class GeneralProx:
    """The general prox of one penalty in one norm, for vectors of `p` entries; linear programs use warm starts.

    >>> from spom.penalties import L1
    >>> step = GeneralProx(L1(0.5), "l1", 2)
    >>> step([1.0, 0.0], [0.0, -2.0], 1.0).x
    array([1. , 1.5])
    """

    def __init__(self, penalty: Any, norm: Any, p: int) -> None:
        self.penalty, self.p = penalty, p
        self.norm: Norm = as_norm(norm)
        if not getattr(penalty, "convex", True):
            raise Unsupported(f"{type(penalty).__name__} is not convex; the general prox needs a convex penalty")
        if isinstance(self.norm, AtomicNorm) and self.norm.shape[0] != p:
            raise ValueError(f"the atoms have {self.norm.shape[0]} coordinates; the point has {p}")
        self.method: Method = _choose(penalty, self.norm, p)

    def _vector(self, a: ArrayLike, name: str) -> Floats:
        found = as_finite(a, name)
        if found.shape != (self.p,):
            raise ValueError(f"{name} must be a vector of {self.p} numbers; its shape is {found.shape}")
        return found

    def __call__(self, u: ArrayLike, z: ArrayLike, L: float) -> ProxResult:
        """argmin over x of z.x + L/2 norm(x - u)^2 + penalty(x)."""
        L = check_positive(L, "L", zero=False)
        return self.method.solve(self._vector(u, "u"), self._vector(z, "z (the gradient)"), L, np.nan)

    def local(self, u: ArrayLike, z: ArrayLike, t: float) -> ProxResult:
        """argmin of z.x + penalty(x) over norm(x - u) <= t."""
        t = check_positive(t, "t")
        return self.method.solve(self._vector(u, "u"), self._vector(z, "z (the gradient)"), 0.0, t)


def general_prox(penalty: Any, norm: Any, u: ArrayLike, z: ArrayLike, L: float) -> ProxResult:
    """argmin over x of z.x + L/2 norm(x - u)^2 + penalty(x), with t = norm(x - u), p and a certificate.

    `norm` is "l1", "l2", "linf" or an `AtomicNorm`. If the solution is not unique, one of them is returned. For many
    calls with one penalty create a `GeneralProx`, whose linear programs use warm starts.

    >>> from spom.penalties import L1
    >>> found = general_prox(L1(1.0), "l1", [2.0, 0.0, -1.0], [0.5, 3.0, 0.0], 2.0)
    >>> found.x, found.t
    (array([ 2., -1., -1.]), 1.0)
    >>> found.certificate.holds()
    True
    """
    return GeneralProx(penalty, norm, as_finite(u, "u").size)(u, z, L)


def local_conjugate(penalty: Any, norm: Any, u: ArrayLike, z: ArrayLike, t: float) -> ProxResult:
    """argmin of z.x + penalty(x) over norm(x - u) <= t; p has the slope of the minimum in t as its dual norm.

    >>> from spom.penalties import Simplex
    >>> local_conjugate(Simplex(), "l1", [0.5, 0.5, 0.0], [1.0, 0.0, -1.0], 0.5).x
    array([0.25, 0.5 , 0.25])
    """
    return GeneralProx(penalty, norm, as_finite(u, "u").size).local(u, z, t)


def _choose(penalty: Any, norm: Norm, p: int) -> Method:
    """Return the best method for the pair; `Unsupported` names the pairs that work."""
    if norm.name == "l2":
        return EuclideanProx(penalty)
    exact = _greedy(penalty, norm)
    if exact is not None:
        return exact
    if norm.name == "linf" and isinstance(penalty, LatentGroupLasso) and penalty.q == np.inf:
        return LatentLInf(penalty, p)
    rows = penalty.polyhedron(p)
    if rows is not None and not (isinstance(norm, AtomicNorm) and hasattr(norm.atoms, "matvec")):
        if isinstance(norm, AtomicNorm):
            atoms = norm.matrix
        else:
            atoms = None if norm.name == "linf" else sparse.identity(p, format="csr")
        return PolyhedralProx(penalty, rows, norm, atoms)
    named = norm.name if not isinstance(norm, AtomicNorm) else repr(norm)
    raise Unsupported(f"no general prox is known for {type(penalty).__name__} in the {named} norm. These work: {WORKS}")


def _greedy(penalty: Any, norm: Norm) -> Method | None:
    if isinstance(norm, AtomicNorm):
        own = isinstance(penalty, (AtomicPenalty, AtomicBall)) and penalty.norm is norm
        if not norm.independent or not (own or isinstance(penalty, Zero)):
            return None
        if isinstance(penalty, AtomicBall):
            return InCoordinates(norm, Greedy(L1Ball(penalty.radius)))
        return InCoordinates(norm, Greedy(L1(penalty.strength if own else 0.0)))
    if isinstance(penalty, Zero):
        return Greedy(L1(0.0) if norm.name == "l1" else LInf(0.0))
    known: tuple[Any, ...] = (L1, L1Ball, Simplex) if norm.name == "l1" else (LInf, LInfBall)
    return Greedy(penalty) if isinstance(penalty, known) else None


class InCoordinates:
    """A greedy l1 method in the coordinates of an atomic norm: u -> A^-1 u, z -> A^T z, p -> A^-T p."""

    def __init__(self, norm: AtomicNorm, inner: Greedy) -> None:
        self.norm, self.inner = norm, inner

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """Return the general prox for L > 0; for L = 0 the local conjugate at t."""
        norm = self.norm
        inner = self.inner.solve(norm.coordinates(u), norm.correlations(z), L, t)
        # Objective and dual bound are the same in both coordinate systems.
        return replace(inner, x=norm.combine(inner.x), p=norm.lift(inner.p))
