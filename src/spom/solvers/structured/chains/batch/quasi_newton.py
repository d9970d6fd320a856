r"""L-BFGS-B on some of the weights of a random field under an elastic penalty.

A weight with an l1 penalty is u - v with u, v >= 0, so that its penalty is linear: the problem is smooth with bounds.
Weights are measured in units of 1 / sqrt(curvature), sum_t x^2 p (1 - p) without the correlations between tokens:
frequent features would otherwise move a thousand times slower than rare ones.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from spom.core.arrays import Floats, Ints
from spom.features.rows import Blocks
from spom.penalties.forms import Elastic
from spom.solvers.structured.chains.batch.mixture import Visited
from spom.solvers.structured.chains.data import restricted
from spom.solvers.structured.chains.field import Expectations, Field

# Pairs of steps that L-BFGS remembers. On 1,000 training sentences of CoNLL-2000 the certified gap after 180 iterations
# was .16 with 30 and .07 with 100, the objective the same to 1e-5; 10 and 30 differ by .1 % of it on all sentences.
MEMORY = 60
# How many of the last points are kept for a mixture: with 20, 40 and 60 the gap of 300 iterations was .011, .006, .006.
KEPT = 40
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


def improve(
    field: Field,
    weights: Weights,
    working: Working,
    forms: tuple[Elastic, Elastic],
    unit: Floats,
    iterations: int,
) -> tuple[Weights, deque[Visited]]:
    """Weights after some iterations on a working set, and the last points visited.

    `forms` are the penalties of features and chain, times N.
    """
    W, chain = weights
    inside = restricted(field.tokens, Blocks(("all",), np.array([0, W.shape[0]])), working.rows)[0]
    part = Field(inside, field.y, field.forbidden, field.exact)
    features, steps = int(working.on.sum()), int(working.chain.sum())
    l1, l2 = (np.repeat([forms[0][i], forms[1][i]], [features, steps]) for i in range(2))
    split = Split(features, l1, l2, unit)
    table, pairs = np.zeros(working.on.shape), chain.copy()
    visited: deque[Visited] = deque(maxlen=KEPT)

    def value(z: Floats) -> tuple[float, Floats]:
        w = split.weights(z)
        table[working.on], pairs[working.chain] = w[:features], w[features:]
        found = part.at(table, pairs)
        g = np.concatenate([found.gradient[working.on], found.chain_gradient[working.chain]])
        visited.append(Visited(w, g, found.losses, found.entropies))
        # Both halves of a split weight pay, so that this is an upper bound until one of them is zero.
        sizes = float((z[: l1.size] * l1 * unit)[l1 > 0.0].sum() + (z[l1.size :] * (l1 * unit)[l1 > 0.0]).sum())
        return float(found.losses.sum()) + sizes + 0.5 * float(l2 @ (w * w)), split.gradient(g + l2 * w)

    start = split.variables(np.concatenate([W[working.rows][working.on], chain[working.chain]]))
    options = {"maxiter": iterations, "maxcor": MEMORY, "ftol": 1e-13, "gtol": 1e-9}
    best = minimize(value, start, jac=True, method="L-BFGS-B", bounds=split.bounds(), options=options)
    return placed(split.weights(np.asarray(best.x)), working, weights), visited


def placed(w: Floats, working: Working, weights: Weights) -> Weights:
    """The weights of a working set in tables of all; other features are zero, other entries of the chain stay."""
    W, after = np.zeros_like(weights[0]), weights[1].copy()
    features, part = int(working.on.sum()), np.zeros(working.on.shape)
    part[working.on], after[working.chain] = w[:features], w[features:]
    W[working.rows] = part
    return W, after
