"""The base class of mirror maps: the checks of input and the composite step."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, as_finite, check_finite, check_positive, output_like
from spom.core.registry import Parameters
from spom.errors import Unsupported

# The signature of both directions of every map: (x, reals, out) -> None; `out` may be `x`.
MAP = "void(float64[::1], float64[::1], float64[::1])"


class MirrorMap(Parameters):
    """Psi, strongly convex and differentiable; `to_dual` is its gradient, `to_primal` the inverse of the gradient.

    A matrix is treated as the vector of its entries. The default is 1-strong convexity in the Euclidean norm.
    """

    # The penalties for which `prox` has a closed form, in words.
    pairs: ClassVar[str] = "every penalty"
    _dual_kernel: ClassVar[Any] = None
    _primal_kernel: ClassVar[Any] = None

    # --- implemented by each map -------------------------------------------------------------------

    def _value(self, w: Floats) -> float:
        raise NotImplementedError  # every map has its own

    def _divergence(self, w: Floats, u: Floats) -> float:
        raise NotImplementedError  # every map has its own

    def _reals(self, dimension: int) -> Floats:
        """Return the numbers that the compiled kernels take."""
        return np.zeros(0)

    def _prox(self, penalty: Any, dual: Floats, step: float) -> Floats:
        raise NotImplementedError  # every map has its own

    def norm(self, w: ArrayLike) -> float:
        """Return the norm in which the map is strongly convex."""
        return euclidean_norm(as_finite(w))

    def dual_norm(self, v: ArrayLike) -> float:
        """Return the dual of `norm`, which measures gradients."""
        return euclidean_norm(as_finite(v, "v"))

    def modulus(self, dimension: int | None = None) -> float:
        """Return the sigma in divergence(w, u) >= sigma/2 norm(w - u)^2."""
        return 1.0

    # --- public methods ----------------------------------------------------------------------------

    def value(self, w: ArrayLike) -> float:
        """Psi(w)."""
        with np.errstate(over="ignore", under="ignore"):
            return float(self._value(as_finite(w)))

    def to_dual(self, w: ArrayLike, out: Floats | None = None) -> Floats:
        """Return the gradient of Psi at w; `out` may be `w` itself."""
        return self._map(self._dual_kernel, as_finite(w), out)

    def to_primal(self, v: ArrayLike, out: Floats | None = None) -> Floats:
        """Return the point whose gradient is v; `out` may be `v` itself."""
        return self._map(self._primal_kernel, as_finite(v, "v"), out)

    def divergence(self, w: ArrayLike, u: ArrayLike) -> float:
        """Return the Bregman distance Psi(w) - Psi(u) - <w - u, to_dual(u)>, which is >= 0."""
        a, b = as_finite(w), as_finite(u, "u")
        _same_shape(a, b, "u")
        with np.errstate(over="ignore", under="ignore"):
            return float(self._divergence(a, b))

    def prox(self, penalty: Any, dual: ArrayLike, step: float = 1.0) -> Floats:
        """argmin over w of step * penalty(w) + Psi(w) - <dual, w>; `Unsupported` without a closed form."""
        v = as_finite(dual, "dual")
        step = check_positive(step, "step")
        return self.to_primal(v) if penalty is None else self._prox(penalty, v, step)

    def step(self, w: ArrayLike, gradient: ArrayLike, eta: float, penalty: Any = None) -> Floats:
        """Take one composite step: argmin over x of eta <gradient, x> + eta penalty(x) + divergence(x, w)."""
        v, g = self.to_dual(w), as_finite(gradient, "gradient")
        _same_shape(v, g, "gradient")
        eta = check_positive(eta, "eta")
        with np.errstate(over="ignore", under="ignore"):
            moved = check_finite(v - eta * g, "to_dual(w) - eta * gradient")
        return self.prox(penalty, moved, eta)

    def compiled(self, dimension: int) -> tuple[Any, Any, Floats]:
        """Return (to_dual, to_primal, reals): compiled functions of (x, reals, out), for solver loops."""
        return self._dual_kernel, self._primal_kernel, self._reals(dimension)

    # --- helpers -----------------------------------------------------------------------------------

    def _map(self, kernel: Any, x: Floats, out: Floats | None) -> Floats:
        result = output_like(x, out)
        if out is not None and out is not x and np.may_share_memory(out, x):
            x = x.copy()
        kernel(x.reshape(-1), self._reals(x.size), result.reshape(-1))
        return result

    def _unsupported(self, penalty: Any) -> Unsupported:
        return Unsupported(
            f"the composite step of {self!r} with {penalty!r} has no known closed form; "
            f"{type(self).__name__} works with {self.pairs}, and Euclidean with every penalty"
        )


def euclidean_norm(w: Floats) -> float:
    """norm2(w), also if the squares would overflow."""
    largest = float(np.abs(w).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    with np.errstate(over="ignore", under="ignore"):
        return largest * float(np.linalg.norm((w / largest).reshape(-1)))


def _same_shape(w: Floats, other: Floats, name: str) -> None:
    if w.shape != other.shape:
        raise ValueError(f"w and {name} must have one shape; they have {w.shape} and {other.shape}")
