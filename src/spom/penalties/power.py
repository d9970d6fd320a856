"""Powers of the lq norm."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import PROX, kernel
from spom.core.registry import register
from spom.penalties.base import LARGEST, Penalty, Strength
from spom.penalties.forms import Elastic


@kernel("float64(float64, float64, float64)")
def power_root(b: float, t: float, q: float) -> float:
    """Solve x + t q x^(q-1) = b for x in [0, b] (for q = 1: max(b - t, 0)).

    Newton on v in x = b exp(-v): log(exp(-v) + t q b^(q-2) exp(-(q-1) v)) = 0 is convex and decreasing in v, so
    the iterates from the left increase to the root, whatever the scale.
    """
    if b == 0.0 or t == 0.0:
        return b
    if q == 1.0:
        return max(b - t, 0.0)
    if q == 2.0:
        return b / (1.0 + 2.0 * t)
    if q == 1.5:
        root = 2.0 * b / (1.5 * t + np.sqrt(2.25 * t * t + 4.0 * b)) if t < 1e150 else b / (1.5 * t)
        return float(root * root)
    if q == 3.0 and t * b < 1e300:
        return float(2.0 * b / (1.0 + np.sqrt(1.0 + 12.0 * t * b)))
    lk = np.log(t) + np.log(q) + (q - 2.0) * np.log(b)
    v = max(0.0, lk / (q - 1.0))
    for _ in range(100):
        first, second = -v, lk - (q - 1.0) * v
        top = max(first, second)
        e1, e2 = np.exp(first - top), np.exp(second - top)
        error = top + np.log(e1 + e2)
        move = error * (e1 + e2) / (e1 + (q - 1.0) * e2)
        if not v + move > v:
            break
        v += move
    return float(b * np.exp(-v))


@kernel(PROX)
def _prox(w: Floats, step: float, reals: Floats, ints: Ints, out: Floats) -> None:
    t = min(step * reals[0], LARGEST)
    for i in range(w.size):
        x = power_root(abs(w[i]), t, reals[1])
        out[i] = x if w[i] > 0.0 else 0.0 - x


class Exponent(Strength):
    """A penalty with a strength s and an exponent q >= 1."""

    q: float

    @property
    def homogeneous(self) -> bool:
        """Whether q = 1."""
        return self.q == 1.0

    @property
    def semigroup(self) -> bool:
        """Whether q = 1."""
        return self.q == 1.0

    def _check(self) -> None:
        super()._check()
        if check_positive(self.q, "q") < 1.0:
            raise ValueError(f"q must be at least 1; it is {self.q!r}")

    def _numbers(self) -> tuple[float, float]:
        return self.strength, self.q


@register(
    "penalty",
    "power",
    formula=r"s \sum_i |w_i|^q",
    cost="O(n), a few Newton steps each",
    examples=lambda: [Power(0.5, 1.5), Power(2.0, 3.0), Power(0.3, 1.0), Power(0.7, 2.0), Power(0.1, 1.01)],
)
class Power(Exponent):
    """Omega(w) = s sum abs(w)^q for any q >= 1; the prox solves x + step s q x^(q-1) = abs(w) for each entry.

    >>> Power(1.0, q=3).prox([4.0])
    array([1.])
    """

    follows_l1 = True
    separable = True
    _kernel = _prox

    def __init__(self, strength: float = 1.0, q: float = 1.5) -> None:
        self.q = q
        super().__init__(strength)

    def _value(self, w: Floats) -> float:
        with np.errstate(over="ignore"):
            return self.strength * float((np.abs(w) ** self.q).sum()) if self.strength else 0.0

    def elastic(self) -> Elastic | None:
        """Return l1 for q = 1, squared l2 for q = 2."""
        return power_elastic(float(self.strength), self.q)

    def _conjugate_value(self, y: Floats) -> float:
        return conjugate_of_powers(np.abs(y.reshape(-1)), self.strength, self.q)

    def conjugate(self) -> Penalty:
        """Return the conjugate: a ball for q = 1, else of the form Power again, with exponent q / (q - 1)."""
        from spom.penalties.linf_ball import LInfBall

        return LInfBall(self.strength) if self.q == 1.0 else super().conjugate()

    def _max_strength(self, g: Floats) -> float:
        return float(np.abs(g).max(initial=0.0)) if self.q == 1.0 else super()._max_strength(g)


def power_elastic(strength: float, q: float) -> Elastic | None:
    """Return strength sum abs^q as an elastic form, for q = 1 and q = 2."""
    if q == 1.0:
        return Elastic(strength, 0.0)
    return Elastic(0.0, 2.0 * strength) if q == 2.0 else None


def conjugate_of_powers(u: Floats, strength: float, q: float) -> float:
    """Sum over magnitudes u of the sup over x of u x - strength x^q."""
    if strength == 0.0:
        return np.inf if u.any() else 0.0
    if q == 1.0:
        return np.inf if (u > strength * (1 + 1e-10)).any() else 0.0
    with np.errstate(over="ignore"):
        x = (u / (strength * q)) ** (1.0 / (q - 1.0))
        return float((u * x * (1.0 - 1.0 / q)).sum())
