r"""Newton steps for a random field under an elastic penalty, and steps to a dual feasible point.

Both minimise a model of the loss at x, where H is the Hessian of all sentences, which `Curvature` multiplies by a
vector:

    primal:  g d + d (H + damping) d / 2 + Omega(x + d)
    dual:    g d + d H d / 2 + sum_j l1_j |d_j|

The optimum of the second has |g + H d| <= l1. Where the loss is close to its model, p(x + d) is a feasible point of the
dual, and the feasible point nearest to p(x). A few such steps, each with its own pass, turn a point with a good
objective but gradients far out of bounds into a certificate. On CoNLL-2000 with the objective
2.5e-4 above the optimum, three steps reduced the gap from .69 to .008, where twenty Newton steps had not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats
from spom.features.rows import Blocks
from spom.penalties.forms import Elastic
from spom.solvers.structured.chains.batch.block import Preconditioner
from spom.solvers.structured.chains.batch.curvature import Curvature
from spom.solvers.structured.chains.batch.orthant import Memory, least, orthant, within
from spom.solvers.structured.chains.data import Tokens, restricted
from spom.solvers.structured.chains.field import Expectations, Field

Mask = NDArray[np.bool_]

# (slope, light, iterations): while some slope is above this multiple of l1, the model samples labels below `light`,
# and takes at most this many iterations. A new model learns its curvature anew: on CoNLL-2000 25, 40 and 60 iterations
# took more steps, and longer to a gap of 1e-3.
STAGES = ((30.0, 0.01, 40), (3.0, 0.003, 80), (1e-3, 0.001, 120), (0.0, 0.0, 120))
# A step ends when no slope is above this fraction of the largest one, or of l1. Not tuned.
PART = 0.1
# Weights at zero join the working set if the gradient is above this fraction of l1, for Newton and dual steps. Not
# tuned.
NEAR, NEAR_DUAL = 0.85, 0.9
# DAMPING times a factor is added to the Hessian. The factor triples if the objective fell by less than LOW of what the
# model predicted, and falls to a third if it fell by more than HIGH of it. On CoNLL-2000 twice the damping was as good,
# and a quarter gave first steps that had to be halved.
DAMPING, LOW, HIGH, CHANGE, FACTORS = 1.2, 0.4, 0.8, 3.0, (0.01, 100.0)
# Steps on the loss itself with the memory of the model's steps, while each gains this fraction of the Newton step's
# gain.
FURTHER, WORTH = 2, 0.1
# Iterations on the model of a dual step, and its damping. After 30 on CoNLL-2000 the first models still had gradients
# at twice their bounds; 60 were as good. The damping is not tuned.
DUAL_ITERATIONS, DUAL_DAMPING = 45, 0.01


class Point(NamedTuple):
    """Weights; the objective, as a sum; the gradient of the sum of losses; losses and entropies of sentences."""

    x: Floats
    value: float
    gradient: Floats
    losses: Floats
    entropies: Floats


class Objective:
    """sum_i loss_i(x) + sum_j (l1_j |x_j| + l2_j x_j^2 / 2), x the weights `on` of features, then those of `steps`."""

    def __init__(self, field: Field, on: Mask, steps: Mask, forms: tuple[Elastic, Elastic]) -> None:
        self.whole, self.rows, self.steps = on, np.flatnonzero(on.any(axis=1)), steps
        self.on, self.features = on[self.rows], int(on.sum())
        self.field = replace(field, tokens=self._inside(field, self.rows))
        counts = self.features, int(steps.sum())
        self.l1, self.l2 = (np.repeat([forms[0][i], forms[1][i]], counts) for i in range(2))

    @staticmethod
    def _inside(field: Field, rows: NDArray[np.int64]) -> Tokens:
        features = int(field.tokens.indices.max(initial=-1)) + 1
        total = max(features, int(rows.max(initial=-1)) + 1)
        return restricted(field.tokens, Blocks(("all",), np.array([0, total])), rows)[0]

    def flat(self, W: Floats, chain: Floats) -> Floats:
        """Return the weights, or their gradients, as one vector."""
        return np.concatenate([W[self.whole], chain[self.steps]])

    def tables(self, x: Floats) -> tuple[Floats, Floats]:
        """Return tables (all features, labels) and (labels + 2, labels), zero at the other weights."""
        W, chain = np.zeros(self.whole.shape), np.zeros(self.steps.shape)
        W[self.whole], chain[self.steps] = x[: self.features], x[self.features :]
        return W, chain

    def _inner(self, x: Floats) -> tuple[Floats, Floats]:
        table, chain = np.zeros(self.on.shape), np.zeros(self.steps.shape)
        table[self.on], chain[self.steps] = x[: self.features], x[self.features :]
        return table, chain

    def at(self, x: Floats) -> Point:
        """Compute everything at x with one pass."""
        found = self.field.at(*self._inner(x))
        g = np.concatenate([found.gradient[self.on], found.chain_gradient[self.steps]])
        return self.point(x, g, found)

    def point(self, x: Floats, g: Floats, found: Expectations) -> Point:
        """Return the point x, from its gradient and the results of a pass."""
        penalty = float(self.l1 @ np.abs(x)) + 0.5 * float(self.l2 @ (x * x))
        return Point(x, float(found.losses.sum()) + penalty, g, found.losses, found.entropies)

    def expectations(self, point: Point) -> Expectations:
        """Return the results of a pass at a point, as tables."""
        return Expectations(point.losses, point.entropies, *self.tables(point.gradient))

    def slopes(self, point: Point) -> Floats:
        """Return the gradient in the orthant of the point, in units of l1 if there is one."""
        slope = orthant(point.x, point.gradient + self.l2 * point.x, self.l1).slope
        return np.asarray(np.abs(slope) / np.where(self.l1 > 0.0, self.l1, 1.0))

    def working(self, point: Point, near: float) -> Mask:
        """Return the weights with gradients above `near` l1, and all of the chain, whose gradients change much."""
        work = np.abs(point.gradient) >= near * self.l1
        work[self.features :] = True
        return np.asarray(work)

    def curvature(self, x: Floats, work: Mask, light: float) -> Curvature:
        """Return the Hessian of the losses at x for some of the weights."""
        table, chain = self._inner(x)
        on, steps = np.zeros_like(self.on), np.zeros_like(self.steps)
        on[self.on], steps[self.steps] = work[: self.features], work[self.features :]
        rows = np.flatnonzero(on.any(axis=1) | table.any(axis=1))
        tokens = self._inside(self.field, rows)
        return Curvature(tokens, (table[rows], chain + self.field.forbidden), on[rows], steps, light)


class Newton(NamedTuple):
    """The point after a step, the next factor, and the gain that the model predicted."""

    point: Point
    factor: float
    gain: float


def newton_step(objective: Objective, at: Point, factor: float, exact: bool) -> Newton:
    """Take a damped step on the model, then steps on the loss with its memory."""
    worst = float(objective.slopes(at).max(initial=0.0))
    light, most = next((light, most) for above, light, most in STAGES if worst >= above)
    l1, work = objective.l1, objective.working(at, NEAR) | (at.x != 0.0)
    H = objective.curvature(at.x, work, 0.0 if exact else light)
    extra = objective.l2[work] + factor * DAMPING
    memory = Memory(Preconditioner(H, extra))
    g = (at.gradient + objective.l2 * at.x)[work]
    until = PART * min(worst, 1.0) * unit_of(objective), most
    found = least(at.x[work], g, l1[work], lambda v: H(v) + extra * v, memory, until)
    d = np.zeros_like(at.x)
    d[work] = found.x - at.x[work]
    now, part = objective.at(at.x + d), 1.0
    ratio = (at.value - now.value) / max(found.gained, 1e-300)
    while now.value > at.value and part > 1e-2:
        part *= 0.5
        now = objective.at(at.x + part * d)
    if ratio < LOW:
        factor = min(CHANGE * factor, FACTORS[1])
    elif ratio > HIGH:
        factor = max(factor / CHANGE, FACTORS[0])
    if now.value > at.value:
        now = at
    elif worst > STAGES[1][0]:
        more = further(objective, now, work, memory, WORTH * found.gained)
        now = min([now, *more], key=lambda point: point.value)
    return Newton(now, factor, found.gained)


def unit_of(objective: Objective) -> float:
    """Return the unit of gradients: the l1 penalty of a weight for the sum of losses, or 1."""
    return float(objective.l1.max(initial=0.0)) or 1.0


def further(objective: Objective, at: Point, work: Mask, memory: Memory, worth: float) -> list[Point]:
    """Return points after steps on the loss itself with the memory of the model, while each gains at least `worth`."""
    points: list[Point] = []
    for _ in range(FURTHER):
        g = (at.gradient + objective.l2 * at.x)[work]
        of = orthant(at.x[work], g, objective.l1[work])
        d = memory.direction(of)
        d[(at.x[work] == 0.0) & (d * of.side < 0.0)] = 0.0
        if float(of.slope @ d) >= 0.0:
            break
        x = at.x.copy()
        x[work] = within(at.x[work], d, of)
        points.append(objective.at(x))
        gained = at.value - points[-1].value
        if gained < worth:
            break
        change = points[-1].gradient - at.gradient + objective.l2 * (x - at.x)
        memory.pairs.append(((x - at.x)[work], change[work]))
        at = points[-1]
    return points


def dual_step(objective: Objective, at: Point, exact: bool) -> Point:
    """Return the nearest point where the model has gradients within l1; for penalties without squares."""
    work = objective.working(at, NEAR_DUAL)
    worst = float((np.abs(at.gradient) / objective.l1).max(initial=1.0)) - 1.0
    H = objective.curvature(at.x, work, 0.0 if exact else STAGES[1][1] if worst > 0.1 else STAGES[2][1])
    extra = np.full(int(work.sum()), DUAL_DAMPING)
    memory = Memory(Preconditioner(H, extra))
    until = 0.03 * worst * unit_of(objective), DUAL_ITERATIONS
    found = least(
        np.zeros(extra.size), at.gradient[work], objective.l1[work], lambda v: H(v) + extra * v, memory, until
    )
    x = at.x.copy()
    x[work] += found.x
    return objective.at(x)
