"""Lemma 2 of SPOM: conditions under which one proximal step per term of a sum is valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats


@dataclass(frozen=True)
class Splitting:
    """Which conditions of Lemma 2 hold for a sum of penalties in a given order.

    `convex` is (i). `shrinks` is (ii): no later prox increases an earlier term. `projects` is (iii): the projection
    does not increase the sum. `exact` says that the steps in this order are the prox of the sum. Conditions (ii) and
    (iii) are tested at random points and steps: `broken` lists the failures. An empty one is evidence, not a proof.
    """

    convex: bool
    shrinks: bool
    projects: bool
    exact: bool
    broken: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no condition of the lemma was found to be violated."""
        return self.convex and self.shrinks and self.projects


def lemma2(penalty: Any, size: int, projection: Any = None, points: int = 200, seed: int = 0) -> Splitting:
    """Test the conditions of Lemma 2 for a penalty, term by term in its own order, on vectors of `size` entries.

    >>> from spom.penalties import L1, Box, GroupLasso, L2Ball, Sum
    >>> lemma2(Sum([L1(0.5), GroupLasso(1.0, groups=2)]), 6, L2Ball(3.0)).holds
    True
    >>> found = lemma2(Sum([L1(0.5), Box(1.0, 2.0)]), 6)
    >>> found.holds, found.broken[0][:33]
    (False, 'the prox of Box(lower=1.0, upper=')
    """
    terms = list(getattr(penalty, "ordered", None) or getattr(penalty, "terms", None) or [penalty])
    random = np.random.default_rng(seed)
    convex = all(bool(term.convex) for term in terms)
    later, projected = set[str](), set[str]()
    for _ in range(points):
        w = random.standard_normal(size) * 10.0 ** random.uniform(-2, 2)
        step = 10.0 ** random.uniform(-3, 2)
        later |= _later_proxes(terms, w, step)
        if projection is not None:
            before, after = penalty.value(w), penalty.value(projection.prox(w))
            if after > _slack(before):
                projected.add(f"projecting onto {projection!r} increases the penalty")
    broken = (*sorted(later), *sorted(projected))
    return Splitting(convex, not later, not projected, bool(getattr(penalty, "exact", True)), broken)


def _later_proxes(terms: list[Any], w: Floats, step: float) -> set[str]:
    """Return descriptions of the pairs of terms where the later term's prox increases the earlier term."""
    found = set()
    for j, term in enumerate(terms):
        moved = term.prox(w, step)
        for earlier in terms[:j]:
            if earlier.value(moved) > _slack(earlier.value(w)):
                found.add(f"the prox of {term!r} increases {earlier!r}")
    return found


def _slack(value: float) -> float:
    return value + 1e-9 * (1.0 + abs(value))
