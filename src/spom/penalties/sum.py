"""Sums of penalties: exact where proxes in a known order give the prox of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.registry import register
from spom.errors import Unsupported
from spom.penalties.base import NO_REALS, Penalty, zero_threshold
from spom.penalties.box import Box
from spom.penalties.elastic_net import ElasticNet
from spom.penalties.forms import Elastic, NormSum, OwnBlocks, Split
from spom.penalties.group_lasso import GroupLasso
from spom.penalties.group_linf import GroupLInf
from spom.penalties.l1 import L1
from spom.penalties.l2_ball import L2Ball
from spom.penalties.linf import LInf
from spom.penalties.polyhedra import Polyhedron, stacked
from spom.penalties.sparse_mkl import SparseMKL
from spom.penalties.squared_l1 import SquaredL1
from spom.penalties.squared_l2 import SquaredL2
from spom.penalties.zero import Zero


@register(
    "penalty",
    "sum",
    formula=r"\sum_j \Omega_j(w)",
    cost="the sum of the proxes",
    examples=lambda: [
        Sum([L1(0.3), SquaredL2(0.5)]),
        Sum([GroupLasso(0.4, 2), L1(0.3)]),
        Sum([SquaredL1(0.4), L1(0.3), SquaredL2(0.7)]),
        Sum([LInf(0.5), L1(0.2)]),
        Sum([L2Ball(1.0), L1(0.2), GroupLInf(0.3, 3)]),
        Sum([Box(0.0, 2.0), ElasticNet(0.5)]),
        Sum([L1(0.2), SparseMKL(0.4, 2), SquaredL2(0.1)]),
        Sum([SparseMKL(0.4, 3), GroupLasso(0.2, 2)]),
        Sum([]),
    ],
)
class Sum(Penalty):
    """The sum of any penalties. `exact` tells whether `prox` is the prox of the sum; `ordered` has the order of proxes.

    Exact sums are: squared l2 with anything exact (it only rescales the problem); l1, then any one of l-inf, group,
    tree, squared l1, MKL and lq penalties or the l1 ball; homogeneous penalties, then l2 or the l2 ball;
    separable penalties, then a box or the l-inf ball. Any other sum applies the proxes in the given
    order: Alg. 1 of Martins et al. 2011 with J > 1, which is not the prox of the sum.

    >>> Sum([SquaredL2(1.0), L1(1.0)]).prox([3.0, -0.5])
    array([1., 0.])
    """

    def __init__(self, terms: Sequence[Penalty] = ()) -> None:
        self.terms = terms
        self._check()

    def _check(self) -> None:
        for term in self.terms:
            if not hasattr(term, "prox"):
                raise ValueError(f"a sum takes penalties; {term!r} has no prox")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return `terms`, and with `deep` the parameters of term j as `j__name`."""
        found: dict[str, Any] = {"terms": self.terms}
        if deep:
            for j, term in enumerate(self.terms):
                found.update({f"{j}__{k}": v for k, v in term.get_params(deep=True).items()})
        return found

    def _assign(self, params: dict[str, Any]) -> None:
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                self.terms[int(outer)].set_params(**{inner: value})
            else:
                self.terms = value

    # --- the plan ----------------------------------------------------------------------------------

    def _flat(self) -> list[Penalty]:
        found: list[Penalty] = []
        for term in self.terms:
            found.extend(term._flat() if isinstance(term, Sum) else [term])
        return [term for term in found if not isinstance(term, Zero)]

    def _plan(self) -> tuple[bool, list[Penalty], float]:
        """Return (exact, the terms in order without their squared l2 parts, the strength of squared l2)."""
        ridge = 0.0
        rest: list[Penalty] = []
        for term in self._flat():
            elastic = term.elastic()
            if elastic is None:
                rest.append(term)
                continue
            ridge += elastic.l2
            if elastic.l1 > 0.0:
                rest.append(L1(elastic.l1))
        order = _exact_order(rest)
        return order is not None, rest if order is None else order, ridge

    @property
    def exact(self) -> bool:
        """Whether `prox` is the prox of the sum."""
        return self._plan()[0]

    @property
    def ordered(self) -> list[Penalty]:
        """The terms in the order in which their proxes are applied, squared l2 last."""
        _, order, ridge = self._plan()
        return [*order, SquaredL2(ridge)] if ridge else order

    @property
    def separable(self) -> bool:
        """Whether every term is separable."""
        return all(term.separable for term in self.terms)

    @property
    def indicator(self) -> bool:
        """Whether every term is an indicator."""
        return bool(self.terms) and all(term.indicator for term in self.terms)

    @property
    def homogeneous(self) -> bool:
        """Whether every term is homogeneous."""
        return all(term.homogeneous for term in self.terms)

    @property
    def semigroup(self) -> bool:
        """Whether the sum has one term, which is a semigroup."""
        flat = self._flat()
        return len(flat) == 1 and flat[0].semigroup

    # --- forms -------------------------------------------------------------------------------------

    def elastic(self) -> Elastic | None:
        """Return the sum of the terms' forms."""
        l1 = l2 = 0.0
        for term in self._flat():
            part = term.elastic()
            if part is None:
                return None
            l1, l2 = l1 + part.l1, l2 + part.l2
        return Elastic(l1, l2)

    def on_norms(self, count: int) -> Penalty | None:
        """Return the sum of the terms' penalties of norms."""
        return self._of_terms([term.on_norms(count) for term in self._flat()])

    def on_rows(self, count: int) -> Penalty | None:
        """Return the sum of the terms' penalties of row norms."""
        return self._of_terms([term.on_rows(count) for term in self._flat()])

    def _of_terms(self, found: list[Penalty | None]) -> Penalty | None:
        terms = [term for term in found if term is not None]
        if len(terms) < len(found) or not self.exact:
            return None
        return _added(terms)

    def split(self, count: int) -> Split | None:
        """Return the sum of the elastic parts, then the single function of norms, which includes squared l2."""
        elastic = self.elastic()
        if elastic is not None:
            return super().split(count)
        parts = [part for part in (term.split(count) for term in self._flat()) if part is not None]
        if len(parts) < len(self._flat()) or not self.exact:
            return None
        l1, l2 = sum(part.elastic.l1 for part in parts), sum(part.elastic.l2 for part in parts)
        norms = _added([*(part.norms for part in parts), SquaredL2(l2)])
        return Split(Elastic(l1, 0.0), norms) if norms.exact else None

    def own_blocks(self, shape: tuple[int, ...]) -> OwnBlocks | None:
        """Return the groups of the terms, if they are all the same; elastic terms need none."""
        found = [term.own_blocks(shape) for term in self._flat()]
        pairs = list(zip(found, self._flat(), strict=True))
        groups = [own.groups for own in found if own is not None]
        if not groups or any(own is None and term.elastic() is None for own, term in pairs):
            return None
        first = groups[0].packed()
        if any(not np.array_equal(first, other.packed()) for other in groups[1:]):
            return None
        return OwnBlocks(groups[0], Sum([term if own is None else own.penalty for own, term in pairs]))

    def restrict(self, kept: Ints, size: int) -> Penalty | None:
        """Return the sum of the restricted terms."""
        found = [term.restrict(kept, size) for term in self.terms]
        terms = [term for term in found if term is not None]
        return Sum(terms) if len(terms) == len(found) else None

    def norm_sum(self, count: int) -> NormSum | None:
        """Return the single sum of norms, with the squared l2 terms."""
        sums = [term.norm_sum(count) for term in self._flat()]
        found = [part for part in sums if part is not None]
        norms = [part for part in found if part.strength > 0.0]
        if len(found) < len(sums) or len(norms) > 1:
            return None
        l2 = sum(part.l2 for part in found)
        return norms[0]._replace(l2=l2) if norms else NormSum(2.0, 0.0, NO_REALS, l2)

    def polyhedron(self, p: int) -> Polyhedron | None:
        """Return the terms' matrices, one below the other."""
        found = [term.polyhedron(p) for term in self.terms]
        parts = [part for part in found if part is not None]
        return stacked(parts, p) if len(parts) == len(found) else None

    # --- the operator ------------------------------------------------------------------------------

    def _value(self, w: Floats) -> float:
        return sum((term.value(w) for term in self.terms), 0.0)

    def _prox(self, w: Floats, step: float, out: Floats) -> None:
        exact, order, ridge = self._plan()
        divisor = 1.0 + step * ridge
        if exact:
            # argmin of 1/2 norm(x - w)^2 + a/2 norm(x)^2 + f(x) is the prox of f / (1 + a) at w / (1 + a).
            np.divide(w, divisor, out=out)
            for term in order:
                term.prox(out, step / divisor, out=out)
        else:
            np.copyto(out, w)
            for term in order:
                term.prox(out, step, out=out)
            out /= divisor

    def _conjugate_value(self, y: Floats) -> float:
        if self.homogeneous and self.exact:
            # y is in the dual ball if and only if the prox is zero; the tolerance allows for rounding.
            return 0.0 if not self.prox(y, 1.0 + 1e-10).any() else np.inf
        ridge = self._plan()[2]
        if ridge > 0 and self.exact:
            # With a quadratic term the supremum is attained at one point, which the prox finds.
            rest = Sum(self._plan()[1])
            x = rest.prox(y / ridge, 1.0 / ridge)
            return float(np.vdot(x, y)) - self._value(x)
        raise Unsupported("the conjugate of this sum has no closed form here")

    def _max_strength(self, g: Floats) -> float:
        """Return the smallest factor of the whole sum at which 0 is optimal."""
        elastic = self.elastic()
        if elastic is not None:
            peak = float(np.abs(g).max(initial=0.0))
            return peak / elastic.l1 if elastic.l1 > 0 else super()._max_strength(g)
        if not (self.homogeneous and self.exact):
            raise Unsupported("max_strength of a sum needs homogeneous terms whose sum has an exact prox")
        return zero_threshold(self, g)


