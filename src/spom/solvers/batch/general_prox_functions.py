"""Prox-functions d for the accelerated method: strongly convex in the norm, smallest at x0, with an easy argmin.

    d(x) = 1/2 norm_q(x - x0)^2,   argmin over x of <S, x> + d(x) / sigma = x0 - gradient of 1/2 norm_q*^2 at sigma S

sigma is the modulus of strong convexity of d with respect to the norm of the proximal step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.norms.atomic import AtomicNorm


def best_epsilon(p: int) -> float:
    """Return the eps in (0, 1] for which sigma = eps / p^(2 eps / (1 + eps)) is largest; about 1 / (2 ln p - 2).

    >>> round(best_epsilon(1000), 3)
    0.085
    """
    log = np.log(max(p, 2))
    inner = log - 1.0 - np.sqrt(log * log - 2.0 * log) if log > 2.0 else 1.0
    inner = min(inner, 1.0)
    return float(inner if modulus(inner, p) >= modulus(1.0, p) else 1.0)


def modulus(eps: float, p: int) -> float:
    """Return the modulus of strong convexity of 1/2 norm_{1+eps}^2 with respect to the l1 norm in p dimensions."""
    return float(eps * max(p, 1) ** (-2.0 * eps / (1.0 + eps)))


def half_square_gradient(v: Floats, q: float) -> Floats:
    """Return the gradient of 1/2 norm_q^2, scaled by the largest entry so that no power overflows."""
    top = float(np.abs(v).max(initial=0.0))
    if top == 0.0:
        return np.zeros_like(v)
    if q == 2.0:
        return v.copy()
    r = np.abs(v) / top
    found: Floats = top * np.sign(v) * r ** (q - 1.0) * float((r**q).sum()) ** ((2.0 - q) / q)
    return found


class ProxFunction:
    """1/2 norm_q(x - x0)^2 in the coordinates of a norm; q = 2 for l2 and l-inf, 1 + eps for l1 and atoms."""

    def __init__(self, norm: Any, x0: Floats, q: float | None = None) -> None:
        self.x0, self.norm = x0, norm
        self.atomic: AtomicNorm | None = norm if isinstance(norm, AtomicNorm) and norm.independent else None
        size = x0.size if self.atomic is None else self.atomic.shape[1]
        l1 = norm.name == "l1" or self.atomic is not None
        self.q = float(q) if q is not None else (1.0 + best_epsilon(size) if l1 else 2.0)
        if not 1.0 < self.q <= 2.0:
            raise ValueError(f"the prox-function needs 1 < q <= 2; q is {self.q}")
        if not l1 and self.q != 2.0:
            raise ValueError(f"in the {norm.name} norm the prox-function has q = 2; q is {self.q}")
        self.dual_q = self.q / (self.q - 1.0)
        self.sigma = modulus(self.q - 1.0, size) if l1 else self._euclidean_modulus()

    def _euclidean_modulus(self) -> float:
        """Return sigma with sigma norm(x)^2 <= norm2(x)^2."""
        if not isinstance(self.norm, AtomicNorm):
            return 1.0
        # norm(x) <= norm1(A+ x) <= sqrt(m) norm2(x) / the smallest singular value of A.
        matrix = self.norm.matrix
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        return float(np.linalg.svd(dense, compute_uv=False)[-1] ** 2 / dense.shape[1])

    def value(self, x: Floats) -> float:
        """d(x)."""
        c = x - self.x0 if self.atomic is None else self.atomic.coordinates(x - self.x0)
        top = float(np.abs(c).max(initial=0.0))
        if top == 0.0:
            return 0.0
        return 0.5 * top * top * float(np.sum((np.abs(c) / top) ** self.q) ** (2.0 / self.q))

    def argmin(self, S: Floats) -> Floats:
        """Return the x that minimises <S, x> + d(x) / sigma."""
        if self.atomic is None:
            return self.x0 - half_square_gradient(self.sigma * S, self.dual_q)
        inner = half_square_gradient(self.sigma * self.atomic.correlations(S), self.dual_q)
        return self.x0 - self.atomic.combine(inner)
