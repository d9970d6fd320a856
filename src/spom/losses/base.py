"""The base classes of losses: checks of targets and scores, and the traits that solvers use."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spom.core.arrays import Floats, as_floats, check_finite
from spom.core.registry import Parameters

NO_REALS: Floats = np.zeros(0)


class Loss(Parameters):
    """phi(y, a): convex in the score a, and zero or more.

    `value`, `derivative` and `conjugate` are vectorised over examples. Scores may be of any finite size:
    a value is +inf only if the true value exceeds the largest float.
    """

    # The kind of y: "sign" (-1 or +1), "real", or "class" (an index, with one score per class).
    target: ClassVar[str] = "sign"
    # (exponent, constant) with norm(phi'(a) - phi'(b)) <= constant * norm(a - b)^exponent.
    hoelder: Any
    # An upper bound on the norm of phi', +inf if there is none.
    lipschitz: Any
    # phi - c/2 a^2 is convex for this c.
    strong_convexity: ClassVar[float] = 0.0
    # Whether `probability` turns scores into probabilities.
    probabilistic: ClassVar[bool] = False

    # --- implemented by each loss ------------------------------------------------------------------

    def _value(self, y: Any, a: Floats) -> Any:
        raise NotImplementedError  # every loss has its own

    def _derivative(self, y: Any, a: Floats) -> Any:
        raise NotImplementedError  # every loss has its own

    def _conjugate(self, y: Any, u: Floats) -> Any:
        raise NotImplementedError  # every loss has its own

    def _pair(self, y: ArrayLike, a: ArrayLike, name: str) -> tuple[Any, Floats]:
        raise NotImplementedError  # by the kind of target

    def _reals(self) -> Floats:
        """Return the numbers that the compiled kernels take."""
        return NO_REALS

    # --- public methods ----------------------------------------------------------------------------

    def value(self, y: ArrayLike, a: ArrayLike) -> Floats:
        """phi(y, a) of each example."""
        checked, scores = self._pair(y, a, "a")
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(self._value(checked, scores), dtype=np.float64)

    def derivative(self, y: ArrayLike, a: ArrayLike) -> Floats:
        """Return the derivative in a of each example; the left one at a kink."""
        checked, scores = self._pair(y, a, "a")
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(self._derivative(checked, scores), dtype=np.float64)

    def conjugate(self, y: ArrayLike, u: ArrayLike) -> Floats:
        """sup over a of u a - phi(y, a), of each example; +inf outside its domain."""
        checked, duals = self._pair(y, u, "u")
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(self._conjugate(checked, duals), dtype=np.float64)

    def probability(self, a: ArrayLike) -> Floats:
        """Return the probabilities that the scores stand for, if the loss is a likelihood."""
        raise AttributeError(f"{type(self).__name__} gives no probabilities; the logistic losses do")


class BinaryLoss(Loss):
    """A loss of one score per example; y and a have the same shape, or one of them is a number."""

    # Scalar kernels of the signature `core.jit.DERIVATIVE`.
    _value_kernel: ClassVar[Any] = None
    _derivative_kernel: ClassVar[Any] = None

    def compiled(self) -> tuple[Any, Any, Floats]:
        """Return (value, derivative, reals): compiled functions of (y, score, reals), for solver loops."""
        return self._value_kernel, self._derivative_kernel, self._reals()

    def _pair(self, y: ArrayLike, a: ArrayLike, name: str) -> tuple[Floats, Floats]:
        targets, scores = _reals_of(y, "y"), _reals_of(a, name)
        if targets.shape != scores.shape and targets.ndim and scores.ndim:
            raise ValueError(f"y and {name} must have one shape; they have {targets.shape} and {scores.shape}")
        if self.target == "sign":
            wrong = np.flatnonzero(np.abs(targets) != 1.0)
            if wrong.size:
                raise ValueError(f"labels must be -1 or +1; entry {wrong[0]} is {targets.flat[wrong[0]]:g}")
        return targets, scores


class PowerLoss(Loss):
    """A loss to the power q, 1 <= q <= 2: beyond 2 no Hoelder constant holds for all scores."""

    q: float

    def _check(self) -> None:
        number = isinstance(self.q, (int, float, np.integer, np.floating)) and not isinstance(self.q, bool)
        if not number or not 1 <= self.q <= 2:
            raise ValueError(f"q must be a number from 1 to 2; it is {self.q!r}")

    def _reals(self) -> Floats:
        return np.array([self.q], dtype=np.float64)

    @property
    def lipschitz(self) -> float:
        """1 for q = 1, else infinite."""
        return 1.0 if self.q == 1 else np.inf


class MulticlassLoss(Loss):
    """A loss of k scores per example: y holds class indices from 0, a has the shape (n, k).

    Norms in `hoelder` and `lipschitz` are Euclidean. A single example may be given as (y, scores) with y a
    number and scores a vector.
    """

    target: ClassVar[str] = "class"
    # Fills the derivative row in place and returns the value; signature `core.jit.DERIVATIVE_ROW`.
    _row_kernel: ClassVar[Any] = None

    def compiled(self) -> tuple[Any, Floats]:
        """Return (row, reals): row(y, scores, reals, out) fills `out` (which may be `scores`), returns the value."""
        return self._row_kernel, self._reals()

    def _pair(self, y: ArrayLike, a: ArrayLike, name: str) -> tuple[NDArray[np.int64], Floats]:
        scores, labels = _reals_of(a, name), _reals_of(y, "y")
        if scores.ndim == 0 or scores.shape[-1] == 0 or scores.shape[:-1] != labels.shape:
            raise ValueError(
                f"{name} must have one row for each entry of y and one column per class; "
                f"the shapes are {scores.shape} and {labels.shape}"
            )
        wrong = np.flatnonzero((labels != np.floor(labels)) | (labels < 0) | (labels >= scores.shape[-1]))
        if wrong.size:
            raise ValueError(
                f"y must hold class indices from 0 to {scores.shape[-1] - 1}; "
                f"entry {wrong[0]} is {labels.flat[wrong[0]]:g}"
            )
        return labels.astype(np.int64), scores


def _reals_of(values: ArrayLike, name: str) -> Floats:
    """Return `values` as finite floats of up to two dimensions; a number stays a number."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub" or raw.ndim > 2:
        raise ValueError(f"{name} must be real numbers, at most a matrix of them; got {raw.dtype}, {raw.ndim}-d")
    check_finite(as_floats(raw.reshape(-1)), name)
    return np.asarray(raw, dtype=np.float64)


def simplex_or_none(y: NDArray[np.int64], u: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return v = u + e_y, and which of its rows are probability vectors up to rounding."""
    v = u.copy()
    np.put_along_axis(v, y[..., None], np.take_along_axis(v, y[..., None], -1) + 1.0, -1)
    slack = 1e-12 * max(1, v.shape[-1])
    inside = (v >= -slack).all(axis=-1) & (np.abs(v.sum(axis=-1) - 1.0) <= slack)
    return np.maximum(v, 0.0), inside
