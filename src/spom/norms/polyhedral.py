"""Polyhedral penalties as matrices: g(x) = min over w >= 0 of cost . w with lower <= A x + B w <= upper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.core.lp import LinearProgram, LinearProgramError
from spom.errors import Unsupported
from spom.norms.atomic import AtomicBall, AtomicPenalty
from spom.penalties.base import Penalty
from spom.penalties.box import Box
from spom.penalties.group_linf import GroupLInf
from spom.penalties.l1 import L1
from spom.penalties.l1_ball import L1Ball
from spom.penalties.latent_group_lasso import LatentGroupLasso
from spom.penalties.linf import LInf
from spom.penalties.linf_ball import LInfBall
from spom.penalties.simplex import Simplex
from spom.penalties.sum import Sum
from spom.penalties.tree_group_lasso import TreeGroupLasso
from spom.penalties.zero import Zero


@dataclass(frozen=True)
class Matrices:
    """The matrices of a polyhedral penalty."""

    A: Any
    B: Any
    cost: Floats
    lower: Floats
    upper: Floats


class Polyhedral(Penalty):
    """g(x) = min over w >= 0 of cost . w subject to lower <= A x + B w <= upper; +inf where no w fits.

    Any convex piecewise linear function is of this form. Leave out `B` and `cost` for a plain polyhedron.

    >>> hinge = Polyhedral(A=[[1.0]], B=[[-1.0]], cost=[2.0], upper=[1.0])
    >>> hinge.value([3.0])
    4.0
    """

    def __init__(self, A: Any, B: Any = None, cost: Any = None, lower: Any = -np.inf, upper: Any = np.inf) -> None:
        self.A, self.B, self.cost, self.lower, self.upper = A, B, cost, lower, upper
        self._check()

    def _check(self) -> None:
        A = sparse.csr_matrix(np.atleast_2d(self.A) if not sparse.issparse(self.A) else self.A, dtype=np.float64)
        rows = A.shape[0]
        if self.B is None:
            B = sparse.csr_matrix((rows, 0))
        else:
            B = sparse.csr_matrix(np.atleast_2d(self.B) if not sparse.issparse(self.B) else self.B, dtype=np.float64)
        if B.shape[0] != rows:
            raise ValueError(f"A has {rows} rows and B has {B.shape[0]}; they must be the same rows")
        cost = np.zeros(B.shape[1]) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        if cost.shape != (B.shape[1],):
            raise ValueError(f"cost has shape {cost.shape}; B has {B.shape[1]} columns")
        try:
            lower = np.broadcast_to(np.asarray(self.lower, dtype=np.float64), rows)
            upper = np.broadcast_to(np.asarray(self.upper, dtype=np.float64), rows)
        except ValueError:
            raise ValueError(f"lower and upper must be numbers, or vectors of {rows}") from None
        finite = np.isfinite(A.data).all() and np.isfinite(B.data).all() and np.isfinite(cost).all()
        if not finite or np.isnan(lower).any() or np.isnan(upper).any():
            raise ValueError("A, B and cost must be finite, and lower and upper must not be NaN")
        self._rows = Matrices(A, B, cost, lower, upper)

    def _value(self, w: Floats) -> float:
        rows = self._rows
        if w.shape != (rows.A.shape[1],):
            raise ValueError(f"A has {rows.A.shape[1]} columns, but x has shape {w.shape}")
        shift = rows.A @ w
        what = "the value of the polyhedral penalty"
        # A point that a program found satisfies its rows only up to that program's tolerance.
        slack = 1e-8 * max(1.0, float(np.abs(shift).max(initial=0.0)))
        if not rows.cost.size:
            inside = np.all(shift >= rows.lower - slack) and np.all(shift <= rows.upper + slack)
            return 0.0 if inside else np.inf
        for extra in (0.0, slack):
            low, high = rows.lower - shift - extra, rows.upper - shift + extra
            program = LinearProgram(rows.cost, rows.B, row_lower=low, row_upper=high, what=what)
            try:
                return program.solve().objective
            except LinearProgramError as error:
                if error.reason != "infeasible":
                    raise
        return np.inf

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        raise Unsupported("a polyhedral penalty has no Euclidean prox here; use general_prox in an atomic norm")


def is_polyhedral(penalty: Any) -> bool:
    """Return whether `as_rows` knows the penalty's matrices."""
    if isinstance(penalty, Sum):
        return all(is_polyhedral(term) for term in penalty.terms)
    if isinstance(penalty, TreeGroupLasso):
        return penalty.norm == np.inf
    if isinstance(penalty, LatentGroupLasso):
        return penalty.q == np.inf
    if isinstance(penalty, (AtomicPenalty, AtomicBall)):
        return not hasattr(penalty.norm.atoms, "matvec")
    known = (Zero, L1, L1Ball, LInf, LInfBall, Simplex, Box, GroupLInf, Polyhedral)
    return isinstance(penalty, known)


