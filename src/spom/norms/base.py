"""The norms by name: value and dual norm. `AtomicNorm` has the same two methods."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from spom.core.arrays import Floats
from spom.errors import Unsupported


class Norm(Protocol):
    """A norm, as the solvers of this package use it."""

    name: str

    def value(self, x: Floats) -> float:
        """norm(x)."""
        ...

    def dual(self, p: Floats) -> float:
        """max of <p, x> over norm(x) <= 1."""
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
        return _lp(x, self._order)

    def dual(self, p: Floats) -> float:
        """The dual norm of p."""
        return _lp(p, self._dual_order)

    def __repr__(self) -> str:
        return f"<the {self.name} norm>"


def _lp(x: Floats, order: float) -> float:
    flat = x.reshape(-1)
    if order == 1:
        return float(np.abs(flat).sum())
    if order == 2:
        return float(np.linalg.norm(flat))
    return float(np.abs(flat).max(initial=0.0))


NORMS = {"l1": LpNorm("l1", 1, np.inf), "l2": LpNorm("l2", 2, 2), "linf": LpNorm("linf", np.inf, 1)}


def as_norm(norm: Any) -> Norm:
    """A norm from its name, or the object itself if it is one."""
    if isinstance(norm, str):
        if norm not in NORMS:
            raise Unsupported(f"there is no norm {norm!r}; use 'l1', 'l2', 'linf' or an AtomicNorm")
        return NORMS[norm]
    if not hasattr(norm, "value") or not hasattr(norm, "dual"):
        raise Unsupported(f"{norm!r} is no norm; use 'l1', 'l2', 'linf' or an AtomicNorm")
    found: Norm = norm
    return found
