"""Convergence rates of the batch methods: FOBOS on a whole data set, and general proximal gradients."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, check_positive


def fobos_steps(eta: ArrayLike, batch: bool = True) -> tuple[Floats, Floats]:
    """Return (eta_t of gradient steps, eta_{t+1/2} of proximal steps) for T steps, given eta_1, ..., eta_{T+1}.

    On a whole data set FOBOS takes eta_{t+1/2} = eta_{t+1} (Theorem 1), online eta_{t+1/2} = eta_t (Theorem 3).

    >>> fobos_steps([1.0, 0.5, 0.25])
    (array([1. , 0.5]), array([0.5 , 0.25]))
    """
    steps = np.asarray(eta, dtype=np.float64)
    if steps.ndim != 1 or steps.size < 2 or not (steps > 0).all():
        raise ValueError("eta must be a vector of at least two steps > 0: one more than there are rounds")
    if batch and ((steps[1:] > steps[:-1]) | (2.0 * steps[1:] < steps[:-1])).any():
        raise ValueError("Theorem 1 of FOBOS needs eta_t / 2 <= eta_{t+1} <= eta_t")
    return steps[:-1], steps[1:] if batch else steps[:-1]


def fobos_best(eta: ArrayLike, G: float, D: float) -> float:
    """Theorem 1 of FOBOS with A = 0: min_t F(w_t) - F(w*) <= (D^2 + 7 G^2 sum eta_t^2) / (2 sum eta_t).

    G bounds the subgradients of loss and penalty, D the norm of w*; the method starts at zero with the steps of
    `fobos_steps`. (The display of Theorem 1 lacks the factor 2 that its corollaries have.)

    >>> fobos_best([0.5, 0.5], 1.0, 2.0)
    3.75
    """
    steps = np.asarray(eta, dtype=np.float64)
    check_positive(G, "G")
    check_positive(D, "D")
    return float((D**2 + 7.0 * G**2 * (steps**2).sum()) / (2.0 * steps.sum()))


def fobos_fixed_step(T: ArrayLike, G: float, D: float, A: float = 0.0, best: float = 0.0) -> Floats:
    """Return the bound of Corollary 2 of FOBOS: the mean of F(w_t) after T rounds with the step D / (sqrt(7 T) G).

    It is at most 3 D G / (sqrt(T) s) + F(w*) / s, s = 1 - 4 A D / (G sqrt(7 T)); `best` is F(w*), and subgradients
    satisfy norm(g)^2 <= A f + G^2.

    >>> fobos_fixed_step([100], 1.0, 2.0)
    array([0.6])
    """
    t = np.asarray(T, dtype=np.float64)
    shrunk = 1.0 - 4.0 * A * D / (check_positive(G, "G", zero=False) * np.sqrt(7.0 * t))
    if np.any(shrunk <= 0):
        raise ValueError("Corollary 2 needs 4 A D < G sqrt(7 T): take more rounds")
    return np.asarray(3.0 * D * G / (np.sqrt(t) * shrunk) + best / shrunk)


def gpm_gap(k: ArrayLike, start: float, L: float, radius: float, mu: float = 0.0) -> Floats:
    """Theorem 1 of GPM: F(x_k) - F* <= 2 max(L radius^2, F(x_0) - F*) / k, or (1 - mu/L)^k (F(x_0) - F*).

    `radius` bounds the distance of the level set of x_0 from the solutions in the norm in which L is the Lipschitz
    constant of the gradient and f is mu-strongly convex; `start` is F(x_0) - F*. If mu > 0, the smaller bound is taken.

    >>> gpm_gap([1, 4], start=1.0, L=2.0, radius=1.0)
    array([4., 1.])
    >>> gpm_gap([2], start=1.0, L=2.0, radius=1.0, mu=1.0)
    array([0.25])
    """
    rounds = np.asarray(k, dtype=np.float64)
    check_positive(L, "L", zero=False)
    slow = 2.0 * max(L * radius**2, start) / np.maximum(rounds, 1.0)
    return np.asarray(slow if mu == 0.0 else np.minimum(slow, (1.0 - mu / L) ** rounds * start))


def accelerated_gpm_gap(k: ArrayLike, start: float, L: float, distance: float, beta0: float = 1.0) -> Floats:
    """Theorem 2 of GPM, steps 1/L: F(x_k) - F* <= 4 L (start + beta0 distance) / (2 sqrt(L) + sqrt(beta0) k)^2.

    `distance` is d(x*) / sigma, with d the prox-function, sigma-strongly convex and zero at x_0; `start` is
    F(x_0) - F*.

    >>> accelerated_gpm_gap([2], start=0.0, L=1.0, distance=1.0)
    array([0.25])
    """
    check_positive(L, "L", zero=False)
    check_positive(beta0, "beta0", zero=False)
    below = 2.0 * math.sqrt(L) + math.sqrt(beta0) * np.asarray(k, dtype=np.float64)
    return np.asarray(4.0 * L * (start + beta0 * distance) / below**2)


def accelerated_gpm_rate(L: float, mu: float, beta0: float, tau: float = 1.0) -> float:
    """Return rho of Theorem 2 of GPM, for a mu-strongly convex penalty: each round multiplies the gap by 1 - rho.

    rho = tau mu / (2 L) (sqrt(1 + 4 L / (beta0 + mu)) - 1), for beta0 >= tau mu.

    >>> round(accelerated_gpm_rate(L=2.0, mu=1.0, beta0=1.0), 6)
    0.309017
    """
    if beta0 < tau * mu:
        raise ValueError("Theorem 2 needs beta0 >= tau mu")
    return tau * mu / (2.0 * L) * (math.sqrt(1.0 + 4.0 * L / (beta0 + mu)) - 1.0)
