"""Constants of a problem: the radius of a ball with the optimum, Lipschitz constants, the theory's largest step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from spom.core.arrays import Floats, check_positive
from spom.errors import Unsupported

# --- Prop. 9 of SPOM -----------------------------------------------------------------------------------


def structured_radius(budget: float, strength: float, sigma: float = 0.0) -> float:
    """norm2(theta*) <= sqrt(Lambda / (lambda + sigma)) for lambda/2 (sum_m norm(theta_m))^2 + sigma/2 norm2^2.

    The penalty is homogeneous of degree two, so the optimum satisfies 2 Omega(theta*) = -<gradient, theta*>, which
    convexity bounds by the loss at zero minus the loss at theta*, at most Lambda.

    `budget` is Lambda, the mean over examples of the largest cost of an output (structured hinge) or of the log
    of the number of outputs, in nats (CRF). For sigma = 0 the same number bounds the sum of the block norms.

    >>> structured_radius(4.0, 1.0)
    2.0
    """
    check_positive(budget, "budget")
    check_positive(sigma, "sigma")
    return math.sqrt(budget / (check_positive(strength, "strength", zero=sigma > 0) + sigma))


def structured_lipschitz(largest_norm: float, budget: float = 0.0, strength: float = 0.0, sigma: float = 0.0) -> float:
    """G = 2 max norm(phi(u)), plus sigma times the radius where sigma/2 norm2^2 was moved into the loss.

    >>> structured_lipschitz(3.0)
    6.0
    """
    g = 2.0 * check_positive(largest_norm, "largest_norm")
    return g + (sigma * structured_radius(budget, strength, sigma) if sigma > 0 else 0.0)


# --- linear models -------------------------------------------------------------------------------------


def vacuous_radius(
    loss: Any, penalty: Any, y: ArrayLike, weight: ArrayLike | None = None, outputs: int | None = None
) -> float:
    """Return a radius r with norm2(theta*) <= r, from Omega(theta*) <= F(theta*) <= F(0) = the mean loss at zero.

    Known for penalties that bound the norm: s norm1, s norm2 and s sum of group norms (r = F(0)/s), squared l2
    and squared sums of group norms (r = sqrt(2 F(0)/s)), and sums of them (the smallest).

    >>> from spom.losses import Hinge
    >>> from spom.penalties import SquaredL2
    >>> vacuous_radius(Hinge(), SquaredL2(0.5), [1, -1])
    2.0
    """
    targets = np.asarray(y, dtype=np.float64)
    zero = np.zeros(targets.shape) if outputs is None else np.zeros((targets.size, outputs))
    kind = targets if outputs is None else targets.astype(np.int64)
    values = np.asarray(loss.value(kind, zero))
    mean = float(np.average(values, weights=None if weight is None else np.asarray(weight)))
    found = _radii(penalty, mean)
    if not found:
        raise Unsupported(
            f"no radius is known for {penalty!r}: its value does not bound the norm of theta here; it is known for "
            "L1, L2, SquaredL2, ElasticNet, GroupLasso, SparseMKL and sums with one of them. Give a number instead"
        )
    return min(found)


def _radii(penalty: Any, mean: float) -> list[float]:
    name = type(penalty).__name__
    if name == "Sum":
        return [r for term in penalty.terms for r in _radii(term, mean)]
    strength = float(getattr(penalty, "strength", 0.0))
    if strength <= 0 or getattr(penalty, "weights", None) is not None:
        return []
    if name == "ElasticNet":
        a, b = strength * penalty.l1_ratio, strength * (1 - penalty.l1_ratio)
        return ([mean / a] if a > 0 else []) + ([math.sqrt(2 * mean / b)] if b > 0 else [])
    if name in ("L1", "L2", "GroupLasso"):
        return [mean / strength]
    # The square of a sum of norms is at least the sum of their squares.
    if name in ("SquaredL2", "SquaredL1", "SparseMKL", "ElasticNetMKL"):
        return [math.sqrt(2 * mean / strength)]
    return []


def lipschitz(loss: Any, X: Any, norm: float = 2.0) -> float:
    """G with dual_norm(g) <= G for every subgradient of an example's loss: Lipschitz constant times the largest row.

    >>> from spom.losses import Hinge
    >>> lipschitz(Hinge(), np.array([[3.0, 4.0]]))
    5.0
    """
    return float(loss.lipschitz) * float(row_norms(X, norm).max(initial=0.0))


def row_norms(X: Any, power: float) -> Floats:
    """Return the norm of each row of a dense or sparse matrix."""
    if not sparse.issparse(X):
        return np.asarray(np.linalg.norm(np.asarray(X, dtype=np.float64), ord=power, axis=1))
    size = abs(X.tocsr())
    if np.isinf(power):
        return np.asarray(size.max(axis=1).toarray()).ravel()
    peak = float(size.max()) if size.nnz else 1.0
    scaled = size / (peak or 1.0)
    return np.asarray(peak * np.asarray(scaled.power(power).sum(axis=1)).ravel() ** (1.0 / power))


# --- condition (1.5)/(2.2) of mirror descent -----------------------------------------------------------


def largest_step(loss: Any, penalty: Any, mirror: Any, X: Any, y: ArrayLike) -> float:
    """Return the largest eta_1 of eta_t = eta_1 / sqrt(t) that (1.5)/(2.2) allows.

    With sigma the map's modulus, R the largest dual norm of a row, (q, L) the Hoelder constants of the loss:
    sigma/4 times the smallest of 1 / (R^2 L^(2/(q+1))), or for q = 0 of 1 / (R max(abs(phi'(y, 0)), L))^2, and of
    the penalty's own terms: 1 / (lambda dual_norm(1))^2 for l1, 1 / s for squared l2.

    >>> from spom.losses import Squared
    >>> largest_step(Squared(), None, None, np.array([[2.0, 0.0]]), [1.0])
    0.0625
    """
    d = X.shape[1]
    modulus = 1.0 if mirror is None else float(mirror.modulus(d))
    power = _dual_power(mirror, d)
    radius = float(row_norms(X, power).max(initial=0.0))
    exponent, constant = loss.hoelder
    terms = penalty_terms(penalty, float(d) ** (0.0 if np.isinf(power) else 1.0 / power), d)
    if radius > 0 and constant > 0:
        if exponent > 0:
            terms.append(1.0 / (radius**2 * constant ** (2.0 / (exponent + 1.0))))
        else:
            terms.append(1.0 / (radius * max(slope_at_zero(loss, y), constant)) ** 2)
    if not terms:
        raise Unsupported("the theory bounds no step here: the data are all zero; give a number")
    return 0.25 * modulus * min(terms)


def slope_at_zero(loss: Any, y: ArrayLike) -> float:
    """sup over the targets of abs(phi'(y, 0))."""
    targets = np.asarray(y)
    if loss.target == "class":
        return float(loss.lipschitz)
    return float(np.abs(loss.derivative(targets, np.zeros(targets.shape))).max(initial=0.0))


def penalty_terms(penalty: Any, ones: float, d: int) -> list[float]:
    """Return each term's bound, before sigma/4; `ones` is the dual norm of the d-vector of ones."""
    name = type(penalty).__name__
    if penalty is None or name == "Zero" or getattr(penalty, "indicator", False):
        return []
    if name == "Sum":
        return [t for term in penalty.terms for t in penalty_terms(term, ones, d)]
    strength = float(getattr(penalty, "strength", 0.0))
    if strength == 0:
        return []
    if name == "L1":
        return [1.0 / (strength * ones) ** 2]
    if name == "SquaredL2":
        return [1.0 / strength]
    if name == "ElasticNet":
        a, b = strength * penalty.l1_ratio, strength * (1 - penalty.l1_ratio)
        return ([1.0 / (a * ones) ** 2] if a > 0 else []) + ([1.0 / b] if b > 0 else [])
    if name in ("L2", "LInf"):
        return [1.0 / strength**2]
    if name == "Power" and 1.0 < penalty.q <= 2.0:
        # Example 6: each coordinate's derivative is Hoelder continuous with exponent q - 1 and constant s q 2^(2-q),
        # and the Euclidean norm over d coordinates adds the factor d^((2-q)/2). p-norms with p <= 2 are larger and
        # their duals smaller than the Euclidean norm, so that the constant holds for them too.
        constant = strength * penalty.q * 2.0 ** (2.0 - penalty.q) * float(d) ** ((2.0 - penalty.q) / 2.0)
        return [constant ** (-2.0 / penalty.q)]
    if name in ("GroupLasso", "GroupLInf"):
        # A subgradient has norm at most s d_m in each group, and there are at most as many groups as coordinates.
        weights = 1.0 if penalty.weights is None else float(np.max(penalty.weights, initial=0.0))
        return [1.0 / (strength * weights * ones) ** 2] if weights > 0 else []
    raise Unsupported(f"condition (2.2) has no known constants for {penalty!r}; give a step")


def _dual_power(mirror: Any, d: int) -> float:
    if mirror is None or type(mirror).__name__ in ("Euclidean", "SmoothedBregman"):
        return 2.0
    if hasattr(mirror, "exponent"):
        p = float(mirror.exponent(d))
        return np.inf if p <= 1 else p / (p - 1.0)
    raise Unsupported(f"the dual norm of {mirror!r} is not known to the theory; give a step")
