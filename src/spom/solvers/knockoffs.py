r"""Selection of blocks with a bounded error: a threshold that bounds the share of noise among the kept blocks.

A block and its knockoffs, which carry no information about the targets, are measured in the same way. If the block is
the best of the c + 1, W_m is its lead over the best of its c knockoffs. Otherwise W_m is minus the lead of the best
knockoff over the next best. A block without information is the best of the c + 1 with probability 1 / (c + 1), whatever
the size of W_m. So the blocks below their knockoffs count those that are above by chance. Those with W_m >= T are kept,

    T = min { t > 0 : (1 + #{W_m <= -t}) / c / max(1, #{W_m >= t}) <= rate }.

The expected share of noise among them is at most `rate` (Barber and Candes 2015, "knockoff+", for c = 1). With one
knockoff at least 1 / rate blocks must stand out; with 1 / rate knockoffs a single one may.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spom.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Stated:
    """The guarantee: `differences` are W_m, `threshold` is T, `estimate` is the ratio at T, `copies` is c."""

    rate: float = np.nan
    threshold: float = np.inf
    estimate: float = 0.0
    differences: Floats = field(default_factory=lambda: np.zeros(0))
    copies: int = 1

    @property
    def found(self) -> Ints:
        """The blocks that stand out."""
        return np.flatnonzero(self.differences >= self.threshold)

    def promise(self, what: str) -> str:
        """Return the guarantee in words, about blocks that are called `what`."""
        noise = self.estimate * self.found.size
        return f"false discovery rate at most {self.rate:g}; about {noise:.1f} of the kept {what} may be noise"

    def check_some(self, what: str) -> None:
        """Raise an error if nothing stands out, and say whether anything could have."""
        if self.found.size:
            return
        count, least = self.differences.size, int(np.ceil(round(1.0 / (self.rate * self.copies), 9)))
        why = f"no {what} stand out" if count >= least else f"{count} {what} are too few to stand out"
        raise ValueError(
            f"{why} at a false discovery rate of {self.rate:g}: at least {least} would have to; give a larger rate"
        )


def stated(differences: Floats, rate: float, copies: int = 1) -> Stated:
    """Return the guarantee for these W_m."""
    if not 0.0 < rate < 1.0:
        raise ValueError(f"false_discovery_rate must be between 0 and 1; it is {rate!r}")
    T, estimate = threshold(differences, rate, copies)
    return Stated(rate=rate, threshold=T, estimate=estimate, differences=differences, copies=copies)


def threshold(differences: Floats, rate: float, copies: int = 1) -> tuple[float, float]:
    """Return (T, the estimated rate at T); T is inf if no threshold reaches the rate.

    >>> threshold(np.array([3.0, 2.0, 1.0, -0.5]), 0.5)
    (1.0, 0.3333333333333333)
    >>> threshold(np.array([3.0, 2.0, 1.0, -0.5]), 0.1)
    (inf, 0.0)
    >>> threshold(np.array([3.0, 2.0, 1.0, -0.5]), 0.1, copies=20)
    (0.5, 0.03333333333333333)
    """
    for t in np.unique(np.abs(differences[differences != 0.0])):
        below, above = int((differences <= -t).sum()), int((differences >= t).sum())
        estimate = (1 + below) / copies / max(1, above)
        if estimate <= rate:
            return float(t), float(estimate)
    return np.inf, 0.0


def leads(own: Floats, knockoffs: Floats) -> Floats:
    """Return W of blocks with the sizes `own`, where `knockoffs` has a row per block.

    >>> leads(np.array([3.0, 1.0]), np.array([[1.0, 2.0], [0.5, 4.0]]))
    array([ 1., -3.])
    """
    every = np.sort(np.concatenate([own[:, None], knockoffs], axis=1), axis=1)
    lead: Floats = every[:, -1] - every[:, -2]
    return np.asarray(np.where(own == every[:, -1], lead, -lead))
