"""Atomic norms: norm(x) = min of sum abs(c) with x = A c, for atoms that are the columns of A and their negatives."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse.linalg import LinearOperator, aslinearoperator, lsqr

from spom.core.arrays import Floats, as_finite, check_positive
from spom.core.lp import LinearProgram
from spom.errors import Unsupported
from spom.penalties.base import Penalty
from spom.penalties.polyhedra import Polyhedron, combinations

# Atoms with a larger condition number count as linearly dependent: no digits of a solution would be correct.
_SINGULAR = 1e12


class AtomicNorm:
    """norm(x) = min of norm1(c) over A c = x; the dual norm is max_j abs(<a_j, p>).

    `atoms` is a p x m matrix (dense or sparse) or a `LinearOperator`; each column a_j stands for itself and
    its negative. If the columns are linearly independent, the general prox of `penalty(strength)` and
    `ball(radius)` is exact and greedy; otherwise linear programs find it, and A must be a matrix. The atoms of
    an operator must be independent; `inverse`, an operator with inverse(A c) = c, avoids solving for c.

    >>> AtomicNorm([[1.0, 1.0], [0.0, 1.0]]).value([3.0, 1.0])
    3.0
    """

    name = "atomic"

    def __init__(self, atoms: Any, inverse: Any = None) -> None:
        self.atoms = atoms if isinstance(atoms, LinearOperator) else _as_atoms(atoms)
        self.inverse = None if inverse is None else aslinearoperator(inverse)
        self.shape: tuple[int, int] = tuple(self.atoms.shape)
        if 0 in self.shape:
            raise ValueError(f"an atomic norm needs atoms; the matrix has shape {self.shape}")
        self.independent = self.inverse is not None or isinstance(self.atoms, LinearOperator)
        if not self.independent:
            self.independent = _check_rank(self.matrix)

    @cached_property
    def matrix(self) -> Any:
        """The atoms as a matrix."""
        if isinstance(self.atoms, LinearOperator):
            raise Unsupported("these atoms are a linear operator; this needs them as a matrix")
        return self.atoms

    @cached_property
    def _lu(self) -> Any:
        matrix = self.matrix.toarray() if sparse.issparse(self.matrix) else self.matrix
        return lu_factor(matrix if self.shape[0] == self.shape[1] else matrix.T @ matrix)

    def coordinates(self, x: Floats) -> Floats:
        """Return c with A c = x, for independent atoms."""
        if self.inverse is not None:
            c: Floats = np.ascontiguousarray(self.inverse.matvec(x), dtype=np.float64)
        elif isinstance(self.atoms, LinearOperator):
            c = _solve_operator(self.atoms, x)
        elif self.shape[0] == self.shape[1]:
            c = np.ascontiguousarray(lu_solve(self._lu, x))
        else:
            c = np.ascontiguousarray(lu_solve(self._lu, self.matrix.T @ x))
        off = float(np.abs(self.combine(c) - x).max(initial=0.0))
        if off > 1e-8 * max(1.0, float(np.abs(x).max(initial=0.0))):
            raise ValueError(
                f"this point is not a combination of the atoms (off by {off:.3g}): its atomic norm is +inf"
            )
        return c

    def combine(self, c: Floats) -> Floats:
        """A c."""
        found: Floats = np.ascontiguousarray(self.atoms @ c)
        return found

    def correlations(self, p: Floats) -> Floats:
        """A^T p."""
        found: Floats = np.ascontiguousarray(self.atoms.T @ p)
        return found

    def lift(self, q: Floats) -> Floats:
        """Return p in the span of the atoms with A^T p = q, for independent atoms."""
        if isinstance(self.atoms, LinearOperator):
            if self.inverse is not None and self.shape[0] == self.shape[1]:
                return np.ascontiguousarray(self.inverse.rmatvec(q), dtype=np.float64)
            return _solve_operator(self.atoms.T, q)
        if self.shape[0] == self.shape[1]:
            return np.ascontiguousarray(lu_solve(self._lu, q, trans=1))
        return np.ascontiguousarray(self.matrix @ lu_solve(self._lu, q))

    def value(self, x: Any) -> float:
        """norm(x); +inf outside the span of the atoms."""
        x = as_finite(x, "x")
        if self.independent:
            try:
                return float(np.abs(self.coordinates(x)).sum())
            except ValueError:
                return np.inf
        m = self.shape[1]
        atoms = sparse.csc_matrix(self.matrix)
        both = sparse.hstack([atoms, -atoms], format="csc")
        program = LinearProgram(np.ones(2 * m), both, row_lower=x, row_upper=x, what="the atomic norm")
        return program.solve().objective

    def dual(self, p: Any) -> float:
        """max_j abs(<a_j, p>)."""
        return float(np.abs(self.correlations(as_finite(p, "p"))).max())

    def penalty(self, strength: float = 1.0) -> AtomicPenalty:
        """Return strength times this norm, as a penalty."""
        return AtomicPenalty(strength, self)

    def ball(self, radius: float = 1.0) -> AtomicBall:
        """Return the ball of this norm, as a penalty."""
        return AtomicBall(radius, self)

    def __repr__(self) -> str:
        kind = "independent" if self.independent else "dependent"
        return f"AtomicNorm({self.shape[1]} {kind} atoms in {self.shape[0]} dimensions)"


class AtomicPenalty(Penalty):
    """Omega(x) = strength * norm(x), for an atomic norm."""

    homogeneous = True

    def __init__(self, strength: float, norm: AtomicNorm) -> None:
        self.strength, self.norm = strength, norm
        self._check()

    def _check(self) -> None:
        check_positive(self.strength, "strength")

    def _value(self, w: Floats) -> float:
        return self.strength * self.norm.value(w) if self.strength else 0.0

    def _max_strength(self, g: Floats) -> float:
        return self.norm.dual(g)

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return the rows of x = atoms (w+ - w-), at the price s per unit, or None if the atoms are an operator."""
        return None if hasattr(self.norm.atoms, "matvec") else combinations(self.norm.matrix, price=self.strength)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        raise _no_prox(self)


