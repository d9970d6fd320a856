r"""Penalties of block norms, in the form that a dual solver needs, and the kernel weights that follow from the norms.

Each is a penalty h(b) of b_m = norm(theta_m) that is a minimum over kernel weights,

    h(b) = min over s >= 0 of  sum_m b_m^2 / (2 s_m) + r(s),

so with the scales s fixed, the problem is that of one kernel, sum_m s_m K_m, and theta_m = s_m v_m. `target` gives the
best scales for given norms: repeating this step never increases the objective.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.errors import Unsupported
from spom.penalties import ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2

# A block with a smaller share than this is switched off if its target is smaller still.
LEAST = 1e-5
# Limits of a step, in multiples of the one that never increases the objective, and the factors by which it changes.
SHORTEST, LONGEST, FASTER, SLOWER = 0.3, 12.0, 1.4, 0.5
# A block that comes back starts with this fraction of the largest share.
RETURN = 0.02


class BlockPenalty:
    """strength * h(b): its value, its slopes, its conjugate, and the scales of the blocks; h(t b) = t^degree h(b)."""

    degree = 2.0

    def __init__(self, penalty: Any, count: int) -> None:
        self.strength = float(penalty.strength)
        if self.strength <= 0.0:
            raise Unsupported("the dual needs a penalty with a strength > 0")
        self.count = count
        self.weights = np.ones(count)
        given = getattr(penalty, "weights", None)
        if given is not None:
            self.weights = np.array(given, dtype=np.float64)
            if self.weights.shape != (count,) or not (self.weights > 0).all():
                raise Unsupported(f"the dual needs one weight > 0 for each of the {count} blocks of the penalty")

    def start(self) -> Floats:
        """Return the scales to start with: the same share for all blocks."""
        return self.normalised(np.ones(self.count))

    def value(self, b: Floats) -> float:
        """Return h at the block norms b."""
        raise NotImplementedError  # implemented by each penalty

    def slopes(self, b: Floats) -> Floats:
        """Return the derivative of h in each b_m (on the right, at 0)."""
        raise NotImplementedError  # implemented by each penalty

    def conjugate(self, n: Floats) -> float:
        """Return the supremum over b >= 0 of <n, b> - h(b)."""
        raise NotImplementedError  # implemented by each penalty

    def normalised(self, share: Floats) -> Floats:
        """Return the scales of these shares, which are defined up to a common factor."""
        return share

    def shares(self, scales: Floats) -> Floats:
        """Return the shares of these scales: the inverse of `normalised`."""
        return scales

    def target(self, b: Floats) -> Floats:
        """Return the shares that are best for norms b."""
        return b / self.slopes(b)


class PlainSum(BlockPenalty):
    """strength/2 sum of b_m^2: a single kernel, the sum of all."""

    def value(self, b: Floats) -> float:
        """Return half the strength times the sum of squares."""
        return 0.5 * self.strength * float(b @ b)

    def slopes(self, b: Floats) -> Floats:
        """Return the strength times b."""
        return self.strength * b

    def conjugate(self, n: Floats) -> float:
        """Return the sum of squares over twice the strength."""
        return 0.5 * float(n @ n) / self.strength

    def start(self) -> Floats:
        """Return 1 / strength per block."""
        return np.full(self.count, 1.0 / self.strength)

    def target(self, b: Floats) -> Floats:
        """Return the scales of the start, whatever the norms."""
        return self.start()


class SquaredSum(BlockPenalty):
    """strength (r/2 (sum d_m b_m)^2 + (1-r)/2 sum b_m^2): sparse MKL (r = 1), and its elastic net."""

    def __init__(self, penalty: Any, count: int, ratio: float) -> None:
        super().__init__(penalty, count)
        self.ratio = ratio

    def value(self, b: Floats) -> float:
        """Return the squared sum and the sum of squares, mixed."""
        total = float(self.weights @ b)
        return 0.5 * self.strength * (self.ratio * total * total + (1.0 - self.ratio) * float(b @ b))

    def slopes(self, b: Floats) -> Floats:
        """Return the strength times (r d_m sum + (1-r) b_m)."""
        return self.strength * (self.ratio * self.weights * float(self.weights @ b) + (1.0 - self.ratio) * b)

    def conjugate(self, n: Floats) -> float:
        """Return half the largest (n_m / d_m)^2 over c if r = 1; else find b = (n - d tau) / a by sorting n / d."""
        d, c, a = self.weights, self.strength * self.ratio, self.strength * (1.0 - self.ratio)
        if a == 0.0:
            return 0.5 * float(np.max(n / d, initial=0.0)) ** 2 / c
        order = np.argsort(-n / d)
        x, w = n[order], d[order]
        # a b_m = n_m - d_m tau with tau = c sum d_m b_m, on the blocks for which it is positive.
        tau = np.max(c * np.cumsum(w * x) / (a + c * np.cumsum(w * w)), initial=0.0)
        b = np.maximum(n - d * tau, 0.0) / a
        return float(n @ b) - self.value(b)

    def normalised(self, share: Floats) -> Floats:
        """Return e / (strength (r d^2 + (1-r) e)), with e the shares scaled to sum to 1."""
        e = share / share.sum()
        return np.asarray(e / (self.strength * (self.ratio * self.weights**2 + (1.0 - self.ratio) * e)))

    def shares(self, scales: Floats) -> Floats:
        """Return the shares e of the scales; they sum to 1."""
        s = self.strength * scales
        return np.asarray(self.ratio * self.weights**2 * s / (1.0 - (1.0 - self.ratio) * s))

    def target(self, b: Floats) -> Floats:
        """Return d_m b_m, divided by their sum."""
        part = self.weights * b
        return np.asarray(part / part.sum()) if part.any() else np.full(self.count, 1.0 / self.count)


class Powers(BlockPenalty):
    """strength sum d_m b_m^q, 1 <= q < 2: the group lasso (q = 1) and non-sparse MKL."""

    def __init__(self, penalty: Any, count: int, q: float) -> None:
        super().__init__(penalty, count)
        self.q = self.degree = q

    def value(self, b: Floats) -> float:
        """Return the weighted sum of powers."""
        return self.strength * float(self.weights @ b**self.q)

    def slopes(self, b: Floats) -> Floats:
        """Return strength d q b^(q-1)."""
        return np.asarray(self.strength * self.weights * self.q * b ** (self.q - 1.0))

    def conjugate(self, n: Floats) -> float:
        """Return the supremum: infinite outside the dual ball for q = 1, else attained at the b with slopes n."""
        full = self.strength * self.weights
        if self.q == 1.0:
            return 0.0 if (n <= full).all() else np.inf
        b = (n / (self.q * full)) ** (1.0 / (self.q - 1.0))
        return float(n @ b) - self.value(b)

    def start(self) -> Floats:
        """Return the best scales for norms of 1."""
        return self.target(np.ones(self.count))

    def target(self, b: Floats) -> Floats:
        """b^(2-q) / (strength d q)."""
        return np.asarray(b ** (2.0 - self.q) / (self.strength * self.weights * self.q))


def block_penalty(penalty: Any, count: int) -> BlockPenalty:
    """Return the form of a penalty that the dual needs, for `count` blocks; raise `Unsupported` if there is none."""
    if isinstance(penalty, SquaredL2):
        return PlainSum(penalty, count)
    if isinstance(penalty, SparseMKL):
        return SquaredSum(penalty, count, 1.0)
    if isinstance(penalty, ElasticNetMKL):
        ratio = float(penalty.l1_ratio)
        return SquaredSum(penalty, count, ratio) if ratio > 0.0 else PlainSum(penalty, count)
    if isinstance(penalty, GroupLasso):
        return Powers(penalty, count, 1.0)
    if isinstance(penalty, LqMKL) and penalty.q < 2.0:
        return Powers(penalty, count, float(penalty.q))
    raise Unsupported(
        "solver='frank-wolfe' takes SparseMKL, LqMKL with q < 2, ElasticNetMKL, GroupLasso and SquaredL2, "
        f"not {penalty!r}"
    )


class KernelWeights:
    """Scales s of the blocks, moved towards the best ones for the current norms.

    In the logarithm, a full step takes a share to its target. This alternates between the machine and its kernel: it
    never increases the objective, but is slow if two kernels are nearly as good. A block takes longer steps while it
    keeps its direction, and shorter ones when it turns. A block with a tiny share and a smaller target is switched off.
    It comes back when its gradient exceeds the slope of the penalty.
    """

    def __init__(self, blocks: BlockPenalty) -> None:
        self.blocks = blocks
        self.scales = blocks.start()
        self.pace = np.ones(blocks.count)
        self.before = np.zeros(blocks.count)
        self.moving = not isinstance(blocks, PlainSum) and (blocks.count > 1 or not isinstance(blocks, SquaredSum))
        self._usual = float(blocks.shares(self.scales).max())

    def update(self, norms: Floats) -> bool:
        """Update the scales, given norm(v_m) / N; return whether they changed."""
        if not self.moving:
            return False
        share = self.blocks.shares(self.scales)
        b = self.scales * norms
        target, slopes = self.blocks.target(b), self.blocks.slopes(b)
        on = (share > 0.0) & (target > 0.0)
        way = np.zeros(share.size)
        way[on] = np.log(target[on] / share[on])
        turned = way * self.before < 0.0
        kept = way * self.before > 0.0
        self.pace[kept] = np.minimum(self.pace[kept] * FASTER, LONGEST)
        self.pace[turned] = np.maximum(self.pace[turned] * SLOWER, SHORTEST)
        self.before = way
        new = np.where(on, share * np.exp(np.clip(self.pace * way, -3.0, 3.0)), 0.0)
        new[(new < LEAST * max(self._usual, float(new.max()))) & (norms < slopes)] = 0.0
        back = (new == 0.0) & (norms > slopes * (1.0 + 1e-9))
        new[back] = RETURN * (float(new.max()) or self._usual)
        self.pace[new == 0.0] = 1.0
        if not new.any() and isinstance(self.blocks, SquaredSum):
            return False
        self.scales = self.blocks.normalised(new)
        return True
