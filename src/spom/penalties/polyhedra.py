"""Polyhedral penalties as matrices: g(x) = min over w >= 0 of cost . w with lower <= A x + B w <= upper.

Any convex piecewise linear function has this form. `penalty.polyhedron(p)` gives it to solvers of linear programs;
the functions here build the common shapes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats


class Polyhedron(NamedTuple):
    """The sparse matrices, with one row per constraint."""

    A: Any
    B: Any
    cost: Floats
    lower: Floats
    upper: Floats


def between(A: Any, lower: Any, upper: Any) -> Polyhedron:
    """Return the set lower <= A x <= upper; A = None is the identity of the size of `lower`.

    >>> between(None, np.zeros(2), 1.0).upper
    array([1., 1.])
    """
    A = scipy.sparse.identity(len(lower), format="csr") if A is None else scipy.sparse.csr_matrix(A)
    rows = A.shape[0]
    low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), rows) for b in (lower, upper))
    return Polyhedron(A, scipy.sparse.csr_matrix((rows, 0)), np.zeros(0), low, high)


def combinations(atoms: Any, price: float | None = None, budget: float = 0.0) -> Polyhedron:
    """Return x = atoms (w+ - w-), w >= 0, with a cost per unit of w, or else with a budget for its sum.

    The atoms are the columns of a matrix, or, if their number is given, those of the identity.
    """
    atoms = scipy.sparse.identity(atoms) if isinstance(atoms, int) else scipy.sparse.csr_matrix(atoms)
    p, m = atoms.shape
    A, B = scipy.sparse.identity(p, format="csr"), scipy.sparse.hstack([-atoms, atoms], format="csr")
    if price is not None:
        return Polyhedron(A, B, np.full(2 * m, float(price)), np.zeros(p), np.zeros(p))
    A = scipy.sparse.vstack([A, scipy.sparse.csr_matrix((1, p))], format="csr")
    B = scipy.sparse.vstack([B, np.ones((1, 2 * m))], format="csr")
    return Polyhedron(A, B, np.zeros(2 * m), np.zeros(p + 1), np.append(np.zeros(p), budget))


def covered(cover: Any, cost: Floats, A: Any = None) -> Polyhedron:
    """Return abs(A x) <= cover w with a cost for each w; A = None is the identity."""
    cover = scipy.sparse.csr_matrix(cover)
    A = scipy.sparse.identity(cover.shape[0], format="csr") if A is None else A
    both, bound = scipy.sparse.vstack([A, -A], format="csr"), scipy.sparse.vstack([-cover, -cover], format="csr")
    return Polyhedron(both, bound, cost, np.full(both.shape[0], -np.inf), np.zeros(both.shape[0]))


def stacked(parts: list[Polyhedron], p: int) -> Polyhedron:
    """Return the sum of the penalties of `parts`, each with its own variables w."""
    if not parts:
        return between(scipy.sparse.csr_matrix((0, p)), np.zeros(0), np.zeros(0))
    return Polyhedron(
        scipy.sparse.vstack([part.A for part in parts], format="csr"),
        scipy.sparse.block_diag([part.B for part in parts], format="csr"),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("cost", "lower", "upper")),
    )