class AtomicBall(Penalty):
    """Omega(x) = 0 if norm(x) <= radius, else +inf, for an atomic norm."""

    indicator = True

    def __init__(self, radius: float, norm: AtomicNorm) -> None:
        self.radius, self.norm = radius, norm
        self._check()

    def _check(self) -> None:
        check_positive(self.radius, "radius")

    def _value(self, w: Floats) -> float:
        return 0.0 if self.norm.value(w) <= self.radius * (1 + 1e-9) else np.inf

    def _conjugate_value(self, y: Floats) -> float:
        return self.radius * self.norm.dual(y)

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return the rows of x = atoms (w+ - w-), their sum at most the radius; None if the atoms are an operator."""
        return None if hasattr(self.norm.atoms, "matvec") else combinations(self.norm.matrix, budget=self.radius)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        raise _no_prox(self)


def _no_prox(penalty: Penalty) -> Unsupported:
    return Unsupported(
        f"{type(penalty).__name__} has no Euclidean prox here; use general_prox in its own norm or by linear programs"
    )


def _as_atoms(atoms: Any) -> Any:
    if sparse.issparse(atoms):
        matrix = atoms.tocsc().astype(np.float64)
        as_finite(matrix.data, "atoms (their stored entries)")
        return matrix
    matrix = as_finite(atoms, "atoms")
    if matrix.ndim != 2:
        raise ValueError(f"atoms must be a matrix with one atom a column; it has {matrix.ndim} dimension")
    return matrix


def _check_rank(matrix: Any) -> bool:
    """Tell whether the columns are independent; raise an error if they neither are nor span the space."""
    p, m = matrix.shape
    values = np.linalg.svd(matrix.toarray() if sparse.issparse(matrix) else matrix, compute_uv=False)
    rank = int((values > values[0] / _SINGULAR).sum()) if values[0] > 0 else 0
    if rank == m:
        return True
    if rank == p:
        return False
    what = f"{m} atoms of rank {rank} in {p} dimensions (condition number above {_SINGULAR:.0e})"
    raise ValueError(
        f"singular atom set: {what}. Atoms must be linearly independent, or span the space; "
        "remove atoms that are combinations of others, or add some that fill the space"
    )


def _solve_operator(operator: Any, b: Floats) -> Floats:
    """Return the solution of operator(c) = b for independent columns, by LSQR."""
    c, stop, *_, condition, _, _, _ = lsqr(operator, b, atol=1e-15, btol=1e-15, iter_lim=20 * max(operator.shape))
    if condition > _SINGULAR or stop == 3:
        raise ValueError(
            f"singular atom set: the operator's condition number is about {condition:.1e}; atoms must be independent"
        )
    return np.ascontiguousarray(c, dtype=np.float64)
