"""Rules that build penalties from penalties: conjugate, scaling, translation, Moreau envelope, separable sum.

Plain sums are in `sum.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, as_finite, check_positive
from spom.core.registry import register
from spom.errors import Unsupported
from spom.penalties.base import Penalty, Strength
from spom.penalties.elastic_net import ElasticNet
from spom.penalties.forms import Elastic, NormSum, OwnBlocks, Split
from spom.penalties.group_lasso import GroupLasso
from spom.penalties.l1 import L1
from spom.penalties.l1_ball import L1Ball
from spom.penalties.linf import LInf
from spom.penalties.simplex import Simplex
from spom.penalties.sparse_mkl import SparseMKL
from spom.penalties.squared_l2 import SquaredL2


def times(penalty: Penalty | None, factor: float) -> Penalty | None:
    """factor * penalty: with another strength where it has one, which keeps its compiled prox."""
    if penalty is None or not isinstance(penalty, Strength):
        return None if penalty is None else Scaled(penalty, factor)
    found = copy.copy(penalty)
    found.strength = factor * penalty.strength
    return found


class _Around(Penalty):
    """A penalty around another one, with its traits; each rule defines homogeneity itself."""

    penalty: Penalty

    @property
    def separable(self) -> bool:
        """The same as for the inner penalty."""
        return self.penalty.separable

    @property
    def indicator(self) -> bool:
        """The same as for the inner penalty."""
        return self.penalty.indicator

    @property
    def semigroup(self) -> bool:
        """The same as for the inner penalty."""
        return self.penalty.semigroup

    @property
    def exact(self) -> bool:
        """The same as for the inner penalty."""
        return self.penalty.exact


@register(
    "penalty",
    "conjugate",
    formula=r"\sup_x \langle x, w \rangle - \Omega(x)",
    cost="that of the prox",
    examples=lambda: [
        Conjugate(ElasticNet(1.5)),
        Conjugate(GroupLasso(1.5, 2)),
        Conjugate(SparseMKL(0.5, 3)),
    ],
)
class Conjugate(Penalty):
    """Omega*(y) = sup over x of <x, y> - Omega(x), from the closed form of the inner penalty.

    The prox is Moreau's: w - step prox of Omega by 1/step at w / step.

    >>> Conjugate(L1(1.0)).prox([3.0, -0.5])
    array([ 1. , -0.5])
    """

    def __init__(self, penalty: Penalty) -> None:
        self.penalty = penalty

    @property
    def separable(self) -> bool:
        """A conjugate is separable if the penalty is."""
        return self.penalty.separable

    @property
    def indicator(self) -> bool:
        """The conjugate of a homogeneous function is the indicator of a set."""
        return self.penalty.homogeneous

    @property
    def homogeneous(self) -> bool:
        """The conjugate of the indicator of a set is homogeneous."""
        return self.penalty.indicator

    def _value(self, w: Floats) -> float:
        return self.penalty._conjugate_value(w)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        check_positive(step, "the step of a conjugate", zero=False)
        inner = self.penalty.prox(w / step, 1.0 / step)
        np.subtract(w, step * inner, out=out)

    def conjugate(self) -> Penalty:
        """Return the penalty itself: all penalties of spom are closed and convex."""
        return self.penalty


@register(
    "penalty",
    "scaled",
    formula=r"c\,\Omega(w)",
    cost="that of the prox",
    examples=lambda: [Scaled(L1(0.5), 2.0), Scaled(SparseMKL(0.5, 2), 0.3)],
)
class Scaled(_Around):
    """c Omega(w), c > 0; the prox is that of Omega with the step c step.

    >>> Scaled(L1(0.5), 2.0).prox([3.0, -0.5])
    array([2., 0.])
    """

    def __init__(self, penalty: Penalty, factor: float = 1.0) -> None:
        self.penalty = penalty
        self.factor = factor
        self._check()

    def _check(self) -> None:
        check_positive(self.factor, "factor", zero=False)

    @property
    def homogeneous(self) -> bool:
        """The same as for the inner penalty."""
        return self.penalty.homogeneous

    def _value(self, w: Floats) -> float:
        return self.factor * self.penalty.value(w)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        self.penalty.prox(w, self.factor * step, out=out)

    def elastic(self) -> Elastic | None:
        """Return the inner form times c."""
        inner = self.penalty.elastic()
        return None if inner is None else Elastic(self.factor * inner.l1, self.factor * inner.l2)

    def on_norms(self, count: int) -> Penalty | None:
        """Return the inner form times c."""
        return times(self.penalty.on_norms(count), self.factor)

    def on_rows(self, count: int) -> Penalty | None:
        """Return the inner form times c."""
        return times(self.penalty.on_rows(count), self.factor)

    def split(self, count: int) -> Split | None:
        """Return the inner form times c."""
        elastic, inner = self.elastic(), self.penalty.split(count)
        if elastic is not None or inner is None:
            return super().split(count)
        l1, l2 = inner.elastic
        norms = times(inner.norms, self.factor)
        return None if norms is None else Split(Elastic(self.factor * l1, self.factor * l2), norms)

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the inner form times c."""
        inner = self.penalty.norm_sum(count)
        if inner is None:
            return None
        return inner._replace(strength=self.factor * inner.strength, l2=self.factor * inner.l2)

    def own_blocks(self, shape: tuple[int, ...]) -> OwnBlocks | None:
        """Return those of the inner penalty."""
        inner = self.penalty.own_blocks(shape)
        return None if inner is None else OwnBlocks(inner.groups, Scaled(inner.penalty, self.factor))

    def restrict(self, kept: Ints, size: int) -> Penalty | None:
        """Return the restricted inner penalty times c."""
        inner = self.penalty.restrict(kept, size)
        return None if inner is None else Scaled(inner, self.factor)

    def _conjugate_value(self, y: Floats) -> float:
        return self.factor * self.penalty.conjugate().value(y / self.factor)

    def _max_strength(self, g: Floats) -> float:
        """Return the smallest strength of the inner penalty, divided by c."""
        return self.penalty.max_strength(g) / self.factor


