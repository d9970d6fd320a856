"""The protocols between the packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from spom.core.arrays import Floats
from spom.core.state import State


@runtime_checkable
class Penalty(Protocol):
    """Omega(w), with its strength in it; +inf outside a set.

    Traits: `convex`; `separable` (a sum over coordinates); `indicator` (values 0 and +inf only);
    `homogeneous` (value(c w) = c value(w) for c > 0); `semigroup` (prox by s, then by t, is prox by s + t).
    Solvers ask for forms such as `elastic()`; derive from `spom.penalties.Penalty`, where they are None.
    """

    convex: bool
    separable: bool
    indicator: bool
    homogeneous: bool
    semigroup: bool

    def value(self, w: ArrayLike) -> float:
        """Omega(w)."""
        ...

    def prox(self, w: ArrayLike, step: float = 1.0, out: Floats | None = None) -> Floats:
        """argmin over x of 1/2 norm(x - w)^2 + step * value(x)."""
        ...

    def conjugate(self) -> Penalty:
        """Return the Fenchel conjugate, sup over x of <x, y> - value(x), as a penalty."""
        ...

    def max_strength(self, gradient_at_zero: ArrayLike) -> float:
        """Return the smallest strength at which w = 0 is optimal, given the loss's gradient at 0."""
        ...


@runtime_checkable
class Loss(Protocol):
    """phi(y, a), a function of scores, so that dense, sparse and kernel models share it."""

    def value(self, y: ArrayLike, a: ArrayLike) -> Floats:
        """Return the loss of each example."""
        ...

    def derivative(self, y: ArrayLike, a: ArrayLike) -> Floats:
        """Return the left derivative in a of each example."""
        ...

    @property
    def hoelder(self) -> tuple[float, float]:
        """(exponent, constant) with abs(phi'(a) - phi'(b)) <= constant * abs(a - b)^exponent."""
        ...

    @property
    def lipschitz(self) -> float:
        """An upper bound on abs(phi'), +inf if there is none."""
        ...


@runtime_checkable
class MirrorMap(Protocol):
    """Psi, strongly convex: `to_dual` is its gradient and `to_primal` the inverse of the gradient."""

    def value(self, w: ArrayLike) -> float:
        """Psi(w)."""
        ...

    def to_dual(self, w: ArrayLike) -> Floats:
        """Return the gradient of Psi at w."""
        ...

    def to_primal(self, v: ArrayLike) -> Floats:
        """Return the point at which the gradient of Psi is v."""
        ...

    def divergence(self, w: ArrayLike, u: ArrayLike) -> float:
        """Return the Bregman distance of w from u."""
        ...

    def modulus(self, dimension: int) -> float:
        """Return the constant of strong convexity with respect to the map's norm."""
        ...

    def prox(self, penalty: Any, dual: ArrayLike, step: float) -> Floats:
        """argmin over w of step * penalty(w) + Psi(w) - <dual, w>; `Unsupported` where no closed form is known."""
        ...


@runtime_checkable
class Kernel(Protocol):
    """A positive semidefinite function of two vectors, in blocks."""

    def block(self, X: ArrayLike, Z: ArrayLike, out: Any = None) -> Any:
        """Return the Gram block K(X, Z), as CSR for a sparse kernel."""
        ...

    def diagonal(self, X: ArrayLike) -> Floats:
        """Return K(x, x) for each row x."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """The admissible outputs of a structured predictor. A missing mode raises an error, without a fallback."""

    def best(self, scores: Any) -> Any:
        """Return the output with the highest score."""
        ...

    def best_augmented(self, scores: Any, gold: Any, cost: Any) -> Any:
        """Return the output with the highest score plus cost against the gold output."""
        ...

    def marginals(self, scores: Any) -> tuple[Any, float]:
        """Return the expected parts under the Gibbs distribution, and the log partition function."""
        ...


@runtime_checkable
class Solver(Protocol):
    """An iterator of states; stopping, progress and history are combinators over any solver."""

    def __iter__(self) -> Iterator[State]: ...
