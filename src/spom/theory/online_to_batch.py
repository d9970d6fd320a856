"""From regret to risk: the rounds that a given accuracy takes (Prop. 4 of SPOM), and bounds for the last iterate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, check_positive
from spom.theory.bounds import MirrorDescent


def averaged_excess(T: ArrayLike, F: float, G: float, delta: float) -> Floats:
    """Return the bound of Prop. 4 of SPOM, with its constants, on the averaged model's excess risk.

    With probability 1 - delta the excess risk is at most

        F G sqrt(2 / T) (1 + sqrt(log(1 / delta))),

    for the step eta0 / sqrt(t) with eta0 = F / (sqrt(2) G), Theta of diameter F, and examples drawn independently.
    The first part is the regret bound F G sqrt(2 T) over T. The second is Azuma's inequality for the differences
    L_t(theta_t) - L_t(theta*), each within F G of zero. Jensen's inequality moves the mean inside.

    >>> averaged_excess([200], 1.0, 1.0, math.exp(-1.0))
    array([0.2])
    """
    t = np.asarray(T, dtype=np.float64)
    return np.asarray(F * G * np.sqrt(2.0 / t) * (1.0 + math.sqrt(_log(delta))))


def averaged_rounds(epsilon: float, F: float, G: float, delta: float) -> int:
    """Return the rounds for `averaged_excess` <= epsilon: 2 (F G / epsilon)^2 (1 + sqrt(log(1/delta)))^2.

    >>> averaged_rounds(0.2, 1.0, 1.0, math.exp(-1.0))
    200
    """
    check_positive(epsilon, "epsilon", zero=False)
    return math.ceil(2.0 * (F * G / epsilon * (1.0 + math.sqrt(_log(delta)))) ** 2 - 1e-9)


def strongly_convex_excess(T: ArrayLike, G: float, sigma: float, delta: float) -> Floats:
    """Return the second part of Prop. 4: G^2 (1 + log T) / (2 sigma delta T) with probability 1 - delta.

    For a sigma-strongly convex loss, the step 1 / (sigma t), and an iterate drawn at random: the expected excess risk
    is the regret bound over T, and Markov's inequality gives the probability. A sigma/2 norm^2 of the penalty may be
    moved into the loss first; see `absorbed`.

    >>> strongly_convex_excess([1], 1.0, 0.5, 0.5)
    array([2.])
    """
    t = np.asarray(T, dtype=np.float64)
    check_positive(sigma, "sigma", zero=False)
    _check_delta(delta)
    return np.asarray(G**2 * (1.0 + np.log(t)) / (2.0 * sigma * delta * t))


def absorbed(G: float, sigma: float, radius: float) -> tuple[float, float]:
    """Return (G, sigma) of the loss L + sigma/2 norm^2 on a ball of this radius: (G + sigma radius, sigma).

    Section 3.3 of SPOM: a strongly convex penalty lends its curvature to the loss.

    >>> absorbed(2.0, 0.5, 4.0)
    (4.0, 0.5)
    """
    check_positive(radius, "radius")
    return G + sigma * radius, sigma


def l1_excess(T: ArrayLike, constants: MirrorDescent, strength: float, norm1: float) -> Floats:
    """Return the bound of Theorem 1 of mirror descent on the last iterate's excess risk, without the penalty.

    The penalty of the run is strength norm1(w). The bound is that of Theorem 2 on the regularised excess plus strength
    times norm1(w*), the cost of the penalty.

    >>> constants = MirrorDescent(eta1=0.1, divergence=1.0, risk=0.3, radius=1.0)
    >>> bool(np.isclose(l1_excess([9], constants, 0.5, 2.0) - constants.excess([9]), 1.0)[0])
    True
    """
    return np.asarray(constants.excess(T) + check_positive(strength, "strength") * check_positive(norm1, "norm1"))


def gradient_excess(T: ArrayLike, constants: MirrorDescent) -> Floats:
    """Return the bound of Corollary 3 of mirror descent on the expected gradient at the last iterate.

    E dual_norm(gradient of the regularised risk) is at most

        2 max(L^(1/(p+1)) e^(p/(p+1)), L^(1/(q+1)) e^(q/(q+1))),   L = L_p + L_q R^(q+1),

    with e the bound of Theorem 2 on the excess. It needs p, q > 0: a gradient that is Hoelder continuous.

    >>> constants = MirrorDescent(eta1=0.1, divergence=1.0, risk=0.3, radius=1.0, p=1.0, Lp=0.75)
    >>> e = constants.excess([100])
    >>> bool(np.isclose(gradient_excess([100], constants), 2.0 * np.sqrt(e))[0])
    True
    """
    c = constants
    if min(c.p, c.q) <= 0.0:
        raise ValueError("Corollary 3 needs exponents p, q > 0: the gradients must be continuous")
    excess, L = c.excess(T), c.Lp + c.Lq * c.radius ** (c.q + 1.0)
    terms = [L ** (1.0 / (r + 1.0)) * excess ** (r / (r + 1.0)) for r in (c.p, c.q)]
    return np.asarray(2.0 * np.maximum(*terms))


def _log(delta: float) -> float:
    _check_delta(delta)
    return -math.log(delta)


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be between 0 and 1; it is {delta!r}")