@register(
    "penalty",
    "translated",
    formula=r"\Omega(w - c)",
    cost="that of the prox",
    examples=lambda: [Translated(L1(0.5), np.arange(6.0)), Translated(Simplex(), 2.0)],
)
class Translated(_Around):
    """Omega(w - c); the prox is c + prox of Omega at w - c.

    >>> Translated(L1(1.0), [1.0, 1.0]).prox([3.0, 0.5])
    array([2., 1.])
    """

    def __init__(self, penalty: Penalty, shift: Any = 0.0) -> None:
        self.penalty = penalty
        self.shift = shift

    def _value(self, w: Floats) -> float:
        return self.penalty.value(w - self.shift)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        np.add(self.penalty.prox(w - self.shift, step), self.shift, out=out)

    def skip(self, w: ArrayLike, steps: ArrayLike, out: Floats | None = None) -> Floats:
        """c + the result of the steps at w - c."""
        moved = self.penalty.skip(as_finite(w) - self.shift, steps, out)
        moved += self.shift
        return moved

    def _conjugate_value(self, y: Floats) -> float:
        return self.penalty.conjugate().value(y) + float((y * self.shift).sum())

    def _max_strength(self, g: Floats) -> float:
        raise Unsupported("a translated penalty does not shrink towards zero, so max_strength makes no sense")


