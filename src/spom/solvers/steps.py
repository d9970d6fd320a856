"""Step rules eta_t, t = 1, 2, ...: numbers, schedules, AdaGrad, and rules that need no number.

`as_step` takes what users write: a number (constant), a registered name (`"auto"`, `"theory"`, `"adagrad"`,
`"sqrt"`, `"epoch"`, `"constant"`, `"strongly-convex"`), one of the classes here, or a function of t.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.arrays import Floats, check_positive
from spom.core.registry import Parameters
from spom.errors import Unsupported

# The ways in which a loop turns the numbers of a rule into a step; see `lazy_vector` and `full_update`.
PLAIN, DIAGONAL, FREE = 0, 1, 2


class Step(Parameters):
    """A rule: `sizes` gives eta for rounds; `mode` says what a loop divides it by, and `delta` where that starts.

    The first step of a parameter-free run moves a feature's part of the score by `delta`.
    """

    mode = PLAIN
    delta: float = 1e-2

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta_t for t = first, ..., first + count - 1; rounds count from 1."""
        raise NotImplementedError  # implemented by each rule

    def _times(self, first: int, count: int) -> Floats:
        return np.arange(first, first + count, dtype=np.float64)


class Constant(Step):
    """eta_t = eta0.

    >>> Constant(0.5).sizes(1, 3, 10)
    array([0.5, 0.5, 0.5])
    """

    def __init__(self, eta0: float = 0.1) -> None:
        self.eta0 = eta0
        self._check()

    def _check(self) -> None:
        check_positive(self.eta0, "eta0", zero=False)

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta0."""
        return np.full(count, float(self.eta0))


class LinearDecay(Constant):
    """eta_t = eta0 (1 - (t - 1) / T), T the rounds of `epochs` passes; afterwards the last step is kept.

    >>> LinearDecay(1.0, epochs=2).sizes(1, 5, 2)
    array([1.  , 0.75, 0.5 , 0.25, 0.25])
    """

    def __init__(self, eta0: float = 0.1, epochs: int | None = None) -> None:
        self.epochs = epochs
        super().__init__(eta0)

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta0 (1 - (t - 1) / T)."""
        if self.epochs is None:
            raise ValueError("LinearDecay needs epochs: the number of passes over which the step falls to zero")
        rounds = max(1, self.epochs * rounds_per_epoch)
        return np.asarray(self.eta0 * np.maximum(1.0 - (self._times(first, count) - 1.0) / rounds, 1.0 / rounds))


class InverseSqrt(Constant):
    """eta_t = eta0 / sqrt(t): Prop. 3 of SPOM, Theorem 3 of FOBOS, Theorem 2 of mirror descent.

    >>> InverseSqrt(1.0).sizes(4, 1, 10)
    array([0.5])
    """

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta0 / sqrt(t)."""
        return np.asarray(self.eta0 / np.sqrt(self._times(first, count)))


class InverseSqrtEpoch(Constant):
    """eta_t = eta0 / sqrt(epoch), the epoch counted from 1.

    >>> InverseSqrtEpoch(1.0).sizes(1, 4, 2).round(4)
    array([1.    , 1.    , 0.7071, 0.7071])
    """

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta0 / sqrt(1 + floor((t - 1) / rounds))."""
        epoch = 1.0 + np.floor((self._times(first, count) - 1.0) / max(1, rounds_per_epoch))
        return np.asarray(self.eta0 / np.sqrt(epoch))


class StronglyConvex(Step):
    """eta_t = 1 / (sigma t), for losses that are sigma-strongly convex: logarithmic regret.

    >>> StronglyConvex(0.5).sizes(1, 2, 10)
    array([2., 1.])
    """

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma
        self._check()

    def _check(self) -> None:
        check_positive(self.sigma, "sigma", zero=False)

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """1 / (sigma t)."""
        return np.asarray(1.0 / (self.sigma * self._times(first, count)))


class Schedule(Step):
    """eta_t = function(t), t from 1."""

    def __init__(self, function: Callable[[int], float]) -> None:
        self.function = function

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """function(t)."""
        found = np.array([float(self.function(t)) for t in range(first, first + count)])
        bad = ~(np.isfinite(found) & (found > 0))
        if bad.any():
            t = first + int(np.argmax(bad))
            raise ValueError(f"the step schedule gave {found[t - first]} at t = {t}; steps must be finite and > 0")
        return found


class AdaGrad(Constant):
    """eta_{t,j} = eta0 / (delta + sqrt(sum of squared gradients of coordinate j)): Duchi, Hazan and Singer 2011.

    The proximal step is exact in the same diagonal metric. If a penalty couples coordinates, those of one row share
    their sum; if it couples all, there is a single sum.
    """

    mode = DIAGONAL

    def __init__(self, eta0: float = 0.1, delta: float = 1e-8) -> None:
        self.delta = delta
        super().__init__(eta0)

    def _check(self) -> None:
        super()._check()
        check_positive(self.delta, "delta")


class Theory(Step):
    """The largest eta0 / sqrt(t) that condition (1.5)/(2.2) of online composite mirror descent allows.

    It comes from the loss, the penalty, the mirror map and the data: see `spom.theory.largest_step`.
    """

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """Raise an error: the step depends on the data, so the solver replaces this rule by an `InverseSqrt`."""
        raise Unsupported("the theory's step depends on the data; a solver resolves it")


class Auto(Step):
    """A rule that needs no number: see `OnlineProximal` for its meaning."""

    mode = FREE

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """Return ones: the loops determine the size themselves."""
        return np.ones(count)


_NAMES: dict[str, Callable[[], Step]] = {
    "auto": Auto,
    "theory": Theory,
    "adagrad": AdaGrad,
    "sqrt": InverseSqrt,
    "epoch": InverseSqrtEpoch,
    "constant": Constant,
}


def as_step(step: Any) -> Step:
    """Return the rule that `step=` stands for.

    >>> as_step(0.5)
    Constant(eta0=0.5)
    >>> as_step("sqrt")
    InverseSqrt()
    """
    if isinstance(step, Step):
        return step
    if isinstance(step, str):
        if step not in _NAMES:
            raise Unsupported(f"there is no step {step!r}; the names are: {', '.join(sorted(_NAMES))}")
        return _NAMES[step]()
    if isinstance(step, (int, float, np.integer, np.floating)) and not isinstance(step, bool):
        return Constant(float(step))
    if callable(step):
        return Schedule(step)
    raise Unsupported(f"step must be a number, a name, a rule of spom.solvers.steps or a function; it is {step!r}")
