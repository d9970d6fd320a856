"""Linearly independent atoms: with x = A c the atomic norm is the l1 norm of c, so the l1 solutions carry over."""

from __future__ import annotations

from dataclasses import replace

from spom.core.arrays import Floats
from spom.norms.atomic import AtomicNorm
from spom.norms.greedy import L1BallGreedy, L1Greedy
from spom.norms.result import ProxResult


class InCoordinates:
    """A greedy l1 method in the coordinates of an atomic norm: u -> A^-1 u, z -> A^T z, p -> A^-T p."""

    def __init__(self, norm: AtomicNorm, inner: L1Greedy | L1BallGreedy) -> None:
        self.norm, self.inner = norm, inner

    def solve(self, u: Floats, z: Floats, L: float, t: float) -> ProxResult:
        """The general prox for L > 0; for L = 0 the local conjugate at t."""
        norm = self.norm
        inner = self.inner.solve(norm.coordinates(u), norm.correlations(z), L, t)
        # Objective and dual bound are the same numbers in both coordinates.
        return replace(inner, x=norm.combine(inner.x), p=norm.lift(inner.p))
