"""The base of all penalties: parameters, checks of input, and defaults derived from `value` and `prox`.

A penalty is one file. It has a class with `_value`, a compiled kernel `_kernel` of the shared signature
`core.jit.PROX` with its numbers from `_packed`, `conjugate` or `_conjugate_value`, its traits, and the forms
(`spom.penalties.forms`) that make solvers fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_finite, as_floats, check_finite, check_positive, output_like
from spom.core.registry import Parameters
from spom.errors import Unsupported
from spom.penalties.forms import NO_ELASTIC, Elastic, NormSum, OwnBlocks, Split

if TYPE_CHECKING:
    from spom.penalties.calculus import Conjugate
    from spom.penalties.polyhedra import Polyhedron

NO_INTS: Ints = np.zeros(0, dtype=np.int64)
NO_REALS: Floats = np.zeros(0)
LARGEST = float(np.finfo(np.float64).max)


class Penalty(Parameters):
    """The base of all penalties: argmin of 1/2 norm(x - w)^2 + step * value(x), with checks of input."""

    # Traits. Most operators override them with a plain class attribute, some with a property of their own.

    convex: bool = True

    @property
    def separable(self) -> bool:
        """Whether the penalty is a sum over coordinates."""
        return False

    @property
    def indicator(self) -> bool:
        """Whether the only values are 0 and +inf, as for a set."""
        return False

    @property
    def homogeneous(self) -> bool:
        """Whether value(c w) = c value(w) for c > 0."""
        return False

    @property
    def semigroup(self) -> bool:
        """Whether prox by s, then by t, is prox by s + t; `skip` then takes the sum of the steps."""
        return False

    # Whether the prox of l1 followed by this prox is the prox of the sum: this one depends on magnitudes alone, and
    # shrinks the result of a soft threshold along the same direction.
    follows_l1: bool = False
    # Whether it is a function of the l2 norm alone: applied last, it scales the result of a homogeneous penalty.
    radial: bool = False

    @property
    def exact(self) -> bool:
        """Whether `prox` is the argmin itself, and not a sequence of proxes that approximates it."""
        return True

    _kernel: ClassVar[Any] = None

    # --- what an operator defines -------------------------------------------------------------------

    def _value(self, w: Floats) -> float:
        raise NotImplementedError  # every operator has its own

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        """Return the numbers that the kernel takes, for arrays of this shape: (reals, ints)."""
        raise Unsupported(f"{type(self).__name__} has no compiled prox")

    def _conjugate_value(self, y: Floats) -> float:
        raise Unsupported(f"the conjugate of {type(self).__name__} has no closed form here")

    # --- forms for solvers: see `spom.penalties.forms` ----------------------------------------

    def elastic(self) -> Elastic | None:
        """Return (l1, l2) where the penalty is l1 norm1(w) + l2/2 norm2(w)^2."""
        return None

    def on_norms(self, count: int) -> Penalty | None:
        """Return the penalty h of a vector of `count` norms where this one is h(norm2(w_1), ..., norm2(w_count)).

        The blocks are those of the estimator. A penalty of norms needs `value`, `prox`, `conjugate` and `compiled`.
        """
        elastic = self.elastic()
        if elastic is None or elastic.l1 > 0.0:
            return None
        from spom.penalties.squared_l2 import SquaredL2
        from spom.penalties.zero import Zero

        return SquaredL2(elastic.l2) if elastic.l2 > 0.0 else Zero()

    def on_rows(self, count: int) -> Penalty | None:
        """Return the same for a matrix of `count` rows: groups, if the penalty has any, are groups of rows."""
        return self.on_norms(count)

    def split(self, count: int) -> Split | None:
        """Return an elastic form of the coordinates, then a penalty of the norms of `count` blocks."""
        from spom.penalties.zero import Zero

        elastic, norms = self.elastic(), self.on_norms(count)
        if elastic is not None:
            return Split(elastic, Zero())
        return None if norms is None else Split(NO_ELASTIC, norms)

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the penalty as a weighted sum of the norms of `count` blocks plus squared l2, where it is one."""
        elastic = self.elastic()
        return NormSum(2.0, 0.0, NO_REALS, elastic.l2) if elastic is not None and elastic.l1 == 0.0 else None

    def own_blocks(self, shape: tuple[int, ...]) -> OwnBlocks | None:
        """Return the groups given to the penalty, and the same penalty with these as the estimator's blocks."""
        return None

    def restrict(self, kept: Ints, size: int) -> Penalty | None:
        """Return the same penalty on the coordinates (rows) `kept`, where the others of `size` are zero."""
        return self if self.elastic() is not None else None

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return the matrices of a piecewise linear penalty of p coordinates: see `spom.penalties.polyhedra`."""
        return None

    # --- what users call ---------------------------------------------------------------------------

    def value(self, w: ArrayLike) -> float:
        """Return the penalty of `w`; +inf outside a set."""
        return float(self._value(as_finite(w)))

    def prox(self, w: ArrayLike, step: float = 1.0, out: Floats | None = None) -> Floats:
        """argmin over x of 1/2 norm(x - w)^2 + step * value(x); `out` may be `w` itself."""
        a = as_floats(w)
        self._check_input(a)
        step = check_positive(step, "step")
        result = output_like(a, out)
        if out is not None and out is not a and np.may_share_memory(out, a):
            a = a.copy()
        self._prox(a, step, result)
        return result

    def _check_input(self, w: Floats) -> None:
        """Raise an error for NaN and infinities, before anything is written."""
        check_finite(w)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        """Write the prox of checked input into `out`, which is `w` itself or does not overlap it."""
        reals, ints = self._packed(w.shape)
        if w.ndim == 1:
            self._kernel(w, step, reals, ints, out)
        else:
            self._kernel(w.reshape(-1), step, reals, ints, out.reshape(-1))

    def compiled(self, shape: tuple[int, ...]) -> tuple[Any, Floats, Ints]:
        """Return (kernel, reals, ints): the prox as a compiled function of the shared signature, for solver loops."""
        reals, ints = self._packed(shape)
        return self._kernel, reals, ints

    def skip(self, w: ArrayLike, steps: ArrayLike, out: Floats | None = None) -> Floats:
        """Return the result of successive proxes, one for each entry of `steps`, by a closed form.

        A single number is one step; for a `semigroup` penalty it may be the sum of many.
        """
        sizes, elastic = as_steps(steps), self.elastic()
        if self.semigroup:
            return self.prox(w, min(float(sizes.sum()), LARGEST), out)
        if elastic is None:
            raise Unsupported(f"{type(self).__name__} has no closed form for skipped steps; call prox for each")
        a = as_finite(w)
        result = output_like(a, out)
        np.copyto(result, elastic.skip(a, sizes))
        return result

    def conjugate(self) -> Penalty:
        """Return the Fenchel conjugate, sup over x of <x, y> - value(x), as a penalty."""
        from spom.penalties.calculus import Conjugate

        found: Conjugate = Conjugate(self)
        return found

    def max_strength(self, gradient_at_zero: ArrayLike) -> float:
        """Return the smallest strength at which 0 minimises loss + penalty, given the loss's gradient at 0.

        +inf where no strength does that, as for squared norms.
        """
        return float(self._max_strength(as_finite(gradient_at_zero, "gradient_at_zero")))

    def _max_strength(self, g: Floats) -> float:
        # The squared norms and powers are flat at 0: no finite strength holds a non-zero gradient there.
        return np.inf if g.any() else 0.0


def as_steps(steps: ArrayLike) -> Floats:
    """Return step sizes as a vector of finite numbers >= 0."""
    a = np.atleast_1d(np.asarray(steps, dtype=np.float64))
    if a.ndim != 1 or not np.isfinite(a).all() or (a < 0).any():
        raise ValueError("steps must be finite and >= 0: a number, or a vector with one entry per step")
    return a


class Strength(Penalty):
    """A penalty with a strength s >= 0 that multiplies all of it."""

    _held: tuple[tuple[float, ...], Floats] | None = None

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength
        self._check()

    def _check(self) -> None:
        check_positive(self.strength, "strength")

    def _numbers(self) -> tuple[float, ...]:
        """Return the numbers that begin the kernel's `reals`."""
        return (self.strength,)

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        # Small calls are dominated by overhead: keep the array until a number changes.
        numbers = self._numbers()
        if self._held is None or self._held[0] != numbers:
            self._held = (numbers, np.array(numbers, dtype=np.float64))
        return self._held[1], NO_INTS