@register(
    "penalty",
    "moreau-envelope",
    formula=r"\min_z \Omega(z) + \tfrac{1}{2\mu} \|w - z\|_2^2",
    cost="that of the prox",
    examples=lambda: [
        MoreauEnvelope(L1(0.5), 0.3),
        MoreauEnvelope(LInf(1.0), 2.0),
        MoreauEnvelope(L1Ball(), 1.0),
    ],
)
class MoreauEnvelope(Penalty):
    """env(w) = min over z of Omega(z) + 1/(2 mu) norm2(w - z)^2: smooth, with the same minimisers.

    The prox is w + step/(mu + step) (prox of Omega by (mu + step) at w, minus w).

    >>> MoreauEnvelope(L1(1.0), 1.0).gradient([3.0, -0.5])
    array([ 1. , -0.5])
    """

    def __init__(self, penalty: Penalty, smoothing: float = 1.0) -> None:
        self.penalty = penalty
        self.smoothing = smoothing
        self._check()

    def _check(self) -> None:
        check_positive(self.smoothing, "smoothing", zero=False)

    @property
    def separable(self) -> bool:
        """An envelope is separable if the penalty is."""
        return self.penalty.separable

    def _value(self, w: Floats) -> float:
        z = self.penalty.prox(w, self.smoothing)
        return self.penalty.value(z) + 0.5 / self.smoothing * float(((w - z) ** 2).sum())

    def gradient(self, w: ArrayLike) -> Floats:
        """(w - prox of Omega by mu at w) / mu."""
        a = as_finite(w)
        return np.asarray((a - self.penalty.prox(a, self.smoothing)) / self.smoothing)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        reach = self.smoothing + step
        inner = self.penalty.prox(w, reach)
        np.add(w, step / reach * (inner - w), out=out)

    def _conjugate_value(self, y: Floats) -> float:
        return self.penalty.conjugate().value(y) + 0.5 * self.smoothing * float((y * y).sum())


@register(
    "penalty",
    "separable-sum",
    formula=r"\sum_k \Omega_k(w_{I_k})",
    cost="the sum of the proxes",
    examples=lambda: [
        SeparableSum([(L1(0.5), [0, 2, 4]), (LInf(1.0), [1, 5])]),
        SeparableSum([(SquaredL2(0.5), [0, 1]), (L1Ball(1.0), [2, 3, 4])]),
    ],
)
class SeparableSum(Penalty):
    """The sum of penalties on disjoint parts of a vector, each given as (penalty, indices).

    A coordinate in no part is not penalised.

    >>> SeparableSum([(L1(1.0), [0]), (SquaredL2(1.0), [1])]).prox([3.0, 4.0, 5.0])
    array([2., 2., 5.])
    """

    def __init__(self, parts: Sequence[tuple[Penalty, ArrayLike]]) -> None:
        self.parts = parts
        self._check()

    def _check(self) -> None:
        everything = [np.asarray(indices) for _, indices in self.parts]
        joined = np.concatenate(everything) if everything else np.zeros(0, dtype=np.int64)
        if joined.dtype.kind not in "iu" or (joined.size and joined.min() < 0):
            raise ValueError("the parts must be given by indices >= 0")
        if np.unique(joined).size != joined.size:
            raise ValueError("the parts of a separable sum must not overlap")

    def _pieces(self, w: Floats) -> list[tuple[Penalty, Any]]:
        pieces = [(penalty, np.asarray(indices)) for penalty, indices in self.parts]
        for _, indices in pieces:
            if indices.size and indices.max() >= w.size:
                raise ValueError(f"index {indices.max()} is out of range for {w.size} coordinates")
        return pieces

    @property
    def separable(self) -> bool:
        """Whether every part is separable."""
        return all(penalty.separable for penalty, _ in self.parts)

    @property
    def exact(self) -> bool:
        """Whether every part is exact."""
        return all(penalty.exact for penalty, _ in self.parts)

    def _value(self, w: Floats) -> float:
        flat = w.reshape(-1)
        return sum(penalty.value(flat[indices]) for penalty, indices in self._pieces(w))

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        flat = w.reshape(-1)
        pieces = [(indices, penalty.prox(flat[indices], step)) for penalty, indices in self._pieces(w)]
        np.copyto(out, w)
        for indices, x in pieces:
            out.reshape(-1)[indices] = x

    def _conjugate_value(self, y: Floats) -> float:
        flat = y.reshape(-1).copy()
        total = 0.0
        for penalty, indices in self._pieces(y):
            total += penalty.conjugate().value(flat[indices])
            flat[indices] = 0.0
        return np.inf if flat.any() else total

    def _max_strength(self, g: Floats) -> float:
        raise Unsupported("a separable sum has a strength in each part; ask the parts")
