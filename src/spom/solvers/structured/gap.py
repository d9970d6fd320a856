r"""A certificate for random fields of any structure: a bound on the distance of weights from the optimum.

    P(w) = Omega(w) + mean_i (log Z_i(w) - <w, f(x_i, y_i)>)  >=  mean_i H(q_i) - Omega*(-g(q)),

for any distributions q_i over outputs, g(q) = mean_i (E_q f - f(y_i)). Take q_i = (1 - s) [gold] + s p_i(w): then
g(q) = s g(p), and with pi = p_i(gold), m = 1 - s + s pi,

    H(q_i) = -m log m - s (1 - pi) log s + s (H(p_i) + pi log pi),   H(p_i) = log Z_i - expected score.

s is the largest number in 0..1 for which Omega* is finite: 1 if all weights have a squared penalty. A part without
any penalty would need a gradient of exactly zero: then s and the bound are 0, which carries no information.

With Omega = l1 norm1 + h(norms of blocks), Omega*(g) = h*(norms of the blocks of soft(g, l1)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.penalties.forms import NO_ELASTIC, Elastic
from spom.solvers.structured.structures import block_norms

# Steps of the search for s if an l1 part and a group norm act together: s is accurate to 1e-9.
HALVINGS = 30


class Certificate(NamedTuple):
    """The optimum is between `dual` and `primal`."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """primal - dual."""
        return self.primal - self.dual


class Part(NamedTuple):
    """Rows of weights with their mean gradient, and their penalty: an elastic form, and one of the norms of blocks.

    Block m has the rows starts[m] .. starts[m + 1] - 1; `norms` is None if there is no such penalty.
    """

    weights: Floats
    gradient: Floats
    elastic: Elastic = NO_ELASTIC
    norms: Any = None
    starts: Ints = np.zeros(0, dtype=np.int64)

    def value(self) -> float:
        """Return Omega of the weights."""
        w, (l1, l2) = self.weights, self.elastic
        sizes = l1 * float(np.abs(w).sum()) if l1 > 0.0 else 0.0
        squares = 0.5 * l2 * float(np.vdot(w, w)) if l2 > 0.0 else 0.0
        blocks = 0.0 if self.norms is None else float(self.norms.value(block_norms(w, self.starts)))
        return sizes + squares + blocks

    def scale(self) -> float:
        """Return the largest s in 0..1 for which the conjugate at s times the gradient is finite."""
        l1, l2 = self.elastic
        if self.norms is None:
            most = float(np.abs(self.gradient).max(initial=0.0))
            return 1.0 if l2 > 0.0 or most <= l1 else l1 / most
        if not self.norms.homogeneous or l2 > 0.0:
            return 1.0
        if l1 == 0.0:
            needed = self._needed(1.0)
            return 1.0 if needed <= self.norms.strength else self.norms.strength / needed
        low, high = 0.0, 1.0
        if self._needed(1.0) <= self.norms.strength:
            return 1.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._needed(middle) <= self.norms.strength else (low, middle)
        return low

    def _needed(self, s: float) -> float:
        """Return the strength of the norms that s times the gradient needs."""
        return float(self.norms.max_strength(block_norms(soft(s * self.gradient, self.elastic.l1), self.starts)))

    def conjugate(self, s: float) -> float:
        """Return Omega* at s times the gradient, with s at most `scale()`."""
        l1, l2 = self.elastic
        if self.norms is None:
            over = soft(s * self.gradient, l1)
            return float(np.vdot(over, over)) / (2.0 * l2) if l2 > 0.0 else 0.0
        if self.norms.homogeneous:
            return 0.0
        return float(self.norms.conjugate().value(block_norms(soft(s * self.gradient, l1), self.starts)))


def soft(g: Floats, cut: float) -> Floats:
    """sign(g) max(|g| - cut, 0)."""
    return g - np.clip(g, -cut, cut) if cut > 0.0 else g


def mixed_entropy(losses: Floats, entropies: Floats, s: float) -> Floats:
    """H((1 - s) [gold] + s p) of each output, from -log p(gold) and the entropy of p."""
    pi = np.exp(-losses)
    m = 1.0 - s + s * pi
    own = -pi * losses
    logs = np.log(np.where(m > 0.0, m, 1.0))
    return np.asarray(-m * logs - (s * (1.0 - pi) * np.log(s) if s > 0.0 else 0.0) + s * (entropies + own))


def certify(losses: Floats, entropies: Floats, parts: list[Part]) -> Certificate:
    """Return bounds on the optimum from the losses and entropies of all outputs, and the parts of the weights.

    >>> import numpy as np
    >>> part = Part(np.zeros((1, 2)), np.array([[0.5, -0.5]]), Elastic(0.5, 0.0))
    >>> certify(np.log([2.0]), np.log([2.0]), [part]).gap
    0.0
    """
    count = max(1, losses.size)
    s = min([1.0, *(part.scale() for part in parts)])
    primal = float(losses.sum()) / count + sum(part.value() for part in parts)
    dual = float(mixed_entropy(losses, entropies, s).sum()) / count - sum(part.conjugate(s) for part in parts)
    return Certificate(primal, dual)
