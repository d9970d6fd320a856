"""Bounds on regret and excess risk, as functions of the number of rounds T (a number or an array)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, check_positive


def spom_regret(
    T: ArrayLike,
    G: float,
    *,
    eta: float | None = None,
    norm: float | None = None,
    eta0: float | None = None,
    diameter: float | None = None,
    sigma: float | None = None,
) -> Floats:
    """Return the regret bound of Prop. 3 of SPOM; the arguments select one of its three parts:

    1. `eta`, `norm` (of theta*): eta T G^2/2 + norm^2 / (2 eta), for the constant step eta;
    2. `eta0`, `diameter` F of Theta: (F^2 / (2 eta0) + G^2 eta0) sqrt(T), for eta0 / sqrt(t);
    3. `sigma`: G^2 (1 + log T) / (2 sigma), for 1 / (sigma t) and a sigma-strongly convex loss.

    >>> spom_regret([100, 400], 1.0, eta0=1.0, diameter=2.0)
    array([30., 60.])
    """
    t = _rounds(T)
    check_positive(G, "G")
    given = [eta is not None and norm is not None, eta0 is not None and diameter is not None, sigma is not None]
    if sum(given) != 1:
        raise ValueError("give eta and norm, or eta0 and diameter, or sigma: the three parts of the proposition")
    if eta is not None and norm is not None:
        return np.asarray(0.5 * eta * t * G**2 + norm**2 / (2.0 * check_positive(eta, "eta", zero=False)))
    if eta0 is not None and diameter is not None:
        check_positive(eta0, "eta0", zero=False)
        return np.asarray((diameter**2 / (2.0 * eta0) + G**2 * eta0) * np.sqrt(t))
    return np.asarray(G**2 * (1.0 + np.log(t)) / (2.0 * check_positive(sigma, "sigma", zero=False)))


def fobos_regret(T: ArrayLike, G: float, D: float, c: float) -> Floats:
    """Theorem 3 of FOBOS: G D + (D^2 / (2 c) + 7 G^2 c) sqrt(T), for the step c / sqrt(t).

    G bounds the subgradients of the losses and of the penalty, D the distance of the iterates from the best point.

    >>> fobos_regret([100], 1.0, 2.0, 1.0)
    array([92.])
    """
    check_positive(c, "c", zero=False)
    return np.asarray(G * D + (D**2 / (2.0 * c) + 7.0 * G**2 * c) * np.sqrt(_rounds(T)))


@dataclass(frozen=True)
class MirrorDescent:
    """The constants of Theorem 2 of online composite mirror descent, for the step eta1 / t^theta.

    `divergence` is D_Psi(w*, 0) and `risk` the regularised risk at w*, the optimum; (q, Lq) and (p, Lp) are the
    Hoelder constants of the loss and the penalty, `radius` the largest dual norm of an input, `at_zero` the
    largest loss at score 0 and `slope` the largest derivative there; `modulus` is the map's.
    """

    eta1: float
    divergence: float
    risk: float
    radius: float
    modulus: float = 1.0
    q: float = 1.0
    Lq: float = 0.25
    p: float = 0.0
    Lp: float = 0.0
    at_zero: float = 1.0
    slope: float = 1.0
    theta: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self.eta1, "eta1", zero=False)
        worst = max(self.p, self.q)
        if not worst / (1 + worst) <= self.theta < 1:
            raise ValueError(f"theta must be from {worst / (1 + worst):g} to 1, 1 not included; it is {self.theta}")

    @property
    def _first(self) -> tuple[float, float]:
        """c1 and c2 of Lemma 7."""
        q, p, r2 = self.q, self.p, self.radius**2
        cq, cp = 2.0 * self.Lq ** (1 / (q + 1)), 2.0 * self.Lp ** (1 / (p + 1))
        bar = max(self.slope, self.Lq)
        c1 = max(r2 * cq**2 * 2 * q / (q + 1), 2 * p * cp**2 / (1 + p)) / self.modulus
        c2 = r2 * cq**2 * (1 - q) / (1 + q) + cp**2 * (1 - p) / (1 + p)
        c2 += 4 * (1 - q) * r2 * bar**2 + (1 - p) * self.Lp**2
        return c1, c2 / self.modulus

    @property
    def _fourth(self) -> float:
        """c4 of Lemma 13."""
        q, p, bar = self.q, self.p, max(self.slope, self.Lq)
        c = self.at_zero + (1 - p) / (1 + p) + (1 - q) / (1 + q)
        grown = 2.0 * c / self.modulus
        total = 2 * self.radius**2 * bar**2 + 2 * bar**2 * self.radius ** (2 * q + 2) * grown**q
        return float((total + self.Lp**2 * grown**p) / self.modulus)

    @property
    def _third(self) -> float:
        """c3 of Lemma 7: the bound on the regularised risk of every iterate."""
        worst, theta = max(self.p, self.q), self.theta
        star = 2 * theta - (1 - theta) * worst
        grown = self._fourth * self.eta1 * max(1.0, (self.eta1 / (1 - theta)) ** worst)
        if math.isclose(theta, worst / (1 + worst)):
            factor = 1 + tau(star)
        elif star > 1.0 and not math.isclose(star, 1.0):
            factor = 1 + 8 / (star - 1)
        else:
            factor = 1 + tau(star) / ((1 + worst) * theta - worst)
        return float(self.risk + self.divergence / self.eta1 + grown * factor)

    def excess(self, T: ArrayLike) -> Floats:
        """Return the bound (4.12) on the expected excess regularised risk of the last iterate after T rounds."""
        t, theta, worst = _rounds(T), self.theta, max(self.p, self.q)
        c1, c2 = self._first
        risk = self._third
        if math.isclose(theta, worst / (1 + worst)):
            e = math.e
            growth = 4 * tau(2 * theta) * e ** (theta - 2) / theta**2 + e ** (theta - 1) / theta if theta > 0 else 1.0
            risk = self.risk + self.divergence / self.eta1 + (c1 * risk + c2) * self.eta1 * growth
        c7 = (c1 * risk + c2) * self.eta1
        start = self.divergence / self.eta1 * t ** (theta - 1)
        if theta <= 0.5:
            return np.asarray(start + c7 * t**-theta * (1 + tau(2 * theta) * np.log(math.e * t)))
        return np.asarray(start + 8 * c7 / (2 * theta - 1) * t ** (theta - 1) + c7 * t**-theta)


def tau(x: float) -> float:
    """Return the paper's tau: 4 / (1 - x) for x < 1, and 4 for x >= 1 (not used for x > 1)."""
    # x is computed from thirds: treat 1 up to rounding as 1.
    return 4.0 / (1.0 - x) if x < 1.0 and not math.isclose(x, 1.0) else 4.0


def mirror_descent_excess(T: ArrayLike, constants: MirrorDescent) -> Floats:
    """Return the bound of Theorem 2 of mirror descent: the expected excess regularised risk of the last iterate.

    >>> bound = mirror_descent_excess([10, 1000], MirrorDescent(eta1=0.1, divergence=1.0, risk=0.3, radius=1.0))
    >>> bool(bound[1] < bound[0])
    True
    """
    return constants.excess(T)


def _rounds(T: ArrayLike) -> Floats:
    t = np.asarray(T, dtype=np.float64)
    if np.any(~(t >= 1)):
        raise ValueError("T must be at least 1")
    return t
