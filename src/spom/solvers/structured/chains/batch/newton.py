r"""A Newton step for some of the weights of a random field under an elastic penalty: L-BFGS-B on a model of the loss,

    g d + d (H + damping) d / 2,   H the Hessian of all sentences, which `Curvature` multiplies with d.

A weight with an l1 penalty is u - v with u, v >= 0, so that its penalty is linear: the problem is smooth with bounds.
Weights are measured in units of 1 / sqrt(curvature), sum_t x^2 p (1 - p) without the correlations between tokens:
frequent features would otherwise move a thousand times slower than rare ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from spom.core.arrays import Floats, Ints
from spom.features.rows import Blocks
from spom.penalties.forms import Elastic
from spom.solvers.structured.chains.batch.curvature import Curvature
from spom.solvers.structured.chains.data import restricted
from spom.solvers.structured.chains.field import Expectations, Field

# Pairs of steps that L-BFGS remembers. Not tuned.
MEMORY = 60
# What is added to the curvature of a weight: half an example. Not tuned.
LEAST = 0.5

Mask = NDArray[np.bool_]
Weights = tuple[Floats, Floats]


class Working(NamedTuple):
    """The weights that may move: some labels of the features `rows`, some entries of the chain."""

    rows: Ints
    on: Mask
    chain: Mask


class Split(NamedTuple):
    """Coordinates of a working set: those of features, then those of the chain; their penalties and their units."""

    features: int
    l1: Floats
    l2: Floats
    unit: Floats

    def weights(self, z: Floats) -> Floats:
        """The weights of the variables z = (all, and the negative parts of those with an l1 penalty)."""
        out = z[: self.l1.size].copy()
        out[self.l1 > 0.0] -= z[self.l1.size :]
        return out * self.unit

    def variables(self, w: Floats) -> Floats:
        """The variables of weights."""
        z, split = w / self.unit, self.l1 > 0.0
        return np.concatenate([np.where(split, np.maximum(z, 0.0), z), np.maximum(-z[split], 0.0)])

    def bounds(self) -> Bounds:
        """Zero below for split weights."""
        split = self.l1 > 0.0
        low = np.concatenate([np.where(split, 0.0, -np.inf), np.zeros(int(split.sum()))])
        return Bounds(low, np.full(low.size, np.inf))

    def gradient(self, g: Floats) -> Floats:
        """The gradient in the variables, from that of the loss and of the squared part."""
        split = self.l1 > 0.0
        return np.concatenate([(g + self.l1) * self.unit, (self.l1[split] - g[split]) * self.unit[split]])


def units(found: Expectations, working: Working, gold: Floats) -> Floats:
    """1 / sqrt(curvature) of the weights of a working set.

    A step between labels is as certain as tokens are on average: its curvature is its expected count times their mean
    curvature.
    """
    own = found.curvature[working.rows][working.on]
    expected = np.maximum(found.chain_gradient + gold, 0.0)[working.chain]
    # Sums over the features of a token count it several times: the most frequent feature stands for all tokens.
    totals = found.curvature.sum(axis=1)
    share = float(totals.max(initial=0.0)) / max(1.0, float(gold[-1].sum() + gold[:-2].sum()))
    return np.asarray(1.0 / np.sqrt(np.concatenate([own, min(1.0, share) * expected]) + LEAST))


class Model(NamedTuple):
    """A quadratic model of the loss at weights w: its gradient, its Hessian times a vector, and what is added to it."""

    w: Floats
    gradient: Floats
    hessian: Curvature
    damping: float


def least(model: Model, split: Split, iterations: int) -> Floats:
    """The weights where model and penalty together are least, after some iterations of L-BFGS-B."""
    w, l1, unit = model.w, split.l1, split.unit
    paid = l1 > 0.0

    def value(z: Floats) -> tuple[float, Floats]:
        x = split.weights(z)
        d = x - w
        curved = model.hessian(d) + model.damping * d
        # Both halves of a split weight pay, so that this is an upper bound until one of them is zero.
        sizes = float((z[: l1.size] * l1 * unit)[paid].sum() + (z[l1.size :] * (l1 * unit)[paid]).sum())
        loss = float(model.gradient @ d) + 0.5 * float(curved @ d) + 0.5 * float(split.l2 @ (x * x))
        return loss + sizes, split.gradient(model.gradient + curved + split.l2 * x)

    options = {"maxiter": iterations, "maxcor": MEMORY, "ftol": 1e-13, "gtol": 1e-9}
    best = minimize(value, split.variables(w), jac=True, method="L-BFGS-B", bounds=split.bounds(), options=options)
    return split.weights(np.asarray(best.x))


def proposal(
    field: Field,
    weights: Weights,
    found: Expectations,
    working: Working,
    forms: tuple[Elastic, Elastic],
    how: tuple[Floats, float, int],
) -> Weights:
    """Weights of a working set where the model is least; `forms` are the penalties of features and chain, times N.

    `how` is the units of the weights, the damping and the iterations.
    """
    W, chain = weights
    unit, damping, iterations = how
    inside = restricted(field.tokens, Blocks(("all",), np.array([0, W.shape[0]])), working.rows)[0]
    features, steps = int(working.on.sum()), int(working.chain.sum())
    l1, l2 = (np.repeat([forms[0][i], forms[1][i]], [features, steps]) for i in range(2))
    table = np.ascontiguousarray(W[working.rows])
    hessian = Curvature(inside, table, chain + field.forbidden, working.on, working.chain)
    w = np.concatenate([table[working.on], chain[working.chain]])
    g = np.concatenate([found.gradient[working.rows][working.on], found.chain_gradient[working.chain]])
    return placed(least(Model(w, g, hessian, damping), Split(features, l1, l2, unit), iterations), working, weights)


def placed(w: Floats, working: Working, weights: Weights) -> Weights:
    """The weights of a working set in tables of all; other features are zero, other entries of the chain stay."""
    W, after = np.zeros_like(weights[0]), weights[1].copy()
    features, part = int(working.on.sum()), np.zeros(working.on.shape)
    part[working.on], after[working.chain] = w[:features], w[features:]
    W[working.rows] = part
    return W, after