def block_weights(norms: Floats, penalty: Any) -> Floats:
    """beta_m, proportional to norm(theta_m) / (slope of the penalty in that norm), summing to one.

    These are the weights of the sum of kernels for which theta is the solution: shares of the norms for `SparseMKL`,
    and of their powers 2 - q for `LqMKL`. Without a penalty of block norms they are the shares of the norms.

    >>> from spom.penalties import LqMKL, SparseMKL
    >>> block_weights(np.array([3.0, 1.0]), SparseMKL(0.1)).round(6)
    array([0.75, 0.25])
    >>> block_weights(np.array([4.0, 1.0]), LqMKL(0.1, q=1.5)).round(6)
    array([0.666667, 0.333333])
    """
    h = penalty.on_rows(norms.size) if hasattr(penalty, "on_rows") and norms.size else None
    found = np.array(norms, dtype=np.float64)
    on = np.flatnonzero(found)
    if h is not None and on.size > 1:
        slopes = np.array([_slope(h, found, m) for m in on.tolist()])
        if (slopes > 0.0).all():
            found[on] /= slopes
    total = float(found.sum())
    return found / total if total > 0.0 else found


def _slope(h: Any, norms: Floats, m: int) -> float:
    """Return the derivative of h with respect to norm m, by a central difference."""
    values = []
    for factor in (1.0 + 1e-5, 1.0 - 1e-5):
        moved = norms.copy()
        moved[m] *= factor
        values.append(float(h.value(moved)))
    return (values[0] - values[1]) / (2e-5 * float(norms[m]))


def with_strength(penalty: Any, strength: float) -> Any:
    """Return the same penalty with another strength."""
    return type(penalty)(**{**penalty.get_params(deep=False), "strength": strength})


def zero_threshold(unit: Penalty, g: Floats) -> float:
    """Return the smallest c for which the prox of c * unit at g is exactly zero, to the last bit.

    `unit` is homogeneous, so 0 minimises <g, w> + c unit(w) if and only if the prox of c * unit sends -g to 0.
    """
    if not g.any():
        return 0.0

    def is_zero(c: float) -> bool:
        return not unit.prox(g, c).any()

    high = float(np.abs(g).max())
    while not is_zero(high):
        if high > LARGEST / 4:
            return np.inf
        high *= 4.0
    low = high / 4.0
    while is_zero(low) and low > 0.0:
        high, low = low, low / 4.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if is_zero(middle):
            high = middle
        else:
            low = middle