def as_rows(penalty: Any, p: int) -> Matrices:
    """Return the matrices of a penalty of p coordinates."""
    if isinstance(penalty, Polyhedral):
        if penalty._rows.A.shape[1] != p:
            raise ValueError(f"A has {penalty._rows.A.shape[1]} columns; the point has {p} coordinates")
        return penalty._rows
    if isinstance(penalty, Sum):
        return _stack([as_rows(term, p) for term in penalty.terms], p)
    eye = sparse.identity(p, format="csr")
    if isinstance(penalty, (L1, L1Ball)):
        return _split(eye, penalty, p)
    if isinstance(penalty, (AtomicPenalty, AtomicBall)):
        return _split(sparse.csr_matrix(penalty.norm.matrix), penalty, p)
    if isinstance(penalty, LInf):
        return _cover(np.ones((p, 1)), np.array([penalty.strength]))
    if isinstance(penalty, LInfBall):
        return _plain(eye, -penalty.radius, penalty.radius)
    if isinstance(penalty, Simplex):
        A = sparse.vstack([eye, np.ones((1, p))])
        return _plain(A, np.append(np.zeros(p), penalty.radius), np.append(np.full(p, np.inf), penalty.radius))
    if isinstance(penalty, Box):
        return _plain(eye, *(np.broadcast_to(np.asarray(b, float), p) for b in (penalty.lower, penalty.upper)))
    if isinstance(penalty, LatentGroupLasso):
        return _cover(penalty.membership((p,)), np.full(penalty.membership((p,)).shape[1], penalty.strength))
    if isinstance(penalty, (GroupLInf, TreeGroupLasso)):
        return _group_rows(penalty, p)
    if isinstance(penalty, Zero):
        return _plain(sparse.csr_matrix((0, p)), np.zeros(0), np.zeros(0))
    raise Unsupported(f"{type(penalty).__name__} is not known to be polyhedral; give it as Polyhedral(A, B, cost)")


def _plain(A: Any, lower: Any, upper: Any) -> Matrices:
    rows = A.shape[0]
    low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), rows) for b in (lower, upper))
    return Matrices(sparse.csr_matrix(A), sparse.csr_matrix((rows, 0)), np.zeros(0), low, high)


def _split(atoms: Any, penalty: Any, p: int) -> Matrices:
    """x = atoms (w+ - w-), at a cost for each unit, or with a budget for all."""
    m = atoms.shape[1]
    A, B = sparse.identity(p, format="csr"), sparse.hstack([-atoms, atoms], format="csr")
    if not penalty.indicator:
        return Matrices(A, B, np.full(2 * m, float(penalty.strength)), np.zeros(p), np.zeros(p))
    A = sparse.vstack([A, sparse.csr_matrix((1, p))], format="csr")
    B = sparse.vstack([B, np.ones((1, 2 * m))], format="csr")
    return Matrices(A, B, np.zeros(2 * m), np.append(np.zeros(p), 0.0), np.append(np.zeros(p), penalty.radius))


def _cover(cover: Any, cost: Floats, A: Any = None) -> Matrices:
    """abs(A x) <= cover w."""
    cover = sparse.csr_matrix(cover)
    A = sparse.identity(cover.shape[0], format="csr") if A is None else A
    rows = 2 * cover.shape[0]
    upper = np.zeros(rows)
    return Matrices(
        sparse.vstack([A, -A], format="csr"),
        sparse.vstack([-cover, -cover], format="csr"),
        cost,
        np.full(rows, -np.inf),
        upper,
    )


def _group_rows(penalty: Any, p: int) -> Matrices:
    """abs(x_i) <= w_m for each i of group m; a coordinate may be in several groups of a tree."""
    groups, weights, _ = penalty._structure((p,))
    members = [groups.members(m) for m in range(groups.count)]
    picks = np.concatenate(members) if members else np.zeros(0, dtype=np.int64)
    owner = np.repeat(np.arange(groups.count), [part.size for part in members])
    A = sparse.identity(p, format="csr")[picks]
    cover = sparse.csr_matrix((np.ones(picks.size), (np.arange(picks.size), owner)), shape=(picks.size, groups.count))
    return _cover(cover, penalty.strength * weights, A)


def _stack(parts: list[Matrices], p: int) -> Matrices:
    if not parts:
        return _plain(sparse.csr_matrix((0, p)), np.zeros(0), np.zeros(0))
    return Matrices(
        sparse.vstack([part.A for part in parts], format="csr"),
        sparse.block_diag([part.B for part in parts], format="csr"),
        np.concatenate([part.cost for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
    )