def _added(terms: list[Penalty]) -> Penalty:
    """Return the sum of these terms; a single non-zero term is returned itself."""
    some = [term for term in terms if not isinstance(term, Zero) and getattr(term, "strength", 1.0) != 0.0]
    if len(some) > 1:
        return Sum(some)
    return some[0] if some else Zero()


def _exact_order(terms: list[Penalty]) -> list[Penalty] | None:
    """Return an order of proxes that is the prox of the sum, or None if none is known."""
    if not all(term.exact for term in terms):
        return None
    if len(terms) < 2:
        return terms
    for last in (term for term in terms if term.separable and term.indicator):
        # The sum of a convex function of one number and the indicator of an interval: clip after the prox.
        inner = _exact_order([term for term in terms if term is not last])
        return [*inner, last] if inner is not None and all(term.separable for term in inner) else None
    radial = [term for term in terms if term.radial]
    l1 = [term for term in terms if term.elastic() is not None]
    rest = [term for term in terms if not term.radial and term.elastic() is None]
    if len(rest) > 1 or (rest and l1 and not rest[0].follows_l1):
        return None
    if radial and not all(term.homogeneous for term in (*l1, *rest)):
        return None
    # Balls come last: the results of the others are projected onto them.
    return [*l1, *rest, *sorted(radial, key=lambda term: term.indicator)]
